# `make demo` and `make test` install the environments that they need.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
CORES ?= $(shell nproc)
# One more than the cores, because some tests wait for servers
WORKERS := $(shell expr $(CORES) + 1)
PYTHON := .venv/driver/bin/python
SNAKEMAKE := .venv/bin/snakemake
DEMO := config/demo.yaml
VENDOR := workflow/maieutic/report/vendor
export PYTHONPATH := $(CURDIR)/workflow
# Some containers set PYTHONDONTWRITEBYTECODE, with which each of a run's hundreds of jobs would recompile the package.
unexport PYTHONDONTWRITEBYTECODE PYTHONHOME

.PHONY: help demo test test-fast drills mutants test-scale test-slurm test-containers tour env driver check format vendor lock recover bench schemas clean
help:  ## list these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

demo: env  ## install the environments, run the demo, write results/report/index.html
	$(SNAKEMAKE) --cores $(CORES) --configfile $(DEMO)
	@echo "open results/report/index.html"

test-fast: driver  ## run the unit tests except the slow ones (a minute)
	$(PYTHON) -m pytest -n $(WORKERS) --dist loadfile -m "not slow" tests/unit

test: env  ## install the environments, run the unit and workflow tests (minutes)
	@envs/setup peers
	@envs/setup exchange || true # optional: needs Python 3.12
	$(PYTHON) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder tests/workflow tests/unit

drills: env  ## run the reliability drills and write their table (FULL=1: all drills, an hour)
	MAIEUTIC_DRILLS=$(if $(FULL),full) $(PYTHON) tests/reliability.py -n $(CORES) --dist $(if $(FULL),load,loadfile) --no-loadscope-reorder

test-scale: env  ## run eight scripted tutors on the published files: 200,000 requests (minutes)
	$(PYTHON) -m pytest tests/scale -s

test-slurm: env  ## run the SLURM tests on a one-machine cluster from Debian's packages (root)
	$(PYTHON) -m pytest tests/slurm

test-containers: env  ## build and test the images with Apptainer and Docker (root, Debian 12)
	$(PYTHON) -m pytest tests/containers

tour: env  ## make the pictures of docs/tour.md from the demo's results (needs Chromium)
	$(PYTHON) tests/tour.py

mutants:  ## run the mutation tests (hours; not in CI)
	@envs/setup driver mutants
	.venv/mutants/bin/python tests/mutants/run.py

env:  ## install the environments from their locks (VARIANT=cpu or cuda, kept for later calls)
	@envs/setup driver serve

driver:  ## install only Snakemake's environment, which suffices for hosted models
	@envs/setup driver

check: driver  ## check format, lint, types, English and the workflow
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

vendor:  ## install the libraries of the report page from their lock (npm)
	folder=$$(mktemp -d) && cp $(VENDOR)/package*.json $$folder && (cd $$folder && npm ci --ignore-scripts --no-audit --no-fund) && \
	cp $$folder/node_modules/datatables.net/js/dataTables.min.js $$folder/node_modules/datatables.net/License.txt $(VENDOR) && rm -r $$folder

lock:  ## compile the locks anew
	UV=$$(envs/setup --print-uv) envs/lock

schemas: driver  ## write workflow/schemas and the checksums of shipped files
	$(PYTHON) -m maieutic export-schemas --out workflow/schemas
	$(PYTHON) -m maieutic export-shipped --datasets config/datasets.yaml

recover: driver  ## end the drivers of a killed Snakemake, and unlock the folder
	$(PYTHON) -m maieutic recover --results results
	$(SNAKEMAKE) --unlock --cores 1 --configfile $(DEMO)

bench: env  ## run the benchmarks: write bench/results.json and docs/performance.md
	@envs/setup peers
	$(PYTHON) bench/write_page.py

clean:  ## remove results, journals and Snakemake's records
	rm -rf results .snakemake
