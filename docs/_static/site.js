// Accessibility: what scrolls can be focused, so that the keyboard can scroll it; the lines of a
// long signature, which Sphinx writes as definitions without terms, are a list; and the links of
// the gallery, whose text sphinx-gallery hides, have a name. On a small screen, a dotted name in a
// heading breaks after a dot.

addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll("pre, .table-wrapper, .formula")) {
    if (element.scrollWidth > element.clientWidth) element.tabIndex = 0;
  }
  for (const lines of document.querySelectorAll("dt.sig dl")) {
    lines.setAttribute("role", "list");
    for (const line of lines.children) line.setAttribute("role", "listitem");
  }
  const name = document.querySelector("h1")?.firstChild; // entice.estimate.probe_slope
  if (name?.nodeType === Node.TEXT_NODE) {
    const parts = name.data.split(/(?<=\w\.)(?=\w)/);
    name.replaceWith(...parts.flatMap((part, n) => (n ? [document.createElement("wbr"), part] : part)));
  }
  for (const link of document.querySelectorAll(".sphx-glr-thumbcontainer a")) {
    link.setAttribute("aria-label", link.textContent);
  }
});
