// The budget bar: committed, reserved and free money, and the limit set by the pace.

import { h } from "../dom.js";
import { percent } from "../format.js";
import { money } from "../money.js";

/** Make a budget bar. Returns its node and a function that updates it. */
export function budgetBar() {
  const parts = ["committed", "reserved"].map((name) =>
    h("span", { class: `budget-bar-part budget-bar-${name}` }),
  );
  const pace = h("span", { class: "budget-bar-pace", hidden: true }, h("span", null, "pace"));
  const bar = h("div", { class: "budget-bar", role: "img" }, parts, pace);
  const amounts = Object.fromEntries(
    ["committed", "reserved", "free"].map((name) => [name, h("dd", { id: `amount-${name}` })]),
  );
  const legend = h(
    "dl",
    { class: "budget-bar-legend" },
    entry("committed", "Committed", "accepted by visitors", amounts),
    entry("reserved", "Reserved", "promised in open offers", amounts),
    entry("free", "Free", "not used yet", amounts),
  );
  const note = h("p", { class: "note" });

  function update(view) {
    const { budget, committed, reserved, free } = view;
    const share = (amount) => (budget > 0 ? amount / budget : 0);
    parts[0].style.setProperty("--share", share(committed));
    parts[1].style.setProperty("--share", share(reserved));
    for (const [name, node] of Object.entries(amounts)) node.textContent = money(view[name], view);
    pace.hidden = view.paced === null;
    pace.style.setProperty("--at", share(view.paced ?? 0));
    pace.classList.toggle("budget-bar-pace-left", share(view.paced ?? 0) > 0.9);
    note.textContent = explanation(view);
    bar.setAttribute(
      "aria-label",
      `Of ${money(budget, view)}, ${money(committed, view)} is committed, ` +
        `${money(reserved, view)} reserved and ${money(free, view)} free. ` +
        `${note.textContent}`,
    );
  }

  return { node: h("div", null, bar, legend, note), update };
}

function entry(name, title, note, amounts) {
  return h(
    "div",
    { class: `budget-bar-entry budget-bar-entry-${name}` },
    h("dt", null, title),
    amounts[name],
    h("dd", { class: "note" }, note),
  );
}

function explanation(view) {
  if (view.status === "closed") return "The campaign is closed. Nothing more will be spent.";
  if (view.free === 0) return "The budget is used up. Visitors get their own choice, unpaid.";
  if (view.paced === null) return "No pace is set: the policy can spend the budget at any speed.";
  const { paced, budget, committed, reserved } = view;
  const limit =
    `The pace allows ${money(paced, view)} by now ` +
    `(${percent(budget ? paced / budget : 0)} of the budget)`;
  const unused = paced - committed - reserved;
  if (unused <= 0) return `${limit}. All of it is used: larger payments have to wait.`;
  return `${limit}. ${money(unused, view)} of that is unused.`;
}
