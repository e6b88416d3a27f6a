// The service over HTTP: answers, streams of lines, streams of events, and what goes wrong.

import { askForKey, currentKey } from "./key.js";

const PING_EVERY = 1500; // milliseconds, while the service can't be reached

/** What the service, or the way to it, refused: in words that can be shown. */
export class Problem extends Error {
  constructor(status, title, detail, kind = "") {
    super(`${title}: ${detail}`);
    this.status = status; // 0: no answer at all
    this.kind = kind; // the last word of the problem's type
    this.title = title;
    this.detail = detail;
  }
}

/** Says "lost" when the service can't be reached, and "back" when it can again. */
export const connection = new EventTarget();

/** GET an answer as JSON. */
export async function get(path, { signal } = {}) {
  return (await call("GET", path, undefined, { signal })).json();
}

/** POST a question: an answer that changes nothing. */
export async function ask(path, body, { signal } = {}) {
  return (await call("POST", path, body, { signal })).json();
}

/** Write something. Carries an Idempotency-Key, so that it is carried out once. */
export async function send(method, path, body, { signal } = {}) {
  const headers = { "Idempotency-Key": randomName() };
  const response = await call(method, path, body, { signal, headers });
  return response.status === 204 ? null : response.json();
}

/** Ask for an answer that comes in pieces: yields one object for each line of JSON. */
export async function* lines(method, path, body, { signal } = {}) {
  const response = await call(method, path, body, { signal });
  for await (const line of textLines(response, signal)) if (line) yield JSON.parse(line);
}

/**
 * Follow a campaign's events: yields each after the number `after`, for ever. Where the connection
 * breaks, it begins anew behind the last event that came.
 */
export async function* follow(campaign, after, { signal } = {}) {
  let last = after;
  while (!signal?.aborted) {
    try {
      const path = `/v1/campaigns/${encodeURIComponent(campaign)}/stream?after=${last}`;
      for await (const line of textLines(await call("GET", path, undefined, { signal }), signal)) {
        if (!line.startsWith("data: ")) continue;
        const event = JSON.parse(line.slice(6));
        last = event.seq;
        yield event;
      }
    } catch (error) {
      if (signal?.aborted) return;
      if (
        !(error instanceof Problem) ||
        (error.status > 0 && error.status < 500 && error.status !== 429)
      )
        throw error;
      if (error.status === 0) await back(signal);
    }
    await pause(500, signal);
  }
}

let about = null;
let aboutKey = null;

/** What the service tells of itself and of this visitor: role, rights, limits. Asked once a key. */
export function studio() {
  if (about === null || aboutKey !== currentKey()) {
    about = get("/v1/studio").then((told) => {
      aboutKey = currentKey(); // it may have been asked for on the way
      return told;
    });
    aboutKey = currentKey();
    about.catch(() => {
      about = null;
    });
  }
  return about;
}

async function call(method, path, body, { signal, headers = {} } = {}) {
  for (;;) {
    const key = currentKey();
    const options = { method, signal, headers: { ...headers }, cache: "no-store" };
    if (key !== null) options.headers.Authorization = `Bearer ${key}`;
    if (body !== undefined) {
      options.headers["Content-Type"] = "application/json";
      options.body = JSON.stringify(body);
    }
    let response;
    try {
      response = await fetch(path, options);
    } catch (error) {
      throw signal?.aborted ? error : noAnswer();
    }
    if (response.status === 401) await askForKey(key);
    else if (response.ok) return response;
    else {
      const problem = await problemOf(response);
      if (problem.kind !== "not-ready" || signal?.aborted) throw problem;
      // The service has just started and still compiles the campaign's policy.
      await pause(1000 * Number(response.headers.get("Retry-After") ?? 1), signal);
    }
  }
}

async function problemOf(response) {
  let told = {};
  try {
    told = await response.json();
  } catch {
    // a proxy's page, perhaps: the status has to do
  }
  const title = told.title ?? "The service refused";
  const detail = told.detail ?? `It answered with ${response.status}.`;
  return new Problem(response.status, title, detail, told.type?.split(":").pop());
}

async function* textLines(response, signal) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const parts = (rest + value).split("\n");
      rest = parts.pop();
      yield* parts;
    }
  } catch (error) {
    throw signal?.aborted ? error : noAnswer();
  } finally {
    reader.cancel().catch(() => {}); // whoever stops listening ends the work behind it
  }
  if (rest) yield rest;
}

let waiting = null;

function noAnswer() {
  if (waiting === null) {
    waiting = (async () => {
      connection.dispatchEvent(new Event("lost"));
      for (;;) {
        await pause(PING_EVERY);
        const answer = await fetch("/healthz", { cache: "no-store" }).catch(() => null);
        if (answer?.ok) break;
      }
      waiting = null;
      connection.dispatchEvent(new Event("back"));
    })();
  }
  const detail =
    "It may be restarting, or the network is down. This page goes on by itself when it is back.";
  return new Problem(0, "The service can't be reached", detail);
}

/** Wait until the service can be reached again, or nobody cares any more. */
function back(signal) {
  const left = new Promise((resolve) => {
    signal?.addEventListener("abort", resolve, { once: true });
  });
  return Promise.race([waiting ?? Promise.resolve(), left]);
}

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

function randomName() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
