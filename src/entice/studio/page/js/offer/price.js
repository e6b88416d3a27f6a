// The calculation of an offer's price, as the service returns it, and the ratings it is based on.

import { h } from "../dom.js";
import { number, stars } from "../format.js";
import { exactMoney, money } from "../money.js";
import { term } from "../tooltip.js";

const MAX_SHOWN = 12;

/** Show the steps from stars to money. */
export function priceTable(offer, { steps }) {
  return h(
    "table.price-table",
    h("caption.visually-hidden", "From stars to money"),
    h("tbody", steps.map((step) => row(step, offer))),
  );
}

function row({ sign, label, stars: inStars, amount, note, level }, offer) {
  const value = inStars === null ? formatAmount(amount, offer) : formatStars(inStars);
  return h(
    "tr",
    { class: `price-table-${level}` },
    h("td.price-table-sign", sign),
    h("th", { scope: "row" }, label, note && h("span.note", note)),
    h("td.number", value),
  );
}

function formatAmount(amount, offer) {
  if (Number.isInteger(amount)) return money(amount, offer);
  return withExact(exactMoney(amount, offer, 1), exactMoney(amount, offer));
}

function formatStars(x) {
  const text = (most) =>
    `${x.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: most })}\u00a0★`;
  return withExact(...[3, 8].map((most) => text(most).replace("-", "−")));
}

/** A rounded number, with a tip that has enough decimals to check the calculation. */
function withExact(rounded, exact) {
  return rounded === exact ? exact : term(rounded, exact);
}

/** List the items by rating, always with the offered one and the visitor's own choice. */
export function displayedItems(offer, shown, { lowest_rating: low, highest_rating: high }) {
  const order = Object.entries(shown).sort(([, a], [, b]) => b - a);
  const listed = order.filter(
    ([arm], i) => i < MAX_SHOWN || arm === offer.arm || arm === offer.greedy_arm,
  );
  return [
    h(
      "ul.displayed",
      listed.map(([arm, value]) =>
        h(
          "li",
          { class: ["displayed-item", arm === offer.arm && "displayed-offered"] },
          h("span.displayed-name", arm, ...badges(arm, offer)),
          h("span.displayed-bar", {
            "aria-hidden": "true",
            vars: { "--share": (value - low) / (high - low) },
          }),
          h("span.number", stars(value)),
        ),
      ),
    ),
    order.length > listed.length &&
      h("p.note", `And ${number(order.length - listed.length)} more.`),
  ];
}

function badges(arm, offer) {
  const labels = [];
  if (arm === offer.arm) labels.push("offered");
  if (arm === offer.greedy_arm) labels.push("own choice");
  return labels.map((label) => h("span.badge", label));
}
