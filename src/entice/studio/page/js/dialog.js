// Confirmation dialogs.

import { h, replace, unique } from "./dom.js";

/**
 * Ask for confirmation, then run `action`. Resolves to its result, or to null if cancelled. If the
 * action fails, the dialog shows the error, below its `field` if it has one, and stays open.
 * @param {{title: string, body: Node[], confirm: string, danger?: boolean, cancel?: string|null,
 *   mayClose?: () => boolean, action: () => Promise<any>}} options `cancel` is null if there is
 *   nothing to cancel; Escape and the button close the dialog only if `mayClose` returns true
 */
export function confirmDialog({
  title,
  body,
  confirm,
  danger = false,
  cancel: cancelText = "Cancel",
  mayClose = () => true,
  action,
}) {
  return new Promise((resolve) => {
    const titleId = unique("dialog");
    const errorText = h("p.dialog-problem", { role: "alert", hidden: true });
    const kind = danger ? "danger-full" : cancelText === null ? "" : "primary";
    const confirmButton = h("button", { class: kind }, confirm);
    const close = { type: "button", on: { click: () => node.close() } };
    const cancel = cancelText && h("button", close, cancelText);
    let result = null;
    let busy = false;
    const updateButton = () => {
      confirmButton.disabled = busy || !mayClose();
    };
    const submit = async (event) => {
      event.preventDefault();
      errorText.hidden = true;
      busy = true;
      updateButton();
      try {
        result = await action();
        node.close();
      } catch (problem) {
        if (problem.field) problem.field.after(errorText);
        else actions.before(errorText);
        problem.field?.focus();
        replace(
          errorText,
          problem.status === 0
            ? `${problem.title}. Try again when it is back.`
            : (problem.detail ?? problem.message),
        );
        errorText.hidden = false;
      } finally {
        busy = false;
        updateButton();
      }
    };
    const input = () => {
      errorText.hidden = true;
      updateButton();
    };
    const actions = h("div.actions", cancel, confirmButton);
    const node = h(
      "dialog.dialog",
      { "aria-labelledby": titleId },
      h(
        "form",
        { on: { submit, input, copy: updateButton, click: updateButton } },
        h("h2", { id: titleId }, title),
        body,
        errorText,
        actions,
      ),
    );
    // Chromium sends no "cancel" for a second Escape, and closes the dialog: so "keydown", too.
    const keep = (event) => mayClose() || event.preventDefault();
    node.addEventListener("cancel", keep);
    node.addEventListener("keydown", (event) => event.key === "Escape" && keep(event));
    node.addEventListener("close", () => {
      node.remove();
      resolve(result);
    });
    updateButton();
    document.body.append(node);
    node.showModal();
  });
}
