"""Which files a finished run consists of, and the steps by which its scores follow from its replies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from maieutic.benchmarks.tutorbench.breakdown import break_down
from maieutic.benchmarks.tutorbench.difficulty import filter_by_difficulty
from maieutic.benchmarks.tutorbench.tagging import vote_tags
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.files import MB
from maieutic.core.ledger import SUFFIX
from maieutic.graders.parsing import parse_replies
from maieutic.judges.grading import grade_verdicts
from maieutic.plan.rules import RulePlan
from maieutic.report.tables import items_of_task
from maieutic.rewards.grading import grade_by_rewards
from maieutic.scores.differences import compare_tutors
from maieutic.scores.score import score_replies
from maieutic.validation.graders import (
    score_labels,
    validate_criteria_on_labels,
    validate_judge,
    validate_reward_on_labels,
)
from maieutic.validation.probes import validate_probes
from maieutic.validation.rewards import validate_criteria, validate_reward_model

LARGEST_SOURCE = 64 * MB  # of a file that only a validation rests on; larger ones are not packed


class Step(NamedTuple):
    """One step from files to files that asks nobody. rule: its name; names: its wildcards.

    function: its command, which takes a job, `items` (a folder) or inputs of the rule by their names, and the outputs;
    outs: what it writes, by the names of its parameters.
    """

    rule: str
    function: Callable[..., None]
    names: dict[str, str]
    outs: dict[str, str | list[str]]

    def run(self, job: str, files: Mapping[str, Any], items: Path, outs: Mapping[str, Any]) -> None:
        """Run the command of the step.

        job: its job as JSON; files: input paths by name; items: the folder of items; outs: output paths by parameter.
        """
        parameters = get_type_hints(self.function)
        given = {name: value for name, value in {**files, "items": items}.items() if name in parameters}
        self.function(job=parameters["job"].model_validate_json(job), **given, **outs)


class Wildcards(dict[str, str]):
    """A step's names as a rule's wildcards."""


def step(function: Callable[..., None], pattern: paths.Pattern, rule: str | None = None, **names: str) -> Step:
    """Return a step with one output. rule: where it is not the function's name; names: its wildcards."""
    return Step(rule or function.__name__, function, names, {"out": pattern.of(**names)})


def steps(plan: RulePlan) -> Iterator[Step]:
    """Yield every step from replies, verdicts and rewards to scores, each after those that it rests on."""
    for benchmark in plan.benchmarks:
        for tutor in plan.tutors_on(benchmark):
            names = {"benchmark": benchmark, "tutor": tutor}
            yield step(parse_replies, paths.PARSED, **names)
            for judge in plan.judges_of(benchmark, tutor):
                yield step(grade_verdicts, paths.JUDGE_GRADES, **names, judge=judge)
            rewarded_here = benchmark in plan.rewarded_benchmarks
            batches = plan.reward_batches(benchmark).values() if rewarded_here else ()
            for reward_model in plan.run.reward_models if any(tutor in own for own in batches) else ():
                yield step(grade_by_rewards, paths.REWARD_GRADES, **names, reward_model=reward_model)
            yield step(score_replies, paths.SCORES, **names)
        if len(plan.compared_tutors(benchmark)) > 1:
            yield step(compare_tutors, paths.DIFFERENCES, benchmark=benchmark)
        if benchmark in plan.pooled_benchmarks:
            yield from pooled_steps(plan, benchmark)


def pooled_steps(plan: RulePlan, benchmark: str) -> Iterator[Step]:
    """Yield the steps of a benchmark whose tasks are scored together: votes on tags, scores by tag, hard items."""
    if plan.run.taggers:
        yield step(vote_tags, paths.VOTES, benchmark=benchmark)
    for tutor in plan.tutors_on(benchmark):
        yield step(break_down, paths.BREAKDOWN, benchmark=benchmark, tutor=tutor)
    if plan.run.difficulty.tutors:
        yield step(filter_by_difficulty, paths.DIFFICULTY, benchmark=benchmark)


def validation_steps(plan: RulePlan) -> Iterator[Step]:
    """Yield the steps to what the page shows of graders and labelled sets, but for those from people's own files.

    What they rest on may be too large for a crate: a step is done again where all of it is there.
    """
    shown = set(flat(plan.inputs_of("build_report")(Wildcards())))
    yield from (step for step in all_validation_steps(plan) if step.outs["out"] in shown)


