// The slider over the layers of a model, with a button that plays it.

import { h } from "./dom.js";

const STEP_MS = 1100;

export class Layers {
  constructor(change, label = "Layer") {
    this.change = change;
    this.range = h("input", { type: "range", min: 0, max: 1, step: 1, "aria-label": label, oninput: () => this.stop() || this.set(Number(this.range.value)) });
    this.marks = h("div", { class: "marks", "aria-hidden": "true" });
    this.play = h("button", { type: "button", class: "round", "aria-label": "Play the layers", onclick: () => (this.timer ? this.stop() : this.run()) }, "▶");
    this.out = h("output", {}, "");
    this.element = h("div", { class: "layers" }, this.play, h("div", { class: "track" }, this.range, this.marks), this.out);
    this.value = 0;
  }

  // `busy` are the layers in which something happens: [layer, class] pairs.
  show(most, value, busy) {
    this.range.max = most;
    this.busy = [...new Set(busy.map(([layer]) => layer))].sort((a, b) => a - b);
    this.marks.replaceChildren(...Array.from({ length: most + 1 }, (_, layer) =>
      h("span", { class: busy.find(([other]) => other === layer)?.[1] || "" }, String(layer))));
    this.set(Math.min(value, most), false);
  }

  set(value, tell = true) {
    this.value = value;
    this.range.value = value;
    this.out.textContent = value ? `layer ${value}` : "told";
    this.range.setAttribute("aria-valuetext", this.out.textContent);
    if (tell) this.change(value);
  }

  run() {
    const stops = [0, ...this.busy.filter((layer) => layer > 0)];
    const next = () => {
      if (!stops.length) return this.stop();
      this.set(stops.shift());
      this.timer = setTimeout(next, STEP_MS);
      return null;
    };
    this.play.textContent = "❚❚";
    this.play.setAttribute("aria-label", "Pause");
    next();
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.play.textContent = "▶";
    this.play.setAttribute("aria-label", "Play the layers");
  }
}
