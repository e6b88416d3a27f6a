// Plan: forecast the cost of a campaign, and create it.

import { connection, jsonLines, Problem } from "../api.js";
import { h, replace, setText } from "../dom.js";
import { compilation, nonBreaking, number, percent } from "../format.js";
import { button, screenHead } from "../layout.js";
import { amount } from "../money.js";
import { readOnlyNotice } from "../permissions.js";
import { failed } from "../placeholders.js";
import { markdownTable, markdownText, pictureButtons, reportButtons } from "../report.js";
import { budgetSlider } from "./budget-slider.js";
import { drawLeads, drawPayments, legends, paymentsKey } from "./charts.js";
import { createCampaign } from "./create-campaign.js";
import { planForm } from "./form.js";
import { EXAMPLE, currencyOf, planOf } from "./plan-request.js";
import { policyCards } from "./policy-cards.js";

/** Kept while the user is on other screens. */
const saved = { values: { ...EXAMPLE }, forecast: null };

export async function show(root, { signal }) {
  const notice = await readOnlyNotice("create a campaign");
  const create = notice ? null : (label) => createCampaign(saved.forecast.campaigns[label]);
  const status = h("p.plan-status.note", { role: "status" });
  const bar = h("progress.plan-progress", { max: 1, "aria-label": "Runs done" });
  let request = new AbortController();
  const result = resultView([bar, status], notice, create, {
    onMove: () => request.abort(),
    onRest: (budget) => calculate({ ...saved.values, budget }),
  });

  const form = planForm(saved.values, (values) =>
    calculate({ ...values, budget: budgetFor(values) }),
  );

  replace(
    root,
    screenHead(
      "Plan a campaign",
      "Describe your items and visitors. Each policy is then simulated in many possible worlds " +
        "that match, to forecast costs and how long it takes to find the best item.",
    ),
    // The answer first, then the control that changes it most: at any width, and for the keyboard.
    result.answer,
    h(
      "div.stack.plan-grid",
      form.node,
      result.details,
    ),
  );

  async function calculate(values) {
    request.abort();
    request = new AbortController();
    const own = request.signal;
    saved.values = values;
    result.wait();
    form.setBusy(true);
    bar.hidden = false;
    bar.value = 0;
    replace(status, "Queued …");
    try {
      for await (const line of jsonLines("POST", "/v1/plans", planOf(values), {
        signal: AbortSignal.any([signal, own]),
      }))
        handleLine(line);
    } catch (problem) {
      if (signal.aborted || own.aborted) return;
      const retry = () => calculate(values);
      replace(status, "");
      result.fail(problem, retry);
      if (problem.status === 0)
        connection.addEventListener("back", () => own.aborted || retry(), { once: true, signal });
    }
    bar.hidden = true;
    form.setBusy(false);
  }

  function handleLine(line) {
    if (line.kind === "queued")
      replace(status, line.ahead ? `Queued: ${number(line.ahead)} ahead …` : "Calculating …");
    else if (line.kind === "compiling") replace(status, compilation(line));
    else if (line.kind === "progress") {
      bar.value = line.done / line.total;
      replace(status, `Calculating: ${number(line.done)} of ${number(line.total)} runs`);
    } else if (line.kind === "failed") throw new Problem(422, line.title, line.detail);
    else if (line.kind === "forecast") {
      saved.forecast = line;
      replace(
        status,
        `Based on ${number(line.plan.replications)} runs of each policy, seed ${line.seed}.`,
      );
      result.update(line);
    }
  }

  signal.addEventListener("abort", result.stop);
  if (saved.forecast !== null) result.update(saved.forecast);
  await calculate(saved.values);
}

/** The same budget as before, or none if the currency has changed. */
function budgetFor(values) {
  const [before, after] = [saved.values, values].map((form) => currencyOf(form).currency);
  return before === after ? saved.values.budget : null;
}

