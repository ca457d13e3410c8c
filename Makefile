# Everything runs inside .venv. A stamp file remembers that it is complete, so that later runs need no network.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Build tools that pip fetches on its own obey the same versions.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The embedded PostgreSQL creates its user with useradd, which supervisors and cron often leave out of PATH.
export PATH := $(PATH):/usr/sbin:/sbin
# Where this is set, every process of the tests compiles all that it imports anew, the tests themselves included.
unexport PYTHONDONTWRITEBYTECODE

# How much of a soak to run: 1 is all of it.
SIZE ?= 1
SEED ?= 1
PARTS ?=
# Many tests wait for clocks, locks and other processes: more workers than there are cores keep all of them busy.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

# Tests write thousands of small files and wait for the disk to have each. Nothing of it has to outlive them, so they use
# memory where a gigabyte more or less does not matter and programs may be started from there.
MEMORY := $(shell df --output=avail /dev/shm 2>/dev/null | awk 'NR == 2 && $$1 > 6000000 { print "/dev/shm" }')
MEMORY := $(if $(shell grep ' /dev/shm .*noexec' /proc/mounts 2>/dev/null),,$(MEMORY))

.PHONY: demo test style lint bench clean browser soak audit release

demo: $(VENV)/.installed
	@$(BIN)/python examples/demo.py

# Types are checked beside the tests, since mypy keeps only one core busy; its verdict comes last. Files are run in the
# order of their names, which puts the short ones of tests/unit last, so that no worker is left with a long one.
# In a fresh clone one process compiles all tests; else each worker would, all at the same time. A worker that crashed is
# not replaced: with --dist loadfile that hangs.
test: $(VENV)/.installed-dev style browser
	@folder=$$(mktemp -d -p "$(MEMORY)" codeinfo-XXXXXX); chmod 711 $$folder; \
	trap 'rm -rf $$folder' EXIT; trap 'exit 130' INT TERM; \
	$(BIN)/mypy >.mypy.log 2>&1 & types=$$!; \
	test -d tests/__pycache__ || $(BIN)/python -m pytest -q --collect-only >/dev/null; \
	TMPDIR=$$folder $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder \
		--max-worker-restart=0 --basetemp=$$folder/t; \
	failed=$$?; wait $$types || failed=1; cat .mypy.log; exit $$failed

# The tests of the pages drive a real browser. Where it cannot be installed they are skipped, and say so.
browser:
	@test -x /usr/bin/chromium || ! command -v apt-get >/dev/null \
		|| { (apt-get update && apt-get install -y chromium) || (sudo -n apt-get update && sudo -n apt-get install -y chromium); } >/dev/null 2>&1 \
		|| echo "Chromium could not be installed: the tests of the pages will be skipped"

style: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint: style
	$(BIN)/mypy

bench: $(VENV)/.installed-dev
	@ls benchmarks/*.py | grep -v synthetic  # that one only makes trees for the others
	@echo "Each of these runs by itself: $(BIN)/python benchmarks/NAME.py --help"

# Hours in full; SIZE=0.02 takes minutes. Prints its seed, counts and failures, and exits with 1 when there are any.
soak: $(VENV)/.installed-dev
	$(BIN)/python tests/soak --size $(SIZE) --seed $(SEED) $(PARTS)

# The list of parts, then their known weaknesses, for which the network is needed; the tool has an environment of its own.
audit: $(VENV)/.installed-dev
	$(BIN)/python tools/dependencies.py sbom
	$(PYTHON) -m venv build/audit
	env -u PIP_CONSTRAINT build/audit/bin/pip install --quiet pip-audit
	build/audit/bin/pip-audit --strict --require-hashes --disable-pip -r requirements-hashed.txt

# From a tagged commit: wheel, sdist, notes and the list of parts in dist/. It stops before uploading.
release: $(VENV)/.installed-dev
	$(BIN)/python tools/release.py build
	$(BIN)/python tools/dependencies.py sbom

clean:
	rm -rf $(VENV) .mypy.log .demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -e '.[web]'
	touch $@

# All in one go: the pip that comes with Python 3.11 takes twice as long, and most modules are never imported.
$(VENV)/.installed-dev: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet pip==26.3
	$(BIN)/pip install --quiet --no-compile -e '.[dev,docs,rerank,server,web]'
	touch $(VENV)/.installed $@
