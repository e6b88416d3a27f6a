// A card for each policy: payments, lost stars, how long the budget lasts.

import { h } from "../dom.js";
import { nonBreaking, number, percent } from "../format.js";
import { defined } from "../glossary.js";
import { button, seriesColour, swatch } from "../layout.js";
import { amount, roundToMinor } from "../money.js";
import { underBudget } from "./budget-slider.js";
import { day, POLICIES, roundUp, runsWithin, seriesOf } from "./plan-request.js";

/**
 * Make the cards, the recommended one first.
 * @param {object} forecast
 * @param {((label: string) => void)|null} create creates a campaign; null if not allowed
 */
export function policyCards(forecast, create) {
  const made = forecast.order.map((p) => makeCard(forecast, forecast.policies[p], create));
  return {
    node: h(
      "div.plan-cards",
      h("ul.policies", made.map(({ node }) => node)),
      barKey(forecast.plan),
    ),
    /** Those that create a campaign. */
    buttons: made.flatMap(({ createButton }) => createButton || []),
    /** Show the effect of another budget, as far as the runs of this forecast allow. */
    update: (budget) => made.forEach((card) => card.update(budget)),
  };
}

function makeCard(forecast, policy, create) {
  const { plan } = forecast;
  const { label, recommended } = policy;
  const spend = fact("spend", "Payments");
  const lost = fact("lost", defined("regret"));
  const cost = fact("cost", defined("cost"));
  const lasts = fact("lasts", "Budget");
  const leads = fact("leads", defined("leads"));
  const createButton =
    create &&
    forecast.campaigns[label] &&
    button(
      ["Create this campaign", h("span.visually-hidden", `: ${label}`)],
      () => create(label),
      { class: "small" },
    );
  const bar = h(
    "div.cost-bar",
    { role: "img" },
    h("span.cost-paid"),
    h("span.cost-lost"),
    h("span.cost-mark"),
  );
  const node = h(
    "li",
    {
      class: ["card", "policy", recommended && "policy-first"],
      vars: seriesColour(seriesOf(plan, policy)),
    },
    h(
      "header",
      h("h3", swatch(), label),
      recommended && h("span.badge.badge-good", "Recommended"),
      h("p", POLICIES[plan.policies[policy.policy_index].kind].description),
    ),
    h("div.policy-facts", spend.node, lost.node, cost.node),
    bar,
    h("div.policy-foot", lasts.node, leads.node),
    createButton,
  );

  function update(budget) {
    const exact = budget === (plan.budget ?? null);
    const estimate = underBudget(policy, budget);
    const typical = (x) => amount(round(x, plan), plan);
    const limit = (x) => amount(roundUp(x, plan.currency_digits), plan);
    const within = runsWithin(plan.confidence);
    const paid = exact ? policy.spend.q50 : estimate.spend;
    const most = exact ? policy.spend.at_confidence : estimate.promise;
    const unpaid = policy.needed.q95 === 0;
    node.classList.toggle("policy-stale", !exact);
    if (createButton) createButton.disabled = !exact; // until the forecast has this budget
    spend.set(typical(paid), unpaid ? "No visitor is paid." : `${within} stay under ${limit(most)}`);
    lost.set(
      nonBreaking(`${number(Math.round(policy.stars_lost.q50))} ★`),
      nonBreaking(`${within} stay under ${number(roundUp(policy.stars_lost.at_confidence))} ★`),
    );
    cost.set(typical(policy.cost.q50), `${within} stay under ${limit(policy.cost.at_confidence)}`);
    drawBar(bar, forecast, policy);
    const usedUp = exact ? policy.budget_day : estimate.day;
    lasts.set(
      lastsUntil(unpaid, budget, usedUp),
      unpaid || budget === null ? "" : `to the end in ${percent(estimate.lasts)} of the runs`,
    );
    leads.set(
      day(policy.lead_day.q50, "never").replace(/^day/, "from day"),
      `not at the end in ${percent(policy.stuck)} of the runs`,
    );
  }

  return { node, createButton, update };
}

function lastsUntil(unpaid, budget, usedUp) {
  if (unpaid) return "not used";
  if (budget === null) return "no limit";
  return usedUp === null ? "lasts" : `until day ${usedUp.toLocaleString("en")}`;
}

/** A number with its name and a note. */
function fact(kind, name) {
  const value = h("strong");
  const note = h("span.note");
  return {
    node: h(
      "div",
      { class: `fact fact-${kind}` },
      h("span.fact-name", name),
      value,
      note,
    ),
    set(newValue, newNote) {
      value.textContent = newValue;
      note.textContent = newNote;
    },
  };
}

/** Draw payments, lost stars and a mark at the plan's confidence, on one scale for all cards. */
function drawBar(bar, forecast, policy) {
  const { plan, policies } = forecast;
  const means = policies.map(({ cost }) => cost.mean);
  // One very expensive policy must not compress the bars of the others.
  const marks = policies
    .map(({ cost }) => cost.at_confidence)
    .filter((x) => x <= 2 * Math.max(...means));
  const edge = Math.max(...means, ...marks) || 1;
  const [paid, lost, mark] = bar.children;
  paid.style.setProperty("--share", policy.spend.mean / edge);
  lost.style.setProperty("--share", (policy.cost.mean - policy.spend.mean) / edge);
  mark.hidden = policy.cost.at_confidence > edge;
  mark.style.setProperty("--at", policy.cost.at_confidence / edge);
  const money = (x) => amount(round(x, plan), plan);
  const payments = `${money(policy.spend.mean)} in payments`;
  const stars = `${money(policy.cost.mean - policy.spend.mean)} in lost stars`;
  const most = `${runsWithin(plan.confidence)} cost less than ${money(policy.cost.at_confidence)}`;
  bar.setAttribute("aria-label", `On average ${payments} and ${stars}; ${most}.`);
}

/** The key of the bars; hidden from screen readers, since each bar has a label. */
function barKey(plan) {
  const part = (name, text) =>
    h("span.bar-part", h("span", { class: `bar-key cost-${name}` }), text);
  return h(
    "p.note.bar-parts",
    { "aria-hidden": "true" },
    "Numbers: the median run. Bars:",
    part("paid", "mean payments"),
    part("lost", "mean cost of lost stars"),
    part("mark", `${runsWithin(plan.confidence)} cost less`),
  );
}

function round(x, plan) {
  return x >= 10 ? Math.round(x) : roundToMinor(x, plan);
}
