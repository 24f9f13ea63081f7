"""What an installed package must be able to do: compute with the compiled kernels, and answer with the models in it."""

import edge_transformer as et
from edge_transformer.ops.native import library

library()  # complains where there is none
question = {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}
answer = et.load("clutrr-small").predict([question])[0]["answer"]
parse = et.GraphParser.load("cogs-small").parse("A cat ran .").logical_form
print(f"edge-transformer {et.__version__} in {et.__file__}: {answer}; {parse}")
assert answer == "daughter"
assert parse == "cat ( x _ 1 ) AND run . agent ( x _ 2 , x _ 1 )"
