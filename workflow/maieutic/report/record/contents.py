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
from maieutic.report.tables import items_of_task
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
            rewarded_here = benchmark in plan.rewarded_benchmarks
            batches = plan.reward_batches(benchmark).values() if rewarded_here else ()
            for reward_model in plan.run.reward_models if any(tutor in own for own in batches) else ():
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


# What a run's own folder holds: nothing else in it is part of the run.
OWN_FILES = (
    paths.CONFIG, paths.PROVENANCE, paths.PAGE, paths.SCORE_TABLE, paths.SCORE_PARQUET, paths.DIFFERENCE_TABLE,
    paths.TRUST_TABLE, paths.RUNTIME_TABLE, paths.PROBLEMS, paths.WHOLE, paths.JUDGE_CHECK,
)  # fmt: skip
OWN_FOLDERS = (paths.TABLES, paths.FIGURES, paths.ITEM_DATA)


def files_of(plan: RulePlan, results: Path, journals: bool) -> dict[str, Path]:
    """Every file of a run, and the cards and rubrics that it was asked by: where each lies, by its name in a crate.

    Names begin with results/ or resources/. Raises UserError naming files that are not there, and links that lead out
    of the results. journals: what was asked and answered, request by request.
    """
    named: dict[str, None] = {}
    for step in steps(plan):
        named |= dict.fromkeys([*flat(inputs(plan, step)), step.out])
    named |= dict.fromkeys(flat(plan.inputs_of("build_report")(Wildcards())))
    base = results.parent
    places = {own: where(base, own) for path in named if (own := own_name(path))}
    if missing := [name for name, place in places.items() if not place.exists()]:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise UserError(
            str(results), f"not all of the run is there: {', '.join(missing[:3])}{more}", "run it to its end first"
        )
    optional = [
        paths.SERVER_RECORD,
        *(paths.PROMPTS.of(benchmark=name, tutor=tutor) for name in plan.benchmarks for tutor in plan.tutors_on(name)),
        *(plan.own(path) for path in OWN_FILES),
        *(journals_of(plan) if journals else ()),
        *pictures_of(plan, results),
    ]
    for folder in (base / plan.own(path) for path in OWN_FOLDERS):
        optional += [str(path.relative_to(base)) for path in sorted(folder.glob("[!.]*")) if path.is_file()]
    places |= {name: base / name for name in optional if (base / name).is_file()}
    outside = [name for name, place in places.items() if not is_within(place, results, paths.HOME)]
    if outside:
        raise UserError(outside[0], "it leads out of the results", "put the file itself there")
    return {name: place for name, place in sorted(places.items()) if place.is_file()}


def own_name(path: str) -> str | None:
    """What a file of a run is called in a crate; None for one of somebody's own that lies elsewhere."""
    if path.startswith(f"{paths.ROOT}/"):
        return path
    place = Path(path)
    if place.is_absolute():
        place = place.relative_to(paths.HOME) if place.is_relative_to(paths.HOME) else Path("/")
    return str(place) if place.parts[:1] == ("resources",) else None


def is_within(place: Path, *folders: Path) -> bool:
    """Whether a file lies in one of some folders, wherever a link on its way leads."""
    return any(place.resolve().is_relative_to(folder.resolve()) for folder in folders)


def pictures_of(plan: RulePlan, results: Path) -> Iterator[str]:
    """The pictures of the run's items."""
    for benchmark, loadeds in plan.benchmarks.items():
        for card in (loaded.card for loaded in loadeds if loaded.card.images):
            for item in items_of_task(results, benchmark, card.task):
                yield from (f"{paths.PICTURE_STORE}/{file}" for file in item.images)


def journals_of(plan: RulePlan) -> Iterator[str]:
    """The journals of the run's own tutors and graders. A batch of tutors is one file."""
    for benchmark in plan.benchmarks:
        for tutor in plan.tutors_on(benchmark):
            yield paths.REPLY_JOURNAL.of(benchmark=benchmark, tutor=tutor)
            for shard in plan.shards_of(tutor):
                yield paths.SHARD_JOURNAL.of(benchmark=benchmark, tutor=tutor, shard=shard)
        for judge in plan.run.judges if benchmark in plan.judged_benchmarks() else ():
            for batch in plan.judge_batches(benchmark):
                yield paths.VERDICT_JOURNAL.of(judge=judge, benchmark=benchmark, batch=batch)
        for reward_model in plan.run.reward_models if benchmark in plan.rewarded_benchmarks else ():
            for batch in plan.reward_batches(benchmark):
                yield paths.REWARD_JOURNAL.of(reward_model=reward_model, benchmark=benchmark, batch=batch)
        for tagger in plan.run.taggers:
            yield paths.TAG_JOURNAL.of(tagger=tagger, benchmark=benchmark)
    for judge in plan.run.judges:
        yield paths.LABELLED_JOURNAL.of(judge=judge)


def where(base: Path, path: str) -> Path:
    """Where a file of a run lies: results below their folder, cards and rubrics in this checkout."""
    return base / path if path.startswith(f"{paths.ROOT}/") else paths.HOME / path