/** The forecast: sentence, budget slider, charts, policy cards. */
function resultView([bar, status], notice, create, { onMove, onRest }) {
  const summary = h("div");
  const sliderSlot = h("div");
  const first = h("div.plan-first", summary, sliderSlot);
  const errors = h("div");
  const answer = h(
    "section.card.plan-answer",
    { "aria-label": "Forecast" },
    bar,
    first,
    errors,
    status,
  );
  const cardList = h("div");
  const assumptions = h("ul");
  let forecast = null;
  let cards = { buttons: [] };
  let frame = 0;
  const slider = budgetSlider((budget) => {
    onMove();
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => {
      cards.update(budget);
      drawPayments(payments.chart, forecast, budget);
    });
    answer.classList.add("plan-stale");
    const createButton = summary.querySelector("button.primary");
    if (createButton) createButton.disabled = true; // until the forecast has this budget
  }, onRest);

  replace(sliderSlot, slider.node);
  const csvRows = () => dayRows(forecast);
  const payments = chartCard(
    "Payments",
    "Total by the end of each day, without a limit.",
    "payments",
    csvRows,
  );
  const leads = chartCard(
    "Best item leads",
    "Share of runs in which it displays the best rating.",
    "best-item-leads",
    csvRows,
  );
  const details = h(
    "div.stack.plan-details",
    h("div.stack.plan-charts", payments.node, leads.node),
    cardList,
    h("details.card.plan-assumptions", h("summary", "Assumptions"), assumptions),
  );

  /** Mark the forecast as one that is being replaced: nothing can be done with it until then. */
  function setBusy(busy) {
    for (const node of [answer, summary, details])
      if (busy) node.setAttribute("aria-busy", "true");
      else node.removeAttribute("aria-busy");
    const isStale = answer.classList.contains("plan-stale"); // of another budget
    for (const node of [...summary.querySelectorAll(".actions button"), ...cards.buttons])
      node.disabled = busy || isStale;
  }

  /** Show that a forecast is calculated; the one before it stays. */
  function wait() {
    setBusy(true);
    replace(errors);
    first.hidden = details.hidden = false;
    if (forecast !== null) return;
    summary.className = "plan-first-loading";
    details.classList.add("plan-waiting");
    replace(
      summary,
      h("p.plan-sentence", "Calculating the first forecast …"),
      h("p", "Each policy is simulated in hundreds of possible worlds. This takes some seconds."),
    );
  }

  /** Show an error in place of the forecast, or below the one before it. */
  function fail(problem, retry) {
    const isFirst = forecast === null;
    setBusy(false);
    first.hidden = details.hidden = isFirst;
    const next = isFirst
      ? "Or change the values below, and choose “Calculate”."
      : "The forecast above and the charts are those of the last values that could be calculated.";
    const error = failed(problem, retry);
    error.append(h("p.note", next));
    replace(errors, error);
    errors.scrollIntoView({ block: "nearest" }); // the form can be far below it
  }

  function update(newForecast) {
    forecast = newForecast;
    details.classList.remove("plan-waiting");
    summary.className = "";
    answer.classList.remove("plan-stale");
    const isOpen = summary.querySelector("details")?.open ?? false;
    replace(summary, sentences(forecast, notice, create, isOpen));
    slider.update(forecast);
    legends(forecast).forEach((entries, i) => replace([payments, leads][i].colours, entries));
    setText(payments.note, paymentsKey(forecast.plan));
    cards = policyCards(forecast, create);
    cards.update(forecast.plan.budget ?? null);
    replace(cardList, cards.node);
    setBusy(false);
    replace(assumptions, forecast.assumptions.map((text) => h("li", nonBreaking(text))));
    drawPayments(payments.chart, forecast, forecast.plan.budget ?? null);
    drawLeads(leads.chart, forecast);
  }

  return { answer, details, wait, fail, update, stop: slider.stop };
}

/** A card with a chart, its colours, a note, and buttons that save it under a name. */
function chartCard(title, text, name, csvRows) {
  const chart = h("div.chart.plan-chart");
  const colours = h("ul.chart-legend", { "aria-label": "Colours" });
  const note = h("p.note");
  const words = h("div", h("h2", title), h("p", text));
  const tools = pictureButtons(name, csvRows, { node: chart, title: () => title });
  const node = h(
    "section.card",
    { "aria-label": title },
    h("header.picture-head", words, tools),
    chart,
    colours,
    note,
  );
  return { node, chart, colours, note };
}

/** The forecast in sentences, with buttons to create the campaign or copy the text. */
function sentences(forecast, notice, create, open) {
  const { sentences: texts, policies, order, campaigns } = forecast;
  const { label } = policies[order[0]];
  return [
    h("p.plan-sentence", nonBreaking(texts[0])),
    h(
      "details.plan-others",
      { open },
      h("summary", "Why?"),
      h("p", nonBreaking(texts.slice(1).join(" "))),
    ),
    h(
      "div.actions",
      create &&
        campaigns[label] &&
        button("Create this campaign …", () => create(label), { class: "primary" }),
      reportButtons(() => planReport(forecast)),
    ),
    notice,
  ];
}

/** The forecast of each policy and day, in major units. */
function dayRows({ policies, plan }) {
  const columns = ["needed_q05", "needed_q50", "needed_q95", "leads"];
  return [
    ["policy", "day", ...columns, "currency"],
    ...policies.flatMap(({ label, days }) =>
      days.day.map((day, i) => [label, day, ...columns.map((c) => days[c][i]), plan.currency]),
    ),
  ];
}

/** The forecast as Markdown. */
function planReport({ plan, sentences: texts, policies, order, assumptions, seed }) {
  const money = (x) => amount(Math.round(x), plan);
  return markdownText(
    "# Plan of a campaign",
    `**${texts[0]}** ${texts.slice(1).join(" ")}`,
    markdownTable([
      ["Policy", "Payments", "Stars lost", "Total cost", "Best item leads", "Wrong at the end"],
      ...order
        .map((p) => policies[p])
        .map(({ label, spend, stars_lost: lost, cost, lead_day: lead, stuck }) => [
          label,
          money(spend.q50),
          number(Math.round(lost.q50)),
          money(cost.q50),
          lead.q50 === null ? "never" : `from day ${number(lead.q50)}`,
          percent(stuck),
        ]),
    ]),
    "Medians of all runs.",
    "## Assumptions",
    assumptions.map((text) => `- ${text}`).join("\n"),
    `${number(plan.replications)} runs of each policy, seed ${seed}.`,
  );
}
