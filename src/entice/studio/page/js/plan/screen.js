// Plan: what would this cost me?

import { connection, lines, Problem } from "../api.js";
import { h, replace } from "../dom.js";
import { number, tied } from "../format.js";
import { unlessAllowed } from "../rights.js";
import { failed, loading } from "../state.js";
import { cards } from "./cards.js";
import { drawLeads, drawPayments, legends, paymentsKey } from "./charts.js";
import { EXAMPLE, currencyOf, planOf } from "./example.js";
import { form } from "./form.js";
import { handle } from "./handle.js";
import { launch } from "./launch.js";

/** As it was left, should the visitor come back. */
const kept = { values: { ...EXAMPLE }, forecast: null };

export async function show(root, { signal }) {
  const refused = await unlessAllowed("create a campaign");
  const create = refused ? null : (label) => launch(kept.forecast.campaigns[label]);
  const status = h("p", { class: "plan-status note", role: "status" });
  const bar = h("progress", {
    class: "plan-progress",
    max: 1,
    value: 0,
    "aria-label": "Runs done",
  });
  const trouble = h("div");
  let asking = new AbortController();
  const answer = answerPlace([bar, status, trouble], refused, create, {
    moved: () => asking.abort(), // what is being worked out is not wanted any more
    letGo: (budget) => ask({ ...kept.values, budget }),
  });

  replace(
    root,
    h(
      "header",
      { class: "screen-head" },
      h(
        "div",
        null,
        h("h1", null, "What would this cost me?"),
        h(
          "p",
          { class: "lead" },
          "Say what you know of your items and visitors. Many worlds are drawn from it, each policy " +
            "runs in all of them, and the answer comes in money and days.",
        ),
      ),
    ),
    h(
      "div",
      { class: "plan-grid" },
      form(kept.values, (values) => ask({ ...values, budget: budgetFor(values) })),
      answer.node,
    ),
  );

  async function ask(values) {
    asking.abort();
    asking = new AbortController();
    const mine = asking;
    kept.values = values;
    answer.node.setAttribute("aria-busy", "true");
    bar.hidden = false;
    bar.value = 0;
    replace(status, "Waiting for its turn …");
    replace(trouble);
    try {
      for await (const line of lines("POST", "/v1/plans", planOf(values), {
        signal: AbortSignal.any([signal, mine.signal]),
      }))
        follow(line);
    } catch (problem) {
      if (signal.aborted || mine.signal.aborted) return;
      replace(status, "");
      replace(
        trouble,
        failed(problem, () => ask(values)),
      );
      if (kept.forecast === null) answer.clear();
      if (problem.status === 0)
        connection.addEventListener("back", () => mine.signal.aborted || ask(values), {
          once: true,
          signal,
        });
    }
    bar.hidden = true;
    answer.node.removeAttribute("aria-busy");
  }

  function follow(line) {
    if (line.kind === "queued")
      replace(
        status,
        line.ahead ? `${number(line.ahead)} ahead in the queue …` : "Working it out …",
      );
    else if (line.kind === "compiling") replace(status, "Compiling, which happens once …");
    else if (line.kind === "progress") {
      bar.value = line.done / line.total;
      replace(status, `Working it out: ${number(line.done)} of ${number(line.total)} runs`);
    } else if (line.kind === "failed") throw new Problem(422, line.title, line.detail);
    else if (line.kind === "forecast") {
      kept.forecast = line;
      replace(
        status,
        `From ${number(line.plan.replications)} runs of each policy, seed ${line.seed}.`,
      );
      answer.update(line);
    }
  }

  signal.addEventListener("abort", answer.stop);
  if (kept.forecast !== null) answer.update(kept.forecast);
  await ask(kept.values);
}

/** The budget as it was; in another currency it is to be settled anew. */
function budgetFor(values) {
  const [before, now] = [kept.values, values].map((form) => currencyOf(form).currency);
  return before === now ? kept.values.budget : null;
}

/** The answer: the sentence, the handle, the pictures, the cards. */
function answerPlace([bar, status, trouble], refused, create, { moved, letGo }) {
  const said = h("div", null, loading("The first answer takes some seconds …"));
  const hero = h(
    "section",
    { class: "card plan-hero", "aria-label": "The answer" },
    bar,
    said,
    trouble,
    status,
  );
  const payments = h("div", { class: "chart plan-chart" });
  const paymentsNote = h("p", { class: "note" });
  const colours = [0, 1].map(() => h("ul", { class: "plan-legend", "aria-label": "Colours" }));
  const leads = h("div", { class: "chart plan-chart" });
  const list = h("div");
  const assumed = h("ul");
  let forecast = null;
  let table = null;
  let painting = 0;
  const budget = handle((now) => {
    moved();
    cancelAnimationFrame(painting);
    painting = requestAnimationFrame(() => {
      table.update(now);
      drawPayments(payments, forecast, now);
    });
    hero.classList.add("plan-stale");
    const launch = said.querySelector("button.primary");
    if (launch) launch.disabled = true; // a campaign has the budget that was asked about
  }, letGo);

  const rest = h(
    "div",
    { class: "plan-rest", hidden: true },
    h(
      "div",
      { class: "plan-pictures" },
      h(
        "section",
        { class: "card", "aria-label": "Budget" },
        budget.node,
        h("h3", null, "Payments, day by day, without a limit"),
        payments,
        colours[0],
        paymentsNote,
      ),
      h(
        "section",
        { class: "card", "aria-label": "Finding the best" },
        h(
          "header",
          null,
          h("h2", null, "The best item leads"),
          h("p", null, "Share of runs, at the end of each day."),
        ),
        leads,
        colours[1],
      ),
    ),
    list,
    h("details", { class: "card plan-assumed" }, h("summary", null, "What was assumed"), assumed),
  );

  function update(now) {
    forecast = now;
    rest.hidden = false;
    hero.classList.remove("plan-stale");
    replace(said, sentenceCard(forecast, refused, create));
    budget.update(forecast);
    legends(forecast).forEach((entries, i) => replace(colours[i], entries));
    paymentsNote.textContent = paymentsKey(forecast.plan);
    table = cards(forecast, create);
    table.update(forecast.plan.budget ?? null);
    replace(list, table.node);
    replace(
      assumed,
      forecast.assumptions.map((text) => h("li", null, tied(text))),
    );
    drawPayments(payments, forecast, forecast.plan.budget ?? null);
    drawLeads(leads, forecast);
  }

  return {
    node: h("div", { class: "plan-parts" }, hero, rest),
    update,
    clear: () => replace(said),
    stop: budget.stop,
  };
}

/** The sentence for the manager, to be copied or acted upon. */
function sentenceCard(forecast, refused, create) {
  const { sentences, policies, order, campaigns } = forecast;
  const { label } = policies[order[0]];
  const copied = h("span", { class: "note", role: "status" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(sentences.join(" "));
      replace(copied, "Copied.");
    } catch {
      replace(copied, "This browser does not allow it here. Select the text instead.");
    }
  };
  return [
    h("p", { class: "plan-sentence" }, tied(sentences[0])),
    h("p", { class: "plan-others" }, tied(sentences.slice(1).join(" "))),
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
      h("button", { type: "button", on: { click: copy } }, "Copy for your manager"),
      copied,
    ),
    refused,
  ];
}
