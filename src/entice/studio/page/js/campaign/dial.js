// The drift dial: how much a payment lifts a rating, as far as coins tell; or why they don't.

import { h, replace, svg } from "../dom.js";
import { number, percent } from "../format.js";
import { term } from "../tip.js";

const RADIUS = 84;
const WIDTH = 14;
const [LEAST, MOST] = [-2, 4]; // no dial reaches further; intervals beyond are cut

/** Make a dial. Returns its node and what brings it up to date. */
export function dial() {
  const node = h("div", { class: "dial" });
  let before = "";
  return {
    node,
    update(drift) {
      const now = JSON.stringify(drift);
      if (now === before) return;
      before = now;
      replace(node, drift.slope === null ? unknown(drift) : known(drift));
    },
  };
}

function unknown(drift) {
  const title = drift.probed ? "Too few coins so far" : "No probe, so nothing can be told";
  const text = drift.probed
    ? `${drift.probes === 1 ? "1 coin has" : `${number(drift.probes)} coins have`} been ` +
      "rated. An interval needs more: it comes by itself."
    : "Payments follow past ratings, which fools every estimate from the averages. A coin " +
      "that is thrown in some offers does not: set `probe` when you begin a campaign.";
  return [
    face(null, null, null, 0, 2),
    h("div", { class: "dial-words" }, h("h3", null, title), h("p", { class: "note" }, words(text))),
  ];
}

function known({ slope, low, high, probes, level, note }) {
  const from = Math.max(LEAST, Math.min(0, Math.floor(2 * low) / 2));
  const to = Math.min(MOST, Math.max(2, Math.ceil(2 * high) / 2));
  const interval = `${plain(low)} to ${plain(high)}`;
  return [
    face(slope, low, high, from, to),
    h(
      "div",
      { class: "dial-words" },
      h(
        "p",
        { class: "dial-value" },
        h("strong", null, plain(slope)),
        " ",
        term("stars for a star paid", "The slope of the drift; the paper calls it l."),
      ),
      h("p", null, `${percent(level)} interval: ${interval}`),
      h("p", { class: "dial-verdict" }, verdict(low, high)),
      h("p", { class: "note" }, `${number(probes)} coins rated. ${sentence(note)}`),
    ),
  ];
}

function verdict(low, high) {
  if (low > 0) return "Who is paid rates higher: averages of paid items flatter them.";
  if (high < 0) return "Who is paid rates lower.";
  return "It can't be told from no drift yet.";
}

/** The half circle: its scale, the interval as an arc, the estimate as a needle. */
function face(slope, low, high, from, to) {
  const angle = (x) => Math.PI * (1 - (Math.min(to, Math.max(from, x)) - from) / (to - from));
  const parts = [svg("path", { class: "dial-track", d: arc(Math.PI, 0), "stroke-width": WIDTH })];
  if (slope !== null)
    parts.push(
      svg("path", {
        class: "dial-interval",
        d: arc(angle(low), angle(high)),
        "stroke-width": WIDTH,
      }),
    );
  for (let x = from; x <= to + 1e-9; x += to - from > 3 ? 1 : 0.5) parts.push(...tick(x, angle(x)));
  if (slope !== null) {
    const [x, y] = point(angle(slope), RADIUS - 2);
    parts.push(svg("line", { class: "dial-needle", x1: 0, y1: 0, x2: x, y2: y }));
    parts.push(svg("circle", { class: "dial-hub", r: 5 }));
  }
  const label =
    slope === null
      ? "A dial without a needle: the drift is not known."
      : `The drift is ${plain(slope)} stars for a star paid, between ${plain(low)} and ` +
        `${plain(high)}.`;
  return svg(
    "svg",
    { class: "dial-face", viewBox: "-112 -108 224 122", role: "img", "aria-label": label },
    parts,
  );
}

function tick(x, angle) {
  const [x1, y1] = point(angle, RADIUS - WIDTH / 2);
  const [x2, y2] = point(angle, RADIUS + WIDTH / 2);
  const [tx, ty] = point(angle, RADIUS + 18);
  return [
    svg("line", { class: x === 0 ? "dial-tick dial-zero" : "dial-tick", x1, y1, x2, y2 }),
    svg("text", { class: "dial-label", x: tx, y: ty + 4, "text-anchor": "middle" }, number(x)),
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

/** Two digits: more would pretend. */
function plain(x) {
  return x.toFixed(2).replace("-", "−");
}

function sentence(note) {
  return note.endsWith(".") ? note : `${note.charAt(0).toUpperCase()}${note.slice(1)}.`;
}

/** Text in which `names` of settings stand between backticks. */
function words(text) {
  return text.split("`").map((part, i) => (i % 2 ? h("code", null, part) : part));
}
