"""What a release of replies with people's labels is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from maieutic.core.records import LabelledSet


class LabelSource(NamedTuple):
    """A release of replies with people's labels, or of replies to predict labels for.

    load: takes the records of each dataset in order; scales: the labels of each criterion, the best one first; desired:
    of a criterion the label of a good reply; asked: the criteria that a judge of a release without labels is asked;
    variables: what a judge's prompt may use; seen_by: the source of preference pairs that is made of the same labels;
    labelled: whether people's labels are in it; pick: whether it is chosen where `run.labels` names none; taxonomy:
    whether its labels are MRBench's dimensions, of which that paper's tables can be made.
    """

    title: str
    load: Callable[..., LabelledSet]
    datasets: tuple[str, ...]
    scales: Mapping[str, tuple[str, ...]]
    variables: frozenset[str]
    desired: Mapping[str, str] = {}
    asked: tuple[str, ...] = ()
    seen_by: str | None = None
    labelled: bool = True
    pick: bool = False
    taxonomy: bool = False

    def fits(self, criteria: Mapping[str, Sequence[str]]) -> bool:
        """Whether a rubric with these criteria and labels can be checked on it."""
        return bool(criteria) and all(self.scales.get(name) == tuple(labels) for name, labels in criteria.items())
