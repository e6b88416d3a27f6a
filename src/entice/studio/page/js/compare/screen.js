// Compare: campaigns with each other, and each with its plan.

import { get } from "../api.js";
import { itemCount, policyName, shareWhoRate, statusBadge } from "../campaign/labels.js";
import {
  bandTraces,
  NO_PLAN,
  plannedSoFar,
  plannedTime,
  planStart,
  planVerdict,
} from "../campaign/plan-band.js";
import { colour, draw } from "../chart.js";
import { h, replace } from "../dom.js";
import { number, percent, stars } from "../format.js";
import { button, card, screenHead, seriesColour, swatch } from "../layout.js";
import { major, money, moneyAxis } from "../money.js";
import { empty, loading } from "../placeholders.js";
import { markdownTable, markdownText, pictureButtons, reportButtons } from "../report.js";
import { scrollableTable } from "../scrollable-table.js";
import { segmentedControl } from "../segmented-control.js";
import { term } from "../tooltip.js";

const MAX_COMPARED = 8; // as many as there are colours
const LISTED = 1000; // campaigns to choose from
const POINTS = 300;
const DAY = 86_400_000; // milliseconds
const MISSING = {
  "Share who rate": "There is no rating yet.",
  "Paid per offer": "No offer was made yet.",
  "Paid per rating": "There is no rating yet.",
  Effect: ({ effect }) =>
    effect.verdict === "no_holdout"
      ? "The campaign has no holdout, so its effect can't be measured."
      : "The campaign or its holdout has too few ratings yet.",
  Plan: "The campaign was created without a plan.",
};

export async function show(root, { params, signal }) {
  replace(root, loading("Loading the campaigns …"));
  const ids = [...new Set((params.id ?? "").split(",").filter(Boolean))].slice(0, MAX_COMPARED);
  const [compared, listed] = await Promise.all([
    Promise.all(ids.map((id) => readCampaign(id, signal))),
    get(`/v1/campaigns?limit=${LISTED}`, { signal }),
  ]);
  const chart = h("div.chart.compare-chart");
  const key = h("p.note");
  let by = "offer";
  const toggle = segmentedControl(
    "Horizontal axis",
    [
      ["offer", "By offer"],
      ["day", "By day since the start"],
    ],
    (chosen) => {
      by = chosen;
      paint();
    },
  );
  const scale = scaleOf(compared);
  const paint = () => drawCompared(chart, compared, by, scale);
  const tools = pictureButtons("comparison", () => csvRows(compared), {
    node: chart,
    title: () => "Committed money",
  });
  const table = comparisonRows(compared);
  const time = new Date().toLocaleTimeString("en-GB", { timeStyle: "short" });
  const reload = () => show(root, { params, signal }).catch(() => {}); // the banner reports it
  const refresh = button("Refresh", reload, { class: "small" });
  replace(
    root,
    h("p.crumbs", h("a", { href: "#/campaigns" }, "Campaigns")),
    screenHead(
      "Compare campaigns",
      leadText(compared),
      ids.length > 0 && reportButtons(() => comparisonReport(compared, table)),
    ),
    chooser(ids, compared, listed),
    ids.length === 0
      ? h("div.card", empty("No campaign chosen", "Choose a campaign above."))
      : [
          card(
            "compare-card",
            "Spending",
            [`${scale.title}, and the range of each plan, as of ${time}. `, refresh],
            compared.map((one, i) => verdictLine(one, i)),
            h("div.picture-head", toggle, tools),
            chart,
            key,
          ),
          card(
            "compare-card",
            "Figures",
            "Since the start of each campaign.",
            scrollableTable("Figures", comparisonTable(table, compared)),
          ),
        ],
  );
  if (ids.length > 0) await paint();
  // The service reads a long log in parts, each of which is drawn.
  for (const one of compared)
    while (one.spending.through < one.spending.events && !signal.aborted) {
      const { through, events } = one.spending;
      replace(key, `Loading the history of ${one.view.name}: ${percent(through / events)}.`);
      one.spending = await one.readSpending();
      await paint();
    }
  replace(key, "Line: committed. Shaded: 90 % of the plan's runs, with their median.");
}

