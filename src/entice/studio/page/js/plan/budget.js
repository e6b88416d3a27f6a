// The effect of a budget on a policy, estimated from the runs without a limit.

import { niceStep } from "../money.js";

/**
 * Estimate how long a budget lasts.
 * @param {object} policy of a forecast
 * @param {number|null} budget null: no limit
 * @returns {{lasts: number, day: number|null, spend: number, promise: number}} the share of runs in
 *   which it lasts to the end; the day on which it is used up in a typical run; the spending of a
 *   typical run; the spending that is not exceeded at the plan's confidence
 */
export function underBudget(policy, budget) {
  const { samples, needed, days } = policy;
  if (budget === null)
    return { lasts: 1, day: null, spend: needed.q50, promise: needed.at_confidence };
  const usedUp = days.needed_q50.findIndex((spent) => spent > budget);
  return {
    lasts: samples.filter((spent) => spent <= budget).length / samples.length,
    day: usedUp < 0 ? null : days.day[usedUp],
    spend: Math.min(budget, needed.q50),
    promise: Math.min(budget, needed.at_confidence),
  };
}

/** The range of the budget slider: up to more than any policy needs. */
export function budgetRange(forecast) {
  const most = Math.max(
    ...forecast.policies.map(({ needed }) => needed.q95),
    forecast.plan.budget ?? 0,
  );
  const end = 1.3 * most || 100;
  const step = Math.max(niceStep(end / 120), 10 ** -forecast.plan.currency_digits);
  return { step, most: step * Math.ceil(end / step) };
}
