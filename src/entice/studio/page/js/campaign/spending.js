// Spending: the budget bar, and the chart of the history with its limits and the plan's range.

import { get } from "../api.js";
import { draw, token, withAlpha } from "../chart.js";
import { h, replace, setText } from "../dom.js";
import { nonBreaking, number, percent } from "../format.js";
import { defined } from "../glossary.js";
import { major, money, moneyAxis } from "../money.js";
import { pictureButtons } from "../report.js";
import { segmentedControl } from "../segmented-control.js";
import {
  bandTraces,
  NO_PLAN,
  plannedSoFar,
  plannedTime,
  planStart,
  planVerdict,
} from "./plan-band.js";

const POINTS = 200; // requested from the service
const PACE_POINTS = 120;
const MAX_BUDGET_RATIO = 2.5; // the budget is drawn if it is at most this many times the spending
const MIN_DATE_SPAN = 60_000; // milliseconds

/** Make a budget bar. Returns its node and a function that updates it. */
export function budgetBar() {
  const parts = ["committed", "reserved"].map((name) =>
    h("span", { class: `budget-bar-part budget-bar-${name}` }),
  );
  const pace = h("span.budget-bar-pace", { hidden: true }, h("span", "limit by now"));
  const bar = h("div.budget-bar", { role: "img" }, parts, pace);
  const amounts = Object.fromEntries(
    ["committed", "reserved", "free"].map((name) => [name, h("dd", { id: `amount-${name}` })]),
  );
  const legend = h(
    "dl.budget-bar-legend",
    entry("committed", defined("committed"), "accepted by visitors", amounts),
    entry("reserved", defined("reserved"), "promised in open offers", amounts),
    entry("free", "Free", "not used yet", amounts),
  );
  const note = h("p.note");
  const used = h("span");

  function update(view) {
    const { budget, committed, reserved, free } = view;
    const share = (amount) => (budget > 0 ? amount / budget : 0);
    parts[0].style.setProperty("--share", share(committed));
    parts[1].style.setProperty("--share", share(reserved));
    for (const [name, node] of Object.entries(amounts)) node.textContent = money(view[name], view);
    const taken = committed + reserved;
    const part = percent(share(taken));
    used.textContent = `${money(taken, view)} of ${money(budget, view)} is used (${part}).`;
    pace.hidden = view.paced === null;
    pace.style.setProperty("--at", share(view.paced ?? 0));
    note.textContent = explanation(view);
    bar.setAttribute(
      "aria-label",
      `Of ${money(budget, view)}, ${money(committed, view)} is committed, ` +
        `${money(reserved, view)} reserved and ${money(free, view)} free. ` +
        `${note.textContent}`,
    );
  }

  return { node: h("div", bar, legend, note), used, update };
}

function entry(name, title, note, amounts) {
  return h(
    "div",
    { class: `budget-bar-entry budget-bar-entry-${name}` },
    h("dt", title),
    amounts[name],
    h("dd.note", note),
  );
}

function explanation(view) {
  if (view.status === "closed") return "The campaign is closed. Nothing more will be spent.";
  if (view.free === 0) return "The budget is used up. Visitors get their own choice, unpaid. Raise it to continue.";
  if (view.paced === null) return "No pace is set: the policy can spend the budget at any speed.";
  const { paced, budget, committed, reserved } = view;
  const limit =
    `The pace allows at most ${money(paced, view)} by now ` +
    `(${percent(budget ? paced / budget : 0)} of the budget)`;
  const unused = paced - committed - reserved;
  if (unused <= 0) return `${limit}. All of it is used: larger payments have to wait.`;
  return `${limit}. ${money(unused, view)} of that is unused.`;
}

/**
 * Make the chart of a campaign. Returns its node and functions that update it.
 * @param {() => {since: Date|null, until: Date|null}} period what to show
 * @param {object|null} plan of the campaign
 */
