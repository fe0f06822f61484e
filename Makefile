# All commands of the project; `make` alone lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A separate environment: `uv pip sync` removes everything that the lock file does not name, uv included.
UV := $(VENV)/uv/bin/uv
STAMP := $(VENV)/.synced
# Of the sources that need a client, those that tests run against a service.
EXTRAS := platform mysql redshift mongodb kinesis
SITE := $(VENV)/site
AUDIT := $(VENV)/audit
KUBERNETES := build/kubernetes
KUBERNETES_MODULE := tests/stack/kubernetes
SHORT := path or not (acceptance or wheels or slow or nightly)
IN_PROCESSES = $(BIN)/python -m pytest -p tests.whole_files -n $(PROCESSES) --no-loadscope-reorder
ARGS ?=
N ?= 1000
SEED ?= 0
MINUTES ?= 5
FAULTS ?= 60
STEPS ?= 2000
ENGINE ?= narthex_reference.inprocess:engine_of
PROCESSES ?= 3

.DEFAULT_GOAL := help
.PHONY: help setup lock wheel fix check docs test test-all nightly peer acceptance screens demo up down status bench bench-serving fuzz fuzz-spark fuzz-http chaos hosts crash model kills faults sbom audit kubernetes clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## Create the environment from the lock file

$(UV): requirements-build.lock
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv $(VENV)
	$(PYTHON) -m venv $(VENV)/uv
	$(VENV)/uv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

$(STAMP): requirements.lock pyproject.toml | $(UV)
	$(UV) pip sync --quiet --python $(BIN)/python --compile-bytecode requirements.lock
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --build-constraints requirements-build.lock \
	  --require-build-hashes --editable .
	$(BIN)/python -c 'import pyspark; assert pyspark.__version__ == "4.3.0", pyspark.__version__'
	@touch $(STAMP)

lock: | $(UV)  ## Compile pyproject.toml to requirements.lock, and the other lock files, with hashes
	$(UV) pip compile --quiet --python-version 3.11 --generate-hashes --no-emit-package narthex \
	  $(addprefix --extra ,$(EXTRAS)) --group dev --output-file requirements.lock pyproject.toml
	$(UV) pip compile --quiet --python-version 3.11 --generate-hashes --no-emit-package narthex --constraint requirements.lock \
	  $(addprefix --extra ,$(EXTRAS)) --no-annotate --output-file docker/requirements.lock pyproject.toml
	$(UV) pip compile --quiet --python-version 3.11 --generate-hashes \
	  --output-file docs/site/requirements.lock docs/site/requirements.in
	$(UV) pip compile --quiet --python-version 3.11 --generate-hashes \
	  --output-file tests/supply_chain/requirements.lock tests/supply_chain/requirements.in
	$(UV) pip compile --quiet --python-version 3.11 --generate-hashes \
	  --output-file requirements-build.lock requirements-build.in

wheel: | $(UV)  ## Build the wheel of narthex in build/wheel
	rm -rf build/wheel
	$(UV) build --quiet --wheel --build-constraint requirements-build.lock --require-hashes --out-dir build/wheel .
	@ls build/wheel

fix: setup  ## Format the code and apply automatic fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: setup  ## Check the format, the style, the types and the layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(SITE)/.synced: docs/site/requirements.lock | $(UV)
	$(PYTHON) -m venv $(SITE)
	$(UV) pip sync --quiet --python $(SITE)/bin/python docs/site/requirements.lock
	@touch $@

docs: $(SITE)/.synced  ## Build the documentation site in build/site, checking every link
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --quiet
	@echo "build/site/index.html"

test: setup  ## Run what a change can commonly break; at most 8 minutes on two cores
	$(IN_PROCESSES) -m "$(SHORT)" $(ARGS)

test-all: setup  ## Run all tests but the nightly ones, or some: make test-all ARGS="-m spark tests/stores"
	$(IN_PROCESSES) -m "not nightly" $(ARGS)

nightly: setup kubernetes  ## Run the tests that take hours: upgrades, Kubernetes, chaos, hosts, kills and fuzz
	$(IN_PROCESSES) -m nightly $(ARGS)
	$(MAKE) crash kills model chaos hosts faults fuzz fuzz-spark fuzz-http

peer: setup  ## Download the 150 tests of Fennel's client and run them unmodified on Narthex
	$(BIN)/python -m tests.peer $(ARGS)

acceptance: setup  ## Run the acceptance tests on the whole platform
	$(BIN)/pytest -m acceptance $(ARGS)

