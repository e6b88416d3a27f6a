// One offer: its timeline, the arithmetic of its price, its events and their hashes.

import { follow, get } from "../api.js";
import { policyName, reasonName, stateName, stateTone } from "../campaign/words.js";
import { h, replace } from "../dom.js";
import { number, percent, tied } from "../format.js";
import { money } from "../money.js";
import { empty, loading } from "../state.js";
import { term } from "../tip.js";
import { chain, links } from "./chain.js";
import { receipt } from "./receipt.js";
import { shelf } from "./shelf.js";
import { timeline } from "./timeline.js";

export async function show(root, { params, signal }) {
  if (!params.id) {
    replace(
      root,
      empty(
        "Which offer?",
        "Choose one in the feed of a campaign.",
        h("a", { class: "button", href: "#/campaigns" }, "Campaigns"),
      ),
    );
    return;
  }
  replace(root, loading("Looking up the offer …"));
  const name = encodeURIComponent(params.id);
  const read = async () => {
    const found = await get(`/v1/offers/${name}`, { signal });
    const before = await links(found.offer.campaign, found.history, { signal });
    return [found, before];
  };
  const [found, before] = await read();
  const { offer } = found;
  const campaign = await get(`/v1/campaigns/${offer.campaign}`, { signal });
  document.title = `Offer ${number(offer.decision)} · ${campaign.name} · Entice`;
  replace(root, page(found, before, campaign));

  const { seq } = found.history.at(-1);
  for await (const event of follow(offer.campaign, Math.max(seq, campaign.events), { signal }))
    if (event.body.n === offer.decision) replace(root, page(...(await read()), campaign));
}

function page({ offer, why, arithmetic, history }, before, campaign) {
  const [offered] = history;
  return [
    h(
      "p",
      { class: "crumbs" },
      h("a", { href: "#/campaigns" }, "Campaigns"),
      " / ",
      h("a", { href: `#/campaign/${campaign.id}` }, campaign.name),
    ),
    h(
      "header",
      { class: "screen-head" },
      h(
        "div",
        null,
        h(
          "div",
          { class: "title-line" },
          h("h1", null, `Offer ${number(offer.decision)}: ${offer.arm}`),
          h(
            "span",
            { class: ["badge", stateTone(offer.state)], role: "status" },
            stateName(offer.state, offer.rating),
          ),
        ),
        h("p", { class: "lead" }, tied(why)),
      ),
      h(
        "p",
        { class: "offer-amount" },
        h("strong", null, offer.amount ? money(offer.amount, offer) : "unpaid"),
        h("span", { class: "note" }, reasonName(offer.reason)),
      ),
    ),
    h(
      "div",
      { class: "offer-grid" },
      card("Price", "From stars to money, exactly.", receipt(offer, arithmetic), "offer-price"),
      card("Timeline", "What has happened so far.", timeline(offer, history), "offer-time"),
      card(
        "On display",
        "What the items showed at that moment.",
        shelf(offer, arithmetic.shown, campaign.spec),
        "offer-shelf",
      ),
      card("Decision", "What it rested on.", decision(offer, offered, campaign)),
      card(
        "In the log",
        "Each event is chained to the one before: its hash is that of the hash before " +
          "and of its own words.",
        chain(history, before),
        "offer-chain",
      ),
    ),
  ];
}

function card(title, words, children, kind = null) {
  return h(
    "section",
    { class: ["card", kind], "aria-label": title },
    h("header", null, h("h2", null, title), h("p", null, words)),
    children,
  );
}

function decision(offer, offered, campaign) {
  const fact = (name, value) => h("div", null, h("dt", null, name), h("dd", null, value));
  const chance = `${percent(offer.propensity)}${offered.estimated ? ", estimated" : ""}`;
  return h(
    "dl",
    { class: "decision" },
    fact("Policy", policyName(campaign.spec.policy)),
    fact(
      term(
        "Chance of this item",
        "The propensity: the probability with which the policy chose it. Estimates of " +
          "what another policy would have done need it.",
      ),
      chance,
    ),
    fact("Coin", offer.probe === null ? "none thrown" : offer.probe),
    fact("Settings", `version ${number(offered.version)}`),
    fact(
      term("Visitor", "A keyed hash of the id that the shop gave; the id itself is kept nowhere."),
      h("code", null, `${offered.player.slice(0, 12)}…`),
    ),
    fact("Id", h("code", null, offer.id)),
  );
}
