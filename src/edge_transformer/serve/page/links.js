// The view of a knowledge graph: ranked links, known ones marked, the links it lacks, and the facts behind each.

import { bars, choice, h, later, percent, s, textWidth } from "./dom.js";

const SHOWN = 10;
const ANY = "";
const FONT = "600 13px system-ui, sans-serif";
const SMALL = "12px system-ui, sans-serif";

export class Links {
  // source: predict(question), explain(link), missing(relation), nodes(like), around(node); `fixed` holds explanations.
  constructor(model, source, changed, fixed = null) {
    Object.assign(this, { model, source, changed, fixed, head: "", relation: ANY, tail: "" });
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    this.list = h("ol", { class: "ranked" });
    this.why = h("div", { class: "why", "aria-live": "polite" });
    this.graph = h("div", { class: "canvas around" });
    this.missing = h("ol", { class: "ranked" });
    this.inputs = {};
    if (fixed) this.element = h("section", { class: "view links", "aria-label": "Knowledge graph" },
      h("div", { class: "side" }, h("div", { class: "card" }, h("h2", {}, "Links"), h("div", { class: "chips wide" }, fixed.map((each) => h("button", { type: "button", onclick: () => this.showWhy(each) }, linkText(each)))))),
      h("div", { class: "card stage" }, h("h2", {}, "Why"), this.why));
    else this.element = this.make();
  }

  make() {
    const node = (name, text) => {
      const names = h("datalist", { id: `${name}-names` });
      const fill = later(async () => {
        const { nodes } = await this.source.nodes(input.value).catch(() => ({ nodes: [] }));
        names.replaceChildren(...nodes.map((each) => h("option", { value: each })));
      }, 80);
      const input = h("input", { type: "text", id: `link-${name}`, list: `${name}-names`, autocomplete: "off", spellcheck: "false", placeholder: "?", oninput: fill, onfocus: fill,
        onchange: () => { this[name] = input.value.trim(); this.update(); } });
      this.inputs[name] = input;
      return h("div", { class: "field" }, h("label", { for: `link-${name}` }, text), input, names);
    };
    const relation = choice([ANY, ...this.model.relations], ANY, { id: "link-relation", onchange: () => { this.relation = relation.value; this.update(); } }, (name) => name || "?");
    this.inputs.relation = relation;
    const form = h("form", { class: "link-form", onsubmit: (event) => event.preventDefault() }, node("head", "Head"),
      h("div", { class: "field" }, h("label", { for: "link-relation" }, "Relation"), relation), node("tail", "Tail"));
    const lacking = this.model.operations.includes("missing") ? h("div", { class: "card" }, h("h2", {}, "Most probable links that the graph lacks"),
      h("button", { type: "button", class: "quiet", onclick: () => this.listMissing() }, "List them, of the chosen relation or of all"), this.missing) : null;
    return h("section", { class: "view links", "aria-label": "Knowledge graph" },
      h("div", { class: "side" },
        h("div", { class: "card" }, h("h2", {}, "Question"), form, h("p", { class: "hint" }, "Leave one of the three open to rank its answers; fill in all three to ask why."), this.problem, this.list), lacking),
      h("div", { class: "side" }, h("div", { class: "card" }, h("h2", {}, "Around the node"), this.graph), h("div", { class: "card" }, h("h2", {}, "Why"), this.why)));
  }

  state() {
    return { head: this.head, relation: this.relation, tail: this.tail };
  }

  set({ head = "", relation = "", tail = "" }) {
    Object.assign(this, { head, relation, tail });
    for (const name of ["head", "relation", "tail"]) if (this.inputs[name]) this.inputs[name].value = this[name];
    return this.update();
  }

  async start() {
    if (this.head || this.tail || this.fixed) return this.update();
    const { nodes } = await this.source.nodes("");
    // A question with an answer that is known already, so that the list shows both kinds.
    const { facts } = await this.source.around(nodes[0]);
    const [head, relation] = facts.find(([name]) => name === nodes[0]) || [nodes[0], this.model.relations[0]];
    return this.set({ head, relation });
  }

  complain(message) {
    this.problem.textContent = message;
    this.problem.hidden = !message;
  }

  async update() {
    if (this.fixed) return this.showWhy(this.fixed[0]);
    this.changed();
    const given = ["head", "relation", "tail"].filter((name) => this[name]);
    const question = Object.fromEntries(given.map((name) => [name, this[name]]));
    this.drawAround();
    if (given.length < 2) {
      this.list.replaceChildren();
      return this.complain("Fill in two of head, relation and tail.");
    }
    try {
      if (given.length === 3) {
        this.list.replaceChildren();
        this.complain("");
        return await this.explain(question);
      }
      const found = await this.source.predict(question);
      this.complain("");
      return this.rank(found);
    } catch (error) {
      return this.fail(error);
    }
  }

