// Names of the paper's metrics and set-ups.

export const METRICS = {
  regret: "Regret",
  compensation: "Compensation",
  compensated_pulls: "Paid pulls",
  best_arm_error_percent: "Error of the best item's average, %",
};

export const SETUPS = { written: "as written", published: "best fit" };

/** A number of a table: without decimals from 10 up. */
export function formatFigure(x) {
  const digits = Math.abs(x) >= 10 ? 0 : Math.abs(x) >= 1 ? 1 : 3;
  return x.toLocaleString("en", { maximumFractionDigits: digits }).replace("-", "−");
}
