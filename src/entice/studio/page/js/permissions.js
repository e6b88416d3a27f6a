// What the key of this tab allows, and the notice for users who may not change campaigns.

import { studioInfo } from "./api.js";
import { changeKey } from "./api-key.js";
import { h } from "./dom.js";
import { button } from "./layout.js";

/** Whether a user, as `studioInfo` describes them, may list, create and revoke keys. */
export function managesKeys({ may, campaign }) {
  return may.includes("admin") && campaign === null;
}

/**
 * Return null if this user may change campaigns, else a node that says how to get permission.
 * `action` is a verb phrase, such as "pause a campaign".
 */
export async function readOnlyNotice(action) {
  const { may } = await studioInfo();
  if (may.includes("admin")) return null;
  const command = h("code", "entice keys create --role admin --name me");
  const text = [
    `Your key cannot ${action}. Create an admin key with `,
    command,
    ". ",
    changeKeyButton(),
  ];
  return h("p.note.read-only", h("span.badge", "Read only"), " ", text);
}

function changeKeyButton() {
  const click = async () => {
    if (await changeKey()) dispatchEvent(new HashChangeEvent("hashchange")); // reloads the screen
  };
  return button("Enter another key", click, { class: "small" });
}
