// The items of a campaign: their averages, how certain those are, and how many ratings are expected.

import { send } from "../api.js";
import { intervalFigure } from "../chart.js";
import { confirmDialog } from "../dialog.js";
import { h, replace, setText, svg } from "../dom.js";
import { counted, number, stars } from "../format.js";
import { parseItems } from "../plan/create-campaign.js";
import { pictureButtons } from "../report.js";

const MAX_SHOWN = 20; // until "Show all"
const MIN_EXPECTED = 0.5; // ratings, below which none is likely

/**
 * Make a list. Returns its node, its buttons, and a function that updates it.
 * @param {string} path of the campaign
 * @param {boolean} mayChange whether the user may add and retire items
 * @param {() => void} onChange called after a change
 */
export function itemList(path, mayChange, onChange) {
  const rows = new Map(); // by arm
  const list = h("ol.item-list");
  const axis = h("div.item-list-axis", { "aria-hidden": "true" });
  const more = h("button.small", { type: "button", hidden: true });
  const addButton = h("button.small", { type: "button" }, "Add items …");
  addButton.addEventListener("click", async () => (await addDialog(path)) && onChange());
  const retire = async (arm) => (await retireDialog(path, arm)) && onChange();
  const tools = pictureButtons("items", () => csvRows(last[0], last[1]), {
    figure: () => figureOf(...last),
    title: () => "Average ratings of the items",
  });
  let showAll = false;
  let last = null;
  more.addEventListener("click", () => {
    showAll = !showAll;
    update(...last);
  });

  function update(arms, corrected, spec, isClosed = false) {
    last = [arms, corrected, spec, isClosed];
    addButton.hidden = !mayChange || isClosed;
    const { lowest_rating: low, highest_rating: high } = spec;
    if (!axis.childElementCount) replace(axis, ticks(low, high));
    const order = inOrder(arms);
    const visible = showAll ? order : order.slice(0, MAX_SHOWN);
    const tops = new Map([...rows].map(([id, row]) => [id, row.node.offsetTop]));
    for (const arm of visible) {
      if (!rows.has(arm.id)) rows.set(arm.id, makeRow(arm.id, mayChange ? retire : null));
      rows.get(arm.id).update(arm, corrected.get(arm.id) ?? null, low, high, isClosed);
    }
    reorder(list, visible.map(({ id }) => rows.get(id).node));
    for (const { id } of visible) animateMove(rows.get(id).node, tops.get(id));
    more.hidden = order.length <= MAX_SHOWN;
    more.textContent = showAll ? `Show the first ${MAX_SHOWN}` : `Show all ${number(order.length)}`;
  }

  const wide = mayChange && "item-list-actions";
  return {
    node: h("div", { class: ["item-list-wrap", wide] }, axis, list, more),
    tools,
    addButton,
    update,
  };
}

/** All items as a picture, in the order of the list. */
function figureOf(arms, corrected, { lowest_rating: lowest, highest_rating: highest }) {
  const rows = inOrder(arms).map((arm) => ({
    label: arm.retired ? `${arm.id} (retired)` : arm.id,
    value: arm.average,
    low: arm.low,
    high: arm.high,
    other: arm.average === null ? arm.shown : corrected.get(arm.id),
  }));
  return intervalFigure(rows, {
    axis: "Stars",
    range: [lowest, highest],
    name: "average rating, with its 95 % interval",
    other: rows.some(({ value }) => value === null)
      ? "displayed without a rating, or average without the drift"
      : "average without the drift",
  });
}

/** The best displayed rating first, then the retired items. */
function inOrder(arms) {
  return [...arms].sort((a, b) => a.retired - b.retired || b.shown - a.shown);
}

function csvRows(arms, corrected) {
  return [
    ["item", "retired", "ratings", "average", "low", "high", "displayed", "without_drift"],
    ...arms.map((arm) => [
      arm.id,
      arm.retired,
      arm.rated,
      arm.average,
      arm.low,
      arm.high,
      arm.shown,
      corrected.get(arm.id),
    ]),
  ];
}

/** Ask for ids, and add the items. */
function addDialog(path) {
  const input = h("textarea", {
    id: "new-items",
    rows: 4,
    spellcheck: "false",
    required: true,
    "aria-describedby": "new-items-note",
  });
  return confirmDialog({
    title: "Add items",
    confirm: "Add",
    body: [
      h("label", { for: "new-items" }, "Items, one per line"),
      input,
      h(
        "p.note",
        { id: "new-items-note" },
        "The item ids of your platform. They are offered from the next visitor on, to collect " +
          "their first ratings.",
      ),
    ],
    action: () => send("POST", `${path}/arms`, { arms: parseItems(input.value, 1) }),
  });
}

/** Retire an item, or offer it again. */
function retireDialog(path, { id, retired, in_flight: open }) {
  const text = retired
    ? "Visitors can get it again, with the ratings that it has."
    : "It is no longer offered. Its ratings are kept, and you can restore it.";
  const waiting = `${counted(open, "offer")} of it may still be rated.`;
  return confirmDialog({
    title: retired ? `Restore “${id}”?` : `Retire “${id}”?`,
    confirm: retired ? "Restore" : "Retire",
    body: [h("p", text), !retired && open > 0 && h("p", waiting)],
    action: () => send("PATCH", `${path}/arms/${encodeURIComponent(id)}`, { retired: !retired }),
  });
}

/** The legend below the list. */
export function itemListKey(hasCorrected) {
  const entry = (name, text) =>
    h("li", h("span", { class: `key-mark ${name}`, "aria-hidden": "true" }), text);
  return h(
    "ul.item-list-key.note",
    entry("key-dot", "average rating"),
    entry("key-range", "95 % interval of the true average"),
    hasCorrected && entry("key-corrected", "average without the drift"),
    h("li", crown(), "visitors' own choice"),
  );
}

function makeRow(id, retire) {
  const name = h("span.item-row-name", id);
  const range = h("span.item-row-range");
  const correctedDot = h("span.item-row-corrected");
  const dot = h("span.item-row-dot");
  const track = h("div.item-row-track", { "aria-hidden": "true" }, range, correctedDot, dot);
  const value = h("span.item-row-value");
  const count = h("span.item-row-counts.note");
  const head = h("span.item-row-head", crown(), name);
  const hiddenText = h("span.visually-hidden");
  const button = retire && h("button.small.quiet", { type: "button" });
  let current = null;
  button?.addEventListener("click", () => retire(current));
  const node = h("li.item-row", head, track, value, count, button, hiddenText);

  function update(arm, corrected, low, high, isClosed) {
    current = arm;
    if (button) {
      button.hidden = isClosed;
      setText(button, arm.retired ? "Restore …" : "Retire …");
      button.setAttribute("aria-label", `${arm.retired ? "Restore" : "Retire"} ${id} …`);
    }
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
  return arm.expected >= MIN_EXPECTED ? `${rated} · ${expected(arm)}` : rated;
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
  return h("div.item-list-ticks", found);
}

function crown() {
  return svg(
    "svg.crown",
    { viewBox: "0 0 20 16", width: 16, height: 13, "aria-hidden": "true" },
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
