"""Jobs of the rules for the run as a whole. The function named like a rule returns the rule's job."""

from __future__ import annotations

from maieutic.launch import provenance
from maieutic.launch.saving import SaveConfig
from maieutic.plan.plan import Plan


def save_config(plan: Plan) -> SaveConfig:
    """Return the job that saves the effective configuration, reduced to the registry entries that this run uses."""
    config = plan.config.model_copy(
        update={
            "models": {name: plan.models[name] for name in plan.used_models},
            "datasets": {name: plan.datasets[name] for name in plan.used_datasets},
        }
    )
    made_of = provenance.provenance_of_plan(plan.for_config(config), provenance.code_state())
    made_of = made_of.model_copy(update={"absent": plan.absent_parts})
    return SaveConfig(config=config.model_dump(), provenance=made_of.model_dump(mode="json"))
