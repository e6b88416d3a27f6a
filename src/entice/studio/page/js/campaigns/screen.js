// All campaigns in a table that is searched, filtered and sorted by the service, page by page.

import { alertBadges } from "../alerts.js";
import { getPage, studioInfo } from "../api.js";
import { itemCount, policyName, shareWhoRate, statusBadge } from "../campaign/labels.js";
import { planVerdict } from "../campaign/plan-band.js";
import { h, replace, setText } from "../dom.js";
import { defined } from "../glossary.js";
import { ago, counted, number, percent } from "../format.js";
import { button, screenHead } from "../layout.js";
import { money } from "../money.js";
import { empty, loading } from "../placeholders.js";
import { term } from "../tooltip.js";

const REFRESH = 4000; // milliseconds
const TYPING = 250; // milliseconds without a key before a search
const PAGE = 25; // campaigns
const DEFAULTS = { search: "", status: "", sort: "-changed" };
const STATUSES = { "": "All", live: "Live", paused: "Paused", shadow: "Shadow", closed: "Closed" };

// `sort` is the order of a first click on the column's title, `term` its entry of the glossary.
const COLUMNS = [
  { name: "Campaign", sort: "name" },
  { name: "Status", sort: "status", term: "status" },
  { name: "Budget used", sort: "-used", term: "used" },
  { name: "Offers", kind: "number" },
  { name: "Who rate", sort: "share_who_rate", term: "rate", kind: "number" },
  { name: "Warnings", sort: "-alerts", term: "alert" },
  { name: "Last event", sort: "-changed" },
];
const ORDERS = {
  "-changed": "Last event",
  "-alerts": "Most warnings",
  name: "Name",
  "-used": "Most of the budget used",
  share_who_rate: "Lowest share who rate",
  "-created": "Newest",
};

export async function show(root, { query, signal }) {
  const chosen = { ...DEFAULTS };
  for (const name of Object.keys(DEFAULTS)) chosen[name] = query.get(name) ?? DEFAULTS[name];
  let before = []; // the last campaigns of the pages before this one
  const filters = () => Object.keys(DEFAULTS).some((name) => name !== "sort" && chosen[name]);
  replace(root, loading("Loading campaigns …"));

  const table = campaignTable(sortBy);
  const found = h("p.note", { role: "status" });
  const pages = pager((step) => {
    before = step > 0 ? [...before, table.last()] : before.slice(0, -1);
    return refresh().then(() => table.node.scrollIntoView({ block: "nearest" }));
  });
  const nothing = h("div.card", { hidden: true });
  const controls = toolbar(chosen, changed);

  function sortBy(sort) {
    chosen.sort = sort;
    changed();
  }

  function changed() {
    before = [];
    controls.update(chosen);
    const kept = Object.entries(chosen).filter(([name, value]) => value !== DEFAULTS[name]);
    const text = new URLSearchParams(kept).toString();
    history.replaceState(null, "", text ? `#/campaigns?${text}` : "#/campaigns");
    return refresh();
  }

  let latest = 0;
  async function refresh() {
    latest += 1;
    const request = latest;
    const page = await getPage(`/v1/campaigns?${parameters(chosen, before.at(-1))}`, { signal });
    if (request !== latest) return; // a later request is under way
    if (page.total === 0 && !filters()) return showWelcome(root);
    if (!root.contains(table.node)) await build();
    table.update(page.items, chosen.sort);
    const first = before.length * PAGE;
    const last = first + page.items.length;
    const range = page.next || first ? `${number(first + 1)}–${number(last)} of ` : "";
    setText(found, `${range}${counted(page.total, "campaign")}`);
    table.node.hidden = page.total === 0;
    nothing.hidden = page.total > 0;
    if (page.total === 0) replace(nothing, noMatch(clear));
    pages.update(before.length > 0, page.next);
  }

  async function build() {
    const { may } = await studioInfo();
    replace(root, header(may.includes("admin")), controls.node, table.node, nothing);
    root.append(h("footer.list-foot", found, pages.node));
  }

  function clear() {
    Object.assign(chosen, DEFAULTS);
    return changed();
  }

  await refresh();
  // Errors are ignored: the banner reports a lost connection.
  const timer = setInterval(() => document.hidden || refresh().catch(() => {}), REFRESH);
  signal.addEventListener("abort", () => clearInterval(timer));
}

