// What can be taken along: the link, the study as TOML, the curves as CSV, the charts as PNG.

import { token } from "../chart.js";
import { h } from "../dom.js";
import { number, percent } from "../format.js";
import { DRIFTS, POLICIES } from "./setup.js";

const CAPTION = 90; // pixels below the charts

/**
 * The row of buttons.
 * @param {() => {setup, picture, toml}} current what is shown now; toml is null until all runs are done
 * @param {() => Promise<string[]>} images the charts as data addresses
 */
export function downloads(current, images) {
  const told = h("span", { class: "visually-hidden", role: "status" });
  const copy = h("button", { type: "button", class: "small" }, "Copy link");
  copy.addEventListener("click", async () => {
    const done = await copied(location.href);
    copy.textContent = done ? "Copied" : "Copy it from the address bar";
    told.textContent = done ? "The link is in the clipboard." : "";
    setTimeout(() => {
      copy.textContent = "Copy link";
    }, 2000);
  });
  const button = (name, title, act) =>
    h(
      "button",
      { type: "button", class: "small", title, disabled: true, on: { click: act } },
      name,
    );
  const toml = button("↓ TOML", "The study, for entice run", () =>
    save("study.toml", current().toml, "application/toml"),
  );
  const csv = button("↓ CSV", "The curves of all policies", () =>
    save("curves.csv", csvOf(current()), "text/csv"),
  );
  const png = button("↓ PNG", "The charts as one picture", async () => {
    const blob = await stacked(await images(), inWords(current()));
    save("explore.png", blob, "image/png");
  });
  const node = h("div", { class: "downloads" }, copy, toml, csv, png, told);
  /** Buttons work as soon as there is something behind them. */
  const ready = () => {
    toml.disabled = !current().toml;
    csv.disabled = !current().picture;
    png.disabled = !current().picture;
  };
  return { node, ready };
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // not allowed, or the page did not come over a safe way
  }
}

function save(name, content, type) {
  const url = URL.createObjectURL(
    content instanceof Blob ? content : new Blob([content], { type }),
  );
  h("a", { href: url, download: `entice-${name}` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

function inWords({ setup, picture }) {
  const parts = [
    `${setup.arms} items`,
    `${setup.spread} from best to worst`,
    setup.ratings === "gaussian" ? `scatter ${setup.noise}` : "thumbs up or down",
    `gratitude ${setup.l ? DRIFTS[setup.drift].strength(setup.l) : "none"}`,
    setup.delay && `ratings late by ${number(setup.delay)}`,
    setup.loss && `${percent(setup.loss)} never rate`,
    setup.policies.includes("epsilon") && `c = ${setup.c}`,
    `${number(picture.replications)} runs`,
    `seed ${setup.seed}`,
    "Entice",
  ];
  return parts.filter(Boolean).join("  ·  ");
}

/** A row for each policy, metric and point in time. */
export function csvOf({ picture, setup }) {
  const statistics = ["mean", "stderr", "q05", "q25", "q50", "q75", "q95"];
  const rows = [["policy", "metric", "t", ...statistics, "replications", "seed"].join(",")];
  for (const cell of picture.cells) {
    const policy = POLICIES[setup.policies[cell.policy_index]].name;
    for (const [metric, found] of Object.entries(cell.metrics))
      cell.t.forEach((t, i) => {
        const values = statistics.map((name) => found[name][i] ?? "");
        rows.push([policy, metric, t, ...values, picture.replications, setup.seed].join(","));
      });
  }
  return `${rows.join("\n")}\n`;
}

/** Put pictures one below the other, on the page's ground, with a line that says what they show. */
async function stacked(addresses, caption) {
  const pictures = await Promise.all(addresses.map(loaded));
  const canvas = h("canvas", {
    width: Math.max(...pictures.map((picture) => picture.width)),
    height: pictures.reduce((sum, picture) => sum + picture.height, CAPTION),
  });
  const context = canvas.getContext("2d");
  context.fillStyle = token("--surface");
  context.fillRect(0, 0, canvas.width, canvas.height);
  let top = 0;
  for (const picture of pictures) {
    context.drawImage(picture, 0, top);
    top += picture.height;
  }
  context.fillStyle = token("--ink-soft");
  context.font = `26px ${token("--font")}`;
  context.fillText(caption, 48, top + CAPTION / 3);
  return new Promise((resolve) => {
    canvas.toBlob(resolve, "image/png");
  });
}

async function loaded(address) {
  const picture = new Image();
  picture.src = address;
  await picture.decode();
  return picture;
}
