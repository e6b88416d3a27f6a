// The service over HTTP: requests, streams of JSON lines and of events, and errors.

import { currentKey, requireKey } from "./api-key.js";

const PING_EVERY = 1500; // milliseconds, while the service cannot be reached

/** An error of the service or the connection, with a text to show. */
export class Problem extends Error {
  constructor(status, title, detail, kind = "", least = null) {
    super(`${title}: ${detail}`);
    this.status = status; // 0: no response
    this.kind = kind; // the last part of the problem's type
    this.least = least; // the smallest amount that would be accepted, in minor units
    this.title = title;
    this.detail = detail;
  }
}

/** Dispatches "lost" when the service cannot be reached, and "back" when it can again. */
export const connection = new EventTarget();

/** GET a JSON response. */
export async function get(path, { signal } = {}) {
  return (await call("GET", path, undefined, { signal })).json();
}

/**
 * GET a page of a list.
 * @returns {Promise<{items: object[], total: number, next: boolean}>} the objects, the number on
 *   all pages, and whether there is a next page
 */
export async function getPage(path, { signal } = {}) {
  const response = await call("GET", path, undefined, { signal });
  const total = Number(response.headers.get("Entice-Total"));
  return { items: await response.json(), total, next: response.headers.has("Link") };
}

/** POST a request that changes nothing. */
export async function post(path, body, { signal } = {}) {
  return (await call("POST", path, body, { signal })).json();
}

/** Send a request that changes something, with an Idempotency-Key so that it is applied once. */
export async function send(method, path, body, { signal } = {}) {
  const headers = { "Idempotency-Key": randomKey() };
  const response = await call(method, path, body, { signal, headers });
  return response.status === 204 ? null : response.json();
}

/** Yield the objects of a response with one JSON object per line, as they arrive. */
export async function* jsonLines(method, path, body, { signal } = {}) {
  const response = await call(method, path, body, { signal });
  for await (const line of textLines(response, signal)) if (line) yield JSON.parse(line);
}

/**
 * Yield a campaign's events after the number `after` as they happen. Reconnects when the connection
 * is lost, and continues after the last event received.
 */
export async function* followEvents(campaign, after, { signal } = {}) {
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
      if (error.status === 0) await reconnected(signal);
    }
    await sleep(500, signal);
  }
}

let info = null;
let infoKey = null;

/** The user's role and permissions, and the service's limits. Requested once per key. */
export function studioInfo() {
  if (info === null || infoKey !== currentKey()) {
    info = get("/v1/studio").then((response) => {
      infoKey = currentKey(); // may have been entered for this request
      return response;
    });
    infoKey = currentKey();
    info.catch(() => {
      info = null;
    });
  }
  return info;
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
      throw signal?.aborted ? error : connectionLost();
    }
    if (response.status === 401) await requireKey(key);
    else if (response.ok) return response;
    else {
      const problem = await readProblem(response);
      if (problem.kind !== "not-ready" || signal?.aborted) throw problem;
      // The service has just started and is compiling the campaign's policy.
      await sleep(1000 * Number(response.headers.get("Retry-After") ?? 1), signal);
    }
  }
}

async function readProblem(response) {
  let problem = {};
  try {
    problem = await response.json();
  } catch {
    // not JSON, for example a proxy's error page
  }
  const title = problem.title ?? "The request failed";
  const detail = problem.detail ?? `The service returned status ${response.status}.`;
  const kind = problem.type?.split(":").pop();
  return new Problem(response.status, title, detail, kind, problem.least);
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
    throw signal?.aborted ? error : connectionLost();
  } finally {
    reader.cancel().catch(() => {}); // closing the connection cancels the job
  }
  if (rest) yield rest;
}

let reconnecting = null;

function connectionLost() {
  if (reconnecting === null) {
    reconnecting = (async () => {
      connection.dispatchEvent(new Event("lost"));
      for (;;) {
        await sleep(PING_EVERY);
        const response = await fetch("/healthz", { cache: "no-store" }).catch(() => null);
        if (response?.ok) break;
      }
      reconnecting = null;
      connection.dispatchEvent(new Event("back"));
    })();
  }
  const detail =
    "It may be restarting, or the network is down. This page reconnects automatically.";
  return new Problem(0, "The service cannot be reached", detail);
}

/** Wait until the service can be reached again, or the signal is aborted. */
function reconnected(signal) {
  const aborted = new Promise((resolve) => {
    signal?.addEventListener("abort", resolve, { once: true });
  });
  return Promise.race([reconnecting ?? Promise.resolve(), aborted]);
}

function sleep(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

function randomKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
