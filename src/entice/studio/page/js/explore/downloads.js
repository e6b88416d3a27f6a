// Downloads: the link, the study as TOML, the curves as CSV, the charts as PNG.

import { token } from "../chart.js";
import { h } from "../dom.js";
import { number, percent } from "../format.js";
import { copyText, save } from "../report.js";
import { DRIFTS, POLICIES } from "./settings.js";

const CAPTION_HEIGHT = 90; // pixels below the charts

/**
 * The row of buttons.
 * @param {() => {settings, snapshot, toml}} current returns the results on display; toml is null
 *   until all runs are done
 * @param {() => Promise<string[]>} images the charts as data URLs
 */
export function downloads(current, images) {
  const status = h("span.visually-hidden", { role: "status" });
  const copy = h("button.small", { type: "button" }, "Copy link");
  copy.addEventListener("click", async () => {
    const done = await copyText(location.href);
    copy.textContent = done ? "Copied" : "Copy it from the address bar";
    status.textContent = done ? "The link is in the clipboard." : "";
    setTimeout(() => {
      copy.textContent = "Copy link";
    }, 2000);
  });
  const button = (name, title, click) =>
    h("button.small", { type: "button", title, disabled: true, on: { click } }, name);
  const toml = button("↓ TOML", "The study, for entice run", () =>
    save("study.toml", current().toml, "application/toml"),
  );
  const csv = button("↓ CSV", "The curves of all policies", () =>
    save("curves.csv", csvOf(current()), "text/csv"),
  );
  const png = button("↓ PNG", "The charts as one image", async () => {
    const blob = await stack(await images(), caption(current()));
    save("explore.png", blob, "image/png");
  });
  const node = h("div.downloads", copy, toml, csv, png, status);
  /** Enable the buttons that have something to download. */
  const update = () => {
    toml.disabled = !current().toml;
    csv.disabled = !current().snapshot;
    png.disabled = !current().snapshot;
  };
  return { node, update };
}

function caption({ settings, snapshot }) {
  const parts = [
    `${settings.arms} items`,
    `${settings.spread} from best to worst`,
    settings.ratings === "gaussian" ? `noise ${settings.noise}` : "thumbs up or down",
    settings.l ? `drift ${DRIFTS[settings.drift].strength(settings.l)}` : "no drift",
    settings.delay && `ratings delayed by ${number(settings.delay)}`,
    settings.loss && `${percent(settings.loss)} never rate`,
    settings.policies.includes("epsilon") && `c = ${settings.c}`,
    `${number(snapshot.replications)} runs`,
    `seed ${settings.seed}`,
    "Entice",
  ];
  return parts.filter(Boolean).join("  ·  ");
}

/** One row for each policy, metric and checkpoint. */
function csvOf({ snapshot, settings }) {
  const statistics = ["mean", "stderr", "q05", "q25", "q50", "q75", "q95"];
  const rows = [["policy", "metric", "t", ...statistics, "replications", "seed"].join(",")];
  for (const cell of snapshot.cells) {
    const policy = POLICIES[settings.policies[cell.policy_index]].name;
    for (const [metric, found] of Object.entries(cell.metrics))
      cell.t.forEach((t, i) => {
        const values = statistics.map((name) => found[name][i] ?? "");
        rows.push([policy, metric, t, ...values, snapshot.replications, settings.seed].join(","));
      });
  }
  return `${rows.join("\n")}\n`;
}

/** Draw images one below the other, with a caption. */
async function stack(urls, captionText) {
  const images = await Promise.all(urls.map(loadImage));
  const canvas = h("canvas", {
    width: Math.max(...images.map((image) => image.width)),
    height: images.reduce((sum, image) => sum + image.height, CAPTION_HEIGHT),
  });
  const context = canvas.getContext("2d");
  context.fillStyle = token("--surface");
  context.fillRect(0, 0, canvas.width, canvas.height);
  let top = 0;
  for (const image of images) {
    context.drawImage(image, 0, top);
    top += image.height;
  }
  context.fillStyle = token("--ink-soft");
  context.font = `26px ${token("--font")}`;
  context.fillText(captionText, 48, top + CAPTION_HEIGHT / 3);
  return new Promise((resolve) => {
    canvas.toBlob(resolve, "image/png");
  });
}

async function loadImage(url) {
  const image = new Image();
  image.src = url;
  await image.decode();
  return image;
}
