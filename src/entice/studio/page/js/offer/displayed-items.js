// The rating that each item displayed when the offer was made.

import { h } from "../dom.js";
import { number, stars } from "../format.js";

const MAX_SHOWN = 12;

/** List the items by rating, always with the offered one and the visitor's own choice. */
export function displayedItems(offer, shown, { lowest_rating: low, highest_rating: high }) {
  const order = Object.entries(shown).sort(([, a], [, b]) => b - a);
  const listed = order.filter(
    ([arm], i) => i < MAX_SHOWN || arm === offer.arm || arm === offer.greedy_arm,
  );
  return [
    h(
      "ul",
      { class: "displayed" },
      listed.map(([arm, value]) =>
        h(
          "li",
          { class: ["displayed-item", arm === offer.arm && "displayed-offered"] },
          h("span", { class: "displayed-name" }, arm, ...badges(arm, offer)),
          h("span", {
            class: "displayed-bar",
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

function badges(arm, offer) {
  const labels = [];
  if (arm === offer.arm) labels.push("offered");
  if (arm === offer.greedy_arm) labels.push("own choice");
  return labels.map((label) => h("span", { class: "badge" }, label));
}
