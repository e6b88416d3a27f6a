// Numbers and durations as text, with non-breaking units.

/** One formatter per number of digits: creating one takes a hundred times as long as using it. */
const formats = Array.from(
  { length: 5 },
  (_, digits) => new Intl.NumberFormat("en", { maximumFractionDigits: digits }),
);

/** A number with about three significant digits: 12,346; 123; 12.3; 1.23; 0.0012. */
export function number(x) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  const digits = size >= 100 || Number.isInteger(x) ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 4;
  return minus(formats[digits].format(x));
}

/** A count with its noun: counted(1, "offer") is "1 offer". */
export function counted(n, word) {
  return `${number(n)} ${word}${n === 1 ? "" : "s"}`;
}

/** A share: percent(0.123) is "12 %". */
export function percent(x) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  const hundred = 100 * x;
  const near = (hundred > 0 && hundred < 10) || (hundred > 99 && hundred < 100);
  return `${minus(formats[near ? 1 : 0].format(hundred))}\u00a0%`;
}

/** Stars: stars(4.25) is "4.25 ★". */
export function stars(x) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  return `${minus(x.toFixed(2))}\u00a0★`;
}

/** The time since a date: "4 s ago", "3 min ago", "2 h ago", "5 days ago". */
export function ago(date) {
  const seconds = Math.max(0, (Date.now() - new Date(date).getTime()) / 1000);
  if (seconds < 1) return "just now";
  return `${duration(Math.floor(seconds))} ago`;
}

/** A rounded duration: "0.6 s", "45 s", "3 min", "2 h", "5 days". */
export function duration(seconds) {
  if (seconds < 10) return `${formats[1].format(seconds)}\u00a0s`;
  if (seconds < 90) return `${Math.round(seconds)}\u00a0s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)}\u00a0min`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)}\u00a0h`;
  return `${Math.round(seconds / 86400)}\u00a0days`;
}

/** The text of a service's `compiling` line. */
export function compilation({ done = null, total = null }) {
  const text = "Compiling, the first time only";
  return total === null ? `${text} …` : `${text}: ${number(done)} of ${number(total)} done …`;
}

/** Text in which "2.3 %", "650 ★", "0.3 × 20,000" and "250 KWD" do not break. */
export function nonBreaking(text) {
  return text.replace(/(?<=\d) (?=[%★×]|[A-Z]{3,12}\b)|(?<=[×±]) (?=\d)/g, "\u00a0");
}

function minus(text) {
  return text.replace("-", "−");
}
