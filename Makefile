# make demo   set up, then run the main job on real data
# make test   set up, then run every check (under ten minutes)
# make test-long, make lint, make bench, make clean

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
CORE   := $(shell find src/core -type f) CMakeLists.txt pyproject.toml
SOURCE := $(shell find src/budgetron -name '*.py')

.PHONY: demo test test-long lint sanitize bench clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# What a user gets: the package installed as a wheel, not a link into this folder.
$(VENV)/.installed: $(BIN)/python $(CORE) $(SOURCE)
	$(PIP) install ".[data]"
	@touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(PIP) install --upgrade "pip>=25.1"
	$(PIP) install --group test --group lint
	@touch $@

demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py

test: $(VENV)/.tested lint sanitize
	$(BIN)/python -m pytest -q

test-long: $(VENV)/.tested
	BUDGETRON_LONG=1 $(BIN)/python -m pytest -q --durations=20 -m long

lint: $(VENV)/.tested
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The core without Python, every rule and store on random streams, under AddressSanitizer and UBSan.
SANITIZED := build/sanitized
sanitize: $(SANITIZED)/core_stress
	$(SANITIZED)/core_stress

$(SANITIZED)/core_stress: $(CORE) tests/core/stress.cpp
	@mkdir -p $(SANITIZED)
	$(CXX) -std=c++17 -O1 -g -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -fopenmp-simd -fno-math-errno \
	  -fno-trapping-math -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer \
	  -DBUDGETRON_LEVEL=baseline -DBUDGETRON_VECTOR=16 -I src/core src/core/[!b]*.cpp src/core/budget*.cpp \
	  tests/core/stress.cpp -o $@ -lpthread

# Speed as ratios within one run, and peers side by side.
bench: $(VENV)/.installed
	$(PIP) install ".[data,bench]"
	$(BIN)/python benchmarks/speed/run.py --docs docs/speed.md

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
