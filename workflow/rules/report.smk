"""results/scores and what lies behind them -> results/report: the page, the tables, the effective config."""


rule save_config:
    output:
        config="results/report/config.yaml",
        provenance="results/report/provenance.json",
    log:
        "results/logs/save_config.log",
    localrule: True
    container:
        config["containers"]["driver"]
    params:
        code=code_of("save-config"),
        settings=lambda wildcards: run_config().model_dump_json(),
        provenance=lambda wildcards: run_provenance(),
    shell:
        '"$DRIVER" -m maieutic save-config --settings {params.settings:q} --out {output.config}'
        " --provenance {params.provenance:q} --provenance-out {output.provenance} --log {log}"


rule build_report:
    input:
        config="results/report/config.yaml",
        provenance="results/report/provenance.json",
        scores=of_tutors("results/scores/{benchmark}/{model}.json"),
        grades=of_tutors("results/grades/{benchmark}/_parsers/{model}.jsonl"),
        model_grades=[
            file
            for benchmark in CARDS
            for tutor in settings.tutors_on(checked, benchmark)
            for file in graded_by_models(benchmark, tutor)
        ],
        replies=of_tutors("results/replies/{benchmark}/{model}.jsonl"),
        graders=grader_files(),
        differences=difference_files(),
        rubrics=rubric_report_files(),
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
        differences="results/report/differences.csv",
        problems="results/report/problems.json",
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
        code=code_of("build-report", files="report/*.[cjh]*"),
        folder=subpath(output.page, parent=True),
    shell:
        '"$DRIVER" -m maieutic build-report --config {input.config} --provenance {input.provenance}'
        " --results results --out {params.folder} --log {log}"


rule check_report:
    """After the report is written: a run in which a part of the page could not be made has failed."""
    input:
        problems="results/report/problems.json",
    output:
        "results/report/whole.json",
    log:
        "results/logs/check_report.log",
    localrule: True
    container:
        config["containers"]["driver"]
    params:
        code=code_of("check-report"),
    shell:
        '"$DRIVER" -m maieutic check-report --problems {input.problems} --out {output}'
        " --log {log}"


rule check_judges:
    """After the report is written: a run in which a judge's answers could not be read has failed."""
    input:
        page="results/report/index.html",
        judgements=[file for files in told_files().values() for file in files],
    output:
        "results/report/judges.json",
    log:
        "results/logs/check_judges.log",
    localrule: True
    container:
        config["containers"]["driver"]
    params:
        code=code_of("check-judges"),
        job=judge_check_job(),
    shell:
        '"$DRIVER" -m maieutic check-judges --job {params.job:q} --judgements {input.judgements}'
        " --out {output} --log {log}"


onstart:
    start_run(list(workflow.dag.needrun_jobs()))


onerror:
    if any(job.rule.name == "build_report" for job in workflow.dag.needrun_jobs()):
        # Never under the final names: Snakemake would take the report for made, and leave the failed tutor out for good.
        # By the interpreter that runs this: a hook has no container.
        shell(
            " {sys.executable:q} -m maieutic build-report --config results/.run.yaml --results results"
            " --provenance results/.provenance.json"
            " --out results/report/partial --missing-ok --log results/logs/build_report.partial.log"
            " && echo 'what is there so far: results/report/partial/index.html' >&2 || true"
        )
    else:  # one of the last checks has failed, after the report
        print("the report is there: results/report/index.html", file=sys.stderr)
