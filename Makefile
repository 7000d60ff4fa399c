# make run           serve the API on http://127.0.0.1:8321 over SQLite in .turnstone
# make test          all tests except the nightly ones; ARGS="-k name" selects some
# make check         format, lint, types, template
# make docs          generate the API reference, the differences from Llama Stack and the map of tests
# make template      generate the paths of the API's definition, and the permissions to call functions, from the routes
# make golden        record the golden transcripts of all scenarios again; review their diff
# make rights        record the AWS calls of the functions again, for the test of their rights
# make set-up        install what checks, tests and smoke tests need
# make build         build the stack with SAM, for Python 3.13
# make smoke         run the built stack in emulators of Lambda and of AWS
# make bench         print figures next to their bars and write bench.json, then run the tests that judge times
# make bench-load    send everything at once for a minute, then turns for five; fail if a request fails or memory grows
# make bench-peer    measure next to Llama Stack 0.2.12 and write bench-peer.json
# make side-by-side  run the clients' scenarios against Llama Stack 0.2.12 too; print each difference without a reason
# make clients       run the table of scenarios with every version of every client
# make guards        remove every guard against a race or a loss of power, one by one, and print the test that fails
# make mutants       change engine, store and services in many small ways, and print the changes that no test detects
# make torture       kill the server a hundred times amid requests; fail if acknowledged data is lost or duplicated
# make lost-power    simulate a loss of power at forty moments; fail if acknowledged data is lost
# make attack        attack a real server in every way that once succeeded; print each bar with the measured value
# make explore       run the tests marked nightly, with a new seed
# make nightly       explore, guards, torture, attack, lost-power and build, within an hour
# docs/internals/proof.md describes the proofs.

# Bytecode stays on: without it, every process and worker of a test compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# uv installs in a second what takes pip a minute. It reads no settings of pip, so it is given pip's index.
UV := $(BIN)/uv
UV_READY := $(VENV)/uv-ready
INDEX = $${UV_DEFAULT_INDEX:-$${PIP_INDEX_URL:-$$($(PYTHON) -m pip config get global.index-url 2> /dev/null || true)}}
INSTALL = @index="$(INDEX)"; [ -z "$$index" ] || export UV_DEFAULT_INDEX="$$index"; $(UV) pip install --quiet
SAM := .sam
READY := $(VENV)/ready
DEV_READY := $(VENV)/dev-ready
# The vectors of the default embedding model; without them a server starts, and its embeddings are hashed words.
EMBEDDINGS := shared/turnstone-embeddings/static.f16
FETCH := $(BIN)/python -m turnstone.adapters.embedding.fetching static $(dir $(EMBEDDINGS)) || true
MUTANTS_READY := $(VENV)/mutants-ready
# The tests, compiled once: else each process of a first run compiles all of them.
TESTS_READY := $(VENV)/tests-ready
SAM_READY := $(SAM)/ready
LAMBDA := .lambda
LAMBDA_READY := $(LAMBDA)/ready
MINISTACK := .ministack
MINISTACK_READY := $(MINISTACK)/ready
# Lambda's Python: python3.13 of the PATH if it runs, else pyenv's own, because SAM does not accept pyenv's shim.
PYTHON313 ?= $(firstword $(foreach candidate,python3.13 $(shell pyenv prefix 3.13 2>/dev/null)/bin/python3.13,\
	$(shell $(candidate) -c 'import sys; print(sys.executable)' 2>/dev/null)))
# The clients of `make test`, and the further ones of `make clients`. TypeScript's need npm; without it their tests are skipped.
CLIENTS := 0.0.63 0.2.12 0.2.23 0.3.5 openai letta letta-1 typescript-0.3.0
MORE_CLIENTS := 0.0.53 0.0.57 0.1.9 0.2.0 0.2.20 typescript-0.2.23
CLIENTS_READY := $(CLIENTS:%=.clients/%/ready)
MORE_CLIENTS_READY := $(MORE_CLIENTS:%=.clients/%/ready)
# The dependencies of TypeScript clients are resolved as of this date.
NPM_BEFORE := 2026-11-22

# Temporary files of tests are in memory if there is room, so that no test waits for a disk. Tests of a loss of power derive
# the disk's content from recorded system calls. Benchmarks use the disk: see tests/benchmarks.
IN_MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 2000000 {print $$6}')

# Workers without tests take over tests of others.
PYTEST = PYTEST_DEBUG_TEMPROOT=$(IN_MEMORY) $(BIN)/python -m pytest -n 4 --dist worksteal \
	-o tmp_path_retention_policy=failed

# The peer, Llama Stack 0.2.12, has an environment of its own (Python 3.11 or 3.12) and a run configuration.
PEER := .peer
PEER_READY := $(PEER)/ready
PEER_REQUIREMENTS ?= ../shared/peers/llama-stack-requirements.txt
PEER_CONFIG ?= ../shared/peers/llama-stack-run.yaml
PEER_PYTHON ?= $(PYTHON)

