// From the plan to a campaign: names are asked for, the rest is what was planned.

import { send } from "../api.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { number } from "../format.js";
import { money } from "../money.js";

const PROBE = { share: 0.1, amount: 0.5 };
const ID = /^[A-Za-z0-9._~-]{1,64}$/;

/** Ask for names and create the campaign. Leads to it, if it was created. */
export async function launch(body) {
  const name = h("input", { id: "campaign-name", type: "text", maxlength: 200, required: true });
  name.value = body.name;
  const items = h("textarea", {
    id: "campaign-items",
    rows: Math.min(10, body.arms.length + 1),
    spellcheck: "false",
    "aria-describedby": "items-note",
  });
  items.value = body.arms.join("\n");
  const probe = h("input", { type: "checkbox", name: "probe" });
  const coin = money(Math.ceil(PROBE.amount * body.price_of_a_star), body);
  const fact = (term, value) => h("div", null, h("dt", null, term), h("dd", null, value));
  const created = await ask({
    title: "Create this campaign",
    confirm: "Create and go live",
    body: [
      h("label", { for: "campaign-name" }, "Name"),
      name,
      h("label", { for: "campaign-items" }, "Items, one on each line"),
      items,
      h(
        "p",
        { id: "items-note", class: "note" },
        "The ids that your shop knows them by: letters, digits and . _ ~ - (a space " +
          `becomes -). Planned for ${number(body.arms.length)}.`,
      ),
      h("label", { class: "check" }, probe, "Measure the drift"),
      h(
        "p",
        { class: "note" },
        `In a tenth of the offers of the visitor's own choice a coin adds ${coin}, or ` +
          "does not: the only honest way to tell gratitude from quality. It comes out of " +
          "the budget, and is not in the plan's numbers.",
      ),
      h(
        "dl",
        { class: "facts launch-facts" },
        fact("Budget", money(body.budget, body)),
        fact("Price of a star", money(body.price_of_a_star, body)),
      ),
    ],
    work: () => {
      const wanted = { ...body, name: name.value.trim(), arms: armsOf(items.value) };
      return send("POST", "/v1/campaigns", probe.checked ? { ...wanted, probe: PROBE } : wanted);
    },
  });
  if (created) location.hash = `#/campaign/${created.id}`;
}

function armsOf(text) {
  const arms = text
    .split("\n")
    .map((line) => line.trim().replace(/\s+/g, "-"))
    .filter(Boolean);
  const wrong = arms.find((arm) => !ID.test(arm));
  if (wrong !== undefined)
    throw new Error(`“${wrong}” can't be an id: up to 64 letters, digits and . _ ~ - are allowed.`);
  const twice = arms.find((arm, i) => arms.indexOf(arm) !== i);
  if (twice !== undefined)
    throw new Error(`“${twice}” is there twice. Each item needs an id of its own.`);
  if (arms.length < 2)
    throw new Error(`Name at least two items; there ${arms.length === 1 ? "is one" : "are none"}.`);
  return arms;
}
