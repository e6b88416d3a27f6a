// The visitor's key: kept for this tab only, asked for when the service wants one.

import { h } from "./dom.js";

const NAME = "entice-key";

/** The key of this tab, or null. */
export function currentKey() {
  return sessionStorage.getItem(NAME);
}

/** Take over a key that came in the address (`/#key=entice_…`), and remove it from there at once. */
export function takeKeyFromAddress() {
  const found = location.hash.match(/^#key=([^&]+)&?(.*)$/);
  if (!found) return;
  sessionStorage.setItem(NAME, decodeURIComponent(found[1]));
  history.replaceState(null, "", found[2] ? `#${found[2]}` : "#/explore");
}

let asking = null;

/**
 * Ask for a key, once however many calls need it. Resolves when one was entered.
 * @param {string|null} refused the key that was refused just now, or null if there was none
 */
export function askForKey(refused) {
  if (currentKey() !== refused) return Promise.resolve(); // somebody has entered one meanwhile
  const title = refused === null ? "This service asks for a key" : "This key is not accepted";
  asking ??= ask(title, { needed: true }).finally(() => {
    asking = null;
  });
  return asking;
}

/** Let a visitor without one enter a key, if they wish. Resolves to whether they did. */
export function offerKey() {
  return ask("Enter a key", { needed: false });
}

function ask(title, { needed }) {
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
      "dialog",
      { class: "dialog", "aria-labelledby": "key-title" },
      h(
        "form",
        { method: "dialog" },
        h("h2", { id: "key-title" }, title),
        h("label", { for: "key" }, "Key"),
        input,
        h(
          "p",
          { id: "key-note", class: "note" },
          "It is kept for this tab only, and forgotten when you close it. Whoever runs the service makes one by ",
          h("code", null, "entice keys create"),
          ".",
        ),
        h(
          "div",
          { class: "actions" },
          !needed && cancel,
          h("button", { class: "primary", value: "go" }, "Continue"),
        ),
      ),
    );
    // Without a key that is needed a screen shows nothing: Escape leads back to the same question.
    dialog.addEventListener("cancel", (event) => needed && event.preventDefault());
    dialog.addEventListener("close", () => {
      const entered = dialog.returnValue === "go" ? input.value.trim() : "";
      dialog.remove();
      if (!entered && needed) return resolve(ask(title, { needed }));
      if (entered) sessionStorage.setItem(NAME, entered);
      resolve(Boolean(entered));
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
