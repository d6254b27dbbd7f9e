# `make demo` and `make test` do everything on a machine with Python 3.11 and make: each makes .venv by itself the first time.
PYTHON ?= python3.11
BIN := .venv/bin
export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: demo test test-xla notebooks test-slow lint format bench docs dist bounds clean

demo: .venv/installed
	$(BIN)/wcd demo

test: .venv/installed
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

# With XLA, as users train by default: the tests of training, of each kind of model and of exports.
XLA_TESTS := $(addprefix tests/tf_wcd/test_,layer.py training.py training_order.py gradient.py phases.py balanced.py \
	jarzynski.py jarzynski_training.py ensemble.py dbn_pretraining.py up_down.py unit_pairs.py sampling.py resume.py \
	export.py xla.py)
test-xla: .venv/installed
	TF_WCD_TEST_XLA=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" $(XLA_TESTS)

# The notebooks in a short form; they are slow tests, too.
notebooks: .venv/installed
	$(BIN)/python -m pytest -q tests/test_notebooks.py

test-slow: .venv/installed
	$(BIN)/python -m pytest -m slow

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/installed-bench
	$(BIN)/python -m benchmarks

# The pages, in build/site. Any warning is an error.
docs: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# Wheel and sdist in dist/, and the wheel tried in an environment with nothing else.
dist: .venv/installed
	rm -rf dist
	$(BIN)/python -m build --quiet --outdir dist
	$(BIN)/python tools/try_wheel.py dist

# The lowest and the highest versions of all dependencies that pyproject.toml allows, each tried in an environment of its own.
bounds: .venv/installed
	$(BIN)/python tools/try_bounds.py

.venv/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

# The CPU build of torch comes first, so that nothing pulls in a larger one.
.venv/installed-bench: .venv/installed
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable ".[dev,bench]"
	touch $@

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
