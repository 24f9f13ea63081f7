// Families of 2 to 10 steps, from the library's own generator. `target` is what follows; a test asks the bundled model.

export const EXAMPLES = [
  {"edges": [["Janet", "husband", "David"], ["David", "daughter", "Lisa"]], "query": ["Janet", "Lisa"], "target": "daughter"},
  {"edges": [["Clara", "husband", "Paul"], ["Paul", "son", "Jason"], ["Jason", "son", "Gary"]], "query": ["Clara", "Gary"], "target": "grandson"},
  {"edges": [["Carol", "daughter", "Susan"], ["Susan", "daughter", "Nancy"], ["Nancy", "sister", "Betty"], ["Betty", "brother", "Peter"]], "query": ["Carol", "Peter"], "target": "grandson"},
  {"edges": [["Donna", "husband", "Henry"], ["Henry", "son", "Louis"], ["Louis", "sister", "Karen"], ["Karen", "brother", "Edward"], ["Edward", "wife", "Sarah"]], "query": ["Donna", "Sarah"], "target": "daughter-in-law"},
  {"edges": [["Louise", "brother", "John"], ["John", "sister", "Frances"], ["Frances", "mother", "Barbara"], ["Barbara", "husband", "Keith"], ["Keith", "son", "Albert"], ["Albert", "brother", "Frank"]], "query": ["Louise", "Frank"], "target": "brother"},
  {"edges": [["Helen", "father", "Jack"], ["Jack", "son", "Samuel"], ["Samuel", "brother", "Robert"], ["Robert", "brother", "Paul"], ["Paul", "wife", "Carol"], ["Carol", "son", "Larry"], ["Larry", "aunt", "Joan"]], "query": ["Helen", "Joan"], "target": "sister"},
  {"edges": [["Martha", "father", "Howard"], ["Howard", "son", "Ralph"], ["Ralph", "sister", "Rachel"], ["Rachel", "sister", "Olivia"], ["Olivia", "mother", "Barbara"], ["Barbara", "sister", "Hannah"], ["Hannah", "son", "Nicholas"], ["Nicholas", "grandfather", "Roger"]], "query": ["Martha", "Roger"], "target": "grandfather"},
  {"edges": [["Joseph", "wife", "Jane"], ["Jane", "daughter", "Joyce"], ["Joyce", "brother", "Edward"], ["Edward", "sister", "Emily"], ["Emily", "sister", "Amy"], ["Amy", "brother", "Richard"], ["Richard", "brother", "Gerald"], ["Gerald", "daughter", "Cheryl"], ["Cheryl", "aunt", "Gloria"]], "query": ["Joseph", "Gloria"], "target": "daughter"},
  {"edges": [["Harold", "son", "Douglas"], ["Douglas", "sister", "Grace"], ["Grace", "brother", "Walter"], ["Walter", "brother", "Steven"], ["Steven", "mother", "Jessica"], ["Jessica", "sister", "Rose"], ["Rose", "son", "Louis"], ["Louis", "aunt", "Anna"], ["Anna", "sister", "Amy"], ["Amy", "father", "Victor"]], "query": ["Harold", "Victor"], "target": "father"},
];

// By the field of the text that a parser makes; the first ones are those of the first parser on the page.
export const SENTENCES = {
  logical_form: [
    "A cat liked that the boy ran .",
    "The dog on a TV saw Liam .",
    "Emma wanted to eat .",
    "The girl gave Noah a cake in the house .",
    "A rose was helped by a frog .",
  ],
  sparql: [
    "Did M1 marry M0 's sequel 's writer",
    "Who directed and edited M1 and M2",
    "Which French actor did M0 employ",
  ],
};
