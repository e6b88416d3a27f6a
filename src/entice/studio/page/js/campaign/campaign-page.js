// One campaign: budget, spending, items, drift, effect, offers. All parts follow its event log.

import { alertPanel } from "../alerts.js";
import { connection, followEvents, get } from "../api.js";
import { h, replace, setText } from "../dom.js";
import { counted, percent } from "../format.js";
import { money } from "../money.js";
import { loading } from "../placeholders.js";
import { budgetBar } from "./budget-bar.js";
import { driftGauge } from "./drift-gauge.js";
import { effectPanel } from "./effect-panel.js";
import { EventLog } from "./event-log.js";
import { itemList, itemListKey } from "./item-list.js";
import { policyName, statusBadge } from "./labels.js";
import { offerFeed } from "./offer-feed.js";
import { segmentsPanel } from "./segments-panel.js";
import { spendingChart } from "./spending-chart.js";
import { statusButtons } from "./status-buttons.js";

const CAMPAIGN_EVERY = 600; // minimum milliseconds between two reads of the campaign
const DRIFT_EVERY = 3000;
const EFFECT_EVERY = 3000;
const SPENDING_EVERY = 3000;
const EFFECT_TEXT = "Ratings with the campaign and without it, in the holdout.";

export async function showCampaign(root, id, signal) {
  replace(root, loading("Loading the campaign …"));
  const path = `/v1/campaigns/${encodeURIComponent(id)}`;
  const read = () => Promise.all([get(path, { signal }), get(`${path}/arms`, { signal })]);
  const [[view, arms], drift] = await Promise.all([read(), get(`${path}/drift`, { signal })]);
  const log = await EventLog.read(view, { signal });
  document.title = `${view.name} · Entice`;

  const refresh = throttled(CAMPAIGN_EVERY, signal, async () =>
    page.updateCampaign(...(await read())),
  );
  const refreshDrift = throttled(DRIFT_EVERY, signal, async () =>
    page.updateDrift(await get(`${path}/drift`, { signal })),
  );
  const refreshEffect = throttled(EFFECT_EVERY, signal, async () =>
    page.updateEffect(await get(`${path}/effect`, { signal })),
  );
  const hasHoldout = view.spec.holdout > 0;
  const spending = spendingChart(path, signal);
  const refreshSpending = throttled(SPENDING_EVERY, signal, spending.refresh);
  const page = await build(root, id, log, refresh, spending, hasHoldout);
  page.updateCampaign(view, arms);
  page.updateDrift(drift);
  refreshSpending();
  if (hasHoldout) refreshEffect();
  // Events that came while the page was built are in the log already, and not in the view.
  if (log.last > view.events) refresh();
  connection.addEventListener("back", refresh, { signal });

  for await (const event of followEvents(id, log.last, { signal })) {
    log.add(event);
    page.updateOffers();
    refresh();
    refreshSpending();
    if (hasHoldout) refreshEffect();
    if (event.body.kind === "rated" || event.body.kind === "organic") refreshDrift();
  }
}

/** Build the page. Returns functions that update its parts. */
async function build(root, id, log, refresh, spending, hasHoldout) {
  const alerts = alertPanel();
  const budget = budgetBar();
  const items = itemList();
  const gauge = driftGauge();
  const effect = effectPanel();
  const offers = offerFeed(id);
  const segments = segmentsPanel();
  const buttons = await statusButtons(refresh);
  const title = h("h1");
  const status = h("span", { role: "status" });
  const lead = h("p", { class: "lead" });
  const key = h("div");
  let view = null;
  let arms = [];
  let corrected = new Map(); // averages without the drift, by arm
  let scheduled = false;

  replace(
    root,
    h("p", { class: "crumbs" }, h("a", { href: "#/campaigns" }, "Campaigns")),
    h(
      "header",
      { class: "screen-head" },
      h("div", null, h("div", { class: "title-line" }, title, status), lead),
      buttons.node,
    ),
    alerts.node,
    h(
      "div",
      { class: ["campaign-grid", hasHoldout && "campaign-grid-effect"] },
      card("budget-card", "Budget", "How the money is used.", budget.node, spending.node),
      card("drift-card", "Drift", "How much a payment raises a rating.", gauge.node),
      hasHoldout && card("effect-card", "Did it work?", EFFECT_TEXT, effect.node),
      card("items-card", "Items", "Highest displayed rating first.", items.node, key, segments.node),
      card("feed-card", "Offers", "Latest first, with reasons.", offers.node, offers.pauseButton),
    ),
  );

  function updateItems() {
    items.update(arms, corrected, view.spec);
    const hasCorrected = [...corrected.values()].some((average) => average !== null);
    if (key.dataset.corrected === String(hasCorrected)) return;
    key.dataset.corrected = String(hasCorrected);
    replace(key, itemListKey(hasCorrected));
  }

  /** Redraw the offers once per frame, however many events arrive. */
  function updateOffers() {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      offers.update(log, view);
    });
  }

  return {
    updateCampaign(newView, newArms) {
      view = newView;
      arms = newArms;
      setText(title, view.name);
      if (status.dataset.is !== view.status) {
        status.dataset.is = view.status;
        replace(status, statusBadge(view.status));
      }
      alerts.update(view.alerts);
      setText(lead, summary(view));
      budget.update(view);
      segments.update(view);
      buttons.update(view);
      updateItems();
      spending.update(view);
      updateOffers();
    },
    updateDrift(drift) {
      corrected = new Map(drift.arms.map((arm) => [arm.id, arm.corrected]));
      gauge.update(drift);
      updateItems();
    },
    updateEffect: (measured) => effect.update(measured, view),
    updateOffers,
  };
}

function card(name, title, text, ...children) {
  return h(
    "section",
    { class: ["card", name], "aria-label": title },
    h("header", null, h("h2", null, title), h("p", null, text)),
    children,
  );
}

function summary(view) {
  const { spec, budget, decisions, ratings, share_who_rate: share } = view;
  const policy = `${policyName(spec.policy)}, ${counted(spec.arms.length, "item")}`;
  const price = `${money(spec.price_of_a_star, view)} per star`;
  const counts = `${counted(decisions, "offer")} and ${counted(ratings, "rating")} so far`;
  const rates = share === null ? "" : ` About ${percent(share)} of accepted offers get a rating.`;
  return `${policy}. Budget ${money(budget, view)}, ${price}. ${counts}.${rates}`;
}

/** Call a function at once, then at most once per interval. */
function throttled(milliseconds, signal, action) {
  let busy = false;
  let requested = false;
  return async function run() {
    requested = true;
    if (busy) return;
    busy = true;
    while (requested && !signal.aborted) {
      requested = false;
      await action().catch(() => {}); // the banner reports a lost connection
      await new Promise((resolve) => setTimeout(resolve, milliseconds));
    }
    busy = false;
  };
}
