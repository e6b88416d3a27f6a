// Plan: forecast the cost of a campaign, and create it.

import { connection, jsonLines, Problem } from "../api.js";
import { h, replace } from "../dom.js";
import { compilation, nonBreaking, number, percent } from "../format.js";
import { screenHead } from "../layout.js";
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
  const status = h("p", { class: "plan-status note", role: "status" });
  const bar = h("progress", {
    class: "plan-progress",
    max: 1,
    value: 0,
    "aria-label": "Runs done",
  });
  const errors = h("div");
  let request = new AbortController();
  const result = resultView([bar, status, errors], notice, create, {
    onMove: () => request.abort(),
    onRest: (budget) => calculate({ ...saved.values, budget }),
  });

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
      "div",
      { class: "stack plan-grid" },
      planForm(saved.values, (values) => calculate({ ...values, budget: budgetFor(values) })),
      result.details,
    ),
  );

  async function calculate(values) {
    request.abort();
    request = new AbortController();
    const own = request.signal;
    saved.values = values;
    result.answer.setAttribute("aria-busy", "true");
    bar.hidden = false;
    bar.value = 0;
    replace(status, "Queued …");
    replace(errors);
    try {
      for await (const line of jsonLines("POST", "/v1/plans", planOf(values), {
        signal: AbortSignal.any([signal, own]),
      }))
        handleLine(line);
    } catch (problem) {
      if (signal.aborted || own.aborted) return;
      const retry = () => calculate(values);
      replace(status, "");
      replace(errors, failed(problem, retry));
      if (saved.forecast === null) result.clear();
      if (problem.status === 0)
        connection.addEventListener("back", () => own.aborted || retry(), { once: true, signal });
    }
    bar.hidden = true;
    result.answer.removeAttribute("aria-busy");
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
function resultView([bar, status, errors], notice, create, { onMove, onRest }) {
  const summary = h(
    "div",
    { class: "plan-first-loading" },
    h("p", { class: "plan-sentence" }, "Calculating the first forecast …"),
    h("p", null, "Each policy is simulated in hundreds of possible worlds. This takes some seconds."),
  );
  const sliderSlot = h("div", { class: "plan-slider" });
  const answer = h(
    "section",
    { class: "card plan-answer", "aria-label": "Forecast" },
    bar,
    h("div", { class: "plan-first" }, summary, sliderSlot),
    errors,
    status,
  );
  const payments = h("div", { class: "chart plan-chart" });
  const paymentsNote = h("p", { class: "note" });
  const colours = [0, 1].map(() => h("ul", { class: "plan-legend", "aria-label": "Colours" }));
  const leads = h("div", { class: "chart plan-chart" });
  const cardList = h("div");
  const assumptions = h("ul");
  let forecast = null;
  let cards = null;
  let frame = 0;
  const slider = budgetSlider((budget) => {
    onMove();
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => {
      cards.update(budget);
      drawPayments(payments, forecast, budget);
    });
    answer.classList.add("plan-stale");
    const createButton = summary.querySelector("button.primary");
    if (createButton) createButton.disabled = true; // until the forecast has this budget
  }, onRest);

  replace(sliderSlot, slider.node);
  const chartOf = (node, title) => ({ node, title: () => title });
  const tools = [
    pictureButtons("payments", () => dayRows(forecast), chartOf(payments, "Payments")),
    pictureButtons("best-item-leads", () => dayRows(forecast), chartOf(leads, "Best item leads")),
  ];

  const details = h(
    "div",
    { class: "stack plan-waiting" },
    h(
      "div",
      { class: "stack plan-charts" },
      h(
        "section",
        { class: "card", "aria-label": "Payments" },
        h(
          "header",
          { class: "picture-head" },
          h(
            "div",
            null,
            h("h2", null, "Payments"),
            h("p", null, "Total by the end of each day, without a limit."),
          ),
          tools[0],
        ),
        payments,
        colours[0],
        paymentsNote,
      ),
      h(
        "section",
        { class: "card", "aria-label": "Best item leads" },
        h(
          "header",
          { class: "picture-head" },
          h(
            "div",
            null,
            h("h2", null, "Best item leads"),
            h("p", null, "Share of runs in which the best item displays the best rating."),
          ),
          tools[1],
        ),
        leads,
        colours[1],
      ),
    ),
    cardList,
    h(
      "details",
      { class: "card plan-assumptions" },
      h("summary", null, "Assumptions"),
      assumptions,
    ),
  );

  function update(newForecast) {
    forecast = newForecast;
    details.hidden = false;
    details.classList.remove("plan-waiting");
    summary.className = "";
    answer.classList.remove("plan-stale");
    const isOpen = summary.querySelector("details")?.open ?? false;
    replace(summary, sentences(forecast, notice, create, isOpen));
    slider.update(forecast);
    legends(forecast).forEach((entries, i) => replace(colours[i], entries));
    paymentsNote.textContent = paymentsKey(forecast.plan);
    cards = policyCards(forecast, create);
    cards.update(forecast.plan.budget ?? null);
    replace(cardList, cards.node);
    replace(
      assumptions,
      forecast.assumptions.map((text) => h("li", null, nonBreaking(text))),
    );
    drawPayments(payments, forecast, forecast.plan.budget ?? null);
    drawLeads(leads, forecast);
  }

  return {
    answer,
    details,
    update,
    clear: () => {
      replace(summary);
      summary.className = "";
      details.hidden = true;
    },
    stop: slider.stop,
  };
}

/** The forecast in sentences, with buttons to create the campaign or copy the text. */
function sentences(forecast, notice, create, open) {
  const { sentences: texts, policies, order, campaigns } = forecast;
  const { label } = policies[order[0]];
  return [
    h("p", { class: "plan-sentence" }, nonBreaking(texts[0])),
    h(
      "details",
      { class: "plan-others", open },
      h("summary", null, "Why?"),
      h("p", null, nonBreaking(texts.slice(1).join(" "))),
    ),
    h(
      "div",
      { class: "actions" },
      create &&
        campaigns[label] &&
        h(
          "button",
          { type: "button", class: "primary", on: { click: () => create(label) } },
          "Create this campaign …",
        ),
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
