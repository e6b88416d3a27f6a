// The latest offers of a campaign, with their reasons and states.

import { h, replace } from "../dom.js";
import { nonBreaking, number } from "../format.js";
import { money } from "../money.js";
import { reasonName, stateName, stateTone } from "./labels.js";

const MAX_SHOWN = 30;

/** Make a feed. Returns its node, a button that pauses it, and a function that updates it. */
export function offerFeed(campaign) {
  const list = h("ol", { class: "feed" });
  const none = h(
    "div",
    { class: "feed-none" },
    h("h3", null, "No offers yet"),
    h(
      "p",
      null,
      "Offers appear here as soon as your platform requests them: ",
      h("code", null, `POST /v1/campaigns/${campaign}/offers`),
    ),
  );
  const items = new Map();
  let frozen = null; // the offers shown while the feed is paused
  let madeBefore = 0; // offers made when the feed was paused
  let last = null;
  const pauseButton = h("button", { type: "button", class: "small", "aria-pressed": "false" });
  pauseButton.addEventListener("click", () => {
    const [log, view] = last;
    frozen = frozen === null ? latest(log) : null;
    madeBefore = log.made;
    pauseButton.setAttribute("aria-pressed", String(frozen !== null));
    update(log, view);
  });

  function update(log, view) {
    last = [log, view];
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
    "div",
    { class: "feed-scroll", tabindex: "0", role: "region", "aria-label": "Latest offers" },
    list,
    none,
  );
  return { node: region, pauseButton, update };
}

function pauseLabel(paused, added) {
  if (!paused) return "Pause updates";
  return added ? `Resume updates (${number(added)} new)` : "Resume updates";
}

function makeItem(campaign, offer, view) {
  const { offered } = offer;
  const badge = h("span", { class: "badge" });
  const time = new Date(offer.at);
  const node = h(
    "li",
    { class: `feed-item feed-${offered.reason}` },
    h(
      "div",
      { class: "feed-head" },
      h("a", { href: `#/offer/${campaign}.${offer.n}`, class: "feed-arm" }, offered.arm),
      h("span", { class: "feed-amount" }, offered.amount ? money(offered.amount, view) : "unpaid"),
      h("span", { class: "feed-reason" }, reasonName(offered.reason)),
      badge,
      h(
        "time",
        { class: "note", datetime: offer.at, title: time.toLocaleString("en-GB") },
        time.toLocaleTimeString("en-GB"),
      ),
    ),
    h("p", { class: "feed-why" }, nonBreaking(offer.why)),
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
