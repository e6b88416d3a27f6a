// The budget of a plan: a slider that estimates while it moves, and requests a new forecast when it
// rests. The estimates come from the runs without a limit.

import { h } from "../dom.js";
import { percent } from "../format.js";
import { amount, niceStep, roundToMinor } from "../money.js";

const REST = 350; // milliseconds without a move, also with the keyboard

/**
 * Make the slider.
 * @param {(budget: number|null) => void} onMove called while it moves
 * @param {(budget: number|null) => void} onRest called when it rests
 */
export function budgetSlider(onMove, onRest) {
  const input = h("input", { id: "budget", name: "budget", type: "range" });
  const value = h("output.budget-value", { for: "budget" });
  const unlimited = h("input", { type: "checkbox", id: "no-budget", name: "no-budget" });
  const outcome = h("p.budget-outcome");
  let forecast = null;
  let currency = null; // of the slider's value
  let timer = 0;

  const budget = () =>
    unlimited.checked ? null : roundToMinor(input.valueAsNumber, forecast.plan);

  function showValue() {
    const current = budget();
    const text = current === null ? "no limit" : amount(current, forecast.plan);
    value.textContent = text;
    input.disabled = unlimited.checked;
    input.setAttribute("aria-valuetext", text);
    const { min, max } = input;
    const share = unlimited.checked ? 0 : (input.valueAsNumber - min) / (max - min);
    input.style.setProperty("--share", share);
    outcome.textContent = outcomeText(forecast, current);
  }

  function change() {
    clearTimeout(timer);
    showValue();
    onMove(budget());
    timer = setTimeout(() => onRest(budget()), REST);
  }

  input.addEventListener("input", change);
  unlimited.addEventListener("change", change);

  const node = h(
    "div.budget",
    { hidden: true },
    h("div.budget-head", h("label", { for: "budget" }, "Budget"), value),
    input,
    h("label.check", unlimited, "No limit: show how much is needed"),
    outcome,
  );
  return {
    node,
    stop: () => clearTimeout(timer),
    update(newForecast) {
      forecast = newForecast;
      node.hidden = false;
      const { plan } = forecast;
      const { step, most } = budgetRange(forecast);
      const min = Math.min(step, plan.budget ?? step);
      if (document.activeElement !== input) Object.assign(input, { min, max: most, step });
      unlimited.checked = plan.budget === undefined;
      if (!unlimited.checked) {
        if (plan.budget % step) input.step = "any"; // not a multiple of the step
        input.value = String(plan.budget);
      } else if (plan.currency !== currency) input.value = String(most / 2);
      currency = plan.currency;
      showValue();
    },
  };
}

/** The effect of a budget on the recommended policy. */
function outcomeText(forecast, budget) {
  const policy = forecast.policies[forecast.order[0]];
  if (policy.needed.q95 === 0) return `${policy.label} spends nothing.`;
  const { lasts, day } = underBudget(policy, budget);
  if (budget === null) return `${policy.label} explores without a limit.`;
  const share = `The budget lasts to the end in ${percent(lasts)} of the runs.`;
  if (day === null) return `${policy.label} explores to the end in a typical run. ${share}`;
  return (
    `${policy.label} stops exploring on day ${day.toLocaleString("en")} in a typical run. ` +
    `${share}`
  );
}

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
function budgetRange(forecast) {
  const most = Math.max(
    ...forecast.policies.map(({ needed }) => needed.q95),
    forecast.plan.budget ?? 0,
  );
  const end = 1.3 * most || 100;
  const step = Math.max(niceStep(end / 120), 10 ** -forecast.plan.currency_digits);
  return { step, most: step * Math.ceil(end / step) };
}
