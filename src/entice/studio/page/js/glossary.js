// Special terms of the screens: an explanation of each, and the page of the docs that has more.

import { term } from "./tooltip.js";

/** By id: the term, its explanation, and its page of the docs. */
export const TERMS = {
  committed: {
    name: "Committed",
    text: "Money of accepted offers. It is spent, unless a sale is reversed.",
    docs: "explanation/offers.md#states-of-an-offer",
  },
  reserved: {
    name: "Reserved",
    text: "Money promised in open offers. It is released if the visitor declines or does not answer.",
    docs: "explanation/offers.md#states-of-an-offer",
  },
  star: {
    name: "Price of a star",
    text: "What one star is worth to a visitor: the payment for an item that shows one star less.",
    docs: "reference/campaign.md#settings",
  },
  margin: {
    name: "Margin",
    text: "An amount added to every payment.",
    docs: "reference/campaign.md#settings",
  },
  cap: {
    name: "Cap",
    text: "The most that one offer, or all offers to one visitor together, may cost.",
    docs: "reference/campaign.md#settings",
  },
  pace: {
    name: "Pace",
    text:
      "Spreads the budget over a number of offers. More is allowed early, because new items " +
      "need ratings first.",
    docs: "reference/campaign.md#settings",
  },
  policy: {
    name: "Policy",
    text: "The rule that decides which item a visitor is offered, so that every item gets ratings.",
    docs: "how-to/campaign-policies.md",
  },
  shadow: {
    name: "Shadow mode",
    text: "Decisions are recorded, but visitors are not paid. Use it to test your integration.",
    docs: "reference/campaign.md#status",
  },
  drift: {
    name: "Drift",
    text:
      "How much a payment raises a rating, in stars per star paid (l in the paper). With drift, " +
      "the averages of paid items are too high.",
    docs: "explanation/drift.md",
  },
  probe: {
    name: "Probe",
    text:
      "A randomised experiment: in some offers of a visitor's own choice, chance decides whether " +
      "a payment is added. Comparing the ratings measures the drift.",
    docs: "how-to/drift-estimate.md#the-probe",
  },
  holdout: {
    name: "Holdout",
    text:
      "Visitors chosen at random who get their own choice and are never paid. They see the same " +
      "averages as everybody, so what the campaign does through better averages is not measured.",
    docs: "how-to/did-it-work.md#set-a-holdout",
  },
  declined: {
    name: "Declined",
    text:
      "These visitors take their own choice, and its rating belongs to neither group. The share " +
      "rated is that of the other visitors.",
    docs: "how-to/did-it-work.md#what-it-cannot-tell",
  },
  sequence: {
    name: "Valid at every look",
    text: "A confidence sequence: look as often as you like, its error probability stays the same.",
    docs: "how-to/did-it-work.md#read-the-answer",
  },
  overlap: {
    name: "Random items",
    text:
      "Share of offers whose item is drawn at random (overlap). The log can then say what other " +
      "policies would have achieved.",
    docs: "how-to/off-policy.md#overlap",
  },
  evaluation: {
    name: "Off-policy estimate",
    text:
      "What another policy would have achieved in the decisions of this campaign, from their " +
      "probabilities.",
    docs: "how-to/off-policy.md#evaluation",
  },
  propensity: {
    name: "Propensity",
    text: "The probability with which this item was offered. Off-policy estimates need it.",
    docs: "how-to/off-policy.md#overlap",
  },
  hash: {
    name: "Visitor",
    text: "A keyed hash of the visitor's id. The id itself is not stored.",
    docs: "how-to/personal-data.md",
  },
  band: {
    name: "Range of the plan",
    text: "The spending of the middle 90 % of the plan's runs, after as many visitors.",
    docs: "reference/plan.md#how-a-forecast-is-computed",
  },
  learned: {
    name: "Learned price",
    text:
      "The cheapest price that the wanted share of visitors accepts, by their answers to earlier " +
      "offers. Larger gaps are paid this price, smaller ones the gap.",
    docs: "how-to/learned-price.md",
  },
  regret: {
    name: "Stars lost",
    text: "The regret: stars that visitors miss by not getting the best item.",
    docs: "reference/plan.md#how-a-forecast-is-computed",
  },
  cost: {
    name: "Total cost",
    text: "Payments, plus lost stars at the price of a star.",
    docs: "reference/plan.md#how-a-forecast-is-computed",
  },
  used: {
    name: "Budget used",
    text: "Money paid for accepted offers and money reserved for open ones, as a share of the budget.",
    docs: "explanation/offers.md#states-of-an-offer",
  },
  rate: {
    name: "Share who rate",
    text: "Share of accepted offers that get a rating, estimated from the ages of the offers so far.",
    docs: "explanation/offers.md#ratings-that-are-still-expected",
  },
  status: {
    name: "Status",
    text:
      "Live: visitors are paid. Paused: visitors get their own choice, unpaid. Shadow: decisions " +
      "are recorded, and nobody is paid. Closed: no more offers.",
    docs: "reference/campaign.md#status",
  },
  alert: {
    name: "Warning",
    text:
      "A condition that the service checks, such as a budget that is used up. Each has a rule with " +
      "a limit, and says what to do next.",
    docs: "reference/alerts.md",
  },
  key: {
    name: "Key",
    text: "A secret that a request carries. It is shown once; the service stores only its hash.",
    docs: "how-to/keys.md#api-keys",
  },
  role: {
    name: "Role",
    text: "What a key may do. A key can have several roles, for all campaigns or for one.",
    docs: "how-to/keys.md#api-keys",
  },
  leads: {
    name: "Best item leads",
    text: "From this day to the end, the best item displays the best rating.",
    docs: "reference/plan.md#how-a-forecast-is-computed",
  },
};

/**
 * A term with a tip that links to its entry in the list of terms.
 * @param {string} id of `TERMS`
 * @param {string} [text] the words on the screen, if not the term's name
 */
export function defined(id, text = TERMS[id].name) {
  return term(text, TERMS[id].text, { more: `#/terms/${id}` });
}
