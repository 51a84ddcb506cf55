# make demo   set up, then run the main job on real data
# make test   set up, then run the checks, except the slowest (under ten minutes on two quiet cores)
# make docs   build the documentation site into site/
# make install   install the package and the tools of the checks
# make lint, make sanitize, make test-long, make test-oldest, make portability, make cross, make coverage, make bench, make stubs, make clean

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
CORE   := $(shell find src/core -type f) CMakeLists.txt pyproject.toml
SOURCE := $(shell find src/budgetron -name '*.py')
SANITIZED := build/sanitized

# Some machines set PYTHONDONTWRITEBYTECODE. Then every process that a test starts would compile all modules that it imports, which
# takes longer than many tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo test browser test-long test-oldest portability cross lint sanitize stubs coverage docs bench clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The package is tested as users get it: installed from a wheel, not as a link into this folder. A change of the sources builds it again.
WHEEL := $(VENV)/wheel
$(WHEEL)/.built: $(BIN)/python $(CORE) $(SOURCE)
	@rm -rf $(WHEEL)
	$(PIP) wheel --no-deps --wheel-dir $(WHEEL) .
	@touch $@

# pip does not replace an installed wheel by another one of the same version unless it is forced.
$(VENV)/.installed: $(WHEEL)/.built
	$(PIP) install "$$(echo $(WHEEL)/*.whl)[data]"
	$(PIP) install --force-reinstall --no-deps $(WHEEL)/*.whl
	@touch $@

# --no-compile saves time: Python compiles a module when it is imported, and only a small part of these packages is.
$(VENV)/.tested: $(VENV)/.installed
	$(PIP) install --upgrade "pip>=25.1"
	$(PIP) install --no-compile "$$(echo $(WHEEL)/*.whl)[all]" --group test --group lint --group docs
	@touch $@

install: $(VENV)/.tested

# The tests of pages use Chromium or Chrome. Where neither is installed, nor can be, these tests are skipped, with a message.
BROWSER := $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
browser:
	@test -n "$(BROWSER)" || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	  && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	  || echo "No Chromium here, and no right to install it: the tests of pages will be skipped."

demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py

# The sanitized core is compiled and run while pip installs the packages for the other checks. pytest has three workers, more than the
# two cores of the usual machine, because many tests wait for another process.
test: browser
	$(MAKE) --no-print-directory -j2 lint sanitize
	$(BIN)/python -m pytest -q -n 3 --dist worksteal --durations=10

test-long: $(VENV)/.tested portability $(SANITIZED)/core_stress $(SANITIZED)/core_faults
	$(SANITIZED)/core_stress
	$(SANITIZED)/core_faults
	BUDGETRON_LONG=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal --durations=20 --timeout=3600 -m long

lint: $(VENV)/.tested
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/zizmor --offline --quiet .github
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/idea.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff
	$(BIN)/sp-repo-review .

# Type declarations of the compiled module, which nanobind generates. A test compares the file with the module.
STUB := src/budgetron/_core.pyi
stubs: $(VENV)/.tested
	$(BIN)/python -m nanobind.stubgen -q -m budgetron._core -o $(STUB)
	@sed -i.bak '1i # Written by `make stubs` from the compiled module.' $(STUB) && rm $(STUB).bak

# Tests the core without Python, under AddressSanitizer and UBSan, with every rule and store on random streams. stress.cpp runs the
# streams normally. faults.cpp lets allocations fail: it repeats every call until the call succeeds, and each time lets one more
# allocation succeed before all later ones fail. Both run one configuration in 11, and one of each rule, kernel and store. 11 divides
# none of the sizes of the loops in streams.hpp, so every value of every loop occurs. `make test-long` runs all configurations.
SAMPLE := 11
.PHONY: sanitize-stress sanitize-faults
sanitize: sanitize-stress sanitize-faults
sanitize-stress sanitize-faults: sanitize-%: $(SANITIZED)/core_%
	$< $(SAMPLE)

# -Og compiles in half the time of -O1, and the program runs for the same time.
SANITIZE := $(CXX) -std=c++17 -Og -g1 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -fopenmp-simd -fno-math-errno \
  -fno-trapping-math -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer \
  -DBUDGETRON_TARGET=baseline -DBUDGETRON_VECTOR=16 -I src/core
OBJECTS  := $(patsubst src/core/%.cpp,$(SANITIZED)/%.o,$(filter-out src/core/bindings/%,$(filter %.cpp,$(CORE))))

$(OBJECTS): $(SANITIZED)/%.o: src/core/%.cpp $(CORE)
	@mkdir -p $(@D)
	$(SANITIZE) -c $< -o $@

$(SANITIZED)/core_%: tests/core/%.cpp tests/core/streams.hpp $(OBJECTS)
	$(SANITIZE) $< $(OBJECTS) -o $@ -lpthread

# Runs most tests of the library with the lowest versions of dependencies that pyproject.toml allows.
OLDEST := .venv-oldest
test-oldest: $(WHEEL)/.built
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python -m pip --disable-pip-version-check --quiet install uv
	$(OLDEST)/bin/uv pip install --quiet --python $(OLDEST) --resolution lowest-direct -r pyproject.toml
	$(OLDEST)/bin/uv pip freeze --quiet --python $(OLDEST) > $(OLDEST)/oldest.txt  # packages for the tests must not change these versions
	$(OLDEST)/bin/uv pip install --quiet --python $(OLDEST) --group unit --constraint $(OLDEST)/oldest.txt
	$(OLDEST)/bin/uv pip install --quiet --python $(OLDEST) --no-deps $(WHEEL)/*.whl
	$(OLDEST)/bin/python tests/packaging/smoke.py --core
	$(OLDEST)/bin/python -m pytest -q -n 2 --dist worksteal tests/engine tests/graphs tests/learners tests/persist tests/evaluate \
	  --deselect tests/persist/test_hostile.py::test_a_damaged_container_is_rejected  # it writes complex numbers; the oldest safetensors cannot

# Reports which lines of Python and C++ the tests run. No minimum is required. For some tests only: make coverage TESTS=tests/engine
TESTS    ?= tests
COVERAGE := build/coverage
coverage: $(VENV)/.tested
	$(PIP) install --group coverage
	rm -rf $(COVERAGE) && mkdir -p $(COVERAGE)/html
	$(PIP) wheel --no-deps --wheel-dir $(COVERAGE)/wheel -C cmake.define.BUDGETRON_COVERAGE=ON -C build-dir=$(COVERAGE)/cmake .
	$(PIP) install --no-deps --target $(COVERAGE)/site $(COVERAGE)/wheel/*.whl
	-PYTHONPATH=$(COVERAGE)/site $(BIN)/python -m coverage run -m pytest -q -n 2 --dist worksteal $(TESTS)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage html --quiet -d $(COVERAGE)/html/python
	mkdir -p $(COVERAGE)/html/core
	$(BIN)/gcovr --root . --filter src/core --markdown-summary $(COVERAGE)/core.md --html-details $(COVERAGE)/html/core/index.html \
	  --gcov-ignore-parse-errors=all $(COVERAGE)/cmake
	@{ echo "Python: $$($(BIN)/python -m coverage report --format=total) % of lines and branches"; echo; cat $(COVERAGE)/core.md; } \
	  > $(COVERAGE)/summary.md
	@cat $(COVERAGE)/summary.md

# Builds and tests the core with every supported compiler, and for aarch64 under qemu. For one compiler: make portability COMPILER=clang++-16
portability: $(BIN)/python
	$(BIN)/python tests/core/portability.py $(COMPILER)

# Compiles the core for Windows and macOS with Zig, and runs the program for Windows if wine is installed.
cross: $(BIN)/python
	$(PIP) install ziglang
	PATH="$(BIN):$$PATH" $(BIN)/python tests/core/portability.py zig-windows zig-darwin

# Warnings are errors, including dead links and anchors. To read the site with its search: python -m http.server -d site
docs: $(VENV)/.tested
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "Built: site/index.html"

# Measures speed: ratios within one run, and other libraries on the same data.
bench: $(VENV)/.installed
	$(PIP) install "$$(echo $(WHEEL)/*.whl)[data,serve,bench]"
	$(BIN)/python benchmarks/speed/run.py --docs docs/speed.md

clean:
	rm -rf $(VENV) $(OLDEST) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
