# `make demo` and `make test` install the environments that they need.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
CORES ?= $(shell nproc)
# Two more than the cores, because tests wait for servers and for Snakemake
WORKERS := $(shell expr $(CORES) + 2)
UNIT_TESTS ?= tests/unit
MARKED ?= not slow
PYTHON := .venv/dev/bin/python
SNAKEMAKE := .venv/bin/snakemake
DEMO := config/config.yaml
VENDOR := workflow/maieutic/report/vendor
export PYTHONPATH := $(CURDIR)/workflow
# Some containers set PYTHONDONTWRITEBYTECODE, with which each of a run's hundreds of jobs would recompile the package.
unexport PYTHONDONTWRITEBYTECODE PYTHONHOME

.PHONY: help demo test test-fast drills mutants test-scale test-slurm test-containers released tour env driver dev check format vendor lock sbom recover bench bench-gpu bills schemas clean
help:  ## list these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

demo: env  ## install the environments, run the demo, write results/report/index.html
	$(SNAKEMAKE) --cores $(CORES) --configfile $(DEMO)
	@echo "open results/report/index.html"

test-fast: dev  ## run the unit tests except the slow ones (a minute)
	$(PYTHON) -m pytest -n $(WORKERS) --dist loadfile -m "$(MARKED)" $(UNIT_TESTS)

test: env dev  ## install the environments, run the unit and workflow tests (minutes)
	@envs/setup peers
	$(PYTHON) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder tests/workflow tests/unit

drills: env dev  ## run the reliability drills and write their table (FULL=1: all drills, an hour)
	MAIEUTIC_DRILLS=$(if $(FULL),full) $(PYTHON) tests/reliability.py -n $(CORES) --dist $(if $(FULL),load,loadfile) --no-loadscope-reorder

test-scale: env dev  ## run eight scripted tutors on the published files: 200,000 requests (minutes)
	$(PYTHON) -m pytest tests/scale -s

test-slurm: env dev  ## run the SLURM tests on a one-machine cluster from Debian's packages (root)
	$(PYTHON) -m pytest tests/slurm

test-containers: env dev  ## build and test the images with Apptainer and Docker (root, Debian 12)
	$(PYTHON) -m pytest tests/containers

released: driver  ## compute everything that needs no model: results/report/index.html (DATA=FOLDER for local copies)
	$(SNAKEMAKE) --cores $(CORES) --configfile config/released.yaml $(if $(DATA),--config data_dir="$(DATA)")
	@echo "open results/report/index.html"

tour: env dev  ## make the pictures of docs/first-run.md from the demo's results (needs Chromium)
	$(PYTHON) tests/tour.py

mutants:  ## run the mutation tests (hours; not in CI)
	@envs/setup driver mutants
	.venv/mutants/bin/mutmut run

env:  ## install the environments from their locks (VARIANT=cpu or cuda, kept for later calls)
	@envs/setup driver serve

driver:  ## install only Snakemake's environment, which suffices for hosted models
	@envs/setup driver
	@[ "$(MAKECMDGOALS)" != driver ] || echo "next: source .venv/activate, then maieutic init" >&2

dev: driver  ## install the environment of the checks and tests
	@envs/setup dev

check: dev  ## check format, lint, types, English and the workflow
	.venv/dev/bin/ruff format --check .
	.venv/dev/bin/ruff check .
	.venv/dev/bin/snakefmt --check Snakefile workflow/Snakefile workflow/rules
	$(PYTHON) tests/prose.py
	$(PYTHON) -m mypy
	PYTHONPATH=workflow .venv/dev/bin/lint-imports --no-cache
	$(SNAKEMAKE) --lint --configfile $(DEMO)

format: dev  ## format everything
	.venv/dev/bin/ruff format .
	.venv/dev/bin/ruff check --fix .
	.venv/dev/bin/snakefmt Snakefile workflow/Snakefile workflow/rules

vendor:  ## install the libraries of the report page from their lock (npm)
	folder=$$(mktemp -d) && cp $(VENDOR)/package*.json $$folder && (cd $$folder && npm ci --ignore-scripts --no-audit --no-fund) && \
	cp $$folder/node_modules/datatables.net/js/dataTables.min.js $$folder/node_modules/temml/dist/temml.min.js $(VENDOR) && \
	grep -v "^//# sourceMappingURL" $$folder/node_modules/markdown-it/dist/browser/markdown-it.umd.min.js > $(VENDOR)/markdown-it.umd.min.js && \
	tail -n +1 $$(ls $$folder/node_modules/*/[Ll][Ii][Cc][Ee][Nn][Ss][Ee]* | sort) | sed "s|$$folder/node_modules/||" > $(VENDOR)/License.txt && rm -r $$folder

lock:  ## compile the locks anew
	UV=$$(envs/setup --print-uv) envs/lock

schemas: dev  ## write workflow/schemas, docs/cli.md and the checksums of shipped files
	$(PYTHON) -m maieutic export-schemas --out workflow/schemas
	$(PYTHON) -m maieutic export-shipped --datasets resources/registries/datasets.yaml

sbom: env dev  ## write the packages of each environment with licences to results/sbom (CycloneDX)
	mkdir -p results/sbom
	for name in driver serve; do .venv/dev/bin/cyclonedx-py environment .venv/$$name -o results/sbom/$$name.json; done

recover: driver  ## end the drivers of a killed Snakemake, and unlock the folder
	.venv/bin/maieutic recover

bench: demo dev  ## run the demo and the benchmarks: write bench/results.json and bench/README.md
	@envs/setup peers
	$(PYTHON) bench/write_page.py

bills: dev  ## write docs/reproduce.md: the command and the cost of each printed table
	$(PYTHON) bench/reproduce.py

bench-gpu: env dev  ## measure reward models, training and vLLM on this machine's GPU: write bench/gpu.json
	.venv/serve/bin/python bench/gpu.py
	$(PYTHON) bench/write_page.py --render

clean:  ## remove results, journals and Snakemake's records
	rm -rf results .snakemake
