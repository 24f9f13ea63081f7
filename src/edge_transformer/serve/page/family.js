// The view of a family, or of another labelled graph: people and told relations, the question, the answer, and its proof layer by layer.

import { bars, choice, h, percent } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { Layers } from "./layers.js";
import { People } from "./people.js";
import { owner, readFact, readQuestion, speechOf, stepsOf, walkOf } from "./words.js";

const SHOWN_ANSWERS = 4;
const PEOPLE = ["Ann", "Bob", "Eve", "Tom", "Lil", "Max", "Ida", "Leo", "Zoe", "Jim", "Mia", "Ned"];

export class Family {
  // source: predict(question), explain(question); `fixed` questions cannot be changed.
  constructor(model, source, changed, fixed = false) {
    Object.assign(this, { model, source, changed, fixed, moved: {}, loose: [], focus: null, why: null, found: null, layer: null });
    this.speech = speechOf(model);
    [this.facts, this.query] = this.speech.isFamily ? [EXAMPLES[2].edges, EXAMPLES[2].query] : [[], null];
    this.canvas = h("div", { class: "canvas" });
    this.layers = new Layers((value) => this.setLayer(value));
    this.caption = h("p", { class: "caption", "aria-live": "polite" });
    this.answer = h("div", { class: "answer", "aria-live": "polite" });
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    this.steps = h("ol", { class: "steps" });
    this.told = h("ul", { class: "facts" });
    this.asked = h("div", { class: "asked-row" });
    this.dialog = h("dialog", { class: "relate", "aria-label": "A relation" });
    this.people = new People(this.canvas, this.speech, {
      step: (claim) => this.setFocus(claim),
      ...(fixed ? {} : {
        edge: (fact) => this.relate(fact[0], fact[2], fact),
        person: (name) => this.relate(name, this.names().find((other) => other !== name) || ""),
        relate: (from, to) => this.relate(from, to),
        move: (name, x, y) => this.move(name, x, y),
        add: (x, y) => this.addPerson(x, y),
      }),
    });
    this.element = h("section", { class: "view family", "aria-label": this.speech.isFamily ? "Family" : "Graph" }, this.stage(), this.side(), this.dialog);
  }

  stage() {
    return h("div", { class: "card stage" }, this.canvas, this.layers.element, this.caption,
      this.fixed ? null : h("p", { class: "hint" }, `Drag a ${this.speech.node} onto another to relate them, or to an empty place to move it. Double-click an empty place to add one; click a label to change it.`));
  }

  side() {
    const input = h("input", { type: "text", id: "tell", autocomplete: "off", spellcheck: "false", placeholder: this.example() });
    const tell = h("form", { class: "tell", onsubmit: (event) => {
      event.preventDefault();
      if (this.tell(input.value)) input.value = "";
    } }, h("label", { for: "tell" }, `Tell a relation, or ask “${this.speech.isFamily ? "Who is Tom to Ann?" : "What is B to A?"}”`), h("div", { class: "row" }, input, h("button", {}, "Add")), this.problem);
    const examples = h("div", { class: "chips", role: "group", "aria-label": "Examples by number of relations" },
      EXAMPLES.map((each) => h("button", { type: "button", "aria-label": `Example of ${each.edges.length} relations`, onclick: () => this.set(each.edges, each.query) }, String(each.edges.length))));
    const tools = h("div", { class: "row tools" },
      h("button", { type: "button", class: "quiet", onclick: () => this.addPerson() }, `Add a ${this.speech.node}`),
      h("button", { type: "button", class: "quiet", onclick: () => { this.moved = {}; this.update(); } }, "Tidy"),
      h("button", { type: "button", class: "quiet", onclick: () => this.set([], null) }, "Clear"));
    return h("div", { class: "side" },
      h("div", { class: "card" }, h("h2", {}, "Question"), this.asked, this.answer),
      h("div", { class: "card" }, h("h2", {}, "Told"), this.told, this.fixed ? null : [tell, tools],
        this.fixed || !this.speech.isFamily ? null : h("div", { class: "row examples" }, h("span", {}, "Examples, steps:"), examples)),
      h("div", { class: "card" }, h("h2", {}, "Because"), this.steps));
  }

  example() {
    const { relations } = this.model;
    if (!this.speech.isFamily) return `A ${relations[0]} B`;
    return this.speech.fact(["Ann", relations.includes("mother") ? "mother" : relations[0], "Eve"]);
  }

