// Numbers of a plan as a manager reads them: promises are rounded up.

export const CONFIDENCES = {
  0.5: "half of all runs",
  0.8: "4 runs in 5",
  0.9: "9 runs in 10",
  0.95: "19 runs in 20",
  0.99: "99 runs in 100",
};

/** A confidence as runs. */
export function runsWithin(confidence) {
  return CONFIDENCES[confidence] ?? `${100 * confidence}\u00a0% of all runs`;
}

/** Two digits, upwards, and no finer than `decimals`: a promise that was true stays true. */
export function roundedUp(x, decimals = 2) {
  if (x <= 0) return 0;
  const unit = 10 ** Math.max(Math.floor(Math.log10(x)) - 1, -decimals);
  return Number((Math.ceil(x / unit - 1e-9) * unit).toFixed(decimals));
}

/** A day, or what is said where there is none. */
export function day(x, otherwise) {
  return x === null ? otherwise : `day ${x.toLocaleString("en")}`;
}
