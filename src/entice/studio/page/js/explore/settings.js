// The settings of Explore: their values, the address, and the study to run.

import { SERIES } from "../policy-colours.js";
import { steps } from "../slider.js";

/** The policies, in the order of their colours. */
export const POLICIES = {
  ucb: {
    name: "UCB",
    description: "Adds a bonus to items with few ratings, and shows the item with the best sum.",
    symbols: "Highest average + √(2 log t / n), with n ratings so far",
    series: SERIES.ucb,
    spec: () => ({ kind: "ucb" }),
  },
  epsilon: {
    name: "ε-greedy",
    description: "Shows a random item, less and less often; otherwise the visitor's own choice.",
    symbols: "Random with probability min(1, cK / t)",
    series: SERIES.epsilon_greedy,
    spec: (settings) => ({ kind: "epsilon_greedy", c: settings.c }),
  },
  thompson: {
    name: "Thompson",
    description: "Shows an item as often as it is likely to be the best.",
    symbols: "Highest draw from N(average, 1 / (n + 1))",
    series: SERIES.thompson_sampling,
    spec: () => ({ kind: "thompson_sampling" }),
  },
  corrected: {
    name: "Drift-corrected",
    description: "Thompson sampling that estimates the drift in paid ratings and removes it.",
    symbols: "Ridge regression of ratings on payments x, [x > 0], x²; random probes avoid bias",
    series: SERIES.drift_corrected_thompson,
    display: "Visitors see averages without most of the drift.",
    spec: () => ({ kind: "drift_corrected_thompson" }),
  },
  equal: {
    name: "Equal pay",
    description:
      "Compares only ratings given under the same payment, so that the drift cancels. For that, it " +
      "sometimes pays visitors for their own choice.",
    symbols: "Explores while gap < √(2 s² V log(T V / 15)), with fitted gaps and their variance V",
    series: SERIES.equal_pay,
    isEqualPay: true,
    display: "Visitors see fitted averages, from which the drift cancels.",
    spec: (settings) => ({ kind: "equal_pay", horizon: settings.horizon, noise: noise(settings) }),
  },
  elimination: {
    name: "Equal-pay elimination",
    description:
      "Pays all remaining items of a block the same, and drops those that are clearly worse. Its " +
      "losses are proved to grow with log T only, whatever the drift.",
    symbols: "Drops an item that is behind by √(2ρ V log(2σ² T / V)); σ is the noise of ratings",
    series: SERIES.equal_pay_elimination,
    isEqualPay: true,
    display: "Visitors see averages of blocks, from which the drift cancels.",
    spec: (settings) => ({
      kind: "equal_pay_elimination",
      horizon: settings.horizon,
      noise: noise(settings),
    }),
  },
  moss: {
    name: "MOSS",
    description: "UCB that knows the number of visitors, and does not correct for drift.",
    symbols: "Highest average + √(4 log⁺(T / (K n)) / n)",
    series: SERIES.moss,
    spec: (settings) => ({ kind: "moss", horizon: settings.horizon, noise: noise(settings) }),
  },
  greedy: {
    name: "Greedy",
    description: "Visitors choose for themselves. It never pays, and may never find the best item.",
    symbols: "Highest average",
    series: SERIES.greedy,
    spec: () => ({ kind: "greedy" }),
  },
};

/** The standard deviation of ratings: at most ½ if they are 0 or 1. */
function noise(settings) {
  return settings.ratings === "bernoulli" ? 0.5 : settings.noise;
}

/**
 * The kinds of drift: how a payment changes a rating. Most are the same for all visitors: then they
 * cancel between ratings under the same payment.
 */
export const DRIFTS = {
  linear: {
    name: "proportional to the payment",
    symbols: "b = l · x",
    strength: (l) => `${l} × the payment`,
    spec: ({ l }) => ({ kind: "linear", l }),
  },
  saturating: {
    name: "proportional, at most 0.2",
    symbols: "b = min(l · x, 0.2)",
    strength: (l) => `${l} ×, up to 0.2`,
    spec: ({ l }) => ({ kind: "saturating", l, cap: 0.2 }),
  },
  step: {
    name: "the same for any payment",
    symbols: "b = l / 5 whenever x > 0; outside the paper's assumption",
    strength: (l) => `+ ${stepSize(l)} points`,
    spec: ({ l }) => ({ kind: "step", size: stepSize(l) }),
  },
  power: {
    name: "with the square of the payment",
    symbols: "b = l · x²; outside the paper's assumption",
    strength: (l) => `${l} × the payment²`,
    spec: ({ l }) => ({ kind: "power", l, exponent: 2 }),
  },
  fading: {
    name: "fading over time",
    symbols: "b = l · 2^(−t / h) · x, where h is a quarter of the visitors",
    strength: (l) => `${l} × at first`,
    varies: true,
    spec: ({ l, horizon }) => ({ kind: "fading", l, half_life: Math.max(1, horizon / 4) }),
  },
  random: {
    name: "different for each visitor",
    symbols: "b = L · x, L uniform between 0 and 2l",
    strength: (l) => `0 to ${Number((2 * l).toFixed(1))} ×`,
    varies: true,
    spec: ({ l }) => ({ kind: "random", lowest: 0, highest: Number((2 * l).toFixed(1)) }),
  },
  negative: {
    name: "negative: paid visitors rate lower",
    symbols: "b = −l · x; outside the paper's assumption",
    strength: (l) => `− ${l} × the payment`,
    spec: ({ l }) => ({ kind: "negative", l }),
  },
};

