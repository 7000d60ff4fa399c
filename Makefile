# make run     serve the API on http://127.0.0.1:8321 over SQLite in .turnstone
# make test    run every test
# make check   lint, types, structure
# make bench   measure, print a table and write bench.json
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
SAM := .sam
READY := $(VENV)/ready
DEV_READY := $(VENV)/dev-ready
SAM_READY := $(SAM)/ready
CLIENTS := 0.2.12 0.2.20
CLIENTS_READY := $(CLIENTS:%=.clients/%/ready)

.PHONY: run test check bench clean

run: $(READY)
	@$(BIN)/python -m functions.local

test: $(DEV_READY) $(CLIENTS_READY)
	$(BIN)/python -m pytest -n 4 --dist worksteal $(ARGS)

check: $(DEV_READY) $(SAM_READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(SAM)/bin/cfn-lint template.yaml
	SAM_CLI_TELEMETRY=0 $(SAM)/bin/sam validate --lint

bench: $(DEV_READY)
	$(BIN)/python -m tests.benchmarks $(ARGS)

clean:
	rm -rf $(VENV) $(SAM) .clients .aws-sam build *.egg-info

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Turnstone needs Python 3.11 or newer; name one: make PYTHON=python3.12 ...")'
	@echo "setting up $(VENV), once"
	@$(PYTHON) -m venv $(VENV)

$(READY): $(BIN)/python pyproject.toml constraints.txt
	@$(PIP) install --constraint constraints.txt setuptools
	@$(PIP) install --constraint constraints.txt --no-build-isolation --editable .
	@touch $@

$(DEV_READY): $(READY)
	@$(PIP) install --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@

# SAM pins versions of its own, so it has an environment of its own.
$(SAM_READY): constraints-sam.txt
	@echo "setting up $(SAM), once"
	@$(PYTHON) -m venv $(SAM)
	@$(SAM)/bin/python -m pip --disable-pip-version-check --quiet install --constraint constraints-sam.txt aws-sam-cli cfn-lint
	@touch $@

# The official clients, unmodified, each in a folder of its own; what they depend on is in the dev environment.
# 0.2.20 declares Python 3.12 but runs on 3.11 as well.
.clients/%/ready: $(DEV_READY)
	@rm -rf .clients/$*
	@$(PIP) install --no-deps --ignore-requires-python --target .clients/$* llama-stack-client==$*
	@touch $@
