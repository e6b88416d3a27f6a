// What a campaign achieves: against its holdout, and against what other policies would achieve.

import { jsonLines } from "../api.js";
import { intervalFigure } from "../chart.js";
import { docsLink } from "../docs-link.js";
import { h, replace } from "../dom.js";
import { nonBreaking, number, percent, stars } from "../format.js";
import { defined } from "../glossary.js";
import { fact, figureTable } from "../layout.js";
import { exactMoney, niceStep } from "../money.js";
import { pictureButtons } from "../report.js";

const VERDICTS = {
  better: ["Higher ratings", "badge-good"],
  worse: ["Lower ratings", "badge-warn"],
  no_clear_difference: ["No clear difference yet", null],
  too_few_ratings: ["Too few ratings", null],
  split_broken: ["Do not trust", "badge-warn"],
};
const GROUPS = [
  ["paid", "Campaign"],
  ["holdout", "Holdout"],
];
const TARGETS = {
  greedy: "No campaign: everybody gets their own choice",
  ucb: "UCB",
  thompson_sampling: "Thompson sampling",
  uniform: "Each item equally often",
};

/** Make a panel. Returns its node and a function that updates it, if there is a holdout. */
export function effectPanel({ holdout }) {
  if (!holdout) return { node: noHoldout() };
  const node = h("div.effect");
  let shown = "";
  return {
    node,
    update(effect, view) {
      const next = JSON.stringify(effect);
      if (next === shown) return;
      shown = next;
      const [title, tone] = VERDICTS[effect.verdict];
      replace(
        node,
        h(
          "div.effect-words",
          h("p", h("span", { class: ["badge", tone] }, title)),
          h("p.effect-sentence", nonBreaking(effect.sentence)),
          facts(effect, view),
        ),
        h(
          "div.effect-figures",
          groupTable(effect, view),
          effect.difference === null ? null : axis(effect, view.spec),
          pictureButtons(
            "effect",
            () => csvRows(effect, view),
            effect.difference === null
              ? null
              : { figure: () => figureOf(effect, view.spec), title: () => `${view.name}: ${title}` },
          ),
        ),
      );
    },
  };
}

function noHoldout() {
  const text =
    "This can't be said: no visitors are held out. A holdout is set when a campaign " +
    "is created. More: ";
  return h("p", text, docsLink("how-to/did-it-work.md"));
}

function csvRows(effect, { currency }) {
  const columns = ["visitors", "rated", "rating", "share_rated", "paid", "payment"];
  return [
    ["group", ...columns, "currency"],
    ...GROUPS.map(([name]) => [name, ...columns.map((c) => effect[name][c]), currency]),
    ["difference", effect.difference, effect.low, effect.high],
  ];
}

/** The difference as a picture. */
function figureOf({ difference, low, high, confidence }, { lowest_rating, highest_rating }) {
  const { from, to } = scale(low, high, highest_rating - lowest_rating);
  const label = "campaign minus holdout";
  return intervalFigure([{ label, value: difference, low, high }], {
    axis: "Difference in stars",
    range: [from, to],
    name: `difference, with its ${percent(confidence)} interval`,
  });
}

function groupTable(effect, view) {
  const columns = ["Rating", "Visitors", "Rated", "Paid per visitor"];
  return figureTable(
    columns,
    GROUPS.map(([name, label]) => {
      const { rating, visitors, share_rated: share, payment: paid } = effect[name];
      return [
        name === "holdout" ? defined("holdout", label) : label,
        h("td.figure-main", stars(rating)),
        number(visitors),
        percent(share),
        payment(paid, view),
      ];
    }),
  );
}

/** The difference on an axis in stars: a line at 0, the interval as a bar, the estimate as a dot. */
function axis({ difference, low, high, confidence, verdict }, { lowest_rating, highest_rating }) {
  const { from, to, step } = scale(low, high, highest_rating - lowest_rating);
  const at = (x) => ({ "--at": (x - from) / (to - from) });
  const digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
  const ticks = Array.from({ length: Math.round((to - from) / step) + 1 }, (_, i) => from + i * step);
  const label =
    `The difference is ${signed(difference)} stars, its ${percent(confidence)} interval from ` +
    `${signed(low)} to ${signed(high)}.`;
  return h(
    "figure",
    { class: ["effect-axis", verdict === "split_broken" && "effect-broken"] },
    h(
      "figcaption",
      h("strong", `${signed(difference)} ★`),
      ` difference, ${percent(confidence)} interval ${signed(low)} to ${signed(high)}, `,
      defined("sequence", "valid at every look"),
    ),
    h(
      "div.effect-plot",
      { role: "img", "aria-label": label },
      ticks.map((x) =>
        h(
          "span",
          { class: ["effect-tick", Math.abs(x) < step / 2 && "effect-zero"], vars: at(x) },
          h("span", signed(x, digits)),
        ),
      ),
      h("span.effect-interval", { vars: { ...at(low), "--length": (high - low) / (to - from) } }),
      h("span.effect-dot", { vars: at(difference) }),
    ),
    h(
      "p.effect-sides.note",
      h("span", "← holdout rates higher"),
      h("span", "campaign rates higher →"),
    ),
  );
}