def all_validation_steps(plan: RulePlan) -> Iterator[Step]:
    """Yield the steps of every grader and labelled set, also of those that the page does not show."""
    for name in plan.reward_models:
        yield step(validate_reward_model, paths.PAIR_VALIDATION, grader=name)
        yield step(validate_reward_on_labels, paths.LABEL_VALIDATION, grader=name)
    for name in plan.classifiers:
        yield step(validate_criteria, paths.PAIR_VALIDATION, grader=name)
        yield step(validate_criteria_on_labels, paths.LABEL_VALIDATION, grader=name)
    for source in plan.further_pairs:
        for name in plan.reward_models:
            yield step(
                validate_reward_model, paths.SET_VALIDATION, "validate_reward_on_pairs", grader=name, source=source
            )
        for name in plan.classifiers:
            yield step(
                validate_criteria, paths.SET_VALIDATION, "validate_criteria_on_pairs", grader=name, source=source
            )
    for name in plan.run.judges:
        of_pairs = [paths.SET_VALIDATION.of(grader=name, source=source) for source in plan.further_pairs]
        pairs_out: list[str] = [paths.PAIR_VALIDATION.of(grader=name), *of_pairs]
        outs: dict[str, str | list[str]] = {"out": paths.LABEL_VALIDATION.of(grader=name), "pairs_out": pairs_out}
        yield Step("validate_judge", validate_judge, {"grader": name}, outs)
    for name in plan.probed_judges:
        yield step(validate_probes, paths.PROBE_VALIDATION, grader=name)
    for release in plan.releases:
        yield step(score_labels, paths.LABEL_SCORES, release=release)


def inputs(plan: RulePlan, step: Step) -> dict[str, str | list[str]]:
    """The files that a step reads, by their names."""
    return plan.inputs_of(step.rule)(Wildcards(step.names))


def flat(files: Mapping[str, str | list[str]]) -> Iterator[str]:
    """The paths of a rule's files."""
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
    for own in steps(plan):
        named |= dict.fromkeys([*flat(inputs(plan, own)), *flat(own.outs)])
    named |= dict.fromkeys(flat(plan.inputs_of("build_report")(Wildcards())))
    base = results.parent
    places = {name: where(base, name) for path in named if (name := own_name(path))}
    if missing := [name for name, place in places.items() if not place.exists()]:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise UserError(
            str(results), f"not all of the run is there: {', '.join(missing[:3])}{more}", "run it to its end first"
        )
    optional = [
        paths.SERVER_RECORD,
        *(paths.PROMPTS.of(benchmark=name, tutor=tutor) for name in plan.benchmarks for tutor in plan.tutors_on(name)),
        *(plan.own(path) for path in OWN_FILES),
        *(str(Path(journal).with_suffix(SUFFIX)) for journal in journals_of(plan)),
        *(journals_of(plan) if journals else ()),
        *pictures_of(plan, results),
        *(paths.PICTURE_LIST.of(dataset=name) for name in plan.datasets),
        *(paths.ANNOTATIONS.of(release=release) for release in plan.releases),
        *small_files(base, (path for own in validation_steps(plan) for path in flat(inputs(plan, own)))),
    ]
    for folder in (base / plan.own(path) for path in OWN_FOLDERS):
        optional += [str(path.relative_to(base)) for path in sorted(folder.glob("[!.]*")) if path.is_file()]
    places |= {name: base / name for name in optional if (base / name).is_file()}
    outside = [name for name, place in places.items() if not is_within(place, results, paths.HOME)]
    if outside:
        raise UserError(outside[0], "it leads out of the results", "put the file itself there")
    return {name: place for name, place in sorted(places.items()) if place.is_file()}


def small_files(base: Path, named: Iterable[str]) -> Iterator[str]:
    """Yield those files below results/ that are there and no larger than LARGEST_SOURCE."""
    for name in dict.fromkeys(named):
        place = base / name
        if name.startswith(f"{paths.ROOT}/") and place.is_file() and place.stat().st_size <= LARGEST_SOURCE:
            yield name


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
