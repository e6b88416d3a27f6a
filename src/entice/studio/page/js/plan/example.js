// What the screen begins with: examples/marketplace.toml, and what may be compared.

import { readCurrency, rounded } from "../money.js";
import { SERIES } from "../series.js";

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
  currency_digits: 0, // asked for, and sent, only where the currency is of one's own
  drift_low: 0,
  drift_high: 1.5,
  takers: "some",
  midpoint: 0.1,
  differ: 0.1,
  budget: 500,
  confidence: 0.9,
  policies: ["ucb", "thompson_sampling", "epsilon_greedy", "greedy"],
  replications: 400,
  seed: 7,
};

export const POLICIES = {
  ucb: {
    name: "UCB",
    table: { kind: "ucb" },
    words: "Tries what might be best, given how little is known of it.",
  },
  thompson_sampling: {
    name: "Thompson sampling",
    table: { kind: "thompson_sampling" },
    words: "Draws a likely value for each item, and tries the best draw.",
  },
  epsilon_greedy: {
    name: "ε-greedy (c = 5)",
    table: { kind: "epsilon_greedy", c: 5 },
    words: "Tries an item at random, ever more rarely; else the best so far.",
  },
  drift_corrected_thompson: {
    name: "Drift-corrected Thompson",
    table: { kind: "drift_corrected_thompson" },
    words: "Thompson sampling that learns the drift and takes it out.",
  },
  greedy: {
    name: "No payments",
    table: { kind: "greedy" },
    words: "Everyone takes what looks best.",
  },
};

/** The colour of a policy of a plan, as its series. */
export function seriesOf(plan, policy) {
  return SERIES[plan.policies[policy.policy_index].kind];
}

/** The currency that the form says, with its decimals; null if it can't be one. */
export function currencyOf({ currency: written, currency_digits: stated }) {
  const found = readCurrency(written);
  return found && { ...found, currency_digits: found.currency_digits ?? stated };
}

/** The plan that the service is asked for, from what the form says. */
export function planOf(values) {
  const currency = currencyOf(values);
  const acceptance =
    values.takers === "all"
      ? { kind: "always" }
      : { kind: "logistic", midpoint: values.midpoint, width: values.differ };
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
    policies: values.policies.map((kind) => POLICIES[kind].table),
    replications: values.replications,
    seed: values.seed,
    ...(values.budget === null ? {} : { budget: rounded(values.budget, currency) }),
  };
}
