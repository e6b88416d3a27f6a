// The calculation of an offer's price, as the service returns it.

import { h } from "../dom.js";
import { exactMoney, money } from "../money.js";

/** Show the steps from stars to money. */
export function priceTable(offer, { steps }) {
  return h(
    "table",
    { class: "price-table" },
    h("caption", { class: "visually-hidden" }, "From stars to money"),
    h(
      "tbody",
      null,
      steps.map((step) => row(step, offer)),
    ),
  );
}

function row({ sign, label, stars, amount, note, level }, offer) {
  const value = stars === null ? formatAmount(amount, offer) : formatStars(stars);
  return h(
    "tr",
    { class: `price-table-${level}` },
    h("td", { class: "price-table-sign" }, sign),
    h("th", { scope: "row" }, label, note && h("span", { class: "note" }, note)),
    h("td", { class: "number" }, value),
  );
}

function formatAmount(amount, offer) {
  return Number.isInteger(amount) ? money(amount, offer) : exactMoney(amount, offer);
}

/** With enough decimals to check the calculation. */
function formatStars(x) {
  const text = x.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 8 });
  return `${text.replace("-", "−")}\u00a0★`;
}
