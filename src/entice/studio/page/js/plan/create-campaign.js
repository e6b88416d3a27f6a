// The dialog that creates a campaign from a plan: the user enters names, the plan has the rest.

import { send } from "../api.js";
import { permitsProbe } from "../campaign/labels.js";
import { confirmDialog } from "../dialog.js";
import { h } from "../dom.js";
import { counted, number, percent } from "../format.js";
import { fact } from "../layout.js";
import { money } from "../money.js";

const PROBE = { share: 0.1, amount: 0.5 };
const STARTS = {
  live: "Live: visitors are paid from the first offer on",
  shadow: "In shadow mode: decisions are recorded, nobody is paid",
  paused: "Paused: visitors get their own choice, unpaid, until you resume",
};
const ID = /^[A-Za-z0-9._~-]{1,64}$/;

/** Open the dialog, create the campaign, and go to it. */
export async function createCampaign(settings) {
  const name = h("input", { id: "campaign-name", type: "text", maxlength: 200, required: true });
  name.value = settings.name;
  const items = h("textarea", {
    id: "campaign-items",
    rows: Math.min(10, settings.arms.length + 1),
    spellcheck: "false",
    "aria-describedby": "items-note",
  });
  items.value = settings.arms.join("\n");
  const probe = h("input", { type: "checkbox", name: "probe" });
  const holdout = h("input", {
    id: "campaign-holdout",
    type: "number",
    inputmode: "decimal",
    min: 0,
    max: 99.99,
    step: "any",
    required: true,
    "aria-describedby": "holdout-note",
  });
  holdout.value = String(Number((100 * (settings.holdout ?? 0)).toFixed(6)));
  const start = h(
    "select",
    { id: "campaign-start" },
    Object.entries(STARTS).map(([status, text]) => h("option", { value: status }, text)),
  );
  const probeAmount = money(Math.ceil(PROBE.amount * settings.price_of_a_star), settings);
  const created = await confirmDialog({
    title: "Create this campaign",
    confirm: "Create",
    body: [
      h("label", { for: "campaign-name" }, "Name"),
      name,
      h("label", { for: "campaign-items" }, "Items, one per line"),
      items,
      h(
        "p.note",
        { id: "items-note" },
        "The item ids of your platform: letters, digits and . _ ~ - (spaces become -). The plan " +
          `has ${number(settings.arms.length)} items.`,
      ),
      h("label", { for: "campaign-start" }, "Start"),
      start,
      h("label", { for: "campaign-holdout" }, "Held out, %"),
      holdout,
      h(
        "p.note",
        { id: "holdout-note" },
        "Visitors who are never paid, to measure the effect. 5 to 10 % is usual; it can't be " +
          `changed later. The forecast assumes ${percent(settings.holdout ?? 0)}.`,
      ),
      permitsProbe(settings.policy) && [
        h("label.check", probe, "Measure the drift"),
        h(
          "p.note",
          "In 10 % of the offers without payment, chance decides whether the visitor gets " +
            `${probeAmount} anyway. The difference between their ratings is the drift. These ` +
            "payments come out of the budget; the plan does not include them.",
        ),
      ],
      h(
        "dl.facts.campaign-facts",
        fact("Budget", money(settings.budget, settings)),
        fact("Price of a star", money(settings.price_of_a_star, settings)),
      ),
    ],
    action: () => {
      const arms = parseItems(items.value);
      const body = {
        ...settings,
        name: name.value.trim(),
        arms,
        status: start.value,
        holdout: holdout.valueAsNumber / 100,
      };
      return send("POST", "/v1/campaigns", probe.checked ? { ...body, probe: PROBE } : body);
    },
  });
  if (created) location.hash = `#/campaign/${created.id}`;
}

/** The ids of items, one per line, at least `least`. */
export function parseItems(text, least = 2) {
  const arms = text
    .split("\n")
    .map((line) => line.trim().replace(/\s+/g, "-"))
    .filter(Boolean);
  const invalid = arms.find((arm) => !ID.test(arm));
  if (invalid !== undefined)
    throw new Error(
      `“${invalid}” is not a valid id. Use up to 64 letters, digits and . _ ~ - characters.`,
    );
  const duplicate = arms.find((arm, i) => arms.indexOf(arm) !== i);
  if (duplicate !== undefined)
    throw new Error(`“${duplicate}” is listed twice. Give each item its own id.`);
  if (arms.length < least)
    throw new Error(`Enter at least ${counted(least, "item")}, not ${arms.length}.`);
  return arms;
}
