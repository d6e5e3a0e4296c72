# Two commands do everything on a fresh machine: `make atlas` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
ATLAS_FLAGS ?=

.PHONY: atlas test lint bench browser clean

atlas: $(VENV)/base
	$(BIN)/tokenfield atlas $(ATLAS_FLAGS)

test: $(VENV)/test browser lint
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/bench
	$(BIN)/python -m benchmarks

# A browser opens the reports in tests. Without root rights those tests are skipped, and say so.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; } || \
	  echo "chromium not found and not installed: browser tests will be skipped"

$(VENV)/pip:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade "pip>=24"
	touch $@

$(VENV)/base: $(VENV)/pip pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/test: $(VENV)/base
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[test]"
	touch $@

$(VENV)/bench: $(VENV)/base
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[bench]"
	touch $@

clean:
	rm -rf $(VENV) atlas .jax-cache .pytest_cache .ruff_cache .mypy_cache
