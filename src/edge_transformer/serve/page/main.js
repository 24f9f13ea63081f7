// The playground: its views, the model of each, and the address that holds their state.

import { SENTENCES } from "./examples.js";
import * as address from "./address.js";
import { Attention } from "./attention.js";
import { Refused, ask, get, onState, setToken } from "./client.js";
import { choice, h } from "./dom.js";
import { Family } from "./family.js";
import { Links } from "./links.js";
import { Sentence } from "./sentence.js";

const isGraph = (model) => model.task === "relations" && model.asks === "pairs";
const VIEWS = [
  ["family", "Family", isGraph],
  ["sentence", "Sentence", (model) => model.operations.includes("parse")],
  ["attention", "Attention", (model) => model.operations.includes("attention")],
  ["links", "Knowledge graph", (model) => model.task === "links"],
];

const host = document.getElementById("views");
const tabs = document.getElementById("tabs");
const picker = document.getElementById("picker");
const banner = document.getElementById("banner");
const made = new Map(); // view and model -> view
let [models, current] = [[], "family"];
const chosen = {}; // view -> name of its model

const first = (model) => Object.keys(SENTENCES).indexOf(model.text?.field) === 0; // before other parsers
const fits = (view) => models.filter(VIEWS.find(([name]) => name === view)[2]).sort((one, other) => first(other) - first(one));
const changed = () => address.write({ view: current, model: chosen[current], ...now()?.state() });
const now = () => made.get(`${current} ${chosen[current]}`);

function sourceOf(model, kind) {
  const single = (verb) => (value) => ask(`${kind} ${verb}`, model.name, verb, value);
  const many = async (verb, value, options) => {
    const [answer] = (await ask(`${kind} ${verb}`, model.name, verb, { inputs: [value], ...options })).answers;
    if (answer.error) throw new Refused(422, answer.error);
    return answer;
  };
  const path = `v1/models/${encodeURIComponent(model.name)}`;
  return {
    predict: single("predict"),
    parse: single("parse"),
    explain: model.operations.includes("explain") ? single("explain") : null,
    attention: (question, pair) => ask("attention", model.name, "attention", { ...question, pairs: [pair] }),
    missing: (relation) => many("missing", relation ? { relation } : {}, { top: 15 }),
    nodes: (like) => get(`${path}/nodes?limit=50&like=${encodeURIComponent(like)}`),
    around: (node) => get(`${path}/around?limit=24&node=${encodeURIComponent(node)}`),
  };
}

function viewOf(name, model) {
  const key = `${name} ${model.name}`;
  if (!made.has(key)) {
    const source = sourceOf(model, key);
    const make = {
      family: () => new Family(model, source, changed),
      sentence: () => new Sentence(model, source, changed),
      attention: () => new Attention(viewOf("family", model), source, changed),
      links: () => new Links(model, source, changed),
    };
    made.set(key, make[name]());
  }
  return made.get(key);
}

async function show(name, state = {}) {
  current = name;
  const fitting = fits(name);
  for (const tab of tabs.children) tab.setAttribute("aria-selected", String(tab.dataset.view === name));
  for (const tab of tabs.children) tab.tabIndex = tab.dataset.view === name ? 0 : -1;
  const wanted = state.model || (name === "attention" && chosen.family) || chosen[name];
  const model = fitting.find((each) => each.name === wanted) || fitting[0];
  chosen[name] = model.name;
  if (name === "attention" && wanted === model.name) chosen.family = wanted;
  picker.replaceChildren(fitting.length > 1
    ? h("label", {}, "Model ", choice(fitting.map((each) => each.name), model.name, { onchange: (event) => show(name, { model: event.target.value }) })) : h("span", {}, "Model ", h("strong", {}, model.name)));
  const view = viewOf(name, model);
  host.setAttribute("aria-labelledby", `tab-${name}`);
  host.replaceChildren(view.element);
  const family = name === "attention" ? view.family : name === "family" ? view : null;
  if (family && state.facts) Object.assign(family, { facts: state.facts, query: state.query || null, moved: {}, loose: [], layer: name === "family" ? state.layer ?? null : family.layer });
  if (name === "attention") {
    if (state.edge) view.edge = state.edge;
    if (state.head_shown !== undefined) view.head = state.head_shown;
    if (state.layer) view.layer = state.layer;
    if (!family.found) await family.update();
    current = name;
  }
  if (name === "sentence" && state.text !== undefined) return view.set(state.text);
  if (name === "links") return state.head || state.tail ? view.set(state) : view.start();
  return view.update();
}

function nameOfGraphs() {
  const families = models.filter(isGraph).map((model) => Boolean(model.generations));
  return families.every(Boolean) ? "Family" : families.some(Boolean) ? "Family, graph" : "Graph";
}

function makeTabs() {
  const able = VIEWS.filter(([name]) => fits(name).length);
  tabs.replaceChildren(...able.map(([name, text]) => h("button", { type: "button", role: "tab", id: `tab-${name}`, "data-view": name, "aria-controls": "views", onclick: () => show(name) }, name === "family" ? nameOfGraphs() : text)));
  tabs.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const place = able.findIndex(([name]) => name === current);
    const [name] = able[(place + step + able.length) % able.length];
    show(name);
    document.getElementById(`tab-${name}`).focus();
  });
  return able.map(([name]) => name);
}

function say(message, kind) {
  banner.hidden = !message;
  banner.className = `banner ${kind}`;
  banner.textContent = message;
}

function askToken() {
  const field = h("input", { type: "password", autocomplete: "off", "aria-label": "Token" });
  const dialog = h("dialog", { "aria-label": "Token" }, h("form", { method: "dialog", onsubmit: () => { setToken(field.value.trim()); dialog.remove(); start(); } },
    h("h2", {}, "This server asks for a token"), field, h("div", { class: "row end" }, h("button", {}, "Go on"))));
  document.body.append(dialog);
  dialog.showModal();
}

async function start() {
  try {
    ({ models } = await get("v1/models"));
  } catch (error) {
    if (error.status === 401) return askToken();
    say("The server does not answer; this page waits for it.", "bad");
    return null;
  }
  say("", "");
  const able = makeTabs();
  if (!able.length) {
    const said = models.map(({ name, task }) => `${name} (${task})`).join(", ");
    return host.replaceChildren(h("p", { class: "card" }, `No view fits ${said}; ask over HTTP: `, h("a", { href: "docs" }, "the API"), "."));
  }
  const state = address.read();
  return show(able.includes(state.view) ? state.view : able[0], state);
}

onState((online) => {
  if (!online) return say("The server is gone. What you do stays here, and is asked again when it is back.", "bad");
  say("The server is back.", "good");
  setTimeout(() => say("", ""), 2500);
  return models.length ? now()?.update() : start();
});
addEventListener("hashchange", () => {
  const state = address.read();
  if (models.length && fits(state.view).length) show(state.view, state);
});
start();
