// The drift gauge: how much a payment raises a rating, with its interval, or why it is unknown.

import { h, replace, svg } from "../dom.js";
import { counted, number, percent } from "../format.js";
import { defined } from "../glossary.js";
import { pictureButtons } from "../report.js";
import { permitsProbe } from "./labels.js";

const EQUAL_PAY =
  "Not measured: the probe that measures it pays some visitors more, and this policy needs equal " +
  "payments. It compares only ratings under equal payments, so that the drift cancels.";
const RADIUS = 84;
const WIDTH = 14;
const [LOWEST, HIGHEST] = [-2, 4]; // limits of the scale; longer intervals are cut

/** Make the gauge of a campaign's settings. Returns its node and a function that updates it. */
export function driftGauge({ policy }) {
  const gauge = h("div.drift-gauge");
  const tools = pictureButtons("drift", () => csvRows(JSON.parse(shown)), { node: gauge });
  let shown = "";
  return {
    node: h("div", gauge, tools),
    update(drift) {
      const next = JSON.stringify(drift);
      if (next === shown) return;
      shown = next;
      tools.hidden = drift.slope === null;
      replace(gauge, drift.slope === null ? unknown(drift, policy) : known(drift));
    },
  };
}

function csvRows({ slope, low, high, level, probes, bounds }) {
  return [
    ["slope", "low", "high", "level", "measurements", "bounds_low", "bounds_high"],
    [slope, low, high, level, probes, bounds?.low, bounds?.high],
  ];
}

function unknown(drift, policy) {
  if (drift.probed)
    return h(
      "div.drift-gauge-words",
      h("h3", "Not enough measurements yet"),
      h(
        "p.note",
        `${counted(drift.probes, "measurement")} so far. The estimate appears as soon as there ` +
          "are enough.",
      ),
    );
  if (!permitsProbe(policy))
    return h("div.drift-gauge-words", h("p", EQUAL_PAY));
  return h(
    "div.drift-gauge-words",
    h("p", "Not measured: averages alone cannot show it, since payments depend on them."),
    h(
      "p",
      "To measure it, create the next campaign with a ",
      defined("probe", "probe"),
      ": choose “Measure the drift” when you create it from a ",
      h("a", { href: "#/plan" }, "plan"),
      ", or set ",
      h("code", "probe"),
      ".",
    ),
  );
}

function known(drift) {
  const { bounds, level, note, probes } = drift;
  // If payment changes who rates, the slope compares different visitors: show the bounds first.
  const boundsFirst = bounds !== null && bounds.differs;
  const { low, high } = boundsFirst ? bounds : drift;
  const slope = boundsFirst ? null : drift.slope;
  const from = Math.max(LOWEST, Math.min(0, Math.floor(2 * low) / 2));
  const to = Math.min(HIGHEST, Math.max(2, Math.ceil(2 * high) / 2));
  const range = ({ low, high }) => `${decimals(low)} to ${decimals(high)}`;
  const interval = `${percent(level)} interval: ${range(drift)}`;
  return [
    face(slope, low, high, from, to),
    h(
      "div.drift-gauge-words",
      h(
        "p.drift-gauge-value",
        h("strong", boundsFirst ? range(bounds) : decimals(slope)),
        " ",
        defined("drift", "stars per star paid"),
      ),
      boundsFirst
        ? h("p", `Payment changes who rates. Slope ${decimals(drift.slope)}, ${interval}`)
        : h("p", interval),
      bounds !== null &&
        !boundsFirst &&
        h("p", `Bounds if payment changes who rates: ${range(bounds)}`),
      h("p.drift-gauge-verdict", verdict(low, high)),
      h("p.note", `${counted(probes, "measurement")}. ${sentence(note)}`),
    ),
  ];
}

function verdict(low, high) {
  if (low > 0) return "Paid visitors rate higher, so averages of paid items are too high.";
  if (high < 0) return "Paid visitors rate lower.";
  return "No drift is still possible.";
}

/** The half circle: a scale, the interval as an arc, the estimate as a needle. */
function face(slope, low, high, from, to) {
  const angle = (x) => Math.PI * (1 - (Math.min(to, Math.max(from, x)) - from) / (to - from));
  const parts = [svg("path.drift-gauge-track", { d: arc(Math.PI, 0), "stroke-width": WIDTH })];
  if (low !== null)
    parts.push(
      svg("path.drift-gauge-interval", { d: arc(angle(low), angle(high)), "stroke-width": WIDTH }),
    );
  for (let x = from; x <= to + 1e-9; x += to - from > 3 ? 1 : 0.5) parts.push(...tick(x, angle(x)));
  if (slope !== null) {
    const [x, y] = point(angle(slope), RADIUS - 2);
    parts.push(svg("line.drift-gauge-needle", { x1: 0, y1: 0, x2: x, y2: y }));
    parts.push(svg("circle.drift-gauge-hub", { r: 5 }));
  }
  const within = `between ${decimals(low ?? 0)} and ${decimals(high ?? 0)}`;
  const label =
    low === null
      ? "The drift is not known."
      : slope === null
        ? `The drift is ${within} stars per star paid.`
        : `The drift is ${decimals(slope)} stars per star paid, ${within}.`;
  return svg(
    "svg.drift-gauge-face",
    { viewBox: "-112 -108 224 122", role: "img", "aria-label": label },
    parts,
  );
}

function tick(x, angle) {
  const [x1, y1] = point(angle, RADIUS - WIDTH / 2);
  const [x2, y2] = point(angle, RADIUS + WIDTH / 2);
  const [tx, ty] = point(angle, RADIUS + 18);
  return [
    svg("line", { class: ["drift-gauge-tick", x === 0 && "drift-gauge-zero"], x1, y1, x2, y2 }),
    svg("text.drift-gauge-label", { x: tx, y: ty + 4, "text-anchor": "middle" }, number(x)),
  ];
}

function arc(from, to) {
  const [x1, y1] = point(from, RADIUS);
  const [x2, y2] = point(to, RADIUS);
  return `M ${x1} ${y1} A ${RADIUS} ${RADIUS} 0 0 1 ${x2} ${y2}`;
}

function point(angle, radius) {
  return [radius * Math.cos(angle), -radius * Math.sin(angle)];
}

/** Two decimals: the estimate is not more exact. */
function decimals(x) {
  return x.toFixed(2).replace("-", "−");
}

function sentence(note) {
  return note.endsWith(".") ? note : `${note.charAt(0).toUpperCase()}${note.slice(1)}.`;
}
