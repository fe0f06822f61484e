# The one list of commands. `make` alone shows it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A place of its own: `uv pip sync` removes what the lock file does not name, itself included.
UV := $(VENV)/uv/bin/uv
STAMP := $(VENV)/.synced
SITE := $(VENV)/site
PURE := not (postgres or mysql or kafka or spark or stack or airflow or acceptance)
ARGS ?=
N ?= 1000
SEED ?= 0
MINUTES ?= 5
FAULTS ?= 60
STEPS ?= 2000
ENGINE ?= narthex_reference.inprocess:engine_of

.DEFAULT_GOAL := help
.PHONY: help setup lock fix check docs test peer acceptance demo up down status bench fuzz fuzz-spark chaos crash model kills sabotage clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## Make the environment that the lock file describes

$(UV):
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv $(VENV)
	$(PYTHON) -m venv $(VENV)/uv
	$(VENV)/uv/bin/python -m pip install --quiet --disable-pip-version-check uv

$(STAMP): requirements.lock pyproject.toml | $(UV)
	$(UV) pip sync --quiet --python $(BIN)/python --compile-bytecode requirements.lock
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --editable .
	$(BIN)/python -c 'import pyspark; assert pyspark.__version__ == "4.3.0", pyspark.__version__'
	@touch $(STAMP)

lock: | $(UV)  ## Compile requirements.in to requirements.lock, with hashes
	$(UV) pip compile --quiet --python-version 3.11 --override overrides.txt --generate-hashes \
	  --output-file requirements.lock requirements.in
	$(UV) pip compile --quiet --python-version 3.11 --generate-hashes \
	  --output-file docs/site/requirements.lock docs/site/requirements.in

fix: setup  ## Format, then fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: setup  ## Everything that needs no service: what a commit must pass
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -m "$(PURE)" $(ARGS)

$(SITE)/.synced: docs/site/requirements.lock | $(UV)
	$(PYTHON) -m venv $(SITE)
	$(UV) pip sync --quiet --python $(SITE)/bin/python docs/site/requirements.lock
	@touch $@

docs: $(SITE)/.synced  ## Build the documentation site in build/site, checking every link
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --quiet
	@echo "build/site/index.html"

test: setup  ## All tests; some of them: make test ARGS="-m spark tests/stores"
	$(BIN)/pytest $(ARGS)

peer: setup  ## The 150 tests of Fennel's own client, unmodified, on Narthex (they are downloaded)
	$(BIN)/python -m tests.peer $(ARGS)

acceptance: setup  ## A person's paths through the whole platform
	$(BIN)/pytest -m acceptance $(ARGS)

demo: setup  ## Start everything, run the flights example, show what it says
	$(BIN)/python -m examples.flights.demo $(ARGS)

up: setup  ## Start the services of this machine
	$(BIN)/narthex up $(ARGS)

down: setup  ## Stop the services of this machine; with their state: make down ARGS=--wipe
	$(BIN)/narthex down $(ARGS)

status: setup  ## Say what runs
	$(BIN)/narthex status $(ARGS)

bench: setup  ## Measure latency and throughput
	$(BIN)/python -m bench $(ARGS)

fuzz: setup  ## Compare an engine with the reference: make fuzz N=1000 SEED=0 ENGINE=module:factory
	$(BIN)/python -m narthex_reference.fuzz --n $(N) --seed $(SEED) --engine $(ENGINE)

fuzz-spark: setup  ## Compare Kafka, Spark, stages and indexes with the reference: make fuzz-spark N=200 SEED=0
	$(BIN)/python -m tests.differential --n $(N) --seed $(SEED) $(ARGS)

chaos: setup  ## Kill processes at random under load: make chaos SEED=0 MINUTES=5 FAULTS=60
	$(BIN)/python -m tests.chaos --seed $(SEED) --minutes $(MINUTES) --faults $(FAULTS) $(ARGS)

crash: setup  ## Let each call and transaction of the ledger go wrong, alone and (N=) in pairs
	$(BIN)/python -m tests.crash --n $(N) --seed $(SEED) $(ARGS)

model: setup  ## Let commits, crashes, time and collectors meet at random: make model STEPS=100000 SEED=0
	$(BIN)/python -m tests.crash.model --steps $(STEPS) --seed $(SEED) $(ARGS)

kills: setup  ## Kill and stop processes in the middle of commits, on real Kafka and PostgreSQL: make kills N=300
	$(BIN)/python -m tests.crash.kills --n $(N) --seed $(SEED) $(ARGS)

sabotage: setup  ## Switch each guard of the ledger off, and show which test notices
	$(BIN)/python -m tests.crash.noticing $(ARGS)

clean:  ## Delete what was made here: environment, caches, builds
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
