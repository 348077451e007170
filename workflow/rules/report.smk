"""results/scores and what lies behind them -> results/report: the page, the tables, the effective config."""


rule save_config:
    output:
        "results/report/config.yaml",
    log:
        "results/logs/save_config.log",
    localrule: True
    container:
        config["containers"]["driver"]
    params:
        python=python_of("driver"),
        settings=lambda wildcards: run_config(),
    shell:
        "{params.python} -m maieutic save-config --settings {params.settings:q} --out {output} --log {log}"


rule build_report:
    input:
        config="results/report/config.yaml",
        scores=collect("results/scores/{benchmark}/{model}.json", benchmark=CARDS, model=TUTORS),
        grades=collect(
            "results/grades/parsed/{benchmark}/{model}.jsonl", benchmark=CARDS, model=TUTORS
        ),
        code=code("report/*.*"),
    output:
        page=report(
            "results/report/index.html",
            caption="../report/page.rst",
            category="Report",
            labels={"what": "interactive page"},
        ),
        csv=report(
            "results/report/scores.csv",
            caption="../report/scores.rst",
            category="Tables",
            labels={"what": "every score"},
        ),
        parquet="results/report/scores.parquet",
        runtime=report(
            "results/report/runtime.csv",
            caption="../report/runtime.rst",
            category="Tables",
            labels={"what": "requests, tokens, seconds"},
        ),
    log:
        "results/logs/build_report.log",
    localrule: True
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=8000,
        runtime=30,
    params:
        python=python_of("driver"),
        folder=subpath(output.page, parent=True),
    shell:
        "{params.python} -m maieutic build-report --config {input.config} --results results"
        " --out {params.folder} --log {log}"


onstart:
    shell(
        f"{python_of('driver')} -m maieutic save-config --settings {{run:q}} --out results/.run.yaml"
        f" && {python_of('driver')} -m maieutic preflight --config results/.run.yaml --serve {python_of('serve')}",
        run=run_config(),
    )


onerror:
    # Never under the final names: Snakemake would take the report for made, and leave the failed tutor out for good.
    shell(
        f"{python_of('driver')} -m maieutic build-report --config results/.run.yaml --results results"
        " --out results/report/partial --missing-ok --log results/logs/build_report.partial.log"
        " && echo 'what is there so far: results/report/partial/index.html' >&2 || true"
    )
