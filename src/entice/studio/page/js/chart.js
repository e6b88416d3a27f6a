// Plotly charts in the page's theme. Plotly is loaded from the service when it is first needed.

const SOURCE = "/studio/plotly.min.js";
const SERIES = 8;
/**
 * Plotly skips the style element of its maps if this id exists. The content security policy forbids
 * inline styles.
 */
const MAP_STYLES = "9f215cf04c5486422605d13261cb87401f4e7763b6296af81e98efbc0130da53";

/** The colour of the i-th series in the current theme: Okabe and Ito's colour-blind safe palette. */
export function colour(i) {
  return token(`--series-${i % SERIES}`);
}

/** The value of a CSS custom property in the current theme, such as "--ink". */
export function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A hexadecimal colour with transparency. */
export function withAlpha(hex, alpha) {
  const [r, g, b] = [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
  return `rgba(${r}, ${g}, ${b}, ${alpha})`;
}

let plotly = null;

/** Load Plotly, once. */
export function load() {
  plotly ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = SOURCE;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => {
      plotly = null;
      script.remove();
      reject(new Error("The charts could not be loaded. Reload the page to try again."));
    };
    const noStyles = document.createElement("meta");
    noStyles.id = MAP_STYLES;
    document.head.append(noStyles, script);
  });
  return plotly;
}

const charts = new Map(); // by node: traces and layout, to redraw when the theme changes

/**
 * Draw or update a chart.
 * @param {HTMLElement} node sized by CSS; the chart fills it
 * @param {object[]|function} traces of Plotly; a function is called again when the theme changes
 * @param {object|function} layout of Plotly, merged into the page's style
 * @param {{label: string, text?: string}} description for screen readers: the chart's name and a
 *   summary
 */
export async function draw(node, traces, layout, { label, text = "" }) {
  charts.set(node, { traces, layout, size: charts.get(node)?.size });
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", text ? `${label}. ${text}` : label);
  let library;
  try {
    library = await load();
  } catch (problem) {
    node.textContent = problem.message; // the next `draw` tries again
    return;
  }
  const chart = charts.get(node);
  if (chart === undefined) return; // removed meanwhile
  if (!node.classList.contains("js-plotly-plot")) node.replaceChildren();
  await react(library, node, chart);
  chart.size ??= sizeOf(node);
  resizeObserver.observe(node);
}

/** Free a chart whose node is removed. */
export function removeChart(node) {
  if (!charts.delete(node)) return;
  resizeObserver.unobserve(node);
  if (node.classList.contains("js-plotly-plot")) window.Plotly.purge(node);
}

/**
 * A figure as a PNG for download, with a title and a legend.
 * @param {{data: object[], layout: object}} figure of Plotly, such as the node of a chart
 */
export async function toPng(figure, { title, width = 1200, height = 640 }) {
  const library = await load();
  const layout = {
    ...figure.layout,
    title: { text: title, x: 0.02, xanchor: "left", font: { size: 20, color: token("--ink") } },
    showlegend: true,
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
    margin: { ...figure.layout.margin, t: 96, b: 64 },
    paper_bgcolor: token("--surface"),
    width,
    height,
  };
  return library.toImage(
    { data: figure.data, layout, config: CONFIG },
    { format: "png", width, height, scale: 2 },
  );
}

/**
 * A picture of estimates with their intervals, one row each, for parts of the page that are not a
 * chart of Plotly.
 * @param {{label: string, value: number|null, low: number, high: number, other?: number|null}[]}
 *   rows from top to bottom; without a value, `other` alone is drawn
 * @param {{axis: string, range: number[], name: string, other?: string}} labels of the axis, the
 *   values and the other values
 */
export function intervalFigure(rows, { axis, range, name, other }) {
  const known = rows.filter(({ value }) => value !== null);
  const hollow = rows.filter((row) => typeof row.other === "number");
  const label = (row) => row.label;
  const accent = token("--accent");
  const marks = {
    x: known.map(({ value }) => value),
    y: known.map(label),
    mode: "markers",
    name,
    marker: { color: accent, size: 12 },
    error_x: {
      type: "data",
      symmetric: false,
      array: known.map(({ value, high }) => high - value),
      arrayminus: known.map(({ value, low }) => value - low),
      color: withAlpha(accent, 0.4),
      thickness: 8,
      width: 0,
    },
  };
  const ring = { color: token("--surface"), size: 16, line: { color: token("--ink-soft"), width: 2 } };
  const others = { x: hollow.map((row) => row.other), y: hollow.map(label), mode: "markers" };
  const order = { categoryorder: "array", categoryarray: rows.map(label).reverse() };
  return {
    data: [...(hollow.length ? [{ ...others, name: other, marker: ring }] : []), marks],
    layout: withTheme({
      xaxis: { title: axis, range, zeroline: true },
      yaxis: { type: "category", range: [-0.6, rows.length - 0.4], ...order },
    }),
    height: 200 + 34 * rows.length,
  };
}

const CONFIG = {
  displayModeBar: false,
  responsive: false,
  scrollZoom: false,
  doubleClick: "reset",
};

function react(library, node, { traces, layout }) {
  const evaluate = (value) => (typeof value === "function" ? value() : value);
  return library.react(node, evaluate(traces), withTheme(evaluate(layout)), CONFIG);
}

let revision = 0;

function withTheme(layout) {
  const ink = token("--ink-soft");
  const axis = {
    gridcolor: token("--line"),
    linecolor: token("--line-strong"),
    zerolinecolor: token("--line-strong"),
    tickfont: { color: token("--ink-faint"), size: 12 },
    title: { font: { color: ink, size: 12 }, standoff: 8 },
    automargin: true,
    fixedrange: true,
    ticklabeloverflow: "allow",
  };
  const style = {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: token("--font"), size: 13, color: ink },
    margin: { l: 52, r: 12, t: 8, b: 40 },
    showlegend: false,
    hovermode: "closest",
    dragmode: false,
    hoverlabel: {
      bgcolor: token("--surface"),
      bordercolor: token("--line-strong"),
      font: { family: token("--font"), size: 13, color: token("--ink") },
    },
    separators: ".,",
    // Without a new revision, Plotly treats the arrays as unchanged and loses its axis limits.
    datarevision: (revision += 1),
  };
  const merged = { ...style, ...layout };
  for (const name of ["xaxis", "yaxis"]) merged[name] = mergeAxis(axis, layout[name] ?? {});
  for (const name of Object.keys(layout))
    if (/^[xy]axis\d+$/.test(name)) merged[name] = mergeAxis(axis, layout[name]);
  return merged;
}

function mergeAxis(style, options) {
  const title =
    typeof options.title === "string" ? { text: options.title } : (options.title ?? {});
  const tickfont = { ...style.tickfont, ...(options.tickfont ?? {}) };
  return { ...style, ...options, tickfont, title: { ...style.title, ...title } };
}

const resizeObserver = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const chart = charts.get(target);
    if (!chart || target.clientWidth === 0 || chart.size === sizeOf(target)) continue;
    chart.size = sizeOf(target);
    window.Plotly.Plots.resize(target);
  }
});

function sizeOf(node) {
  return `${node.clientWidth} × ${node.clientHeight}`;
}

addEventListener("theme", () => {
  for (const [node, chart] of charts) {
    if (!node.isConnected) removeChart(node);
    else if (node.data) react(window.Plotly, node, chart);
  }
});
