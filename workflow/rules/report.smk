"""results/scores and their sources -> the run's folder: page, tables and effective configuration."""

from maieutic.report import stage as report_stage
from maieutic.validation import stage as validation_stage


rule save_config:
    output:
        config=f"results/{RUN}/config.yaml",
        provenance=f"results/{RUN}/provenance.json",
    log:
        "results/logs/save_config.log",
    localrule: True
    params:
        **job("save_config"),
    shell:
        command("save-config", out="{output.config}", provenance="{output.provenance}")


rule build_report:
    input:
        config=f"results/{RUN}/config.yaml",
        provenance=f"results/{RUN}/provenance.json",
        files=plan.select(report_stage.report_files),
    output:
        page=report(
            f"results/{RUN}/index.html",
            caption="../report/page.rst",
            category="Report",
            labels={"what": "interactive page"},
        ),
        csv=report(
            f"results/{RUN}/scores.csv",
            caption="../report/scores.rst",
            category="Tables",
            labels={"what": "every score"},
        ),
        parquet=f"results/{RUN}/scores.parquet",
        differences=f"results/{RUN}/differences.csv",
        ranking=f"results/{RUN}/ranking.json",
        problems=f"results/{RUN}/problems.json",
        trust=f"results/{RUN}/trust.csv",
        tables=report(
            directory(f"results/{RUN}/tables"),
            patterns=["{name}.csv"],
            caption="../report/tables.rst",
            category="Tables",
            subcategory="of the page",
            labels={"what": "{name}"},
        ),
        figures=report(
            directory(f"results/{RUN}/figures"),
            patterns=["{name}.svg"],
            caption="../report/figures.rst",
            category="Figures",
            labels={"what": "{name}"},
        ),
        item_data=directory(f"results/{RUN}/items"),
        runtime=report(
            f"results/{RUN}/runtime.csv",
            caption="../report/runtime.rst",
            category="Tables",
            labels={"what": "requests, tokens, seconds"},
        ),
    log:
        "results/logs/build_report.log",
    localrule: True
    resources:
        mem_mb=8000,
        runtime=30,
    params:
        code=plan.code_of("build_report"),
        folder=subpath(output.page, parent=True),
    shell:
        command(
            "build-report",
            job=False,
            config="{input.config}",
            provenance="{input.provenance}",
            results="results",
            out="{params.folder}",
        )


rule check_report:
    """Fail the run, after its report is written, if a part of the page could not be rendered."""
    input:
        problems=f"results/{RUN}/problems.json",
    output:
        f"results/{RUN}/whole.json",
    log:
        "results/logs/check_report.log",
    localrule: True
    params:
        code=plan.code_of("check_report"),
    shell:
        command("check-report", job=False, problems="{input.problems}", out="{output}")


rule keep_run:
    """Keep the shared files that the page and exports need, since another run may replace them."""
    input:
        config=f"results/{RUN}/config.yaml",
        page=f"results/{RUN}/index.html",
        files=plan.select(report_stage.report_files),
    output:
        kept=directory(f"results/{RUN}/kept"),
    log:
        "results/logs/keep_run.log",
    localrule: True
    params:
        code=plan.code_of("keep_run"),
    shell:
        command(
            "keep-run", job=False, config="{input.config}", results="results", out="{output.kept}"
        )


rule check_judges:
    """Fail the run, after its report is written, if too many verdicts of a judge are missing."""
    input:
        page=f"results/{RUN}/index.html",
        verdicts=plan.select(validation_stage.every_verdict),
    output:
        f"results/{RUN}/judges.json",
    log:
        "results/logs/check_judges.log",
    localrule: True
    params:
        **job("check_judges"),
    shell:
        command("check-judges", verdicts="{input.verdicts}", out="{output}")


onstart:
    try:
        hooks.start_run(plan, workflow)
    except UserError as error:
        raise WorkflowError(error.lines) from None


onsuccess:
    hooks.end_run(plan, workflow, f"results/{RUN}/index.html")


onerror:
    hooks.end_display(workflow)
    if report_command := hooks.partial_report_command(plan, workflow):
        # Use Snakemake's interpreter, because hooks run outside containers.
        shell(f" {{sys.executable:q}} {report_command}")
        hooks.end_run(plan, workflow, None)
    else:  # one of the last checks failed after the report was written
        print(f"the report was written: results/{RUN}/index.html", file=sys.stderr)
        hooks.end_run(plan, workflow, f"results/{RUN}/index.html")
