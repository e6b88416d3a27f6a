// What the page knows of a campaign's log: the latest offers.

import { get } from "../api.js";

const PAGE = 1000; // events read back at first
const KEPT = 60; // offers

/** The tail of a log, kept up by `add`. */
export class Log {
  /** Read the tail of a campaign's log, up to what `view` knows of. */
  static async read(view, { signal }) {
    const after = Math.max(0, view.events - PAGE);
    const path = `/v1/campaigns/${view.id}/events?after=${after}&limit=${PAGE}`;
    return new Log(view, (await get(path, { signal })).events);
  }

  constructor(view, events) {
    this.last = 0; // the number of the last event
    this.made = view.decisions; // offers
    this.offers = new Map(); // by number, the oldest first
    for (const event of events) this.add(event);
  }

  /** Take an event in. Returns the offer that it changed, if it changed one. */
  add({ seq, at, body, why }) {
    if (seq <= this.last) return null;
    this.last = seq;
    if (body.kind === "offered") {
      this.made = Math.max(this.made, body.n);
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
    const offer = this.offers.get(body.n);
    if (offer === undefined) return null;
    if (body.kind === "accepted") offer.paid = body.paid;
    if (body.kind === "rated" || body.kind === "revised") offer.rating = body.rating;
    if (body.kind !== "offered") offer.state = body.kind === "revised" ? "rated" : body.kind;
    return offer;
  }
}