.PHONY: run set-up compile-tests test check check-style check-types check-template docs template rights golden build smoke smoke-table smoke-functions bench bench-load bench-peer side-by-side torture lost-power guards mutants attack clients explore nightly clean

run: $(READY)
	@test -f $(EMBEDDINGS) || $(FETCH)
	@$(BIN)/python -m turnstone serve

set-up: $(DEV_READY) $(CLIENTS_READY) $(SAM_READY) $(MINISTACK_READY)

compile-tests: $(TESTS_READY)

test: $(DEV_READY) $(CLIENTS_READY) $(TESTS_READY)
	$(PYTEST) -m "not alone and not nightly" $(ARGS)

check: check-style check-types check-template

check-style: $(DEV_READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

check-types: $(DEV_READY)
	$(BIN)/mypy

check-template: $(DEV_READY) $(SAM_READY)
	SAM_CLI_TELEMETRY=0 $(SAM)/bin/sam validate --lint
	@$(BIN)/python -m tests.integration.rights.figures

docs: $(DEV_READY)
	@$(BIN)/python -m tests.docs

rights: $(DEV_READY)
	$(BIN)/python -m tests.integration.rights

template: $(DEV_READY)
	@$(BIN)/python -m tests.template

golden: $(DEV_READY)
	@$(BIN)/python -m tests.golden $(ARGS)

build: $(SAM_READY) $(LAMBDA_READY)
	@began=$$(date +%s) && PATH="$(CURDIR)/$(LAMBDA)/bin:$$PATH" SAM_CLI_TELEMETRY=0 $(SAM)/bin/sam build $(BUILT) && \
		echo "built in $$(($$(date +%s) - began)) s; a function, and the layer for either kind of processor, unpacked:" && \
		cd .aws-sam/build && du -sh CreateTurn Runtime*

# The layer for the other kind of processor is built by `make build`, which `make nightly` runs.
smoke-functions: BUILT := --exclude $(if $(filter aarch64 arm64,$(shell uname -m)),RuntimeX86,RuntimeArm)

# Both wait much, so that `make --jobs=2 smoke` takes little more than the longer of them.
smoke: smoke-table smoke-functions

smoke-table: $(DEV_READY) $(MINISTACK_READY)
	$(BIN)/python -m tests.support.aws.emulator $(CURDIR)/$(MINISTACK)/bin/python $(BIN)/python -m pytest tests/contract/store/test_real_table.py

smoke-functions: build $(DEV_READY) $(MINISTACK_READY) $(CLIENTS_READY)
	$(BIN)/python -m pytest tests/smoke -n 3 --dist loadfile $(ARGS)

bench: $(DEV_READY)
	$(BIN)/python -m tests.benchmarks $(ARGS)
	$(BIN)/python -m pytest -m alone

bench-load: $(DEV_READY)
	$(BIN)/python -m tests.benchmarks.mixed_load $(ARGS)

bench-peer: $(DEV_READY) $(PEER_READY)
	$(BIN)/python -m tests.benchmarks.peer --peer-python $(PEER)/bin/python --peer-config $(PEER_CONFIG) $(ARGS)

side-by-side: $(DEV_READY) $(PEER_READY) $(CLIENTS_READY) $(MORE_CLIENTS_READY)
	$(BIN)/python -m tests.beside --peer-python $(PEER)/bin/python --peer-config $(PEER_CONFIG) $(ARGS)

guards: $(DEV_READY)
	$(BIN)/python -m tests.guards $(ARGS)

torture: $(DEV_READY)
	$(BIN)/python -m tests.e2e.torture $(ARGS)

attack: $(DEV_READY)
	$(BIN)/python -m tests.attack $(ARGS)

clients: $(DEV_READY) $(CLIENTS_READY) $(MORE_CLIENTS_READY)
	$(PYTEST) $(addprefix tests/e2e/clients/test_,client_table.py every_method.py 2024_clients.py official_clients.py \
		completions_clients.py set_up_scripts.py) tests/e2e/tools/test_mcp_tools.py $(ARGS)

explore: $(DEV_READY) $(CLIENTS_READY) $(MORE_CLIENTS_READY)
	$(PYTEST) -m nightly $(ARGS)

nightly: $(DEV_READY)
	@$(BIN)/python -m tests.nightly $(ARGS)

lost-power: $(DEV_READY)
	$(BIN)/python -m tests.e2e.lost_power $(ARGS)

mutants: $(MUTANTS_READY)
	$(BIN)/python -m tests.mutants $(ARGS)

clean:
	rm -rf $(VENV) $(dir $(EMBEDDINGS)) $(SAM) $(LAMBDA) $(MINISTACK) $(PEER) .clients .aws-sam build *.egg-info

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Turnstone needs Python 3.11 or newer; name one: make PYTHON=python3.12 ...")'
	@echo "setting up $(VENV), once"
	@$(PYTHON) -m venv $(VENV)

$(UV_READY): $(BIN)/python constraints.txt
	@$(BIN)/python -m pip --disable-pip-version-check --quiet install --constraint constraints.txt uv
	@touch $@

$(READY): $(UV_READY) pyproject.toml constraints.txt
	$(INSTALL) --python $(VENV) --constraint constraints.txt hatchling
	$(INSTALL) --python $(VENV) --constraint constraints.txt --no-build-isolation --editable .
	@touch $@

$(DEV_READY): $(READY)
	$(INSTALL) --python $(VENV) --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@test -f $(EMBEDDINGS) || $(FETCH)
	@touch $@

$(TESTS_READY): $(DEV_READY)
	@$(BIN)/python -m pytest --collect-only --quiet > /dev/null
	@touch $@

$(MUTANTS_READY): $(DEV_READY)
	$(INSTALL) --python $(VENV) --constraint constraints.txt --no-build-isolation --editable '.[mutants]'
	@touch $@

# SAM pins versions of its own, so it has an environment of its own.
$(SAM_READY): $(UV_READY) constraints-sam.txt
	@echo "setting up $(SAM), once"
	@$(UV) venv --quiet --clear --python $(PYTHON) $(SAM)
	$(INSTALL) --python $(SAM) --constraint constraints-sam.txt aws-sam-cli
	@touch $@

# Lambda's environment: Python 3.13 with nothing but pip, which SAM builds with, and, in a folder of its own, the client of
# the runtime interface.
$(LAMBDA_READY): $(UV_READY) constraints-smoke.txt
	@test -n "$(PYTHON313)" || { echo "Lambda runs Python 3.13 and there is none here; install it, or name one: make PYTHON313=... $(MAKECMDGOALS)"; exit 1; }
	@echo "setting up $(LAMBDA), once"
	@rm -rf $(LAMBDA)
	@$(PYTHON313) -m venv $(LAMBDA)
	$(INSTALL) --python $(LAMBDA) --constraint constraints-smoke.txt --target $(LAMBDA)/client awslambdaric
	@touch $@

# ministack pins botocore, and runs functions in its own interpreter.
$(MINISTACK_READY): constraints-smoke.txt $(LAMBDA_READY)
	@echo "setting up $(MINISTACK), once"
	@rm -rf $(MINISTACK)
	@$(LAMBDA)/bin/python -m venv --without-pip $(MINISTACK)
	$(INSTALL) --python $(MINISTACK) --constraint constraints-smoke.txt ministack aws-sam-translator
	@touch $@

$(PEER_READY): $(PEER_REQUIREMENTS)
	@$(PEER_PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)) and "the peer needs Python 3.11 or 3.12; name one: make PEER_PYTHON=python3.12 bench-peer")'
	@echo "setting up $(PEER), once"
	@rm -rf $(PEER)
	@$(PEER_PYTHON) -m venv $(PEER)
	@$(PEER)/bin/python -m pip --disable-pip-version-check --quiet install --requirement $(PEER_REQUIREMENTS)
	@touch $@

