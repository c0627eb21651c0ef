# Two commands do everything on a fresh machine (Python >= 3.11 and make):
#   make reproduce   the paper's table
#   make test        lint, types, import layers, tests
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Small matrices run many times slower with many BLAS threads.
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: reproduce test test-long test-kernels test-browser test-wheel test-no-compiler test-matrix lint types layers pytest build bench speed calibration fuzz figures docs clean

reproduce: $(VENV)/.cli
	@$(BIN)/cuspfa reproduce

test: lint types layers pytest build

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/lint-imports

pytest: $(VENV)/.dev
	$(BIN)/pytest -q -n auto

# Tests that take long: about ten minutes on two cores.
test-long: $(VENV)/.dev
	$(BIN)/pytest -q -n auto -m long

# The docs tests, those of draws, and the same answers, with other kernels of OpenBLAS and without NumPy's dispatched
# features; at most five minutes on two cores. `make test-kernels KERNELS="--answers --all"` compares the answers for all data
# sets with all priors, about half an hour, and prints the largest differences.
test-kernels: $(VENV)/.dev
	cd tests && ../$(BIN)/python -m kernels.run $(KERNELS)

# The report in a real browser, the system's own: nothing is downloaded.
# CUSPFA_SCREENSHOTS=folder keeps pictures of the pages.
test-browser: $(VENV)/.dev
	@command -v chromedriver >/dev/null || \
	  { echo "No browser to test with: chromedriver is not there. On Debian: apt-get install chromium chromium-driver"; exit 1; }
	$(BIN)/pytest -q -o addopts="-ra --import-mode=importlib" tests/browser

build: $(VENV)/.dev
	rm -rf dist && $(BIN)/python -m build --no-isolation -o dist . >/dev/null && $(BIN)/twine check --strict dist/*

# The wheel by itself, in an environment that has nothing else.
test-wheel: build
	rm -rf $(VENV)-wheel && $(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip install --quiet dist/*.whl
	cd $(VENV)-wheel && bin/python -c "import cuspfa; cuspfa.CuspFactorAnalysis(random_state=0).fit(cuspfa.datasets.load_bfi(subset='paper').data)"
	@cd $(VENV)-wheel && if message=$$(bin/cuspfa 2>&1); then echo "cuspfa ran without its cli extra?"; exit 1; fi; \
	  echo "$$message" | grep -q "pip install 'cuspfa\[cli\]'" && echo "Without the extra: $$message"
	rm -rf $(VENV)-wheel

# Installation without a C compiler: it succeeds, a fit says what is missing, and K and bound are those of the core.
test-no-compiler: $(VENV)/.dev
	rm -rf $(VENV)-plain && $(PYTHON) -m venv $(VENV)-plain
	CC=/nonexistent $(VENV)-plain/bin/python -m pip install --quiet .
	cd $(VENV)-plain && bin/python ../tests/kernels/without_compiler.py > plain.txt
	cd $(VENV)-plain && ../$(BIN)/python ../tests/kernels/without_compiler.py --core > core.txt && diff plain.txt core.txt && cat plain.txt
	rm -rf $(VENV)-plain

# The tests with every Python from 3.11 on that is there (on PATH, pyenv's, or as named in PYTHONS="python3.12 ...") and the
# newest packages; with the first of them also the oldest packages that are supported (tests/oldest.txt).
# ArviZ is 0.x below 3.12 and 1.x from there on, so that both are tried. What pages print is left to `make test`: the last
# digits of draws differ between releases of NumPy.
PYTHONS ?= $(foreach v,3.11 3.12 3.13 3.14,python$(v)) \
  $(wildcard $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions/3.*/bin/python3)
MATRIX_TESTS ?= tests --ignore=tests/browser --ignore=tests/robustness --ignore=tests/kernels
MATRIX_EXTRAS := '.[cli,files,office,anndata,arviz]' --group test
test-matrix:
	@ran=""; for python in $(PYTHONS); do \
	  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue; \
	  version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	  case " $$ran " in *" $$version "*) continue;; esac; \
	  kinds=newest; [ -n "$$ran" ] || kinds="oldest newest"; \
	  for kind in $$kinds; do \
	    echo "Python $$version ($$python), $$kind packages"; place=$(VENV)-$$version-$$kind; rules=""; \
	    [ $$kind = newest ] || rules="--constraint tests/oldest.txt"; \
	    $$python -m venv $$place && $$place/bin/python -m pip install --quiet --upgrade 'pip>=25.1' && \
	    $$place/bin/python -m pip install --quiet $$rules --editable $(MATRIX_EXTRAS) && \
	    $$place/bin/python -m pytest -q -n auto -k "not prints_what" $(MATRIX_TESTS) || exit 1; \
	  done; ran="$$ran $$version"; \
	done; \
	case "$$ran" in "") echo "no Python >= 3.11 found; name some: make test-matrix PYTHONS=..."; exit 1;; \
	  *" "*" "*) echo "tried:$$ran";; \
	  *) echo "tried:$$ran alone: no other Python is here (name more: make test-matrix PYTHONS=...)";; esac

# About 40 minutes; `make bench SECTIONS="paper iterations"` for some of it.
bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks $(SECTIONS)

# This tree against a revision before it on eight cases, under two minutes: `make speed BASE=HEAD~1`.
speed: $(VENV)/.dev
	@$(BIN)/python -m benchmarks.speed $(BASE)

calibration: $(VENV)/.dev
	$(BIN)/python -m benchmarks optimum heldout defaults noise coverage missing count alignment assumptions model_error gibbs_calibration robustness

# The reader of saved fits against changed files; new inputs and crashes are kept in fuzz/.
FUZZ_SECONDS ?= 1200
fuzz: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --group fuzz
	mkdir -p fuzz/new && $(BIN)/python tests/robustness/fuzz_files.py -max_len=64 -max_total_time=$(FUZZ_SECONDS) \
	  -artifact_prefix=fuzz/ fuzz/new tests/robustness/corpus

figures: $(VENV)/.cli
	$(BIN)/python docs/figures/make.py

# The pages into docs/_build/html: offline, a warning is an error. Their examples run in `make test`.
docs: $(VENV)/.docs
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@! grep -rnoE '(src="|@import +|url\(|<link[^>]* href=")["'"'"']?(https?:)?//[^ )]*' docs/_build/html \
	  --include='*.html' --include='*.css' || { echo "A page would fetch these."; exit 1; }
	@echo "Open docs/_build/html/index.html"

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "cuspfa needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "Could not create $(VENV). On Debian: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'

# What the compiled core is made of: a change of it is built by the next command.
CORE := setup.py $(wildcard src/cuspfa/inference/_kernels/*.p*)

# What runs the program.
$(VENV)/.cli: pyproject.toml $(CORE) | $(VENV)/bin/python
	@echo "Installing cuspfa[cli] into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --editable '.[cli]'
	@touch $@

# What the checks need on top.
$(VENV)/.dev: pyproject.toml $(VENV)/.cli
	@echo "Installing the development tools into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --editable '.[cli,files,office,anndata,arviz,dask]' --group dev
	@touch $@

# What builds the pages: matplotlib for the reference of the figures, AnnData for its own.
$(VENV)/.docs: pyproject.toml $(VENV)/.cli
	@echo "Installing what builds the pages into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --editable '.[cli,anndata]' --group docs
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-* dist docs/_build docs/generated .pytest_cache .mypy_cache .ruff_cache .import_linter_cache fuzz
