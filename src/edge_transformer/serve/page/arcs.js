// Arcs over and under the tokens of a sentence: from a token to each of those that hang on it.

import { s, textWidth } from "./dom.js";

const WORD = "600 17px system-ui, sans-serif";
const LABEL = "13px system-ui, sans-serif";
const NOTE = "12px system-ui, sans-serif";
const [LEVEL, GAP, MARGIN, PORT] = [34, 22, 16, 10]; // PORT: between the ends of two arcs at a token

// A graph of tokens, whichever parser it comes from: arcs above and below the tokens, and rows of notes under them.
export function diagramOf(parse) {
  if (parse.edges) return ofEdges(parse);
  const { tokens } = parse;
  const columns = Object.keys(parse.labels || {});
  const chosen = ["role", "deprel", ...columns].find((name) => columns.includes(name));
  const parents = parse.heads ? parse.heads.map((head) => head - 1) : parse.parents;
  const labels = parse.heads ? parse.relations : chosen ? parse.labels[chosen] : tokens.map(() => "");
  const above = parents.map((parent, child) => ({ parent, child, label: labels[child] })).filter(({ parent, child }) => parent >= 0 && parent !== child);
  const notes = parse.heads ? [labels.map((label, token) => (parents[token] < 0 ? label : ""))] : columns.filter((name) => name !== chosen).map((name) => parse.labels[name]);
  const hanging = new Set(above.map(({ child }) => child));
  return { tokens, above, below: [], notes, roots: above.map(({ parent }) => parent).filter((token) => !hanging.has(token)) };
}

// Several labels of a pair share an arc; arcs that would cross others go below. Labels of a token stand under it.
function ofEdges({ tokens, edges, labels = {} }) {
  const named = new Map();
  const own = tokens.map(() => []);
  for (const [parent, child, label] of edges) {
    const ends = `${parent} ${child}`;
    if (parent === child) own[child].push(label);
    else if (named.has(ends)) named.get(ends).label += `, ${label}`;
    else named.set(ends, { parent, child, label });
  }
  const sides = [[], []];
  const length = ({ parent, child }) => Math.abs(parent - child);
  for (const arc of [...named.values()].sort((a, b) => length(a) - length(b) || a.parent - b.parent || a.child - b.child)) {
    const [over, under] = sides.map((side) => side.reduce((sum, other) => sum + disturb(arc, other), 0));
    sides[under < over ? 1 : 0].push(arc);
  }
  const most = Math.max(0, ...own.map((names) => names.length));
  const notes = Array.from({ length: most }, (_, row) => own.map((names) => names[row] || ""));
  return { tokens, above: sides[0], below: sides[1], notes: [...notes, ...Object.values(labels)], roots: [] };
}

const spanOf = ({ parent, child }) => [Math.min(parent, child), Math.max(parent, child)];

// How hard two arcs are to read on one side: those that cross, or connect the same tokens, the hardest.
function disturb(one, other) {
  const [[left, right], [start, end]] = [spanOf(one), spanOf(other)];
  const cross = (left < start && start < right && right < end) || (start < left && left < end && end < right);
  if (cross || (left === start && right === end)) return 2;
  const [short, long] = right - left <= end - start ? [one, other] : [other, one];
  return long.parent === short.child && long.child > long.parent === short.parent > short.child ? 1 : 0;
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

// The arcs of one side: their heights, and the order of their ends over each token.
function sideOf(arcs, tokens) {
  const spans = arcs.map(spanOf);
  const heights = levels(spans);
  const ends = tokens.map((_, token) => arcs.map((arc, number) => ({ arc, number })).filter(({ arc }) => arc.parent === token || arc.child === token)
    .sort((a, b) => {
      const right = ({ arc }) => Math.max(arc.parent, arc.child) > token;
      if (right(a) !== right(b)) return right(a) - right(b);
      return right(a) ? heights[b.number] - heights[a.number] : heights[a.number] - heights[b.number];
    }));
  // How far from the middle of a token an arc ends.
  const offset = (token, number) => (ends[token].findIndex((end) => end.number === number) - (ends[token].length - 1) / 2) * PORT;
  return { arcs, spans, heights, ends, offset, height: Math.max(0, ...heights) };
}

export function drawArcs(parse, touch = () => {}) {
  const { tokens, above, below, notes, roots } = diagramOf(parse);
  const unknown = new Set(parse.unknown || []);
  const rows = notes.filter((row) => row.some(Boolean));
  const sides = [sideOf(above, tokens), sideOf(below, tokens)];
  const widths = tokens.map((token, number) => Math.max(textWidth(token, WORD), ...rows.map((row) => textWidth(row[number], NOTE)), 22, ...sides.map(({ ends }) => PORT * ends[number].length)));
  let x = MARGIN;
  const starts = [];
  tokens.forEach((_, token) => {
    let left = x;
    // Room for the labels of arcs that end here.
    for (const { arcs, spans, offset } of sides) spans.forEach(([first, last], number) => {
      if (last !== token) return;
      const needed = textWidth(arcs[number].label, LABEL) + 26;
      left = Math.max(left, starts[first] + widths[first] / 2 + offset(first, number) + needed - offset(token, number) - widths[token] / 2);
    });
    starts.push(left);
    x = left + widths[token] + GAP;
  });
  const middleOf = (token) => starts[token] + widths[token] / 2;
  const foot = MARGIN + LEVEL * sides[0].height + 6; // where arcs above end
  const under = foot + 28 + 16 * rows.length; // where those below end
  const width = Math.ceil(x - GAP + MARGIN);
  const height = under + (below.length ? LEVEL * sides[1].height + MARGIN : 8);
  const svg = s("svg", { class: "arcs", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": describe(tokens, [...above, ...below]) });
  const drawn = sides.flatMap(({ arcs, heights, offset }, side) => {
    const [base, away] = side ? [under, 1] : [foot, -1];
    return arcs.map((_, number) => number).sort((a, b) => heights[b] - heights[a]).map((number) => {
      const { parent, child, label } = arcs[number];
      const [from, to] = [parent, child].map((token) => middleOf(token) + offset(token, number));
      const top = base + away * (LEVEL * heights[number] - 8);
      const corner = top - away * 10;
      const round = Math.min(10, Math.abs(to - from) / 2) * Math.sign(to - from);
      const path = `M${from} ${base}V${corner}Q${from} ${top} ${from + round} ${top}H${to - round}Q${to} ${top} ${to} ${corner}V${base + away * 5}`;
      const half = textWidth(label, LABEL) / 2 + 5;
      const middle = (from + to) / 2;
      return s("g", { class: "arc", "data-parent": parent, "data-child": child, onpointerenter: () => touch([parent, child]), onpointerleave: () => touch([]) },
        s("path", { class: "hit", d: path }), s("path", { class: "line", d: path }), s("polygon", { class: "tip", points: `${to - 4},${base + away * 8} ${to + 4},${base + away * 8} ${to},${base}` }),
        label ? [s("rect", { class: "back", x: middle - half, y: top - 9, width: 2 * half, height: 18, rx: 5 }), s("text", { class: "arc-label", x: middle, y: top + 4 }, label)] : null);
    });
  });
  const words = tokens.map((token, number) => {
    const middle = middleOf(number);
    const isRoot = roots.includes(number);
    return s("g", { class: `token${unknown.has(token) ? " unknown" : ""}${isRoot ? " root" : ""}`, "data-token": number, onpointerenter: () => touch([number]), onpointerleave: () => touch([]) },
      s("rect", { class: "hit", x: starts[number] - 6, y: foot, width: widths[number] + 12, height: under - foot, rx: 8 }),
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
