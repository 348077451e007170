"""Surface measures of a reply, correlated with the labels of people.

words: number of words; uptake: share of the words of the student's last turn that the reply repeats; overlap: unigram
F1 with the whole dialogue (ROUGE-1). Lexical overlap is the baseline of Demszky et al., Measuring Conversational Uptake
(ACL 2021). Benchmarks add the word lists of their own toolkits (`MEASURES` in a benchmark's module `toolkit`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from maieutic.core.plugins import merged_plugin_tables
from maieutic.core.records import Item, Score
from maieutic.core.stats import MEAN, BootstrapSettings, Estimate, Interval, estimate_statistic
from maieutic.datasets.labelled_sets import LabelledData
from maieutic.datasets.text import last_student_turn
from maieutic.validation.trust import LabelsByReply, estimate_rank_correlation, trust_score
from maieutic.validation.word_rules import WORD, word_set

CORRELATION, MEAN_LABEL = "measure_correlation", "mean_label"
MeasureValues = Mapping[tuple[str, str], float | None]  # values of one measure by item and tutor
WORD_LIST_MEASURE = "toolkit's word list"
SurfaceMeasure = Callable[[Item, str], float]
WORD_LISTS: dict[str, SurfaceMeasure] = merged_plugin_tables("toolkit", "MEASURES")


def word_count(item: Item, reply: str) -> float:
    """Return the number of words in a reply."""
    return float(len(reply.split()))


def uptake(item: Item, reply: str) -> float:
    """Return the share of the words of the student's last turn that the reply repeats; 0 for an empty turn."""
    student_words = word_set(last_student_turn(item.vars.get("history", "")))
    return len(student_words & word_set(reply)) / len(student_words) if student_words else 0.0


def dialogue_overlap(item: Item, reply: str) -> float:
    """Return the unigram F1 of the dialogue and the reply. A word counts as often as it occurs."""
    before, after = (Counter(WORD.findall(text.casefold())) for text in (item.vars.get("history", ""), reply))
    shared = sum((before & after).values())
    return 2 * shared / (before.total() + after.total()) if shared else 0.0


SURFACE_MEASURES: dict[str, SurfaceMeasure] = {"words": word_count, "uptake": uptake, "overlap": dialogue_overlap}


def measure_scores(
    labels: LabelledData, sampling: BootstrapSettings, precomputed: Mapping[str, MeasureValues] = {}
) -> list[Score]:
    """Return Spearman's correlation of each measure with people's labels, for each criterion with an ordinal scale.

    The first label of a scale counts as the highest. The column `by` of a score names its measure. precomputed: values
    of further measures, which other jobs computed, by the measure's name.
    """
    everywhere = {name: measure_replies(measure, labels) for name, measure in SURFACE_MEASURES.items()} | dict(
        precomputed
    )
    scores = []
    for criterion, scale in labels.scales.items():
        criterion_labels = [label for label in labels.labels if label.criterion == criterion]
        if scale.level != "ordinal" or not criterion_labels:
            continue
        codes = [-float(scale.labels.index(label.label)) for label in criterion_labels]
        problems = [label.problem for label in criterion_labels]
        from_list = (
            {WORD_LIST_MEASURE: measure_replies(WORD_LISTS[criterion], labels)} if criterion in WORD_LISTS else {}
        )
        for name, values in (everywhere | from_list).items():
            measured = [values.get((label.id, label.tutor)) for label in criterion_labels]
            known = [
                (value, code, problem)
                for value, code, problem in zip(measured, codes, problems, strict=True)
                if value is not None
            ]
            result = measure_correlation(known, sampling)._replace(missing=len(criterion_labels) - len(known))
            scores.append(trust_score(None, CORRELATION, result, criterion=criterion, by=name))
    return scores


def measure_replies(measure: SurfaceMeasure, labels: LabelledData) -> dict[tuple[str, str], float]:
    """Return a measure's value for every labelled reply, by item and tutor."""
    return {key: float(measure(labels.items[key[0]], text)) for key, text in labels.texts.items()}


class MeasureBin(NamedTuple):
    """Replies with a measure from `low` to `high`: their number, and the share of them that has the first label."""

    low: float
    high: float
    number: int
    share: float


def bin_by_measure(values: Sequence[float], first: Sequence[bool], parts: int = 5) -> list[MeasureBin]:
    """Divide replies by a measure into at most `parts` bins of about equal size. Equal values stay in one bin.

    values: the measure of each reply. first: True for each reply with the first label.
    """
    import numpy as np

    bounds = np.unique(np.quantile(values, np.linspace(0, 1, parts + 1)[1:-1]))
    places = np.searchsorted(bounds, values, side="left")
    return [
        MeasureBin(float(min(members)), float(max(members)), len(members), sum(marks) / len(members))
        for place in range(len(bounds) + 1)
        if (members := [value for value, at in zip(values, places, strict=True) if at == place])
        for marks in [[mark for mark, at in zip(first, places, strict=True) if at == place]]
    ]


def measure_correlation(known: Sequence[tuple[float, float, str]], sampling: BootstrapSettings) -> Estimate:
    """Estimate Spearman's correlation of a measure with labels; the value is None if one of them does not vary.

    known: measure, label as a number, and problem of each reply.
    """
    if any(len({row[side] for row in known}) < 2 for side in (0, 1)):
        return Estimate(None, Interval(None, None), len(known))
    values, codes, problems = zip(*known, strict=True)
    return estimate_rank_correlation(values, codes, problems, sampling)


def label_code(place: int, number: int) -> float:
    """Return the code of the label at index `place` in a scale of `number` labels, from 1 (first) to 0 (last)."""
    return 1 - place / (number - 1)


def mean_labels(
    grader: str | None, labels: LabelledData, verdicts: LabelsByReply | None, sampling: BootstrapSettings
) -> list[Score]:
    """Return each tutor's mean label under each ordinal criterion. A scale's first label counts as 1, its last as 0.

    grader, verdicts: the grader's name and verdicts; both None for the labels of people.
    """
    cells: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for label in labels.labels:
        scale = labels.scales[label.criterion]
        value = label.label if verdicts is None else verdicts.get((label.id, label.tutor, label.criterion))
        if scale.level == "ordinal" and value in scale.labels:
            code = label_code(scale.labels.index(str(value)), len(scale.labels))
            cells.setdefault((label.tutor, label.criterion), []).append((code, label.problem))
    scores = []
    for (tutor, criterion), cell in cells.items():
        codes, problems = zip(*cell, strict=True)
        mean = estimate_statistic(MEAN, codes, problems, sampling)
        scores.append(trust_score(None, MEAN_LABEL, mean, tutor=tutor, criterion=criterion, by=grader))
    return scores