  fail(error) {
    if (error.name === "AbortError") return;
    this.list.replaceChildren();
    this.complain(error instanceof TypeError ? "The server does not answer." : error.message);
  }

  rank(found) {
    const asked = ["head", "relation", "tail"].find((name) => !(name in found));
    const { candidates, answer, id, ...given } = found;
    this.list.replaceChildren(...candidates.slice(0, SHOWN).map((each) => this.row({ ...given, [asked]: each[asked] }, each[asked], each.probability, each.known)));
    this.why.replaceChildren(h("p", { class: "muted" }, "Ask why of a link."));
  }

  row(link, name, probability, known) {
    return h("li", {}, h("span", { class: "bar-name" }, name, known ? h("span", { class: "tag" }, "known") : null), h("span", { class: "bar", "aria-hidden": "true", vars: { "--w": probability } }),
      h("span", { class: "bar-value" }, percent(probability)),
      this.model.operations.includes("explain") ? h("button", { type: "button", class: "quiet", "aria-label": `Why ${linkText(link)}`, onclick: () => this.explain(link) }, "why?") : null);
  }

  async listMissing() {
    try {
      const { links } = await this.source.missing(this.relation);
      this.missing.replaceChildren(...links.map(({ probability, ...link }) => this.row(link, linkText(link), probability, false)));
    } catch (error) {
      this.fail(error);
    }
  }

  async explain(link) {
    this.why.replaceChildren(h("p", { class: "muted" }, "Looking for the facts behind it …"));
    try {
      this.showWhy(await this.source.explain(link));
    } catch (error) {
      if (error.name !== "AbortError") this.why.replaceChildren(h("p", { class: "problem" }, error instanceof TypeError ? "The server does not answer." : error.message));
    }
  }

  showWhy(found) {
    const places = ({ ranks }) => (ranks.length > 1 ? `number ${ranks[0]} of the tails, number ${ranks[1]} of the heads` : `number ${ranks[0]}`);
    const stands = (each) => `${percent(each.probability)}, ${places(each)}`;
    const mean = found.ranks.length > 1 ? " The chance is the geometric mean of that of the tail among all tails and of the head among all heads." : "";
    this.why.replaceChildren(
      h("p", { class: "said" }, h("strong", {}, linkText(found)), h("span", { class: "chance" }, percent(found.probability)), found.known ? h("span", { class: "tag" }, "known") : null),
      h("p", { class: "muted" }, `${found.known ? `Without this fact itself ${stands(found)}` : capital(places(found))}, where known answers do not count.${mean}`),
      found.note ? h("p", { class: "note" }, found.note) : "",
      ...found.reasons.map((reason, number) => h("figure", { class: "reason" }, h("div", { class: "lane" }, lane(found, reason)),
        h("figcaption", {}, `${number ? "and " : ""}because ${reason.facts.map((fact) => linkText({ head: fact[0], relation: fact[1], tail: fact[2] })).join(" and ")}; without ${reason.facts.length > 1 ? "these" : "it"} ${stands(reason.without)}`))),
      found.reasons.length > 1 ? h("p", { class: "muted" }, `Without all of these facts ${stands(found.without_all)}.`) : "");
  }

  async drawAround() {
    const node = this.head || this.tail;
    if (!node) return this.graph.replaceChildren();
    try {
      const found = await this.source.around(node);
      return this.graph.replaceChildren(star(found, this.graph.clientWidth, this.tail, (name) => this.set({ head: name, relation: this.relation || this.model.relations[0] })),
        h("p", { class: "hint" }, `${found.facts.length} facts among ${found.nodes.length} nodes${found.left_out ? `; ${found.left_out} more neighbours are not drawn` : ""}. Click a node to ask about it.`));
    } catch {
      return this.graph.replaceChildren();
    }
  }
}

export const linkText = ({ head, relation, tail }) => `(${head}, ${relation}, ${tail})`;
const capital = (text) => text[0].toUpperCase() + text.slice(1);
const cut = (name) => (name.length > 20 ? `${name.slice(0, 19)}…` : name);

