# The two commands of a newcomer: `make study` and `make test`. Everything lives in .venv.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
# One process more than cores, up to four: many tests wait for processes that they start.
PROCESSES := $(shell $(PYTHON) -c "import os; print(min(4, os.cpu_count() + 1))")
QUICK := not slow and not cluster and not root and not faults

.PHONY: study test quick goldens lint types readme docs bench bench-cluster test-faults bench-search bench-mirror test-kills test-paper test-versions \
	test-cluster test-image test-node test-slurm test-device attack mutate calibrate evaluations clean

study: $(READY)
	$(VENV)/bin/ablate study studies/doc_layer_mix.py

test: $(READY)
	$(VENV)/bin/pytest --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder

quick: $(READY)  # the inner loop: no Ray, no servers, nothing slow; `make test` is the whole
	$(VENV)/bin/pytest --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder -m "$(QUICK)" $(ARGS)

goldens: $(READY)  # write tests/golden again, and read the diff; ids and known defaults stay
	ABLATE_REGENERATE=1 $(VENV)/bin/pytest -m golden
	git diff --stat tests/golden

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/python -m tests.riddles

types: $(READY)
	$(VENV)/bin/pyright --threads

readme: $(READY)  # run the commands of the README and of two pages, so that they cannot rot
	$(VENV)/bin/python .ci/readme.py README.md docs/commands.md docs/your_own_training.md

docs: $(DOCS_READY)  # the site, in site/; a broken link fails. Nothing is fetched from the network
	$(VENV)/bin/python docs/tables.py
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

bench: $(READY)  # what is fast, ours beside theirs; ARGS="--only mixture", "--full", "--strict"
	$(VENV)/bin/python -m benchmarks.table $(ARGS)

bench-search: $(READY)  # what early stopping saves a search, replayed on recorded learning curves
	$(VENV)/bin/python -m benchmarks.search $(ARGS)

bench-mirror: $(READY)  # questions over 20,000 trials of a store; about two minutes
	$(VENV)/bin/python benchmarks/mirror.py --json benchmarks/mirror.json $(ARGS)

bench-cluster: $(READY)  # does one driver keep 1 to 64 workers busy? ARGS="--sizes 1 16"
	$(VENV)/bin/python -m benchmarks.cluster $(ARGS)

test-kills: $(READY)  # drivers and workers killed thirty times, and fifty tiny studies, not one of each
	$(VENV)/bin/pytest tests/end_to_end/test_killed.py tests/end_to_end/test_tiny.py tests/record/test_records.py --kills 30 --tiny 50

attack: $(READY)  # wrong inputs, damaged files, kills; ARGS="--seed 2 --quick --only inputs"
	$(VENV)/bin/pytest tests/lab/attack/counting.py
	$(VENV)/bin/python -m tests.lab.attack $(ARGS)

mutate: $(READY)  # does a test notice each small change of the code? ARGS="--only tune --number 20"
	$(VENV)/bin/python -m tests.lab.mutate $(ARGS)

calibrate: $(READY)  # how often tables err, measured: writes docs/calibration.md; ARGS="--all", "--quick"
	$(VENV)/bin/python -m tests.lab.calibration $(ARGS)

# A virtual environment with both harnesses.
EVALUATIONS := build/evaluations
evaluations: $(READY)  # logs of lm-evaluation-harness and Inspect, made anew and judged; ARGS="--write"
	test -d $(EVALUATIONS) || python3 -m venv $(EVALUATIONS)
	$(EVALUATIONS)/bin/pip install -q lm_eval==0.4.13 inspect_ai==0.3.285
	$(VENV)/bin/python -m tests.lab.evaluations $(CURDIR)/$(EVALUATIONS)/bin/python $(ARGS)

test-versions: $(READY)  # the oldest versions allowed, and the newest; ARGS="oldest python3.13"
	$(VENV)/bin/pytest tests/lab/versions/newer_ray.py
	$(VENV)/bin/python -m tests.lab.versions $(ARGS)

test-paper: $(READY)  # every model of every paper scale built at full size, and one step taken
	$(VENV)/bin/pytest tests/lab/paper_scale.py

test-faults: $(READY)  # two hosts as network namespaces: needs root; about an hour
	$(VENV)/bin/pytest tests/lab/faults --faults $(ARGS)

test-cluster: $(READY)  # k8s/ on a real API server, which it first builds from Debian 12's source
	$(VENV)/bin/pytest tests/lab/k8s/control_plane.py tests/lab/k8s/prepare.py tests/lab/k8s/scan.py $(ARGS)

test-node: $(READY)  # k8s/overlays/plain on a real node, whose pods are killed: root; two hours, then half an hour
	$(VENV)/bin/pytest -s tests/lab/node/nodes.py

test-image: $(READY)  # k8s/Dockerfile built by buildah on a base from debootstrap: root, minutes
	$(VENV)/bin/pytest tests/lab/k8s/build_image.py $(ARGS)

test-device: $(READY)  # every pair of techniques, also on a pretended device that notes what waits; minutes
	$(VENV)/bin/pytest tests/lm/contracts/test_combinations.py tests/lm/contracts/test_on_a_device.py --pairs $(ARGS)

test-slurm: $(READY)  # a study as a job of a real Slurm (Debian: slurm-wlm), which is disturbed; minutes
	$(VENV)/bin/pytest tests/lab/slurm/jobs.py $(ARGS)

$(READY): pyproject.toml constraints.txt  # with the newest pip: an older one takes a minute longer
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --upgrade pip
	$(VENV)/bin/python -m pip install -qq --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

$(DOCS_READY): $(READY)
	$(VENV)/bin/python -m pip install -qq --constraint constraints.txt --editable '.[docs]'
	touch $(DOCS_READY)

clean:
	rm -rf $(VENV)
