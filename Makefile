# Everything a newcomer runs. Only python3 (3.11 or newer, with venv) and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
IS_NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
SEED ?= 1
FAULTS ?= 0
ENGINE ?= transformers
JOBS ?= 3
TESTS ?= tests
WITH_VLLM = RFT_VLLM_PYTHON="$${RFT_VLLM_PYTHON:-$$(echo $(CURDIR)/.vllm/engines/*/bin/python)}"
export OMP_WAIT_POLICY ?= PASSIVE
export HF_HUB_OFFLINE ?= 1
# Where it is set, every process of a demo or a test compiles all of our modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install engine check format test test-all test-fast test-slow coverage demo web bench-demo bench-gateway bench-engine bench-api bench-web bench-serve bench-train bench-estimates bench-faults bench-multiplier bench-beside bench-overlap bench-pacing bench-shards bench-scale bench-peers bench-loop bench-cpu-engine clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

install: $(VENV)/.installed ## the virtual environment with everything in it

$(VENV)/.installed: pyproject.toml constraints.txt
	@# What a failed attempt left is made anew: an environment without pip, or of a Python that is too old.
	@{ test -x $(BIN)/pip && $(BIN)/python $(IS_NEW_ENOUGH); } || { \
		$(PYTHON) $(IS_NEW_ENOUGH) || { \
			echo "$(PYTHON) is not Python 3.11 or newer; with another one: make install PYTHON=python3.12" >&2; exit 1; }; \
		$(PYTHON) -m venv --clear $(VENV); }
	$(BIN)/pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[platform,gateways,trainer,graders,examples,dev]'
	@# On all cores, where pip takes one, but tests of others and models of which one or two are loaded: a third of all.
	@# Some packages bring files that are no Python; who needs them would hear of it.
	@$(BIN)/python -m compileall -qq -j 0 -x '/tests/|/transformers/models/' $(VENV)/lib || true
	@touch $@

check: install ## formatting, lint, types, import contracts, architecture
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --threads 2
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/architecture

engine: .vllm/.installed ## vLLM for the CPU in an environment of its own: for tests, and for ENGINE=vllm

.vllm/.installed: core/rft/vllm_server/install.py core/rft/vllm_server/release.py core/rft/vllm_server/constraints_cpu.txt | install
	$(if $(RFT_VLLM_PYTHON),@echo using $(RFT_VLLM_PYTHON),$(BIN)/rft engine install cpu --home $(CURDIR)/.vllm && touch $@)

test: install engine ## every test but further variants of the dearest; JOBS=1 for one after the other
	$(BIN)/python -m pytest -q --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder -m "not thorough" $(TESTS)

test-all: install engine ## further variants and all examples of property tests too: before a release
	RFT_TEST_EXAMPLES=all $(BIN)/python -m pytest -q --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder tests

test-fast: install ## what needs no server and no patience: unit and architecture, in a minute and a half
	$(BIN)/python -m pytest -q --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder -m "not lengthy and not slow and not thorough" tests/architecture tests/unit

test-slow: install engine ## only what takes more than ten seconds each: whole platforms and training runs
	$(BIN)/python -m pytest -q --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder -m slow tests

coverage: export COVERAGE_FILE = $(CURDIR)/var/coverage/data
coverage: install engine ## lines and branches that tests reach, in the processes they start, too -> var/coverage/ (40 minutes)
	@rm -rf var/coverage && mkdir -p var/coverage
	$(BIN)/python -m coverage run -m pytest -q --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder -m "not thorough" $(TESTS)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage html --quiet --directory var/coverage/html
	$(BIN)/python -m coverage report --sort cover | tail -n 60

format: install ## rewrite formatting and what lint can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

demo: install ## the whole product on this machine; SEED=2, FAULTS=0.1, ENGINE=vllm
	$(if $(filter vllm,$(ENGINE)),$(MAKE) engine)
	$(if $(filter vllm,$(ENGINE)),$(WITH_VLLM)) $(BIN)/python examples/demo.py --seed $(SEED) --faults $(FAULTS) --engine $(ENGINE)

bench-demo: install ## three seeds and broken endpoints against the demo's bars -> var/bench/demo.json (half an hour)
	$(BIN)/python tests/bench/demo.py

bench-gateway: install ## bursts, saturation, fairness and outages against a bare client -> var/bench/gateway.json
	$(BIN)/python tests/bench/gateway.py

bench-engine: install ## what the engine over vLLM servers costs its client, and how it spreads rollouts -> var/bench/engine.json
	$(BIN)/python -m tests.bench.engine

bench-train: install ## memory and speed of an update of a 100M model with a large vocabulary -> var/bench/train.json (an hour)
	$(BIN)/python -m tests.bench.train

bench-cpu-engine: install ## 32 rollouts of a 100M model on the default engine, beside a slot per full context -> var/bench/cpu_engine.json (ten minutes)
	$(BIN)/python -m tests.bench.cpu_engine

bench-estimates: install ## how often intervals of rewards hold the truth -> var/bench/estimates.json (some minutes)
	$(BIN)/python -m tests.bench.estimates

bench-api: install ## reads, ingestion and live streams over a million stored rollouts -> var/bench/api.json
	$(BIN)/python -m tests.bench.api

bench-web: install ## pages of a job of a million rollouts, as the API answers them and a browser shows them -> var/bench/web.json (ten minutes)
	$(BIN)/python -m tests.bench.web

bench-serve: install ## what the platform adds between a serving process and its clients -> var/bench/serve.json
	$(BIN)/python -m tests.bench.serve

bench-faults: install ## the demo clean and with a fifth of its rollouts broken -> var/bench/faults.json (a quarter of an hour)
	$(BIN)/python tests/bench/broken_fifth.py

bench-beside: install ## what answering chat costs a training job on the same machine -> var/bench/beside.json (ten minutes)
	$(BIN)/python -m tests.bench.beside_training

bench-overlap: install engine ## steps per hour with rollouts beside updates, and taking turns -> var/bench/overlap.json (90 minutes)
	$(WITH_VLLM) $(BIN)/python -m tests.bench.overlap

bench-shards: install ## 500 rollouts over four workers, and with two of them killed -> var/bench/shards.json (three minutes)
	$(BIN)/python -m tests.bench.shards

bench-scale: install ## what saturates first with 64 hosts, measured by call and simulated -> var/bench/scale.json (ten minutes)
	$(BIN)/python -m tests.bench.scale

bench-peers: install ## a step beside TRL's tool loop, rollouts beside verifiers -> var/bench/peers.json (half an hour; installs both)
	$(BIN)/python -m tests.bench.peers

bench-loop: install ## the SDK's own agent loop and the platform's evaluation, token by token -> var/bench/loop.json (a quarter of an hour)
	$(BIN)/python -m tests.bench.agent_loop

bench-pacing: install ## steps per hour in eight settings, told from one run and measured -> var/bench/pacing.json (25 minutes)
	$(BIN)/python -m tests.bench.pacing

bench-multiplier: install ## reward by step and by rollouts at four compute multipliers -> var/bench/multiplier.json (an hour)
	$(BIN)/python -m tests.bench.multiplier

web: ## rebuild the dashboard's assets (needs node 20 or newer)
	cd web && npm ci && npm run generate && npm run build

clean: ## remove what make made
	rm -rf $(VENV) .vllm var
