// The state of the page in its address, so that it can be sent to somebody: #family?f=Ann~mother~Eve&q=Ann~Tom&layer=2

const join = (parts) => parts.map((part) => String(part).replaceAll("%", "%25").replaceAll("~", "%7E")).join("~");
const split = (text) => text.split("~").map((part) => part.replaceAll("%7E", "~").replaceAll("%25", "%"));

export function read() {
  const [view, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
  const given = new URLSearchParams(query);
  const state = { view: view || "family" };
  for (const name of ["model", "text", "head", "relation", "tail"]) if (given.has(name)) state[name] = given.get(name);
  for (const name of ["layer", "head_shown"]) if (/^\d{1,3}$/.test(given.get(name) || "")) state[name] = Number(given.get(name));
  const facts = given.getAll("f").map(split).filter((fact) => fact.length === 3 && fact.every(Boolean));
  if (facts.length) state.facts = facts.slice(0, 200);
  for (const name of ["q", "edge"]) {
    const pair = split(given.get(name) || "");
    if (pair.length === 2 && pair.every(Boolean)) state[name === "q" ? "query" : name] = pair;
  }
  return state;
}

export function write(state) {
  const given = new URLSearchParams();
  for (const name of ["model", "text", "head", "relation", "tail", "layer", "head_shown"]) {
    if (state[name] !== undefined && state[name] !== "") given.set(name, state[name]);
  }
  for (const fact of state.facts || []) given.append("f", join(fact));
  if (state.query) given.set("q", join(state.query));
  if (state.edge) given.set("edge", join(state.edge));
  const address = `#${state.view}?${given}`.replaceAll("%7E", "~");
  if (address !== location.hash) history.replaceState(null, "", address);
}
