"""What can be counted of a reply without understanding it, held against the labels of people.

words: how long it is; uptake: the share of the student's last words that it takes up; overlap: unigram F1 with the
whole dialogue (ROUGE-1). Lexical overlap is the baseline of Demszky et al., Measuring Conversational Uptake (ACL 2021).
Benchmarks add the lists of words that their own toolkits use (`MEASURES` of their module `toolkit`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from maieutic.core.plugins import merged
from maieutic.core.records import Item, Score
from maieutic.core.stats import MEAN, Estimate, Interval, Sampling, estimate
from maieutic.datasets.text import last_student_turn
from maieutic.judges.labels import Labels
from maieutic.validation.heuristics import WORD, words
from maieutic.validation.trust import Said, ranked_correlation, score

CORRELATION, MEAN_LABEL = "measure_correlation", "mean_label"
Values = Mapping[tuple[str, str], float | None]  # by item and tutor
LIST = "toolkit's word list"
Measure = Callable[[Item, str], float]
WORD_LISTS: dict[str, Measure] = merged("toolkit", "MEASURES")


def length(item: Item, reply: str) -> float:
    """The number of words."""
    return float(len(reply.split()))


def uptake(item: Item, reply: str) -> float:
    """The share of the words of the student's last turn that the reply takes up; 0 of an empty turn."""
    said = words(last_student_turn(item.vars.get("history", "")))
    return len(said & words(reply)) / len(said) if said else 0.0


def overlap(item: Item, reply: str) -> float:
    """The F1 of the words of the dialogue and of the reply, each as often as it occurs."""
    before, after = (Counter(WORD.findall(text.casefold())) for text in (item.vars.get("history", ""), reply))
    shared = sum((before & after).values())
    return 2 * shared / (before.total() + after.total()) if shared else 0.0


MEASURES: dict[str, Measure] = {"words": length, "uptake": uptake, "overlap": overlap}


def measure_scores(labels: Labels, sampling: Sampling, given: Mapping[str, Values] = {}) -> list[Score]:
    """Spearman's correlation of each measure with people's labels, by criterion whose labels have an order.

    The first label of a scale counts most. `by`: the measure. given: by name what was measured elsewhere.
    """
    everywhere = {name: counted(measure, labels) for name, measure in MEASURES.items()} | dict(given)
    scores = []
    for criterion, scale in labels.scales.items():
        own = [label for label in labels.labels if label.criterion == criterion]
        if scale.level != "ordinal" or not own:
            continue
        codes = [-float(scale.labels.index(label.label)) for label in own]
        problems = [label.problem for label in own]
        listed = {LIST: counted(WORD_LISTS[criterion], labels)} if criterion in WORD_LISTS else {}
        for name, values in (everywhere | listed).items():
            measured = [values.get((one.id, one.tutor)) for one in own]
            known = [
                (value, code, problem)
                for value, code, problem in zip(measured, codes, problems, strict=True)
                if value is not None
            ]
            found = correlated(known, sampling)._replace(missing=len(own) - len(known))
            scores.append(score(None, CORRELATION, found, criterion=criterion, by=name))
    return scores


def counted(measure: Measure, labels: Labels) -> dict[tuple[str, str], float]:
    """A measure of every reply."""
    return {key: float(measure(labels.items[key[0]], text)) for key, text in labels.texts.items()}


class Part(NamedTuple):
    """Replies between two values of a measure, both included: so many, and the share of them with the first label."""

    low: float
    high: float
    number: int
    share: float


def parts_of(values: Sequence[float], first: Sequence[bool], parts: int = 5) -> list[Part]:
    """Replies in so many parts by a measure, of equal size but for ties, which stay together."""
    import numpy as np

    bounds = np.unique(np.quantile(values, np.linspace(0, 1, parts + 1)[1:-1]))
    places = np.searchsorted(bounds, values, side="left")
    return [
        Part(float(min(own)), float(max(own)), len(own), sum(marks) / len(own))
        for place in range(len(bounds) + 1)
        if (own := [value for value, at in zip(values, places, strict=True) if at == place])
        for marks in [[mark for mark, at in zip(first, places, strict=True) if at == place]]
    ]


def correlated(known: Sequence[tuple[float, float, str]], sampling: Sampling) -> Estimate:
    """The correlation; none where one side does not vary. known: of each reply measure, label as a number, problem."""
    if any(len({one[side] for one in known}) < 2 for side in (0, 1)):
        return Estimate(None, Interval(None, None), len(known))
    values, codes, problems = zip(*known, strict=True)
    return ranked_correlation(values, codes, problems, sampling)


def coded(place: int, number: int) -> float:
    """A label as a number: 1 for the first of a scale, 0 for the last, evenly between them."""
    return 1 - place / (number - 1)


def mean_labels(grader: str | None, labels: Labels, verdicts: Said | None, sampling: Sampling) -> list[Score]:
    """Each tutor's mean label by criterion with an order: 1 for the first of a scale, 0 for the last.

    verdicts: a grader's; None, and no grader: the labels that people gave.
    """
    cells: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for label in labels.labels:
        scale = labels.scales[label.criterion]
        said = label.label if verdicts is None else verdicts.get((label.id, label.tutor, label.criterion))
        if scale.level == "ordinal" and said in scale.labels:
            code = coded(scale.labels.index(str(said)), len(scale.labels))
            cells.setdefault((label.tutor, label.criterion), []).append((code, label.problem))
    scores = []
    for (tutor, criterion), own in cells.items():
        codes, problems = zip(*own, strict=True)
        mean = estimate(MEAN, codes, problems, sampling)
        scores.append(score(None, MEAN_LABEL, mean, tutor=tutor, criterion=criterion, by=grader))
    return scores
