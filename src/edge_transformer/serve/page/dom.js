// Elements without a framework: h() makes HTML, s() makes SVG; texts are always texts, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "vars") for (const [key, item] of Object.entries(value)) element.style.setProperty(key, item);
    else if (name === "value" && "value" in element) element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export function choice(names, chosen, attributes, label = (name) => name) {
  return h("select", attributes, names.map((name) => h("option", { value: name, selected: name === chosen }, label(name))));
}

let ruler = null;
export function textWidth(text, font) {
  ruler = ruler || document.createElement("canvas").getContext("2d");
  ruler.font = font;
  return ruler.measureText(text).width;
}

export const percent = (value) => (value >= 0.9995 ? "100%" : value < 0.0005 ? "0%" : `${(100 * value).toFixed(value < 0.1 || value > 0.99 ? 1 : 0)}%`);

export function bars(entries, kind = "") {
  return h("ol", { class: `bars ${kind}` }, entries.map(([name, value, more]) =>
    h("li", {}, h("span", { class: "bar-name" }, name, more || null),
      h("span", { class: "bar", "aria-hidden": "true", vars: { "--w": value } }), h("span", { class: "bar-value" }, percent(value)))));
}

export function later(run, wait) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...given), wait);
  };
}
