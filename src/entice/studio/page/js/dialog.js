// Questions that wait for an answer.

import { h, replace, unique } from "./dom.js";

/**
 * Ask before something is done. Resolves to what `work` returned, or to null if it was not wanted.
 * Where `work` fails, the dialog says so and stays.
 * @param {{title: string, body: Node[], confirm: string, danger?: boolean,
 *   work: () => Promise<any>}} question
 */
export function ask({ title, body, confirm, danger = false, work }) {
  return new Promise((resolve) => {
    const name = unique("dialog");
    const said = h("p", { class: "dialog-problem", role: "alert", hidden: true });
    const go = h("button", { class: danger ? "danger-full" : "primary" }, confirm);
    const cancel = h("button", { type: "button", on: { click: () => node.close() } }, "Cancel");
    let result = null;
    const submit = async (event) => {
      event.preventDefault();
      said.hidden = true;
      go.disabled = true;
      try {
        result = await work();
        node.close();
      } catch (problem) {
        replace(
          said,
          problem.status === 0
            ? `${problem.title}. Try again when it is back.`
            : (problem.detail ?? problem.message),
        );
        said.hidden = false;
      } finally {
        go.disabled = false;
      }
    };
    const node = h(
      "dialog",
      { class: "dialog", "aria-labelledby": name },
      h(
        "form",
        { on: { submit } },
        h("h2", { id: name }, title),
        body,
        said,
        h("div", { class: "actions" }, cancel, go),
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
