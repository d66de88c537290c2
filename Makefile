# Every target sets up what it needs in .venv; a bare `make` prints this list.
PYTHON ?= python3
BIN := .venv/bin
OUT ?= out
DATA ?= tests/data
PYTEST_JOBS ?= 2

# Tests start hundreds of processes, and each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run shell check test test-deep test-slow test-kafka test-clients confirm audit-truth conformance connect-rounds zoo bench bench-wire bench-check diagrams clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: Python 3.11 or later is needed, $(PYTHON) is $$($(PYTHON) -V 2>&1); set PYTHON=..." >&2; exit 2; }
	$(PYTHON) -m venv .venv

.venv/.user: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[spark,diagrams]'
	@touch $@

.venv/.dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ .venv/.user

run: .venv/.user ## audit recorded logs of real clients on Spark, check the diagrams, print where the report is
	@$(BIN)/python tests/run.py --out $(OUT)/run

shell: .venv/.user ## a shell with the command fsm on its PATH
	@PATH="$(CURDIR)/.venv/bin:$$PATH" $${SHELL:-sh}

check: .venv/.dev ## format, lint, types, layers, generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=. $(BIN)/lint-imports
	$(BIN)/fsm draw --check -o diagrams
	$(BIN)/fsm tables --format stub | cmp - fsm/tables/models.pyi

test: .venv/.dev ## the tests without external requirements, each thing tested once
	$(BIN)/python -m pytest -n $(PYTEST_JOBS) --dist loadfile -m 'not deep and not slow and not kafka and not clients'

test-deep: .venv/.dev ## the same, deeper: more seeds, larger spaces, killed processes
	$(BIN)/python -m pytest -n $(PYTEST_JOBS) --dist loadfile -m 'deep and not slow and not kafka and not clients'

test-slow: .venv/.dev ## millions of random steps
	$(BIN)/python -m pytest -n $(PYTEST_JOBS) -m slow

test-kafka: .venv/.dev ## a real Apache Kafka beside our coordinator, and our member beside other clients on it (needs a JDK and mvn)
	@$(BIN)/python tests/conformance/kafka_broker.py
	$(BIN)/python -m pytest -n $(PYTEST_JOBS) --dist loadgroup -m kafka tests/conformance tests/capture tests/join tests/cli tests/serve

test-clients: .venv/.dev ## our brokers beside real clients of other languages, and the page in a browser (needs java, mvn, node, go, chromium, kcat)
	$(BIN)/python -m pytest -n $(PYTEST_JOBS) --dist loadfile -m clients

confirm: .venv/.dev ## the weak spots that the checker finds, reproduced on a real Apache Kafka (needs a JDK and mvn)
	@$(BIN)/python tests/conformance/kafka_broker.py
	@$(BIN)/python tests/conformance/confirm.py

audit-truth: .venv/.dev ## precision and recall of the audit against what applications saw; DATA=DIR for other recordings
	@$(BIN)/python tests/truth.py $(DATA)

conformance: .venv/.dev ## our coordinator compared with recorded walks of Apache Kafka; DATA=DIR for other recordings
	@$(BIN)/python tests/conformance.py $(filter-out tests/data,$(DATA))

connect-rounds: .venv/.dev ## recorded Connect clusters compared with the assignor and the worker's table; DATA=DIR for others
	@$(BIN)/python tests/connect_rounds.py $(filter-out tests/data,$(DATA))

zoo: .venv/.dev ## real bugs of Kafka and its clients, planted in our code, and the check that catches each
	@$(BIN)/python tests/zoo.py

bench: .venv/.dev ## ratios against transitions, a plain dict, Kafka's assignors, single-process Python and DuckDB
	@$(BIN)/python tests/bench/start.py
	@$(BIN)/python tests/bench/dispatch.py
	@$(BIN)/python tests/bench/population.py
	@$(BIN)/python tests/bench/member.py
	@$(BIN)/python tests/bench/codec.py
	@$(BIN)/python tests/bench/assignors.py
	@$(BIN)/python tests/bench/coordinator.py
	@$(BIN)/python tests/bench/audit.py
	@$(BIN)/python tests/bench/check.py

bench-wire: .venv/.dev ## heartbeats a second over sockets: fsm serve, a real Apache Kafka, librdkafka's mock (needs java and mvn)
	@$(BIN)/python tests/bench/wire.py

bench-check: .venv/.dev ## what fsm check costs: states and transitions a CPU second, bytes a state, against one state at a time; TLC=tla2tools.jar for TLC beside it
	@$(BIN)/python tests/bench/check.py $(if $(TLC),--tlc '$(TLC)')

diagrams: .venv/.user ## draw every table again (needs the program dot)
	$(BIN)/fsm draw -o diagrams --format dot,svg,mermaid,plantuml,markdown
	$(BIN)/fsm tables --format stub > $(OUT).models.pyi && mv $(OUT).models.pyi fsm/tables/models.pyi

clean: ## remove all generated files, .venv included
	rm -rf .venv $(OUT) build dist .mypy_cache .ruff_cache .import_linter_cache .hypothesis .pytest_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
