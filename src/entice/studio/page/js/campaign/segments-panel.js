// The averages that each segment of a campaign sees, beside the number of its own ratings.

import { h, replace } from "../dom.js";
import { counted, number, stars } from "../format.js";
import { figureTable } from "../layout.js";
import { scrollableTable } from "../scrollable-table.js";

const MOST_ITEMS = 20;

/** Make a panel. Returns its node and a function that updates it. Empty without segments. */
export function segmentsPanel() {
  const node = h("div.by-segment");
  let shown = "";
  return {
    node,
    update({ segments }) {
      const next = JSON.stringify(segments);
      if (next === shown || segments.length === 0) return;
      shown = next;
      replace(node, h("h3", "By segment"), scrollableTable("Averages by segment", table(segments)));
    },
  };
}

function table(segments) {
  const items = segments[0].arms.map((_, i) => i);
  const best = segments.map(({ arms }) => Math.max(...arms.map((arm) => arm.shown)));
  const highest = (i) => Math.max(...segments.map(({ arms }) => arms[i].shown));
  const rows = items.sort((a, b) => highest(b) - highest(a)).slice(0, MOST_ITEMS);
  const more = segments[0].arms.length - rows.length;
  const columns = segments.map(({ id, rated }) => [id, h("br"), counted(rated, "rating")]);
  const made = figureTable(
    columns,
    rows.map((i) => [
      segments[0].arms[i].id,
      ...segments.map(({ arms }, s) => {
        const kind = arms[i].shown === best[s] && "figure-main";
        return h("td", { class: kind }, `${stars(arms[i].shown)} (${number(arms[i].rated)})`);
      }),
    ]),
  );
  if (more > 0) made.prepend(h("caption", `${counted(more, "more item")} with lower ratings.`));
  return made;
}
