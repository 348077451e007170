"""`maieutic board`: check submissions without a model, and rank them in one table.

A submission is a run that `maieutic share --submission` packed. Each is checked against its own files and against the
published items. The tutors of those that pass become one run, whose report is the board.
"""

from __future__ import annotations

import csv
import json
import logging
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config import cards
from maieutic.config.models import HostedModel, VllmModel
from maieutic.core import paths
from maieutic.core.errors import UserError, raise_all
from maieutic.core.extensions import MANIFEST
from maieutic.core.files import atomic_file, safe_cell
from maieutic.core.journal import canonical_digest
from maieutic.core.records import NO_REQUEST, Item, Reply, read_records
from maieutic.plan.rules import RulePlan
from maieutic.record.file_comparison import file_difference
from maieutic.record.finished_run import FinishedRun, plan_of_run, results_folder_of, single_run_folder
from maieutic.record.planned_jobs import config_of_any_machine, folder_of_run, jobs_of_run
from maieutic.record.received import (
    ASK_SENDER,
    MOST_RUN_MB,
    check_json_sizes,
    error_text,
    unpack_run,
)
from maieutic.record.summary import LEADERBOARDS, check_is_whole, leaderboard_rows, write_leaderboards
from maieutic.record.verify import READING_ERRORS, recompute_jobs
from maieutic.replies.generate import first_messages
from maieutic.report import write_report
from maieutic.report.ranking import RANKING_FILE
from maieutic.report.tables import complete_scores
from maieutic.run_plan import unchecked_plan

log = logging.getLogger(__name__)
DIGESTS = paths.RESOURCES / "items.json"  # digests of the published items by task, written by bench/request_sizes.py
GRADERS = ("judges", "reward_models", "classifiers", "taggers")  # keys of `run` that name graders


class Submission(NamedTuple):
    """A submission that was checked.

    name: of its archive; plan: its plan; results: copy of its results; notes: what could not be checked.
    """

    name: str
    plan: RulePlan
    results: Path
    notes: list[str]


class Claim(NamedTuple):
    """A row of a leaderboard without replies. file: name of the file; model, revision, protocol: its first columns."""

    file: str
    model: str
    revision: str
    protocol: str
    values: dict[str, str]


def board(folder: Path, /, *, out: Path = Path("board"), most_mb: float = MOST_RUN_MB) -> None:
    """Recompute every score of submissions without a model, and rank their tutors on one page.

    Submissions are folders or .zip files by `maieutic share --submission`; CSV files in the form of `maieutic export
    leaderboard` are listed as claims. Altered submissions are refused by file and first value.

    Args:
        folder: folder with the submissions
        out: folder of the board (index.html, board.csv)
        most_mb: maximum size of a submission, in MB

    Raises:
        UserError: if no submission passes; otherwise, after the board is written, one line for each refused one
    """
    if out.exists() and not (out / "board.csv").is_file():
        raise UserError("--out", f"{out} exists and is no board", "pass another --out")
    if not folder.is_dir():
        raise UserError(str(folder), "is not a folder", "pass the folder with the submissions")
    archives = [path for path in sorted(folder.iterdir()) if path.suffix == ".zip" or (path / MANIFEST).is_file()]
    claims = [claim for path in sorted(folder.glob("*.csv")) for claim in claims_in(path)]
    if not archives:
        raise UserError(str(folder), "contains no submission", "pass the folder of what `maieutic share` wrote")
    with tempfile.TemporaryDirectory() as place:
        passed, refused = list[Submission](), list[UserError]()
        for number, archive in enumerate(archives):
            try:
                submission = received_submission(archive, Path(place) / f"{number}", most_mb)
                check_comparable(submission, passed[:1])
                passed.append(submission)
            except UserError as error:
                refused += error.all
        for fault in refused:
            log.warning("refused: %s", fault.line)
        if not passed:
            raise UserError.of(refused)
        write_board(passed, refused, claims, Path(place) / "board", out)
    log.info("%s: %d of %d submissions, %d claims", out / "index.html", len(passed), len(archives), len(claims))
    raise_all(refused)


# one submission -------------------------------------------------------------------------------------------------------


