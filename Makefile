# Everything is made from nothing: a virtual environment, the packages in it, the compiled kernels.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGE := $(VENV)/.installed
TOOLS := $(VENV)/.installed-tools
SERVER := $(VENV)/.installed-server
LINT := lint
SOURCES := pyproject.toml setup.py constraints.txt $(wildcard src/edge_transformer/ops/csrc/*.c src/edge_transformer/ops/csrc/*.h)
INSTALL = $(BIN)/python -m pip install --quiet -c constraints.txt $$($(BIN)/python .ci/pytorch.py)

.PHONY: demo playground test lint format docs wheel clean help

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

demo: $(PACKAGE)  ## from nothing to a trained model, a table, a figure and an answered question
	$(BIN)/python -m edge_transformer demo --out demo

playground: $(SERVER)  ## from nothing to a page in the browser, with the bundled models
	$(BIN)/python -m edge_transformer serve

test: $(TOOLS) $(LINT)  ## lint, types and all tests; with LINT= the tests alone
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

lint: $(TOOLS)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(TOOLS)  ## put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(TOOLS)  ## the documentation as a site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

wheel: $(TOOLS)  ## an sdist and a wheel for this platform and every Python, in dist
	$(BIN)/python -m build

clean:  ## remove what the other targets made
	rm -rf $(VENV) demo build dist

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; say which: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(PACKAGE): $(SOURCES) | $(BIN)/python
	@echo "installing PyTorch and some smaller packages into $(VENV), which takes some minutes ..."
	$(INSTALL) -e .
	touch $(PACKAGE)

$(SERVER): $(SOURCES) | $(BIN)/python
	@echo "installing PyTorch, a server and some smaller packages into $(VENV), which takes some minutes ..."
	$(INSTALL) -e '.[serve]'
	touch $(PACKAGE) $(SERVER)

$(TOOLS): $(SOURCES) | $(BIN)/python
	@echo "installing PyTorch, smaller packages and the developers' tools into $(VENV), which takes some minutes ..."
	$(INSTALL) -e '.[dev]'
	touch $(PACKAGE) $(SERVER) $(TOOLS)
