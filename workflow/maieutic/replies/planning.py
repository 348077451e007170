"""Part of the plan that covers tutors."""

from __future__ import annotations

from maieutic.config.models import BaselineModel, RecordedModel
from maieutic.plan.plan import Plan
from maieutic.plan.slice_plan import Checks, SlicePlan
from maieutic.plan.syntax import Name
from maieutic.plan.used_code import Replacements, unused_tables, used_on_benchmark
from maieutic.replies import inputs, jobs
from maieutic.replies.checks import tutor_checks

# All kinds of tutors share one command. These are the definitions that one kind of tutor never uses.
UNUSED_BY_SERVED: Replacements = {Name("replies.baselines", "baseline_reply"): ()}
UNUSED_BY_BASELINES: Replacements = {
    Name("serving.backends", "backend_of"): (),
    Name("replies.generate", "run_conversations"): (),
}


def used_by_generate_replies(plan: Plan, tutor: str, **others: str) -> Replacements:
    """Return replacements that leave out code of other kinds of tutors, and other benchmarks' baselines."""
    entry = plan.models[tutor]
    if not isinstance(entry, BaselineModel):
        return UNUSED_BY_SERVED
    return {**UNUSED_BY_BASELINES, **unused_tables("baselines", "TUTORS", {entry.tutor})}


def used_by_read_replies(plan: Plan, tutor: str, **others: str) -> Replacements:
    """Return replacements that leave out the formats and loaders that the job for a recorded tutor does not use."""
    entry = plan.models[tutor]
    assert isinstance(entry, RecordedModel)
    loaders = {loaded.card.loader for loaded in plan.cards.values()}
    return {
        **unused_tables("recorded", "RECORDED", {entry.form} if entry.form else set()),
        **unused_tables("loaders", "LOADERS", loaders),
    }


PLANNING = SlicePlan(
    inputs=inputs,
    jobs=jobs,
    checks=Checks(entries=tutor_checks),
    used_code={
        "generate_replies": used_by_generate_replies,
        "read_replies": used_by_read_replies,
        "parse_replies": used_on_benchmark,
    },
)
