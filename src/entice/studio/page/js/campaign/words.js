// Names of policies, reasons and limits, as people read them.

const POLICIES = {
  ucb: "UCB",
  thompson_sampling: "Thompson sampling",
  alternating_thompson: "Alternating Thompson sampling",
  drift_corrected_thompson: "Drift-corrected Thompson sampling",
  epsilon_greedy: "ε-greedy",
  round_robin_epsilon_greedy: "ε-greedy in turn",
  greedy: "No payments",
};

const REASONS = {
  explore: "to explore",
  own_choice: "own choice",
  probe: "by a coin",
  limited: "limited",
  paused: "while paused",
};

const LIMITS = {
  budget: "what is left of the budget",
  pace: "the pace of spending",
  cap_per_offer: "the cap on one offer",
  cap_per_player: "the cap on one visitor",
};

const STATES = {
  offered: "open",
  unrated: "accepted, not rated",
};

/** A policy's name, from its table in a campaign's settings. */
export function policyName(policy) {
  return POLICIES[policy.kind] ?? policy.kind;
}

/** Why an offer was made, in one or two words. */
export function reasonName(reason) {
  return REASONS[reason] ?? reason;
}

/** What an offer could not cost more than. */
export function limitName(limit) {
  return LIMITS[limit] ?? limit;
}

/** What has become of an offer. */
export function stateName(state, rating = null) {
  return state === "rated" && rating !== null ? `rated ${rating}\u00a0★` : (STATES[state] ?? state);
}

/** The class of a badge that says so. */
export function stateTone(state) {
  if (state === "accepted" || state === "rated") return "badge-good";
  return state === "offered" ? "badge-warn" : "";
}
