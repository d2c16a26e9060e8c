# `make help` lists the targets. Each can be run alone on a fresh machine; a second run does only what is new.
SHELL := bash
.DEFAULT_GOAL := help
.NOTPARALLEL:

PYTHON := PYTHONPATH=python .venv/bin/python
CTEST := ctest --output-on-failure --no-tests=error -j $(shell nproc) --test-dir
SANITIZER_OPTIONS := ASAN_OPTIONS=strict_string_checks=1:detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1 \
  TSAN_OPTIONS=halt_on_error=1 ASAN_SYMBOLIZER_PATH=$(shell command -v llvm-symbolizer-22)

help:  ## This list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

setup:  ## Install what is missing (Debian packages, .venv, FFI headers)
	@tools/setup.sh

# The presets are read at configure time only, so a new one configures again; everything else CMake and Ninja watch themselves.
build/%/build.ninja: CMakePresets.json | setup
	cmake --preset $* -DJAXATOR_XLA_INCLUDE=$(CURDIR)/.cache/xla-include
	@touch $@

build: build/release/build.ninja  ## Build the libraries, C++ tests and benchmarks
	@cmake --build --preset release

test-cpp: build  ## C++ tests, on every instruction set of this machine
	$(CTEST) build/release

# Tests that measure time run alone, after the others. pytest's status 5 is "no test selected".
test-python: build  ## Python tests
	$(PYTHON) -m pytest -n 2 --dist loadgroup -m "not full and not serial"
	$(PYTHON) -m pytest -m "serial and not full" || [ $$? = 5 ]

test-wheel: build/release/build.ninja  ## Build the wheels and try them in clean environments without a compiler
	.venv/bin/python tests/wheel/smoke.py

test-example: build  ## Install the C++ library, build examples/cpp against it, run it
	tools/run_cpp_example.sh

# The budget of each part is in .ci/run.
test:  ## All of the above
	@for part in setup build test-cpp test-python test-wheel test-example; do \
	  start=$$SECONDS; $(MAKE) --no-print-directory $$part || exit; echo "make $$part: $$((SECONDS - start)) s"; \
	done

test-asan test-tsan: test-%: build/%/build.ninja
	cmake --build --preset $*
	$(SANITIZER_OPTIONS) $(CTEST) build/$*

test-gcc: build/gcc/build.ninja
	cmake --build --preset gcc
	$(CTEST) build/gcc

test-full: test test-asan test-tsan test-gcc  ## Also sanitizers, g++ and the long Python tests
	$(PYTHON) -m pytest -n 2 --dist loadgroup -m "full and not serial" || [ $$? = 5 ]
	$(PYTHON) -m pytest -m "full and serial" || [ $$? = 5 ]

demo: build  ## Train a small LLaMA with plain JAX and with Jaxator, and compare (ARGS="--steps 50 ...")
	$(PYTHON) examples/train_llama/compare.py $(ARGS)

bench: build  ## Every op against its peers (ARGS="--json" for machines)
	$(PYTHON) -m jaxator.cli bench all $(ARGS)

wheel: build/release/build.ninja  ## Build the wheels into dist/: jaxator and Flight's compiler
	tools/wheel.sh

format: setup  ## Format C++ and Python in place
	git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp' | xargs -0 clang-format-22 -i
	.venv/bin/ruff format
	.venv/bin/ruff check --fix-only

clean:  ## Remove what was built; .venv and .cache stay
	rm -rf build dist python/jaxator/lib

.PHONY: help setup build test test-cpp test-python test-wheel test-example test-asan test-tsan test-gcc test-full demo bench wheel format clean
