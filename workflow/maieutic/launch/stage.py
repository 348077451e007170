"""Part of the plan that covers the run as a whole."""

from __future__ import annotations

from maieutic.core import paths
from maieutic.launch import provenance
from maieutic.launch.saved_runs import SaveConfig
from maieutic.plan.plan import Plan
from maieutic.plan.slice_plan import SlicePlan


def last_checks(plan: Plan) -> list[str]:
    """Return the outputs of a run's last two checks (of the page, of missing verdicts), and slices' last files."""
    return [
        plan.run_path(paths.REPORT_CHECK),
        plan.run_path(paths.KEPT),
        *([plan.run_path(paths.JUDGE_CHECK)] if plan.run.judges else []),
        *(file for part in plan.slices for file in part.last_files(plan)),
    ]


def save_config_job(plan: Plan) -> SaveConfig:
    """Return the job that saves the effective configuration, reduced to the registry entries that this run uses."""
    config = plan.config.model_copy(
        update={
            "models": {name: plan.models[name] for name in plan.used_models},
            "datasets": {name: plan.datasets[name] for name in plan.used_datasets},
        }
    )
    made_of = provenance.provenance_of_plan(plan.for_config(config), provenance.code_state(paths.HOME))
    made_of = made_of.model_copy(update={"absent": plan.absent_parts})
    return SaveConfig(config=config.model_dump(), provenance=made_of.model_dump(mode="json"))


STAGE = SlicePlan(
    module=__name__,
)