export function spendingChart(path, signal, period, plan) {
  const chart = h("div.chart.spending-chart");
  const key = h("p.note", { id: "spending-key" });
  const verdict = h("p.plan-verdict");
  const title = () => `${view.name}: spending`;
  const tools = pictureButtons("spending", () => csvRows(view, histories[by]), {
    node: chart,
    title,
  });
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
      refresh().catch(() => {}); // the banner reports a lost connection
    },
  );

  /** Read the history. The service reads a long log in parts, each of which is drawn. */
  async function refresh() {
    const requested = by;
    const chosen = period();
    const query = new URLSearchParams({ by, points: POINTS, ...periodQuery(chosen) });
    let history;
    do {
      history = await get(`${path}/spending?${query}`, { signal });
      if (chosen !== period()) return refresh();
      histories[requested] = history;
      paint();
    } while (history.through < history.events && requested === by && !signal.aborted);
  }

  function paint() {
    if (view === null || signal.aborted) return;
    const empty = view.decisions === 0 && !view.spec.pace_over && plan === null;
    chart.hidden = toggle.hidden = tools.hidden = empty;
    showVerdict();
    if (empty) setText(key, emptyText(view));
    const history = histories[by];
    if (empty || history === undefined) return;
    const { since, until } = period();
    const whole = since === null && until === null;
    const lines = linesOf(view, history, whole ? plan : null, until === null, whole);
    setText(key, keyText(lines, history));
    return drawSpending(chart, view, history, lines);
  }

  let verdictText = "";
  function showVerdict() {
    const [word, tone, text] = plan === null ? NO_PLAN : planVerdict(view);
    if (text === verdictText) return; // keeps the focus, and an open tip
    verdictText = text;
    const badge = h("span", { class: ["badge", tone] }, word);
    replace(verdict, badge, " ", nonBreaking(text), " ", plan && defined("band"));
  }

  return {
    node: h("div.spending", verdict, h("div.picture-head", toggle, tools), chart, key),
    refresh,
    /** Forget what was read for another period. */
    clear: () => ["date", "offer"].forEach((name) => delete histories[name]),
    verdict: () => plan && planVerdict(view),
    update(newView) {
      view = newView;
      return paint();
    },
  };
}

/** A period as query parameters. */
export function periodQuery({ since, until }) {
  const times = Object.entries({ since, until }).filter(([, time]) => time !== null);
  return Object.fromEntries(times.map(([name, time]) => [name, time.toISOString()]));
}

/** The points of the chart; amounts in major units. */
function csvRows(view, history) {
  const columns = ["committed", "reserved", "budget", "paced"];
  return [
    ["at", "offers", ...columns, "currency"],
    ...history.at.map((at, i) => [
      at,
      history.offers[i],
      ...columns.map((name) => major(history[name][i], view)),
      view.currency,
    ]),
  ];
}

/**
 * The lines to draw, in minor units.
 * @param {boolean} toNow whether the period ends now
 * @param {boolean} fromStart whether it is the whole history
 */
