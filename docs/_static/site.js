// Accessibility: what scrolls can be focused, so that the keyboard can scroll it; the lines of a
// long signature, which Sphinx writes as definitions without terms, are a list; and the links of
// the gallery, whose text sphinx-gallery hides, have a name.

addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll("pre, .table-wrapper, .formula")) {
    if (element.scrollWidth > element.clientWidth) element.tabIndex = 0;
  }
  for (const lines of document.querySelectorAll("dt.sig dl")) {
    lines.setAttribute("role", "list");
    for (const line of lines.children) line.setAttribute("role", "listitem");
  }
  for (const link of document.querySelectorAll(".sphx-glr-thumbcontainer a")) {
    link.setAttribute("aria-label", link.textContent);
  }
});
