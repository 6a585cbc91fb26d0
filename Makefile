# Each target works alone in a fresh clone: Python, make and the package index are enough.
PYTHON ?= python3
VENV ?= .venv
ARGS ?=
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PHOENIX := .phoenix
PACKAGES := . integrations/langchain integrations/llama_index
SOURCES := ragmonitor integrations/langchain/ragmonitor_langchain integrations/llama_index/ragmonitor_llama_index

.PHONY: help setup phoenix demo test check bench build clean

help:  ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

setup: $(STAMP)  ## Create $(VENV) with everything that development needs

$(STAMP): pyproject.toml constraints.txt integrations/langchain/pyproject.toml integrations/llama_index/pyproject.toml
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "ragmonitor needs Python 3.11 or newer; set PYTHON=..."'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev \
	  --editable '.[litellm,demo]' --editable integrations/langchain --editable integrations/llama_index
	@touch $@

phoenix: $(PHOENIX)/.installed  ## Create $(PHOENIX) with the real Phoenix that tests start (850 MB)

$(PHOENIX)/.installed: tests/support/phoenix-constraints.txt
	$(PYTHON) -m venv $(PHOENIX)
	$(PHOENIX)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(PHOENIX)/bin/python -m pip install --quiet --constraint $< arize-phoenix
	@touch $@

demo: $(STAMP)  ## Watch a live RAG application being monitored (ARGS="--seconds 60 --json")
	$(BIN)/ragmonitor demo $(ARGS)

test: $(STAMP)  ## Run every test (ARGS="-k name")
	$(BIN)/python -m pytest $(ARGS)

check: $(STAMP)  ## Format, lint, strict types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(SOURCES)
	$(BIN)/lint-imports

bench: $(STAMP)  ## Measure: request path, embedded judge, agreement with labels (ARGS=data folder)
	$(BIN)/python tests/bench/request_path.py
	$(BIN)/python tests/bench/embedded_judge.py
	$(BIN)/python tests/bench/memory.py
	$(BIN)/python tests/bench/auroc.py $(ARGS)

build: $(STAMP)  ## Build the three wheels into dist/
	rm -rf dist
	for package in $(PACKAGES); do $(BIN)/python -m build --quiet --outdir dist $$package || exit 1; done

clean:  ## Remove what the targets made
	rm -rf $(VENV) $(PHOENIX) dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
