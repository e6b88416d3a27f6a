// The form of a plan.

import { h, replace, unique } from "../dom.js";
import { amount, parseCurrency, roundToMinor } from "../money.js";
import { CONFIDENCES, currencyOf, POLICIES, runsWithin } from "./plan-request.js";

const GROUPS = [
  {
    title: "Items",
    fields: [
      { name: "arms", label: "Number of items", min: 2, max: 1000, step: 1 },
      { name: "centre", label: "Typical rating", unit: "★", min: 1.05, max: 4.95, step: "any" },
      {
        name: "width",
        label: "Two in three are within",
        unit: "± ★",
        min: 0.01,
        max: 4,
        step: "any",
      },
    ],
  },
  {
    title: "Visitors",
    fields: [
      { name: "visitors_a_day", label: "Visitors per day", min: 1, max: 1_000_000, step: 1 },
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
      { name: "rating_delay", label: "Rating delay", unit: "days", min: 0, max: 365, step: "any" },
      {
        name: "rating_window",
        label: "Rating window",
        unit: "days",
        min: 0.001,
        max: 3650,
        step: "any",
      },
    ],
  },
  {
    title: "Payments",
    note: "A visitor is paid for the difference between the displayed ratings.",
    fields: [
      { name: "price_of_a_star", label: "Price of a star", min: 0.01, max: 1e9, step: 0.01 },
      {
        name: "currency",
        label: "Currency",
        text: true,
        maxlength: 12,
        isValid: (input) => parseCurrency(input) !== null,
        rule: "Enter a code such as EUR, a sign such as €, or a name of 3 to 12 letters.",
      },
      { name: "currency_digits", label: "Decimals", min: 0, max: 8, step: 1 },
    ],
  },
  {
    title: "Drift",
    note: "By how many stars does a payment worth one star raise a rating?",
    fields: [
      { name: "drift_low", label: "At least", unit: "★", min: 0, max: 100, step: "any" },
      { name: "drift_high", label: "At most", unit: "★", min: 0, max: 100, step: "any" },
    ],
  },
];

const ACCEPTANCE = [
  { name: "acceptance_midpoint", label: "Half accept at", unit: "★", min: 0, max: 5, step: "any" },
  {
    name: "acceptance_width",
    label: "They differ by",
    unit: "± ★",
    min: 0.001,
    max: 5,
    step: "any",
  },
];

const MORE = [
  { name: "replications", label: "Runs", min: 20, max: 2000, step: 1 },
  { name: "seed", label: "Seed", min: 0, max: 2 ** 53 - 1, step: 1 },
];

/**
 * Make the form.
 * @param {object} values initial values
 * @param {(values: object) => void} onChange called with all values but the budget after a change,
 *   if all are valid
 * @returns {{node: HTMLElement, setBusy: (busy: boolean) => void}}
 */
