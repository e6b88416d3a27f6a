// Pause, go on, close: what the campaign is told, and what is still owed when it is.

import { send } from "../api.js";
import { ask } from "../dialog.js";
import { h, replace } from "../dom.js";
import { money } from "../money.js";
import { unlessAllowed } from "../rights.js";

/**
 * Make the buttons. Returns their node and what brings them up to date.
 * @param {(view: object) => void} changed told the campaign as it is after a change
 */
export async function brake(changed) {
  const refused = await unlessAllowed("pause or close a campaign");
  const node = h("div", { class: "brake" });
  let status = null;
  let view = null;
  const button = (words, kind, question) =>
    h("button", { type: "button", class: kind, on: { click: () => put(question(view)) } }, words);

  async function put(question) {
    const { status: wanted, ...words } = question;
    const work = () => send("PATCH", `/v1/campaigns/${view.id}`, { status: wanted });
    const answer = await ask({ ...words, work });
    if (answer) changed(answer);
  }

  return {
    node,
    update(now) {
      view = now;
      if (view.status === status) return; // buttons that have the focus keep it
      status = view.status;
      if (status === "closed") replace(node);
      else if (refused) replace(node, refused);
      else
        replace(
          node,
          status !== "live" &&
            button(status === "shadow" ? "Go live …" : "Resume …", "primary", resume),
          status !== "paused" && button("Pause …", "", pause),
          button("Close …", "danger", close),
        );
    },
  };
}

function pause(view) {
  return {
    status: "paused",
    title: `Pause “${view.name}”?`,
    confirm: "Pause",
    body: [
      h(
        "p",
        null,
        "From now on visitors get their own choice, unpaid. You can resume at any time.",
      ),
      liability(view, "Open offers stay: visitors may still accept them."),
    ],
  };
}

function resume(view) {
  return {
    status: "live",
    title: `${view.status === "shadow" ? "Go live with" : "Resume"} “${view.name}”?`,
    confirm: view.status === "shadow" ? "Go live" : "Resume",
    body: [
      h(
        "p",
        null,
        `Offers are paid for again, from the ${money(view.free, view)} that are free.`,
      ),
    ],
  };
}

function close(view) {
  return {
    status: "closed",
    title: `Close “${view.name}” for good?`,
    confirm: "Close for good",
    danger: true,
    body: [
      h(
        "p",
        null,
        "This is final: no more offers, and it can't be opened again. Ratings that come " +
          "still count.",
      ),
      liability(view, "All open offers are withdrawn at once, and their money is free again."),
    ],
  };
}

/** What is owed as it stands, and what becomes of it. */
function liability(view, fate) {
  const row = (name, amount, words) =>
    h(
      "div",
      null,
      h("dt", null, name),
      h("dd", null, money(amount, view), h("span", { class: "note" }, words)),
    );
  return h(
    "dl",
    { class: "liability" },
    row("Outstanding", view.reserved, view.reserved ? fate : "No open offer promises money."),
    row("Committed", view.committed, "Accepted already. Stays as it is."),
  );
}
