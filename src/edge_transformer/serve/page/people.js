// A labelled graph on a polygon: told edges along its sides, composed ones across it, so that a proof is a triangulation.

import { s, textWidth } from "./dom.js";
import { endsOf, stepsOf } from "./words.js";

const NAME_FONT = "600 14px system-ui, sans-serif";
const LABEL_FONT = "12.5px system-ui, sans-serif";

// People in an order in which neighbours stand side by side: along the walk, and others beside whom they are related to.
export function order(people, facts, walk, query) {
  const near = new Map(people.map((name) => [name, []]));
  for (const [start, , end] of facts) {
    near.get(start)?.push(end);
    near.get(end)?.push(start);
  }
  const line = walk.length ? walk.filter((name) => near.has(name)) : shortest(near, query);
  const placed = new Set(line);
  const waiting = [...line];
  for (const first of [...waiting, ...people]) {
    if (!placed.has(first)) {
      placed.add(first);
      line.push(first);
    }
    for (let queue = [first]; queue.length; ) {
      const name = queue.shift();
      for (const other of near.get(name)) {
        if (placed.has(other)) continue;
        placed.add(other);
        line.splice(line.indexOf(name) + (walk.length && name === line[0] ? 0 : 1), 0, other);
        queue.push(other);
      }
    }
  }
  return line;
}

function shortest(near, query) {
  if (!query || !near.has(query[0]) || !near.has(query[1])) return [];
  const from = new Map([[query[0], null]]);
  for (let queue = [query[0]]; queue.length; ) {
    const name = queue.shift();
    for (const other of near.get(name)) {
      if (from.has(other)) continue;
      from.set(other, name);
      queue.push(other);
    }
  }
  if (!from.has(query[1])) return [query[0]];
  const line = [];
  for (let name = query[1]; name !== null; name = from.get(name)) line.unshift(name);
  return line;
}

// The places of all people: a regular polygon in an ellipse, with the question as the side at the bottom.
export function places(line, width, height, moved = {}, rotate = 0) {
  const found = new Map();
  const widest = Math.max(0, ...line.map((name) => textWidth(short(name), NAME_FONT))) / 2 + 16;
  const across = Math.max(40, width / 2 - Math.min(widest + 6, width * 0.3));
  const up = height / 2 - 42;
  const corners = width < 520 && line.length > 5 ? apart(line.length, rotate, across, up) : polygon(line.length, rotate);
  // Stretched to the whole height: a polygon with a flat side does not fill its circle.
  const [top, bottom] = [Math.min(...corners.map(({ y }) => y)), Math.max(...corners.map(({ y }) => y))];
  line.forEach((name, number) => {
    if (moved[name]) {
      found.set(name, { x: moved[name][0] * width, y: moved[name][1] * height });
    } else if (line.length === 1) {
      found.set(name, { x: width / 2, y: height / 2 });
    } else {
      const { x, y } = corners[number];
      const stretched = bottom - top > 0.5 ? (2 * (y - top)) / (bottom - top) - 1 : y;
      found.set(name, { x: width / 2 + across * x, y: height / 2 + up * stretched });
    }
  });
  return found;
}

function polygon(count, rotate) {
  const gap = (2 * Math.PI) / count;
  return Array.from({ length: count }, (_, number) => {
    const angle = Math.PI * 1.5 - gap / 2 - gap * (number - rotate);
    return { x: Math.cos(angle), y: -Math.sin(angle) };
  });
}

// Many people on a narrow screen stand on a rounded box, equally far apart along it, from the bottom clockwise.
function apart(count, rotate, across, up) {
  const bent = (value) => Math.sign(value) * Math.abs(value) ** 0.75;
  const curve = Array.from({ length: 721 }, (_, step) => {
    const angle = Math.PI * (1.5 - step / 360);
    return { x: bent(Math.cos(angle)), y: -bent(Math.sin(angle)) };
  });
  const along = [0];
  for (let step = 1; step < curve.length; step += 1) {
    along.push(along[step - 1] + Math.hypot(across * (curve[step].x - curve[step - 1].x), up * (curve[step].y - curve[step - 1].y)));
  }
  const whole = along[along.length - 1];
  return Array.from({ length: count }, (_, number) => {
    const part = (number - rotate + 0.5) / count;
    const wanted = (part - Math.floor(part)) * whole;
    return curve[along.findIndex((length) => length >= wanted)];
  });
}

export const short = (name) => (name.length > 16 ? `${name.slice(0, 15)}…` : name);

