// Confidences and rounded numbers of a plan, as text.

export const CONFIDENCES = {
  0.5: "half of all runs",
  0.8: "4 runs in 5",
  0.9: "9 runs in 10",
  0.95: "19 runs in 20",
  0.99: "99 runs in 100",
};

/** A confidence as a number of runs. */
export function runsWithin(confidence) {
  return CONFIDENCES[confidence] ?? `${100 * confidence}\u00a0% of all runs`;
}

/** Round a limit up to two digits, with at most `decimals` decimals, so that it still holds. */
export function roundUp(x, decimals = 2) {
  if (x <= 0) return 0;
  const unit = 10 ** Math.max(Math.floor(Math.log10(x)) - 1, -decimals);
  return Number((Math.ceil(x / unit - 1e-9) * unit).toFixed(decimals));
}

/** A day, or another text if there is none. */
export function day(x, otherwise) {
  return x === null ? otherwise : `day ${x.toLocaleString("en")}`;
}
