// One campaign as it runs: fuel, pace, ladder, drift, feed, brake. All of it follows the log.

import { connection, follow, get } from "../api.js";
import { h, replace } from "../dom.js";
import { counted, percent } from "../format.js";
import { money } from "../money.js";
import { loading } from "../state.js";
import { brake } from "./brake.js";
import { dial } from "./dial.js";
import { feed } from "./feed.js";
import { gauge } from "./gauge.js";
import { ladder, ladderKey } from "./ladder.js";
import { statusBadge } from "./list.js";
import { Log } from "./log.js";
import { spendingChart } from "./spending.js";
import { policyName } from "./words.js";

const BOOKS_EVERY = 600; // milliseconds between two looks at the books, while events come
const DRIFT_EVERY = 3000;
const SPENDING_EVERY = 3000;

export async function showOne(root, id, signal) {
  replace(root, loading("Opening the books …"));
  const path = `/v1/campaigns/${encodeURIComponent(id)}`;
  const read = () => Promise.all([get(path, { signal }), get(`${path}/arms`, { signal })]);
  const [[view, arms], drift] = await Promise.all([read(), get(`${path}/drift`, { signal })]);
  const log = await Log.read(view, { signal });
  document.title = `${view.name} · Entice`;

  const renew = spaced(BOOKS_EVERY, signal, async () => page.books(...(await read())));
  const renewDrift = spaced(DRIFT_EVERY, signal, async () =>
    page.drift(await get(`${path}/drift`, { signal })),
  );
  const spending = spendingChart(path, signal);
  const renewSpending = spaced(SPENDING_EVERY, signal, spending.renew);
  const page = await build(root, id, log, renew, spending);
  page.books(view, arms);
  page.drift(drift);
  renewSpending();
  connection.addEventListener("back", renew, { signal });

  for await (const event of follow(id, log.last, { signal })) {
    log.add(event);
    page.events();
    renew();
    renewSpending();
    if (event.body.kind === "rated" || event.body.kind === "organic") renewDrift();
  }
}

/** Put the page together. Returns what brings its parts up to date. */
async function build(root, id, log, renew, spending) {
  const fuel = gauge();
  const rungs = ladder();
  const needle = dial();
  const offers = feed(id);
  const buttons = await brake(renew);
  const title = h("h1");
  const status = h("span", { class: "status-place", role: "status" });
  const about = h("p", { class: "lead" });
  const key = h("div");
  let now = null; // the campaign as it was last read
  let known = [];
  let corrected = new Map(); // averages with the drift taken out, by arm
  let painting = false;

  replace(
    root,
    h("p", { class: "crumbs" }, h("a", { href: "#/campaigns" }, "Campaigns")),
    h(
      "header",
      { class: "screen-head" },
      h("div", null, h("div", { class: "title-line" }, title, status), about),
      buttons.node,
    ),
    h(
      "div",
      { class: "campaign-grid" },
      card("fuel-card", "Fuel", "What the budget has been used for.", fuel.node, spending.node),
      card("dial-card", "Drift", "By how much a payment lifts a rating.", needle.node),
      card("ladder-card", "Items", "The best on display comes first.", rungs.node, key),
      card(
        "feed-card",
        "Offers",
        "The latest first, and why each was made.",
        offers.node,
        offers.hold,
      ),
    ),
  );

  return {
    books(view, arms) {
      now = view;
      tell(title, view.name);
      if (status.dataset.is !== view.status) {
        status.dataset.is = view.status;
        replace(status, statusBadge(view.status));
      }
      tell(about, summary(view));
      fuel.update(view);
      buttons.update(view);
      known = arms;
      this.ladder();
      spending.update(view);
      this.events();
    },
    drift(now) {
      corrected = new Map(now.arms.map((arm) => [arm.id, arm.corrected]));
      needle.update(now);
      this.ladder();
    },
    ladder() {
      rungs.update(known, corrected, now.spec);
      const told = [...corrected.values()].some((average) => average !== null);
      if (key.dataset.told === String(told)) return;
      key.dataset.told = String(told);
      replace(key, ladderKey(told));
    },
    /** However many events come at once, they are painted once. */
    events() {
      if (painting) return;
      painting = true;
      requestAnimationFrame(() => {
        painting = false;
        offers.update(log, now);
      });
    },
  };
}

function card(name, title, words, ...children) {
  return h(
    "section",
    { class: ["card", name], "aria-label": title },
    h("header", null, h("h2", null, title), h("p", null, words)),
    children,
  );
}

function summary(view) {
  const { spec, budget, decisions, ratings, share_who_rate: share } = view;
  const policy = `${policyName(spec.policy)} over ${counted(spec.arms.length, "item")}`;
  const price = `${money(spec.price_of_a_star, view)} for a star`;
  const counts = `${counted(decisions, "offer")} and ${counted(ratings, "rating")} so far`;
  const rates = share === null ? "" : ` About ${percent(share)} of accepted offers get a rating.`;
  return `${policy}. ${money(budget, view)} budget, ${price}. ${counts}.${rates}`;
}

function tell(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Do something at once, then at most every so many milliseconds, however often it is asked for. */
function spaced(milliseconds, signal, work) {
  let busy = false;
  let again = false;
  return async function run() {
    again = true;
    if (busy) return;
    busy = true;
    while (again && !signal.aborted) {
      again = false;
      await work().catch(() => {}); // the banner tells of a lost service, and the stream comes back
      await new Promise((resolve) => setTimeout(resolve, milliseconds));
    }
    busy = false;
  };
}