function boxOf(name) {
  return { w: Math.max(44, textWidth(short(name), NAME_FONT) + 24), h: 32 };
}

// Where a line from the middle of a box towards a point leaves the box.
function edgeOf(at, box, towards, more = 3) {
  const dx = towards.x - at.x;
  const dy = towards.y - at.y;
  if (!dx && !dy) return at;
  const scale = Math.min(1, 1 / Math.max(Math.abs(dx) / (box.w / 2 + more), Math.abs(dy) / (box.h / 2 + more)));
  return { x: at.x + dx * scale, y: at.y + dy * scale };
}

const colourOf = (layer) => `layer-${((layer - 1) % 8) + 1}`;

export class People {
  // handlers: step(claim or null), edge(fact), person(name), relate(from, to), move(name, x, y), add(x, y)
  constructor(host, speech, handlers = {}, label = "") {
    Object.assign(this, { host, speech, handlers });
    const usual = `The ${speech.isFamily ? "family" : "graph"}, and the triangles behind the answer`;
    this.svg = s("svg", { class: "people", role: "group", "aria-label": label || usual });
    host.replaceChildren(this.svg);
    this.state = null;
    new ResizeObserver(() => this.state && this.draw(this.state)).observe(host);
    if (handlers.add) {
      this.svg.addEventListener("dblclick", (event) => {
        if (event.target.closest(".person")) return;
        const box = this.svg.getBoundingClientRect();
        handlers.add((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
      });
    }
  }

  // state: people, facts, query, walk, proof, shown (a layer), answer, moved, focus (a claim), attention
  draw(state) {
    if (this.dragging) return;
    this.state = state;
    const width = Math.max(260, Math.round(this.host.clientWidth));
    const line = order(state.people, state.facts, state.walk || [], state.query);
    this.narrow = width < 520;
    const height = !line.length ? 200 : Math.round(this.narrow ? Math.max(Math.min(width * 1.12, 460), Math.min(58 * line.length, 900)) : Math.min(Math.max(width * 0.62, 340), 560));
    this.size = [width, height];
    // Turned so that the question is at the bottom, also where others stand between its ends.
    const span = state.query ? line.indexOf(state.query[1]) + line.indexOf(state.query[0]) - (line.length - 1) : 0;
    this.places = places(line, width, height, state.moved, span / 2);
    this.boxes = new Map(line.map((name) => [name, boxOf(name)]));
    const focused = this.svg.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("height", height);
    const steps = stepsOf(state.proof);
    const composed = new Set(steps.map((step) => endsOf(step).join("\n")));
    this.svg.replaceChildren(
      s("defs", {}, ["told", "asked", "faint"].map((kind) => arrowHead(kind)), [1, 2, 3, 4, 5, 6, 7, 8].map((layer) => arrowHead(`layer-${layer}`))),
      s("g", { class: "faces" }, state.attention ? this.pivots(state) : steps.map((step) => this.face(step, state))),
      s("g", { class: "told" }, state.facts.map((fact) => this.told(fact, state))),
      s("g", { class: "composed" }, state.attention ? [] : steps.filter((step) => step !== state.proof || !this.asked(state)).map((step) => this.composed(step, state))),
      this.asked(state) && !state.attention ? this.question(state, composed) : null || "",
      s("g", {}, line.map((name) => this.person(name, state))),
      line.length || !this.handlers.add ? "" : s("text", { class: "empty", x: width / 2, y: height / 2 }, `Double-click to add a ${this.speech.node}, or tell a relation`),
    );
    if (focused) this.svg.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  asked({ query }) {
    return query && this.places.has(query[0]) && this.places.has(query[1]) && query[0] !== query[1];
  }

  // A straight or bent line between two people, its middle, and which side is outside.
  line(start, end, bend = 0) {
    const [a, b] = [this.places.get(start), this.places.get(end)];
    const middle = { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
    const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
    const normal = { x: (b.y - a.y) / length, y: -(b.x - a.x) / length };
    const by = bend * Math.min(60, length / 3);
    const turn = { x: middle.x + normal.x * by * 2, y: middle.y + normal.y * by * 2 };
    const [first, last] = [edgeOf(a, this.boxes.get(start), turn), edgeOf(b, this.boxes.get(end), turn, 5)];
    const path = start === end
      ? `M${a.x - 12},${a.y - 16}C${a.x - 44},${a.y - 66} ${a.x + 44},${a.y - 66} ${a.x + 12},${a.y - 20}`
      : `M${first.x},${first.y}Q${turn.x},${turn.y} ${last.x},${last.y}`;
    // The middle of what is seen of it: boxes of names hide the ends.
    const at = start === end ? { x: a.x, y: a.y - 54 } : { x: (first.x + last.x) / 2 + normal.x * by, y: (first.y + last.y) / 2 + normal.y * by };
    return { path, at, normal };
  }

  told(fact, state) {
    const [start, relation, end] = fact;
    if (!this.places.has(start) || !this.places.has(end)) return null;
    const both = state.facts.some((other) => other[0] === end && other[2] === start);
    const { path, at } = this.line(start, end, both ? 0.35 : 0);
    const [width, height] = this.size;
    // Labels stand outside of the polygon, where no triangle is.
    const out = { x: at.x - width / 2, y: at.y - height / 2 };
    const length = Math.hypot(out.x, out.y) || 1;
    const half = textWidth(relation, LABEL_FONT) / 2;
    const by = 9 + Math.abs(out.x / length) * half * 0.9;
    const x = Math.min(Math.max(at.x + (out.x / length) * by, half + 4), width - half - 4);
    const y = Math.min(Math.max(at.y + (out.y / length) * (by * 0.7 + 4), 14), height - 8);
    const { edge } = this.handlers;
    return s("g", { class: `edge${state.attention ? " faint" : ""}${edge ? " can" : ""}`, onclick: edge && (() => edge(fact)) },
      s("title", {}, this.speech.fact(fact)),
      s("path", { class: "hit", d: path }), s("path", { class: "line", d: path, "marker-end": `url(#head-${state.attention ? "faint" : "told"})` }),
      label(x, y, relation));
  }

  face(step, state) {
    const [start, end] = endsOf(step);
    const corners = [start, step.pivot, end].map((name) => this.places.get(name));
    if (corners.some((corner) => !corner)) return null;
    const when = step.layer > state.shown ? "later" : step.layer === state.shown ? "now" : "before";
    const focus = state.focus && state.focus.edge.join("\n") === step.edge.join("\n");
    const points = corners.map((corner) => `${corner.x},${corner.y}`).join(" ");
    const say = (claim) => () => this.handlers.step?.(claim);
    return s("polygon", {
      class: `face ${colourOf(step.layer)} ${when}${focus ? " focus" : ""}`, points, tabindex: when === "later" ? null : 0, role: "img",
      "aria-label": `Layer ${step.layer}: ${this.speech.step(step)}`, "data-key": `face ${step.layer} ${step.edge.join(" ")}`,
      onpointerenter: say(step), onpointerleave: say(null), onfocus: say(step), onblur: say(null), onclick: say(step),
    });
  }

  composed(step, state) {
    const [start, end] = endsOf(step);
    if (step.layer > state.shown || !this.places.has(start) || !this.places.has(end)) return null;
    const { path, at } = this.line(start, end);
    return s("g", { class: `edge made ${colourOf(step.layer)}${step.layer === state.shown ? " now" : ""}` },
      s("path", { class: "line", d: path, "marker-end": `url(#head-${colourOf(step.layer)})` }),
      this.narrow && step.layer < state.shown ? null : label(at.x, at.y + 4, step.edge[1]));
  }

  question(state) {
    const [start, end] = state.query;
    const told = state.facts.some(([a, , b]) => (a === start && b === end) || (a === end && b === start));
    const { path, at } = this.line(start, end, told ? -0.5 : 0);
    const said = state.answer || "?";
    const [a, b] = [this.places.get(start), this.places.get(end)];
    // Where there is no room between the two, the answer stands below the line.
    const room = Math.abs(b.x - a.x) - (this.boxes.get(start).w + this.boxes.get(end).w) / 2;
    const tight = !told && Math.abs(b.y - a.y) < 40 && room < textWidth(said, NAME_FONT) + 34;
    const done = state.proof ? state.shown >= (state.proof.layer || 0) : true;
    return s("g", { class: "edge asked" },
      s("path", { class: "line", d: path, "marker-end": "url(#head-asked)" }),
      label(at.x, at.y + (tight ? 33 : 5), done ? said : "?", NAME_FONT));
  }

  // All triangles of one edge in one layer, the darker the more attention they get.
  pivots(state) {
    const { edge, pivots, weights, chosen } = state.attention;
    const [a, b] = edge.map((name) => this.places.get(name));
    if (!a || !b) return [];
    const found = pivots.map((name, number) => [name, weights[number]]).filter(([name]) => this.places.has(name)).sort((x, y) => x[1] - y[1]).map(([name, weight]) => {
      const at = this.places.get(name);
      const title = s("title", {}, `through ${name}: ${weight.toFixed(2)}`);
      const kind = `pivot${chosen === name ? " focus" : ""}`;
      const vars = { "--w": Math.max(0.02, weight) };
      if (edge.includes(name)) return s("circle", { class: kind, cx: at.x, cy: at.y, r: 26 + 10 * weight, vars }, title);
      return s("polygon", { class: kind, points: [a, at, b].map((each) => `${each.x},${each.y}`).join(" "), vars }, title);
    });
    const { path } = edge[0] === edge[1] ? { path: "" } : this.line(edge[0], edge[1]);
    return [...found, s("g", { class: "edge asked" }, s("path", { class: "line", d: path, "marker-end": "url(#head-asked)" }))];
  }

  person(name, state) {
    const at = this.places.get(name);
    const { w, h } = this.boxes.get(name);
    const asked = (state.attention ? state.attention.edge : state.query || []).includes(name);
    const { person } = this.handlers;
    const weight = state.attention ? state.attention.weights[state.attention.pivots.indexOf(name)] : null;
    const node = s("g", {
      class: `person${asked ? " asked" : ""}${person ? " can" : ""}`, transform: `translate(${at.x},${at.y})`, "data-key": `person ${name}`, "data-name": name,
      tabindex: person ? 0 : null, role: person ? "button" : null, "aria-label": person ? `${name}: relate to another ${this.speech.node}` : null,
      onkeydown: person && ((event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        person(name);
      }),
    }, s("title", {}, name), s("rect", { x: -w / 2, y: -h / 2, width: w, height: h, rx: 16 }), s("text", { y: 5 }, short(name)),
    weight === null || weight === undefined ? null : s("text", { class: "weight", y: h / 2 + 14 }, weight.toFixed(2)));
    if (person) node.addEventListener("pointerdown", (event) => this.drag(event, name, node));
    return node;
  }

  // Dropped on somebody, a person is related to them; dropped elsewhere, it stays there.
  drag(event, name, node) {
    if (event.button) return;
    const from = this.places.get(name);
    const start = { x: event.clientX, y: event.clientY };
    const link = s("path", { class: "drawing", "marker-end": "url(#head-asked)" });
    let target = null;
    let far = false;
    const box = this.svg.getBoundingClientRect();
    const here = (moved) => ({ x: moved.clientX - box.left, y: moved.clientY - box.top });
    const over = (at) => [...this.places].find(([other, place]) => other !== name
      && Math.abs(place.x - at.x) < this.boxes.get(other).w / 2 + 8 && Math.abs(place.y - at.y) < 26)?.[0] || null;
    const move = (moved) => {
      far = far || Math.hypot(moved.clientX - start.x, moved.clientY - start.y) > 6;
      if (!far) return;
      moved.preventDefault();
      this.dragging = true;
      const at = here(moved);
      target = over(at);
      if (!link.parentNode) this.svg.prepend(link);
      for (const other of this.svg.querySelectorAll(".person")) other.classList.toggle("target", other.dataset.name === target);
      link.setAttribute("d", `M${from.x},${from.y}L${at.x},${at.y}`);
      node.classList.toggle("ghost", true);
    };
    const end = (moved) => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      removeEventListener("pointercancel", end);
      link.remove();
      this.dragging = false;
      node.classList.remove("ghost");
      if (moved.type === "pointercancel") return this.draw(this.state);
      if (!far) return this.handlers.person(name);
      if (target) return this.handlers.relate(name, target);
      const at = here(moved);
      const [width, height] = this.size;
      return this.handlers.move(name, Math.min(Math.max(at.x / width, 0.06), 0.94), Math.min(Math.max(at.y / height, 0.06), 0.94));
    };
    addEventListener("pointermove", move, { passive: false });
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
  }
}

function arrowHead(kind) {
  return s("marker", { id: `head-${kind}`, class: `head ${kind}`, viewBox: "0 0 8 8", refX: 6.5, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto-start-reverse" },
    s("path", { d: "M0,0.5L7.5,4L0,7.5z" }));
}

function label(x, y, text, font = LABEL_FONT) {
  const width = textWidth(text, font) + 10;
  return s("g", { class: "label" }, s("rect", { x: x - width / 2, y: y - 13, width, height: 18, rx: 6 }), s("text", { x, y }, text));
}