function parameters({ search, status, sort }, after) {
  const all = { limit: PAGE, sort, search: search.trim(), status, after };
  return new URLSearchParams(Object.entries(all).filter(([, value]) => value));
}

function header(isAdmin) {
  const lead = "Each campaign pays visitors to try items with few ratings, within a budget.";
  const link = { class: "button primary", href: "#/plan" };
  const actions = h(
    "div.actions",
    h("a.button", { href: "#/compare" }, "Compare …"),
    isAdmin && h("a", link, "Plan a campaign"),
  );
  return screenHead("Campaigns", lead, actions);
}

function noMatch(clear) {
  const showAll = button("Show all campaigns", () => clear().catch(() => {}));
  return empty("No campaign matches", "Search for other words, or choose another status.", showAll);
}

/** The first screen of a service without campaigns. */
async function showWelcome(root) {
  const { may } = await studioInfo();
  const plan = may.includes("admin")
    ? "Describe your items, visitors and prices. See what the campaign costs, and create it."
    : "Describe your items, visitors and prices, and see what a campaign costs.";
  const explore =
    "Move a slider, and see how payments change ratings, and what each policy pays to find the " +
    "best item.";
  replace(
    root,
    screenHead(
      "Pay visitors to try new items",
      "Visitors choose what others rate highly, so new items stay unrated. A campaign pays some " +
        "of them to try another item, and allows for the gratitude in their ratings. There is no " +
        "campaign here yet.",
    ),
    h(
      "div.welcome",
      entry("Plan a campaign", plan, "#/plan", "Plan a campaign", "primary"),
      entry("Explore the model", explore, "#/explore", "Explore the model"),
    ),
  );
}

function entry(title, text, href, action, kind = "") {
  return h(
    "section.card",
    { "aria-label": title },
    h("h2", title),
    h("p", text),
    h("a", { class: ["button", kind], href }, action),
  );
}

function toolbar(chosen, onChange) {
  let typing = 0;
  const search = h("input", {
    type: "search",
    id: "search-campaigns",
    placeholder: "Name or id",
    maxlength: 200,
    on: {
      input() {
        chosen.search = search.value;
        clearTimeout(typing);
        typing = setTimeout(() => onChange().catch(() => {}), TYPING);
      },
    },
  });
  const select = (name, id, options) => {
    const change = () => {
      chosen[name] = node.value;
      onChange().catch(() => {});
    };
    const items = Object.entries(options).map(([value, text]) => h("option", { value }, text));
    const node = h("select", { id, on: { change } }, items);
    return node;
  };
  const status = select("status", "status-of-campaigns", STATUSES);
  const sort = select("sort", "order-of-campaigns", ORDERS);
  const other = h("option", { value: "other" }, "Other order"); // chosen by a column's title
  sort.append(other);
  const field = (label, node) => h("div", h("label", { for: node.id }, label), node);
  const node = h(
    "div.list-tools",
    { role: "search" },
    field("Search", search),
    field("Status", status),
    field("Sort by", sort),
  );
  function update(now) {
    if (search.value !== now.search) search.value = now.search;
    status.value = now.status;
    const isListed = Object.hasOwn(ORDERS, now.sort);
    other.hidden = isListed;
    sort.value = isListed ? now.sort : "other";
  }
  update(chosen);
  return { node, update };
}

function pager(go) {
  const step = (text, by) => {
    const click = async () => {
      for (const button of buttons) button.disabled = true;
      await go(by).catch(() => {});
    };
    return button(text, click, { class: "small" });
  };
  const buttons = [step("Previous", -1), step("Next", 1)];
  const node = h("div.actions", { role: "group", "aria-label": "Pages" }, buttons);
  return {
    node,
    update(...can) {
      node.hidden = !can.includes(true);
      buttons.forEach((button, i) => {
        button.disabled = !can[i];
      });
    },
  };
}

