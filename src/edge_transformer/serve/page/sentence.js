// The view of a sentence: arcs as one types, the logical form beside them with what belongs together, unknown words marked.

import { drawArcs, pngOf, svgText } from "./arcs.js";
import { h, later } from "./dom.js";
import { SENTENCES } from "./examples.js";

const WAIT_MS = 60;

// Words of a logical form, each with the token that it speaks of, if any.
export function formParts(form, tokens) {
  const words = form.split(" ");
  const found = words.map((text) => ({ text, token: null }));
  let term = [];
  let inside = false; // of parentheses: names of tokens, not of predicates
  for (let place = 0; place < words.length; place += 1) {
    if (words[place] === "x" && words[place + 1] === "_" && /^\d+$/.test(words[place + 2] || "")) {
      const token = Number(words[place + 2]);
      for (const at of [place, place + 1, place + 2]) found[at].token = token;
      for (const at of term) found[at].token = token;
      term = [];
      place += 2;
    } else if (["AND", ";", "(", ")", ",", "*"].includes(words[place])) {
      inside = words[place] === "(" || (inside && words[place] === ",");
      if (words[place] !== "(") term = [];
    } else if (inside && tokens.includes(words[place])) {
      for (const at of term) found[at].token = tokens.indexOf(words[place]);
      term = [];
      found[place].token = tokens.indexOf(words[place]);
    } else {
      term.push(place);
    }
  }
  const joined = [];
  for (const part of found) {
    const last = joined[joined.length - 1];
    const token = part.token !== null && part.token < tokens.length ? part.token : null;
    if (token !== null && last?.token === token && !["AND", "("].includes(last.text)) last.text += ` ${part.text}`;
    else joined.push({ text: part.text, token });
  }
  return joined;
}

// Words of another text, such as a query: those that stand in the sentence speak of it.
export function textParts(text, tokens) {
  return text.split(/\s+/).map((word) => ({ text: word, token: tokens.indexOf(word) >= 0 ? tokens.indexOf(word) : null }));
}

export class Sentence {
  // source: parse(text); model.text: what is rebuilt from its graphs, if anything; `fixed` sentences are chosen from `texts`.
  constructor(model, source, changed, texts = SENTENCES[model.text?.field] ?? [], fixed = false) {
    Object.assign(this, { model, source, changed, text: texts[0] ?? "", parse: null });
    this.drawing = h("div", { class: "drawing", tabindex: 0, role: "region", "aria-label": "The graph of the sentence" });
    this.form = h("p", { class: "form" });
    this.tags = h("p", { class: "tags", hidden: true });
    this.remark = h("p", { class: "note", hidden: true });
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    this.said = h("span", { class: "muted", role: "status" });
    this.input = h("input", { type: "text", id: "sentence", autocomplete: "off", spellcheck: "false", value: this.text, oninput: () => this.type() });
    const ask = later(() => this.update(), WAIT_MS);
    this.type = () => {
      this.text = this.input.value;
      ask();
    };
    const known = fixed || texts.length > 0; // other models were trained on other words
    const examples = h("div", { class: "chips wide", role: "group", "aria-label": fixed ? "Sentences" : "Examples", hidden: !known }, texts.map((text) =>
      h("button", { type: "button", onclick: () => this.set(text) }, text)));
    const copies = h("div", { class: "row" }, ["SVG", "PNG", "JSON"].map((kind) => h("button", { type: "button", class: "quiet", onclick: () => this.copy(kind) }, `Copy ${kind}`)), this.said);
    this.element = h("section", { class: "view sentence", "aria-label": "Sentence" },
      fixed && texts.length < 2 ? null : h("div", { class: "card ask" }, fixed ? null : [h("label", { for: "sentence" }, "A sentence, words with spaces between them"), this.input], examples, this.problem),
      h("div", { class: `card${model.text ? "" : " wide"}` }, this.drawing, this.tags, this.remark, copies),
      model.text ? h("div", { class: "card" }, h("h2", {}, model.text.title), this.form) : null);
    this.chips = examples;
  }

  state() {
    return { text: this.text };
  }

  set(text) {
    this.text = text;
    this.input.value = text;
    return this.update();
  }

  async update() {
    this.changed();
    for (const chip of this.chips.children) chip.setAttribute("aria-pressed", String(chip.textContent === this.text));
    if (!this.text.trim()) {
      this.parse = null;
      this.drawing.replaceChildren(h("p", { class: "muted" }, "Type a sentence."));
      this.form.replaceChildren();
      return this.complain("");
    }
    try {
      this.parse = await this.source.parse(this.text);
    } catch (error) {
      if (error.name === "AbortError") return null;
      return this.complain(error instanceof TypeError ? "The server does not answer. The sentence is parsed when it is back." : error.message);
    }
    this.complain("");
    return this.draw();
  }

  complain(message) {
    this.problem.textContent = message;
    this.problem.hidden = !message;
  }

  draw() {
    const { tokens, sentence = {}, unknown = [] } = this.parse;
    this.svg = drawArcs(this.parse, (touched) => this.touch(touched));
    this.drawing.replaceChildren(this.svg);
    this.tags.hidden = !Object.keys(sentence).length;
    this.tags.replaceChildren(...Object.entries(sentence).map(([name, label]) => h("span", { class: "tag" }, `${name}: ${label || "none"}`)));
    this.remark.hidden = !unknown.length;
    this.remark.replaceChildren(h("strong", {}, "Never seen in training, so a guess: "), unknown.join(", "));
    if (this.model.text) this.drawForm(this.parse[this.model.text.field], tokens);
  }

  drawForm(text, tokens) {
    const { field, title } = this.model.text;
    const parts = field === "logical_form" ? formParts : textParts;
    this.form.replaceChildren(...(text ? parts(text, tokens).flatMap(({ text: word, token }) => [
      token === null ? h("span", { class: "sign" }, word)
        : h("span", { class: "part", "data-token": token, onpointerenter: () => this.touch([token]), onpointerleave: () => this.touch([]) }, word), " "])
      : [h("span", { class: "muted" }, `No ${title} has this graph.`)]));
  }

  touch(tokens) {
    for (const part of this.element.querySelectorAll("[data-token]")) part.classList.toggle("hit-now", tokens.includes(Number(part.dataset.token)));
    for (const arc of this.element.querySelectorAll(".arc")) {
      const ends = [Number(arc.dataset.parent), Number(arc.dataset.child)];
      arc.classList.toggle("hit-now", tokens.length === 1 ? ends.includes(tokens[0]) : tokens.length === 2 && ends.every((end) => tokens.includes(end)));
    }
  }

  async copy(kind) {
    if (!this.svg) return;
    const type = { SVG: "image/svg+xml", PNG: "image/png", JSON: "application/json" }[kind];
    const blob = kind === "PNG" ? await pngOf(this.svg) : new Blob([kind === "SVG" ? svgText(this.svg) : JSON.stringify(this.parse)], { type });
    try {
      if (kind === "PNG") await navigator.clipboard.write([new ClipboardItem({ [type]: blob })]);
      else await navigator.clipboard.writeText(await blob.text());
      this.said.textContent = `${kind} copied`;
    } catch {
      const link = h("a", { href: URL.createObjectURL(blob), download: `sentence.${kind.toLowerCase()}` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
      this.said.textContent = `${kind} saved as a file`;
    }
  }
}
