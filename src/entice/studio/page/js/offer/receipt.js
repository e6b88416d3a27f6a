// The exact arithmetic of an offer's price, to be checked by hand.

import { h } from "../dom.js";
import { exactMoney, money } from "../money.js";
import { limitName } from "../campaign/words.js";

/** Write down how an amount came about, line by line. */
export function receipt(offer, sums) {
  const stars = sums.payment_in_stars;
  const rows = [];
  if (offer.arm !== offer.greedy_arm) {
    rows.push(
      row(
        "",
        `${offer.greedy_arm} shows`,
        inStars(sums.own_choice_shows),
        "the visitor's own choice",
      ),
    );
    rows.push(row("−", `${offer.arm} shows`, inStars(sums.arm_shows), "what is offered instead"));
    rows.push(row("=", "The gap", inStars(stars), null, "sum"));
  } else if (sums.probe_added !== null) {
    rows.push(row("", `${offer.arm} is the visitor's own choice`, inStars(0), "no gap to make up"));
    rows.push(row("+", "The coin adds", inStars(sums.probe_added), "thrown to measure the drift"));
    rows.push(row("=", "The payment", inStars(stars), null, "sum"));
  } else
    rows.push(row("", `${offer.arm} is the visitor's own choice`, inStars(0), "no gap to make up"));
  if (sums.amount > 0) {
    const exact = stars * sums.price_of_a_star;
    rows.push(row("×", "Price of a star", money(sums.price_of_a_star, offer)));
    rows.push(row("=", "Exactly", exactMoney(exact, offer)));
    rows.push(
      row(
        "↑",
        "Rounded up",
        money(sums.amount - sums.margin, offer),
        "never a fraction too little",
        "sum",
      ),
    );
    if (sums.margin)
      rows.push(row("+", "Margin", money(sums.margin, offer), "added to every payment"));
  }
  rows.push(
    row(
      "=",
      offer.would_pay === null ? "Offered" : "Would be offered",
      money(sums.amount, offer),
      null,
      "total",
    ),
  );
  if (offer.would_pay !== null)
    rows.push(row("", "In shadow mode", money(0, offer), "decided and recorded, not paid"));
  else if (offer.paid !== null && offer.paid !== sums.amount)
    rows.push(row("", "Paid in the end", money(offer.paid, offer), "less was accepted"));
  return [
    h(
      "table",
      { class: "receipt" },
      h("caption", { class: "visually-hidden" }, "From stars to money"),
      h("tbody", null, rows),
    ),
    h("p", { class: "note" }, limitTold(sums, offer)),
  ];
}

function row(sign, name, value, note = null, kind = "") {
  return h(
    "tr",
    { class: kind && `receipt-${kind}` },
    h("td", { class: "receipt-sign" }, sign),
    h("th", { scope: "row" }, name, note && h("span", { class: "note" }, note)),
    h("td", { class: "number" }, value),
  );
}

function limitTold({ limit, limited_by: by }, offer) {
  const most = `It could have cost ${money(limit, offer)} at most`;
  return by ? `${most}, by ${limitName(by)}, which limited the choice.` : `${most}.`;
}

/** As many digits as it takes to check the sum. */
function inStars(x) {
  return `${trimmed(x)}\u00a0★`;
}

function trimmed(x) {
  return x
    .toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 8 })
    .replace("-", "−");
}
