// The offers of a campaign: the latest ones as they are made, and a search among all of them.

import { get } from "../api.js";
import { h, replace } from "../dom.js";
import { counted, nonBreaking, number } from "../format.js";
import { major, money } from "../money.js";
import { pictureButtons } from "../report.js";
import { REASONS, reasonName, stateName, stateTone } from "./labels.js";
import { periodQuery } from "./spending.js";

const LOG_PAGE = 300; // events read at first
const MAX_OFFERS = 60; // kept in memory
const MAX_SHOWN = 30; // in the feed
const PAGE = 30; // offers of a search

/** The end of a campaign's event log: its latest offers and their states, updated by `add`. */
export class EventLog {
  /** Read the last events of a campaign, up to those that `view` includes. */
  static async read(view, { signal }) {
    const after = Math.max(0, view.events - LOG_PAGE);
    const path = `/v1/campaigns/${view.id}/events?after=${after}&limit=${LOG_PAGE}`;
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

/**
 * Make the panel. Returns its node and functions that update it.
 * @param {() => {since: Date|null, until: Date|null}} period to search in
 */
export function offerPanel(campaign, signal, period) {
  const feed = offerFeed(campaign);
  const search = offerSearch(campaign, signal, period, (isActive) => {
    feed.node.hidden = feed.pauseButton.hidden = isActive;
    if (!isActive) feed.refresh();
  });
  return {
    node: h("div.offer-panel", search.form, feed.node, search.results),
    pauseButton: feed.pauseButton,
    /** Show another period. */
    changePeriod: search.run,
    update(log, view) {
      search.update(view);
      feed.update(log, view);
    },
  };
}

/** The form and the results of a search by visitor, number, reason and payment. `onChange` is called with whether there is one. */
function offerSearch(campaign, signal, period, onChange) {
  const by = h(
    "select",
    { id: "offer-by", "aria-label": "Find by" },
    h("option", { value: "player" }, "Visitor id"),
    h("option", { value: "offer" }, "Offer number"),
  );
  const text = h("input", { id: "offer-text", type: "text", maxlength: 256 });
  const label = h("label.visually-hidden", { for: "offer-text" }, "Visitor id");
  const reason = h(
    "select",
    { id: "offer-reason", "aria-label": "Reason" },
    h("option", { value: "" }, "Any reason"),
    Object.entries(REASONS).map(([value, name]) => h("option", { value }, name)),
  );
  const payment = h(
    "select",
    { id: "offer-payment", "aria-label": "Payment" },
    h("option", { value: "" }, "Paid or not"),
    h("option", { value: "paid" }, "Paid"),
    h("option", { value: "unpaid" }, "Unpaid"),
  );
  const lastPaid = h("button.small", { type: "button" }, "Last paid offer");
  const clear = h("button.small", { type: "button", hidden: true }, "Show latest");
  const status = h("p.note", { role: "status" });
  const list = h("ol.feed");
  const older = h("button.small", { type: "button" }, "Older offers");
  const tools = pictureButtons("offers", () => csvRows(found));
  const results = h("div.offer-results", { hidden: true }, tools, status, list, older);
  let found = [];
  let next = null;
  let view = null;
  let running = 0;

  /** Whether any of these fields, or the period, limits the search. */
  const isLimited = (...fields) => {
    const { since, until } = period();
    const isFiltered = fields.some(({ value }) => value.trim() !== "");
    return isFiltered || since !== null || until !== null;
  };
  const isActive = () => isLimited(text, reason, payment);
  const isAnyPaid = () => payment.value === "paid" && !isLimited(text, reason);

  async function run() {
    running += 1;
    found = [];
    next = null;
    results.hidden = clear.hidden = !isActive();
    onChange(isActive());
    if (isActive()) await more(running);
  }

  /** Read further offers, until a page is full, the search ends or another one starts. */
  async function more(mine) {
    older.hidden = true;
    const query = text.value.trim();
    replace(status, "Searching …");
    try {
      if (by.value === "offer" && query) found = await one(query);
      else {
        const end = found.length + PAGE;
        do {
          const page = await readPage(query, end - found.length);
          if (mine !== running || signal.aborted) return;
          found.push(...page.offers);
          next = page.next;
          if (next) replace(status, `Searched back to offer ${number(next)} …`);
        } while (next !== null && found.length < end);
      }
    } catch (problem) {
      if (mine !== running || signal.aborted) return;
      replace(status, problem.detail ?? problem.message);
      replace(list);
      return;
    }
    if (mine !== running) return;
    show();
  }

  function readPage(query, limit) {
    const filters = { limit, ...periodQuery(period()) };
    if (query) filters.player = query;
    if (reason.value) filters.reason = reason.value;
    if (payment.value) filters.payment = payment.value;
    if (next) filters.before = next;
    const path = `/v1/campaigns/${campaign}/offers?${new URLSearchParams(filters)}`;
    return get(path, { signal });
  }

  /** The offer of a number or id, if it matches the other filters. */
  async function one(query) {
    const n = query.replace(`${campaign}.`, "").replaceAll(",", "");
    if (!/^[1-9]\d{0,17}$/.test(n) || Number(n) > view.decisions) return [];
    const { offer } = await get(`/v1/offers/${campaign}.${n}`, { signal });
    const at = new Date(offer.offered_at);
    const { since, until } = period();
    const fits =
      (!since || at >= since) &&
      (!until || at <= until) &&
      (!reason.value || offer.reason === reason.value) &&
      (!payment.value || (payment.value === "paid") === offer.amount > 0);
    return fits ? [offer] : [];
  }

  function show() {
    replace(list, found.map((offer) => resultItem(offer)));
    older.hidden = next === null;
    tools.hidden = found.length === 0;
    const made = counted(view.decisions, "offer");
    const none = isAnyPaid()
      ? "No paid offer yet."
      : `No offer matches. The campaign has made ${made}: change the search or the period.`;
    const all = next === null ? "" : "; there are older ones";
    replace(status, found.length ? `${counted(found.length, "offer")} found${all}.` : none);
  }

  const form = h(
    "form.offer-search",
    { role: "search", "aria-label": "Offers" },
    h("div", by, label, text, h("button.small", "Search")),
    h("div", reason, payment, lastPaid, clear),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  by.addEventListener("change", () => {
    label.textContent = by.selectedOptions[0].textContent;
  });
  for (const select of [reason, payment]) select.addEventListener("change", run);
  // Its page says why it cost what it did. If there is none, the result of the search says so.
  lastPaid.addEventListener("click", async () => {
    text.value = reason.value = "";
    payment.value = "paid";
    await run();
    if (found.length > 0 && !signal.aborted) location.hash = `#/offer/${found[0].id}`;
  });
  older.addEventListener("click", () => more(running));
  clear.addEventListener("click", () => {
    text.value = reason.value = payment.value = "";
    run();
  });
  return {
    form,
    results,
    run,
    update(newView) {
      view = newView;
    },
  };
}

function csvRows(offers) {
  return [
    ["offer", "at", "item", "own_choice", "reason", "state", "amount", "paid", "rating", "currency"],
    ...offers.map((offer) => [
      offer.id,
      offer.offered_at,
      offer.arm,
      offer.greedy_arm,
      offer.reason,
      offer.state,
      major(offer.amount, offer),
      major(offer.paid, offer),
      offer.rating,
      offer.currency,
    ]),
  ];
}

function resultItem(offer) {
  const time = new Date(offer.offered_at);
  return h(
    "li.feed-item",
    head(offer, `#/offer/${offer.id}`, offer.offered_at, time.toLocaleString("en-GB"), [
      h("span", { class: ["badge", stateTone(offer.state)] }, stateName(offer.state, offer.rating)),
    ]),
    h("p.feed-why", `Offer ${number(offer.decision)}`),
  );
}

/** The first line of an offer. */
function head(offer, href, at, timeText, badges) {
  return h(
    "div.feed-head",
    h("a.feed-arm", { href }, offer.arm),
    h("span.feed-amount", offer.amount ? money(offer.amount, offer) : "unpaid"),
    h("span.feed-reason", reasonName(offer.reason)),
    badges,
    h("time.note", { datetime: at, title: new Date(at).toLocaleString("en-GB") }, timeText),
  );
}

/** Make a feed of the latest offers. Returns its node, a button that pauses it, and `update`. */
function offerFeed(campaign) {
  const list = h("ol.feed");
  const none = h(
    "div.feed-none",
    h("h3", "No offers yet"),
    h(
      "p",
      "Offers appear here as soon as your platform requests them: ",
      h("code", `POST /v1/campaigns/${campaign}/offers`),
    ),
  );
  const items = new Map();
  let frozen = null; // the offers shown while the feed is paused
  let madeBefore = 0; // offers made when the feed was paused
  let last = null;
  const pauseButton = h("button.small", { type: "button", "aria-pressed": "false", hidden: true });
  pauseButton.addEventListener("click", () => {
    const [log, view] = last;
    frozen = frozen === null ? latest(log) : null;
    madeBefore = log.made;
    pauseButton.setAttribute("aria-pressed", String(frozen !== null));
    update(log, view);
  });

  function update(log, view) {
    last = [log, view];
    if (region.hidden) return; // a search is shown instead
    none.lastElementChild.hidden = view.status === "closed";
    pauseButton.textContent = pauseLabel(frozen !== null, log.made - madeBefore);
    const offers = frozen ?? latest(log);
    none.hidden = offers.length > 0;
    pauseButton.hidden = offers.length === 0;
    const shown = new Set(offers.map(({ n }) => n));
    for (const [n, item] of items) {
      if (shown.has(n)) continue;
      item.node.remove();
      items.delete(n);
    }
    offers.forEach((offer, i) => {
      if (!items.has(offer.n)) items.set(offer.n, makeItem(campaign, offer, view));
      const item = items.get(offer.n);
      item.update(offer);
      if (list.children[i] !== item.node) list.insertBefore(item.node, list.children[i] ?? null);
    });
  }

  const region = h(
    "div.feed-scroll",
    { tabindex: "0", role: "region", "aria-label": "Latest offers" },
    list,
    none,
  );
  return { node: region, pauseButton, update, refresh: () => last && update(...last) };
}

function pauseLabel(paused, added) {
  if (!paused) return "Pause updates";
  return added ? `Resume updates (${number(added)} new)` : "Resume updates";
}

function makeItem(campaign, offer, view) {
  const { currency, currency_digits } = view;
  const badge = h("span.badge");
  const href = `#/offer/${campaign}.${offer.n}`;
  const time = new Date(offer.at).toLocaleTimeString("en-GB");
  const offered = { ...offer.offered, currency, currency_digits };
  const node = h(
    "li",
    { class: `feed-item feed-${offered.reason}` },
    head(offered, href, offer.at, time, badge),
    h("p.feed-why", nonBreaking(offer.why)),
  );
  let shown = "";
  function update({ state, rating }) {
    const text = stateName(state, rating);
    if (text === shown) return;
    shown = text;
    replace(badge, text);
    badge.className = `badge ${stateTone(state)}`;
  }
  return { node, update };
}

function latest(log) {
  return [...log.offers.values()].slice(-MAX_SHOWN).reverse();
}
