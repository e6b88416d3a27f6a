// Reports: a screen as Markdown or on paper, and its pictures as PNG and CSV.

import { toPng, token } from "./chart.js";
import { h } from "./dom.js";
import { button } from "./layout.js";

const SHOWN = 2500; // milliseconds for which a button says that it is done

/** Copy a text. Returns whether the browser allows it; it may not over plain HTTP. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** Save a file. */
export function save(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  h("a", { href: url, download: `entice-${name}` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Buttons that copy a screen as Markdown, and print it. `markdown` returns the text. */
export function reportButtons(markdown) {
  const copy = h("button.small", { type: "button" }, "Copy as Markdown");
  const status = h("span.visually-hidden", { role: "status" });
  copy.addEventListener("click", async () => {
    const text = markdown();
    const done = await copyText(text);
    if (!done) save("report.md", text, "text/markdown");
    copy.textContent = done ? "Copied" : "Saved as a file";
    status.textContent = done
      ? "The report is in the clipboard."
      : "The browser does not allow copying here, so the report was saved as a file.";
    setTimeout(() => {
      copy.textContent = "Copy as Markdown";
    }, SHOWN);
  });
  const print = button("Print", printPage, { class: "small" });
  return h("div.report-buttons", copy, print, status);
}

/** Print in light colours: ink on paper. */
function printPage() {
  const { dataset } = document.documentElement;
  const theme = dataset.theme;
  const use = (name) => {
    dataset.theme = name;
    dispatchEvent(new Event("theme")); // redraws the charts
  };
  if (theme !== "light") {
    use("light");
    addEventListener("afterprint", () => use(theme), { once: true });
  }
  setTimeout(() => window.print(), 0); // after the charts are drawn
}

/**
 * Buttons that save a picture.
 * @param {string} name of the files
 * @param {() => Array<Array>} rows of the CSV file, the header first
 * @param {{node?: HTMLElement, figure?: () => object, title?: () => string}|null} chart to save as
 *   PNG: a chart of Plotly or a figure with its title, or an element that contains an SVG picture;
 *   null for a table
 */
export function pictureButtons(name, rows, chart = null) {
  const saveButton = (label, title, click) => button(label, click, { class: "small quiet", title });
  const csv = saveButton("CSV", "The numbers, for a spreadsheet", () =>
    save(`${name}.csv`, toCsv(rows()), "text/csv"),
  );
  const png = async () => {
    const figure = chart.figure ? chart.figure() : chart.node;
    const image = chart.title
      ? await toPng(figure, { title: chart.title(), height: figure.height })
      : await svgToPng(figure.querySelector("svg"));
    const bytes = Uint8Array.from(atob(image.split(",")[1]), (c) => c.charCodeAt(0));
    save(`${name}.png`, new Blob([bytes], { type: "image/png" }));
  };
  const saves = chart && saveButton("PNG", "The picture", png);
  return h("div.picture-buttons", saves, csv);
}

const PAINT = ["fill", "stroke", "stroke-width", "stroke-linecap", "font-size", "font-family"];

/** An SVG element of the page as a PNG, with the styles that it has on the page. */
async function svgToPng(node, scale = 4) {
  const { width, height } = node.viewBox.baseVal;
  const copy = node.cloneNode(true);
  copy.setAttribute("width", scale * width);
  copy.setAttribute("height", scale * height);
  const originals = node.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((part, i) => {
    const style = getComputedStyle(originals[i]);
    for (const name of PAINT) part.setAttribute(name, style.getPropertyValue(name));
  });
  const image = new Image();
  const text = new XMLSerializer().serializeToString(copy);
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = h("canvas", { width: scale * width, height: scale * height });
  const context = canvas.getContext("2d");
  context.fillStyle = token("--surface");
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0);
  return canvas.toDataURL("image/png");
}

/** Rows as CSV (RFC 4180). */
function toCsv(rows) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

/** A table in Markdown; the first row is its header. */
export function markdownTable([head, ...rows]) {
  const line = (cells) => `| ${cells.map((text) => String(text).replaceAll("|", "\\|")).join(" | ")} |`;
  const rule = head.map((_, i) => (i ? "---:" : "---"));
  return [line(head), line(rule), ...rows.map(line)].join("\n");
}

/** Paragraphs, tables and headings in Markdown; empty parts are left out. */
export function markdownText(...parts) {
  return `${parts.flat().filter(Boolean).join("\n\n").replaceAll("\u00a0", " ")}\n`;
}
