// The inputs of a plan, in a marketplace's words.

import { h, replace, unique } from "../dom.js";
import { amount, readCurrency, rounded } from "../money.js";
import { POLICIES, currencyOf } from "./example.js";
import { CONFIDENCES, runsWithin } from "./words.js";

const GROUPS = [
  {
    title: "Your items",
    fields: [
      { name: "arms", label: "Number of items", min: 2, max: 1000, step: 1 },
      { name: "centre", label: "A typical item has", unit: "★", min: 1.05, max: 4.95, step: "any" },
      {
        name: "width",
        label: "Two in three lie within",
        unit: "± ★",
        min: 0.01,
        max: 4,
        step: "any",
      },
    ],
  },
  {
    title: "Your visitors",
    fields: [
      { name: "visitors_a_day", label: "Visitors a day", min: 1, max: 1_000_000, step: 1 },
      { name: "days", label: "Days", min: 1, max: 3650, step: 1 },
      {
        name: "share_who_rate",
        label: "Share who rate",
        unit: "%",
        min: 0.1,
        max: 100,
        step: "any",
        scale: 100,
      },
      {
        name: "rating_delay",
        label: "They rate later, on average by",
        unit: "days",
        min: 0,
        max: 365,
        step: "any",
      },
      {
        name: "rating_window",
        label: "A rating is awaited for",
        unit: "days",
        min: 0.001,
        max: 3650,
        step: "any",
      },
    ],
  },
  {
    title: "Your money",
    note: "A visitor is paid for the stars that they forgo.",
    fields: [
      { name: "price_of_a_star", label: "Price of a star", min: 0.01, max: 1e9, step: 0.01 },
      {
        name: "currency",
        label: "Currency",
        text: true,
        maxlength: 12,
        allows: (written) => readCurrency(written) !== null,
        rule: "A code such as EUR, a sign such as €, or a name of 3 to 12 letters.",
      },
      { name: "currency_digits", label: "Its decimals", min: 0, max: 8, step: 1 },
    ],
  },
  {
    title: "Gratitude",
    note: "A payment worth one star raises the rating, by how many stars?",
    fields: [
      { name: "drift_low", label: "At least", unit: "★", min: 0, max: 100, step: "any" },
      { name: "drift_high", label: "At most", unit: "★", min: 0, max: 100, step: "any" },
    ],
  },
];

const TAKERS = [
  { name: "midpoint", label: "Half take an offer worth", unit: "★", min: 0, max: 5, step: "any" },
  { name: "differ", label: "People differ by about", unit: "± ★", min: 0.001, max: 5, step: "any" },
];

const MORE = [
  { name: "replications", label: "Runs", min: 20, max: 2000, step: 1 },
  { name: "seed", label: "Seed", min: 0, max: 2 ** 53 - 1, step: 1 },
];

/**
 * Make the form.
 * @param {object} values what it begins with
 * @param {(values: object) => void} changed told all values but the budget, when one has changed and
 *   all are right
 */
