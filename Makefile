# Each target works alone in a fresh clone: Python, make and the package index are enough.
PYTHON ?= python3
VENV ?= .venv
ARGS ?=
BIN := $(VENV)/bin
# Tests wait as long as they compute.
JOBS ?= $(shell $(PYTHON) -c 'import os; print(2 * os.cpu_count())')
HOURS ?= 1
RUNS ?= 100
STAMP := $(VENV)/.installed
PHOENIX := .phoenix
PROXY := .litellm-proxy
DOCS := .docs-venv
RECIPES := .batch-recipes
INTEGRATIONS := $(wildcard integrations/*)
PACKAGES := . $(INTEGRATIONS)
SOURCES := ragmonitor $(wildcard integrations/*/ragmonitor_*)

.PHONY: help setup phoenix proxy demo demo-stack test test-all nightly check size bench bench-load bench-judge bench-numbers fuzz build docs sbom audit batch-recipes clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 13

setup: $(STAMP)  ## Create $(VENV) with everything that development needs

$(STAMP): pyproject.toml constraints.txt $(INTEGRATIONS:%=%/pyproject.toml)
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "ragmonitor needs Python 3.11 or newer; set PYTHON=..."'
	@echo "installing all development tools into $(VENV): some minutes, once"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev \
	  --editable '.[litellm,demo,rules]' $(INTEGRATIONS:%=--editable %)
	@touch $@

phoenix: $(PHOENIX)/.installed  ## Create $(PHOENIX) with the real Phoenix that tests start (850 MB)

$(PHOENIX)/.installed: tests/support/phoenix-constraints.txt
	$(PYTHON) -m venv $(PHOENIX)
	$(PHOENIX)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(PHOENIX)/bin/python -m pip install --quiet --constraint $< arize-phoenix
	@touch $@

proxy: $(PROXY)/.installed  ## Create $(PROXY) with the real litellm proxy that tests start (750 MB)

$(PROXY)/.installed: tests/support/litellm-proxy-constraints.txt
	$(PYTHON) -m venv $(PROXY)
	$(PROXY)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(PROXY)/bin/python -m pip install --quiet --constraint $< 'litellm[proxy]' \
	  --editable . --editable integrations/litellm
	@touch $@

batch-recipes: $(RECIPES)/.installed  ## Run the programs of docs/offline.md with real PySpark (needs Java) and Ray (1.2 GB)
	$(RECIPES)/bin/python -m pytest -q -s -p no:cacheprovider -W ignore tests/batch_recipes

$(RECIPES)/.installed: tests/batch_recipes/constraints.txt
	$(PYTHON) -m venv $(RECIPES)
	$(RECIPES)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(RECIPES)/bin/python -m pip install --quiet --constraint $< --editable '.[datasets]' \
	  pyspark 'ray[data]' hypothesis pytest pytest-asyncio
	@touch $@

demo: $(STAMP)  ## Run a live RAG application under monitoring (ARGS="--seconds 60 --json")
	$(BIN)/ragmonitor demo $(ARGS)

demo-stack: $(STAMP)  ## Run the demo with Debian's Prometheus and Alertmanager: an alert fires and resolves
	$(BIN)/python tools/demo_stack.py $(ARGS)

# Tests start hundreds of interpreters, which are to find compiled what they import.
test test-all: export PYTHONDONTWRITEBYTECODE :=

test: $(STAMP)  ## Run what a change needs, in parallel (four minutes on two cores; ARGS="-k name")
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile -m "not slow" $(ARGS)

test-all: $(STAMP)  ## Run the rest: matrices, simulations, real servers, browsers (some 20 minutes on two cores)
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder -m slow $(ARGS)

size: $(STAMP)  ## Print the project's size beside its ceilings; fail above one
	$(BIN)/python tools/size.py

nightly:  ## Run the slow and rare checks, in stages (ARGS="slow audit"; an hour on two cores)
	.ci/nightly $(ARGS)

check: $(STAMP)  ## Format, lint, strict types, import contracts, size
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(SOURCES) tools tests/bench
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin $(SOURCES)
	$(BIN)/lint-imports
	$(BIN)/python tools/size.py

bench: $(STAMP)  ## Measure what an answer costs, beside OpenLLMetry and OpenInference (ten minutes)
	$(BIN)/python tests/bench/request_path.py $(ARGS)
	$(BIN)/python tests/bench/stages.py

bench-load: $(STAMP)  ## What users of a loaded application feel (ten minutes)
	$(BIN)/python tests/bench/event_loop.py
	$(BIN)/python tests/bench/worker.py
	$(BIN)/python tests/bench/under_load.py

bench-judge: $(STAMP)  ## The built-in judge: time, and what it tells apart (ARGS=data folder)
	$(BIN)/python tests/bench/builtin_judge.py
	$(BIN)/python tests/bench/structured_chunks.py --held-out
	$(BIN)/python tests/bench/auroc.py $(ARGS)

bench-numbers: $(STAMP)  ## Intervals, alarms and causes on simulated traffic (minutes; RUNS=100)
	for what in coverage width false delay traffic slices versions judge; do \
	  $(BIN)/python tests/bench/core.py $$what --runs $(RUNS) || exit 1; done

fuzz: $(STAMP)  ## Send spoiled examples through every parser (HOURS=1)
	$(BIN)/python -m tests.reliability.fuzz --hours $(HOURS) $(ARGS)

build: $(STAMP)  ## Build the wheels into dist/
	rm -rf dist
	for package in $(PACKAGES); do $(BIN)/python -m build --quiet --outdir dist $$package || exit 1; done

docs: $(DOCS)/.installed  ## Build the documentation's site into site/, links checked (an environment of its own)
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict

$(DOCS)/.installed: pyproject.toml
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(DOCS)/bin/python -m pip install --quiet --group docs
	@touch $@

sbom: build  ## Write the bill of materials of the wheels as they install, sbom.cdx.json (CycloneDX)
	rm -rf build/sbom && $(PYTHON) -m venv build/sbom
	build/sbom/bin/python -m pip install --quiet --constraint constraints.txt dist/*.whl
	$(BIN)/python -m pip install --quiet --group sbom
	$(BIN)/cyclonedx-py environment --output-format JSON --output-file sbom.cdx.json build/sbom

audit: sbom  ## Look up known vulnerabilities and licences of what the wheels install
	$(BIN)/python -m pip install --quiet --group audit
	$(BIN)/pip-licenses --python build/sbom/bin/python --partial-match \
	  --fail-on 'GNU General Public;GNU Affero;Server Side Public;Business Source' >build/licences.txt
	$(BIN)/pip-audit --path build/sbom/lib/python*/site-packages

clean:  ## Remove what the targets made
	rm -rf $(VENV) $(PHOENIX) $(DOCS) $(RECIPES) dist build site sbom.cdx.json .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .ragas
