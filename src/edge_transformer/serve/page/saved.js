// A saved file: the views of the playground on answers that are in the file, without a server.

import { Attention } from "./attention.js";
import { h } from "./dom.js";
import { Family } from "./family.js";
import { Links } from "./links.js";
import { Sentence } from "./sentence.js";

const { kind, model, items } = JSON.parse(document.getElementById("saved").textContent);
const host = document.getElementById("views");
const nothing = () => {};

function families() {
  let current = items[0];
  const find = (pair) => current.attention.find(({ edge }) => edge[0] === pair[0] && edge[1] === pair[1]);
  const source = {
    predict: async () => current.predict,
    explain: async () => current.explain,
    attention: async (_, pair) => ({ edges: [find(pair) || current.attention[0]] }),
  };
  const family = new Family(model, source, nothing, true);
  const attention = new Attention(family, source, nothing, []);
  const show = async (item) => {
    current = item;
    attention.edge = null;
    attention.pairs = item.attention.map(({ edge }) => edge);
    Object.assign(family, { facts: item.question.edges, query: item.question.query, layer: null, moved: {} });
    await family.update();
    await attention.update();
  };
  const text = ({ question, explain }) => family.speech.fact([question.query[0], explain.answer, question.query[1]]);
  const list = items.length > 1 ? h("div", { class: "card" }, h("div", { class: "chips" }, items.map((item) => h("button", { type: "button", onclick: () => show(item) }, text(item))))) : null;
  host.replaceChildren(h("div", { class: "view" }, list, family.element, h("h2", {}, "Attention"), attention.element));
  return show(items[0]);
}

function sentences() {
  const byText = new Map(items.map((parse) => [parse.tokens.join(" "), parse]));
  const view = new Sentence(model, { parse: async (text) => byText.get(text) }, nothing, [...byText.keys()], true);
  host.replaceChildren(view.element);
  return view.update();
}

function links() {
  const view = new Links(model, {}, nothing, items);
  host.replaceChildren(view.element);
  return view.update();
}

({ families, sentences, links })[kind]();
