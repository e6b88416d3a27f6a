// The handle on the budget: answers while it moves, asks anew when it is let go.

import { h } from "../dom.js";
import { budgetRange, underBudget } from "./budget.js";
import { percent } from "../format.js";
import { amount, rounded } from "../money.js";

const REST = 350; // milliseconds without a move that count as letting go, also with the keyboard

/**
 * Make the handle.
 * @param {(budget: number|null) => void} moved told while it moves
 * @param {(budget: number|null) => void} letGo told when it rests
 */
export function handle(moved, letGo) {
  const input = h("input", { id: "budget", name: "budget", type: "range" });
  const value = h("output", { for: "budget", class: "budget-value" });
  const open = h("input", { type: "checkbox", id: "no-budget", name: "no-budget" });
  const told = h("p", { class: "budget-told" });
  let forecast = null;
  let currency = null; // of the amounts that the handle stands for
  let timer = 0;

  const budget = () => (open.checked ? null : rounded(input.valueAsNumber, forecast.plan));

  function tell() {
    const now = budget();
    const { plan } = forecast;
    const text = now === null ? "no limit" : amount(now, plan);
    value.textContent = text;
    input.disabled = open.checked;
    input.setAttribute("aria-valuetext", text);
    const { min, max } = input;
    input.style.setProperty(
      "--share",
      open.checked ? 0 : (input.valueAsNumber - min) / (max - min),
    );
    told.textContent = sentence(forecast, now);
  }

  function change() {
    clearTimeout(timer);
    tell();
    moved(budget());
    timer = setTimeout(() => letGo(budget()), REST);
  }

  input.addEventListener("input", change);
  open.addEventListener("change", change);

  return {
    node: h(
      "div",
      { class: "budget" },
      h("div", { class: "budget-head" }, h("label", { for: "budget" }, "Budget"), value),
      input,
      h("label", { class: "check" }, open, "Not settled: tell me what I need"),
      told,
    ),
    stop: () => clearTimeout(timer),
    update(now) {
      forecast = now;
      const { step, most } = budgetRange(forecast);
      const min = Math.min(step, forecast.plan.budget ?? step);
      if (document.activeElement !== input) Object.assign(input, { min, max: most, step });
      open.checked = forecast.plan.budget === undefined;
      if (!open.checked) {
        if (forecast.plan.budget % step) input.step = "any"; // one that was typed elsewhere
        input.value = String(forecast.plan.budget);
      } else if (forecast.plan.currency !== currency) input.value = String(most / 2);
      currency = forecast.plan.currency;
      tell();
    },
  };
}

/** What the recommended policy does with a budget: counted in the runs that are there. */
function sentence(forecast, budget) {
  const policy = forecast.policies[forecast.order[0]];
  if (policy.needed.q95 === 0) return `${policy.label} spends nothing.`;
  const { lasts, day } = underBudget(policy, budget);
  if (budget === null) return `${policy.label} explores as long as it wants to.`;
  const share = `The budget lasts to the end in ${percent(lasts)} of the runs.`;
  if (day === null) return `${policy.label} need not stop exploring in a typical run. ${share}`;
  return (
    `${policy.label} stops exploring on day ${day.toLocaleString("en")} in a typical run. ` +
    `${share}`
  );
}
