// The fuel gauge: what is spent, what is promised, what is left, and how far the pace allows.

import { h } from "../dom.js";
import { percent } from "../format.js";
import { money } from "../money.js";

/** Make a gauge. Returns its node and what brings it up to date. */
export function gauge() {
  const parts = ["committed", "reserved"].map((name) =>
    h("span", { class: `fuel-part fuel-${name}` }),
  );
  const mark = h("span", { class: "fuel-pace", hidden: true }, h("span", null, "pace"));
  const bar = h("div", { class: "fuel", role: "img" }, parts, mark);
  const amounts = Object.fromEntries(
    ["committed", "reserved", "free"].map((name) => [name, h("dd", { id: `amount-${name}` })]),
  );
  const legend = h(
    "dl",
    { class: "fuel-legend" },
    entry("committed", "Committed", "paid to visitors who accepted", amounts),
    entry("reserved", "Reserved", "promised in open offers", amounts),
    entry("free", "Free", "neither spent nor promised", amounts),
  );
  const note = h("p", { class: "note" });

  function update(view) {
    const { budget, committed, reserved, free } = view;
    const share = (amount) => (budget > 0 ? amount / budget : 0);
    parts[0].style.setProperty("--share", share(committed));
    parts[1].style.setProperty("--share", share(reserved));
    for (const [name, node] of Object.entries(amounts))
      node.textContent = money(view[name], view);
    mark.hidden = view.paced === null;
    mark.style.setProperty("--at", share(view.paced ?? 0));
    mark.classList.toggle("fuel-pace-left", share(view.paced ?? 0) > 0.9);
    note.textContent = told(view);
    bar.setAttribute(
      "aria-label",
      `Of ${money(budget, view)}, ${money(committed, view)} is committed, ` +
        `${money(reserved, view)} reserved and ${money(free, view)} free. ` +
        `${note.textContent}`,
    );
  }

  return { node: h("div", { class: "gauge" }, bar, legend, note), update };
}

function entry(name, title, words, amounts) {
  return h(
    "div",
    { class: `fuel-entry fuel-entry-${name}` },
    h("dt", null, title),
    amounts[name],
    h("dd", { class: "note" }, words),
  );
}

function told(view) {
  if (view.status === "closed") return "The campaign is closed: nothing more is spent.";
  if (view.free === 0) return "The budget is spent: visitors get their own choice, unpaid.";
  return view.paced === null
    ? "No pace is set: the policy may spend as fast as it wants to."
    : paced(view);
}

function paced(view) {
  const { paced: allowed, budget, committed, reserved } = view;
  const told =
    `The pace allows ${money(allowed, view)} by now ` +
    `(${percent(budget ? allowed / budget : 0)} of the budget)`;
  const unused = allowed - committed - reserved;
  if (unused <= 0) return `${told}, all of which is used: dearer items wait.`;
  return `${told}; ${money(unused, view)} of that is unused.`;
}