def received_submission(archive: Path, place: Path, most_mb: float) -> Submission:
    """Check a submission's items, replies and rows, and copy its results to a folder.

    Raises UserError that names the file and the first value at fault.
    """
    name = archive.stem if archive.suffix == ".zip" else archive.name
    with unpack_run(archive, most_mb) as (folder, listed):
        try:
            check_json_sizes(folder, listed)
            run = single_run_folder(folder)
            plan, results = plan_of_run(run), results_folder_of(run)
            check_is_whole(plan)
            if plan.repeats > 1:
                raise UserError("models.*.repeats", "several answers an item", "submit a run with one answer")
            notes = [*check_items(plan, results), *check_replies(plan, results)]
            check_rows(plan, run, results, folder)
            check_numbers(plan, results)
        except UserError as error:
            places = [fault.place.replace(f"{folder}", name) for fault in error.all]
            named = [
                UserError(place if place.startswith(name) else f"{name}: {place}", fault.problem, fault.fix)
                for place, fault in zip(places, error.all, strict=True)
            ]
            raise UserError.of(named) from None
        except READING_ERRORS as error:
            raise UserError(name, f"cannot be read: {error_text(error)}", ASK_SENDER) from None
        shutil.copytree(results, place, ignore=shutil.ignore_patterns("report", "runs", "journal", "logs", "pictures"))
    notes += [f"computed from recorded rewards of {grader}" for grader in plan.run.reward_models]
    notes += [f"computed from recorded verdicts of {grader}" for grader in plan.judges_with_model]
    return Submission(name, plan, place, notes)


@cache
def published_digests() -> Mapping[str, str]:
    """Return the digest of each task's published items, as `items_digest` computes it."""
    content: dict[str, str] = json.loads(DIGESTS.read_text(encoding="utf-8")) if DIGESTS.is_file() else {}
    return content


def items_digest(items: Iterable[Item]) -> str:
    """Return the digest of what tutors are asked and graded by: ids, variables and references, in any order."""
    return canonical_digest(
        sorted(([item.id, item.vars, item.reference] for item in items), key=lambda entry: str(entry[0]))
    )


def check_items(plan: RulePlan, results: Path) -> Iterator[str]:
    """Yield notes on items that cannot be checked. Raises UserError for items that are not the published ones."""
    for loaded in plan.cards.values():
        card = loaded.card
        place = paths.ITEMS.of(benchmark=card.benchmark, task=card.task)
        items = read_records(paths.ITEMS.within(results, benchmark=card.benchmark, task=card.task), Item)
        expected = plan.item_count(card) if plan.edition == "published" else None
        if expected is not None and len(items) != expected:
            raise UserError(place, f"n: expected {expected:,} items, found {len(items):,}", "submit a whole run")
        digest = published_digests().get(f"{card.benchmark}/{card.task}") if plan.edition == "published" else None
        if digest is None:
            yield f"items of {card.benchmark}/{card.task} not compared with published ones"
        elif items_digest(items) != digest:
            raise UserError(place, "the items are not the published ones", ASK_SENDER)


def check_replies(plan: RulePlan, results: Path) -> Iterator[str]:
    """Yield notes on replies that cannot be checked. Raises UserError for a wrong number, order or prompt."""
    for benchmark in plan.benchmarks:
        for tutor in (name for name in plan.run.tutors if name in plan.tutors_on(benchmark)):
            place = paths.REPLIES.of(benchmark=benchmark, tutor=tutor)
            replies = read_records(paths.REPLIES.within(results, benchmark=benchmark, tutor=tutor), Reply)
            hashed = 0
            for loaded in plan.cards_for(benchmark, tutor):
                task = loaded.card.task
                items = read_records(paths.ITEMS.within(results, benchmark=benchmark, task=task), Item)
                of_task = [reply for reply in replies if reply.task == task]
                if len(of_task) != len(items):
                    problem = f"n: {len(of_task):,} replies to the {len(items):,} items of {task}"
                    raise UserError(place, problem, "submit a reply, or the reason for none, to every item")
                for item, reply in zip(items, of_task, strict=True):
                    if reply.id != item.id:
                        problem = f"order: the reply to {reply.id} of {task} stands where that to {item.id} belongs"
                        raise UserError(place, problem, ASK_SENDER)
                    sent = next((turn.messages for turn in reply.turns if turn.messages != NO_REQUEST), None)
                    if sent is not None:
                        hashed += 1
                        if sent != first_prompt_digest(plan, tutor, loaded, item):
                            protocol = plan.protocol_of(tutor)
                            problem = f"protocol: {item.id} of {task} was not asked as {protocol} prescribes"
                            raise UserError(place, problem, ASK_SENDER)
            if not hashed:
                yield f"recorded replies of {tutor} to {benchmark} have no prompt hashes"