function linesOf(view, history, plan, toNow, fromStart) {
  const isDate = history.by === "date";
  const whole = history.through >= history.events;
  const x = isDate ? history.at.map(local) : [...history.offers];
  const committed = [...history.committed];
  const used = committed.map((amount, i) => amount + history.reserved[i]);
  const now = isDate ? local(view.changed_at) : view.decisions;
  const usedNow = view.committed + view.reserved;
  const lines = { x, committed, used, now, usedNow, whole, toNow, fromStart };
  const last = x.length - 1;
  if (whole && toNow) {
    x.push(now < x[last] ? x[last] : now);
    committed.push(view.committed);
    used.push(usedNow);
  } else if (toNow) lines.unread = { x: [x[last], now], y: [committed[last], view.committed] };
  lines.end = isDate || !fromStart ? null : lastOffer(view.decisions, view.spec.pace_over);
  if (plan !== null) {
    const { before, time } = planStart(view, history);
    lines.plan = plannedSoFar(plan, view.decisions - before);
    lines.planned = (n) => (isDate ? local(plannedTime(plan, time, n)) : before + n);
    lines.planEnd = lines.planned(lines.plan.visitors.at(-1));
    if (!isDate) lines.end = Math.max(lines.end, lines.planEnd);
  }
  lines.pace = pace(view, history, lines);
  const spent = Math.max(toNow ? usedNow : 0, ...used);
  const budgets = [...history.budget, view.budget].slice(0, x.length);
  if (whole && Math.max(...budgets) <= MAX_BUDGET_RATIO * spent) lines.budget = { x, y: budgets };
  const planned = lines.plan?.high ?? [];
  // A pace far above the plan would flatten both lines.
  const highest = Math.max(spent, ...planned);
  if (lines.plan && Math.max(0, ...(lines.pace?.y ?? [])) > MAX_BUDGET_RATIO * highest)
    lines.pace = null;
  const limits = [...(lines.pace?.y ?? []), ...(lines.budget?.y ?? []), ...planned];
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
    name: label,
    hovertemplate: `${where}<br>%{customdata} ${label}<extra></extra>`,
  });
  const traces = () => {
    const accent = token("--accent");
    const soft = token("--ink-soft");
    const { x, committed: y } = lines;
    const format = (amount) => money(amount, view);
    const band =
      lines.plan &&
      bandTraces(lines.plan, token("--series-2"), lines.planned, (a) => a, "Plan", format);
    const found = [
      ...(band ?? []),
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
      lines.toNow && {
        x: [lines.now],
        y: [lines.usedNow],
        customdata: formatted([lines.usedNow]),
        mode: "markers",
        marker: { color: token("--surface"), size: 10, line: { color: accent, width: 2.5 } },
        hovertemplate: "now: %{customdata}<br>committed and reserved<extra></extra>",
        showlegend: false,
      },
    ].filter(Boolean);
    if (lines.unread)
      found.push({
        ...lines.unread,
        mode: "lines",
        line: { color: accent, width: 1.5, dash: "dot" },
        hoverinfo: "skip",
        showlegend: false,
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
      : `The pace allows at most ${money(view.paced, view)} by now.`;
  return draw(node, traces, layout, {
    label: isDate ? "Committed money by date" : "Committed money by number of offers",
    text:
      `After ${number(view.decisions)} offers, ${money(view.committed, view)} is committed. ` +
      `${limit}`,
  });
}

function offerAxis({ x, end }) {
  const range = end === null ? [x[0], Math.max(x[0] + 1, x.at(-1))] : [0, end];
  return { title: "Offers made", range, nticks: 6, tickformat: ",d" };
}

function dateAxis({ x, now, toNow, planEnd = x[0] }) {
  const ends = [x.at(-1), toNow ? now : x[0], planEnd].sort();
  const [first, last] = [x[0], ends.at(-1)].map((at) => Date.parse(`${at}Z`));
  const end = Math.max(first + MIN_DATE_SPAN, last + 0.04 * (last - first));
  const range = [first, end].map((at) => new Date(at).toISOString().slice(0, -1));
  return { type: "date", title: "Date", range, nticks: 6 };
}

function keyText(lines, { through, events }) {
  if (!lines.whole)
    return `Loading the history: ${percent(through / events)}. Dotted: not loaded yet.`;
  const parts = ["Line: committed. Pale line and ring: committed and reserved."];
  if (lines.plan) parts.push("Green: the plan's range, with its median.");
  if (lines.pace) parts.push("Dashed: limit of the pace.");
  if (lines.budget) parts.push("Dotted: budget.");
  return parts.join(" ");
}

function emptyText({ status }) {
  return status === "closed" ? "" : "The spending chart starts with the first offer.";
}

const PERIODS = {
  all: ["Whole history", null],
  day: ["Last 24 hours", 1],
  week: ["Last 7 days", 7],
  month: ["Last 30 days", 30],
  dates: ["Dates …", null],
};

/** Make a control that chooses a period. Returns its node and a function that returns the period. */
export function periodControl(onChange) {
  const select = h(
    "select",
    { id: "period", "aria-label": "Period" },
    Object.entries(PERIODS).map(([value, [label]]) => h("option", { value }, label)),
  );
  const from = h("input", { type: "date", "aria-label": "First day" });
  const to = h("input", { type: "date", "aria-label": "Last day" });
  const dates = h("span.period-dates", { hidden: true }, from, " to ", to);
  let period = { since: null, until: null };
  const change = () => {
    dates.hidden = select.value !== "dates";
    const days = PERIODS[select.value][1];
    const since = days && new Date(Date.now() - days * 86_400_000);
    const chosen = { since, until: null };
    if (select.value === "dates") {
      chosen.since = from.value ? new Date(`${from.value}T00:00`) : null;
      chosen.until = to.value ? new Date(`${to.value}T23:59:59.999`) : null;
      const isReversed = chosen.since && chosen.until && chosen.until < chosen.since;
      to.setCustomValidity(isReversed ? "The last day must not be before the first day." : "");
      if (!to.reportValidity()) return;
    }
    period = chosen;
    onChange();
  };
  for (const input of [select, from, to]) input.addEventListener("change", change);
  return { node: h("div.period", select, dates), period: () => period };
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


