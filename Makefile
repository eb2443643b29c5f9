# Every target sets up what it needs and is quick when that is done. `make help` lists them.
#
#   PYTHON=…         the interpreter to build .venv with (3.11 or newer; found by itself otherwise)
#   SEED=…           the world `make simulate` replays;  WORLD=…  store (on a disk that fails), interlace, tangles, reactive, raft, membership or transactions
#   FUZZ_SECONDS=…   time per fuzz target;  FUZZ=…  only these targets;  FUZZ_GROW=1  keep new inputs in the corpus
#   ONLY=…           only these questions of `make evidence` or `make bench`
#   UPGRADE=1        let `make lock` move to newer versions

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help

PYTHON ?=
export PYTHON

VENV := .venv
PY := $(VENV)/bin/python
# What a target starts finds the environment's commands first, `bobbin` among them.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export PYTHONUTF8 := 1

SEED ?= 0
WORLD ?= store
FUZZ ?=
FUZZ_SECONDS ?= 60
FUZZ_GROW ?=
ONLY ?=
UPGRADE ?=
# Tests, tour and benchmarks start hundreds of processes. Where this is set, each of them compiles every module again.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(PY) -m pytest -n 2 --dist worksteal

.PHONY: help setup setup-fuzz demo test evidence check format bench bench-network fuzz simulate rewrite docs lock clean
.PHONY: chromium etcd git h2load node syncthing valgrind

help: ## list the targets
	@sed -nE 's/^([a-z%-]+):.*## (.*)/\1|\2/p' $(MAKEFILE_LIST) | sed 's/bench-%/bench-<name>/' | while IFS='|' read -r name text; do printf '  make %-14s %s\n' "$$name" "$$text"; done

setup: ## build .venv from the locks
	@scripts/environment dev

setup-fuzz:
	@scripts/environment fuzz

chromium:
	@scripts/system-packages chromium

etcd:
	@scripts/system-packages etcd

git:
	@scripts/system-packages git

h2load:
	@scripts/system-packages h2load

node:
	@scripts/system-packages node

syncthing:
	@scripts/system-packages syncthing

valgrind:
	@scripts/system-packages valgrind

demo: setup ## a tour of the product, in a temporary folder
	@$(PY) -m demo

test: setup chromium git node valgrind ## the whole suite, on fixed samples
	@rm -f .pytest_cache/v/cache/lastfailed
	$(PYTEST) --hypothesis-profile=test || scripts/second-look --hypothesis-profile=test

check: setup git ## the one command before a commit: format, lint, types, imports, fast tests
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-logo
	$(PYTEST) --hypothesis-profile=check -m "not slow" -q

format: setup ## rewrite the code in the house format
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

evidence: setup git ## the full counts behind docs/evidence.md (long)
	$(PY) -m evidence $(ONLY)

bench: setup etcd git h2load node syncthing ## every benchmark; writes docs/benchmarks.md
	$(PY) -m benchmarks $(ONLY)

bench-network: setup git node syncthing ## two processes against four peers, and many links on one node (long)
	$(PY) -m benchmarks network network-links

bench-cluster: setup etcd h2load ## a replicated store against PySyncObj and etcd, and its failover
	$(PY) -m benchmarks cluster

bench-%: setup git node ## one benchmark
	$(PY) -m benchmarks $*

fuzz: setup-fuzz ## fuzz every decoder for FUZZ_SECONDS each
	$(PY) -m tests.fuzz --seconds $(FUZZ_SECONDS) $(if $(FUZZ_GROW),--grow) $(FUZZ)

simulate: setup ## replay the world of SEED; WORLD=interlace, tangles, reactive, raft, membership or transactions for machines
	$(PY) -m bobbin.simulator --world $(WORLD) --seed $(SEED)

rewrite: setup ## renew the golden files; review the diff
	@[ -d tests/golden ] || { echo "There is no tests/golden yet, so nothing to renew."; exit 1; }
	$(PY) -m pytest tests/golden --rewrite

docs: setup ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet --site-dir site
	@echo "The documentation is in site/index.html"

lock: setup ## make requirements/*.lock again from pyproject.toml
	@scripts/lock $(if $(UPGRADE),--upgrade)

clean: ## remove everything make made
	rm -rf $(VENV) .venv.lock site build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -f src/bobbin/native/liblazily.*
	find . -name node_modules -prune -exec rm -rf {} + -o -name __pycache__ -prune -exec rm -rf {} +
