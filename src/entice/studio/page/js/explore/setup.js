// What is explored: the settings, as an address, and as the study that the service runs.

import { SERIES } from "../series.js";
import { steps } from "../slider.js";

/** The policies that can be switched on, in the order of their colours. */
export const POLICIES = {
  ucb: {
    name: "UCB",
    words: "Gives every item the benefit of the doubt, and shows the one that might be best.",
    symbols: "Highest average + √(2 log t / n), n ratings so far",
    series: SERIES.ucb,
    spec: () => ({ kind: "ucb" }),
  },
  epsilon: {
    name: "ε-greedy",
    words:
      "Now and then shows an item drawn by lot, ever more rarely; otherwise the visitor's own choice.",
    symbols: "By lot with probability min(1, cK / t)",
    series: SERIES.epsilon_greedy,
    spec: (setup) => ({ kind: "epsilon_greedy", c: setup.c }),
  },
  thompson: {
    name: "Thompson",
    words: "Shows an item as often as it may well be the best one.",
    symbols: "Highest draw from N(average, 1 / (n + 1))",
    series: SERIES.thompson_sampling,
    spec: () => ({ kind: "thompson_sampling" }),
  },
  corrected: {
    name: "Drift-corrected",
    words: "Thompson sampling that learns how much gratitude is in paid ratings, and takes it out.",
    symbols: "Ridge regression of ratings on payments x, [x > 0], x²; probes keep it honest",
    series: SERIES.drift_corrected_thompson,
    spec: () => ({ kind: "drift_corrected_thompson" }),
  },
  greedy: {
    name: "Greedy",
    words: "Leaves visitors to themselves. It never pays, and may never find the best item.",
    symbols: "Highest average",
    series: SERIES.greedy,
    spec: () => ({ kind: "greedy" }),
  },
};

/** The kinds of drift: what a payment does to the rating. */
export const DRIFTS = {
  linear: {
    name: "grows with the payment",
    symbols: "b = l · x",
    strength: (l) => `${l} × the payment`,
    spec: ({ l }) => ({ kind: "linear", l }),
  },
  saturating: {
    name: "grows, up to a limit of 0.2",
    symbols: "b = min(l · x, 0.2)",
    strength: (l) => `${l} ×, up to 0.2`,
    spec: ({ l }) => ({ kind: "saturating", l, cap: 0.2 }),
  },
  step: {
    name: "is the same for any payment",
    symbols: "b = l / 5 whenever x > 0; outside the paper's assumption",
    strength: (l) => `+ ${size(l)} points`,
    spec: ({ l }) => ({ kind: "step", size: size(l) }),
  },
  power: {
    name: "grows with its square",
    symbols: "b = l · x²; outside the paper's assumption",
    strength: (l) => `${l} × its square`,
    spec: ({ l }) => ({ kind: "power", l, exponent: 2 }),
  },
  fading: {
    name: "wears off over time",
    symbols: "b = l · 2^(−t / h) · x, h a quarter of the visitors",
    strength: (l) => `${l} × at first`,
    spec: ({ l, horizon }) => ({ kind: "fading", l, half_life: Math.max(1, horizon / 4) }),
  },
  random: {
    name: "differs from visitor to visitor",
    symbols: "b = L · x, L uniform between 0 and 2l",
    strength: (l) => `0 to ${Number((2 * l).toFixed(1))} ×`,
    spec: ({ l }) => ({ kind: "random", lowest: 0, highest: Number((2 * l).toFixed(1)) }),
  },
  negative: {
    name: "is resentment: paid visitors rate lower",
    symbols: "b = −l · x; outside the paper's assumption",
    strength: (l) => `− ${l} × the payment`,
    spec: ({ l }) => ({ kind: "negative", l }),
  },
};

/** A step that bends ratings about as much as the slope l does at the payments that are usual. */
function size(l) {
  return Number((l / 5).toFixed(2));
}

/** What ratings look like. */
export const RATINGS = {
  gaussian: "any number, with scatter",
  bernoulli: "thumbs up or down",
};

/** The axes of the curves. Bounds mostly lie far above the runs: logarithmic axes have room for both. */
export const AXES = { linear: "Linear", log: "Log" };

/** What each slider can be set to. */
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

const BEST = 0.9; // the mean of the best item; the paper's has it, and Bernoulli ones can

/** The paper's own experiment, at the drift of its Figure 3. */
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

/** Worlds worth a look, as changes to the paper's experiment. */
export const STORIES = {
  "The paper": {},
  "No gratitude": { l: 0 },
  "Learn the drift": { l: 3, policies: ["ucb", "thompson", "corrected"] },
  "Thanks for nothing": { drift: "step", l: 1.5, policies: ["ucb", "thompson", "corrected"] },
  "Late ratings": { delay: 500, loss: 0.3 },
  "Where theory speaks": {
    ratings: "bernoulli",
    arms: 3,
    spread: 0.6,
    l: 0.3,
    policies: ["ucb", "thompson"],
    axes: "log",
  },
  "Nobody explores": { l: 0, policies: ["thompson", "greedy"] },
};

/** Read a set-up from an address; what is missing, unknown or out of range is as by default. */
export function fromQuery(query) {
  const setup = { ...DEFAULTS };
  for (const [name, allowed] of Object.entries(VALUES)) {
    const given = Number(query.get(name));
    if (query.get(name) && given >= allowed[0] && given <= allowed.at(-1)) setup[name] = given;
  }
  for (const name of ["arms", "horizon", "delay", "replications"])
    setup[name] = Math.round(setup[name]);
  for (const [name, kinds] of Object.entries({ drift: DRIFTS, ratings: RATINGS, axes: AXES }))
    if (Object.hasOwn(kinds, query.get(name))) setup[name] = query.get(name);
  const chosen = (query.get("policies") ?? "").split(",");
  const known = Object.keys(POLICIES).filter((name) => chosen.includes(name));
  if (known.length) setup.policies = known;
  const seed = Number(query.get("seed"));
  if (query.get("seed") && Number.isSafeInteger(seed) && seed >= 0) setup.seed = seed;
  return setup;
}

/** Write a set-up as an address: all of it, so that it means the same when defaults change. */
export function toQuery(setup) {
  const entries = Object.entries(setup).map(
    ([name, value]) => `${name}=${[value].flat().join(",")}`,
  );
  return `#/explore?${entries.join("&")}`;
}

/** The items' true means, evenly spaced, the best first. */
export function means({ arms, spread }) {
  return Array.from({ length: arms }, (_, i) =>
    Number((BEST - (spread * i) / (arms - 1)).toFixed(6)),
  );
}

/** The study of a set-up, as the service takes it. */
export function toStudy(setup) {
  const arms = { kind: setup.ratings, means: means(setup) };
  if (setup.ratings === "gaussian") arms.std = setup.noise;
  const study = {
    arms,
    policies: setup.policies.map((name) => POLICIES[name].spec(setup)),
    drifts: [DRIFTS[setup.drift].spec(setup)],
    horizon: setup.horizon,
    replications: setup.replications,
    seed: setup.seed,
    checkpoints: 100,
  };
  if (setup.delay || setup.loss) study.players = { delay: setup.delay, loss: setup.loss };
  return study;
}
