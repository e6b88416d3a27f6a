// One campaign: budget, spending, items, drift, effect, offers, settings. All parts follow its log.

import { alertPanel } from "../alerts.js";
import { connection, followEvents, get, studioInfo } from "../api.js";
import { currentKey } from "../api-key.js";
import { h, replace, setText } from "../dom.js";
import { counted, number, percent, stars } from "../format.js";
import { button, card } from "../layout.js";
import { money } from "../money.js";
import { loading } from "../placeholders.js";
import { markdownTable, markdownText, reportButtons, save } from "../report.js";
import { acceptancePanel } from "./acceptance.js";
import { driftGauge } from "./drift-gauge.js";
import { effectPanel, evaluationPanel } from "./effect.js";
import { itemList, itemListKey } from "./item-list.js";
import { itemCount, policyName, shareWhoRate, statusBadge } from "./labels.js";
import { EventLog, offerPanel } from "./offers.js";
import { segmentsPanel } from "./segments-panel.js";
import { settingsPanel, statusButtons } from "./settings.js";
import { budgetBar, periodControl, spendingChart } from "./spending.js";

const CAMPAIGN_EVERY = 600; // minimum milliseconds between two reads of the campaign
const SLOWLY = 3000; // of its drift, effect and spending
const EFFECT_TEXT = "Ratings with the campaign and without it, in the holdout.";
const ACCEPTANCE_TEXT = "Which prices visitors accept, and the cheapest one that suffices.";
const SETTINGS_EVENTS = ["changed", "arms_added", "arm_retired"];

export async function show(root, { params: { id }, signal }) {
  replace(root, loading("Loading the campaign …"));
  const path = `/v1/campaigns/${encodeURIComponent(id)}`;
  const read = () => Promise.all([get(path, { signal }), get(`${path}/arms`, { signal })]);
  const [[view, arms], { plan }, { may }] = await Promise.all([
    read(),
    get(`${path}/plan`, { signal }),
    studioInfo(),
  ]);
  document.title = `${view.name} · Entice`;
  const refresh = throttled(CAMPAIGN_EVERY, signal, async () =>
    page.updateCampaign(...(await read())),
  );
  const page = await build(root, view, plan, { path, signal, may, refresh });
  page.updateCampaign(view, arms);

  // The rest is read after the first paint: it takes longer in a campaign with many offers.
  const slowly = (action) => throttled(SLOWLY, signal, action);
  const refreshDrift = slowly(async () => page.updateDrift(await get(`${path}/drift`, { signal })));
  const refreshEffect = slowly(async () =>
    page.updateEffect(await get(`${path}/effect`, { signal })),
  );
  const refreshSpending = slowly(page.refreshSpending);
  const refreshSettings = slowly(page.refreshSettings);
  const refreshAcceptance = slowly(async () =>
    page.updateAcceptance(await get(`${path}/acceptance`, { signal })),
  );
  const hasHoldout = view.spec.holdout > 0;
  const hasPrice = isLearned(view.spec);
  const log = await EventLog.read(view, { signal });
  page.updateOffers(log);
  refreshDrift();
  refreshSpending();
  refreshSettings();
  if (hasHoldout) refreshEffect();
  if (hasPrice) refreshAcceptance();
  // Events that came while the page was built are in the log already, and not in the view.
  if (log.last > view.events) refresh();
  connection.addEventListener("back", refresh, { signal });

  for await (const event of followEvents(id, log.last, { signal })) {
    log.add(event);
    page.updateOffers(log);
    refresh();
    refreshSpending();
    if (hasHoldout) refreshEffect();
    const { kind } = event.body;
    if (kind === "rated" || kind === "organic") refreshDrift();
    if (hasPrice && (kind === "accepted" || kind === "declined")) refreshAcceptance();
    if (SETTINGS_EVENTS.includes(kind)) refreshSettings();
  }
}

