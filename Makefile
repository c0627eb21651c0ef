# Two commands do everything on a fresh machine (Python >= 3.11 and make):
#   make reproduce   the paper's table
#   make test        lint, types, import layers, tests
PYTHON ?= python3
VENV   := .venv
# Where an environment has its programs; Windows needs a make and a shell, such as those of Git.
BIN    := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# Small matrices run many times slower with many BLAS threads.
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: reproduce test test-long test-kernels test-browser test-wheel test-release test-development-builds test-no-compiler test-matrix coverage mutation lint types layers pytest build bench speed calibration fuzz figures docs clean

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

# All that a release has, in dist/: the source distribution, a wheel with the compiled core and one without. Each is checked,
# and installed and tried in an empty environment outside the clone, with every Python of PYTHONS.
TRIED := $(or $(TMPDIR),/tmp)/cuspfa-release
test-release: build
	CUSPFA_NO_EXTENSIONS=1 $(BIN)/python -m build --no-isolation --wheel -o dist . >/dev/null
	$(BIN)/twine check --strict dist/*
	@ran=""; for python in $(PYTHONS); do \
	  version=$$($$python -c 'import sys; assert sys.version_info >= (3, 11); print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue; \
	  case " $$ran " in *" $$version "*) continue;; esac; \
	  for file in dist/*.tar.gz dist/*.whl; do \
	    case $$file in *-none-any.whl|*.tar.gz) ;; *-cp$$(echo $$version | tr -d .)-*) ;; *) continue;; esac; \
	    rm -rf $(TRIED) && $$python -m venv $(TRIED) && \
	    $(TRIED)/bin/python -m pip install --quiet "$$file[cli]" && cp tests/installed.py $(TRIED) && \
	    (cd $(TRIED) && bin/python installed.py) && echo "Python $$version: $$file" || exit 1; \
	  done; ran="$$ran $$version"; \
	done; rm -rf $(TRIED); case "$$ran" in "") echo "no Python >= 3.11 found; name some: make test-release PYTHONS=..."; exit 1;; esac

# Development builds of NumPy, SciPy and scikit-learn, from the index in PIP_EXTRA_INDEX_URL.
test-development-builds:
	rm -rf $(VENV)-development && $(PYTHON) -m venv $(VENV)-development
	$(VENV)-development/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(VENV)-development/bin/python -m pip install --quiet --editable '.[cli,app,files]' --group test
	$(VENV)-development/bin/python -m pip install --quiet --pre --upgrade numpy scipy scikit-learn
	$(VENV)-development/bin/python -m pytest -q -n auto -k "not prints_what" $(MATRIX_TESTS)

# Which lines and branches the tests run, line by line in docs/_build/coverage; about ten minutes. Writes
# docs/dev/coverage.md and the line of the README, and names files that need a test or a reason.
coverage: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --group coverage
	$(BIN)/pytest -q -n auto --cov --cov-branch --cov-report=html:docs/_build/coverage --cov-report=json:docs/_build/coverage.json
	$(BIN)/python tests/uncovered.py docs/_build/coverage.json

# Do the tests notice small changes of the model and of inference? A random sample of changes, each with the tests that run it:
# about an hour on two cores, and a run that was ended goes on. `make mutation MUTANTS=40` for some of them, the first.
MUTANTS ?= 300
mutation: $(VENV)/.dev
	cd tests && ../$(BIN)/python -m mutation.run --mutants $(MUTANTS)

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
MATRIX_EXTRAS := '.[cli,app,files,office,anndata,arviz]' --group test
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
	$(BIN)/python -m benchmarks optimum heldout defaults noise coverage missing count alignment assumptions ordinal_known ordinal ordinal_count ordinal_coverage robust model_error gibbs_calibration robustness

# The reader of saved fits against changed files; new inputs and crashes are kept in fuzz/.
FUZZ_SECONDS ?= 1200
fuzz: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --group fuzz
	mkdir -p fuzz/new && $(BIN)/python tests/robustness/fuzz_files.py -max_len=64 -max_total_time=$(FUZZ_SECONDS) \
	  -artifact_prefix=fuzz/ fuzz/new tests/robustness/corpus

figures: $(VENV)/.cli
	$(BIN)/python docs/figures/make.py

# The pages into docs/_build/html: offline, a warning is an error. The analyses run in each build, a minute on one core;
# the examples of all other pages run in `make test`.
docs: $(VENV)/.docs
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@! grep -rnoE '(src="|@import +|url\(|<link[^>]* href=")["'"'"']?(https?:)?//[^ )]*' docs/_build/html \
	  --include='*.html' --include='*.css' || { echo "A page would fetch these."; exit 1; }
	@echo "Open docs/_build/html/index.html"

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "cuspfa needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "Could not create $(VENV). On Debian: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@touch $@

# What the compiled core is made of: a change of it is built by the next command.
CORE := setup.py $(wildcard src/cuspfa/inference/_kernels/*.p*)

# What runs the program.
$(VENV)/.cli: pyproject.toml $(CORE) | $(VENV)/made
	@echo "Installing cuspfa[cli] into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --editable '.[cli]'
	@touch $@

# The same and what the checks need, in one installation: the core is compiled once.
$(VENV)/.dev: pyproject.toml $(CORE) | $(VENV)/made
	@echo "Installing cuspfa and the development tools into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --editable '.[cli,app,files,office,anndata,arviz,dask]' --group dev
	@touch $(VENV)/.cli $@

# What builds the pages: matplotlib for the figures, AnnData and Dask for the analyses that use them.
$(VENV)/.docs: pyproject.toml $(VENV)/.cli
	@echo "Installing what builds the pages into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --editable '.[cli,anndata,dask]' --group docs
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-* dist docs/_build docs/generated .pytest_cache .mypy_cache .ruff_cache .import_linter_cache fuzz
