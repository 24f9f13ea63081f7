// Sentences about relations: reading what a person types, and saying what the model found. Of families these are
// English, of other graphs arrows.

const plain = (text) => text.trim().replace(/\s+/g, " ").replace(/[.!]+$/, "").trim();
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const possessive = "(?:['’]s|s['’]|['’])";

// "Ann's mother is Eve", "Eve is Ann's mother", "Eve is the mother of Ann", "Ann mother Eve" -> ["Ann", "mother", "Eve"];
// of other graphs also "the box left of the vase" and "box -left of-> vase".
export function readFact(text, relations, isFamily = true) {
  const said = plain(text);
  const names = [...relations].sort((a, b) => b.length - a.length).map(escaped).join("|");
  const forms = [
    [`^(.+?)${possessive} (${names}) is (.+)$`, 1, 2, 3],
    [`^(.+?) is (.+?)${possessive} (${names})$`, 2, 3, 1],
    [`^(.+?) is (?:the |a |an )?(${names}) of (.+)$`, 3, 2, 1],
    [`^(\\S+) (${names}) (\\S+)$`, 1, 2, 3],
    ...(isFamily ? [] : [[`^(.+?) (?:[-–]+ ?)?(${names})(?: ?[-–]*[>→])? (.+)$`, 1, 2, 3]]),
  ];
  for (const [form, start, relation, end] of forms) {
    const found = new RegExp(form, "i").exec(said);
    if (found) {
      const known = relations.find((name) => name.toLowerCase() === found[relation].toLowerCase());
      return [plain(found[start]), known, plain(found[end])];
    }
  }
  return null;
}

// "Who is Tom to Ann?" -> ["Ann", "Tom"].
export function readQuestion(text) {
  const found = /^(?:who|what) is (.+?) to (.+?)\s*\?*$/i.exec(plain(text));
  return found ? [plain(found[2]), plain(found[1])] : null;
}

export const owner = (name) => `${name}’s`;
const ofFamily = ([start, relation, end]) => `${owner(start)} ${relation} is ${end}`;
const ofGraph = ([start, relation, end]) => `${start} –${relation}→ ${end}`;

// How the view of a model speaks: what a told edge, a claim and a step of a proof say.
export function speechOf(model) {
  const isFamily = Boolean(model.generations);
  const fact = isFamily ? ofFamily : ofGraph;
  const claim = (found) => fact(found.edge);
  const step = (found) => `${claim(found)}, because ${found.because.map(claim).join(" and ")}`;
  const caption = (found) => `${step(found)} (layer ${found.layer}, strength ${found.strength.toFixed(2)}, attention ${found.weight.toFixed(2)})`;
  return { isFamily, fact, claim, step, caption, node: isFamily ? "person" : "node", nodes: isFamily ? "people" : "nodes" };
}

// The composed claims of a proof, the deepest first, each with what it rests on.
export function stepsOf(proof) {
  const found = [];
  const walk = (claim) => {
    if (!claim || claim.told) return;
    claim.because.forEach(walk);
    found.push(claim);
  };
  walk(proof);
  return found.sort((a, b) => a.layer - b.layer);
}

// The ends of a claim in the direction of the proof; a told edge may be used against its direction.
export const endsOf = (claim) => (claim.used_backwards ? [claim.edge[2], claim.edge[0]] : [claim.edge[0], claim.edge[2]]);

// The people along a proof, from the first of the question to the second.
export function walkOf(proof) {
  if (!proof) return [];
  const leaves = (claim) => (claim.told ? [claim] : claim.because.flatMap(leaves));
  const told = leaves(proof);
  return [...new Set([endsOf(told[0])[0], ...told.map((leaf) => endsOf(leaf)[1])])];
}
