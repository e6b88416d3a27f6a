// The spending chart: committed and reserved money over a campaign's history, and its limits.

import { get } from "../api.js";
import { draw, token, withAlpha } from "../chart.js";
import { h, setText } from "../dom.js";
import { number, percent } from "../format.js";
import { money, moneyAxis } from "../money.js";
import { segmentedControl } from "../segmented-control.js";

const POINTS = 200; // requested from the service
const PACE_POINTS = 120;
const MAX_BUDGET_RATIO = 2.5; // the budget is drawn if it is at most this many times the spending
const MIN_DATE_SPAN = 60_000; // milliseconds

/** Make the chart of a campaign. Returns its node and functions that update it. */
export function spendingChart(path, signal) {
  const chart = h("div", { class: "chart spending-chart" });
  const key = h("p", { class: "note", id: "spending-key" });
  let by = "offer";
  let view = null;
  const histories = {}; // by offer and by date
  const toggle = segmentedControl(
    "Spending",
    [
      ["offer", "By offer"],
      ["date", "By date"],
    ],
    (chosen) => {
      by = chosen;
      paint();
      refresh();
    },
  );

  /** Read the history. The service reads a long log in parts, each of which is drawn. */
  async function refresh() {
    const requested = by;
    let history;
    do {
      history = await get(`${path}/spending?by=${requested}&points=${POINTS}`, { signal });
      histories[requested] = history;
      paint();
    } while (history.through < history.events && requested === by && !signal.aborted);
  }

  function paint() {
    if (view === null || signal.aborted) return;
    const empty = view.decisions === 0 && !view.spec.pace_over;
    chart.hidden = toggle.hidden = empty;
    if (empty) setText(key, emptyText(view));
    const history = histories[by];
    if (empty || history === undefined) return;
    const lines = linesOf(view, history);
    setText(key, keyText(lines, history));
    return drawSpending(chart, view, history, lines);
  }

  return {
    node: h("div", { class: "spending" }, toggle, chart, key),
    refresh,
    update(newView) {
      view = newView;
      return paint();
    },
  };
}

/** The lines to draw, in minor units. */
function linesOf(view, history) {
  const isDate = history.by === "date";
  const whole = history.through >= history.events;
  const x = isDate ? history.at.map(local) : [...history.offers];
  const committed = [...history.committed];
  const used = committed.map((amount, i) => amount + history.reserved[i]);
  const now = isDate ? local(view.changed_at) : view.decisions;
  const usedNow = view.committed + view.reserved;
  const lines = { x, committed, used, now, usedNow, whole };
  const last = x.length - 1;
  if (whole) {
    x.push(now < x[last] ? x[last] : now);
    committed.push(view.committed);
    used.push(usedNow);
  } else lines.unread = { x: [x[last], now], y: [committed[last], view.committed] };
  lines.end = isDate ? null : lastOffer(view.decisions, view.spec.pace_over);
  lines.pace = pace(view, history, lines);
  const spent = Math.max(usedNow, ...used);
  const budgets = [...history.budget, view.budget];
  if (whole && Math.max(...budgets) <= MAX_BUDGET_RATIO * spent) lines.budget = { x, y: budgets };
  const limits = [...(lines.pace?.y ?? []), ...(lines.budget?.y ?? [])];
  lines.top = Math.max(view.spec.price_of_a_star, spent, ...limits);
  return lines;
}

/** The limit set by the pace at each point; by offer, also in the future. */
function pace(view, history, { x, end }) {
  const over = view.spec.pace_over;
  if (!over && history.paced.every((limit) => limit === null)) return null;
  if (end === null) return { x: [...x], y: [...history.paced, view.paced].slice(0, x.length) };
  const allowed = (n) => view.budget * pacedShare(n, over);
  const unchanged =
    over && history.paced.every((limit, i) => Math.abs(limit - allowed(history.offers[i])) <= 1);
  if (unchanged) return paceCurve(0, end, allowed); // smooth from the first offer on
  const past = { x: [...history.offers], y: [...history.paced] };
  const future = over ? paceCurve(view.decisions, end, allowed) : { x: [], y: [] };
  return { x: [...past.x, ...future.x], y: [...past.y, ...future.y] };
}

