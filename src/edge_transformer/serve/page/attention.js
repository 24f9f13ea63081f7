// The view of attention: of any edge and layer the triangles with their weights by head, as a matrix and on the graph.

import { choice, h, percent } from "./dom.js";
import { Layers } from "./layers.js";
import { People } from "./people.js";
import { walkOf } from "./words.js";

export class Attention {
  // source: attention(question, pair); family: the view whose question this is about.
  constructor(family, source, changed, pairs = null) {
    Object.assign(this, { family, source, changed, pairs, edge: null, head: 0, layer: 1, found: null, chosen: null });
    this.canvas = h("div", { class: "canvas" });
    this.people = new People(this.canvas, family.speech, {}, "The triangles of one edge, the darker the more attention they get");
    this.layers = new Layers((value) => { this.layer = Math.max(1, value); this.draw(); this.changed(); });
    this.pick = h("div", { class: "asked-row" });
    this.heads = h("div", { class: "chips", role: "group", "aria-label": "Head" });
    this.matrix = h("div", { class: "matrix", tabindex: 0, role: "region", "aria-label": "Weights by head and pivot" });
    this.readings = h("ol", { class: "readings" });
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    this.element = h("section", { class: "view family attention", "aria-label": "Attention" },
      h("div", { class: "card stage" }, this.canvas, this.layers.element, h("p", { class: "hint" }, "The edge (i, j) attends to all triangles (i, l, j): the darker, the more. A ring marks i or j itself as the pivot l.")),
      h("div", { class: "side" },
        h("div", { class: "card" }, h("h2", {}, "Edge"), this.pick, this.problem),
        h("div", { class: "card" }, h("h2", {}, "Weights"), this.heads, this.matrix),
        h("div", { class: "card" }, h("h2", {}, "What the model reads after each layer"), this.readings)));
  }

  state() {
    return { ...this.family.state(), layer: this.layer, edge: this.edge || undefined, head_shown: this.head || undefined };
  }

  async update() {
    const names = this.family.names();
    if (!this.edge || !this.edge.every((name) => names.includes(name))) this.edge = this.family.query ? [...this.family.query] : null;
    this.drawPick(names);
    this.changed();
    if (!this.edge || !this.family.facts.length || !this.family.query) {
      this.found = null;
      return this.complain(`Tell a ${this.family.speech.isFamily ? "family" : "graph"} first, in the first view.`);
    }
    try {
      const { edges } = await this.source.attention(this.family.question(), this.edge);
      [this.found] = edges;
    } catch (error) {
      if (error.name === "AbortError") return null;
      this.found = null;
      return this.complain(error instanceof TypeError ? "The server does not answer." : error.message);
    }
    this.complain("");
    const most = this.found.layers.length - 1;
    this.layers.show(most, Math.min(this.layer, most), []);
    this.layers.busy = Array.from({ length: most }, (_, number) => number + 1);
    return this.draw();
  }

  complain(message) {
    this.problem.textContent = message;
    this.problem.hidden = !message;
    for (const part of [this.heads, this.matrix, this.readings]) part.hidden = Boolean(message);
    if (message) this.people.svg.replaceChildren();
  }

  drawPick(names) {
    if (!this.edge) return this.pick.replaceChildren();
    const set = (edge) => { this.edge = edge; this.update(); };
    if (this.pairs) {
      return this.pick.replaceChildren(h("span", {}, "From, to:"), choice(this.pairs.map((pair) => pair.join(" → ")), this.edge.join(" → "), { "aria-label": "Edge", onchange: (event) => set(event.target.value.split(" → ")) }));
    }
    return this.pick.replaceChildren(h("span", {}, "From"), choice(names, this.edge[0], { "aria-label": "From", onchange: (event) => set([event.target.value, this.edge[1]]) }),
      h("span", {}, "to"), choice(names, this.edge[1], { "aria-label": "To", onchange: (event) => set([this.edge[0], event.target.value]) }),
      h("button", { type: "button", class: "round", "aria-label": "The other direction", onclick: () => set([this.edge[1], this.edge[0]]) }, "⇄"));
  }

  draw() {
    if (!this.found) return;
    const { pivots, layers } = this.found;
    const { weights, strengths } = layers[this.layer];
    const mean = pivots.map((_, pivot) => weights.reduce((sum, row) => sum + row[pivot], 0) / weights.length);
    const shown = this.head ? weights[this.head - 1] : mean;
    const setHead = (head) => { this.head = head; this.draw(); this.changed(); };
    this.heads.replaceChildren(...["mean", ...weights.map((_, number) => `head ${number + 1}`)].map((name, number) =>
      h("button", { type: "button", "aria-pressed": String(this.head === number), onclick: () => setHead(number) }, name)));
    const cell = (value, pivot, more = "") => h("td", { class: more, vars: { "--w": value }, onpointerenter: () => this.choose(pivots[pivot]), onpointerleave: () => this.choose(null) }, value.toFixed(2));
    const row = (name, values, head, more) => h("tr", { class: head === this.head ? "chosen" : "" }, h("th", { scope: "row" }, name), values.map((value, pivot) => cell(value, pivot, more)));
    this.matrix.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "through"), pivots.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, weights.map((values, number) => row(`head ${number + 1}`, values, number + 1)), row("mean", mean, 0), row("strength", strengths, null, "strength"))));
    this.readings.replaceChildren(...layers.map(({ layer, answer, probability }) => h("li", { class: layer === this.layer ? "chosen" : "" },
      h("button", { type: "button", disabled: layer === 0, onclick: () => this.layers.set(layer) }, layer ? `layer ${layer}` : "input"), h("strong", {}, answer), h("span", {}, percent(probability)))));
    this.shown = { edge: this.edge, pivots, weights: shown, chosen: this.chosen };
    this.drawPeople();
  }

  drawPeople() {
    const { family } = this;
    this.people.draw({ people: family.names(), facts: family.facts, query: family.query, walk: walkOf(family.why?.proof), shown: 0, moved: family.moved, attention: this.shown });
  }

  choose(name) {
    this.shown = { ...this.shown, chosen: name };
    this.drawPeople();
  }
}
