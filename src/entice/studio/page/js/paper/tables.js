// Tables 1 and 2: the published values beside ours.

import { h } from "../dom.js";
import { scroller } from "../scroller.js";
import { term } from "../tip.js";
import { figure, METRICS, SETUPS } from "./words.js";

/** Columns, and how they are set. */
const COVERAGE = {
  Policy: null,
  "Set-up": null,
  Explains: "number",
  Share: "coverage-meter",
  "What it runs": null,
};

/** How many published values each set-up explains. */
export function coverage(paper) {
  const names = Object.fromEntries(paper.policies.map(({ id, name }) => [id, name]));
  const words = new Map(paper.ran.map((run) => [`${run.policy} ${run.setup}`, run.words]));
  const order = paper.policies.flatMap(({ id }) =>
    paper.coverage.filter(({ policy }) => policy === id),
  );
  return wrap(
    "What the published numbers ran",
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        Object.entries(COVERAGE).map(([title, kind]) =>
          h("th", { scope: "col", class: kind }, title),
        ),
      ),
    ),
    h(
      "tbody",
      null,
      order.map((row) =>
        h(
          "tr",
          { class: row.setup === "published" && "coverage-fit" },
          h("th", { scope: "row" }, names[row.policy]),
          h("td", null, SETUPS[row.setup]),
          h("td", { class: "number" }, `${row.inside} of ${row.published}`),
          h(
            "td",
            { class: "coverage-meter" },
            h("span", {
              class: "meter",
              "aria-hidden": "true",
              vars: { "--share": row.inside / row.published },
            }),
          ),
          h(
            "td",
            { class: "coverage-words" },
            `${words.get(`${row.policy} ${row.setup}`)}, ` +
              `${row.horizon.toLocaleString("en")} rounds`,
          ),
        ),
      ),
    ),
  );
}

/** A table of the paper, with our median and the range of nine runs in ten below each value. */
export function table(number, rows, paper) {
  const metrics = [...new Set(rows.map(({ metric }) => metric))];
  const find = (policy, metric, setup, l) =>
    rows.find(
      (row) => row.policy === policy && row.metric === metric && row.setup === setup && row.l === l,
    );
  return wrap(
    `Table ${number}`,
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        h(
          "th",
          { scope: "col" },
          term("Drift", "By how much a payment of 1 raises the feedback; the paper calls it l."),
        ),
        paper.coefficients.map((l) =>
          h("th", { scope: "col", class: "number" }, l === 0 ? "none" : String(l)),
        ),
      ),
    ),
    paper.policies.flatMap(({ id, name }) =>
      metrics.map((metric) =>
        h(
          "tbody",
          null,
          h(
            "tr",
            { class: "printed" },
            h("th", { scope: "row" }, name, h("span", { class: "metric-name" }, METRICS[metric])),
            paper.coefficients.map((l) =>
              h(
                "td",
                { class: "number" },
                find(id, metric, "written", l).published.toLocaleString("en", {
                  maximumFractionDigits: 3,
                }),
              ),
            ),
          ),
          Object.entries(SETUPS).map(([setup, words]) =>
            h(
              "tr",
              null,
              h("th", { scope: "row", class: "ours" }, `ours, ${words}`),
              paper.coefficients.map((l) => cell(find(id, metric, setup, l))),
            ),
          ),
        ),
      ),
    ),
  );
}

function cell(row) {
  const inside = row.inside ? "inside" : "outside";
  return h(
    "td",
    {
      class: ["number", inside],
      title:
        `Mean ${figure(row.mean)} ± ${figure(row.stderr)} (standard error). The published ` +
        `${row.published} is ${inside} the range of one run.`,
    },
    h("span", { "aria-hidden": "true" }, row.inside ? "✓ " : "✗ "),
    h("span", { class: "visually-hidden" }, row.inside ? "explained: " : "not explained: "),
    figure(row.q50),
    h("small", null, `${figure(row.q05)}–${figure(row.q95)}`),
  );
}

function wrap(name, ...parts) {
  return scroller(`${name}: the table`, h("table", { class: "paper-table" }, parts));
}
