# `make quickstart` and `make test` make what they need; nothing has to be activated.
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The first interpreter that is new enough; override with `make PYTHON=/path/to/python`.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

.PHONY: help install quickstart test check lint types imports docs format clean

help:
	@echo "make quickstart   install, then text -> model -> traced sentence -> control, nothing to download"
	@echo "make test         install, then the tests"
	@echo "make check        lint, types, import directions, documentation"
	@echo "make format       let ruff format the code"
	@echo "make clean        remove the virtual environment and caches"

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "error: prism-lm needs Python 3.11 or newer and found none;" \
		"install one, or name it: make PYTHON=/path/to/python"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

quickstart: $(STAMP)
	$(BIN)/prism quickstart

# One thread a test process: the tests run one process a core.
test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest

check: lint types imports docs

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/pyrefly check

imports: $(STAMP)
	$(BIN)/lint-imports

docs: $(STAMP)
	$(BIN)/zensical build --strict

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) site .pytest_cache .ruff_cache .hypothesis .import_linter_cache .cache