/** Build the page. Returns functions that update its parts. */
async function build(root, { id, spec }, plan, { path, signal, may, refresh }) {
  const mayChange = may.includes("admin");
  const alerts = alertPanel();
  const budget = budgetBar();
  const period = periodControl(() => {
    spending.clear();
    spending.refresh().catch(() => {}); // the banner reports a lost connection
    offers.changePeriod();
  });
  const spending = spendingChart(path, signal, period.period, plan);
  const items = itemList(path, mayChange, refresh);
  const gauge = driftGauge(spec);
  const effect = effectPanel(spec);
  const evaluation = evaluationPanel(id, signal);
  const acceptance = acceptancePanel();
  const offers = offerPanel(id, signal, period.period);
  const segments = segmentsPanel();
  const settings = settingsPanel(path, signal, mayChange, refresh);
  const buttons = await statusButtons(refresh);
  const changeBudget = button(
    "Change the budget …",
    () => settings.change("budget", changeBudget),
    { class: "small" },
  );
  const title = h("h1");
  const status = h("span", { role: "status" });
  const lead = h("p.lead");
  const key = h("div");
  const driftCard = card("drift-card", "Drift", "How much a payment raises a rating.", gauge.node);
  let view = null;
  let arms = [];
  let drift = null;
  let measured = null;
  let log = null;
  let corrected = new Map(); // averages without the drift, by arm
  let scheduled = false;
  const report = () => campaignReport({ view, arms, drift, measured, settings, spending });

  replace(
    root,
    h("p.crumbs", h("a", { href: "#/campaigns" }, "Campaigns")),
    h("header.screen-head", h("div", h("div.title-line", title, status), lead), buttons.node),
    alerts.node,
    h(
      "div.campaign-tools",
      period.node,
      h("a.button.small", { href: `#/compare/${id}` }, "Compare …"),
      exportButton(path, id),
      reportButtons(report),
    ),
    h(
      "div.stack.campaign-grid",
      h(
        "div.stack.campaign-main",
        card("budget-card", "Budget", budget.used, budget.node, spending.node, changeBudget),
        card("effect-card", "Did it work?", EFFECT_TEXT, effect.node),
        isLearned(spec) &&
          card("acceptance-card", "Learned price", ACCEPTANCE_TEXT, acceptance.node),
        card(
          "items-card",
          "Items",
          "Highest displayed rating first.",
          items.node,
          h("div.picture-head.item-list-foot", key, items.tools),
          segments.node,
          items.addButton,
        ),
        spec.overlap > 0 &&
          card("evaluation-card", "Other policies", "What they would have achieved.", evaluation.node),
      ),
      h(
        "div.stack.campaign-side",
        card("feed-card", "Offers", "Latest first, with reasons.", offers.node, offers.pauseButton),
        driftCard,
      ),
      card(
        "settings-card",
        "Settings",
        "Current values, and who changed them.",
        settings.node,
        settings.changeButton,
      ),
    ),
  );

  function updateItems() {
    items.update(arms, corrected, view.spec, view.status === "closed");
    const hasCorrected = [...corrected.values()].some((average) => average !== null);
    if (key.dataset.corrected === String(hasCorrected)) return;
    key.dataset.corrected = String(hasCorrected);
    replace(key, itemListKey(hasCorrected));
  }

  /** Redraw the offers once per frame, however many events arrive. */
  function updateOffers(newLog = log) {
    log = newLog;
    if (scheduled || log === null) return;
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
      changeBudget.hidden = !mayChange || view.status === "closed";
      budget.update(view);
      buttons.update(view);
      settings.update(view);
      segments.update(view);
      evaluation.update(view);
      updateItems();
      spending.update(view);
      updateOffers();
    },
    updateDrift(found) {
      drift = found;
      corrected = new Map(drift.arms.map((arm) => [arm.id, arm.corrected]));
      driftCard.classList.toggle("drift-unknown", drift.slope === null);
      gauge.update(drift);
      updateItems();
    },
    updateEffect(found) {
      measured = found;
      effect.update(measured, view);
    },
    updateAcceptance: acceptance.update,
    updateOffers,
    refreshSpending: spending.refresh,
    refreshSettings: settings.refresh,
  };
}

/** Whether the payments of a campaign follow the acceptance of earlier ones. */
function isLearned({ price }) {
  return price?.kind === "learned";
}

/** A menu of formats. The service streams the file, so the request needs the key. */
function exportButton(path, id) {
  const select = h(
    "select.small",
    { "aria-label": "Export all offers" },
    h("option", { value: "" }, "Export …"),
    ["csv", "parquet", "jsonl"].map((name) => h("option", { value: name }, name.toUpperCase())),
  );
  const status = h("span.note", { role: "status" });
  select.addEventListener("change", async () => {
    const format = select.value;
    select.value = "";
    replace(status, "Exporting …");
    const key = currentKey();
    const headers = key === null ? {} : { Authorization: `Bearer ${key}` };
    try {
      const response = await fetch(`${path}/export?format=${format}`, { headers });
      if (!response.ok) throw new Error((await response.json()).detail);
      save(`${id}.${format}`, await response.blob());
      replace(status, "");
    } catch (problem) {
      replace(status, `Not exported: ${problem.message}`);
    }
  });
  return h("span.export", select, status);
}

function summary(view) {
  const { spec, budget, decisions, ratings } = view;
  const share = shareWhoRate(view);
  const policy = `${policyName(spec.policy)}, ${itemCount(view)}`;
  const price = `${money(spec.price_of_a_star, view)} per star`;
  const counts = `${counted(decisions, "offer")} and ${counted(ratings, "rating")} so far`;
  const rates =
    share === null ? "" : ` About ${percent(share)} of accepted offers get a rating.`;
  return `${policy}. Budget ${money(budget, view)}, ${price}. ${counts}.${rates}`;
}

/** The page as Markdown. */
function campaignReport({ view, arms, drift, measured, settings, spending }) {
  const verdict = spending.verdict();
  const changes = settings.rows();
  return markdownText(
    `# ${view.name}`,
    `${summary(view)} Status: ${view.status}. Campaign \`${view.id}\`, ` +
      `${new Date().toLocaleString("en-GB")}.`,
    markdownTable([
      ["Money", "Amount"],
      ...["budget", "committed", "reserved", "free"].map((name) => [name, money(view[name], view)]),
    ]),
    verdict && `**${verdict[0]}.** ${verdict[2]}`,
    "## Items",
    markdownTable([
      ["Item", "Ratings", "Average", "95 % interval", "Displayed"],
      ...[...arms]
        .sort((a, b) => b.shown - a.shown)
        .map((arm) => [
          arm.retired ? `${arm.id} (retired)` : arm.id,
          number(arm.rated),
          stars(arm.average),
          arm.average === null ? "–" : `${stars(arm.low)} to ${stars(arm.high)}`,
          stars(arm.shown),
        ]),
    ]),
    measured && ["## Effect against the holdout", measured.sentence],
    "## Drift",
    drift === null || drift.slope === null
      ? "Not measured."
      : `${drift.slope.toFixed(2)} stars per star paid, ${percent(drift.level)} interval ` +
          `${drift.low.toFixed(2)} to ${drift.high.toFixed(2)}, from ` +
          `${counted(drift.probes, "measurement")}.`,
    changes.length > 0 && [
      "## Settings changed",
      markdownTable([["When", "Who", "Setting", "From", "To"], ...changes]),
    ],
  );
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