export function planForm(values, onChange) {
  const inputs = new Map();
  const fieldNode = (field) => makeField(field, values[field.name], inputs);
  const acceptance = h(
    "select",
    { id: "acceptance", name: "acceptance" },
    option("some", "More visitors if paid more"),
    option("all", "Everyone"),
  );
  acceptance.value = values.acceptance;
  const acceptanceFields = h("div.fields", ACCEPTANCE.map(fieldNode));
  const currencyNote = h("p.note", { role: "status" });
  const acceptanceNote = h("p.note");
  const confidence = h(
    "select",
    { id: "confidence", name: "confidence" },
    Object.keys(CONFIDENCES).map((share) => option(share, runsWithin(share))),
  );
  confidence.value = String(values.confidence);
  const policies = Object.entries(POLICIES).map(([kind, { name }]) =>
    checkbox(kind, name, values.policies.includes(kind)),
  );
  const spinner = h("span.spinner", { "aria-hidden": "true", hidden: true });
  const calculate = h("button.primary", spinner, "Calculate");
  const warning = h("p.form-problem", { role: "alert", hidden: true });

  const node = h(
    "form.card.plan-form",
    { "aria-label": "Your campaign", novalidate: true },
    h("header", h("h2", "Your campaign"), h("p", "Replace the example values with yours.")),
    GROUPS.map(({ title, note, fields }) =>
      h(
        "fieldset",
        h("legend", title),
        note && h("p.note", note),
        h("div.fields", fields.map(fieldNode)),
        fields.some(({ name }) => name === "currency") && currencyNote,
      ),
    ),
    h(
      "fieldset",
      h("legend", "Who accepts an offer"),
      h("label.visually-hidden", { for: "acceptance" }, "Who accepts an offer"),
      acceptance,
      acceptanceFields,
      acceptanceNote,
    ),
    h(
      "details",
      h("summary", "More"),
      h("fieldset", h("legend", "Policies to compare"), policies.map(({ node: box }) => box)),
      h("div.field", h("label", { for: "confidence" }, "Limits are kept in"), confidence),
      h("div.fields", MORE.map(fieldNode)),
    ),
    warning,
    h("div.actions", calculate),
  );

  function read() {
    const current = { acceptance: acceptance.value, confidence: Number(confidence.value) };
    for (const [name, input] of inputs) current[name] = input.value();
    current.policies = policies.filter(({ input }) => input.checked).map(({ kind }) => kind);
    return current;
  }

  function check(current) {
    if (current.drift_high < current.drift_low)
      return "Drift: “At least” must not be greater than “At most”.";
    if (current.policies.length === 0) return "Choose at least one policy.";
    if (current.visitors_a_day * current.days > 1_000_000)
      return (
        "Visitors per day × days must be at most 1,000,000. Plan fewer days or fewer visitors."
      );
    return null;
  }

  /** Show the decimals of a custom currency, and limit prices to whole minor units. */
  function updateCurrency(current) {
    const parsed = parseCurrency(current.currency);
    const isCustom = parsed !== null && parsed.currency_digits === null;
    inputs.get("currency_digits").show(isCustom);
    currencyNote.textContent = isCustom
      ? `${parsed.currency} is not an ISO 4217 code. It is used as a custom currency.`
      : "";
    const currency = currencyOf(current);
    if (!Number.isInteger(currency?.currency_digits)) return;
    const smallest = roundToMinor(10 ** -currency.currency_digits, currency);
    inputs.get("price_of_a_star").limit({ min: smallest, step: smallest });
  }

  function updateNotes() {
    const everyone = acceptance.value === "all";
    acceptanceFields.hidden = everyone;
    const current = read();
    updateCurrency(current);
    const { acceptance_midpoint: midpoint, acceptance_width: width } = current;
    const stars = midpoint + width * Math.log(9);
    const price = stars * current.price_of_a_star;
    const currency = currencyOf(current);
    const isPriced = Number.isFinite(price) && Number.isInteger(currency?.currency_digits);
    acceptanceNote.textContent = everyone
      ? "Every visitor accepts a payment that covers the difference."
      : `9 in 10 accept a payment worth ${stars.toFixed(2)}\u00a0★` +
        `${isPriced ? ` (${amount(roundToMinor(price, currency), currency)})` : ""}.`;
  }

  function submit() {
    updateNotes();
    const invalid = [...inputs.values()].filter((input) => !input.check());
    const current = read();
    const problem = invalid.length ? "Correct the marked fields." : check(current);
    warning.hidden = problem === null;
    replace(warning, problem ?? "");
    if (problem === null) onChange(current);
    return invalid;
  }

  let submitted = "";
  node.addEventListener("change", () => {
    if (JSON.stringify(read()) !== submitted) submit();
  });
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    submitted = JSON.stringify(read());
    submit()[0]?.focus();
  });
  // Leaving a field may show an error, which would move the button away from the pointer.
  calculate.addEventListener("mousedown", (event) => event.preventDefault());
  updateNotes();
  return {
    node,
    /** Show whether a forecast is calculated. */
    setBusy(busy) {
      calculate.setAttribute("aria-busy", String(busy));
      spinner.hidden = !busy;
    },
  };
}

function makeField(field, value, inputs) {
  const id = unique(field.name);
  const { label, unit, scale = 1 } = field;
  const problem = h("p.field-problem", { id: `${id}-problem`, hidden: true });
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
    "div.field",
    h("label", { for: id }, label),
    h("div.with-unit", input, unit && h("span.unit", { "aria-hidden": "true" }, unit)),
    problem,
  );
  let limits = field;
  inputs.set(field.name, {
    value: () => (field.text ? input.value.trim() : input.valueAsNumber / scale),
    focus: () => input.focus(),
    show: (shown) => node.toggleAttribute("hidden", !shown),
    limit(newLimits) {
      limits = { ...field, ...newLimits };
      Object.assign(input, newLimits);
    },
    check() {
      const valid =
        node.hidden || (input.checkValidity() && (field.isValid?.(input.value) ?? true));
      input.setAttribute("aria-invalid", String(!valid));
      problem.hidden = valid;
      problem.textContent = valid ? "" : ruleText(limits);
      return valid;
    },
  });
  return node;
}

function ruleText({ min, max, step, rule }) {
  if (rule) return rule;
  const range = `from ${formatLimit(min)} to ${formatLimit(max)}`;
  if (step === 1) return `Enter a whole number ${range}.`;
  return step === "any"
    ? `Enter a number ${range}.`
    : `Enter a multiple of ${formatLimit(step)} ${range}.`;
}

function formatLimit(x) {
  return x.toLocaleString("en", { maximumFractionDigits: 8 });
}

function option(value, label) {
  return h("option", { value }, label);
}

function checkbox(kind, name, checked) {
  const input = h("input", { type: "checkbox", name: `policy-${kind}`, checked });
  return { kind, input, node: h("label.check", input, name) };
}
