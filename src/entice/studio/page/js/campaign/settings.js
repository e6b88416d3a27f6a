// The settings of a campaign: its status, the values that can be changed, and their history.

import { get, send } from "../api.js";
import { confirmDialog } from "../dialog.js";
import { h, replace, setText } from "../dom.js";
import { counted, duration, number, percent } from "../format.js";
import { defined } from "../glossary.js";
import { fact } from "../layout.js";
import { money } from "../money.js";
import { readOnlyNotice } from "../permissions.js";
import { policyName } from "./labels.js";

const WHEN = { dateStyle: "medium", timeStyle: "short" };
const MAX_CHANGES = 8; // shown until "Show all"
const CONFIRMATION = 6000; // milliseconds

/**
 * The settings that can be changed: `money` is in major units, `percent` in percent, an empty field
 * removes a limit. Others are fixed when a campaign is created.
 */
const CHANGEABLE = {
  name: { label: "Name", kind: "text" },
  budget: { label: "Budget", kind: "money", required: true },
  cap_per_offer: { label: "Cap per offer", kind: "money", term: "cap" },
  cap_per_player: { label: "Cap per visitor", kind: "money", term: "cap" },
  pace_over: { label: "Spread the budget over", kind: "count", unit: "offers", term: "pace" },
  overlap: { label: "Random items", kind: "percent", unit: "%", term: "overlap" },
};

/**
 * Make the buttons. Returns their node and a function that updates them.
 * @param {(view: object) => void} onChange called with the campaign after a change
 */
export async function statusButtons(onChange) {
  const notice = await readOnlyNotice("change a campaign");
  const node = h("div.status-buttons");
  let status = null;
  let view = null;
  const button = (label, kind, dialog) =>
    h("button", { type: "button", class: kind, on: { click: () => open(dialog(view)) } }, label);

  async function open({ status: next, ...options }) {
    const action = () => send("PATCH", `/v1/campaigns/${view.id}`, { status: next });
    const changed = await confirmDialog({ ...options, action });
    if (changed) onChange(changed);
  }

  return {
    node,
    update(newView) {
      view = newView;
      if (view.status === status) return; // keeps the focus
      status = view.status;
      if (status === "closed") replace(node);
      else if (notice) replace(node, notice);
      else
        replace(
          node,
          status !== "live" &&
            button(status === "shadow" ? "Go live …" : "Resume …", "primary", resumeDialog),
          status !== "paused" && button("Pause …", "", pauseDialog),
          button("Close …", "danger", closeDialog),
        );
    },
  };
}

function pauseDialog(view) {
  return {
    status: "paused",
    title: `Pause “${view.name}”?`,
    confirm: "Pause",
    body: [
      h("p", "Visitors get their own choice, unpaid, until you resume."),
      obligations(view, "Open offers remain valid: visitors can still accept them."),
    ],
  };
}

function resumeDialog(view) {
  return {
    status: "live",
    title: `${view.status === "shadow" ? "Go live with" : "Resume"} “${view.name}”?`,
    confirm: view.status === "shadow" ? "Go live" : "Resume",
    body: [
      h("p", `New offers are paid from the ${money(view.free, view)} left in the budget.`),
    ],
  };
}

function closeDialog(view) {
  return {
    status: "closed",
    title: `Close “${view.name}” permanently?`,
    confirm: "Close permanently",
    danger: true,
    body: [
      h(
        "p",
        "No more offers are made, and you cannot reopen the campaign. Ratings that still " +
          "arrive are counted.",
      ),
      obligations(view, "Open offers are withdrawn and their money is released."),
    ],
  };
}

/** Reserved and committed money, and what happens to it. */
function obligations(view, ofReserved) {
  const row = (name, amount, note) =>
    fact(name, money(amount, view), h("span.note", note));
  return h(
    "dl.fact-rows.liability",
    row("Reserved", view.reserved, view.reserved ? ofReserved : "No open offer is paid."),
    row("Committed", view.committed, "Accepted by visitors. Not affected."),
  );
}

