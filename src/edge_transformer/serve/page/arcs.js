// Arcs over the tokens of a sentence: from a token to each of those that hang on it.

import { s, textWidth } from "./dom.js";

const WORD = "600 17px system-ui, sans-serif";
const LABEL = "13px system-ui, sans-serif";
const NOTE = "12px system-ui, sans-serif";
const [LEVEL, GAP, MARGIN] = [34, 22, 16];

// A graph of tokens as arcs, whichever parser it comes from: {tokens, parents, labels, notes}.
export function diagramOf(parse) {
  if (parse.heads) {
    const parents = parse.heads.map((head, number) => (head ? head - 1 : number));
    return { tokens: parse.tokens, parents, labels: parse.relations.map((label, number) => (parse.heads[number] ? label : "")), notes: [parse.relations.map((label, number) => (parse.heads[number] ? "" : label))] };
  }
  const columns = Object.keys(parse.labels);
  const chosen = ["role", "deprel", ...columns].find((name) => columns.includes(name));
  return {
    tokens: parse.tokens,
    parents: parse.parents.map((parent, number) => (parent < 0 ? number : parent)),
    labels: parse.parents.map((parent, number) => (chosen && parent >= 0 ? parse.labels[chosen][number] : "")),
    notes: columns.filter((name) => name !== chosen).map((name) => parse.labels[name]),
  };
}

// Heights of arcs: above all those inside, without overlap.
function levels(spans) {
  const found = new Map();
  const sorted = spans.map((_, number) => number).sort((a, b) => spans[a][1] - spans[a][0] - (spans[b][1] - spans[b][0]) || spans[a][0] - spans[b][0]);
  for (const arc of sorted) {
    const [left, right] = spans[arc];
    let inside = 0;
    const taken = new Set();
    for (const [other, level] of found) {
      const [start, end] = spans[other];
      if (start < right && left < end) {
        taken.add(level);
        if (left <= start && end <= right) inside = Math.max(inside, level);
      }
    }
    let level = inside + 1;
    while (taken.has(level)) level += 1;
    found.set(arc, level);
  }
  return spans.map((_, number) => found.get(number));
}