// The facts of a reason as a lane of nodes from head to tail.
function lane(found, { facts }) {
  const line = [found.head];
  const between = [];
  const left = [...facts];
  while (left.length) {
    const at = line[line.length - 1];
    const place = left.findIndex(([head, , tail]) => head === at || tail === at);
    const [fact] = left.splice(Math.max(0, place), 1);
    const same = between.findIndex((many) => many.some(([head, , tail]) => (head === fact[0] && tail === fact[2]) || (head === fact[2] && tail === fact[0])));
    if (same >= 0) {
      between[same].push(fact);
      continue;
    }
    if (place < 0) line.push(fact[0]);
    between.push([fact]);
    line.push(fact[0] === line[line.length - 1] ? fact[2] : fact[0]);
  }
  let x = 8;
  const parts = [];
  const places = line.map((name, number) => {
    const width = textWidth(cut(name), FONT) + 22;
    const at = { x, width };
    const labels = (between[number] || []).map(([, relation]) => relation);
    x += width + (number < line.length - 1 ? Math.max(60, ...labels.map((text) => textWidth(text, SMALL) + 34)) : 8);
    return at;
  });
  const rows = Math.max(1, ...between.map((many) => many.length));
  const y = 10 + 16 * rows;
  between.forEach((many, number) => {
    const [from, to] = [places[number].x + places[number].width + 3, places[number + 1].x - 5];
    many.forEach(([head, relation], row) => {
      const forth = head === line[number];
      parts.push(s("text", { class: "lane-label", x: (from + to) / 2, y: y - 6 - 16 * row }, `${forth ? "" : "← "}${relation}${forth ? " →" : ""}`));
    });
    parts.push(s("line", { class: "lane-line", x1: from, y1: y + 2, x2: to, y2: y + 2 }));
  });
  line.forEach((name, number) => {
    const { x: left, width } = places[number];
    const ends = number === 0 || number === line.length - 1;
    parts.push(s("g", { class: `lane-node${ends ? " end" : ""}` }, s("title", {}, name), s("rect", { x: left, y: y - 13, width, height: 30, rx: 15 }), s("text", { x: left + width / 2, y: y + 7 }, cut(name))));
  });
  return s("svg", { class: "lane-svg", viewBox: `0 0 ${x} ${y + 26}`, width: x, height: y + 26, role: "img", "aria-label": facts.map((fact) => fact.join(" ")).join("; ") }, parts);
}

// A node with its neighbours around it.
function star({ node, nodes, facts }, given, other, click) {
  const width = Math.max(280, given || 280);
  const height = nodes.length < 6 ? 220 : Math.min(440, Math.max(300, width * 0.8));
  const [across, up] = [width / 2 - 58, height / 2 - 28];
  const places = new Map([[node, { x: width / 2, y: height / 2 }]]);
  const around = nodes.filter((name) => name !== node);
  around.forEach((name, number) => {
    const angle = (2 * Math.PI * number) / around.length + Math.PI;
    const ring = around.length > 12 && number % 2 ? 0.66 : 1;
    places.set(name, { x: width / 2 + ring * across * Math.cos(angle), y: height / 2 + ring * up * Math.sin(angle) });
  });
  const few = facts.length <= 14;
  const lines = facts.filter(([head, , tail]) => head !== tail).map(([head, relation, tail]) => {
    const [a, b] = [places.get(head), places.get(tail)];
    const near = head === node || tail === node;
    return s("g", {}, s("title", {}, `(${head}, ${relation}, ${tail})`), s("line", { class: `star-line${near ? " near" : ""}`, x1: a.x, y1: a.y, x2: b.x, y2: b.y }),
      few && near ? s("text", { class: "star-label", x: a.x * 0.45 + b.x * 0.55, y: a.y * 0.45 + b.y * 0.55 - 3 }, relation) : null);
  });
  const names = [...places].map(([name, at]) => {
    const shown = name.length > 14 ? `${name.slice(0, 13)}…` : name;
    const half = textWidth(shown, SMALL) / 2 + 9;
    const press = () => click(name);
    return s("g", { class: `star-node${name === node || name === other ? " end" : ""}`, tabindex: 0, role: "button", "aria-label": `Ask about ${name}`, onclick: press, onkeydown: (event) => (event.key === "Enter" ? press() : null) },
      s("title", {}, name), s("rect", { x: at.x - half, y: at.y - 13, width: 2 * half, height: 26, rx: 13 }), s("text", { x: at.x, y: at.y + 4 }, shown));
  });
  return s("svg", { class: "star", viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": `The facts around ${node}` }, lines, names);
}

export const rankedBars = bars;
