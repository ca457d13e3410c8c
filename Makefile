# Everything runs inside .venv. A stamp file remembers that it is complete, so that later runs need no network.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Build tools that pip fetches on its own obey the same versions.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test lint bench clean browser

demo: $(VENV)/.installed
	@$(BIN)/python examples/demo.py

test: $(VENV)/.installed-dev lint browser
	$(BIN)/python -m pytest -q -n auto --dist loadfile

# The tests of the pages drive a real browser. Where it cannot be installed they are skipped, and say so.
browser:
	@test -x /usr/bin/chromium || ! command -v apt-get >/dev/null \
		|| { (apt-get update && apt-get install -y chromium) || (sudo -n apt-get update && sudo -n apt-get install -y chromium); } >/dev/null 2>&1 \
		|| echo "Chromium could not be installed: the tests of the pages will be skipped"

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.installed-dev
	@ls benchmarks/*.py | grep -v synthetic  # that one only makes trees for the others
	@echo "Each of these runs by itself: $(BIN)/python benchmarks/NAME.py --help"

clean:
	rm -rf $(VENV) .demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -e '.[web]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/pip install --quiet -e '.[dev,docs,rerank,web]'
	touch $@