  names() {
    return [...new Set([...this.facts.flatMap(([a, , b]) => [a, b]), ...this.loose])];
  }

  state() {
    return { facts: this.facts, query: this.query, layer: this.layer ?? undefined };
  }

  set(facts, query, layer = null) {
    this.facts = facts.map((fact) => [...fact]);
    this.query = query;
    this.layer = layer;
    this.moved = {};
    this.loose = [];
    this.update();
  }

  setLayer(value) {
    this.layer = value;
    this.draw();
    this.changed();
  }

  setFocus(claim) {
    if (this.focus === claim) return;
    this.focus = claim;
    for (const item of this.steps.children) item.classList.toggle("focus", item.claim === claim);
    const key = claim ? claim.edge.join("\n") : null;
    for (const face of this.canvas.querySelectorAll(".face")) face.classList.toggle("focus", claim !== null && face.dataset.key === `face ${claim.layer} ${key.replaceAll("\n", " ")}`);
    this.canvas.classList.toggle("focused", claim !== null);
    this.sayCaption();
  }

  // --- changes -------------------------------------------------------------------------------------------------------

  tell(text) {
    const question = readQuestion(text);
    if (question) {
      const lacking = question.find((name) => !this.names().includes(name));
      if (lacking) return this.complain(`${this.speech.isFamily ? "Nobody" : "Nothing"} is called ${lacking} here; tell a relation of ${lacking} first.`);
      this.query = question;
      this.complain("");
      this.update();
      return true;
    }
    const told = text.split(/[.;\n]|, (?=[^,]* is )/).map((part) => part.trim()).filter(Boolean).map((part) => [part, readFact(part, this.model.relations, this.speech.isFamily)]);
    const wrong = told.find(([, fact]) => !fact);
    if (!told.length || wrong) {
      const said = wrong ? `“${wrong[0]}” is not understood. ` : "";
      return this.complain(`${said}Write such as “${this.example()}”, with one of: ${this.model.relations.join(", ")}.`);
    }
    this.complain("");
    told.forEach(([, fact]) => this.put(fact));
    this.update();
    return true;
  }

  complain(message) {
    this.problem.textContent = message;
    this.problem.hidden = !message;
    return false;
  }

  put(fact) {
    const place = this.facts.findIndex((other) => other[0] === fact[0] && other[2] === fact[2]);
    if (place < 0) this.facts.push(fact);
    else this.facts[place] = fact;
    if (!this.query) this.query = [fact[0], fact[2]];
    const [start, end] = [this.query[0], fact[2]];
    // A chain that grows is asked about as a whole.
    if (place < 0 && this.query[1] === fact[0] && start !== end) this.query = [start, end];
  }

  remove(fact) {
    this.facts = this.facts.filter((other) => other !== fact);
    this.update();
  }

  addPerson(x, y) {
    const usual = this.speech.isFamily ? PEOPLE : [..."ABCDEFGHIJKLMNOPQRSTUVWXYZ"];
    const name = usual.find((each) => !this.names().includes(each)) || `${this.speech.isFamily ? "Person" : "Node"} ${this.names().length + 1}`;
    this.loose.push(name);
    if (x !== undefined) this.moved[name] = [x, y];
    this.update();
  }

  move(name, x, y) {
    this.moved[name] = [x, y];
    this.draw();
  }

