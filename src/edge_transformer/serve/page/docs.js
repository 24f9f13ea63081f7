// The description of the API, read from openapi.json, with a form to try each operation.

import { get } from "./client.js";
import { choice, h } from "./dom.js";

const host = document.getElementById("operations");

// A body that the model can answer; `usual` is that of the description, for families and sentences.
function exampleOf(model, verb, usual) {
  const { task, relations = [], node_labels: labels, node_features: ofNodes, edge_features: ofEdges, asks, first } = model;
  if (task === "links") return verb === "missing" ? { inputs: [{ relation: relations[0] }], top: 10 } : { head: first, relation: relations[0] };
  if (verb === "predict" && model.operations.includes("parse")) return "A cat ran .";
  if (verb === "predict" && model.operations.includes("translate")) return "jump twice";
  if (!asks || model.generations) return usual;
  const numbers = ofEdges ? [Array(ofEdges).fill(0)] : [];
  const edges = [["a", relations[0], "b", ...numbers], ["b", relations[relations.length - 1], "c", ...numbers]];
  const node = { ...(labels ? { labels: [labels[0]] } : {}), ...(ofNodes ? { features: Array(ofNodes).fill(0) } : {}) };
  const nodes = labels || ofNodes ? { nodes: { a: node, b: node, c: node } } : {};
  return { ...nodes, edges, ...(asks === "pairs" ? { query: ["a", "c"] } : {}), ...(verb === "attention" ? { pairs: [["a", "c"]] } : {}) };
}

function tryOut(path, names, usual) {
  const out = h("pre", { tabindex: 0, hidden: true, "aria-live": "polite" });
  const verb = path.split("/").pop();
  const able = names.filter((model) => model.operations.includes(verb));
  if (!able.length) return h("p", { class: "muted" }, "No served model can do this.");
  const body = h("textarea", { spellcheck: "false", "aria-label": "Body" });
  const fill = (name) => { body.value = JSON.stringify(exampleOf(able.find((each) => each.name === name), verb, usual), null, 1); };
  const model = choice(able.map(({ name }) => name), able[0].name, { "aria-label": "Model", onchange: () => fill(model.value) });
  fill(able[0].name);
  const send = async () => {
    const token = sessionStorage.getItem("token");
    const found = await fetch(path.slice(1).replace("{name}", encodeURIComponent(model.value)), {
      method: "POST", body: body.value, headers: { "content-type": "application/json", ...(token ? { authorization: `Bearer ${token}` } : {}) },
    }).then(async (response) => `${response.status}\n${JSON.stringify(await response.json(), null, 1)}`, () => "The server does not answer.");
    out.hidden = false;
    out.textContent = found;
  };
  return [body, h("div", { class: "row" }, model, h("button", { type: "button", onclick: send }, "Send")), out];
}

async function start() {
  try {
    const description = await get("openapi.json");
    const { models } = await get("v1/models");
    for (const model of models.filter(({ task }) => task === "links")) {
      [model.first] = (await get(`v1/models/${encodeURIComponent(model.name)}/nodes?limit=1`)).nodes;
    }
    host.replaceChildren(h("p", {}, description.info.description));
    for (const [path, methods] of Object.entries(description.paths)) {
      for (const [method, said] of Object.entries(methods)) {
        const example = said.requestBody?.content["application/json"].example;
        const fields = (said.parameters || []).filter((each) => each.in === "query").map((each) => h("li", {}, h("code", {}, each.name), each.required ? " (required)" : ""));
        host.append(h("section", { class: "card operation" }, h("p", {}, h("span", { class: "method" }, method.toUpperCase()), h("code", {}, path)),
          h("p", {}, said.summary.replaceAll("`", "")), fields.length ? h("ul", {}, fields) : null,
          example ? [h("details", {}, h("summary", {}, "Statuses"), h("ul", {}, Object.entries(said.responses).map(([status, each]) => h("li", {}, h("code", {}, status), ` ${each.description}`)))),
            h("details", {}, h("summary", {}, "Try it"), tryOut(path, models, example))] : null));
      }
    }
  } catch (error) {
    host.replaceChildren(h("p", { class: "problem" }, error.status === 401 ? "This server asks for a token; the playground takes one." : "The server does not answer."));
  }
}
start();
