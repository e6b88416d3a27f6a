// The form's initial values, the policies to compare, and the plan to request from the service.

import { parseCurrency, roundToMinor } from "../money.js";
import { SERIES } from "../policy-colours.js";

/** The values of examples/marketplace.toml. */
export const EXAMPLE = {
  arms: 8,
  centre: 4.1,
  width: 0.45,
  visitors_a_day: 300,
  days: 60,
  share_who_rate: 0.3,
  rating_delay: 0, // days, on average
  rating_window: 30, // days
  price_of_a_star: 2,
  currency: "€",
  currency_digits: 0, // entered and sent for a custom currency only
  drift_low: 0,
  drift_high: 1.5,
  acceptance: "some",
  acceptance_midpoint: 0.1,
  acceptance_width: 0.1,
  budget: 500,
  confidence: 0.9,
  policies: ["ucb", "thompson_sampling", "epsilon_greedy", "equal_pay", "greedy"],
  replications: 400,
  seed: 7,
};

/** The policies in the order of the service's defaults. */
export const POLICIES = {
  ucb: {
    name: "UCB",
    table: () => ({ kind: "ucb" }),
    description: "Tries items that might be best, given how few ratings they have.",
  },
  thompson_sampling: {
    name: "Thompson sampling",
    table: () => ({ kind: "thompson_sampling" }),
    description: "Draws a likely rating for each item and tries the best one.",
  },
  epsilon_greedy: {
    name: "ε-greedy (c = 5)",
    table: () => ({ kind: "epsilon_greedy", c: 5 }),
    description: "Tries a random item, less and less often; otherwise the best so far.",
  },
  equal_pay: {
    name: "Equal pay",
    table: (values) => ({ kind: "equal_pay", horizon: expectedRatings(values) }),
    description: "Compares only ratings under equal payments, so that the drift cancels.",
  },
  equal_pay_elimination: {
    name: "Equal-pay elimination",
    table: (values) => ({
      kind: "equal_pay_elimination",
      horizon: Math.max(3, expectedRatings(values)),
    }),
    description: "Pays all remaining items the same, and drops those that are clearly worse.",
  },
  drift_corrected_thompson: {
    name: "Drift-corrected Thompson",
    table: () => ({ kind: "drift_corrected_thompson" }),
    description: "Thompson sampling that estimates the drift and removes it.",
  },
  greedy: {
    name: "No payments",
    table: () => ({ kind: "greedy" }),
    description: "Every visitor chooses the item with the best rating.",
  },
};

/** The horizon of policies that know it: they learn from ratings only. */
function expectedRatings({ visitors_a_day: visitors, days, share_who_rate: share }) {
  return Math.max(1, Math.round(visitors * days * share));
}

/** The number of a policy's colour. */
export function seriesOf(plan, policy) {
  return SERIES[plan.policies[policy.policy_index].kind];
}

/** The currency of the form with its decimals; null if it is not valid. */
export function currencyOf({ currency: input, currency_digits: digits }) {
  const parsed = parseCurrency(input);
  return parsed && { ...parsed, currency_digits: parsed.currency_digits ?? digits };
}

/** The plan to request, from the values of the form. */
export function planOf(values) {
  const currency = currencyOf(values);
  const acceptance =
    values.acceptance === "all"
      ? { kind: "always" }
      : { kind: "logistic", midpoint: values.acceptance_midpoint, width: values.acceptance_width };
  return {
    arms: values.arms,
    spread: { centre: values.centre, width: values.width },
    visitors_a_day: values.visitors_a_day,
    days: values.days,
    share_who_rate: values.share_who_rate,
    rating_delay:
      values.rating_delay > 0 ? { kind: "exponential", mean: values.rating_delay } : 0,
    rating_window: Math.max(1, Math.round(values.rating_window * 86_400)),
    price_of_a_star: values.price_of_a_star,
    ...currency,
    drift: [values.drift_low, values.drift_high],
    acceptance,
    confidence: values.confidence,
    policies: values.policies.map((kind) => POLICIES[kind].table(values)),
    replications: values.replications,
    seed: values.seed,
    ...(values.budget === null ? {} : { budget: roundToMinor(values.budget, currency) }),
  };
}

/** Confidences as numbers of runs. */
export const CONFIDENCES = {
  0.5: "half of all runs",
  0.8: "4 runs in 5",
  0.9: "9 runs in 10",
  0.95: "19 runs in 20",
  0.99: "99 runs in 100",
};

/** A confidence as a number of runs. */
export function runsWithin(confidence) {
  return CONFIDENCES[confidence] ?? `${100 * confidence}\u00a0% of all runs`;
}

/** Round a limit up to two digits, with at most `decimals` decimals, so that it still holds. */
export function roundUp(x, decimals = 2) {
  if (x <= 0) return 0;
  const unit = 10 ** Math.max(Math.floor(Math.log10(x)) - 1, -decimals);
  return Number((Math.ceil(x / unit - 1e-9) * unit).toFixed(decimals));
}

/** A day, or another text if there is none. */
export function day(x, otherwise) {
  return x === null ? otherwise : `day ${x.toLocaleString("en")}`;
}
