// The panel with the settings of Explore.

import { h, replace, unique } from "../dom.js";
import { counted, number, percent } from "../format.js";
import { button, seriesColour } from "../layout.js";
import { slider } from "../slider.js";
import { attachTooltip, term } from "../tooltip.js";
import { DEFAULTS, DRIFTS, POLICIES, PRESETS, RATINGS, VALUES, toQuery } from "./settings.js";

const MAX_SEED = 2 ** 32 - 1;
const WIDE = matchMedia("(min-width: 861px)");

const REWARDS = "Gaussian or Bernoulli rewards. The theorems assume rewards between 0 and 1.";

/** A side panel; on a phone a drawer at the bottom, so that the charts stay in view. */
export class Controls {
  /**
   * @param {object} settings changed in place
   * @param {() => void} onChange called after each change
   */
  constructor(settings, onChange, signal) {
    this.settings = settings;
    this.changed = () => {
      this.update();
      onChange();
    };
    this.form = h("form.controls", { "aria-label": "Settings" });
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.node = h("details.drawer", { open: WIDE.matches }, h("summary", "Settings"), this.form);
    this.presets = h(
      "div.presets",
      { role: "group", "aria-label": "Presets" },
      Object.entries(PRESETS).map(([preset, changes]) => {
        const on = { click: () => this.apply(changes) };
        return h("button.preset", { type: "button", dataset: { preset }, on }, preset);
      }),
    );
    this.node.addEventListener("toggle", () => {
      if (this.node.open && !WIDE.matches) document.getElementById("chart-regret").scrollIntoView();
    });
    WIDE.addEventListener("change", () => this.node.toggleAttribute("open", WIDE.matches), {
      signal,
    });
    this.build();
  }

  /** Apply a preset to the defaults. */
  apply(changes) {
    Object.assign(this.settings, DEFAULTS, { seed: this.settings.seed }, changes);
    this.build();
    this.changed();
  }

  build() {
    const { settings, changed } = this;
    const settingSlider = (name, options) =>
      slider({
        name,
        values: VALUES[name],
        value: settings[name],
        onInput: (value) => {
          settings[name] = value;
          changed();
        },
        ...options,
      });
    this.strength = settingSlider("l", {
      label: "Strength",
      tip: "l, the drift coefficient: how much a payment x changes the rating",
      format: (l) => (l === 0 ? "none" : DRIFTS[settings.drift].strength(l)),
      note: "Paid visitors rate higher. The platform sees only the sum of reward and drift.",
    });
    this.drift = select("drift", "Form", "", this, names(DRIFTS));
    this.c = settingSlider("c", {
      label: "ε-greedy explores",
      tip: "c: random items with probability min(1, cK / t). The theorem requires c ≥ 36/Δ.",
      format: (c) => `c = ${c}`,
    });
    this.noise = settingSlider("noise", {
      label: "Noise of ratings",
      tip:
        "The standard deviation σ of Gaussian rewards. UCB, MOSS and Thompson sampling assume 1; " +
        "equal pay estimates it, and its elimination is given it.",
      format: (noise) => `± ${noise} points`,
    });
    replace(
      this.form,
      group("Drift", this.strength.node, this.drift.node),
      group("Policies", policies(settings, changed), this.c.node),
      group(
        "Items",
        settingSlider("arms", {
          label: "Number of items",
          tip: "K in the paper",
          format: number,
        }).node,
        settingSlider("spread", {
          label: "From best to worst",
          tip: "True means from 0.9 down by this much, evenly spaced",
          format: (spread) => `${spread} points`,
        }).node,
        select("ratings", "Ratings", REWARDS, this, RATINGS).node,
        this.noise.node,
      ),
      group(
        "Visitors",
        settingSlider("horizon", {
          label: "Number of visitors",
          tip: "T rounds, the horizon",
          format: number,
        }).node,
        settingSlider("delay", {
          label: "Delay of ratings",
          tip: "A rating of round t is known from round t + 1 + delay on",
          format: (delay) => (delay === 0 ? "none" : counted(delay, "visitor")),
        }).node,
        settingSlider("loss", {
          label: "Never rate",
          tip: "The probability that a rating never arrives",
          format: percent,
        }).node,
      ),
      group(
        "Runs",
        settingSlider("replications", {
          label: "Number of runs",
          tip: "Independent replications of each policy",
          format: number,
        }).node,
        seed(settings, changed),
      ),
    );
    this.update();
  }

  /** Show the settings that matter, and mark the preset. */
  update() {
    const { settings } = this;
    this.strength.set(settings.l);
    this.drift.tip.textContent = `Drift b after a payment x: ${DRIFTS[settings.drift].symbols}`;
    this.c.node.hidden = !settings.policies.includes("epsilon");
    this.noise.node.hidden = settings.ratings !== "gaussian";
    for (const button of this.presets.children) {
      const preset = { ...DEFAULTS, ...PRESETS[button.dataset.preset], seed: settings.seed };
      button.setAttribute("aria-pressed", String(toQuery(preset) === toQuery(settings)));
    }
  }
}

function group(title, ...children) {
  return h("fieldset.group", h("legend", title), children);
}

function names(kinds) {
  return Object.fromEntries(Object.entries(kinds).map(([kind, { name }]) => [kind, name]));
}

function select(name, label, explanation, { settings, changed }, options) {
  const id = unique(name);
  const field = h(
    "select",
    { id, name },
    Object.entries(options).map(([value, text]) =>
      h("option", { value, selected: value === settings[name] }, text),
    ),
  );
  field.addEventListener("change", () => {
    settings[name] = field.value;
    changed();
  });
  const labelNode = h("label.explained", { for: id }, label);
  const tip = attachTooltip(labelNode, field, explanation).node;
  return { node: h("div.choice", labelNode, field, tip), tip };
}

function policies(settings, changed) {
  const boxes = Object.entries(POLICIES).map(([name, policy]) => {
    const box = h("input", {
      type: "checkbox",
      name: "policy",
      value: name,
      checked: settings.policies.includes(name),
    });
    box.addEventListener("change", () => {
      const chosen = boxes.filter(([, input]) => input.checked).map(([value]) => value);
      if (!chosen.length)
        box.checked = true; // at least one policy
      else {
        settings.policies = chosen;
        changed();
      }
    });
    const tip = `${policy.description} ${policy.symbols}.`;
    const label = h(
      "label.policy",
      { vars: seriesColour(policy.series) },
      box,
      h("span.swatch"),
      h("span", policy.name),
    );
    return [
      name,
      box,
      h(
        "li",
        label,
        term("?", tip, { class: "help-button", "aria-label": `About ${policy.name}` }),
      ),
    ];
  });
  return h("ul.policies", boxes.map(([, , item]) => item));
}

function seed(settings, changed) {
  const id = unique("seed");
  const input = h("input", {
    id,
    name: "seed",
    type: "number",
    min: 0,
    max: MAX_SEED,
    step: 1,
    value: settings.seed,
  });
  const set = (value) => {
    if (!Number.isSafeInteger(value) || value < 0) return;
    settings.seed = value;
    changed();
  };
  input.addEventListener("input", () => input.value && set(Number(input.value)));
  const randomise = () => {
    input.value = String(crypto.getRandomValues(new Uint32Array(1))[0] % 10000);
    set(Number(input.value));
  };
  const label = h("label.explained", { for: id }, "Seed");
  const tip = "Random seed. The same settings and seed give the same numbers on any machine.";
  return h(
    "div.seed",
    label,
    h("div.seed-row", input, button("Random", randomise)),
    attachTooltip(label, input, tip).node,
  );
}
