// Tables 1 and 2 with published and simulated values, and the coverage of each set-up.

import { h } from "../dom.js";
import { scrollableTable } from "../scrollable-table.js";
import { term } from "../tooltip.js";
import { formatFigure, METRICS, SETUPS } from "./labels.js";

/** Columns and their CSS classes. */
const COVERAGE = {
  Policy: null,
  "Set-up": null,
  "In range": "number",
  Share: "coverage-meter",
  Settings: null,
};

/** How many published values are in the range of one run, for each set-up. */
export function coverageTable(paper) {
  const names = Object.fromEntries(paper.policies.map(({ id, name }) => [id, name]));
  const settings = new Map(paper.ran.map((run) => [`${run.policy} ${run.setup}`, run.words]));
  const order = paper.policies.flatMap(({ id }) =>
    paper.coverage.filter(({ policy }) => policy === id),
  );
  return wrap(
    "Settings of the published runs",
    "coverage",
    h(
      "thead",
      h(
        "tr",
        Object.entries(COVERAGE).map(([title, kind]) =>
          h("th", { scope: "col", class: kind }, title),
        ),
      ),
    ),
    h(
      "tbody",
      order.map((row) =>
        h(
          "tr",
          { class: row.setup === "published" && "coverage-fit" },
          h("th", { scope: "row" }, names[row.policy]),
          h("td", SETUPS[row.setup]),
          h("td.number", `${row.inside} of ${row.published}`),
          h(
            "td.coverage-meter",
            h("span.meter", {
              "aria-hidden": "true",
              vars: { "--share": row.inside / row.published },
            }),
          ),
          h(
            "td.coverage-words",
            `${settings.get(`${row.policy} ${row.setup}`)}, ` +
              `${row.horizon.toLocaleString("en")} rounds`,
          ),
        ),
      ),
    ),
  );
}

/** A table of the paper, with the simulated median and 5 to 95 % range below each value. */
export function publishedTable(number, rows, paper) {
  const metrics = [...new Set(rows.map(({ metric }) => metric))];
  const find = (policy, metric, setup, l) =>
    rows.find(
      (row) => row.policy === policy && row.metric === metric && row.setup === setup && row.l === l,
    );
  return wrap(
    `Table ${number}`,
    null,
    h(
      "thead",
      h(
        "tr",
        h(
          "th",
          { scope: "col" },
          term("Drift", "How much a payment of 1 raises the feedback; l in the paper."),
        ),
        paper.coefficients.map((l) =>
          h("th.number", { scope: "col" }, l === 0 ? "none" : String(l)),
        ),
      ),
    ),
    paper.policies.flatMap(({ id, name }) =>
      metrics.map((metric) =>
        h(
          "tbody",
          h(
            "tr.published",
            h("th", { scope: "row" }, name, " ", h("span.metric-name", METRICS[metric])),
            paper.coefficients.map((l) =>
              h(
                "td.number",
                find(id, metric, "written", l).published.toLocaleString("en", {
                  maximumFractionDigits: 3,
                }),
              ),
            ),
          ),
          Object.entries(SETUPS).map(([setup, name]) =>
            h(
              "tr",
              h("th.ours", { scope: "row" }, `simulated, ${name}`),
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
        `Mean ${formatFigure(row.mean)} ± ${formatFigure(row.stderr)} (standard error). The ` +
        `published ${row.published} is ${inside} the range of one run.`,
    },
    h("span", { "aria-hidden": "true" }, row.inside ? "✓ " : "✗ "),
    h("span.visually-hidden", row.inside ? "in range: " : "not in range: "),
    formatFigure(row.q50),
    h("small", `${formatFigure(row.q05)}–${formatFigure(row.q95)}`),
  );
}

function wrap(name, kind, ...parts) {
  return scrollableTable(`${name}: table`, h("table", { class: ["paper-table", kind] }, parts));
}
