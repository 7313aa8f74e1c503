# The two commands of the README, and the rest. The build itself is CMake's: CMakePresets.json, CMakeLists.txt.
export PATH := $(CURDIR)/build/tools/bin:$(PATH)
export QUESTION # of make run
TEST_PRESETS := release asan portable tsan

help:
	@echo 'make run              computes the attention of a real model, on every tier of this CPU, and checks it; then'
	@echo '                      searches a text by the whole model, fetched once (84 MB): make run QUESTION="Who sleeps?"'
	@echo 'make test             all tests: once per tier, under sanitizers, as portable C; under 10 minutes on 2 cores'
	@echo 'make test-exhaustive  exp on each of its 1.1e9 floats, log on each row sum, activations on all'
	@echo 'make bench            fovea-bench'
	@echo 'make bench-peers      the same cases beside ONNX Runtime, PyTorch and OpenVINO, in a venv of their own'
	@echo 'make format           clang-format on all C and C++'
	@echo 'make clean            removes build/'
	@echo 'What a build needs and is missing is installed first (apt-get; cmake/setup.sh).'

run: build/release/build.ninja
	@cmake --build --preset release --target fovea-minilm fovea-search
	@build/release/examples/fovea-minilm
	@echo
	@if python3 examples/minilm/fetch.py build/models/all-MiniLM-L6-v2; then \
	    build/release/examples/fovea-search --model build/models/all-MiniLM-L6-v2 -- "$$QUESTION"; \
	else \
	    echo 'So the one layer above, whose data is in this repository, is all that ran; the search needs the model.'; \
	fi

test: setup
	@cmake/test.sh $(TEST_PRESETS)

test-exhaustive: build/release/build.ninja
	@cmake --build --preset release --target test-activation test-exp test-log
	@build/release/tests/test-exp --exhaustive
	@build/release/tests/test-log --exhaustive
	@build/release/tests/test-activation --exhaustive

bench: build/release/build.ninja
	@cmake --build --preset release --target fovea-bench
	@build/release/bench/fovea-bench $(BENCH_ARGS)

bench-peers: setup
	@bench/peers.sh

build/release/build.ninja: | setup
	@cmake --preset release

setup:
	@cmake/setup.sh

format:
	@git ls-files '*.c' '*.h' '*.inc' '*.cc' | xargs clang-format -i

clean:
	@rm -rf build

.PHONY: help run test test-exhaustive bench bench-peers setup format clean
