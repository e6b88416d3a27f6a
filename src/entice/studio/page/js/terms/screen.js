// Terms: what the special words of the screens mean, and which page of the docs has more.

import { docsLink } from "../docs-link.js";
import { h, replace } from "../dom.js";
import { TERMS } from "../glossary.js";
import { screenHead } from "../layout.js";

export async function show(root, { params }) {
  const order = Object.entries(TERMS).sort(([, a], [, b]) => a.name.localeCompare(b.name));
  replace(
    root,
    screenHead("Terms", "The special words of these screens, and where the docs say more."),
    h(
      "dl.card.terms",
      order.map(([id, { name, text, docs }]) =>
        h(
          "div",
          { id: `term-${id}`, class: id === params.id && "terms-chosen" },
          h("dt", name),
          h("dd", text, " ", h("span.note", "See ", docsLink(docs))),
        ),
      ),
    ),
  );
  document.getElementById(`term-${params.id}`)?.scrollIntoView({ block: "center" });
}
