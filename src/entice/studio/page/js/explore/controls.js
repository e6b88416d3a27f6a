// The panel of settings.

import { h, replace, unique } from "../dom.js";
import { number, percent } from "../format.js";
import { slider } from "../slider.js";
import { explain, term } from "../tip.js";
import { DEFAULTS, DRIFTS, POLICIES, RATINGS, STORIES, VALUES, toQuery } from "./setup.js";

const LARGEST_SEED = 2 ** 32 - 1;
const WIDE = matchMedia("(min-width: 861px)");

const REWARDS = "Gaussian or Bernoulli rewards. The theorems speak of rewards between 0 and 1.";

/**
 * The settings: a panel at the side, on a phone a drawer at the bottom, so that the pictures are seen
 * while a slider moves.
 */
export class Controls {
  /**
   * @param {object} setup changed in place
   * @param {() => void} changed called after each change
   */
  constructor(setup, changed, signal) {
    this.setup = setup;
    this.changed = () => {
      this.update();
      changed();
    };
    this.form = h("form", { class: "controls", "aria-label": "Settings" });
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.node = h(
      "details",
      { class: "drawer", open: WIDE.matches },
      h("summary", null, "Settings"),
      this.form,
    );
    this.stories = h(
      "div",
      { class: "stories", role: "group", "aria-label": "Worlds worth a look" },
      Object.entries(STORIES).map(([name, story]) => {
        const on = { click: () => this.apply(story) };
        return h("button", { type: "button", class: "story", dataset: { story: name }, on }, name);
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

  /** Change the paper's experiment into one of the stories. */
  apply(story) {
    Object.assign(this.setup, DEFAULTS, { seed: this.setup.seed }, story);
    this.build();
    this.changed();
  }

  build() {
    const { setup, changed } = this;
    const slide = (name, given) =>
      slider({
        name,
        values: VALUES[name],
        value: setup[name],
        onInput: (value) => {
          setup[name] = value;
          changed();
        },
        ...given,
      });
    this.strength = slide("l", {
      label: "How strong",
      tip: "l, the drift coefficient: what a payment x adds to the rating, as chosen below",
      format: (l) => (l === 0 ? "none" : DRIFTS[setup.drift].strength(l)),
      note: "Whoever is paid rates higher, and nobody can tell the rating from the thanks.",
    });
    this.drift = choice("drift", "What it does", "", this, names(DRIFTS));
    this.c = slide("c", {
      label: "ε-greedy tries",
      tip: "c: items by lot with probability min(1, cK / t). The theorem asks for c ≥ 36/Δ.",
      format: (c) => `c = ${c}`,
    });
    this.noise = slide("noise", {
      label: "Scatter of ratings",
      tip: "The standard deviation σ of Gaussian rewards. UCB and Thompson sampling are made for 1.",
      format: (noise) => `± ${noise} points`,
    });
    replace(
      this.form,
      group("Gratitude", this.strength.node, this.drift.node),
      group("Policies", policies(setup, changed), this.c.node),
      group(
        "Items",
        slide("arms", { label: "Number", tip: "K in the paper", format: (k) => `${k} items` }).node,
        slide("spread", {
          label: "From best to worst",
          tip: "True means from 0.9 down to 0.9 less this, evenly spaced",
          format: (spread) => `${spread} points`,
        }).node,
        choice("ratings", "Ratings are", REWARDS, this, RATINGS).node,
        this.noise.node,
      ),
      group(
        "Visitors",
        slide("horizon", { label: "How many come", tip: "T rounds, the horizon", format: number })
          .node,
        slide("delay", {
          label: "Ratings come late by",
          tip: "Ratings in flight: a rating of round t is seen from round t + 1 + delay on",
          format: (delay) =>
            delay === 0 ? "at once" : delay === 1 ? "1 visitor" : `${number(delay)} visitors`,
        }).node,
        slide("loss", {
          label: "Never rate",
          tip: "The probability that a rating never comes; it stays missing",
          format: percent,
        }).node,
      ),
      group(
        "Runs",
        slide("replications", {
          label: "How many",
          tip: "Independent replications of each policy",
          format: number,
        }).node,
        seed(setup, changed),
      ),
    );
    this.update();
  }

  /** Show what matters in this set-up, and which story it is. */
  update() {
    const { setup } = this;
    this.strength.set(setup.l);
    this.drift.tip.textContent = `The drift of a rating after a payment x: ${DRIFTS[setup.drift].symbols}`;
    this.c.node.hidden = !setup.policies.includes("epsilon");
    this.noise.node.hidden = setup.ratings !== "gaussian";
    for (const button of this.stories.children) {
      const told = { ...DEFAULTS, ...STORIES[button.dataset.story], seed: setup.seed };
      button.setAttribute("aria-pressed", String(toQuery(told) === toQuery(setup)));
    }
  }
}

function group(title, ...children) {
  return h("fieldset", { class: "group" }, h("legend", null, title), children);
}

function names(kinds) {
  return Object.fromEntries(Object.entries(kinds).map(([kind, { name }]) => [kind, name]));
}

function choice(name, label, explanation, { setup, changed }, options) {
  const id = unique(name);
  const select = h(
    "select",
    { id, name },
    Object.entries(options).map(([value, words]) =>
      h("option", { value, selected: value === setup[name] }, words),
    ),
  );
  select.addEventListener("change", () => {
    setup[name] = select.value;
    changed();
  });
  const words = h("label", { for: id, class: "explained" }, label);
  const tip = explain(words, select, explanation).node;
  return { node: h("div", { class: "choice" }, words, select, tip), tip };
}

function policies(setup, changed) {
  const boxes = Object.entries(POLICIES).map(([name, policy]) => {
    const box = h("input", {
      type: "checkbox",
      name: "policy",
      value: name,
      checked: setup.policies.includes(name),
    });
    box.addEventListener("change", () => {
      const chosen = boxes.filter(([, input]) => input.checked).map(([value]) => value);
      if (!chosen.length)
        box.checked = true; // nothing to show would be no answer
      else {
        setup.policies = chosen;
        changed();
      }
    });
    const tip = `${policy.words} ${policy.symbols}.`;
    const label = h(
      "label",
      { class: "policy", vars: { "--colour": `var(--series-${policy.series})` } },
      box,
      h("span", { class: "swatch" }),
      h("span", null, policy.name),
    );
    return [
      name,
      box,
      h("li", null, label, term("?", tip, { class: "ask", "aria-label": `About ${policy.name}` })),
    ];
  });
  return h(
    "ul",
    { class: "policies" },
    boxes.map(([, , item]) => item),
  );
}

function seed(setup, changed) {
  const id = unique("seed");
  const input = h("input", {
    id,
    name: "seed",
    type: "number",
    min: 0,
    max: LARGEST_SEED,
    step: 1,
    value: setup.seed,
  });
  const take = (value) => {
    if (!Number.isSafeInteger(value) || value < 0) return;
    setup.seed = value;
    changed();
  };
  input.addEventListener("input", () => input.value && take(Number(input.value)));
  const roll = () => {
    input.value = String(crypto.getRandomValues(new Uint32Array(1))[0] % 10000);
    take(Number(input.value));
  };
  const words = h("label", { for: id, class: "explained" }, "Seed");
  const tip = "Of all random numbers: the same set-up and seed give the same numbers, anywhere";
  return h(
    "div",
    { class: "seed" },
    words,
    h(
      "div",
      { class: "seed-row" },
      input,
      h("button", { type: "button", on: { click: roll } }, "Draw"),
    ),
    explain(words, input, tip).node,
  );
}
