// All campaigns, each with its fuel.

import { get } from "../api.js";
import { h, replace } from "../dom.js";
import { ago, number, percent } from "../format.js";
import { money } from "../money.js";
import { empty, loading } from "../state.js";
import { policyName } from "./words.js";

const REFRESH = 4000; // milliseconds
const FACTS = ["Offers", "Ratings", "In flight", "Last event"];

/** What a status is called, with a badge that does not rest on colour. */
export function statusBadge(status) {
  const tone = { live: "badge-good", paused: "badge-warn", shadow: "badge-accent" }[status];
  return h("span", { class: ["badge", "status", `status-${status}`, tone] }, status);
}

export async function showList(root, signal) {
  const another = h("a", { class: "button", href: "#/plan", hidden: true }, "Plan another");
  const list = h("ul", { class: "campaigns" });
  const place = h("div", null, loading("Looking up the campaigns …"));
  const cards = new Map();
  replace(root, head(another), place);

  async function refresh() {
    const campaigns = await get("/v1/campaigns", { signal });
    another.hidden = campaigns.length === 0;
    for (const view of sorted(campaigns)) {
      if (!cards.has(view.id)) {
        cards.set(view.id, makeCard(view));
        list.append(cards.get(view.id).node);
      }
      cards.get(view.id).update(view);
    }
    const content = campaigns.length ? list : none();
    if (place.firstElementChild !== list) replace(place, content);
  }

  await refresh();
  const timer = setInterval(() => refresh().catch(() => {}), REFRESH); // the banner tells of losses
  signal.addEventListener("abort", () => clearInterval(timer));
}

function head(another) {
  const words = "Each pays visitors to try what few have tried, and keeps to its budget.";
  return h(
    "header",
    { class: "screen-head" },
    h("div", null, h("h1", null, "Campaigns"), h("p", { class: "lead" }, words)),
    another,
  );
}

function none() {
  const text = "Ask first what one would cost, and create it from the answer.";
  const action = h("a", { class: "button primary", href: "#/plan" }, "Make a plan");
  return h("div", { class: "card" }, empty("No campaign yet", text, action));
}

/** Those that run before those that are closed, the last to change first. */
function sorted(campaigns) {
  const closed = ({ status }) => Number(status === "closed");
  return [...campaigns].sort(
    (a, b) => closed(a) - closed(b) || b.changed_at.localeCompare(a.changed_at),
  );
}

/** A card is made once; only what has changed in it is written anew. */
function makeCard({ id, spec }) {
  const parts = ["committed", "reserved"].map((name) =>
    h("span", { class: `fuel-part fuel-${name}` }),
  );
  const bar = h("div", { class: "fuel fuel-small", role: "img" }, parts);
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
    const told = ["committed", "reserved", "free"].map(
      (name) => `${money(view[name], view)} ${name}`,
    );
    bar.setAttribute("aria-label", told.join(", "));
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
