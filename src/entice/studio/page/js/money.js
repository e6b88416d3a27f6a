// Money as people read it. The service says how many decimals a currency has, and knows its sign.

import { CURRENCIES, NO_CURRENCY } from "./currencies.js";

/**
 * An amount in minor units, such as cents, with all its decimals: money(1234, view) is "€12.34".
 * @param {number|null|undefined} minor
 * @param {{currency: string, currency_digits: number}} of a campaign, an offer: whatever has them
 */
export function money(minor, { currency, currency_digits: digits }) {
  if (minor === null || minor === undefined) return "–";
  return signed(minor / 10 ** digits, digits, currency);
}

/** An amount in major units; without decimals from 100 on, or if whole: amount(4200, plan). */
export function amount(major, { currency, currency_digits: digits }) {
  const few = Number.isInteger(major) || Math.abs(major) >= 100;
  return signed(major, few ? 0 : digits, currency);
}

/** An amount in minor units with as many decimals as it takes: not all sums are whole units. */
export function exactMoney(minor, { currency, currency_digits: digits }) {
  return signed(minor / 10 ** digits, digits, currency, 8);
}

/** Round an amount of major units to the smallest unit. */
export function rounded(major, { currency_digits: digits }) {
  return Number(major.toFixed(digits));
}

/**
 * An axis of money from 0 to a little above `top`: ticks at round amounts, never at parts of the
 * smallest one. A currency without a sign is the axis' title.
 * @param {number} perMajor how much of the axis is one major unit: 1, or 100 where it is in cents
 */
export function moneyAxis(top, { currency, currency_digits: digits }, perMajor = 1) {
  const step = Math.max(niceStep(top / 4), perMajor / 10 ** digits);
  const tickvals = Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, i) => i * step);
  const majors = tickvals.map((value) => value / perMajor);
  const isNamed = !isNone(currency) && signOf(currency) === "";
  const decimals = majors.every(Number.isInteger) ? 0 : digits;
  return {
    range: [0, 1.06 * top],
    tickvals,
    ticktext: majors.map((major) => signed(major, decimals, isNamed ? "" : currency)),
    ...(isNamed ? { title: currency } : {}),
  };
}

/** A number in Plotly's templates, such as "%{y}", as an amount of major units. */
export function moneyTemplate(variable, { currency, currency_digits: digits }) {
  const figure = `%{${variable}:,.${digits}f}`;
  if (isNone(currency)) return figure;
  const sign = signOf(currency);
  return sign ? `${sign}${figure}` : `${figure}\u00a0${currency}`;
}

/** The next of 1, 2, 5, 10, 20, … that is no less than x. */
export function niceStep(x) {
  const unit = 10 ** Math.floor(Math.log10(x));
  return unit * [1, 2, 5, 10].find((factor) => factor * unit >= x);
}

/**
 * Read a currency as people write it: a code, a sign, nothing, or a name of their own.
 * @returns {{currency: string, currency_digits: number|null}|null} null: it can't be one. Digits
 *   are null where they have to be stated, since nobody but the writer knows them.
 */
export function readCurrency(written) {
  const text = written.trim();
  if (text === "") return { currency: "", currency_digits: CURRENCIES[NO_CURRENCY].digits };
  const bySign = Object.keys(CURRENCIES).find((code) => CURRENCIES[code].sign === text);
  const code = bySign ?? text.toUpperCase();
  if (Object.hasOwn(CURRENCIES, code))
    return { currency: code, currency_digits: CURRENCIES[code].digits };
  return /^[A-Z]{3,12}$/.test(code) ? { currency: code, currency_digits: null } : null;
}

function signed(value, digits, currency, most = digits) {
  const figure = Math.abs(value).toLocaleString("en", {
    minimumFractionDigits: digits,
    maximumFractionDigits: Math.max(digits, most),
  });
  const minus = value < 0 ? "−" : "";
  if (isNone(currency)) return `${minus}${figure}`;
  const sign = signOf(currency);
  return sign ? `${minus}${sign}${figure}` : `${minus}${figure}\u00a0${currency}`;
}

function signOf(currency) {
  return Object.hasOwn(CURRENCIES, currency) ? CURRENCIES[currency].sign : "";
}

function isNone(currency) {
  return currency === "" || currency === NO_CURRENCY;
}
