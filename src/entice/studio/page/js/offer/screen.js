// One offer: the calculation of its price, its timeline, its events and their hashes.

import { followEvents, get } from "../api.js";
import { policyName, reasonName, stateName, stateTone } from "../campaign/labels.js";
import { h, replace } from "../dom.js";
import { nonBreaking, number, percent } from "../format.js";
import { defined } from "../glossary.js";
import { card, fact } from "../layout.js";
import { money } from "../money.js";
import { empty, loading } from "../placeholders.js";
import { hashChain, readPreviousHashes, timeline } from "./events.js";
import { displayedItems, priceTable } from "./price.js";

const PRICE_TEXT = "How it was calculated. Underlined numbers have more decimals: choose one.";
const PROBES = { heads: "payment added", tails: "nothing added" };

export async function show(root, { params, signal }) {
  if (!params.id) {
    replace(
      root,
      empty(
        "No offer selected",
        "Open a campaign and choose one of its offers.",
        h("a.button", { href: "#/campaigns" }, "Campaigns"),
      ),
    );
    return;
  }
  replace(root, loading("Loading the offer …"));
  const id = encodeURIComponent(params.id);
  const read = async () => {
    const view = await get(`/v1/offers/${id}`, { signal });
    const previousHashes = await readPreviousHashes(view.offer.campaign, view.history, { signal });
    return [view, previousHashes];
  };
  const [view, previousHashes] = await read();
  const { offer } = view;
  const campaign = await get(`/v1/campaigns/${offer.campaign}`, { signal });
  document.title = `Offer ${number(offer.decision)} · ${campaign.name} · Entice`;
  replace(root, page(view, previousHashes, campaign));

  const after = Math.max(view.history.at(-1).seq, campaign.events);
  for await (const event of followEvents(offer.campaign, after, { signal }))
    if (event.body.n === offer.decision) replace(root, page(...(await read()), campaign));
}

function page({ offer, why, arithmetic, history }, previousHashes, campaign) {
  const [offered] = history;
  return [
    h(
      "p.crumbs",
      h("a", { href: "#/campaigns" }, "Campaigns"),
      " / ",
      h("a", { href: `#/campaign/${campaign.id}` }, campaign.name),
    ),
    h(
      "header.screen-head",
      h(
        "div",
        h(
          "div.title-line",
          h("h1", `Offer ${number(offer.decision)}: ${offer.arm}`),
          h(
            "span",
            { class: ["badge", stateTone(offer.state)], role: "status" },
            stateName(offer.state, offer.rating),
          ),
        ),
        h("p.lead", nonBreaking(why)),
        offer.disclosure &&
          h("p.note.disclosure", `Disclosed to the visitor: “${offer.disclosure}”`),
      ),
      h(
        "p.offer-amount",
        h("strong", offer.amount ? money(offer.amount, offer) : "unpaid"),
        h("span.note", reasonName(offer.reason)),
      ),
    ),
    h(
      "div.stack.offer-grid",
      h(
        "div.offer-column",
        card(null, "Price", PRICE_TEXT, priceTable(offer, arithmetic)),
        card(null, "Decision", "How the item was chosen.", decision(offer, offered, campaign)),
      ),
      h(
        "div.offer-column",
        card(null, "Timeline", "Events so far.", timeline(offer, history)),
        card(
          null,
          "Displayed ratings",
          "The ratings that visitors saw when the offer was made.",
          displayedItems(offer, arithmetic.shown, campaign.spec),
        ),
      ),
      card(
        "offer-chain",
        "Event log",
        "Each hash covers the event and the hash before it, so no event can be changed unnoticed.",
        hashChain(history, previousHashes),
      ),
    ),
  ];
}

function decision(offer, offered, campaign) {
  const chance = `${percent(offer.propensity)}${offered.estimated ? ", estimated" : ""}`;
  return h(
    "dl.facts.decision",
    fact(defined("policy"), policyName(campaign.spec.policy)),
    fact(defined("propensity"), chance),
    fact(defined("probe"), PROBES[offer.probe] ?? "not used"),
    fact("Settings", `version ${number(offered.version)}`),
    fact(defined("hash"), h("code", `${offered.player.slice(0, 12)}…`)),
    fact("Offer ID", h("code", offer.id)),
  );
}
