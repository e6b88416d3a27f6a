// The end of a campaign's event log: its latest offers and their states.

import { get } from "../api.js";

const PAGE = 1000; // events read at first
const MAX_OFFERS = 60;

/** The latest offers, updated by `add`. */
export class EventLog {
  /** Read the last events of a campaign, up to those that `view` includes. */
  static async read(view, { signal }) {
    const after = Math.max(0, view.events - PAGE);
    const path = `/v1/campaigns/${view.id}/events?after=${after}&limit=${PAGE}`;
    return new EventLog(view, (await get(path, { signal })).events);
  }

  constructor(view, events) {
    this.last = 0; // the number of the last event
    this.made = view.decisions; // offers
    this.offers = new Map(); // by number, the oldest first
    for (const event of events) this.add(event);
  }

  /** Apply an event to the offers. */
  add({ seq, at, body, why }) {
    if (seq <= this.last) return;
    this.last = seq;
    if (body.kind === "offered") {
      this.made = Math.max(this.made, body.n);
      const state = body.shadow ? "shadow" : "offered";
      this.offers.set(body.n, { n: body.n, at, why, offered: body, state });
      if (this.offers.size > MAX_OFFERS) this.offers.delete(this.offers.keys().next().value);
    }
    const offer = this.offers.get(body.n);
    if (offer === undefined) return;
    if (body.kind === "rated" || body.kind === "revised") offer.rating = body.rating;
    if (body.kind !== "offered") offer.state = body.kind === "revised" ? "rated" : body.kind;
  }
}