def first_prompt_digest(plan: RulePlan, tutor: str, loaded: Any, item: Item) -> str:
    """Return the hash of the first messages to a tutor about an item, as the request that was sent has it."""
    model = plan.models[tutor]
    assert isinstance(model, HostedModel | VllmModel)
    usual = "user" if isinstance(model, HostedModel) else "system"
    return canonical_digest(first_messages(loaded, item, model.prompt_role, model.user_last, usual))


def check_rows(plan: RulePlan, run: Path, results: Path, folder: Path) -> None:
    """Raise UserError for the first cell of the authors' form that does not follow from the submitted scores."""
    finished = FinishedRun(plan, run, results, None, complete_scores(plan, results, None))
    with tempfile.TemporaryDirectory() as place:
        for path in write_leaderboards(finished, Path(place)):
            received = folder / LEADERBOARDS / path.name
            if not received.is_file():
                fix = "ask the sender for what `maieutic share --submission` writes"
                raise UserError(f"{LEADERBOARDS}/{path.name}", "not found", fix)
            if fault := file_difference(received, path):
                raise UserError(f"{LEADERBOARDS}/{path.name}", fault, ASK_SENDER)


def check_numbers(plan: RulePlan, results: Path) -> None:
    """Raise UserError for the first grade or score of the submitted tutors that is not the recomputed one."""
    jobs = [
        job for job in jobs_of_run(plan, results) if Path(job.outputs[0]).stem in plan.run.tutors and not job.validates
    ]
    if faults := recompute_jobs(jobs, results).faults:
        place, _, fault = faults[0].partition(": ")
        raise UserError(place, fault, ASK_SENDER)


def check_comparable(submission: Submission, first: list[Submission]) -> None:
    """Raise UserError if a submission has other graders or settings than the board's first submission."""
    for other in first:
        mine, theirs = (graders_of(entry.plan) | settings_of(entry.plan) for entry in (submission, other))
        if changed := sorted({*mine.items()} ^ {*theirs.items()}):
            problem = f"{changed[0][0]} is not the same as in {other.name}"
            raise UserError(submission.name, problem, "give submissions with other graders or settings their own board")


def settings_of(plan: RulePlan) -> dict[str, str]:
    """Return the settings on which grades and scores depend, as text, by key."""
    run = plan.run.model_dump(mode="json")
    return {
        **{f"run.{key}": repr(run[key]) for key in ("seed", "language", "negative_weights", "difficulty", "encoders")},
        "report.resamples": repr(plan.config.report.resamples),
    }


def graders_of(plan: RulePlan) -> dict[str, str]:
    """Return the entries of a run's graders and of their models, as text, by name."""
    names = [name for key in GRADERS for name in getattr(plan.run, key)]
    names += [plan.answering_entry(name) for name in (*plan.judges_with_model, *plan.run.taggers)]
    return {name: plan.models[name].model_dump_json() for name in names}


# the board ------------------------------------------------------------------------------------------------------------


def claims_in(path: Path) -> Iterator[Claim]:
    """Yield the rows of a leaderboard's CSV file. Raises UserError if it is not one."""
    with path.open(encoding="utf-8", newline="") as handle:
        reader = csv.DictReader(handle)
        columns = ["model", "revision", "protocol"]
        if (reader.fieldnames or [])[:3] != columns:
            problem = f"expected the columns {', '.join(columns)}, then task/metric"
            raise UserError(
                str(path), problem, "write it by `maieutic export leaderboard --out FOLDER`, or move it elsewhere"
            )
        for row in reader:
            values = {name: value for name, value in row.items() if name not in columns and value}
            yield Claim(path.name, row["model"], row["revision"], row["protocol"], values)


def write_board(
    passed: list[Submission], refused: list[UserError], claims: list[Claim], place: Path, out: Path
) -> None:
    """Write the page, the tables and board.csv of the tutors of all checked submissions.

    place: a folder to work in, which may have the submissions' files already.
    """
    results, names = place / paths.ROOT, board_names(passed)
    for submission in passed:
        take_over(submission, names, results)
    plan = board_plan(passed, names, note_on_submissions(passed, refused, claims, names))
    with folder_of_run(results):
        for job in jobs_of_run(plan, results):
            if not job.missing and not all(Path(path).exists() for path in job.outputs):
                for path in job.outputs:
                    Path(path).parent.mkdir(parents=True, exist_ok=True)
                job.run({})
    fresh = place / "page"
    write_report(plan, None, results, fresh)
    write_table(plan, passed, claims, names, results, fresh)
    shutil.rmtree(out, ignore_errors=True)
    shutil.move(fresh, out)


