// Charts in the look of the page. Plotly comes from the service itself, and only when it is needed.

const SOURCE = "/studio/plotly.min.js";
const SERIES = 7;
/** Where Plotly finds this id it does not write its maps' styles, which the page's policy forbids. */
const MAP_STYLES = "9f215cf04c5486422605d13261cb87401f4e7763b6296af81e98efbc0130da53";

/** The colour of the i-th series, as it is now: Okabe and Ito's, which everyone can tell apart. */
export function colour(i) {
  return token(`--series-${i % SERIES}`);
}

/** A colour of the theme by the name of its CSS custom property, such as "--ink". */
export function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** The same colour, seen through: for bands. */
export function faded(hex, alpha) {
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
      reject(new Error("The charts' code could not be loaded. Reload the page to try again."));
    };
    const noStyles = document.createElement("meta");
    noStyles.id = MAP_STYLES;
    document.head.append(noStyles, script);
  });
  return plotly;
}

const drawn = new Map(); // node → what was drawn in it, to be drawn again in other colours

/**
 * Draw a chart, or change the one that is there.
 * @param {HTMLElement} node sized by CSS; the chart fills it
 * @param {object[]|function} traces of Plotly; as a function they are made anew in the theme's
 *   colours whenever those change
 * @param {object|function} layout of Plotly, over the house's style
 * @param {{label: string, text?: string}} told for who can't see it: the chart's name, and what it
 *   shows, in a sentence
 */
export async function draw(node, traces, layout, { label, text = "" }) {
  drawn.set(node, { traces, layout, size: drawn.get(node)?.size });
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", text ? `${label}. ${text}` : label);
  let library;
  try {
    library = await load();
  } catch (problem) {
    node.textContent = problem.message; // the next drawing tries again
    return;
  }
  const last = drawn.get(node);
  if (last === undefined) return; // it was let go of meanwhile
  if (!node.classList.contains("js-plotly-plot")) node.replaceChildren();
  await library.react(node, made(last.traces), styled(made(last.layout)), CONFIG);
  last.size ??= sizeOf(node);
  sizes.observe(node);
}

/** Let go of a chart whose node is removed. */
export function forget(node) {
  if (!drawn.delete(node)) return;
  sizes.unobserve(node);
  if (node.classList.contains("js-plotly-plot")) window.Plotly.purge(node);
}

/** A chart as a PNG, for download: with a title and a legend, since nothing stands around it there. */
export async function toPng(node, { title, width = 1200, height = 640 }) {
  const library = await load();
  const layout = {
    ...node.layout,
    title: { text: title, x: 0.02, xanchor: "left", font: { size: 20, color: token("--ink") } },
    showlegend: true,
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
    margin: { ...node.layout.margin, t: 96, b: 64 },
    width,
    height,
  };
  return library.toImage(
    { data: node.data, layout, config: CONFIG },
    { format: "png", width, height, scale: 2 },
  );
}

const CONFIG = {
  displayModeBar: false,
  responsive: false,
  scrollZoom: false,
  doubleClick: "reset",
};

function made(given) {
  return typeof given === "function" ? given() : given;
}

let drawings = 0;

function styled(layout) {
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
    // Else Plotly takes arrays that it knows for unchanged, and forgets the limits that it found.
    datarevision: (drawings += 1),
  };
  const merged = { ...style, ...layout };
  for (const name of ["xaxis", "yaxis"]) merged[name] = over(axis, layout[name] ?? {});
  for (const name of Object.keys(layout))
    if (/^[xy]axis\d+$/.test(name)) merged[name] = over(axis, layout[name]);
  return merged;
}

function over(style, given) {
  const title = typeof given.title === "string" ? { text: given.title } : (given.title ?? {});
  const tickfont = { ...style.tickfont, ...(given.tickfont ?? {}) };
  return { ...style, ...given, tickfont, title: { ...style.title, ...title } };
}

const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const last = drawn.get(target);
    if (!last || target.clientWidth === 0 || last.size === sizeOf(target)) continue;
    last.size = sizeOf(target);
    window.Plotly.Plots.resize(target);
  }
});

function sizeOf(node) {
  return `${node.clientWidth} × ${node.clientHeight}`;
}

addEventListener("theme", () => {
  for (const [node, last] of drawn) {
    if (!node.isConnected) forget(node);
    else if (node.data)
      window.Plotly.react(node, made(last.traces), styled(made(last.layout)), CONFIG);
  }
});
