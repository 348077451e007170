"""What a release of replies with people's labels is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from maieutic.core.records import LabelledSet, LabelSetAbout, Scale

Counts = dict[str, dict[str, Any]]  # what was counted, of all and by subset


def plain_counts(made: LabelledSet) -> Counts:
    """How many items, replies and labels a set has, and how often each label occurs."""
    counts = {"dialogues": len(made.items), "responses": len(made.replies), "labels": len(made.labels)}
    return {"all": {**counts, "label_counts": dict(Counter(label.label for label in made.labels))}}


class LabelSource(NamedTuple):
    """How replies with people's labels are read, or replies to predict labels for.

    load: takes the records of each dataset in order; scales: what people may say under each criterion; asked: the
    criteria that a judge of a set without labels is asked; variables: what a judge's prompt may use; labelled: whether
    people's labels are in it; taxonomy: whether its labels are those that reward models and classifiers learn from, and
    of which the tables of labelled tutors are made; statistics: what is counted; rubric: the card that gave the scales.
    """

    load: Callable[..., LabelledSet]
    scales: Mapping[str, Scale]
    variables: frozenset[str]
    asked: tuple[str, ...] = ()
    labelled: bool = True
    taxonomy: bool = False
    statistics: Callable[[LabelledSet], Counts] = plain_counts
    rubric: str | None = None

    @property
    def about(self) -> LabelSetAbout:
        """What stands beside its labels."""
        return LabelSetAbout(scales=dict(self.scales), asked=self.asked, rubric=self.rubric)
