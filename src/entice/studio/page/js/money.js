// Money as text. The service defines each currency's sign and number of decimals.

import { CURRENCIES, NO_CURRENCY } from "./currencies.js";

/**
 * An amount in minor units, such as cents, with all its decimals: money(1234, view) is "€12.34".
 * @param {number|null|undefined} minor
 * @param {{currency: string, currency_digits: number}} view a campaign, offer or plan
 */
export function money(minor, { currency, currency_digits: digits }) {
  if (minor === null || minor === undefined) return "–";
  return withSign(minor / 10 ** digits, digits, currency);
}

/** An amount in minor units as a plain number, for files: major(1234, view) is "12.34". */
export function major(minor, { currency_digits: digits }) {
  return minor === null ? "" : (minor / 10 ** digits).toFixed(digits);
}

/** An amount in major units, without decimals if it is whole or at least 100: amount(4200, plan). */
export function amount(major, { currency, currency_digits: digits }) {
  const few = Number.isInteger(major) || Math.abs(major) >= 100;
  return withSign(major, few ? 0 : digits, currency);
}

/**
 * An amount in minor units, with fractions of a minor unit: exactMoney(12.5, view) is "€0.125".
 * @param {number} [most] decimals of a minor unit; without it, as many as needed
 */
export function exactMoney(minor, { currency, currency_digits: digits }, most = 8 - digits) {
  return withSign(minor / 10 ** digits, digits, currency, digits + most);
}

/** Round an amount in major units to whole minor units. */
export function roundToMinor(major, { currency_digits: digits }) {
  return Number(major.toFixed(digits));
}

/**
 * A money axis from 0 to a little above `top`, with ticks at round amounts of whole minor units. A
 * currency without a sign becomes the title of the axis.
 * @param {number} perMajor axis units per major unit: 1, or 100 if the axis is in cents
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
    ticktext: majors.map((major) => withSign(major, decimals, isNamed ? "" : currency)),
    ...(isNamed ? { title: currency } : {}),
  };
}

/** A Plotly template for an amount in major units, from a variable such as "y". */
export function moneyTemplate(variable, { currency, currency_digits: digits }) {
  const figure = `%{${variable}:,.${digits}f}`;
  if (isNone(currency)) return figure;
  const sign = signOf(currency);
  return sign ? `${sign}${figure}` : `${figure}\u00a0${currency}`;
}

/** The smallest of 1, 2, 5, 10, 20, … that is at least x. */
export function niceStep(x) {
  const unit = 10 ** Math.floor(Math.log10(x));
  return unit * [1, 2, 5, 10].find((factor) => factor * unit >= x);
}

/**
 * Parse a currency: a code, a sign, nothing, or a custom name.
 * @returns {{currency: string, currency_digits: number|null}|null} null if it is not valid. Digits
 *   are null for a custom name: the user has to enter them.
 */
export function parseCurrency(input) {
  const text = input.trim();
  if (text === "") return { currency: "", currency_digits: CURRENCIES[NO_CURRENCY].digits };
  const bySign = Object.keys(CURRENCIES).find((code) => CURRENCIES[code].sign === text);
  const code = bySign ?? text.toUpperCase();
  if (Object.hasOwn(CURRENCIES, code))
    return { currency: code, currency_digits: CURRENCIES[code].digits };
  return /^[A-Z]{3,12}$/.test(code) ? { currency: code, currency_digits: null } : null;
}

function withSign(value, digits, currency, most = digits) {
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
