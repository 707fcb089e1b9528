# Everything a checkout needs, on a machine with git, make and Python 3.11. `make help` lists the targets.
#
# PYTHON    the Python that makes the virtual environment (3.11 or newer); for `make law`, the one that runs the programs
# TORCH     auto, cpu or cuda: the build of PyTorch for the workloads; auto is cuda if there is an NVIDIA driver
# WORKLOAD  the program that `make profile` profiles, and ARGS its arguments; for `make law`, options and parts of names
# TESTS     what `make test` and `make quick` pass to pytest
# WORKERS   how processes share the test files. There are three processes more than cores, because part of the time of the
#           tests is spent waiting: for nsys, browsers and time limits. Each further one imports and collects all tests
#           again. Long files come first (tests/conftest.py), so all end together. The tests of `make quick` wait for
#           nothing, so it has one process for each core.

PYTHON ?= python3
TORCH ?= auto
WORKLOAD ?= workloads/mnist.py
ARGS ?=
TESTS ?=
MORE := 3
WORKERS ?= --numprocesses $$(($$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) + $(MORE))) --dist loadfile --no-loadscope-reorder

VENV := .venv
PY := $(VENV)/bin/python
SETUP := PYTHON="$(PYTHON)" TORCH="$(TORCH)" tools/setup.sh
SOURCES := nsyswrap workloads tests tools bench

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# pip must not write to one environment twice at the same time.
.NOTPARALLEL:
# Tests start some hundred processes. Without bytecode, each compiles nsyswrap again.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help profile test quick check format docs site reports gallery faults overhead bench instructions law fuzz soak release lock nsys nsys-if-possible browser

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

profile: $(VENV)/.base $(VENV)/.torch nsys ## set up, profile some steps of the MNIST example and write its report
	$(PY) -m nsyswrap profile --stop-after $(WORKLOAD) $(ARGS)

test: $(VENV)/.base $(VENV)/.dev $(VENV)/.site $(VENV)/.torch nsys-if-possible browser ## set up and run all tests but the thorough ones
	$(PY) -m pytest $(WORKERS) $(or $(TESTS),-m "not thorough")

quick: MORE := 0
quick: $(VENV)/.base $(VENV)/.dev ## run the fast tests: no browser, no nsys, no whole captures
	$(PY) -m pytest $(WORKERS) -m "not browser and not nsys and not slow and not thorough" $(TESTS)

check: $(VENV)/.base $(VENV)/.dev $(VENV)/.site $(VENV)/.torch $(VENV)/.trainers nsys-if-possible browser ## all that a change must pass: format, lint, types, all tests with coverage, docs
	$(PY) -m ruff format --check $(SOURCES)
	$(PY) -m ruff check $(SOURCES)
	$(PY) -m mypy --strict $(SOURCES)
	$(PY) tools/cli_reference.py --check
	$(PY) tools/glossary_page.py --check
	$(PY) -m pytest $(WORKERS) --cov --cov-branch $(TESTS)

format: $(VENV)/.dev ## format the source and fix what ruff can fix
	$(PY) -m ruff format $(SOURCES)
	$(PY) -m ruff check --fix $(SOURCES)

docs: $(VENV)/.base ## write docs/cli.md and docs/glossary.md from the code
	$(PY) tools/cli_reference.py
	$(PY) tools/glossary_page.py

site: $(VENV)/.base $(VENV)/.site ## build documentation, gallery and Python reference as one site in build/site
	$(PY) tools/build_site.py

reports: $(VENV)/.base ## render reports/samples and reports/programs again from their captures, and the pages about reports/gallery
	$(PY) tools/sample_reports.py
	$(PY) tools/known_programs.py --again
	$(PY) tools/gallery.py --again

gallery: $(VENV)/.base $(VENV)/.torch nsys ## profile the cases of the literature on a GPU and write docs/results.md
	$(PY) tools/gallery.py

faults: $(VENV)/.base $(VENV)/.torch nsys ## plant faults, profile them on a GPU and write docs/faults.md
	$(PY) tools/judge_plans.py
	$(PY) tools/judge_faults.py

overhead: $(VENV)/.base $(VENV)/.torch nsys ## run programs alone and under nsys on a GPU and write docs/overhead.md
	$(PY) tools/measure_overhead.py

bench: $(VENV)/.base ## time nsyswrap with the programs in bench/
	@set -e; for program in bench/bench_*.py; do echo "$$program"; $(PY) "$$program"; done

instructions: $(VENV)/.base ## count the instructions of fixed cases with valgrind, and compare them with the kept counts
	$(PY) bench/count_instructions.py

law: $(VENV)/.base $(VENV)/.dev $(VENV)/.torch ## run programs alone and marked, and show what differs; PYTHON=... is their Python
	$(PY) tests/support/law.py $(if $(filter command,$(firstword $(origin PYTHON))),--python "$(PYTHON)") $(ARGS)

fuzz: $(VENV)/.base $(VENV)/.dev ## read random exports until Ctrl-C, and print what fails
	$(PY) tools/fuzz.py

soak: $(VENV)/.base $(VENV)/.torch nsys ## use nsyswrap for an hour beside load, kills and a full disk
	$(PY) tools/soak.py

release: $(VENV)/.base ## build the wheel, the sdist and the list of parts in dist/, and try them with each Python
	$(PY) tools/release.py

lock: $(VENV)/.base ## pin the newest versions that pyproject.toml allows, in requirements/
	$(PY) tools/lock.py

# The virtual environment. Each stamp is one finished step, made again when its prerequisites change.
$(VENV)/.made: tools/setup.sh
	@$(SETUP) venv && touch $@

$(VENV)/.base: $(VENV)/.made requirements/base.lock pyproject.toml
	@$(SETUP) base && touch $@

$(VENV)/.dev: $(VENV)/.made requirements/dev.lock
	@$(SETUP) dev && touch $@

$(VENV)/.site: $(VENV)/.made requirements/site.lock
	@$(SETUP) site && touch $@

$(VENV)/.torch: $(VENV)/.made requirements/torch-cpu.lock requirements/torch-cuda.lock
	@$(SETUP) torch && touch $@

$(VENV)/.trainers: $(VENV)/.torch requirements/trainers.lock
	@$(SETUP) trainers && touch $@

# These check the machine, so they run each time; they do nothing if nothing is missing.
nsys: $(VENV)/.base
	@$(PY) -m nsyswrap setup

nsys-if-possible: $(VENV)/.base
	@$(PY) -c 'from nsyswrap.capture.locate import find_nsys; find_nsys()' 2>/dev/null || $(PY) -m nsyswrap setup \
	  || echo "setup: without nsys the tests that run it are skipped"

browser:
	@$(SETUP) browser
