// The events of an offer in the campaign's log, each chained to the one before by its hash.

import { get } from "../api.js";
import { h } from "../dom.js";
import { number } from "../format.js";

const GENESIS = "0".repeat(64);

/** Look up the hash before each event. */
export async function links(campaign, history, { signal }) {
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

/** Show the events as links of the chain; whole hashes on demand. */
export function chain(history, before) {
  return h(
    "ol",
    { class: "chain" },
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
          short(event.seq - 1, before[i]),
          h("span", { "aria-hidden": "true" }, "→"),
          short(event.seq, event.hash),
        ),
        h(
          "details",
          null,
          h("summary", null, "Whole hashes, and the event"),
          h(
            "dl",
            { class: "link-whole" },
            whole(`Before, of #${number(event.seq - 1)}`, before[i]),
            whole("Its own", event.hash),
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

function short(seq, hash) {
  const code = h("code", { title: hash }, `${hash.slice(0, 8)}…${hash.slice(-4)}`);
  return h("span", null, h("span", { class: "note" }, `#${number(seq)} `), code);
}

function whole(name, hash) {
  return h("div", null, h("dt", null, name), h("dd", null, h("code", null, hash)));
}

function withoutHash({ hash, ...event }) {
  return event;
}
