"""results/scores and their sources -> the run's folder: page, tables, effective configuration."""


rule save_config:
    output:
        config=plan.run_path(paths.CONFIG),
        provenance=plan.run_path(paths.PROVENANCE),
    log:
        paths.log_of("save_config"),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("save_config"),
        job=plan.job_of("save_config"),
    shell:
        shell_lines.command_line(
            "save-config", out="{output.config}", provenance="{output.provenance}"
        )


rule build_report:
    input:
        unpack(plan.inputs_of("build_report")),
    output:
        page=report(
            plan.run_path(paths.PAGE),
            caption="../report/page.rst",
            category="Report",
            labels={"what": "interactive page"},
        ),
        csv=report(
            plan.run_path(paths.SCORE_TABLE),
            caption="../report/scores.rst",
            category="Tables",
            labels={"what": "every score"},
        ),
        parquet=plan.run_path(paths.SCORE_PARQUET),
        differences=plan.run_path(paths.DIFFERENCE_TABLE),
        problems=plan.run_path(paths.PROBLEMS),
        trust=plan.run_path(paths.TRUST_TABLE),
        tables=report(
            directory(plan.run_path(paths.TABLES)),
            patterns=["{name}.csv"],
            caption="../report/tables.rst",
            category="Tables",
            subcategory="of the page",
            labels={"what": "{name}"},
        ),
        figures=report(
            directory(plan.run_path(paths.FIGURES)),
            patterns=["{name}.svg"],
            caption="../report/figures.rst",
            category="Figures",
            labels={"what": "{name}"},
        ),
        item_data=directory(plan.run_path(paths.ITEM_DATA)),
        runtime=report(
            plan.run_path(paths.RUNTIME_TABLE),
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
        shell_lines.command_line(
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
        problems=plan.run_path(paths.PROBLEMS),
    output:
        plan.run_path(paths.REPORT_CHECK),
    log:
        paths.log_of("check_report"),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("check_report"),
    shell:
        shell_lines.command_line(
            "check-report", job=False, problems="{input.problems}", out="{output}"
        )


rule check_judges:
    """Fail the run, after its report is written, if too many verdicts of a judge are missing."""
    input:
        unpack(plan.inputs_of("check_judges")),
    output:
        plan.run_path(paths.JUDGE_CHECK),
    log:
        paths.log_of("check_judges"),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("check_judges"),
        job=plan.job_of("check_judges"),
    shell:
        shell_lines.command_line("check-judges", verdicts="{input.verdicts}", out="{output}")


onstart:
    try:
        run_hooks.start_run(plan, workflow)
    except UserError as error:
        raise WorkflowError(error.lines) from None


onsuccess:
    run_hooks.end_run(plan, workflow, plan.run_path(paths.PAGE))


onerror:
    if command := run_hooks.partial_report_command(plan, workflow):
        # Use the interpreter of Snakemake: hooks run outside containers.
        shell(f" {{sys.executable:q}} {command}")
        run_hooks.end_run(plan, workflow, None)
    else:  # one of the last checks failed, after the report was written
        print(f"the report was written: {plan.run_path(paths.PAGE)}", file=sys.stderr)
        run_hooks.end_run(plan, workflow, plan.run_path(paths.PAGE))