screens: setup  ## Take the guides' pictures of the console; some of them: make screens ARGS="-k jobs"
	$(BIN)/pytest -q tests/server/console/guide_pictures.py $(ARGS)

demo: setup  ## Start everything and run the flights example
	$(BIN)/python -m examples.flights.demo $(ARGS)

demo-quality: setup  ## Start everything; break, drift, quarantine and erase rows, and see the reports
	$(BIN)/python -m examples.quality.demo $(ARGS)

up: setup  ## Start the services of this machine
	$(BIN)/narthex up $(ARGS)

down: setup  ## Stop the services of this machine; also delete their state: make down ARGS=--wipe
	$(BIN)/narthex down $(ARGS)

status: setup  ## Show the services and their health
	$(BIN)/narthex status $(ARGS)

bench: setup  ## Measure latency and throughput
	$(BIN)/python -m bench $(ARGS)

bench-serving: setup  ## Measure answers of /query beside Feast's server, of windows, and while something else happens
	$(BIN)/python -m bench.serving $(ARGS)
	$(BIN)/python -m bench.windows
	$(BIN)/python -m bench.disturbed
	$(BIN)/python -m bench.offline --datasets 5
	$(BIN)/python -m bench.report

fuzz: setup  ## Compare an engine with the reference: make fuzz N=1000 SEED=0 ENGINE=module:factory
	$(BIN)/python -m narthex_reference.fuzz --n $(N) --seed $(SEED) --engine $(ENGINE)

fuzz-spark: setup  ## Compare Kafka, Spark, stages and indexes with the reference: make fuzz-spark N=200 SEED=0 PROCESSES=3
	$(BIN)/python -m tests.differential --n $(N) --seed $(SEED) --processes $(PROCESSES) $(ARGS)

fuzz-http: setup  ## Call every route at random with the tokens of all roles: make fuzz-http N=20000 SEED=0
	$(BIN)/python -m tests.http_fuzz --n $(N) --seed $(SEED) $(ARGS)

chaos: setup  ## Kill processes at random under load: make chaos SEED=0 MINUTES=5 FAULTS=60
	$(BIN)/python -m tests.chaos --seed $(SEED) --minutes $(MINUTES) --faults $(FAULTS) $(ARGS)

hosts: setup  ## Run the platform on three hosts of this machine and lose, cut and slow them (root)
	$(BIN)/python -m tests.hosts --seed $(SEED) $(ARGS)

crash: setup  ## Fail each call and transaction of the ledger, alone and (N=) in pairs
	$(BIN)/python -m tests.crash --n $(N) --seed $(SEED) --processes $(PROCESSES) $(ARGS)

model: setup  ## Test the ledger with random commits, crashes and clock steps: make model STEPS=100000 SEED=0
	$(BIN)/python -m tests.crash.model --steps $(STEPS) --seed $(SEED) $(ARGS)

kills: setup  ## Kill and stop processes during commits, on real Kafka and PostgreSQL: make kills N=300
	$(BIN)/python -m tests.crash.kills --n $(N) --seed $(SEED) $(ARGS)

faults: setup  ## Switch deliberate faults of the product on, one by one, and show which test finds each
	$(BIN)/python -m tests.faults $(ARGS)

$(AUDIT)/.synced: tests/supply_chain/requirements.lock | $(UV)
	$(PYTHON) -m venv $(AUDIT)
	$(UV) pip sync --quiet --python $(AUDIT)/bin/python tests/supply_chain/requirements.lock
	@touch $@

sbom: setup $(AUDIT)/.synced  ## Write the bill of materials to build/narthex.cdx.json
	$(BIN)/python -m tests.supply_chain sbom

audit: setup $(AUDIT)/.synced  ## Look up known vulnerabilities of all dependencies (needs the network)
	$(BIN)/python -m tests.supply_chain audit

$(KUBERNETES)/.built: $(KUBERNETES_MODULE)/go.mod $(KUBERNETES_MODULE)/go.sum
	@echo "compiling Kubernetes and Helm: about 10 minutes of CPU time the first time" >&2
	@CGO_ENABLED=0 GOBIN=$(abspath $(KUBERNETES)) go install -C $(KUBERNETES_MODULE) \
	  -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$$(go list -C $(KUBERNETES_MODULE) -m -f '{{.Version}}' k8s.io/kubernetes)" tool
	@touch $@

kubernetes: $(KUBERNETES)/.built  ## Compile a control plane of Kubernetes and Helm for tests of the chart (needs Go)

clean:  ## Delete the environment, caches and builds
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
