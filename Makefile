# make demo, make test: both set up all that they need.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
CORES ?= $(shell nproc)
# One more than cores: a part of the tests waits for servers.
WORKERS := $(shell expr $(CORES) + 1)
PYTHON := .venv/driver/bin/python
SNAKEMAKE := .venv/bin/snakemake
DEMO := config/demo.yaml
VENDOR := workflow/maieutic/report/vendor
export PYTHONPATH := $(CURDIR)/workflow
# Some containers set it: each of a run's hundreds of jobs would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE PYTHONHOME

.PHONY: help demo test test-fast drills mutants test-scale test-slurm test-containers tour env driver check format vendor lock recover bench schemas clean
help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

demo: env  ## set up, then run the demo to results/report/index.html
	$(SNAKEMAKE) --cores $(CORES) --configfile $(DEMO)
	@echo "open results/report/index.html"

test-fast: driver  ## the unit tests but for the slow ones, within a minute
	$(PYTHON) -m pytest -n $(WORKERS) --dist loadfile -m "not slow" tests/unit

test: env  ## set up, then run the unit tests and those of the whole workflow (minutes)
	@envs/setup peers
	@envs/setup exchange || true # where there is a Python for it
	$(PYTHON) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder tests/workflow tests/unit

drills: env  ## kills, storms, full disks, lost networks and devices, and their table (FULL=1: all of it, an hour)
	MAIEUTIC_DRILLS=$(if $(FULL),full) $(PYTHON) tests/reliability.py -n $(CORES) --dist $(if $(FULL),load,loadfile) --no-loadscope-reorder

test-scale: env  ## the published files and eight scripted tutors to the page, some 200,000 requests (minutes)
	$(PYTHON) -m pytest tests/scale -s

test-slurm: env  ## on a real one-machine cluster, from Debian's packages (root)
	$(PYTHON) -m pytest tests/slurm

test-containers: env  ## build the images and run in them, by Apptainer and Docker (root, Debian 12)
	$(PYTHON) -m pytest tests/containers

tour: env  ## the pictures of docs/tour.md, from the demo's results (Chromium)
	$(PYTHON) tests/tour.py

mutants:  ## change the code in small ways, and see whether a unit test notices (hours; not in CI)
	@envs/setup driver mutants
	.venv/mutants/bin/python tests/mutants/run.py

env:  ## the environments, from their locks (VARIANT=cpu or cuda; kept for later calls)
	@envs/setup driver serve

driver:  ## the environment of Snakemake: all that hosted models need
	@envs/setup driver

check: driver  ## format, lint, types, English, workflow lint
	.venv/driver/bin/ruff format --check .
	.venv/driver/bin/ruff check .
	.venv/driver/bin/snakefmt --check Snakefile workflow/Snakefile workflow/rules
	$(PYTHON) tests/prose.py
	$(PYTHON) -m mypy
	PYTHONPATH=workflow .venv/driver/bin/lint-imports --no-cache
	$(SNAKEMAKE) --lint --configfile $(DEMO)

format: driver  ## format everything
	.venv/driver/bin/ruff format .
	.venv/driver/bin/ruff check --fix .
	.venv/driver/bin/snakefmt Snakefile workflow/Snakefile workflow/rules

vendor:  ## the libraries of the report's page, by npm, at the versions of their lock
	folder=$$(mktemp -d) && cp $(VENDOR)/package*.json $$folder && (cd $$folder && npm ci --ignore-scripts --no-audit --no-fund) && \
	cp $$folder/node_modules/datatables.net/js/dataTables.min.js $$folder/node_modules/datatables.net/License.txt $(VENDOR) && rm -r $$folder

lock:  ## compile the locks anew
	UV=$$(envs/setup --print-uv) envs/lock

schemas: driver  ## write workflow/schemas and resources/shipped.json anew
	$(PYTHON) -m maieutic export-schemas --out workflow/schemas
	$(PYTHON) -m maieutic export-shipped --datasets config/datasets.yaml --out resources/shipped.json

recover: driver  ## after a SIGKILL of Snakemake: end its drivers, unlock
	$(PYTHON) -m maieutic recover --results results
	$(SNAKEMAKE) --unlock --cores 1 --configfile $(DEMO)

bench: env  ## measure what the software costs: bench/results.json, docs/performance.md
	@envs/setup peers
	$(PYTHON) bench/write_page.py

clean:  ## remove results (the journal too) and Snakemake's records
	rm -rf results .snakemake
