"""Command `maieutic read-labels`, which converts annotators' files and prints the annotators' agreement."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from maieutic.config.limits import DEFAULT_LIMITS
from maieutic.core.errors import UserError
from maieutic.core.files import write_csv
from maieutic.core.records import Scale
from maieutic.core.terminal import say
from maieutic.core.user_tables import preview
from maieutic.people.annotation_files import write_label_page
from maieutic.people.answer_files import (
    AnnotatorAnswer,
    AnswerFile,
    divided_questions,
    human_label_rows,
    label_of_answer,
    read_files,
)
from maieutic.people.pairs import preference_rows
from maieutic.people.reliability import Reliability
from maieutic.people.sample import Key, check_annotator_name
from maieutic.people.school import School, school_lines
from maieutic.validation.agreement import fleiss_of_usual_count, krippendorff_alpha, mean_pairwise_cohen

Votes = dict[str, dict[str, dict[str, str]]]  # criterion -> unit -> annotator -> answer


def read_labels(
    *,
    sample: Path,
    files: list[Path],
    out: Path,
    resolver: str | None = None,
    annotators: list[str] | None = None,
    partial: bool = False,
    fast: bool = False,
) -> None:
    """Write the labels in annotators' files as the CSV for `run.human_labels`, and print the annotators' agreement.

    For pairs (`label --against`), write a table of preferences instead. Set it as `file` in an entry of `preferences`.

    Args:
        sample: folder that `maieutic label` wrote
        files: files saved from labelling pages, filled-in sheets, or an export of Label Studio
        out: file to write
        resolver: person who decides where annotators differ, who gets a page with these units
        annotators: names of annotators that the files spell otherwise, as WORD=NAME
        partial: accept files with open questions, and leave those questions out
        fast: accept labels that were given faster than the unit can be read

    Raises:
        UserError: names every fault of every file; in that case, nothing is written
    """
    key = Key.read(sample)
    if resolver in key.annotators:
        raise UserError(
            "--resolver",
            f"{resolver} is an annotator of this sample",
            "choose a person who has not labelled the sample",
        )
    if resolver is not None:
        check_annotator_name("--resolver", resolver)
    if out.is_dir():
        raise UserError(str(out), "expected a file, found a folder", "pass a file for the labels, such as people.csv")
    names = named_annotators(annotators or [], key)
    reads = read_files(files, key, resolver, DEFAULT_LIMITS.labels_mb, fast, names)
    senders = {read.annotator for read in reads}
    reads, reliability = without_school(reads, key, resolver, partial)
    check_complete(reads, senders, key, resolver, partial)
    answers = [answer for read in reads for answer in read.answers]
    if not answers:
        fix = "ask the annotators to save their pages to files"
        raise UserError(", ".join(map(str, files)), "expected at least one label, found none", fix)
    rows = list(
        preference_rows(answers, key, sample, resolver)
        if key.against
        else human_label_rows(answers, key, resolver, reliability)
    )
    for line in preview_of_answers(reads, key, rows):
        say(line)
    differing = divided_questions(answers, resolver)
    resolved = {(answer.unit, answer.criterion) for answer in answers if answer.annotator == resolver}
    open_ = [question for question in differing if question not in resolved]
    if resolver and open_:
        # The new page replaces the previous one, so it also contains the units that are already resolved.
        units = sorted({unit for unit, _ in differing})
        say(f"units to resolve by {resolver}: {len(units)}, on the page {write_label_page(sample, resolver, units)}")
    write_csv(out, list(rows[0]), (list(row.values()) for row in rows))
    for line in agreement_lines(answers, key, resolver):
        say(line)
    remarks = {(answer.unit, answer.annotator): answer.comment for answer in answers if answer.comment}
    if remarks:
        say(f"comments of annotators: {len(remarks)}, in the column comment of {out}")
    labelled = len({answer.unit for answer in answers})
    sampled = set(key.units) - (School.model_validate(key.school).names if key.school else set())
    say(
        f"{out}: {len(answers)} labels on {labelled} of {len(sampled)} units; questions without agreement: {len(open_)}"
    )
    if open_ and not resolver:
        say("pass --resolver NAME to write a page for a person who decides the questions without agreement")
    if key.against:
        say(f"next: in the run file, set the file of an entry of preferences to {out}, then run again")
    else:
        say(f"next: in the run file, set run.human_labels to {out}, then run again")


def without_school(
    reads: Sequence[AnswerFile], key: Key, resolver: str | None, partial: bool
) -> tuple[list[AnswerFile], dict[tuple[str, str], Reliability]]:
    """Return the files of annotators who passed the quiz, without answers to known units, and their error rates.

    Prints each annotator's results. Unanswered known units count as open, except those of the training. partial: True
    to treat an unfinished quiz as failed. Raises UserError if no annotator passed.
    """
    if key.school is None:
        return list(reads), {}
    school, kept = School.model_validate(key.school), list[AnswerFile]()
    training = set(school.units["training"])
    reliability: dict[tuple[str, str], Reliability] = {}
    for read in reads:
        answered = {(answer.unit, answer.criterion): answer.value for answer in read.answers}
        if read.annotator != resolver:
            for line in school_lines(read.annotator, school, answered):
                say(line)
            if not school.passed(answered) and (partial or school.finished_quiz(answered)):
                continue
            reliability |= {(read.annotator, name): known for name, known in school.reliability(answered).items()}
        answers = [answer for answer in read.answers if answer.unit not in school.names]
        kept.append(read._replace(answers=answers, open=[unit for unit in read.open if unit not in training]))
    if all(read.annotator == resolver for read in kept):
        raise UserError("--files", "no annotator passed the quiz", "train the annotators, and draw another sample")
    return kept, reliability


def named_annotators(words: Sequence[str], key: Key) -> dict[str, str]:
    """Return the annotators of a sample by other words, written as WORD=NAME. Raises UserError for another name."""
    names = dict[str, str]()
    for entry in words:
        word, _, name = entry.rpartition("=")
        if not word or name not in key.annotators:
            known = ", ".join(key.annotators)
            raise UserError("--annotators", f"expected WORD=NAME with an annotator, found {entry}", f"use {known}")
        names[word] = name
    return names


def preview_of_answers(reads: Sequence[AnswerFile], key: Key, rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """Yield what was understood: the labels of each annotator, their values, and the first rows of the table."""
    for read in reads:
        opened = f", units with open questions: {len(read.open)}" if read.open else ""
        yield f"{read.annotator}: {len(read.answers)} labels{opened}"
        yield from (f"{read.annotator}: {note}" for note in read.notes)
    answers = [answer for read in reads for answer in read.answers]
    values: dict[str, Counter[str]] = defaultdict(Counter)
    for answer in answers:
        values[answer.criterion][label_of_answer(answer, key)] += 1
    for criterion, numbers in values.items():
        yield f"{criterion}: {', '.join(f'{value} {number}' for value, number in numbers.most_common())}"
    yield from preview(rows)


def check_complete(
    reads: Sequence[AnswerFile], senders: Collection[str], key: Key, resolver: str | None, partial: bool
) -> None:
    """Raise UserError for files with open questions and for annotators without a file, unless `partial` is set.

    senders: annotators with a file, including those who failed the quiz.
    """
    faults = [
        UserError(
            read.annotator, f"units with open questions: {len(read.open)}, such as {', '.join(read.open[:3])}", fix
        )
        for read in reads
        if read.open and read.annotator != resolver
        for fix in ("ask the annotator to finish and save the page, or pass --partial to leave open questions out",)
    ]
    if lacking := [name for name in key.annotators if name not in senders]:
        plan = f"{key.overlap} annotators per unit were planned" if key.overlap > 1 else "their units have no labels"
        fix = "add the missing files to --files, or pass --partial to continue without them"
        faults.append(UserError(", ".join(lacking), f"found no file of labels; {plan}", fix))
    if faults and not partial:
        raise UserError.of(faults)


def annotator_votes(answers: Iterable[AnnotatorAnswer], resolver: str | None) -> Votes:
    """Return the answers of all annotators except the resolver, by criterion and unit."""
    votes: Votes = defaultdict(lambda: defaultdict(dict))
    for answer in answers:
        if answer.annotator != resolver:
            votes[answer.criterion][answer.unit][answer.annotator] = answer.value
    return votes


def agreement_lines(answers: Sequence[AnnotatorAnswer], key: Key, resolver: str | None) -> list[str]:
    """Return the lines of a table with the agreement of annotators and their median seconds, by criterion."""
    lines = [f"{'criterion':32} {'units':>5} {'both':>5} {'Fleiss':>7} {'Cohen':>7} {'alpha':>7} {'seconds':>8}"]

    def cell(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f}"

    for criterion, units in annotator_votes(answers, resolver).items():
        several = [votes for votes in units.values() if len(votes) > 1]
        scale = Scale(labels=tuple(key.criteria[criterion]), level=key.levels.get(criterion, "ordinal"))
        fleiss = fleiss_of_usual_count([list(votes.values()) for votes in several])[0] if several else None
        alpha = krippendorff_alpha([list(votes.values()) for votes in several], scale) if several else None
        answers_to = [answer for answer in answers if answer.criterion == criterion]
        times = sorted(answer.seconds for answer in answers_to if answer.seconds is not None)
        middle = f"{times[len(times) // 2]:.0f}" if times else "-"
        lines.append(
            f"{criterion[:32]:32} {len(units):5} {len(several):5} {cell(fleiss):>7} "
            f"{cell(mean_pairwise_cohen(several) if several else None):>7} {cell(alpha):>7} {middle:>8}"
        )
    return lines
