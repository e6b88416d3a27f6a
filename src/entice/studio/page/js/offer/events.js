// The events of an offer: their effects on money and averages, and their hashes in the log.

import { get } from "../api.js";
import { h } from "../dom.js";
import { duration, number } from "../format.js";
import { fact } from "../layout.js";
import { money } from "../money.js";

const WHEN = { dateStyle: "medium", timeStyle: "medium" };
const GENESIS = "0".repeat(64);

/** List the events of an offer in order, and the next possible step. */
export function timeline(offer, history) {
  const [first] = history;
  const items = history.map((event, i) => {
    const { title, effect } = describe(event, offer);
    const since = i && (new Date(event.at) - new Date(history[i - 1].at)) / 1000;
    return item(event.kind, title, effect, event.at, i ? `${duration(since)} later` : null);
  });
  const next = nextStep(offer, history);
  return h(
    "ol.timeline",
    {
      "aria-label": `Since ${new Date(first.at).toLocaleString("en-GB", WHEN)}`,
    },
    items,
    next,
  );
}

function item(kind, title, effect, at, later) {
  const date = new Date(at);
  return h(
    "li",
    { class: `timeline-item timeline-item-${kind}` },
    h("h3", title),
    h("p", effect),
    h(
      "p.note",
      h("time", { datetime: at }, date.toLocaleString("en-GB", WHEN)),
      later && ` · ${later}`,
    ),
  );
}

function describe(event, offer) {
  const amount = money(event.amount ?? offer.amount, offer);
  switch (event.kind) {
    case "offered":
      if (event.shadow)
        return { title: "Decided in shadow mode", effect: "Recorded only. No money is reserved." };
      return {
        title: `Offered: ${event.arm}`,
        effect: event.amount ? `${amount} is reserved.` : "Unpaid, so no money is reserved.",
      };
    case "accepted":
      return {
        title: "Accepted",
        effect: event.paid
          ? `${money(event.paid, offer)} is committed. Waiting for the rating.`
          : "Waiting for the rating.",
      };
    case "rated":
      return {
        title: `Rated ${event.rating}\u00a0★`,
        effect: `Counted in the average of ${event.arm}.`,
      };
    case "revised":
      return {
        title: `Changed to ${event.rating}\u00a0★`,
        effect: `It was ${event.before}\u00a0★. The average of ${event.arm} is updated.`,
      };
    case "declined":
      return { title: "Declined", effect: released(offer) };
    case "expired":
      return { title: "Expired", effect: `The visitor did not answer in time. ${released(offer)}` };
    case "voided":
      return {
        title: "Voided",
        effect: `The campaign was closed, or the visitor erased. ${released(offer)}`,
      };
    case "unrated":
      return { title: "Not rated", effect: "The rating window has ended." };
    case "reversed":
      return {
        title: "Reversed",
        effect: `${money(event.paid, offer)} is released. Its rating no longer counts.`,
      };
    default:
      return { title: event.kind, effect: "" };
  }
}

function released(offer) {
  return offer.amount ? `${money(offer.amount, offer)} is released.` : "No money was reserved.";
}

/** The step that an offer waits for, if any. */
function nextStep(offer, history) {
  const due = history.findLast(({ kind }) => kind === "accepted")?.due;
  if (offer.state === "offered" || offer.state === "shadow")
    return pending("Can be accepted", offer.expires_at);
  if (offer.state === "accepted" && due) return pending("Can be rated", new Date(due / 1000));
  return null;
}

function pending(title, until) {
  return h(
    "li.timeline-item.timeline-item-pending",
    h("h3", title),
    h("p.note", `until ${new Date(until).toLocaleString("en-GB", WHEN)}`),
  );
}

/** Read the hash of the event before each event. */
export async function readPreviousHashes(campaign, history, { signal }) {
  return Promise.all(
    history.map(async ({ seq }) => {
      if (seq === 1) return GENESIS;
      const { events } = await get(`/v1/campaigns/${campaign}/events?after=${seq - 2}&limit=1`, {
        signal,
      });
      return events[0].hash;
    }),
  );
}

/** List the events with their hashes. */
export function hashChain(history, previous) {
  return h(
    "ol.hash-chain",
    history.map((event, i) =>
      h(
        "li.link",
        h(
          "p.link-head",
          h("span.link-seq", `#${number(event.seq)}`),
          h("strong", event.kind),
        ),
        h(
          "p.link-hashes",
          shortHash(event.seq - 1, previous[i]),
          h("span", { "aria-hidden": "true" }, "→"),
          shortHash(event.seq, event.hash),
        ),
        h(
          "details",
          h("summary", "Full hashes and event"),
          h(
            "dl.link-full",
            fullHash(`Previous event, #${number(event.seq - 1)}`, previous[i]),
            fullHash(`This event, #${number(event.seq)}`, event.hash),
          ),
          h(
            "pre",
            { tabindex: "0", "aria-label": `Event ${event.seq}` },
            JSON.stringify(withoutHash(event), null, 2),
          ),
        ),
      ),
    ),
  );
}

function shortHash(seq, hash) {
  const code = h("code", { title: hash }, `${hash.slice(0, 8)}…${hash.slice(-4)}`);
  return h("span", h("span.note", `#${number(seq)} `), code);
}

function fullHash(name, hash) {
  return fact(name, h("code", hash));
}

function withoutHash({ hash, ...event }) {
  return event;
}
