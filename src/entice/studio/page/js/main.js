// The frame of all screens: routing, theme button, connection banner.

import { Problem, connection, get, studioInfo } from "./api.js";
import { takeKeyFromAddress } from "./api-key.js";
import { load } from "./chart.js";
import { h, replace } from "./dom.js";
import { managesKeys } from "./permissions.js";
import { empty, failed, loading } from "./placeholders.js";

const SCREENS = {
  explore: { folder: "explore", title: "Explore", styles: ["explore", "settings", "single-run"] },
  plan: { folder: "plan", title: "Plan" },
  campaigns: { folder: "campaigns", title: "Campaigns" },
  campaign: {
    folder: "campaign",
    title: "Campaign",
    tab: "campaigns",
    styles: ["campaign", "campaign-figures", "campaign-items"],
  },
  offer: { folder: "offer", title: "Offer", tab: "campaigns" },
  compare: { folder: "compare", title: "Compare", tab: "campaigns" },
  paper: { folder: "paper", title: "Paper" },
  trust: { folder: "trust", title: "Trust" },
  keys: { folder: "keys", title: "Keys" },
  terms: { folder: "terms", title: "Terms", styles: [] },
};

const NOT_LOADED = "This screen could not be loaded";

const root = document.getElementById("screen");
let currentScreen = new AbortController();
let shown = "";

/** The screen, id and query of an address. */
function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [name, id = null] = path.split("/", 2);
  return { name: name || "campaigns", id, query: new URLSearchParams(query) };
}

async function showScreen() {
  takeKeyFromAddress();
  const { name, id, query } = parse(location.hash);
  currentScreen.abort();
  currentScreen = new AbortController();
  const { signal } = currentScreen;
  const screen = Object.hasOwn(SCREENS, name) ? SCREENS[name] : undefined;
  markTab(screen?.tab ?? name);
  showKeysTab();
  if (screen === undefined) return showUnknown(name);
  document.title = `${screen.title} · Entice`;
  const content = h("div", { class: `screen-root screen-root-${screen.folder}` });
  replace(root, replace(content, loading("Loading …")));
  if (shown && shown !== name) root.focus({ preventScroll: true });
  if (shown !== name) scrollTo(0, 0);
  shown = name;
  document.body.dataset.screen = name;
  try {
    const [module] = await Promise.all([loadModule(screen), loadStyles(screen)]);
    if (signal.aborted) return;
    replace(content);
    await module.show(content, { params: { id }, query, signal });
  } catch (error) {
    if (signal.aborted) return;
    console.error(error);
    // Browsers cache the failure of an import, so only a reload helps.
    const retry = error.title === NOT_LOADED ? () => location.reload() : showScreen;
    replace(content, error.status === 404 ? notFound(error) : failed(error, retry));
    if (error.status === 0) connection.addEventListener("back", retry, { once: true, signal });
  }
}

/** The campaign or offer does not exist, so there is no "Try again". */
function notFound({ title, detail }) {
  const link = h("a.button", { href: "#/campaigns" }, "All campaigns");
  return empty(title, detail, link);
}

async function loadModule({ folder }) {
  try {
    return await import(`./${folder}/screen.js`);
  } catch (error) {
    console.error(error);
    // An import does not report its reason. If the service is down, this request shows the banner.
    const { status } = await get("/healthz").catch((problem) => problem);
    const detail = "Its script could not be loaded: the service may be down. Try again soon.";
    throw new Problem(status === 0 ? 0 : 503, NOT_LOADED, detail);
  }
}

/** Load the styles of a screen and disable those of other screens. */
function loadStyles({ folder, styles = [folder] }) {
  const links = [...document.querySelectorAll("link[data-style]")];
  for (const link of links) link.disabled = !styles.includes(link.dataset.style);
  const loaded = links.map((link) => link.dataset.style);
  const missing = styles.filter((style) => !loaded.includes(style));
  return Promise.all(missing.map(loadStyle));
}

function loadStyle(style) {
  return new Promise((resolve) => {
    const href = `/studio/css/${style}.css`;
    const link = h("link", { rel: "stylesheet", href, dataset: { style }, on: { load: resolve } });
    link.addEventListener("error", () => {
      link.remove(); // so that it is loaded again next time
      resolve();
    });
    document.head.append(link);
  });
}

function markTab(tab) {
  for (const link of document.querySelectorAll(".nav a")) {
    const here = link.getAttribute("href") === `#/${tab}`;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    if (here) link.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

/** Show the tab of keys to administrators of all campaigns. */
async function showKeysTab() {
  const info = await studioInfo().catch(() => null);
  document.getElementById("keys-tab").hidden = info === null || !managesKeys(info);
}

function showUnknown(name) {
  const problem = {
    title: "Screen not found",
    detail: `There is no screen “${name}”. Check the address.`,
  };
  replace(root, failed(problem), h("p.centred", h("a", { href: "#/" }, "Go to the start")));
}

function themeButton() {
  const button = document.getElementById("theme");
  const update = () => {
    const dark = document.documentElement.dataset.theme === "dark";
    button.setAttribute("aria-pressed", String(dark));
    button.title = dark ? "Light colours" : "Dark colours";
  };
  button.addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme === "dark";
    dispatchEvent(new CustomEvent("choose-theme", { detail: dark ? "light" : "dark" }));
  });
  addEventListener("theme", update);
  update();
}

function banner() {
  const node = document.getElementById("banner");
  let hiding = 0;
  connection.addEventListener("lost", () => {
    clearTimeout(hiding);
    node.className = "banner banner-lost";
    node.textContent =
      "The service cannot be reached. Data may be out of date. Reconnecting automatically …";
    node.hidden = false;
  });
  connection.addEventListener("back", () => {
    node.className = "banner banner-back";
    node.textContent = "Connected again.";
    hiding = setTimeout(() => {
      node.hidden = true;
    }, 3000);
  });
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the hash of the address selects the screen
  root.focus();
});
themeButton();
banner();
addEventListener("hashchange", showScreen);
// Then the script of the charts, for later screens: loaded at once, it delays the first one.
showScreen().then(load).catch(() => {});
