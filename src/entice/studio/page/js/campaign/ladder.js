// The ladder of arms: who shows what, how sure that is, and what is still under way.

import { h, replace, svg } from "../dom.js";
import { counted, number, stars } from "../format.js";

const SHOWN = 20; // arms, before the visitor asks for all

/** Make a ladder. Returns its node and what brings it up to date. */
export function ladder() {
  const rungs = new Map(); // by arm
  const list = h("ol", { class: "ladder" });
  const axis = h("div", { class: "ladder-axis", "aria-hidden": "true" });
  const more = h("button", { type: "button", class: "small", hidden: true });
  let all = false;
  let last = null;
  more.addEventListener("click", () => {
    all = !all;
    update(...last);
  });

  function update(arms, corrected, spec) {
    last = [arms, corrected, spec];
    const { lowest_rating: low, highest_rating: high } = spec;
    if (!axis.childElementCount) replace(axis, ticks(low, high));
    const order = [...arms].sort((a, b) => a.retired - b.retired || b.shown - a.shown);
    const visible = all ? order : order.slice(0, SHOWN);
    const before = new Map([...rungs].map(([id, rung]) => [id, rung.node.offsetTop]));
    for (const arm of visible) {
      if (!rungs.has(arm.id)) rungs.set(arm.id, makeRung(arm.id));
      rungs.get(arm.id).update(arm, corrected.get(arm.id) ?? null, low, high);
    }
    place(
      list,
      visible.map(({ id }) => rungs.get(id).node),
    );
    for (const { id } of visible) slide(rungs.get(id).node, before.get(id));
    more.hidden = order.length <= SHOWN;
    more.textContent = all ? `Show the first ${SHOWN}` : `Show all ${number(order.length)}`;
  }

  return { node: h("div", { class: "ladder-wrap" }, axis, list, more), update };
}

/** Where the marks mean something else than they seem to: said once, below the ladder. */
export function ladderKey(corrected) {
  const item = (name, words) =>
    h("li", null, h("span", { class: `key-mark ${name}`, "aria-hidden": "true" }), words);
  return h(
    "ul",
    { class: "ladder-key note" },
    item("key-dot", "average of its ratings"),
    item("key-range", "where the true average lies, at least 19 times in 20"),
    corrected && item("key-ghost", "the average with the drift taken out"),
    h("li", null, crown(), "what a visitor picks unpaid"),
  );
}

function makeRung(id) {
  const name = h("span", { class: "rung-name" }, id);
  const range = h("span", { class: "rung-range" });
  const ghost = h("span", { class: "rung-ghost" });
  const dot = h("span", { class: "rung-dot" });
  const track = h("div", { class: "rung-track", "aria-hidden": "true" }, range, ghost, dot);
  const value = h("span", { class: "rung-value" });
  const count = h("span", { class: "rung-counts note" });
  const head = h("span", { class: "rung-head" }, crown(), name);
  const said = h("span", { class: "visually-hidden" });
  const node = h("li", { class: "rung" }, head, track, value, count, said);

  function update(arm, corrected, low, high) {
    const at = (x) => Math.min(1, Math.max(0, (x - low) / (high - low)));
    const { average } = arm;
    node.classList.toggle("rung-greedy", arm.greedy);
    node.classList.toggle("rung-retired", arm.retired);
    node.classList.toggle("rung-unrated", average === null);
    node.classList.toggle("rung-overdue", arm.overdue_first_rating);
    dot.style.setProperty("--at", at(average ?? arm.shown));
    range.hidden = average === null;
    range.style.setProperty("--from", at(arm.low));
    range.style.setProperty("--to", at(arm.high));
    ghost.hidden = corrected === null;
    if (!ghost.hidden) ghost.style.setProperty("--at", at(corrected));
    value.textContent = stars(average ?? arm.shown);
    count.textContent = counts(arm);
    node.title = told(arm, corrected);
    said.textContent = node.title;
  }

  return { node, update };
}

function counts(arm) {
  const rated = ["no rating yet", "1 rating"][arm.rated] ?? `${number(arm.rated)} ratings`;
  if (arm.retired) return `${rated} · retired`;
  if (arm.overdue_first_rating) return `no rating after ${counted(arm.offered, "offer")}`;
  return arm.in_flight ? `${rated} · ${expected(arm)}` : rated;
}

/** How many of the ratings that may still come are expected to. */
function expected(arm) {
  const about = arm.expected < 9.5 ? arm.expected.toFixed(1) : number(Math.round(arm.expected));
  return `${about} expected`;
}

function told(arm, corrected) {
  const parts = [];
  if (arm.average === null) parts.push(`No rating yet, so it shows ${stars(arm.shown)}.`);
  else
    parts.push(
      `Average ${stars(arm.average)}; the true one lies between ${stars(arm.low)} and ` +
        `${stars(arm.high)}.`,
    );
  if (arm.average !== null && Math.abs(arm.shown - arm.average) > 0.005)
    parts.push(`Visitors see ${stars(arm.shown)}.`);
  if (corrected !== null) parts.push(`Without the drift ${stars(corrected)}.`);
  if (arm.greedy) parts.push("Visitors pick it unpaid.");
  if (arm.in_flight)
    parts.push(
      `${counted(arm.in_flight, "offer")} may still be rated: ${expected(arm)}, given their age.`,
    );
  if (arm.overdue_first_rating)
    parts.push(
      "Other items were rated after as many offers. Check that this one can be rated.",
    );
  return parts.join(" ");
}

function ticks(low, high) {
  const step = Math.max(1, Math.ceil((high - low) / 8));
  const found = [];
  for (let x = low; x <= high; x += step)
    found.push(h("span", { vars: { "--at": (x - low) / (high - low) } }, number(x)));
  return h("div", { class: "ladder-ticks" }, found);
}

function crown() {
  return svg(
    "svg",
    { class: "crown", viewBox: "0 0 20 16", width: 16, height: 13, "aria-hidden": "true" },
    svg("path", { d: "M2 14 L1 4 L6 8 L10 1 L14 8 L19 4 L18 14 Z" }),
  );
}

/** Bring nodes into an order without touching those that are where they belong. */
function place(list, nodes) {
  nodes.forEach((node, i) => {
    if (list.children[i] !== node) list.insertBefore(node, list.children[i] ?? null);
  });
  while (list.children.length > nodes.length) list.lastElementChild.remove();
}

/** Let a rung that has changed places be seen to do so. */
function slide(node, from) {
  if (from === undefined || from === node.offsetTop) return;
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const by = from - node.offsetTop;
  node.animate([{ transform: `translateY(${by}px)` }, { transform: "none" }], {
    duration: 300,
    easing: "ease-out",
  });
}
