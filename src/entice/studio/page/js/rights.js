// What a visitor may do here, and what to say to who may not.

import { studio } from "./api.js";
import { h } from "./dom.js";
import { offerKey } from "./key.js";

/**
 * What stands where something can't be done: null for who may change campaigns, else a node that
 * says why not and how to get there. `what` is a verb, such as "pause a campaign".
 */
export async function unlessAllowed(what) {
  const { may, keyless } = await studio();
  if (may.includes("admin")) return null;
  const command = h("code", null, "entice keys create --role admin --name me");
  const told = keyless
    ? [`To ${what}, make a key by `, command, " and reload this page: it then asks for it."]
    : [`Your key may look, but not ${what}. An admin key may, made by `, command, ". ", another()];
  return h("p", { class: "note read-only" }, h("span", { class: "badge" }, "Read only"), " ", told);
}

function another() {
  const enter = async () => {
    if (await offerKey()) dispatchEvent(new HashChangeEvent("hashchange")); // the screen is shown anew
  };
  return h("button", { type: "button", class: "small", on: { click: enter } }, "Enter another key");
}
