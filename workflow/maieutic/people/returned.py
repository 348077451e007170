"""`maieutic read-labels`: what annotators have sent becomes `run.human_labels`, and who agrees with whom is printed."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from maieutic.config.limits import USUAL
from maieutic.core.errors import UserError
from maieutic.core.records import Scale
from maieutic.people.outputs import write_page
from maieutic.people.pairs import write_preferences
from maieutic.people.reading import Answer, Read, divided, read_files, write_people
from maieutic.people.sample import Key, check_name
from maieutic.validation.agreement import krippendorff_alpha, mean_cohen, usual_fleiss

log = logging.getLogger(__name__)
Votes = dict[str, dict[str, dict[str, str]]]  # by criterion and unit what each annotator says


def read_labels(
    *,
    sample: Path,
    files: list[Path],
    out: Path,
    resolver: str | None = None,
    partial: bool = False,
    fast: bool = False,
) -> None:
    """Write what annotators have sent as the CSV that `run.human_labels` takes, and print their agreement.

    Of pairs (`label --against`) it is the table of preferences that the file of an entry of `preferences` is.

    sample: the folder that label wrote; files: the pages' files, sheets, or Label Studio's export; resolver: who
    decides where annotators differ: a page of those units is written for them; partial: take files with open questions,
    which are left out; fast: take labels that were given in no time. Raises UserError naming every fault of
    every file: nothing is written then.
    """
    key = Key.read(sample)
    if resolver in key.annotators:
        raise UserError("--resolver", f"{resolver} is an annotator", "name somebody who has not labelled")
    if resolver is not None:
        check_name("--resolver", resolver)
    if out.is_dir():
        raise UserError(str(out), "is a folder", "name a file for the labels, as people.csv")
    reads = read_files(files, key, resolver, USUAL.labels_mb, fast)
    check_whole(reads, key, resolver, partial)
    answers = [answer for read in reads for answer in read.answers]
    if not answers:
        raise UserError(", ".join(map(str, files)), "no label in any of them", "have the pages saved to files")
    torn = divided(answers, resolver)
    resolved = {(one.unit, one.criterion) for one in answers if one.annotator == resolver}
    open_ = [question for question in torn if question not in resolved]
    if resolver and open_:
        # All of them, also those that are decided: a new page takes the place of the one before.
        units = sorted({unit for unit, _ in torn})
        print(f"{len(units)} divided units for {resolver}: {write_page(sample, resolver, units)}")
    if key.against:
        write_preferences(out, answers, key, sample, resolver)
    else:
        write_people(out, answers, key, resolver)
    for line in agreement_lines(answers, key, resolver):
        print(line)
    remarks = {(one.unit, one.annotator): one.comment for one in answers if one.comment}
    if remarks:
        print(f"{len(remarks)} remarks stand in {out}, in the column comment")
    labelled = len({one.unit for one in answers})
    print(f"{len(answers)} labels of {labelled} of {len(key.units)} units in {out}; {len(open_)} questions are divided")
    if open_ and not resolver:
        print("divided questions have no label: --resolver NAME writes a page for somebody who decides them")


def check_whole(reads: Sequence[Read], key: Key, resolver: str | None, partial: bool) -> None:
    """Raises UserError where files are half done, or where units lack an annotator whom they should have."""
    faults = [
        UserError(read.annotator, f"{len(read.open)} units have open questions: {', '.join(read.open[:3])} ...", fix)
        for read in reads
        if read.open and read.annotator != resolver
        for fix in ("have the page finished and saved, or --partial to leave them out",)
    ]
    came = {read.annotator for read in reads if read.annotator != resolver}
    if lacking := [name for name in key.annotators if name not in came]:
        wanted = (
            f"{key.overlap} annotators a unit were planned" if key.overlap > 1 else "a part of the sample is theirs"
        )
        faults.append(
            UserError(", ".join(lacking), f"no file came; {wanted}", "add it to --files, or --partial to go without")
        )
    if faults and not partial:
        raise UserError.of(faults)


def votes_of(answers: Iterable[Answer], resolver: str | None) -> Votes:
    """What each annotator but the resolver says, by criterion and unit."""
    votes: Votes = defaultdict(lambda: defaultdict(dict))
    for one in answers:
        if one.annotator != resolver:
            votes[one.criterion][one.unit][one.annotator] = one.value
    return votes


def agreement_lines(answers: Sequence[Answer], key: Key, resolver: str | None) -> list[str]:
    """The table of agreement: kappa of Fleiss and of Cohen, Krippendorff's alpha, seconds a label."""
    lines = [f"{'criterion':32} {'units':>5} {'both':>5} {'Fleiss':>7} {'Cohen':>7} {'alpha':>7} {'seconds':>8}"]

    def shown(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f}"

    for criterion, units in votes_of(answers, resolver).items():
        several = [votes for votes in units.values() if len(votes) > 1]
        scale = Scale(labels=tuple(key.criteria[criterion]), level=key.levels.get(criterion, "ordinal"))
        fleiss = usual_fleiss([list(votes.values()) for votes in several])[0] if several else None
        alpha = krippendorff_alpha([list(votes.values()) for votes in several], scale) if several else None
        times = sorted(one.seconds for one in answers if one.criterion == criterion and one.seconds is not None)
        middle = f"{times[len(times) // 2]:.0f}" if times else "-"
        lines.append(
            f"{criterion[:32]:32} {len(units):5} {len(several):5} {shown(fleiss):>7} "
            f"{shown(mean_cohen(several) if several else None):>7} {shown(alpha):>7} {middle:>8}"
        )
    return lines
