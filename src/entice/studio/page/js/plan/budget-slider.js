// The budget slider: estimates while it moves, and requests a new forecast when it rests.

import { h } from "../dom.js";
import { percent } from "../format.js";
import { amount, roundToMinor } from "../money.js";
import { budgetRange, underBudget } from "./budget.js";

const REST = 350; // milliseconds without a move, also with the keyboard

/**
 * Make the slider.
 * @param {(budget: number|null) => void} onMove called while it moves
 * @param {(budget: number|null) => void} onRest called when it rests
 */
export function budgetSlider(onMove, onRest) {
  const input = h("input", { id: "budget", name: "budget", type: "range" });
  const value = h("output", { for: "budget", class: "budget-value" });
  const unlimited = h("input", { type: "checkbox", id: "no-budget", name: "no-budget" });
  const outcome = h("p", { class: "budget-outcome" });
  let forecast = null;
  let currency = null; // of the slider's value
  let timer = 0;

  const budget = () =>
    unlimited.checked ? null : roundToMinor(input.valueAsNumber, forecast.plan);

  function showValue() {
    const current = budget();
    const text = current === null ? "no limit" : amount(current, forecast.plan);
    value.textContent = text;
    input.disabled = unlimited.checked;
    input.setAttribute("aria-valuetext", text);
    const { min, max } = input;
    const share = unlimited.checked ? 0 : (input.valueAsNumber - min) / (max - min);
    input.style.setProperty("--share", share);
    outcome.textContent = outcomeText(forecast, current);
  }

  function change() {
    clearTimeout(timer);
    showValue();
    onMove(budget());
    timer = setTimeout(() => onRest(budget()), REST);
  }

  input.addEventListener("input", change);
  unlimited.addEventListener("change", change);

  return {
    node: h(
      "div",
      { class: "budget" },
      h("div", { class: "budget-head" }, h("label", { for: "budget" }, "Budget"), value),
      input,
      h("label", { class: "check" }, unlimited, "No limit: show how much is needed"),
      outcome,
    ),
    stop: () => clearTimeout(timer),
    update(newForecast) {
      forecast = newForecast;
      const { plan } = forecast;
      const { step, most } = budgetRange(forecast);
      const min = Math.min(step, plan.budget ?? step);
      if (document.activeElement !== input) Object.assign(input, { min, max: most, step });
      unlimited.checked = plan.budget === undefined;
      if (!unlimited.checked) {
        if (plan.budget % step) input.step = "any"; // not a multiple of the step
        input.value = String(plan.budget);
      } else if (plan.currency !== currency) input.value = String(most / 2);
      currency = plan.currency;
      showValue();
    },
  };
}

/** The effect of a budget on the recommended policy. */
function outcomeText(forecast, budget) {
  const policy = forecast.policies[forecast.order[0]];
  if (policy.needed.q95 === 0) return `${policy.label} spends nothing.`;
  const { lasts, day } = underBudget(policy, budget);
  if (budget === null) return `${policy.label} explores without a limit.`;
  const share = `The budget lasts to the end in ${percent(lasts)} of the runs.`;
  if (day === null) return `${policy.label} explores to the end in a typical run. ${share}`;
  return (
    `${policy.label} stops exploring on day ${day.toLocaleString("en")} in a typical run. ` +
    `${share}`
  );
}
