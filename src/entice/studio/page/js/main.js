// The frame around all screens: where the address leads, the theme, the banner when nobody answers.

import { Problem, connection, get, studio } from "./api.js";
import { load } from "./chart.js";
import { h, replace } from "./dom.js";
import { takeKeyFromAddress } from "./key.js";
import { empty, failed, loading } from "./state.js";

const SCREENS = {
  explore: { folder: "explore", title: "Explore", styles: ["explore", "settings", "race"] },
  plan: { folder: "plan", title: "Plan", styles: ["plan", "policies"] },
  campaigns: { folder: "campaign", title: "Campaigns", styles: ["campaign", "gauges"] },
  campaign: {
    folder: "campaign",
    title: "Campaign",
    tab: "campaigns",
    styles: ["campaign", "gauges", "ladder", "feed"],
  },
  offer: { folder: "offer", title: "Offer", tab: "campaigns" },
  paper: { folder: "paper", title: "Paper" },
  trust: { folder: "trust", title: "Trust" },
};

const NOT_LOADED = "This screen could not be loaded";

const root = document.getElementById("screen");
let leaving = new AbortController();
let shown = "";

/** Where an address leads: its screen, the rest of the path, the query. */
function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [name, id = null] = path.split("/", 2);
  return { name: name || "explore", id, query: new URLSearchParams(query) };
}

async function go() {
  takeKeyFromAddress();
  const { name, id, query } = parse(location.hash);
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const screen = Object.hasOwn(SCREENS, name) ? SCREENS[name] : undefined;
  mark(screen?.tab ?? name);
  if (screen === undefined) return notFound(name);
  document.title = `${screen.title} · Entice`;
  const place = h("div", { class: `place place-${screen.folder}` }, loading("One moment …"));
  replace(root, place);
  if (shown && shown !== name) root.focus({ preventScroll: true });
  if (shown !== name) scrollTo(0, 0);
  shown = name;
  document.body.dataset.screen = name;
  try {
    const [module] = await Promise.all([code(screen), styled(screen)]);
    if (signal.aborted) return;
    replace(place);
    await module.show(place, { params: { id }, query, signal });
  } catch (error) {
    if (signal.aborted) return;
    console.error(error);
    // A browser may remember that a module could not be had: then only a new page helps.
    const again = error.title === NOT_LOADED ? () => location.reload() : go;
    replace(place, error.status === 404 ? missing(error) : failed(error, again));
    if (error.status === 0) connection.addEventListener("back", again, { once: true, signal });
  }
}

/** What was asked for is not there, and asking again would not help. */
function missing({ title, detail }) {
  const link = h("a", { class: "button", href: "#/campaigns" }, "All campaigns");
  return empty(title, detail, link);
}

async function code({ folder }) {
  try {
    return await import(`./${folder}/screen.js`);
  } catch (error) {
    console.error(error);
    // An import does not say why it failed. Where the service is gone, this tells the banner, too.
    const { status } = await get("/healthz").catch((problem) => problem);
    const detail = "Its code did not come through: the service may be down.";
    throw new Problem(status === 0 ? 0 : 503, NOT_LOADED, detail);
  }
}

/** A screen's own styles are loaded with it, and count for it alone. */
function styled({ folder, styles = [folder] }) {
  const links = [...document.querySelectorAll("link[data-style]")];
  for (const link of links) link.disabled = !styles.includes(link.dataset.style);
  const there = links.map((link) => link.dataset.style);
  const missing = styles.filter((style) => !there.includes(style));
  return Promise.all(missing.map(loadStyle));
}

function loadStyle(style) {
  return new Promise((resolve) => {
    const href = `/studio/css/${style}.css`;
    const link = h("link", { rel: "stylesheet", href, dataset: { style }, on: { load: resolve } });
    link.addEventListener("error", () => {
      link.remove(); // so that it is tried again
      resolve();
    });
    document.head.append(link);
  });
}

function mark(tab) {
  for (const link of document.querySelectorAll(".nav a")) {
    const here = link.getAttribute("href") === `#/${tab}`;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    if (here) link.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

function notFound(name) {
  const problem = {
    title: "There is no such screen",
    detail: `The address leads to “${name}”, which is none.`,
  };
  replace(
    root,
    failed(problem),
    h("p", { class: "centred" }, h("a", { href: "#/explore" }, "Go to Explore")),
  );
}

function themeButton() {
  const button = document.getElementById("theme");
  const tell = () => {
    const dark = document.documentElement.dataset.theme === "dark";
    button.setAttribute("aria-pressed", String(dark));
    button.title = dark ? "Light colours" : "Dark colours";
  };
  button.addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme === "dark";
    dispatchEvent(new CustomEvent("choose-theme", { detail: dark ? "light" : "dark" }));
  });
  addEventListener("theme", tell);
  tell();
}

function banner() {
  const node = document.getElementById("banner");
  let hiding = 0;
  connection.addEventListener("lost", () => {
    clearTimeout(hiding);
    node.className = "banner banner-lost";
    node.textContent =
      "The service can't be reached. What you see is what was known last; this page keeps trying.";
    node.hidden = false;
  });
  connection.addEventListener("back", () => {
    node.className = "banner banner-back";
    node.textContent = "The service is back.";
    hiding = setTimeout(() => {
      node.hidden = true;
    }, 3000);
  });
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address says which screen it is
  root.focus();
});
themeButton();
banner();
addEventListener("hashchange", go);
go();
studio().catch(() => {}); // asks for a key at once, if one is needed
load().catch(() => {}); // in the background: the frame is there already
