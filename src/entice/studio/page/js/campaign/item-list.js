// The items of a campaign: their averages, how certain those are, and how many ratings are expected.

import { h, replace, svg } from "../dom.js";
import { counted, number, stars } from "../format.js";

const MAX_SHOWN = 20; // until "Show all"

/** Make a list. Returns its node and a function that updates it. */
export function itemList() {
  const rows = new Map(); // by arm
  const list = h("ol", { class: "item-list" });
  const axis = h("div", { class: "item-list-axis", "aria-hidden": "true" });
  const more = h("button", { type: "button", class: "small", hidden: true });
  let showAll = false;
  let last = null;
  more.addEventListener("click", () => {
    showAll = !showAll;
    update(...last);
  });

  function update(arms, corrected, spec) {
    last = [arms, corrected, spec];
    const { lowest_rating: low, highest_rating: high } = spec;
    if (!axis.childElementCount) replace(axis, ticks(low, high));
    const order = [...arms].sort((a, b) => a.retired - b.retired || b.shown - a.shown);
    const visible = showAll ? order : order.slice(0, MAX_SHOWN);
    const tops = new Map([...rows].map(([id, row]) => [id, row.node.offsetTop]));
    for (const arm of visible) {
      if (!rows.has(arm.id)) rows.set(arm.id, makeRow(arm.id));
      rows.get(arm.id).update(arm, corrected.get(arm.id) ?? null, low, high);
    }
    reorder(
      list,
      visible.map(({ id }) => rows.get(id).node),
    );
    for (const { id } of visible) animateMove(rows.get(id).node, tops.get(id));
    more.hidden = order.length <= MAX_SHOWN;
    more.textContent = showAll ? `Show the first ${MAX_SHOWN}` : `Show all ${number(order.length)}`;
  }

  return { node: h("div", { class: "item-list-wrap" }, axis, list, more), update };
}

/** The legend below the list. */
export function itemListKey(hasCorrected) {
  const entry = (name, text) =>
    h("li", null, h("span", { class: `key-mark ${name}`, "aria-hidden": "true" }), text);
  return h(
    "ul",
    { class: "item-list-key note" },
    entry("key-dot", "average rating"),
    entry("key-range", "95 % interval of the true average"),
    hasCorrected && entry("key-corrected", "average without the drift"),
    h("li", null, crown(), "visitors' own choice"),
  );
}

function makeRow(id) {
  const name = h("span", { class: "item-row-name" }, id);
  const range = h("span", { class: "item-row-range" });
  const correctedDot = h("span", { class: "item-row-corrected" });
  const dot = h("span", { class: "item-row-dot" });
  const track = h(
    "div",
    { class: "item-row-track", "aria-hidden": "true" },
    range,
    correctedDot,
    dot,
  );
  const value = h("span", { class: "item-row-value" });
  const count = h("span", { class: "item-row-counts note" });
  const head = h("span", { class: "item-row-head" }, crown(), name);
  const hiddenText = h("span", { class: "visually-hidden" });
  const node = h("li", { class: "item-row" }, head, track, value, count, hiddenText);

  function update(arm, corrected, low, high) {
    const at = (x) => Math.min(1, Math.max(0, (x - low) / (high - low)));
    const { average } = arm;
    node.classList.toggle("item-row-greedy", arm.greedy);
    node.classList.toggle("item-row-retired", arm.retired);
    node.classList.toggle("item-row-unrated", average === null);
    node.classList.toggle("item-row-overdue", arm.overdue_first_rating);
    dot.style.setProperty("--at", at(average ?? arm.shown));
    range.hidden = average === null;
    range.style.setProperty("--from", at(arm.low));
    range.style.setProperty("--to", at(arm.high));
    correctedDot.hidden = corrected === null;
    if (corrected !== null) correctedDot.style.setProperty("--at", at(corrected));
    value.textContent = stars(average ?? arm.shown);
    count.textContent = counts(arm);
    node.title = description(arm, corrected);
    hiddenText.textContent = node.title;
  }

  return { node, update };
}

function counts(arm) {
  const rated = arm.rated ? counted(arm.rated, "rating") : "no ratings yet";
  if (arm.retired) return `${rated} · retired`;
  if (arm.overdue_first_rating) return `no rating after ${counted(arm.offered, "offer")}`;
  return arm.in_flight ? `${rated} · ${expected(arm)}` : rated;
}

/** How many pending ratings are expected to arrive. */
function expected(arm) {
  const about = arm.expected < 9.5 ? arm.expected.toFixed(1) : number(Math.round(arm.expected));
  return `${about} expected`;
}

function description(arm, corrected) {
  const parts = [];
  if (arm.average === null) parts.push(`No ratings yet, so it shows ${stars(arm.shown)}.`);
  else
    parts.push(
      `Average ${stars(arm.average)}. The true average is between ${stars(arm.low)} and ` +
        `${stars(arm.high)}.`,
    );
  if (arm.average !== null && Math.abs(arm.shown - arm.average) > 0.005)
    parts.push(`Visitors see ${stars(arm.shown)}.`);
  if (corrected !== null) parts.push(`Without the drift: ${stars(corrected)}.`);
  if (arm.greedy) parts.push("Visitors choose it without payment.");
  if (arm.in_flight)
    parts.push(`${counted(arm.in_flight, "offer")} not rated yet; ${expected(arm)} to be.`);
  if (arm.overdue_first_rating)
    parts.push("Other items got ratings after as many offers. Check that this one can be rated.");
  return parts.join(" ");
}

function ticks(low, high) {
  const step = Math.max(1, Math.ceil((high - low) / 8));
  const found = [];
  for (let x = low; x <= high; x += step)
    found.push(h("span", { vars: { "--at": (x - low) / (high - low) } }, number(x)));
  return h("div", { class: "item-list-ticks" }, found);
}

function crown() {
  return svg(
    "svg",
    { class: "crown", viewBox: "0 0 20 16", width: 16, height: 13, "aria-hidden": "true" },
    svg("path", { d: "M2 14 L1 4 L6 8 L10 1 L14 8 L19 4 L18 14 Z" }),
  );
}

/** Reorder the children of a list; those in the right place are not touched. */
function reorder(list, nodes) {
  nodes.forEach((node, i) => {
    if (list.children[i] !== node) list.insertBefore(node, list.children[i] ?? null);
  });
  while (list.children.length > nodes.length) list.lastElementChild.remove();
}

function animateMove(node, from) {
  if (from === undefined || from === node.offsetTop) return;
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const by = from - node.offsetTop;
  node.animate([{ transform: `translateY(${by}px)` }, { transform: "none" }], {
    duration: 300,
    easing: "ease-out",
  });
}
