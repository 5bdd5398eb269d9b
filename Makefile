PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)
BIN := .venv/bin
STAMP := .venv/.stamp
TYPED := simaccel tests $(wildcard validation/*/*.py benchmarks/*.py examples/*.py)

# Byte code is kept, whatever the shell says: tests would be compiled anew each time.
export PYTHONDONTWRITEBYTECODE :=
# numpy's threads wait for one another by turning: beside other processes a product takes ten times the work.
export OPENBLAS_NUM_THREADS := 1

.DEFAULT_GOAL := help
.PHONY: help setup run test check validate bench golden site clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with the locked requirements and simaccel (editable)

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; v = sys.version_info; \
	  v >= (3, 11) or sys.exit("simaccel needs Python 3.11 or newer; $(PYTHON) is %d.%d. Try: make setup PYTHON=..." % v[:2])'
	$(PYTHON) -m venv --clear .venv
	@# half of them each at once: the lock names all that any of them needs
	xargs -n 60 -P 2 $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --no-deps < requirements.lock
	@$(BIN)/python -m pip check --quiet
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@# of what is installed, byte code of what is used: that of all takes half a minute
	@$(BIN)/python -c 'import distributed, h5py, lark, matplotlib.pyplot, onnx, pandas, pyarrow, pydantic, pytest, rich.table, simpy, yaml'
	@touch $@

run: setup ## compare the flex and flat dataflows on BERT and write a trace to out/
	@mkdir -p out
	$(BIN)/simaccel compare --hw edge --workload bert --batch 64 --scope block --dataflow flex,flat --seq-len 512,4096
	$(BIN)/simaccel run --hw edge --workload bert --seq-len 512 --batch 64 --scope block --dataflow flat --trace out/bert512-flat.h5 --force

test: setup ## all tests and doctests
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=10

check: setup ## what CI runs: lint, format, types, tests; prints its CPU seconds
	@$(BIN)/ruff check && $(BIN)/ruff format --check || exit; \
	  $(BIN)/mypy $(TYPED) > .venv/.types 2>&1 & types=$$!; \
	  $(BIN)/python -m pytest -n 2 --dist worksteal --durations=10; tests=$$?; \
	  wait $$types; types=$$?; cat .venv/.types; times > .venv/.times; \
	  awk 'NR == 2 { print "CPU of all checks (user, system):", $$1, $$2 }' .venv/.times; \
	  exit $$((tests ? tests : types))

validate: setup ## against the machine, papers, other tools and RTL (needs iverilog); takes hours
	SIMACCEL_DRAWS=114 $(BIN)/python -m pytest -n 2 --dist worksteal
	$(BIN)/python -m validation.bound.proved
	$(BIN)/python -m validation.bound.run
	$(BIN)/python -m validation.bound.figures
	$(BIN)/python -m validation.graphs.run
	$(BIN)/python -m validation.graphs.catalogue
	$(BIN)/python -m validation.search.run
	$(BIN)/python -m validation.search.brute
	$(BIN)/python -m validation.search.monotone
	$(BIN)/python -m validation.search.supersets
	$(BIN)/python -m validation.frozen.run --processes 2
	$(BIN)/python -m validation.ruby.run
	$(BIN)/python -m validation.ruby.run_networks
	$(BIN)/python -m validation.orojenesis.run
	$(BIN)/python -m validation.orojenesis.attained
	$(BIN)/python -m validation.flat.run
	$(BIN)/python -m validation.fast_forward.run
	$(BIN)/python -m validation.silicon.run
	$(BIN)/python -m validation.silicon.gemmini.run
	$(BIN)/python -m validation.blame.run
	$(BIN)/python -m validation.robust.run
	$(BIN)/python -m validation.explore.run
	$(BIN)/python -m validation.maestro.run
	$(BIN)/python -m validation.language_models.run
	$(BIN)/python -m validation.residency.run
	$(BIN)/python -m validation.onnx.run
	$(BIN)/python -m validation.onnx.values
	$(BIN)/python -m validation.dram.run
	$(BIN)/python -m validation.rtl.run
	$(BIN)/python -m validation.rtl.sequences
	$(BIN)/python -m validation.tpu_v1.run
	$(BIN)/python -m validation.pods.all_chips

bench: setup ## how fast the simulator is
	$(BIN)/python -m benchmarks.run

golden: setup ## rewrite golden programs, traces, pictures, outputs in README and guide; read the diff
	$(BIN)/python -m examples.make_traces
	SIMACCEL_UPDATE_GOLDEN=1 $(BIN)/python -m pytest -n 0 tests/golden tests/examples
	$(BIN)/python -m examples.picture
	$(BIN)/python -m examples.trace_picture

site: setup ## the pages and a Python reference as a web site in out/site; links are checked
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -c requirements.lock -e '.[docs]'
	$(BIN)/python -m sphinx --fail-on-warning --quiet -b html -c docs . out/site
	@echo "out/site/index.html"

clean: ## remove .venv, out/ and caches
	rm -rf .venv out docs/reference/generated build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .coverage htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