  // The dialog for a relation between two people, a new one or one that is told.
  relate(from, to, fact = null) {
    const names = this.names();
    const close = () => this.dialog.close();
    const { isFamily } = this.speech;
    const start = choice(names, from, { "aria-label": isFamily ? "Whose relative" : "From" }, isFamily ? owner : undefined);
    const end = h("input", { type: "text", value: to, list: "people-names", "aria-label": isFamily ? "Who it is" : "To", autocomplete: "off" });
    const pick = (relation) => {
      const name = end.value.trim();
      if (!name || name === start.value) return end.focus();
      if (fact) this.facts = this.facts.filter((other) => other !== fact);
      this.put([start.value, relation, name]);
      this.loose = this.loose.filter((other) => other !== name && other !== start.value);
      close();
      return this.update();
    };
    const person = h("button", { type: "button", class: "quiet", onclick: () => {
      this.facts = this.facts.filter(([a, , b]) => a !== from && b !== from);
      this.loose = this.loose.filter((other) => other !== from);
      if (this.query?.includes(from)) this.query = null;
      close();
      this.update();
    } }, `Remove ${from}`);
    this.dialog.replaceChildren(
      h("h2", {}, fact ? "Change a relation" : "Tell a relation"),
      h("div", { class: "row" }, start, h("span", {}, isFamily ? "… is" : "…"), end, h("datalist", { id: "people-names" }, names.map((name) => h("option", { value: name })))),
      h("div", { class: "relations", role: "group", "aria-label": "Relation" }, this.model.relations.map((relation) =>
        h("button", { type: "button", class: fact?.[1] === relation ? "chosen" : "", onclick: () => pick(relation) }, relation))),
      h("div", { class: "row end" }, fact ? h("button", { type: "button", class: "quiet", onclick: () => { close(); this.remove(fact); } }, "Remove this relation") : person,
        h("button", { type: "button", class: "quiet", onclick: close }, "Cancel")));
    this.dialog.showModal();
    this.dialog.querySelector(".relations button")?.focus();
  }

  // --- answers -------------------------------------------------------------------------------------------------------

  question() {
    return { edges: this.facts, query: this.query };
  }

  // `aria-busy` until the latest question has its answer and its proof.
  async update() {
    const turn = (this.turn || 0) + 1;
    this.turn = turn;
    this.element.setAttribute("aria-busy", "true");
    await this.ask();
    if (turn === this.turn) this.element.setAttribute("aria-busy", "false");
  }

  async ask() {
    const names = this.names();
    if (this.query && !this.query.every((name) => names.includes(name))) this.query = null;
    if (!this.query && names.length > 1 && this.facts.length) {
      this.query = [this.facts[0][0], this.facts[this.facts.length - 1][2]];
      if (this.query[0] === this.query[1]) this.query = null;
    }
    this.drawTold();
    this.drawAsked();
    this.changed();
    if (!this.facts.length || !this.query) {
      [this.found, this.why] = [null, null];
      this.showAnswer();
      return this.draw();
    }
    this.draw();
    const explained = this.source.explain ? this.source.explain(this.question()) : Promise.resolve(null);
    explained.catch(() => {});
    try {
      this.found = await this.source.predict(this.question());
      this.showAnswer();
    } catch (error) {
      this.fail(error);
      return null;
    }
    try {
      this.why = await explained;
    } catch (error) {
      if (error.name === "AbortError") return null;
      this.why = null;
      this.steps.replaceChildren(h("li", { class: "muted" }, error.message));
      return this.draw(true);
    }
    this.showSteps();
    return this.draw(true);
  }

  fail(error) {
    if (error.name === "AbortError") return;
    [this.found, this.why] = [null, null];
    const said = error instanceof TypeError ? "The server does not answer. The question stays; it is asked again when the server is back." : error.message;
    this.answer.replaceChildren(h("p", { class: "problem" }, said));
    this.steps.replaceChildren();
    this.draw();
  }

  showAnswer() {
    if (!this.found) {
      this.answer.replaceChildren(h("p", { class: "muted" }, `Tell at least one relation between two ${this.speech.nodes}.`));
      this.steps.replaceChildren(h("li", { class: "muted" }, "No answer yet."));
      return;
    }
    const { answer, probabilities = {}, note } = this.found;
    const said = Array.isArray(answer) ? answer.join(", ") || "nothing" : typeof answer === "number" ? String(Number(answer.toPrecision(5))) : answer;
    const best = probabilities[answer];
    const entries = Object.entries(probabilities).slice(0, SHOWN_ANSWERS);
    this.answer.replaceChildren(
      h("p", { class: "said" }, h("strong", {}, said), best === undefined ? null : h("span", { class: "chance" }, percent(best))),
      bars(entries), note ? h("p", { class: "note" }, h("strong", {}, "Take care: "), this.honest(note)) : "");
  }

  honest(note) {
    return `${note}. The model was trained on chains of told relations between two people, and on nothing else.`.replace(/\.\./, ".");
  }