async function readCampaign(id, signal) {
  const path = `/v1/campaigns/${encodeURIComponent(id)}`;
  const readSpending = () => get(`${path}/spending?by=offer&points=${POINTS}`, { signal });
  const [spending, view, arms, { plan }, effect] = await Promise.all([
    readSpending(),
    ...["", "/arms", "/plan", "/effect"].map((rest) => get(`${path}${rest}`, { signal })),
  ]);
  return { view, arms, plan, effect, spending, readSpending };
}

function leadText(compared) {
  if (compared.length === 1)
    return compared[0].plan === null
      ? "Add other campaigns to compare this one with them."
      : "This campaign with its plan. Add others to compare them.";
  return "Choose up to eight campaigns. Those created from a plan are compared with it, too.";
}

/** The compared campaigns, each with a link that removes it, and a field that adds one. */
function chooser(ids, compared, listed) {
  const others = listed.filter(({ id }) => !ids.includes(id));
  const select = h(
    "select",
    { id: "add-campaign", "aria-label": "Add a campaign" },
    h("option", { value: "" }, "Add a campaign …"),
    others.map(({ id, name, status }) => h("option", { value: id }, `${name} (${status})`)),
  );
  select.addEventListener("change", () => {
    if (select.value) location.hash = `#/compare/${[...ids, select.value].join(",")}`;
  });
  const chip = ({ view }, i) =>
    h(
      "li",
      { vars: seriesColour(i) },
      swatch(),
      h("a", { href: `#/campaign/${view.id}` }, view.name),
      " ",
      statusBadge(view.status),
      h(
        "a.compare-remove",
        {
          href: `#/compare/${ids.filter((id) => id !== view.id).join(",")}`,
          "aria-label": `Remove ${view.name}`,
        },
        "×",
      ),
    );
  const isFull = ids.length >= MAX_COMPARED || others.length === 0;
  return h("div.compare-chooser", h("ul.compare-chips", compared.map(chip)), !isFull && select);
}

function verdictLine({ view, plan }, i) {
  const [word, tone, text] = plan === null ? NO_PLAN : planVerdict(view);
  return h(
    "p.plan-verdict",
    { vars: seriesColour(i) },
    swatch(),
    h("strong", view.name),
    " ",
    h("span", { class: ["badge", tone] }, word),
    ` ${text}`,
  );
}

/** Money if all campaigns have one currency, else the share of each budget. */
function scaleOf(compared) {
  const currencies = new Set(compared.map(({ view }) => view.currency));
  if (currencies.size > 1)
    return {
      title: "Share of the budget that is committed",
      height: (amount, { budget }) => (budget ? amount / budget : 0),
      axis: (top) => ({ range: [0, 1.06 * top], tickformat: ".0%", nticks: 6 }),
    };
  return {
    title: "Committed money",
    height: (amount) => amount,
    axis: (top, view) => moneyAxis(top, view, 10 ** view.currency_digits),
  };
}

function drawCompared(node, compared, by, scale) {
  const isDay = by === "day";
  const lines = compared.map(({ view, plan, spending }) => {
    const start = Date.parse(view.created_at);
    const day = (at) => (Date.parse(at) - start) / DAY;
    const x = isDay ? spending.at.map(day) : [...spending.offers];
    x.push(isDay ? Math.max(x.at(-1), day(view.changed_at)) : view.decisions);
    const y = [...spending.committed, view.committed].map((amount) => scale.height(amount, view));
    const { before, time } = plan ? planStart(view, spending) : {};
    const shown = plan && plannedSoFar(plan, view.decisions - before);
    const position = (n) => (isDay ? (plannedTime(plan, time, n) - start) / DAY : before + n);
    return { view, plan: shown, position, x, y, amounts: [...spending.committed, view.committed] };
  });
  const ends = lines.flatMap(({ x, plan, position }) => [
    x.at(-1),
    plan ? position(plan.visitors.at(-1)) : 0,
  ]);
  const end = Math.max(isDay ? 0.001 : 20, ...ends);
  const tops = lines.flatMap(({ y, plan, view }) => [
    ...y,
    ...(plan?.high ?? []).map((amount) => scale.height(amount, view)),
    scale.height(view.spec.price_of_a_star, view),
  ]);
  const top = Math.max(...tops) || 1;
  const traces = () =>
    lines.flatMap(({ view, plan, position, x, y, amounts }, i) => {
      const hex = colour(i);
      const format = (amount) => money(amount, view);
      const height = (amount) => scale.height(amount, view);
      return [
        ...(plan ? bandTraces(plan, hex, position, height, view.name, format) : []),
        {
          x,
          y,
          customdata: amounts.map(format),
          mode: "lines",
          name: view.name,
          line: { color: hex, width: 2.5, shape: "hv" },
          hovertemplate: `${view.name}<br>%{customdata} committed<extra></extra>`,
        },
      ];
    });
  const layout = () => ({
    xaxis: {
      title: isDay ? "Days since the start" : "Offers made",
      range: [0, 1.02 * end],
      nticks: 7,
      showgrid: false,
      ...(isDay ? {} : { tickformat: ",d" }),
    },
    yaxis: scale.axis(top, compared[0].view),
  });
  const text = compared.map(({ view }) => `${view.name}: ${money(view.committed, view)}`);
  return draw(node, traces, layout, { label: scale.title, text: `${text.join("; ")}.` });
}

