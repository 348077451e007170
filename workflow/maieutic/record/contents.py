"""Files of a finished run that `maieutic share` packs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.extensions import LISTED, extension_files, extension_folders, listed_name, listed_path
from maieutic.core.files import MB
from maieutic.core.ledger import SUFFIX
from maieutic.plan.rules import RulePlan
from maieutic.record.planned_jobs import jobs_of_run
from maieutic.report.stage import report_files
from maieutic.report.tables import items_of_task

LARGEST_SOURCE = 64 * MB  # maximum size, in bytes, of a packed file that only validations read


# Patterns of the files in a run's own folder. The run's only subfolders of this folder are OWN_SUBFOLDERS.
OWN_FOLDER_FILES = (
    paths.CONFIG, paths.PROVENANCE, paths.PAGE, paths.SCORE_TABLE, paths.SCORE_PARQUET, paths.DIFFERENCE_TABLE,
    paths.RANKING, paths.TRUST_TABLE, paths.RUNTIME_TABLE, paths.PROBLEMS, paths.REPORT_CHECK, paths.JUDGE_CHECK,
)  # fmt: skip
OWN_SUBFOLDERS = (paths.TABLES, paths.FIGURES, paths.ITEM_DATA)


def crate_files(plan: RulePlan, results: Path, journals: bool, kept: Path | None = None) -> dict[str, Path]:
    """Return the files of a run, with its cards and rubrics, by their names in a crate.

    Every name begins with results/, resources/ or extensions/. journals: if True, include the journals of requests and
    answers; kept: folder with the files that the run keeps from the shared results, if it has one. Raises UserError if
    a file is absent, or if a link leads out of the results folder.
    """
    listed: dict[str, None] = {}
    jobs = jobs_of_run(plan, kept or results)
    for job in jobs:
        if not job.validates:
            listed |= dict.fromkeys([*job.inputs, *job.outputs])
    listed |= dict.fromkeys([plan.run_path(paths.CONFIG), plan.run_path(paths.PROVENANCE), *report_files(plan)])
    base = results.parent
    own_folder = Path(plan.run_path(paths.CONFIG)).parent

    def place_of(name: str) -> Path:
        """Return the path of a file: kept by the run or, for its own files, journals, cards and rubrics, elsewhere."""
        is_shared = name.startswith(f"{paths.ROOT}/") and not Path(name).is_relative_to(own_folder)
        if kept is None or not is_shared or (name.startswith(paths.JOURNALS) and name.endswith(".jsonl")):
            return source_path(base, name)
        return kept / name.removeprefix(f"{paths.ROOT}/")

    places = {name: place_of(name) for path in listed if (name := name_in_crate(path))}
    if missing := [name for name, place in places.items() if not place.exists()]:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise UserError(
            str(results),
            f"expected all files of the run, did not find {', '.join(missing[:3])}{more}",
            "run the workflow to its end first",
        )
    optional = [
        paths.SERVER_RECORD,
        *(paths.PROMPTS.of(benchmark=name, tutor=tutor) for name in plan.benchmarks for tutor in plan.tutors_on(name)),
        *(plan.run_path(path) for path in OWN_FOLDER_FILES),
        *(str(Path(journal).with_suffix(SUFFIX)) for journal in run_journals(plan)),
        *(run_journals(plan) if journals else ()),
        *picture_paths(plan, kept or results),
        *(paths.PICTURE_LIST.of(dataset=name) for name in plan.datasets),
        *(paths.ANNOTATIONS.of(release=release) for release in plan.releases),
        *small_files(place_of, (path for job in jobs if job.validates for path in job.inputs)),
    ]
    for folder in (base / plan.run_path(path) for path in OWN_SUBFOLDERS):
        optional += [str(path.relative_to(base)) for path in sorted(folder.glob("[!.]*")) if path.is_file()]
    places |= {name: place_of(name) for name in optional if place_of(name).is_file()}
    places |= {listed_name(path): path for path in extension_files()}
    outside = [
        name for name, place in places.items() if not is_below_any(place, results, paths.HOME, *extension_folders())
    ]
    if outside:
        raise UserError(
            outside[0], "is a link that points outside the results folder", "replace the link with a copy of the file"
        )
    return {name: place for name, place in sorted(places.items()) if place.is_file()}


def small_files(place_of: Callable[[str], Path], listed: Iterable[str]) -> Iterator[str]:
    """Yield the listed files that are below results/, exist, and have at most LARGEST_SOURCE bytes.

    place_of: function that returns the path of a file.
    """
    for name in dict.fromkeys(listed):
        place = place_of(name)
        if name.startswith(f"{paths.ROOT}/") and place.is_file() and place.stat().st_size <= LARGEST_SOURCE:
            yield name


def name_in_crate(path: str) -> str | None:
    """Return the name that a file of the run has in a crate; None for a user's file outside results and resources."""
    if path.startswith(f"{paths.ROOT}/"):
        return path
    name = Path(listed_name(Path(path)))
    return str(name) if name.parts[:1] in (("resources",), (LISTED,)) else None


def is_below_any(place: Path, *folders: Path) -> bool:
    """Return True if a file is below at least one of the folders after links are resolved."""
    return any(place.resolve().is_relative_to(folder.resolve()) for folder in folders)


def picture_paths(plan: RulePlan, results: Path) -> Iterator[str]:
    """Yield the paths of the pictures of the run's items."""
    for benchmark, loaded_cards in plan.benchmarks.items():
        for card in (loaded.card for loaded in loaded_cards if loaded.card.images):
            for item in items_of_task(results, benchmark, card.task):
                yield from (f"{paths.PICTURE_STORE}/{file}" for file in item.images)


def run_journals(plan: RulePlan) -> Iterator[str]:
    """Yield the paths of the journals of tutors and graders. A grader has one journal for each batch of tutors."""
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
    for judge in plan.run.judges:
        yield paths.LABELLED_JOURNAL.of(judge=judge)
    for part in plan.slices:
        yield from part.journals(plan)


def source_path(base: Path, path: str) -> Path:
    """Return the path of a run's file: below `base` for results, in this checkout for cards and rubrics."""
    return base / path if path.startswith(f"{paths.ROOT}/") else listed_path(path)