/** A step that changes ratings about as much as slope l does at typical payments. */
function stepSize(l) {
  return Number((l / 5).toFixed(2));
}

/** The kinds of ratings. */
export const RATINGS = {
  gaussian: "numbers, normally distributed",
  bernoulli: "thumbs up or down",
};

/** Bounds are often far above the runs: logarithmic axes show both. */
export const AXES = { linear: "Linear", log: "Log" };

/** The values of each slider. */
export const VALUES = {
  l: steps(0, 5, 0.1),
  arms: steps(2, 20, 1),
  spread: steps(0.05, 0.9, 0.05),
  noise: steps(0.1, 2, 0.1),
  horizon: [500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000],
  c: [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 400],
  delay: [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000],
  loss: steps(0, 0.9, 0.05),
  replications: [100, 200, 500, 1000, 2000],
};

const BEST = 0.9; // the mean of the best item, as in the paper; also valid for Bernoulli rewards

/** The paper's experiment with the drift of its Figure 3. */
export const DEFAULTS = Object.freeze({
  policies: ["ucb", "epsilon", "thompson"],
  drift: "linear",
  l: 1.1,
  ratings: "gaussian",
  arms: 9,
  spread: 0.8,
  noise: 1,
  horizon: 20000,
  c: 5,
  delay: 0,
  loss: 0,
  replications: 1000,
  seed: 7,
  axes: "linear",
});

/** Presets, as changes to the paper's experiment. */
export const PRESETS = {
  "The paper": {},
  "No drift": { l: 0 },
  "Equal pay": { l: 3, policies: ["ucb", "thompson", "equal"] },
  "Correct the drift": { l: 3, policies: ["ucb", "thompson", "corrected"] },
  "Fixed drift": { drift: "step", l: 1.5, policies: ["ucb", "thompson", "corrected"] },
  "Late ratings": { delay: 500, loss: 0.3 },
  "Useful bounds": {
    ratings: "bernoulli",
    arms: 3,
    spread: 0.6,
    l: 0.3,
    policies: ["ucb", "thompson"],
    axes: "log",
  },
  "No exploration": { l: 0, policies: ["thompson", "greedy"] },
};

/** Read the settings from an address. Missing and invalid values get their defaults. */
export function fromQuery(query) {
  const settings = { ...DEFAULTS };
  for (const [name, allowed] of Object.entries(VALUES)) {
    const value = Number(query.get(name));
    if (query.get(name) && value >= allowed[0] && value <= allowed.at(-1)) settings[name] = value;
  }
  for (const name of ["arms", "horizon", "delay", "replications"])
    settings[name] = Math.round(settings[name]);
  for (const [name, kinds] of Object.entries({ drift: DRIFTS, ratings: RATINGS, axes: AXES }))
    if (Object.hasOwn(kinds, query.get(name))) settings[name] = query.get(name);
  const chosen = (query.get("policies") ?? "").split(",");
  const known = Object.keys(POLICIES).filter((name) => chosen.includes(name));
  if (known.length) settings.policies = known;
  const seed = Number(query.get("seed"));
  if (query.get("seed") && Number.isSafeInteger(seed) && seed >= 0) settings.seed = seed;
  return settings;
}

/** The address of some settings: all values, so that it does not depend on the defaults. */
export function toQuery(settings) {
  const entries = Object.entries(settings).map(
    ([name, value]) => `${name}=${[value].flat().join(",")}`,
  );
  return `#/explore?${entries.join("&")}`;
}

/** The true means of the items, evenly spaced, the best first. */
function means({ arms, spread }) {
  return Array.from({ length: arms }, (_, i) =>
    Number((BEST - (spread * i) / (arms - 1)).toFixed(6)),
  );
}

/** The study of some settings, as the service expects it. */
export function toStudy(settings) {
  const arms = { kind: settings.ratings, means: means(settings) };
  if (settings.ratings === "gaussian") arms.std = settings.noise;
  const study = {
    arms,
    policies: settings.policies.map((name) => POLICIES[name].spec(settings)),
    drifts: [DRIFTS[settings.drift].spec(settings)],
    horizon: settings.horizon,
    replications: settings.replications,
    seed: settings.seed,
    checkpoints: 100,
  };
  if (settings.delay || settings.loss) study.players = { delay: settings.delay, loss: settings.loss };
  return study;
}