/** One row for each figure; the first cell is its name, the others are those of the campaigns. */
function comparisonRows(compared) {
  const row = (name, value) => [name, ...compared.map(value)];
  const best = (arms) => Math.max(...arms.filter((arm) => !arm.retired).map((arm) => arm.shown));
  const per = (total, count, view) => (count ? money(Math.round(total / count), view) : "–");
  return [
    row("Campaign", ({ view }) => view.name),
    row("Status", ({ view }) => view.status),
    row("Policy", ({ view }) => policyName(view.spec.policy)),
    row("Items", ({ view }) => itemCount(view)),
    row("Budget", ({ view }) => money(view.budget, view)),
    row("Committed", ({ view }) => money(view.committed, view)),
    row("Budget used", ({ view }) =>
      percent(view.budget ? (view.committed + view.reserved) / view.budget : 0),
    ),
    row("Offers", ({ view }) => number(view.decisions)),
    row("Ratings", ({ view }) => number(view.ratings)),
    row("Share who rate", ({ view }) => percent(shareWhoRate(view))),
    row("Paid per offer", ({ view }) => per(view.committed, view.decisions, view)),
    row("Paid per rating", ({ view }) => per(view.committed, view.ratings, view)),
    row("Best displayed rating", ({ arms }) => stars(best(arms))),
    row("Effect", ({ effect }) =>
      effect.difference === null
        ? "–"
        : `${stars(effect.difference)} (${stars(effect.low)} to ${stars(effect.high)})`,
    ),
    row("Plan", ({ view, plan }) => (plan === null ? "–" : planVerdict(view)[0])),
  ];
}

function comparisonTable([head, ...rows], compared) {
  return h(
    "table.compare-table",
    h("thead", h("tr", h("td"), head.slice(1).map(columnHead))),
    h(
      "tbody",
      rows.map(([name, ...cells]) =>
        h(
          "tr",
          h("th", { scope: "row" }, name),
          cells.map((cell, i) => h("td.number", cell === "–" ? none(name, compared[i]) : cell)),
        ),
      ),
    ),
  );
}

function columnHead(name, i) {
  return h("th.number", { scope: "col" }, swatch(i), name);
}

/** A figure that a campaign does not have, with the reason. */
function none(name, campaign) {
  const found = MISSING[name];
  const reason = typeof found === "function" ? found(campaign) : found;
  return reason ? term("–", reason, { "aria-label": reason }) : "–";
}

function csvRows(compared) {
  return [
    ["campaign", "name", "at", "offers", "committed", "currency"],
    ...compared.flatMap(({ view, spending }) =>
      spending.at.map((at, i) => [
        view.id,
        view.name,
        at,
        spending.offers[i],
        major(spending.committed[i], view),
        view.currency,
      ]),
    ),
  ];
}

function comparisonReport(compared, table) {
  const verdicts = compared
    .filter(({ plan }) => plan !== null)
    .map(({ view }) => {
      const [word, , text] = planVerdict(view);
      return `- **${view.name}: ${word}.** ${text}`;
    });
  return markdownText(
    "# Comparison of campaigns",
    markdownTable(table),
    verdicts.length > 0 && ["## Plans", verdicts.join("\n")],
    new Date().toLocaleString("en-GB"),
  );
}
