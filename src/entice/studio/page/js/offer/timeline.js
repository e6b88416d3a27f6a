// What has happened to an offer, and what that did to money and averages.

import { h } from "../dom.js";
import { duration } from "../format.js";
import { money } from "../money.js";

const WHEN = { dateStyle: "medium", timeStyle: "medium" };

/** List the events of an offer, the first one first, and what is awaited. */
export function timeline(offer, history) {
  const [first] = history;
  const items = history.map((event, i) => {
    const { title, effect } = told(event, offer);
    const since = i && (new Date(event.at) - new Date(history[i - 1].at)) / 1000;
    return item(event.kind, title, effect, event.at, i ? `${duration(since)} later` : null);
  });
  const waiting = awaited(offer, history);
  return h(
    "ol",
    {
      class: "timeline",
      "aria-label": `Since ${new Date(first.at).toLocaleString("en-GB", WHEN)}`,
    },
    items,
    waiting,
  );
}

function item(kind, title, effect, at, later) {
  const date = new Date(at);
  return h(
    "li",
    { class: `moment moment-${kind}` },
    h("h3", null, title),
    h("p", null, effect),
    h(
      "p",
      { class: "note" },
      h("time", { datetime: at }, date.toLocaleString("en-GB", WHEN)),
      later && ` · ${later}`,
    ),
  );
}

function told(event, offer) {
  const amount = money(event.amount ?? offer.amount, offer);
  switch (event.kind) {
    case "offered":
      if (event.shadow)
        return { title: "Decided in shadow mode", effect: "Recorded only: no money is reserved." };
      return {
        title: `Offered: ${event.arm}`,
        effect: event.amount
          ? `${amount} is reserved.`
          : "Nothing is reserved, as nothing is paid.",
      };
    case "accepted":
      return {
        title: "Accepted",
        effect: event.paid
          ? `${money(event.paid, offer)} is committed. The rating is awaited.`
          : "The rating is awaited.",
      };
    case "rated":
      return {
        title: `Rated ${event.rating}\u00a0★`,
        effect: `The average of ${event.arm} counts it.`,
      };
    case "revised":
      return {
        title: `Changed to ${event.rating}\u00a0★`,
        effect: `It was ${event.before}\u00a0★. The average of ${event.arm} follows.`,
      };
    case "declined":
      return { title: "Declined", effect: free(offer) };
    case "expired":
      return { title: "Expired", effect: `Nobody took it in time. ${free(offer)}` };
    case "voided":
      return { title: "Voided", effect: `The campaign was closed. ${free(offer)}` };
    case "unrated":
      return { title: "No rating came", effect: "It is awaited no more." };
    case "reversed":
      return {
        title: "Reversed",
        effect: `${money(event.paid, offer)} is free again, and its rating counts no more.`,
      };
    default:
      return { title: event.kind, effect: "" };
  }
}

function free(offer) {
  return offer.amount
    ? `${money(offer.amount, offer)} is free again.`
    : "No money was reserved.";
}

/** What may come next, if anything. */
function awaited(offer, history) {
  const due = history.findLast(({ kind }) => kind === "accepted")?.due;
  if (offer.state === "offered" || offer.state === "shadow")
    return pending("May be accepted", offer.expires_at);
  if (offer.state === "accepted" && due) return pending("May be rated", new Date(due / 1000));
  return null;
}

function pending(title, until) {
  return h(
    "li",
    { class: "moment moment-awaited" },
    h("h3", null, title),
    h("p", { class: "note" }, `until ${new Date(until).toLocaleString("en-GB", WHEN)}`),
  );
}
