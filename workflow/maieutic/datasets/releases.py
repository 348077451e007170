"""Description of a labelled release: its loader, scales and statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from maieutic.core.records import LabelledSet, LabelSetDescription, Scale

SetStatistics = dict[str, dict[str, Any]]  # statistics of the whole set ("all") and of each subset


def plain_counts(labelled: LabelledSet) -> SetStatistics:
    """Return the numbers of items, replies and labels of a set, and the frequency of each label."""
    counts = {"dialogues": len(labelled.items), "responses": len(labelled.replies), "labels": len(labelled.labels)}
    return {"all": {**counts, "label_counts": dict(Counter(label.label for label in labelled.labels))}}


class LabelSource(NamedTuple):
    """Loader and properties of a set of replies, which people have labelled or a judge is to label.

    load: function that reads the set from the records of each of its datasets; scales: annotators' labels by criterion;
    variables: variables that a judge's prompt may use; judged_criteria: criteria under which a judge labels an
    unlabelled set; labelled: True if the set has people's labels; taxonomy: True if the labels can train reward models
    and classifiers, and appear in the tables of labelled tutors; statistics: function that returns the set's
    statistics; rubric: rubric card that defines the scales, if any.
    """

    load: Callable[..., LabelledSet]
    scales: Mapping[str, Scale]
    variables: frozenset[str]
    judged_criteria: tuple[str, ...] = ()
    labelled: bool = True
    taxonomy: bool = False
    statistics: Callable[[LabelledSet], SetStatistics] = plain_counts
    rubric: str | None = None

    @property
    def about(self) -> LabelSetDescription:
        """Description of the set, which is stored beside its labels."""
        return LabelSetDescription(scales=dict(self.scales), asked=self.judged_criteria, rubric=self.rubric)