/** Round limits of the axis that include 0 and the interval, but no impossible difference. */
function scale(low, high, span) {
  const [least, most] = [Math.min(0, low), Math.max(0, high)];
  const step = niceStep((most - least) / 5);
  return {
    from: step * Math.max(Math.floor(least / step - 0.2), -Math.ceil(span / step)),
    to: step * Math.min(Math.ceil(most / step + 0.2), Math.ceil(span / step)),
    step,
  };
}

function facts(effect, view) {
  const { split } = effect;
  const cost =
    effect.cost_per_star === null
      ? `${effect.cost_note.charAt(0).toUpperCase()}${effect.cost_note.slice(1)}.`
      : [
          h("strong", payment(effect.cost_per_star, view)),
          ` per visitor, from ${payment(effect.cost_low, view)} to ` +
            `${payment(effect.cost_high, view)}`,
        ];
  const held =
    split === null
      ? `${percent(effect.holdout_share)} intended; not checked, without new visitors`
      : `${percent(split.observed)} held out, ${percent(split.intended)} intended: ` +
        (split.broken ? "not compatible" : "compatible");
  const both = (count) =>
    `${number(effect.paid[count])} with the campaign, ${number(effect.holdout[count])} in the holdout`;
  return h(
    "dl.fact-rows",
    fact("Cost of a star", cost),
    fact("Split", held),
    fact("Ratings", both("rated")),
    effect.paid.declined !== null && fact(defined("declined"), both("declined")),
  );
}

/** An average amount in minor units, with a tenth of a minor unit where that is visible. */
function payment(minor, view) {
  if (minor === null) return "–";
  return exactMoney(minor < 10 ? Math.round(10 * minor) / 10 : Math.round(minor), view);
}

/** Stars with a sign. An end of the interval beside 0 gets a third digit, as in the sentence. */
function signed(x, digits = Math.abs(x) < 0.005 ? 3 : 2) {
  const text = Math.abs(x).toFixed(digits);
  if (Number(text) === 0) return "0";
  return `${x < 0 ? "−" : "+"}${text}`;
}

/** Make a panel that runs off-policy estimates of a campaign with overlap, on request. */
export function evaluationPanel(campaign, signal) {
  const select = h(
    "select",
    { id: "target", "aria-label": "Policy to compare with" },
    Object.entries(TARGETS).map(([value, label]) => h("option", { value }, label)),
  );
  const button = h("button", { type: "button" }, "Estimate");
  const result = h("div", { role: "status" });
  let view = null;
  button.addEventListener("click", async () => {
    button.disabled = true;
    replace(result, h("p.note", "Reading the log …"));
    try {
      const body = { policy: select.value };
      const path = `/v1/campaigns/${campaign}/evaluation`;
      for await (const line of jsonLines("POST", path, body, { signal })) {
        if (line.kind === "failed") replace(result, h("p", line.detail));
        if (line.kind === "evaluation") replace(result, evaluationTable(line, view));
      }
    } catch (problem) {
      if (!signal.aborted) replace(result, h("p", problem.detail ?? problem.message));
    }
    button.disabled = false;
  });
  return {
    node: h(
      "div.stack.evaluation",
      h(
        "p",
        "Estimate what another policy would have achieved in the same decisions, from the ",
        defined("overlap", "random items"),
        ". Other policies: ",
        h("code", "entice evaluate"),
        ".",
      ),
      h("div.actions.evaluation-form", select, button),
      result,
    ),
    update(newView) {
      view = newView;
    },
  };
}

function evaluationTable(found, view) {
  const { rating, payment: paid } = found;
  const scale = 10 ** view.currency_digits;
  const per = (major) => (major === null ? "–" : payment(major * scale, view));
  const left = Object.entries(found.left_out).map(([why, n]) => `${number(n)} ${why}`);
  return [
    figureTable(
      ["Rating", "95 % interval", "Paid per visitor", "95 % interval"],
      [
        ["This campaign", stars(found.logged_rating), "", per(found.logged_payment), ""],
        [
          TARGETS[found.policy],
          stars(rating.value),
          `${stars(rating.low)} to ${stars(rating.high)}`,
          per(paid.value),
          `${per(paid.low)} to ${per(paid.high)}`,
        ],
      ],
    ),
    h(
      "p.note",
      `From ${number(found.decisions)} decisions. `,
      left.length > 0 && `Left out: ${left.join("; ")}. `,
      found.warnings.map((warning) => `${warning.charAt(0).toUpperCase()}${warning.slice(1)}. `),
      defined("evaluation", "How this is estimated"),
    ),
  ];
}
