"""Which files a finished run consists of, and the steps by which its scores follow from its replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.graders.parsing import ParseReplies, parse_replies
from maieutic.judges.grading import GradeVerdicts, grade_verdicts
from maieutic.plan.rules import RulePlan
from maieutic.rewards.grading import GradeByRewards, grade_by_rewards
from maieutic.scores.differences import CompareTutors, compare_tutors
from maieutic.scores.score import ScoreReplies, score_replies


class Step(NamedTuple):
    """One step from files to a file, which asks nobody. rule: its name; names: its wildcards; out: what it writes.

    run: does it, from the job as JSON, the input files by their names, the folder of items and the output.
    """

    rule: str
    names: dict[str, str]
    out: str
    run: Callable[[str, dict[str, Any], Path, Path], None]


class Wildcards(dict[str, str]):
    """A step's names as a rule's wildcards."""


def parsing(job: str, files: dict[str, Any], items: Path, out: Path) -> None:
    """Replies to the grades of parsers."""
    parse_replies(job=ParseReplies.model_validate_json(job), items=items, replies=files["replies"], out=out)


def rewarding(job: str, files: dict[str, Any], items: Path, out: Path) -> None:
    """Rewards to grades."""
    grade_by_rewards(
        job=GradeByRewards.model_validate_json(job),
        items=items,
        replies=files["replies"],
        rewards=files["rewards"],
        overlaps=files["overlaps"],
        out=out,
    )


def judging(job: str, files: dict[str, Any], items: Path, out: Path) -> None:
    """Verdicts to grades."""
    grade_verdicts(job=GradeVerdicts.model_validate_json(job), verdicts=files["verdicts"], items=items, out=out)


def scoring(job: str, files: dict[str, Any], items: Path, out: Path) -> None:
    """Grades to scores."""
    score_replies(job=ScoreReplies.model_validate_json(job), items=items, grades=files["grades"], out=out)


def comparing(job: str, files: dict[str, Any], items: Path, out: Path) -> None:
    """Grades to paired differences."""
    compare_tutors(job=CompareTutors.model_validate_json(job), items=items, grades=files["grades"], out=out)


def steps(plan: RulePlan) -> Iterator[Step]:
    """Every such step of a run, each after those that it rests on."""
    for benchmark in plan.benchmarks:
        for tutor in plan.tutors_on(benchmark):
            names = {"benchmark": benchmark, "tutor": tutor}
            yield Step("parse_replies", names, paths.PARSED.of(**names), parsing)
            for judge in plan.judges_of(benchmark, tutor):
                judged = {**names, "judge": judge}
                yield Step("grade_verdicts", judged, paths.JUDGE_GRADES.of(**judged), judging)
            scored = (
                [name for own in plan.reward_batches(benchmark).values() for name in own]
                if (benchmark in plan.rewarded_benchmarks)
                else []
            )
            for reward_model in plan.run.reward_models if tutor in scored else ():
                rewarded = {**names, "reward_model": reward_model}
                yield Step("grade_by_rewards", rewarded, paths.REWARD_GRADES.of(**rewarded), rewarding)
            yield Step("score_replies", names, paths.SCORES.of(**names), scoring)
        if len(plan.compared_tutors(benchmark)) > 1:
            yield Step("compare_tutors", {"benchmark": benchmark}, paths.DIFFERENCES.of(benchmark=benchmark), comparing)


def inputs(plan: RulePlan, step: Step) -> dict[str, str | list[str]]:
    """The files that a step reads, by their names."""
    return plan.inputs_of(step.rule)(Wildcards(step.names))


def flat(files: dict[str, str | list[str]]) -> Iterator[str]:
    """The paths of a rule's input files."""
    for value in files.values():
        yield from [value] if isinstance(value, str) else value


def files_of(plan: RulePlan, results: Path, journals: bool) -> list[str]:
    """Every file of a run as a path from the folder above `results`, and the cards and rubrics that it was asked by.

    Raises UserError naming those that are not there. journals: what was asked and answered, request by request.
    """
    named: dict[str, None] = {}
    for step in steps(plan):
        named |= dict.fromkeys([*flat(inputs(plan, step)), step.out])
    named |= dict.fromkeys(flat(plan.inputs_of("build_report")(Wildcards())))
    base = results.parent
    if missing := [path for path in named if not where(base, path).exists()]:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise UserError(
            str(results), f"not all of the run is there: {', '.join(missing[:3])}{more}", "run it to its end first"
        )
    optional = [
        paths.PROMPTS.of(benchmark=benchmark, tutor=tutor)
        for benchmark in plan.benchmarks
        for tutor in plan.tutors_on(benchmark)
    ]
    optional.append(paths.SERVER_RECORD)
    own = base / Path(plan.own(paths.PAGE)).parent
    optional += [str(path.relative_to(base)) for path in sorted(own.rglob("*")) if path.is_file()]
    if journals:
        kept = {*plan.tutors, *plan.run.judges, *plan.reward_models, *plan.run.taggers}
        optional += [
            str(path.relative_to(base))
            for path in sorted((results / "journal").rglob("*.jsonl"))
            if not path.name.startswith(".") and kept & {path.stem, *path.relative_to(results).parts}
        ]
    named |= dict.fromkeys(path for path in optional if (base / path).is_file())
    return sorted(named)


def where(base: Path, path: str) -> Path:
    """Where a file of a run lies: results below their folder, cards and rubrics in this checkout."""
    return base / path if path.startswith(f"{paths.ROOT}/") else paths.HOME / path