export function form(values, changed) {
  const inputs = new Map();
  const one = (field) => makeField(field, values[field.name], inputs);
  const takers = h(
    "select",
    { id: "takers", name: "takers" },
    option("some", "Some, more if paid more"),
    option("all", "Everyone"),
  );
  takers.value = values.takers;
  const some = h("div", { class: "fields" }, TAKERS.map(one));
  const ownCurrency = h("p", { class: "note", role: "status" });
  const ninth = h("p", { class: "note" });
  const confidence = h(
    "select",
    { id: "confidence", name: "confidence" },
    Object.keys(CONFIDENCES).map((share) => option(share, runsWithin(share))),
  );
  confidence.value = String(values.confidence);
  const policies = Object.entries(POLICIES).map(([kind, { name }]) =>
    checkbox(kind, name, values.policies.includes(kind)),
  );
  const warning = h("p", { class: "form-problem", role: "alert", hidden: true });

  const node = h(
    "form",
    { class: "card plan-form", "aria-label": "What you know", novalidate: true },
    h("header", null, h("h2", null, "What you know"), h("p", null, "Filled in with an example.")),
    GROUPS.map(({ title, note, fields }) =>
      h(
        "fieldset",
        null,
        h("legend", null, title),
        note && h("p", { class: "note" }, note),
        h("div", { class: "fields" }, fields.map(one)),
        fields.some(({ name }) => name === "currency") && ownCurrency,
      ),
    ),
    h(
      "fieldset",
      null,
      h("legend", null, "Who takes an offer"),
      h("label", { for: "takers", class: "visually-hidden" }, "Who takes an offer"),
      takers,
      some,
      ninth,
    ),
    h(
      "details",
      null,
      h("summary", null, "More"),
      h(
        "fieldset",
        null,
        h("legend", null, "Compare"),
        policies.map(({ node: box }) => box),
      ),
      h(
        "div",
        { class: "field" },
        h("label", { for: "confidence" }, "Promises hold in"),
        confidence,
      ),
      h("div", { class: "fields" }, MORE.map(one)),
    ),
    warning,
    h("div", { class: "actions" }, h("button", { class: "primary" }, "Work it out")),
  );

  function read() {
    const found = { takers: takers.value, confidence: Number(confidence.value) };
    for (const [name, input] of inputs) found[name] = input.value();
    found.policies = policies.filter(({ input }) => input.checked).map(({ kind }) => kind);
    return found;
  }

  function check(found) {
    if (found.drift_high < found.drift_low)
      return "Gratitude: the least must not be more than the most.";
    if (found.policies.length === 0) return "Compare at least one policy.";
    if (found.visitors_a_day * found.days > 5_000_000)
      return (
        "Visitors a day times days must be at most 5,000,000. Plan fewer days, or a part " +
        "of the visitors."
      );
    return null;
  }

  /** Ask for decimals where nobody else knows them, and hold prices to the smallest unit. */
  function tellCurrency(found) {
    const written = readCurrency(found.currency);
    const own = written !== null && written.currency_digits === null;
    inputs.get("currency_digits").show(own);
    ownCurrency.textContent = own
      ? `${written.currency} is not in ISO 4217: it is taken for a currency of your own.`
      : "";
    const currency = currencyOf(found);
    if (!Number.isInteger(currency?.currency_digits)) return;
    const smallest = rounded(10 ** -currency.currency_digits, currency);
    inputs.get("price_of_a_star").limit({ min: smallest, step: smallest });
  }

  function tell() {
    const all = takers.value === "all";
    some.hidden = all;
    const found = read();
    tellCurrency(found);
    const { midpoint, differ, price_of_a_star: price } = found;
    const most = midpoint + differ * Math.log(9);
    const currency = currencyOf(found);
    const right = Number.isFinite(most * price) && Number.isInteger(currency?.currency_digits);
    ninth.textContent = all
      ? "Everyone who is offered the gap takes it."
      : `Nine in ten take one worth ${most.toFixed(2)}\u00a0★` +
        `${right ? ` (${amount(rounded(most * price, currency), currency)})` : ""}.`;
  }

  function submit() {
    tell();
    const wrong = [...inputs.values()].filter((input) => !input.check());
    const found = read();
    const problem = wrong.length ? "Some fields are not right yet." : check(found);
    warning.hidden = problem === null;
    replace(warning, problem ?? "");
    if (problem === null) changed(found);
    return wrong;
  }

  node.addEventListener("change", submit);
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    submit()[0]?.focus();
  });
  tell();
  return node;
}

function makeField(field, value, inputs) {
  const id = unique(field.name);
  const { label, unit, scale = 1 } = field;
  const said = h("p", { class: "field-problem", id: `${id}-problem`, hidden: true });
  const input = h("input", {
    id,
    name: field.name,
    type: field.text ? "text" : "number",
    inputmode: field.text ? null : "decimal",
    min: field.min,
    max: field.max,
    step: field.step,
    maxlength: field.maxlength,
    required: !field.text,
    "aria-describedby": `${id}-problem`,
  });
  input.value = field.text ? value : String(Number((value * scale).toFixed(6)));
  const node = h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    h(
      "div",
      { class: "with-unit" },
      input,
      unit && h("span", { class: "unit", "aria-hidden": "true" }, unit),
    ),
    said,
  );
  let limits = field;
  inputs.set(field.name, {
    value: () => (field.text ? input.value.trim() : input.valueAsNumber / scale),
    focus: () => input.focus(),
    show: (shown) => node.toggleAttribute("hidden", !shown),
    limit(now) {
      limits = { ...field, ...now };
      Object.assign(input, now);
    },
    check() {
      const right = node.hidden || (input.checkValidity() && (field.allows?.(input.value) ?? true));
      input.setAttribute("aria-invalid", String(!right));
      said.hidden = right;
      said.textContent = right ? "" : rule(limits);
      return right;
    },
  });
  return node;
}

function rule({ min, max, step, rule: words }) {
  if (words) return words;
  const range = `from ${figure(min)} to ${figure(max)}`;
  if (step === 1) return `A whole number ${range}.`;
  return step === "any" ? `A number ${range}.` : `A multiple of ${figure(step)} ${range}.`;
}

function figure(x) {
  return x.toLocaleString("en", { maximumFractionDigits: 8 });
}

function option(value, words) {
  return h("option", { value }, words);
}

function checkbox(kind, name, checked) {
  const input = h("input", { type: "checkbox", name: `policy-${kind}`, checked });
  return { kind, input, node: h("label", { class: "check" }, input, name) };
}
