// The spending curve: how the spending grew over the whole history, and how fast it may.

import { get } from "../api.js";
import { draw, faded, token } from "../chart.js";
import { h } from "../dom.js";
import { number, percent } from "../format.js";
import { money, moneyAxis } from "../money.js";
import { choice } from "../segments.js";

const POINTS = 200; // asked of the service
const OF_THE_PACE = 120; // points of the pace's curve
const BUDGET_FITS = 2.5; // a budget up to so many times the spending is given room
const SHORTEST = 60_000; // milliseconds that an axis of dates spans at least

/** Make the chart of a campaign. Returns its node, and what brings it up to date. */
export function spendingChart(path, signal) {
  const chart = h("div", { class: "chart pace-chart" });
  const key = h("p", { class: "note", id: "spending-key" });
  let by = "offer";
  let view = null;
  const histories = {}; // by offer and by date, as the service told last
  const toggle = choice(
    "Spending",
    [
      ["offer", "By offer"],
      ["date", "By date"],
    ],
    (chosen) => {
      by = chosen;
      paint();
      renew();
    },
  );

  /** Read the history; a long log is read in parts, each of which is shown. */
  async function renew() {
    const asked = by;
    let told;
    do {
      told = await get(`${path}/spending?by=${asked}&points=${POINTS}`, { signal });
      histories[asked] = told;
      paint();
    } while (told.through < told.events && asked === by && !signal.aborted);
  }

  function paint() {
    if (view === null || signal.aborted) return;
    // An empty chart says nothing.
    const empty = view.decisions === 0 && !view.spec.pace_over;
    chart.hidden = toggle.hidden = empty;
    if (empty) tell(key, begins(view));
    const history = histories[by];
    if (empty || history === undefined) return;
    const lines = linesOf(view, history);
    tell(key, keyOf(lines, history));
    return drawSpending(chart, view, history, lines);
  }

  return {
    node: h("div", { class: "spending" }, toggle, chart, key),
    renew,
    update(now) {
      view = now;
      return paint();
    },
  };
}

/** What is drawn: columns of x and of minor units, by the names of the lines. */
function linesOf(view, history) {
  const isDate = history.by === "date";
  const whole = history.through >= history.events;
  const x = isDate ? history.at.map(local) : [...history.offers];
  const committed = [...history.committed];
  const used = committed.map((amount, i) => amount + history.reserved[i]);
  const now = isDate ? local(view.changed_at) : view.decisions;
  const promised = view.committed + view.reserved;
  const lines = { x, committed, used, now, promised, whole };
  const last = x.length - 1;
  if (whole) {
    x.push(now < x[last] ? x[last] : now);
    committed.push(view.committed);
    used.push(promised);
  } else lines.unread = { x: [x[last], now], y: [committed[last], view.committed] };
  lines.end = isDate ? null : lastOffer(view.decisions, view.spec.pace_over);
  lines.pace = pace(view, history, lines);
  const spent = Math.max(promised, ...used);
  const budgets = [...history.budget, view.budget];
  if (whole && Math.max(...budgets) <= BUDGET_FITS * spent) lines.budget = { x, y: budgets };
  const limits = [...(lines.pace?.y ?? []), ...(lines.budget?.y ?? [])];
  lines.top = Math.max(view.spec.price_of_a_star, spent, ...limits);
  return lines;
}

/** The limit that the pace set, as it was at each point; by offer also as it will be. */
function pace(view, history, { x, end }) {
  const over = view.spec.pace_over;
  if (!over && history.paced.every((limit) => limit === null)) return null;
  if (end === null) return { x: [...x], y: [...history.paced, view.paced].slice(0, x.length) };
  const allowed = (n) => view.budget * pacedShare(n, over);
  const unchanged =
    over && history.paced.every((limit, i) => Math.abs(limit - allowed(history.offers[i])) <= 1);
  if (unchanged) return ahead(0, end, allowed); // smooth from the first offer on
  const past = { x: [...history.offers], y: [...history.paced] };
  const future = over ? ahead(view.decisions, end, allowed) : { x: [], y: [] };
  return { x: [...past.x, ...future.x], y: [...past.y, ...future.y] };
}

function ahead(from, to, allowed) {
  const x = Array.from(
    { length: OF_THE_PACE + 1 },
    (_, i) => from + ((to - from) * i * i) / OF_THE_PACE ** 2,
  );
  return { x, y: x.map(allowed) };
}