function campaignTable(onSort) {
  const heads = COLUMNS.map((column) => columnHead(column, onSort));
  const body = h("tbody");
  const caption = h("caption.visually-hidden", "Campaigns");
  const table = h("table.campaign-table", caption, h("thead", h("tr", heads)), body);
  const rows = new Map();
  return {
    node: h("div.card.campaign-list", table),
    last: () => body.lastElementChild?.dataset.id,
    update(views, sort) {
      heads.forEach((head, i) => markOrder(head, COLUMNS[i], sort));
      for (const view of views) {
        if (!rows.has(view.id)) rows.set(view.id, campaignRow(view));
        rows.get(view.id).update(view);
      }
      const wanted = views.map(({ id }) => rows.get(id).node);
      const shown = [...body.children];
      if (wanted.length === shown.length && wanted.every((node, i) => node === shown[i])) return;
      const focus = document.activeElement;
      replace(body, wanted);
      if (body.contains(focus)) focus.focus({ preventScroll: true });
    },
  };
}

function columnHead({ name, sort, term, kind }, onSort) {
  const reverse = (order) => (order.startsWith("-") ? order.slice(1) : `-${order}`);
  const th = h("th", { scope: "col", class: kind });
  const click = () => onSort(th.dataset.sort === sort ? reverse(sort) : sort)?.catch(() => {});
  const button = sort
    ? h("button.sort", { type: "button", "aria-label": `Sort by ${name}`, on: { click } })
    : null;
  return replace(th, term ? defined(term, name) : name, button);
}

function markOrder(th, { sort }, current) {
  if (!sort) return;
  const isThis = current.replace("-", "") === sort.replace("-", "");
  th.dataset.sort = isThis ? current : "";
  const order = current.startsWith("-") ? "descending" : "ascending";
  if (isThis) th.setAttribute("aria-sort", order);
  else th.removeAttribute("aria-sort");
}

function campaignRow({ id }) {
  const bar = ["committed", "reserved"].map((name) => h("span", { class: `used used-${name}` }));
  const link = h("a", { href: `#/campaign/${id}` });
  const amounts = h("span.note");
  const [status, used, offers, share, alerts, last] = Array.from({ length: 6 }, () => h("span"));
  const about = h("span.note");
  const plan = h("span.note");
  const cells = [
    [link, about],
    [status, plan],
    [h("span.used-bar", { "aria-hidden": "true" }, bar), used, amounts],
    offers,
    share,
    alerts,
    last,
  ];
  const node = h(
    "tr.campaign-row",
    { dataset: { id } },
    cells.map((cell, i) => {
      const { name, kind } = COLUMNS[i];
      const props = { class: kind, dataset: { label: name } };
      return i === 0 ? h("th", { ...props, scope: "row" }, cell) : h("td", props, cell);
    }),
  );
  let shownAlerts = null;

  function update(view) {
    const part = (amount) => (view.budget > 0 ? amount / view.budget : 0);
    bar[0].style.setProperty("--share", part(view.committed));
    bar[1].style.setProperty("--share", part(view.reserved));
    setText(link, view.name);
    setText(about, `${policyName(view.spec.policy)}, ${itemCount(view)}`);
    if (status.textContent !== view.status) replace(status, statusBadge(view.status));
    setText(used, percent(part(view.committed + view.reserved)));
    const taken = money(view.committed + view.reserved, view);
    setText(amounts, `${taken} of ${money(view.budget, view)}`);
    setText(offers, number(view.decisions));
    showShare(share, shareWhoRate(view));
    showPlan(plan, view);
    setText(last, ago(view.changed_at));
    const key = JSON.stringify(view.alerts);
    if (key === shownAlerts) return;
    shownAlerts = key;
    const none = h("span.note", "None");
    replace(alerts, view.alerts.length ? alertBadges(view.alerts) : none);
  }

  return { node, update };
}

function showShare(node, share) {
  const text = percent(share);
  if (node.dataset.text === text) return; // keeps an open tip
  node.dataset.text = text;
  replace(node, share === null ? term(text, "There is no rating yet.") : text);
}

/** The status of the plan, unless it is one of the warnings. */
function showPlan(node, view) {
  if (view.plan_status === null) return;
  const [word, tone, text] = planVerdict(view);
  setText(node, tone === "badge-warn" ? "" : word);
  node.title = text;
}