def board_names(passed: list[Submission]) -> dict[tuple[str, str], str]:
    """Return the name on the board of each submission's tutors: its own, with the submission's if several share it."""
    tutors = [(submission.name, tutor) for submission in passed for tutor in submission.plan.run.tutors]
    numbers = Counter(tutor for _, tutor in tutors)
    return {(name, tutor): f"{tutor}-{name}" if numbers[tutor] > 1 else tutor for name, tutor in tutors}


def take_over(submission: Submission, names: Mapping[tuple[str, str], str], results: Path) -> None:
    """Add a submission's files to those of the board, under the names of its tutors there.

    Of baselines, the records of tasks that no earlier submission had are added.
    """
    renamed = {tutor: names[submission.name, tutor] for tutor in submission.plan.run.tutors}
    for path in sorted(path for path in submission.results.rglob("*.json*") if path.is_file()):
        relative = path.relative_to(submission.results)
        kind, tutor = relative.parts[0], path.stem
        if kind in ("items", "preferences"):  # of preferences, those that graders must not be tested on
            target = results / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        elif kind in ("grades", "scores") and tutor in renamed:
            write_renamed(path, results / relative.with_stem(renamed[tutor]), renamed)
        elif kind == "replies" and "prompts" in relative.parts:
            add_lines(path, results / relative.with_stem(renamed.get(tutor, tutor)))
        elif kind in ("replies", "rewards", "verdicts"):
            add_records(path, results / relative, renamed)


def add_lines(path: Path, target: Path) -> None:
    """Add the lines of a file of prompts that another one does not have."""
    target.parent.mkdir(parents=True, exist_ok=True)
    known = {*target.read_text(encoding="utf-8").splitlines()} if target.is_file() else set()
    with target.open("a", encoding="utf-8") as handle:
        handle.writelines(f"{line}\n" for line in path.read_text(encoding="utf-8").splitlines() if line not in known)


