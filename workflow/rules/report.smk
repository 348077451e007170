"""results/scores and what lies behind them -> a run's own folder: the page, the tables, the effective config."""


rule save_config:
    output:
        config=plan.own(paths.CONFIG),
        provenance=plan.own(paths.PROVENANCE),
    log:
        paths.log_of("save_config"),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("save_config"),
        job=plan.job_of("save_config"),
    shell:
        lines.command("save-config", out="{output.config}", provenance="{output.provenance}")


rule build_report:
    input:
        unpack(plan.inputs_of("build_report")),
    output:
        page=report(
            plan.own(paths.PAGE),
            caption="../report/page.rst",
            category="Report",
            labels={"what": "interactive page"},
        ),
        csv=report(
            plan.own(paths.SCORE_TABLE),
            caption="../report/scores.rst",
            category="Tables",
            labels={"what": "every score"},
        ),
        parquet=plan.own(paths.SCORE_PARQUET),
        differences=plan.own(paths.DIFFERENCE_TABLE),
        problems=plan.own(paths.PROBLEMS),
        trust=plan.own(paths.TRUST_TABLE),
        tables=report(
            directory(plan.own(paths.TABLES)),
            patterns=["{name}.csv"],
            caption="../report/tables.rst",
            category="Tables",
            subcategory="of the page",
            labels={"what": "{name}"},
        ),
        figures=report(
            directory(plan.own(paths.FIGURES)),
            patterns=["{name}.svg"],
            caption="../report/figures.rst",
            category="Figures",
            labels={"what": "{name}"},
        ),
        item_data=directory(plan.own(paths.ITEM_DATA)),
        runtime=report(
            plan.own(paths.RUNTIME_TABLE),
            caption="../report/runtime.rst",
            category="Tables",
            labels={"what": "requests, tokens, seconds"},
        ),
    log:
        paths.log_of("build_report"),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=8000,
        runtime=30,
    params:
        code=plan.code_of("build_report"),
        folder=subpath(output.page, parent=True),
    shell:
        lines.command(
            "build-report",
            job=False,
            config="{input.config}",
            provenance="{input.provenance}",
            results="results",
            out="{params.folder}",
        )


rule check_report:
    """After the report is written: a run in which a part of the page could not be made has failed."""
    input:
        problems=plan.own(paths.PROBLEMS),
    output:
        plan.own(paths.WHOLE),
    log:
        paths.log_of("check_report"),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("check_report"),
    shell:
        lines.command("check-report", job=False, problems="{input.problems}", out="{output}")


rule check_judges:
    """After the report is written: a run in which a judge's answers could not be read has failed."""
    input:
        unpack(plan.inputs_of("check_judges")),
    output:
        plan.own(paths.JUDGE_CHECK),
    log:
        paths.log_of("check_judges"),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("check_judges"),
        job=plan.job_of("check_judges"),
    shell:
        lines.command("check-judges", verdicts="{input.verdicts}", out="{output}")


onstart:
    try:
        start.start_run(plan, workflow)
    except UserError as error:
        raise WorkflowError(error.lines) from None


onsuccess:
    start.end_run(plan, workflow, plan.own(paths.PAGE))


onerror:
    if command := start.partial_report(plan, workflow):
        # By the interpreter that runs this: a hook has no container.
        shell(f" {{sys.executable:q}} {command}")
        start.end_run(plan, workflow, None)
    else:  # one of the last checks has failed, after the report
        print(f"the report is there: {plan.own(paths.PAGE)}", file=sys.stderr)
        start.end_run(plan, workflow, plan.own(paths.PAGE))
