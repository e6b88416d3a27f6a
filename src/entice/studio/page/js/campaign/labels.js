// Names of policies, statuses, reasons and states as shown on the screens.

import { h } from "../dom.js";
import { counted, number } from "../format.js";

const POLICIES = {
  ucb: "UCB",
  thompson_sampling: "Thompson sampling",
  alternating_thompson: "Alternating Thompson sampling",
  drift_corrected_thompson: "Drift-corrected Thompson sampling",
  epsilon_greedy: "ε-greedy",
  round_robin_epsilon_greedy: "Round-robin ε-greedy",
  equal_pay: "Equal pay",
  equal_pay_elimination: "Equal-pay elimination",
  moss: "MOSS",
  discounted_ucb: "Discounted UCB",
  sliding_window_ucb: "Sliding-window UCB",
  greedy: "No payments",
};

/** The reasons for offers, in one or two words. */
export const REASONS = {
  explore: "exploration",
  own_choice: "own choice",
  probe: "drift measurement",
  control: "control",
  overlap: "random item",
  limited: "limited",
  paused: "paused",
  holdout: "held out",
};

const MIN_OFFERS = 50; // before which the absence of ratings says nothing
const STATES = { offered: "open", unrated: "accepted, not rated" };

/** The name of a policy, from its table in a campaign's settings. */
export function policyName(policy) {
  return POLICIES[policy.kind] ?? policy.kind;
}

/** Whether a policy permits a probe, which pays some visitors more: equal pay does not. */
export function permitsProbe(policy) {
  return !policy.kind.startsWith("equal_pay");
}

/** The items that are offered, and how many are retired: "5 items, 1 retired". */
export function itemCount({ spec, retired }) {
  const offered = counted(spec.arms.length - retired, "item");
  return retired ? `${offered}, ${number(retired)} retired` : offered;
}

/** The share of accepted offers that get a rating; null as long as there is nothing to go by. */
export function shareWhoRate({ decisions, ratings, share_who_rate: share }) {
  return ratings === 0 && decisions < MIN_OFFERS ? null : share;
}

/** A badge with the status of a campaign. */
export function statusBadge(status) {
  const tone = { live: "badge-good", paused: "badge-warn", shadow: "badge-accent" }[status];
  return h("span", { class: ["badge", "status", `status-${status}`, tone] }, status);
}

/** The reason for an offer, in one or two words. */
export function reasonName(reason) {
  return REASONS[reason] ?? reason;
}

/** The state of an offer, with its rating. */
export function stateName(state, rating = null) {
  return state === "rated" && rating !== null ? `rated ${rating}\u00a0★` : (STATES[state] ?? state);
}

/** The CSS class of a badge with the state of an offer. */
export function stateTone(state) {
  if (state === "accepted" || state === "rated") return "badge-good";
  return state === "offered" ? "badge-warn" : "";
}
