PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check
STAMP := .venv/.stamp
TYPED := conftest.py simaccel tests $(wildcard validation/*.py validation/*/*.py benchmarks/*.py examples/*.py)

# Byte code is kept, whatever the shell says: tests would be compiled anew each time.
export PYTHONDONTWRITEBYTECODE :=
# numpy's threads wait for one another by turning: beside other processes a product takes ten times the work.
export OPENBLAS_NUM_THREADS := 1

# A command whose output is shown if it fails: pip warns of each place that it is told to look in.
quietly = @log=$$(mktemp) && { { $(1); } > "$$log" 2>&1 \
  || { code=$$?; cat "$$log" >&2; rm -f "$$log"; exit $$code; }; } && rm -f "$$log"

.DEFAULT_GOAL := help
.PHONY: help setup run test check validate bench golden site clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with the locked requirements and simaccel (editable)

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; v = sys.version_info; \
	  v >= (3, 11) or sys.exit("simaccel needs Python 3.11 or newer; $(PYTHON) is %d.%d. Try: make setup PYTHON=..." % v[:2])'
	@echo "making .venv: about a minute"
	$(call quietly,$(PYTHON) -m venv --clear .venv)
	@# half of them each at once: the lock names all that any of them needs
	$(call quietly,xargs -n 60 -P 2 $(PIP) --no-compile --no-deps < requirements.lock)
	$(call quietly,$(BIN)/python -m pip check)
	$(call quietly,$(PIP) --no-deps --no-build-isolation -e .)
	@# of what is installed, byte code of what is used: that of all takes half a minute
	@$(BIN)/python -c 'import distributed, h5py, lark, matplotlib.pyplot, onnx, pandas, pyarrow, pydantic, pytest, rich.table, simpy, yaml'
	@touch $@

run: setup ## compare the flex and flat dataflows on BERT and write a trace to out/
	@mkdir -p out
	$(BIN)/simaccel compare --hw edge --workload bert --batch 64 --scope block --dataflow flex,flat --seq-len 512,4096 --set allow-overflow
	$(BIN)/simaccel run --hw edge --workload bert --seq-len 512 --batch 64 --scope block --dataflow flat --trace out/bert512-flat.h5 --force

test: setup ## tests and doctests; `make validate` has longer ones
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=10

check: setup ## what CI runs: lint, format, types, tests; prints its CPU seconds
	@$(BIN)/ruff check && $(BIN)/ruff format --check || exit; \
	  $(BIN)/mypy $(TYPED) > .venv/.types 2>&1 & types=$$!; \
	  $(BIN)/python -m pytest -n 2 --dist worksteal --durations=10; tests=$$?; \
	  wait $$types; types=$$?; cat .venv/.types; times > .venv/.times; \
	  awk 'NR == 2 { print "CPU of all checks (user, system):", $$1, $$2 }' .venv/.times; \
	  exit $$((tests ? tests : types))

validate: setup ## against the machine, papers, other tools and RTL (needs iverilog); takes hours
	$(BIN)/python -m validation

bench: setup ## how fast the simulator is
	$(BIN)/python -m benchmarks.run

golden: setup ## rewrite golden programs, traces, pictures, outputs in README and guide; read the diff
	$(BIN)/python -m examples.make_traces
	SIMACCEL_UPDATE_GOLDEN=1 $(BIN)/python -m pytest -n 0 tests/golden tests/examples
	$(BIN)/python -m examples.picture
	$(BIN)/python -m examples.trace_picture

site: setup ## the pages and a Python reference as a web site in out/site; links are checked
	$(call quietly,$(PIP) --no-build-isolation -c requirements.lock -e '.[docs]')
	$(BIN)/python -m sphinx --fail-on-warning --quiet -b html -c docs . out/site
	@echo "out/site/index.html"

clean: ## remove .venv, out/ and caches
	rm -rf .venv out docs/reference/generated build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .coverage htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