  showSteps() {
    const steps = stepsOf(this.why?.proof);
    this.steps.replaceChildren(...(steps.length ? steps.map((claim) => {
      const item = h("li", { class: `step layer-${((claim.layer - 1) % 8) + 1}`, tabindex: 0,
        onpointerenter: () => this.setFocus(claim), onpointerleave: () => this.setFocus(null), onfocus: () => this.setFocus(claim), onblur: () => this.setFocus(null),
        onclick: () => this.layers.set(claim.layer) },
      h("span", { class: "when", title: `composed in layer ${claim.layer}` }, String(claim.layer)),
      h("span", {}, h("strong", {}, this.speech.claim(claim)), `, because ${claim.because.map(this.speech.claim).join(" and ")}`, h("small", {}, ` ${percent(claim.probability)}`)));
      item.claim = claim;
      return item;
    }) : [h("li", { class: "muted" }, this.why?.proof?.told ? "The question itself is told." : "The layers cannot derive this from what is told, so nothing stands behind the answer.")]));
    if (this.why?.note && !this.found?.note) this.steps.append(h("li", { class: "note" }, this.why.note));
  }

  drawTold() {
    const { isFamily } = this.speech;
    this.told.replaceChildren(...this.facts.map((fact) => h("li", {},
      this.fixed ? this.speech.fact(fact) : [h("div", { class: "row" },
        h("span", {}, isFamily ? owner(fact[0]) : fact[0]),
        choice(this.model.relations, fact[1], { "aria-label": `What ${fact[2]} is to ${fact[0]}`, onchange: (event) => { fact[1] = event.target.value; this.update(); } }),
        h("span", {}, isFamily ? `is ${fact[2]}` : fact[2])),
        h("button", { type: "button", class: "cross", "aria-label": `Remove: ${this.speech.fact(fact)}`, onclick: () => this.remove(fact) }, "×")])),
    ...this.loose.map((name) => h("li", { class: "muted" }, `${name}: not related yet`)));
  }

  drawAsked() {
    const names = this.names();
    if (names.length < 2) return this.asked.replaceChildren(h("span", { class: "muted" }, this.speech.isFamily ? "Nobody to ask about yet." : "Nothing to ask about yet."));
    const [start, end] = this.query || names;
    const who = this.speech.isFamily ? "Who" : "What";
    if (this.fixed) return this.asked.replaceChildren(h("span", {}, `${who} is ${end} to ${start}?`));
    const pick = (place) => (event) => {
      const other = [...(this.query || names.slice(0, 2))];
      other[place] = event.target.value;
      this.query = other;
      this.update();
    };
    return this.asked.replaceChildren(h("span", {}, `${who} is`), choice(names, end, { "aria-label": who, onchange: pick(1) }), h("span", {}, "to"),
      choice(names, start, { "aria-label": `To ${who.toLowerCase()}${who === "Who" ? "m" : ""}`, onchange: pick(0) }), h("span", {}, "?"),
      h("button", { type: "button", class: "round", "aria-label": "Ask the other way round", title: "the other way round", onclick: () => { this.query = [end, start]; this.update(); } }, "⇄"));
  }

  draw(fresh = false) {
    const steps = stepsOf(this.why?.proof);
    const most = this.model.layers || 1;
    if (fresh) this.layers.show(most, this.layer ?? (steps.length ? Math.max(...steps.map((step) => step.layer)) : most), steps.map((step) => [step.layer, `busy layer-${((step.layer - 1) % 8) + 1}`]));
    this.layers.element.hidden = !this.why;
    this.people.draw({
      people: this.names(), facts: this.facts, query: this.query, walk: walkOf(this.why?.proof), proof: this.why?.proof, shown: this.layers.value,
      answer: this.found && !Array.isArray(this.found.answer) ? this.found.answer : null, moved: this.moved, focus: this.focus,
    });
    this.sayCaption();
  }

  sayCaption() {
    const steps = stepsOf(this.why?.proof);
    const now = steps.filter((step) => step.layer === this.layers.value);
    const read = this.why?.layers[this.layers.value - 1];
    const reads = read ? ` After it, the model reads the question as ${read.answer} (${percent(read.probability)}).` : "";
    const said = this.focus ? this.speech.caption(this.focus) : !this.why ? "" : this.layers.value === 0 ? "What is told. Move the slider to see what each layer composes."
      : now.length ? `Layer ${this.layers.value}: ${now.map(this.speech.step).join("; ")}.${reads}` : `Layer ${this.layers.value} composes no edge of this proof.${reads}`;
    this.caption.textContent = said;
  }
}
