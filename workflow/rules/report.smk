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
        settings=lambda wildcards: run_config(),
    shell:
        '"$DRIVER" -m maieutic save-config --settings {params.settings:q} --out {output} --log {log}'


rule build_report:
    input:
        config="results/report/config.yaml",
        scores=of_tutors("results/scores/{benchmark}/{model}.json"),
        grades=of_tutors("results/grades/parsed/{benchmark}/{model}.jsonl"),
        replies=of_tutors("results/replies/{benchmark}/{model}.jsonl"),
        graders=grader_files(),
        rubrics=rubric_report_files(),
        code=[
            *verdict_code(),
            *code("report/*.*", "judges/labels.py", "judges/lights.py", "judges/selection.py"),
        ],
        printed=[
            path
            for path in Path("resources/reference").glob("*.csv")
            if path.stem
            in [*CARDS, "reward_models", "mrbench_tables", "kmpbench_tables", "tutorbench_tables"]
        ],
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
        trust="results/report/trust.csv",
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
        folder=subpath(output.page, parent=True),
    shell:
        '"$DRIVER" -m maieutic build-report --config {input.config} --results results'
        " --out {params.folder} --log {log}"


rule check_judges:
    """After the report is written: a run in which a judge's answers could not be read has failed."""
    input:
        page="results/report/index.html",
        code=code("judges/validation.py"),
        judgements=[
            file
            for name in JUDGES
            for file in [f"results/grades/labelled/{name}.jsonl", *all_judge_files(name)]
        ]
        + tagger_files(),
    output:
        "results/report/judges.json",
    log:
        "results/logs/check_judges.log",
    localrule: True
    container:
        config["containers"]["driver"]
    params:
        limits=lambda wildcards: [
            judging.unreadable_limit(checked, name) for name in {**JUDGES, **TAGGERS}
        ],
        judges=list({**JUDGES, **TAGGERS}),
        failed="results/.unreadable.json",
    shell:
        '"$DRIVER" -m maieutic check-judges --judgements {input.judgements} --judges {params.judges} --limits {params.limits}'
        " --failed {params.failed} --out {output} --log {log}"


onstart:
    start_run(list(workflow.dag.needrun_jobs()))


onerror:
    # Never under the final names: Snakemake would take the report for made, and leave the failed tutor out for good.
    # By the interpreter that runs this: a hook has no container.
    # Where the last check has failed, after the report, there is nothing to add.
    shell(
        "if [ -e results/.unreadable.json ]; then"
        " echo 'the report is whole: results/report/index.html' >&2; exit; fi;"
        " {sys.executable:q} -m maieutic build-report --config results/.run.yaml --results results"
        " --out results/report/partial --missing-ok --log results/logs/build_report.partial.log"
        " && echo 'what is there so far: results/report/partial/index.html' >&2 || true"
    )
