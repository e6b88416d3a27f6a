// What each item showed when the offer was made.

import { h } from "../dom.js";
import { number, stars } from "../format.js";

const SHOWN = 12;

/** List what was on display, the best first; what was offered and the own choice always. */
export function shelf(offer, shown, { lowest_rating: low, highest_rating: high }) {
  const order = Object.entries(shown).sort(([, a], [, b]) => b - a);
  const listed = order.filter(
    ([arm], i) => i < SHOWN || arm === offer.arm || arm === offer.greedy_arm,
  );
  return [
    h(
      "ul",
      { class: "shelf" },
      listed.map(([arm, value]) =>
        h(
          "li",
          { class: ["shelf-item", arm === offer.arm && "shelf-offered"] },
          h("span", { class: "shelf-name" }, arm, ...roles(arm, offer)),
          h("span", {
            class: "shelf-bar",
            "aria-hidden": "true",
            vars: { "--share": (value - low) / (high - low) },
          }),
          h("span", { class: "number" }, stars(value)),
        ),
      ),
    ),
    order.length > listed.length &&
      h("p", { class: "note" }, `And ${number(order.length - listed.length)} more.`),
  ];
}

function roles(arm, offer) {
  const found = [];
  if (arm === offer.arm) found.push("offered");
  if (arm === offer.greedy_arm) found.push("own choice");
  return found.map((role) => h("span", { class: "badge" }, role));
}
