// All campaigns, each with its budget.

import { get } from "../api.js";
import { h, replace } from "../dom.js";
import { ago, number, percent } from "../format.js";
import { money } from "../money.js";
import { empty, loading } from "../placeholders.js";
import { policyName } from "./labels.js";

const REFRESH = 4000; // milliseconds
const FACTS = ["Offers", "Ratings", "Not rated yet", "Last event"];

/** A badge with the status of a campaign. */
export function statusBadge(status) {
  const tone = { live: "badge-good", paused: "badge-warn", shadow: "badge-accent" }[status];
  return h("span", { class: ["badge", "status", `status-${status}`, tone] }, status);
}

export async function showCampaignList(root, signal) {
  const planLink = h("a", { class: "button", href: "#/plan", hidden: true }, "Plan a campaign");
  const list = h("ul", { class: "campaigns" });
  const content = h("div", null, loading("Loading campaigns …"));
  const cards = new Map();
  replace(root, header(planLink), content);

  async function refresh() {
    const campaigns = await get("/v1/campaigns", { signal });
    planLink.hidden = campaigns.length === 0;
    for (const view of sorted(campaigns)) {
      if (!cards.has(view.id)) {
        cards.set(view.id, makeCard(view));
        list.append(cards.get(view.id).node);
      }
      cards.get(view.id).update(view);
    }
    if (content.firstElementChild !== list) replace(content, campaigns.length ? list : none());
  }

  await refresh();
  // Errors are ignored: the banner reports a lost connection.
  const timer = setInterval(() => refresh().catch(() => {}), REFRESH);
  signal.addEventListener("abort", () => clearInterval(timer));
}

function header(planLink) {
  const lead = "Each campaign pays visitors to try items with few ratings, within a budget.";
  return h(
    "header",
    { class: "screen-head" },
    h("div", null, h("h1", null, "Campaigns"), h("p", { class: "lead" }, lead)),
    planLink,
  );
}

function none() {
  const text = "Plan one first: you see its cost and can create it from the plan.";
  const action = h("a", { class: "button primary", href: "#/plan" }, "Plan a campaign");
  return h("div", { class: "card" }, empty("No campaigns yet", text, action));
}

/** Closed campaigns last; within both groups the last changed first. */
function sorted(campaigns) {
  const closed = ({ status }) => Number(status === "closed");
  return [...campaigns].sort(
    (a, b) => closed(a) - closed(b) || b.changed_at.localeCompare(a.changed_at),
  );
}

function makeCard({ id, spec }) {
  const parts = ["committed", "reserved"].map((name) =>
    h("span", { class: `budget-bar-part budget-bar-${name}` }),
  );
  const bar = h("div", { class: "budget-bar budget-bar-small", role: "img" }, parts);
  const link = h("a", { href: `#/campaign/${id}` });
  const status = h("span");
  const [free, budget, used] = [h("strong"), h("span"), h("span", { class: "note" })];
  const facts = FACTS.map(() => h("dd"));
  const node = h(
    "li",
    { class: "card campaign-card" },
    h(
      "header",
      null,
      h(
        "div",
        null,
        h("h2", null, link),
        h("p", null, `${policyName(spec.policy)}, ${number(spec.arms.length)} items`),
      ),
      status,
    ),
    bar,
    h("p", { class: "campaign-money" }, free, budget, used),
    h(
      "dl",
      { class: "facts" },
      facts.map((dd, i) => h("div", null, h("dt", null, FACTS[i]), dd)),
    ),
  );

  function update(view) {
    const share = (amount) => (view.budget > 0 ? amount / view.budget : 0);
    parts[0].style.setProperty("--share", share(view.committed));
    parts[1].style.setProperty("--share", share(view.reserved));
    const amounts = ["committed", "reserved", "free"].map(
      (name) => `${money(view[name], view)} ${name}`,
    );
    bar.setAttribute("aria-label", amounts.join(", "));
    link.textContent = view.name;
    if (status.textContent !== view.status) replace(status, statusBadge(view.status));
    free.textContent = money(view.free, view);
    budget.textContent = `free of ${money(view.budget, view)}`;
    used.textContent = `${percent(share(view.committed + view.reserved))} used`;
    const values = [number(view.decisions), number(view.ratings), number(view.in_flight)];
    [...values, ago(view.changed_at)].forEach((text, i) => {
      facts[i].textContent = text;
    });
  }

  return { node, update };
}
