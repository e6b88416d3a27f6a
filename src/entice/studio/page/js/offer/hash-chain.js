// The events of an offer in the campaign's log, each linked to the previous one by its hash.

import { get } from "../api.js";
import { h } from "../dom.js";
import { number } from "../format.js";

const GENESIS = "0".repeat(64);

/** Read the hash of the event before each event. */
export async function readPreviousHashes(campaign, history, { signal }) {
  return Promise.all(
    history.map(async ({ seq }) => {
      if (seq === 1) return GENESIS;
      const { events } = await get(`/v1/campaigns/${campaign}/events?after=${seq - 2}&limit=1`, {
        signal,
      });
      return events[0].hash;
    }),
  );
}

/** List the events with their hashes. */
export function hashChain(history, previous) {
  return h(
    "ol",
    { class: "hash-chain" },
    history.map((event, i) =>
      h(
        "li",
        { class: "link" },
        h(
          "p",
          { class: "link-head" },
          h("span", { class: "link-seq" }, `#${number(event.seq)}`),
          h("strong", null, event.kind),
        ),
        h(
          "p",
          { class: "link-hashes" },
          shortHash(event.seq - 1, previous[i]),
          h("span", { "aria-hidden": "true" }, "→"),
          shortHash(event.seq, event.hash),
        ),
        h(
          "details",
          null,
          h("summary", null, "Full hashes and event"),
          h(
            "dl",
            { class: "link-full" },
            fullHash(`Previous event, #${number(event.seq - 1)}`, previous[i]),
            fullHash(`This event, #${number(event.seq)}`, event.hash),
          ),
          h(
            "pre",
            { tabindex: "0", "aria-label": `Event ${event.seq}` },
            JSON.stringify(withoutHash(event), null, 2),
          ),
        ),
      ),
    ),
  );
}

function shortHash(seq, hash) {
  const code = h("code", { title: hash }, `${hash.slice(0, 8)}…${hash.slice(-4)}`);
  return h("span", null, h("span", { class: "note" }, `#${number(seq)} `), code);
}

function fullHash(name, hash) {
  return h("div", null, h("dt", null, name), h("dd", null, h("code", null, hash)));
}

function withoutHash({ hash, ...event }) {
  return event;
}
