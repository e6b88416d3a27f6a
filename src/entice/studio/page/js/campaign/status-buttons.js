// Buttons that pause, resume or close a campaign, each with a confirmation dialog.

import { send } from "../api.js";
import { confirmDialog } from "../dialog.js";
import { h, replace } from "../dom.js";
import { money } from "../money.js";
import { readOnlyNotice } from "../permissions.js";

/**
 * Make the buttons. Returns their node and a function that updates them.
 * @param {(view: object) => void} onChange called with the campaign after a change
 */
export async function statusButtons(onChange) {
  const notice = await readOnlyNotice("pause or close a campaign");
  const node = h("div", { class: "status-buttons" });
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
      h("p", null, "Visitors get their own choice, unpaid, until you resume."),
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
      h("p", null, `New offers are paid from the ${money(view.free, view)} left in the budget.`),
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
        null,
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
    h(
      "div",
      null,
      h("dt", null, name),
      h("dd", null, money(amount, view), h("span", { class: "note" }, note)),
    );
  return h(
    "dl",
    { class: "liability" },
    row("Reserved", view.reserved, view.reserved ? ofReserved : "No open offer is paid."),
    row("Committed", view.committed, "Accepted by visitors. Not affected."),
  );
}
