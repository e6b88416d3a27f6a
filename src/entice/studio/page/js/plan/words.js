// Numbers of a plan as a manager reads them: money in whole units, promises rounded up.

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

/** An amount in the plan's currency: a sign stands before it, a word after it. */
export function amount(x, currency) {
  const digits = Number.isInteger(x) || x >= 100 ? 0 : 2;
  const figure = x.toLocaleString("en", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
  if (!currency) return figure;
  return /[\p{L}\p{N}]/u.test(currency) ? `${figure}\u00a0${currency}` : `${currency}${figure}`;
}

/** Two digits, upwards: a promise that was true stays true. */
export function roundedUp(x) {
  if (x <= 0) return 0;
  const unit = 10 ** Math.max(Math.floor(Math.log10(x)) - 1, -2);
  return Number((Math.ceil(x / unit - 1e-9) * unit).toFixed(2));
}

/** A day, or what is said where there is none. */
export function day(x, otherwise) {
  return x === null ? otherwise : `day ${x.toLocaleString("en")}`;
}
