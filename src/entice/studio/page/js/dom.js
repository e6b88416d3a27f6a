// Helpers to create and update elements.

/**
 * Create an element: `h("p.note", "Text")`, `h("a", { href }, "Text", node)`.
 * @param {string} selector its tag and classes
 * @param {...(object|Node|string|number|null|false|Array)} parts properties, if the first part is a
 *   plain object, and children. Properties: `class` (classes beside those of the selector),
 *   `on: {click: f}`, `dataset: {…}`, attributes (true: present, false, null: absent),
 *   `vars: {"--x": …}` for CSS custom properties. No `style` string: the content security policy
 *   forbids it.
 */
export function h(selector, ...parts) {
  const [tag, ...classes] = selector.split(".");
  return fill(document.createElement(tag), classes, parts);
}

/** Create an SVG element, with the same parts. */
export function svg(selector, ...parts) {
  const [tag, ...classes] = selector.split(".");
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), classes, parts);
}

function fill(node, classes, [first, ...others]) {
  const hasProps = first?.constructor === Object;
  const props = hasProps ? first : {};
  set(node, { ...props, class: [...classes, props.class].flat().filter(Boolean).join(" ") || null });
  node.append(...nodes(hasProps ? others : [first, ...others]));
  return node;
}

/** Replace all children of a node. */
export function replace(node, ...children) {
  node.replaceChildren(...nodes(children));
  return node;
}

/** Set the text of a node unless it is the same, so that screen readers do not repeat it. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

let count = 0;

/** A unique id, for labels and descriptions. */
export function unique(name) {
  count += 1;
  return `${name}-${count}`;
}

function set(node, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") throw new TypeError("h: style is forbidden; use a class, or vars");
    if (name === "on")
      for (const [event, listen] of Object.entries(value)) node.addEventListener(event, listen);
    else if (name === "dataset") Object.assign(node.dataset, value);
    else if (name === "vars")
      for (const [key, v] of Object.entries(value)) node.style.setProperty(key, v);
    else node.setAttribute(name, value === true ? "" : value);
  }
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}
