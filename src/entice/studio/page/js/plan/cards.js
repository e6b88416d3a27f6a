// A card for each policy: what it pays, what it loses, how long the budget lasts.

import { h } from "../dom.js";
import { number, percent, tied } from "../format.js";
import { amount, rounded } from "../money.js";
import { term } from "../tip.js";
import { underBudget } from "./budget.js";
import { POLICIES, seriesOf } from "./example.js";
import { day, roundedUp, runsWithin } from "./words.js";

/**
 * Make the cards, the recommended one first.
 * @param {object} forecast
 * @param {((label: string) => void)|null} create begins a campaign; null: the visitor may not
 */
export function cards(forecast, create) {
  const made = forecast.order.map((p) => makeCard(forecast, forecast.policies[p], create));
  return {
    node: h(
      "div",
      { class: "plan-cards" },
      h(
        "ul",
        { class: "policies" },
        made.map(({ node }) => node),
      ),
      barKey(forecast.plan),
    ),
    /** Answer for another budget where the runs tell; mark what has to be asked for. */
    update: (budget) => made.forEach((card) => card.update(budget)),
  };
}

function makeCard(forecast, policy, create) {
  const { plan } = forecast;
  const { label, recommended } = policy;
  const star = amount(plan.price_of_a_star, plan);
  const spend = fact("spend", "Payments");
  const lost = fact(
    "lost",
    term("Stars lost", "What visitors miss by not getting the best item: the regret."),
  );
  const cost = fact("cost", term("Cost in all", `Payments, and lost stars at ${star} each.`));
  const lasts = fact("lasts", "Budget");
  const leads = fact(
    "leads",
    term("Best item leads", "From then on its average is the best on display, to the end."),
  );
  const launch =
    create &&
    forecast.campaigns[label] &&
    h(
      "button",
      { type: "button", class: "small", on: { click: () => create(label) } },
      "Create this campaign",
      h("span", { class: "visually-hidden" }, `: ${label}`),
    );
  const bar = h(
    "div",
    { class: "cost-bar", role: "img" },
    h("span", { class: "cost-paid" }),
    h("span", { class: "cost-lost" }),
    h("span", { class: "cost-mark" }),
  );
  const node = h(
    "li",
    {
      class: ["card", "policy", recommended && "policy-first"],
      vars: { "--series": `var(--series-${seriesOf(plan, policy)})` },
    },
    h(
      "header",
      null,
      h("h3", null, h("span", { class: "swatch", "aria-hidden": "true" }), label),
      recommended && h("span", { class: "badge badge-good" }, "Recommended"),
      h("p", null, POLICIES[plan.policies[policy.policy_index].kind].words),
    ),
    h("div", { class: "policy-facts" }, spend.node, lost.node, cost.node),
    bar,
    h("div", { class: "policy-foot" }, lasts.node, leads.node),
    launch,
  );

  function update(budget) {
    const exact = budget === (plan.budget ?? null);
    const found = underBudget(policy, budget);
    const typical = (x) => amount(round(x, plan), plan);
    const promised = (x) => amount(roundedUp(x, plan.currency_digits), plan);
    const within = runsWithin(plan.confidence);
    const paid = exact ? policy.spend.q50 : found.spend;
    const most = exact ? policy.spend.at_confidence : found.promise;
    const free = policy.needed.q95 === 0;
    node.classList.toggle("policy-stale", !exact);
    if (launch) launch.disabled = !exact; // a campaign has the budget that was asked about
    spend.tell(
      typical(paid),
      free ? "Nobody is paid." : `${within} stay under ${promised(most)}`,
    );
    lost.tell(
      tied(`${number(Math.round(policy.stars_lost.q50))} ★`),
      tied(`${within} stay under ${number(roundedUp(policy.stars_lost.at_confidence))} ★`),
    );
    cost.tell(
      typical(policy.cost.q50),
      `${within} stay under ${promised(policy.cost.at_confidence)}`,
    );
    drawBar(bar, forecast, policy);
    const gone = exact ? policy.budget_day : found.day;
    lasts.tell(
      lastsUntil(free, budget, gone),
      free || budget === null ? "" : `lasts to the end in ${percent(found.lasts)} of the runs`,
    );
    leads.tell(
      day(policy.lead_day.q50, "never").replace(/^day/, "from day"),
      `wrong at the end in ${percent(policy.stuck)} of the runs`,
    );
  }

  return { node, update };
}

function lastsUntil(free, budget, gone) {
  if (free) return "not touched";
  if (budget === null) return "no limit";
  return gone === null ? "lasts" : `until day ${gone.toLocaleString("en")}`;
}

/** A number with its name; the name stays where it is while the number changes. */
function fact(kind, name) {
  const value = h("strong");
  const note = h("span", { class: "note" });
  return {
    node: h(
      "div",
      { class: `fact fact-${kind}` },
      h("span", { class: "fact-name" }, name),
      value,
      note,
    ),
    tell(text, more) {
      value.textContent = text;
      note.textContent = more;
    },
  };
}

/** Payments solid, lost stars pale, a mark for what may be promised; one scale for all cards. */
function drawBar(bar, forecast, policy) {
  const { plan, policies } = forecast;
  const means = policies.map(({ cost }) => cost.mean);
  const promises = policies
    .map(({ cost }) => cost.at_confidence)
    .filter((x) => x <= 2 * Math.max(...means));
  // One hopeless policy must not squeeze the others.
  const edge = Math.max(...means, ...promises) || 1;
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

/** What the parts of the bars mean, for the eyes: each bar says it in words, too. */
function barKey(plan) {
  const part = (name, words) =>
    h("span", { class: "bar-part" }, h("span", { class: `bar-key cost-${name}` }), words);
  return h(
    "p",
    { class: "note bar-parts", "aria-hidden": "true" },
    "Bars, on one scale:",
    part("paid", "payments on average"),
    part("lost", "lost stars on average"),
    part("mark", `${runsWithin(plan.confidence)} cost less`),
  );
}

function round(x, plan) {
  return x >= 10 ? Math.round(x) : rounded(x, plan);
}