/**
 * Make the card of the settings. Returns its node and functions that update it.
 * @param {boolean} mayChange whether the user may change settings
 * @param {() => void} onChange called after a change
 */
export function settingsPanel(path, signal, mayChange, onChange) {
  const values = h("dl.facts.settings-values");
  const changeButton = h("button.small", { type: "button" }, "Change settings …");
  const list = h("ol.settings-history");
  const note = h("p.note", { role: "status" });
  const more = h("button.small", { type: "button", hidden: true });
  let view = null;
  let history = null;
  let showAll = false;
  let shown = "";
  changeButton.addEventListener("click", () => change("name", changeButton));
  more.addEventListener("click", () => {
    showAll = !showAll;
    showHistory();
  });

  /** Open the dialog at a setting. `opener` is a button of a card, which then confirms the change. */
  async function change(first, opener) {
    const changed = await changeDialog(view, first);
    if (changed === null) return;
    showConfirmation(changed.text, opener, signal);
    onChange();
  }

  function showHistory() {
    const { changes } = history;
    const visible = showAll ? changes : changes.slice(0, MAX_CHANGES);
    replace(list, visible.map((one) => h("li", changeLine(one, view))));
    more.hidden = changes.length <= MAX_CHANGES;
    more.textContent = showAll ? "Show fewer" : `Show all ${number(changes.length)}`;
    const { through, events } = history;
    replace(note, through < events ? `Reading the log: ${percent(through / events)} …` : "");
  }

  return {
    node: h("div.settings", values, h("div", h("h3", "Changes"), list, more, note)),
    changeButton,
    change,
    /** Read the history. The service reads a long log in parts. */
    async refresh() {
      do {
        history = await get(`${path}/settings`, { signal });
        showHistory();
      } while (history.through < history.events && !signal.aborted);
    },
    update(newView) {
      view = newView;
      changeButton.hidden = !mayChange || view.status === "closed";
      const next = JSON.stringify([view.spec, view.budget]);
      if (next === shown) return; // keeps the focus, and an open tip
      shown = next;
      replace(values, settingRows(view));
    },
    /** The changes as rows of text, for the report. */
    rows: () =>
      (history?.changes ?? []).slice(0, MAX_CHANGES).map((one) => {
        const { what, from, to } = describeChange(one, view);
        return [new Date(one.at).toLocaleString("en-GB", WHEN), whoText(one), what, from, to];
      }),
  };
}

/** The settings with their values: first those that can be changed. */
function settingRows(view) {
  const { spec } = view;
  const changeable = Object.entries(CHANGEABLE).filter(([name]) => name !== "name");
  return [
    changeable.map(([name, { label, term }]) =>
      fact(term ? defined(term, label) : label, settingText(name, valueOf(name, view), view)),
    ),
    fact(defined("policy"), policyName(spec.policy)),
    fact(defined("star"), money(spec.price_of_a_star, view)),
    fact(defined("margin"), money(spec.margin, view)),
    fact(
      defined("probe"),
      spec.probe
        ? `${percent(spec.probe.share)} of unpaid offers, ${spec.probe.amount}\u00a0★`
        : "none",
    ),
    fact(defined("holdout"), spec.holdout ? percent(spec.holdout) : "none"),
    fact("Offers expire after", duration(spec.offer_expires_after)),
    fact("Ratings count for", duration(spec.rating_window)),
  ];
}

function valueOf(name, { spec, budget }) {
  return name === "budget" ? budget : (spec[name] ?? null);
}