export function drawArcs(parse, touch = () => {}) {
  const { tokens, parents, labels, notes } = diagramOf(parse);
  const unknown = new Set(parse.unknown || []);
  const rows = notes.filter((row) => row.some(Boolean));
  const arcs = parents.map((parent, child) => ({ parent, child, label: labels[child] })).filter(({ parent, child }) => parent !== child);
  const spans = arcs.map(({ parent, child }) => [Math.min(parent, child), Math.max(parent, child)]);
  const heights = levels(spans);
  const widths = tokens.map((token, number) => Math.max(textWidth(token, WORD), ...rows.map((row) => textWidth(row[number], NOTE)), 22));
  const ends = tokens.map((_, token) => arcs.map((arc, number) => ({ arc, number })).filter(({ arc }) => arc.parent === token || arc.child === token)
    .sort((a, b) => {
      const right = ({ arc }) => Math.max(arc.parent, arc.child) > token;
      if (right(a) !== right(b)) return right(a) - right(b);
      return right(a) ? heights[b.number] - heights[a.number] : heights[a.number] - heights[b.number];
    }));
  let x = MARGIN;
  const starts = [];
  tokens.forEach((_, token) => {
    let left = x;
    // Room for the labels of arcs that end here.
    spans.forEach(([first, last], number) => {
      if (last !== token || first === token) return;
      const needed = textWidth(arcs[number].label, LABEL) + 26;
      const from = starts[first] + widths[first] / 2;
      left = Math.max(left, from + needed - widths[token] / 2);
    });
    starts.push(left);
    x = left + Math.max(widths[token], 10 * ends[token].length) + GAP;
  });
  const port = (token, number) => {
    const place = ends[token].findIndex((end) => end.number === number);
    return starts[token] + widths[token] / 2 + (place - (ends[token].length - 1) / 2) * 9;
  };
  const foot = MARGIN + LEVEL * Math.max(0, ...heights) + 6;
  const width = Math.ceil(x - GAP + MARGIN);
  const height = foot + 26 + 16 * rows.length + 10;
  const svg = s("svg", { class: "arcs", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": describe(tokens, arcs) });
  const order = arcs.map((_, number) => number).sort((a, b) => heights[b] - heights[a]);
  const drawn = order.map((number) => {
    const { parent, child, label } = arcs[number];
    const [from, to] = [port(parent, number), port(child, number)];
    const top = foot - LEVEL * heights[number] + 8;
    const round = Math.min(10, Math.abs(to - from) / 2) * Math.sign(to - from);
    const path = `M${from} ${foot}V${top + 10}Q${from} ${top} ${from + round} ${top}H${to - round}Q${to} ${top} ${to} ${top + 10}V${foot - 5}`;
    const half = textWidth(label, LABEL) / 2 + 5;
    const middle = (from + to) / 2;
    return s("g", { class: "arc", "data-parent": parent, "data-child": child, onpointerenter: () => touch([parent, child]), onpointerleave: () => touch([]) },
      s("path", { class: "hit", d: path }), s("path", { class: "line", d: path }), s("polygon", { class: "tip", points: `${to - 4},${foot - 8} ${to + 4},${foot - 8} ${to},${foot}` }),
      label ? [s("rect", { class: "back", x: middle - half, y: top - 9, width: 2 * half, height: 18, rx: 5 }), s("text", { class: "arc-label", x: middle, y: top + 4 }, label)] : null);
  });
  const isParent = new Set(arcs.map(({ parent }) => parent));
  const words = tokens.map((token, number) => {
    const middle = starts[number] + widths[number] / 2;
    const isRoot = isParent.has(number) && !arcs.some(({ child }) => child === number);
    return s("g", { class: `token${unknown.has(token) ? " unknown" : ""}${isRoot ? " root" : ""}`, "data-token": number, onpointerenter: () => touch([number]), onpointerleave: () => touch([]) },
      s("rect", { class: "hit", x: starts[number] - 6, y: foot, width: widths[number] + 12, height: height - foot - 4, rx: 8 }),
      isRoot ? s("circle", { class: "mark", cx: middle, cy: foot + 1, r: 3 }) : null,
      s("text", { class: "word", x: middle, y: foot + 20 }, token),
      rows.filter((row) => row[number]).map((row) => row[number]).map((note, line) => s("text", { class: "word-note", x: middle, y: foot + 38 + 16 * line }, note)));
  });
  svg.append(...drawn, ...words);
  return svg;
}

function describe(tokens, arcs) {
  return `${tokens.join(" ")}. ${arcs.map(({ parent, child, label }) => `${tokens[child]} is ${label || "below"} of ${tokens[parent]}`).join("; ")}`;
}

const SAVED = `text{font-family:system-ui,sans-serif;text-anchor:middle;fill:#1d1f2b}.word{font-size:17px;font-weight:600}.arc-label{font-size:13px}.word-note{font-size:12px;fill:#565a6e}
.line{fill:none;stroke:#5a5f77;stroke-width:1.5}.tip,.mark{fill:#5a5f77}.back{fill:#fff}.hit{fill:none;stroke:none}.unknown .word{fill:#a3360b;text-decoration:underline wavy}`;

// A drawing as a file of its own, with its style inside.
export function svgText(svg) {
  const copy = svg.cloneNode(true);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.prepend(s("style", {}, SAVED), s("rect", { width: "100%", height: "100%", fill: "#fff" }));
  return new XMLSerializer().serializeToString(copy);
}

export async function pngOf(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(svg))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  const scale = 2;
  canvas.width = scale * Number(svg.getAttribute("width"));
  canvas.height = scale * Number(svg.getAttribute("height"));
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}