def write_renamed(path: Path, target: Path, renamed: Mapping[str, str]) -> None:
    """Copy a file of grades or scores, with its tutor's name on the board."""
    text = path.read_text(encoding="utf-8")
    for tutor, name in renamed.items():
        text = text.replace(f'"tutor":{json.dumps(tutor)}', f'"tutor":{json.dumps(name)}')
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def add_records(path: Path, target: Path, renamed: Mapping[str, str]) -> None:
    """Add the records of a file: those of submitted tutors to a file of each, those of baselines to the same file.

    Baselines' records are added for the tasks of which the board has none yet.
    """
    lines: dict[Path, list[str]] = {}
    known: dict[Path, set[tuple[str, str]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        tutor = record.get("tutor")
        place = target.with_stem(renamed[tutor]) if tutor in renamed else target
        if place not in known:
            kept = place.read_text(encoding="utf-8").splitlines() if place.is_file() else []
            known[place] = {(entry.get("task"), entry.get("tutor")) for entry in map(json.loads, kept)}
        if (record.get("task"), renamed.get(tutor, tutor)) not in known[place]:
            lines.setdefault(place, []).append(
                json.dumps({**record, "tutor": renamed[tutor]}, ensure_ascii=False) if tutor in renamed else line
            )
    for place, added in lines.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("a", encoding="utf-8") as handle:
            handle.writelines(f"{line}\n" for line in added)


def board_plan(passed: list[Submission], names: Mapping[tuple[str, str], str], note: str) -> RulePlan:
    """Return the plan of the run that the board's report shows."""
    config = config_of_any_machine(passed[0].plan)
    tasks = [loaded.card for submission in passed for loaded in submission.plan.cards.values()]
    config["run"] |= {
        "name": None,
        "tutors": list(names.values()),
        "tasks": list(dict.fromkeys(f"{card.benchmark}/{card.task}" for card in tasks)),
        "tutors_per_judge_job": 1,
        "tutors_per_reward_job": 1,
        "labels": [],
    }
    for submission in passed:
        for tutor in submission.plan.run.tutors:
            entry, name = submission.plan.models[tutor], names[submission.name, tutor]
            protocol = submission.plan.protocol_of(tutor)
            notes = [submission.name] * (name != tutor) + [f"protocol {protocol}"] * (protocol != cards.RELEASED)
            suffix = f" ({', '.join(notes)})" if notes else ""
            # On the board every tutor is recorded: it has replies only to the tasks that it answered in its submission.
            config["models"][name] = {
                "engine": "recorded",
                "file": "replies.jsonl",
                "tasks": answered_tasks(submission.plan, tutor),
                "label": f"{entry.label or tutor}{suffix}",
                "group": entry.group,
            }
    config["report"] |= {"title": "Board", "note": note}
    return unchecked_plan(config)


def answered_tasks(plan: RulePlan, tutor: str) -> list[str]:
    """Return the tasks that a tutor of a submission answered."""
    benchmarks = [name for name in plan.benchmarks if tutor in plan.tutors_on(name)]
    cards = [loaded.card for name in benchmarks for loaded in plan.cards_for(name, tutor)]
    return [f"{card.benchmark}/{card.task}" for card in cards]


def note_on_submissions(
    passed: list[Submission],
    refused: list[UserError],
    claims: list[Claim],
    names: Mapping[tuple[str, str], str],
) -> str:
    """Return the note above the board's table, as Markdown."""
    lines = ["**Every score was recomputed from the submitted replies, without a model.**", ""]
    for submission in passed:
        tutors = ", ".join(name for (archive, _), name in names.items() if archive == submission.name)
        notes = f": {'; '.join(submission.notes)}" if submission.notes else ""
        lines.append(f"- {submission.name} ({tutors}){notes}")
    for title, entries in (
        ("Refused", [f"`{error.line}`" for error in refused]),
        ("Claimed, not checked", [f"{claim.model} ({claim.file}): {claim_text(claim)}" for claim in claims]),
    ):
        if entries:
            lines += ["", f"**{title}**", "", *(f"- {entry}" for entry in entries)]
    return "\n".join(lines)


def claim_text(claim: Claim) -> str:
    """Return the values of a claim as text."""
    return ", ".join(f"{name} {value}" for name, value in claim.values.items())


def write_table(
    plan: RulePlan,
    passed: list[Submission],
    claims: list[Claim],
    names: Mapping[tuple[str, str], str],
    results: Path,
    out: Path,
) -> None:
    """Write board.csv: a row for each tutor with its set of ranks and the authors' numbers, then the claims."""
    ranked = {
        row["tutor"]: (row["best"], row["worst"])
        for ranking in json.loads((out / RANKING_FILE).read_text(encoding="utf-8"))
        if ranking["scoring"] == "robust"
        for row in ranking["tutors"]
    }
    finished = FinishedRun(plan, out, results, None, complete_scores(plan, results, None))
    by_model: dict[str, dict[str, str]] = {}
    for head, *rows in leaderboard_rows(finished, by_name=True).values():
        for row in rows:
            by_model.setdefault(row[0], {}).update(zip(head[3:], row[3:], strict=True))
    for score in (score for scores in finished.scores.values() for score in scores):
        if score.scoring == "paper_compat" and score.by is None and score.subset is None and score.value is not None:
            name = f"{score.task}/{score.metric}"
            by_model.setdefault(str(score.tutor), {}).setdefault(name, f"{score.value:.8f}")
    measured = [*(by_model.get(name, {}) for name in names.values()), *(claim.values for claim in claims)]
    columns = list(dict.fromkeys(name for values in measured for name in values))
    with atomic_file(out / "board.csv") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(["tutor", "submission", "best_rank", "worst_rank", "checked", *columns])
        for submission in passed:
            checked = "; ".join(["recomputed", *submission.notes])
            for tutor in submission.plan.run.tutors:
                name = names[submission.name, tutor]
                ranks = ["" if rank is None else rank for rank in ranked.get(name, (None, None))]
                cells = [by_model.get(name, {}).get(column, "") for column in columns]
                writer.writerow([safe_cell(name), safe_cell(submission.name), *ranks, safe_cell(checked), *cells])
        for claim in claims:
            cells = [str(safe_cell(claim.values.get(column, ""))) for column in columns]
            writer.writerow([safe_cell(claim.model), safe_cell(claim.file), "", "", "claimed, not checked", *cells])