function paceCurve(from, to, allowed) {
  const x = Array.from(
    { length: PACE_POINTS + 1 },
    (_, i) => from + ((to - from) * i * i) / PACE_POINTS ** 2,
  );
  return { x, y: x.map(allowed) };
}

function drawSpending(node, view, history, lines) {
  const isDate = history.by === "date";
  const where = isDate ? "%{x|%-d %b %Y, %H:%M}" : "offer %{x:,.0f}";
  const formatted = (y) => y.map((amount) => money(amount && Math.floor(amount), view));
  const line = ({ x, y }, style, label) => ({
    x,
    y,
    customdata: formatted(y),
    mode: "lines",
    line: style,
    hovertemplate: `${where}<br>%{customdata} ${label}<extra></extra>`,
  });
  const traces = () => {
    const accent = token("--accent");
    const soft = token("--ink-soft");
    const { x, committed: y } = lines;
    const found = [
      line(
        { x, y: lines.used },
        { color: withAlpha(accent, 0.5), width: 1.25, shape: "hv" },
        "committed and reserved",
      ),
      {
        ...line({ x, y }, { color: accent, width: 2.5, shape: "hv" }, "committed"),
        fill: "tozeroy",
        fillcolor: withAlpha(accent, 0.12),
        name: "committed",
      },
      {
        x: [lines.now],
        y: [lines.usedNow],
        customdata: formatted([lines.usedNow]),
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
        hoverinfo: "skip",
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
    view.paced === null ? "No pace is set." : `The pace allows ${money(view.paced, view)} by now.`;
  return draw(node, traces, layout, {
    label: isDate ? "Committed money by date" : "Committed money by number of offers",
    text:
      `After ${number(view.decisions)} offers, ${money(view.committed, view)} is committed. ` +
      `${limit}`,
  });
}

function offerAxis({ end }) {
  return { title: "Offers made", range: [0, end], nticks: 6, tickformat: ",d" };
}

function dateAxis({ x, now }) {
  const [first, last] = [x[0], now < x.at(-1) ? x.at(-1) : now].map((at) => Date.parse(`${at}Z`));
  const end = Math.max(first + MIN_DATE_SPAN, last + 0.04 * (last - first));
  const range = [first, end].map((at) => new Date(at).toISOString().slice(0, -1));
  return { type: "date", title: "Date", range, nticks: 6 };
}

function keyText(lines, { through, events }) {
  if (!lines.whole)
    return `Loading the history: ${percent(through / events)}. Dotted: not loaded yet.`;
  const parts = ["Line: committed. Pale line and ring: committed and reserved."];
  if (lines.pace) parts.push("Dashed: limit of the pace.");
  if (lines.budget) parts.push("Dotted: budget.");
  return parts.join(" ");
}

function emptyText({ status }) {
  return status === "closed" ? "" : "The spending chart starts with the first offer.";
}

/** A time in the local time zone, since Plotly does not support time zones. */
function local(at) {
  const date = new Date(at);
  return new Date(date - 60_000 * date.getTimezoneOffset()).toISOString().slice(0, -1);
}

/** The share of the budget that the pace allows after some offers, as the service computes it. */
function pacedShare(offers, over) {
  return Math.min(1, Math.log1p(offers + 1) / Math.log1p(over));
}

/** The end of the axis: the end of the pace, or less in a campaign that has just started. */
function lastOffer(decisions, over) {
  if (!over) return Math.max(20, decisions * 1.08);
  if (decisions > over) return decisions * 1.08;
  return decisions > over / 10 ? over : Math.min(over, Math.max(20, 4 * decisions));
}


