// The feed: who was offered what just now, why, and what came of it.

import { h, replace } from "../dom.js";
import { number, tied } from "../format.js";
import { money } from "../money.js";
import { reasonName, stateName, stateTone } from "./words.js";

const SHOWN = 30;

/** Make a feed. Returns its node and what brings it up to date. */
export function feed(campaign) {
  const list = h("ol", { class: "feed" });
  const none = h(
    "div",
    { class: "feed-none" },
    h("h3", null, "No offer so far"),
    h(
      "p",
      null,
      "Your shop asks for one when a visitor comes, and it appears here: ",
      h("code", null, `POST /v1/campaigns/${campaign}/offers`),
    ),
  );
  const items = new Map();
  let held = null; // the offers that are looked at, while the feed is held
  let since = 0;
  let last = null;
  const hold = h("button", { type: "button", class: "small", "aria-pressed": "false" }, "Hold");
  hold.addEventListener("click", () => {
    const [log, view] = last;
    held = held === null ? latest(log) : null;
    since = log.made;
    hold.setAttribute("aria-pressed", String(held !== null));
    update(log, view);
  });

  function update(log, view) {
    last = [log, view];
    none.lastElementChild.hidden = view.status === "closed";
    const waiting = log.made - since;
    hold.textContent = !held ? "Hold" : waiting ? `Go on (${number(waiting)} new)` : "Go on";
    const offers = held ?? latest(log);
    none.hidden = offers.length > 0;
    hold.hidden = offers.length === 0;
    const keep = new Set(offers.map(({ n }) => n));
    for (const [n, item] of items) {
      if (keep.has(n)) continue;
      item.node.remove();
      items.delete(n);
    }
    offers.forEach((offer, i) => {
      if (!items.has(offer.n)) items.set(offer.n, makeItem(campaign, offer, view));
      const { node, tell } = items.get(offer.n);
      tell(offer);
      if (list.children[i] !== node) list.insertBefore(node, list.children[i] ?? null);
    });
  }

  const region = h(
    "div",
    { class: "feed-scroll", tabindex: "0", role: "region", "aria-label": "Latest offers" },
    list,
    none,
  );
  return { node: region, hold, update };
}

function makeItem(campaign, offer, view) {
  const { offered } = offer;
  const state = h("span", { class: "badge" });
  const time = new Date(offer.at);
  const node = h(
    "li",
    { class: `feed-item feed-${offered.reason}` },
    h(
      "div",
      { class: "feed-head" },
      h("a", { href: `#/offer/${campaign}.${offer.n}`, class: "feed-arm" }, offered.arm),
      h(
        "span",
        { class: "feed-amount" },
        offered.amount ? money(offered.amount, view) : "unpaid",
      ),
      h("span", { class: "feed-reason" }, reasonName(offered.reason)),
      state,
      h(
        "time",
        { class: "note", datetime: offer.at, title: time.toLocaleString("en-GB") },
        time.toLocaleTimeString("en-GB"),
      ),
    ),
    h("p", { class: "feed-why" }, tied(offer.why)),
  );
  let before = "";
  function tell({ state: now, rating }) {
    const text = stateName(now, rating);
    if (text === before) return;
    before = text;
    replace(state, text);
    state.className = `badge ${stateTone(now)}`;
  }
  return { node, tell };
}

function latest(log) {
  return [...log.offers.values()].slice(-SHOWN).reverse();
}
