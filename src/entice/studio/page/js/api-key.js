// The API key of this tab, kept in its session storage.

import { h } from "./dom.js";

const NAME = "entice-key";
const LOCAL_TOKEN = "entice_local_"; // how the token of a service without keys starts
const REPLACED = "A key now protects this service";

/** The key of this tab, or null. */
export function currentKey() {
  return sessionStorage.getItem(NAME);
}

/** Use another key in this tab. */
export function useKey(key) {
  sessionStorage.setItem(NAME, key);
}

/** Store a key from the address (`/#key=entice_…`) and remove it from there. */
export function takeKeyFromAddress() {
  const found = location.hash.match(/^#key=([^&]+)&?(.*)$/);
  if (!found) return;
  useKey(decodeURIComponent(found[1]));
  history.replaceState(null, "", found[2] ? `#${found[2]}` : "#/");
}

let pending = null;

/**
 * Require a key, with one dialog for all calls that wait for it. Resolves when one was entered.
 * @param {string|null} rejected the key that was rejected, or null if there was none
 */
export function requireKey(rejected) {
  if (currentKey() !== rejected) return Promise.resolve(); // entered meanwhile
  const title = rejected === null ? "This service requires a key" : "This key is not valid";
  // The token of the printed address is rejected as soon as a key exists.
  const wasReplaced = rejected?.startsWith(LOCAL_TOKEN);
  pending ??= keyDialog(wasReplaced ? REPLACED : title, { required: true }).finally(() => {
    pending = null;
  });
  return pending;
}

/** Let the user enter another key. Resolves to whether they did. */
export function changeKey() {
  return keyDialog("Enter a key", { required: false });
}

function keyDialog(title, { required }) {
  return new Promise((resolve) => {
    const input = h("input", {
      id: "key",
      type: "password",
      autocomplete: "off",
      spellcheck: "false",
      required: true,
      placeholder: "entice_…",
      "aria-describedby": "key-note",
    });
    const cancel = h("button", { type: "button", on: { click: () => dialog.close("") } }, "Cancel");
    const dialog = h(
      "dialog.dialog",
      { "aria-labelledby": "key-title" },
      h(
        "form",
        { method: "dialog" },
        h("h2", { id: "key-title" }, title),
        h("label", { for: "key" }, "Key"),
        input,
        h(
          "p.note",
          { id: "key-note" },
          "The key is kept until you close this tab. An administrator creates keys with ",
          h("code", "entice keys create"),
          title === REPLACED
            ? ", or on the screen Keys. The address that the service printed no longer works."
            : [". Without keys, open the address that ", h("code", "entice serve"), " printed."],
        ),
        h("div.actions", !required && cancel, h("button.primary", { value: "go" }, "Continue")),
      ),
    );
    // The screen is empty without a required key, so Escape does not close the dialog.
    dialog.addEventListener("cancel", (event) => required && event.preventDefault());
    dialog.addEventListener("close", () => {
      const entered = dialog.returnValue === "go" ? input.value.trim() : "";
      dialog.remove();
      if (!entered && required) return resolve(keyDialog(title, { required }));
      if (entered) useKey(entered);
      resolve(Boolean(entered));
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
