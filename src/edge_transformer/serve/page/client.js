// Questions to the server: one at a time a kind, the latest counts; says when the server is gone, and finds it again.

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const running = new Map();
const watchers = [];
let online = true;
let token = sessionStorage.getItem("token") || "";

export const onState = (watch) => watchers.push(watch);

function tell(state) {
  if (state === online) return;
  online = state;
  for (const watch of watchers) watch(state);
  if (!state) setTimeout(knock, 1000);
}

async function knock() {
  try {
    const found = await fetch("ready", { cache: "no-store" });
    if (found.ok) return tell(true);
  } catch {
    // still gone
  }
  setTimeout(knock, 1000);
}

async function request(path, options) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: { ...options.headers, ...(token ? { authorization: `Bearer ${token}` } : {}) } });
  } catch (error) {
    if (error.name !== "AbortError") tell(false);
    throw error;
  }
  const value = await response.json().catch(() => ({ error: `the server answered with status ${response.status}` }));
  if (response.ok) return value;
  throw new Refused(response.status, value.error);
}

export const get = (path) => request(path, {});

export function setToken(given) {
  token = given;
  sessionStorage.setItem("token", given);
}

// `kind` names what a newer question replaces: the older one is given up, and the server forgets it.
export async function ask(kind, model, verb, body) {
  running.get(kind)?.abort();
  const control = new AbortController();
  running.set(kind, control);
  return request(`v1/models/${encodeURIComponent(model)}/${verb}`, {
    method: "POST", signal: control.signal, body: JSON.stringify(body), headers: { "content-type": "application/json" },
  });
}

export const wasReplaced = (error) => error.name === "AbortError";
export const isOffline = (error) => error instanceof TypeError;
