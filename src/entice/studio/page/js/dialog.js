// Confirmation dialogs.

import { h, replace, unique } from "./dom.js";

/**
 * Ask for confirmation, then run `action`. Resolves to its result, or to null if cancelled. If the
 * action fails, the dialog shows the error and stays open.
 * @param {{title: string, body: Node[], confirm: string, danger?: boolean, cancel?: string|null,
 *   action: () => Promise<any>}} options `cancel` is null if there is nothing to cancel
 */
export function confirmDialog({
  title,
  body,
  confirm,
  danger = false,
  cancel: cancelText = "Cancel",
  action,
}) {
  return new Promise((resolve) => {
    const titleId = unique("dialog");
    const errorText = h("p", { class: "dialog-problem", role: "alert", hidden: true });
    const confirmButton = h("button", { class: danger ? "danger-full" : "primary" }, confirm);
    const close = { type: "button", on: { click: () => node.close() } };
    const cancel = cancelText && h("button", close, cancelText);
    let result = null;
    const submit = async (event) => {
      event.preventDefault();
      errorText.hidden = true;
      confirmButton.disabled = true;
      try {
        result = await action();
        node.close();
      } catch (problem) {
        replace(
          errorText,
          problem.status === 0
            ? `${problem.title}. Try again when it is back.`
            : (problem.detail ?? problem.message),
        );
        errorText.hidden = false;
      } finally {
        confirmButton.disabled = false;
      }
    };
    const node = h(
      "dialog",
      { class: "dialog", "aria-labelledby": titleId },
      h(
        "form",
        { on: { submit } },
        h("h2", { id: titleId }, title),
        body,
        errorText,
        h("div", { class: "actions" }, cancel, confirmButton),
      ),
    );
    node.addEventListener("close", () => {
      node.remove();
      resolve(result);
    });
    document.body.append(node);
    node.showModal();
  });
}