# The clients, unmodified, each in a folder of its own. The dependencies of Python's are in the dev environment or in
# constraints-clients.txt. Versions since 0.2.20 declare Python 3.12 but run on 3.11 as well.
.clients/openai/ready: $(UV_READY) constraints-clients.txt
	@rm -rf $(@D)
	$(INSTALL) --python $(VENV) --no-deps --target $(@D) --requirement constraints-clients.txt
	@touch $@

.clients/letta/ready: $(UV_READY)
	@rm -rf $(@D)
	$(INSTALL) --python $(VENV) --no-deps --target $(@D) letta-client==0.1.16 httpx-sse==0.4.0
	@touch $@

.clients/letta-1/ready: $(UV_READY)
	@rm -rf $(@D)
	$(INSTALL) --python $(VENV) --no-deps --target $(@D) letta-client==1.12.0
	@touch $@

.clients/typescript-%/ready:
	@rm -rf $(@D)
	@command -v npm > /dev/null || { echo "no npm here, so the tests of the TypeScript client are skipped; Debian has it in its package npm"; exit 0; } && \
		mkdir -p $(@D) && echo '{"private": true}' > $(@D)/package.json && \
		npm install --prefix $(@D) --before $(NPM_BEFORE) --no-package-lock --ignore-scripts --no-audit --no-fund --loglevel error \
			llama-stack-client@$* > /dev/null && touch $@

.clients/%/ready: $(UV_READY)
	@rm -rf $(@D)
	$(INSTALL) --python $(VENV) --no-deps --python-version 3.12 --target $(@D) llama-stack-client==$*
	@touch $@