/** The value of a setting as text. */
function settingText(name, value, view) {
  if (name === "status" || name === "name") return String(value);
  const { kind } = CHANGEABLE[name] ?? {};
  if (value === null || (kind === "percent" && value === 0)) return "none";
  if (kind === "money") return money(value, view);
  if (kind === "percent") return `${Number((100 * value).toFixed(4))}\u00a0%`;
  if (kind === "count") return counted(value, "offer");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function describeChange({ setting, arm, before, after }, view) {
  if (setting === "created") return { what: "Created", from: "", to: "" };
  if (setting === "arms") return { what: "Items added", from: "", to: after.join(", ") };
  if (setting === "retired") {
    const state = (retired) => (retired ? "retired" : "offered");
    return { what: `Item ${arm}`, from: state(before), to: state(after) };
  }
  const what = CHANGEABLE[setting]?.label ?? (setting === "status" ? "Status" : setting);
  const [from, to] = [before, after].map((value) => settingText(setting, value, view));
  return { what, from, to };
}

function changeLine(change, view) {
  const { what, from, to } = describeChange(change, view);
  return [
    h("strong", what),
    from && [" ", h("span.settings-before", from), " → "],
    !from && to && ": ",
    to,
    h(
      "span.note",
      h("time", { datetime: change.at }, new Date(change.at).toLocaleString("en-GB", WHEN)),
      ` · ${whoText(change)}`,
    ),
  ];
}

function whoText({ by, by_name: name }) {
  if (by === null) return "without a key";
  return name === null ? `key ${by}` : `key “${name}”`;
}

/** Say for some seconds, at the top of the button's card, what was saved. It covers nothing. */
function showConfirmation(text, opener, signal) {
  const node = h("p.confirmation", { role: "status" });
  opener.closest(".card").querySelector("header").after(node);
  setText(node, text); // after it was added, so that screen readers read it
  setTimeout(() => node.remove(), CONFIRMATION);
  signal.addEventListener("abort", () => node.remove());
}

/** Ask for new values, and send those that differ. Resolves to a text about them, or null. */
function changeDialog(view, first) {
  const scale = 10 ** view.currency_digits;
  const fields = Object.entries(CHANGEABLE).map(([name, { label, kind, unit, required }]) => {
    const value = valueOf(name, view);
    const shown = { money: value / scale, percent: Number((100 * value).toFixed(6)) }[kind] ?? value;
    const input = h("input", {
      id: `setting-${name}`,
      type: kind === "text" ? "text" : "number",
      min: kind === "text" ? null : kind === "count" ? 1 : 0,
      step: { money: 1 / scale, count: 1 }[kind] ?? "any",
      max: kind === "percent" ? 99.99 : null,
      maxlength: kind === "text" ? 200 : null,
      required: kind === "text" || required,
      autofocus: name === first,
    });
    const isNone = value === null || (kind === "percent" && value === 0);
    if (!isNone) input.value = String(shown);
    const before = input.value;
    const note = { money: view.currency, percent: "%", count: unit }[kind];
    const read = () => {
      if (kind === "text") return input.value.trim();
      if (input.value === "") return kind === "percent" ? 0 : null;
      const x = input.valueAsNumber;
      return { money: Math.round(x * scale), percent: x / 100 }[kind] ?? x;
    };
    const change = () => (input.value === before ? [] : [[name, read()]]);
    const text = [label, note && h("span.note", ` ${note}`)];
    const node = h("div", h("label", { for: input.id }, text), input);
    return { name, input, change, node };
  });
  const budgetProblem = (least) => {
    const text = `At least ${money(least, view)}: that much is spent, or reserved for open offers.`;
    const { input: field } = fields.find(({ name }) => name === "budget");
    return Object.assign(new Error(text), { field });
  };
  return confirmDialog({
    title: "Change settings",
    confirm: "Save",
    body: [
      h(
        "p.note",
        "Changes apply from the next offer, and are recorded with your key. Leave a limit empty " +
          "to remove it.",
      ),
      fields.map(({ node }) => node),
    ],
    action: async () => {
      const changes = Object.fromEntries(fields.flatMap(({ change }) => change()));
      if (Object.keys(changes).length === 0) throw new Error("Nothing was changed.");
      const saved = await send("PATCH", `/v1/campaigns/${view.id}`, changes).catch((problem) => {
        throw problem.least ? budgetProblem(problem.least) : problem;
      });
      const texts = Object.keys(changes).map(
        (name) =>
          `${CHANGEABLE[name].label} is now ${settingText(name, valueOf(name, saved), saved)}.`,
      );
      return { text: texts.join(" ") };
    },
  });
}