function drawSpending(node, view, history, lines) {
  const isDate = history.by === "date";
  const where = isDate ? "%{x|%-d %b %Y, %H:%M}" : "offer %{x:,.0f}";
  const told = (y) => y.map((amount) => money(amount && Math.floor(amount), view));
  const line = ({ x, y }, style, words) => ({
    x,
    y,
    customdata: told(y),
    mode: "lines",
    line: style,
    hovertemplate: `${where}<br>%{customdata} ${words}<extra></extra>`,
  });
  const traces = () => {
    const accent = token("--accent");
    const soft = token("--ink-soft");
    const { x, committed: y } = lines;
    const found = [
      line(
        { x, y: lines.used },
        { color: faded(accent, 0.5), width: 1.25, shape: "hv" },
        "with what was reserved",
      ),
      {
        ...line({ x, y }, { color: accent, width: 2.5, shape: "hv" }, "committed"),
        fill: "tozeroy",
        fillcolor: faded(accent, 0.12),
        name: "committed",
      },
      {
        x: [lines.now],
        y: [lines.promised],
        customdata: told([lines.promised]),
        mode: "markers",
        marker: { color: token("--surface"), size: 10, line: { color: accent, width: 2.5 } },
        hovertemplate: "now: %{customdata}<br>committed and reserved<extra></extra>",
      },
    ];
    if (lines.unread)
      found.push({
        ...lines.unread,
        mode: "lines",
        line: { color: accent, width: 1.5, dash: "dot" },
        hoverinfo: "skip", // not read so far
      });
    if (lines.pace)
      found.push(line(lines.pace, { color: soft, width: 1.5, dash: "dash" }, "allowed"));
    if (lines.budget)
      found.push(
        line(lines.budget, { color: soft, width: 1.5, dash: "dot", shape: "hv" }, "budget"),
      );
    return found;
  };
  const layout = () => ({
    xaxis: { ...(isDate ? dateAxis(lines) : offerAxis(lines)), showgrid: false },
    yaxis: moneyAxis(lines.top, view, 10 ** view.currency_digits),
    margin: { l: 52, r: 8, t: 6, b: 40 },
  });
  const limit =
    view.paced === null
      ? "No pace is set."
      : `The pace allows ${money(view.paced, view)} by now.`;
  return draw(node, traces, layout, {
    label: isDate ? "Committed money by date" : "Committed money by number of offers",
    text:
      `After ${number(view.decisions)} offers ${money(view.committed, view)} is committed. ` +
      `${limit}`,
  });
}

function offerAxis({ end }) {
  return { title: "Offers made", range: [0, end], nticks: 6, tickformat: ",d" };
}

function dateAxis({ x, now }) {
  const [first, last] = [x[0], now < x.at(-1) ? x.at(-1) : now].map((at) => Date.parse(`${at}Z`));
  const end = Math.max(first + SHORTEST, last + 0.04 * (last - first));
  const range = [first, end].map((at) => new Date(at).toISOString().slice(0, -1));
  return { type: "date", title: "Date", range, nticks: 6 };
}

function keyOf(lines, { through, events }) {
  if (!lines.whole)
    return `The history is being read: ${percent(through / events)} so far. Dotted: not read yet.`;
  const parts = ["Line: committed. Pale line and ring: with what is reserved."];
  if (lines.pace) parts.push("Dashed: the most that the pace allows.");
  if (lines.budget) parts.push("Dotted: the budget.");
  return parts.join(" ");
}

function begins({ status }) {
  return status === "closed" ? "" : "The curve of the spending begins with the first offer.";
}

/** A time as the visitor's clock shows it: Plotly knows no time zones. */
function local(at) {
  const date = new Date(at);
  return new Date(date - 60_000 * date.getTimezoneOffset()).toISOString().slice(0, -1);
}

/** The share of the budget that may be used by an offer: exploring is needed early. */
function pacedShare(offers, over) {
  return Math.min(1, Math.log1p(offers + 1) / Math.log1p(over));
}

/** How far to the right to draw: all of the pace, unless the campaign is at its very beginning. */
function lastOffer(decisions, over) {
  if (!over) return Math.max(20, decisions * 1.08);
  if (decisions > over) return decisions * 1.08;
  return decisions > over / 10 ? over : Math.min(over, Math.max(20, 4 * decisions));
}

function tell(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
