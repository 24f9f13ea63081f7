"""`python -m edge_transformer` is the command line."""

from .cli import main

main()
