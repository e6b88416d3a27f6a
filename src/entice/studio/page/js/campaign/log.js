// What the page knows of a campaign's log: the latest offers, and how the spending grew.

import { get } from "../api.js";

const PAGE = 1000; // events
const PAGES = 3; // read back at first
const KEPT = 60; // offers
const MOST_POINTS = 400; // of the spending curve

/** The tail of a log, kept up by `add`. */
export class Log {
  /** Read the tail of a campaign's log, up to what `view` knows of. */
  static async read(view, { signal }) {
    const begin = Math.max(0, view.events - PAGES * PAGE);
    const starts = Array.from({ length: PAGES }, (_, i) => begin + i * PAGE).filter(
      (after) => after <= view.events,
    );
    const path = (after) => `/v1/campaigns/${view.id}/events?after=${after}&limit=${PAGE}`;
    const pages = await Promise.all(starts.map((after) => get(path(after), { signal })));
    return new Log(
      view,
      pages.flatMap(({ events }) => events),
    );
  }

  constructor(view, events) {
    this.last = 0; // the number of the last event
    this.offers = new Map(); // by number, the oldest first
    this.spent = []; // [offers made, committed]
    const known = events.filter((event) => event.seq <= view.events);
    this.made = view.decisions - known.filter(({ body }) => body.kind === "offered").length;
    this.committed = view.committed - known.reduce((sum, { body }) => sum + paidBy(body), 0);
    this.spent.push([this.made, this.committed]);
    for (const event of events) this.add(event);
  }

  /** Take an event in. Returns the offer that it changed, if it changed one. */
  add({ seq, at, body, why }) {
    if (seq <= this.last) return null;
    this.last = seq;
    this.committed += paidBy(body);
    if (body.kind === "offered") {
      this.made = body.n;
      const offer = {
        n: body.n,
        at,
        why,
        offered: body,
        state: body.shadow ? "shadow" : "offered",
      };
      this.offers.set(body.n, offer);
      if (this.offers.size > KEPT) this.offers.delete(this.offers.keys().next().value);
    }
    if (this.spent.length > 2 * MOST_POINTS) this.spent = this.spent.filter((_, i) => i % 2 === 0);
    this.spent.push([this.made, this.committed]);
    const offer = this.offers.get(body.n);
    if (offer === undefined) return null;
    if (body.kind === "accepted") offer.paid = body.paid;
    if (body.kind === "rated" || body.kind === "revised") offer.rating = body.rating;
    if (body.kind !== "offered") offer.state = body.kind === "revised" ? "rated" : body.kind;
    return offer;
  }
}

function paidBy(body) {
  if (body.kind === "accepted") return body.paid;
  return body.kind === "reversed" ? -body.paid : 0;
}
