"""Problems of evaluation sets in training data: the same words, or nearly the same by MinHash (datasketch)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from maieutic.core.records import Item
from maieutic.curation.rules import words_of

log = logging.getLogger(__name__)
SHINGLE = 5  # words
PERMUTATIONS = 128
SHORTEST = 6  # words of a text that can say which problem it is
SEED = 1  # of the permutations: the same on every machine
SLACK = 0.8  # of the threshold: MinHash only finds candidates, which are then compared exactly


class Leak(NamedTuple):
    """An evaluation text found in training data. similarity: Jaccard, 1.0 for the same words."""

    training: str
    evaluation: str
    similarity: float


def shingles(text: str) -> frozenset[str]:
    """The runs of five words in a text; of a shorter one all its words as one."""
    words = words_of(text)
    if len(words) <= SHINGLE:
        return frozenset({" ".join(words)})
    return frozenset(" ".join(words[place : place + SHINGLE]) for place in range(len(words) - SHINGLE + 1))


def jaccard(runs: frozenset[str], other: frozenset[str]) -> float:
    """Shared shingles over all."""
    return len(runs & other) / len(runs | other)


class Index:
    """Texts by name, and which of them are near another text."""

    def __init__(self, texts: Iterable[tuple[str, str]], threshold: float) -> None:
        """texts: names and texts; ones of a few words are left out. threshold: Jaccard similarity of a duplicate."""
        from datasketch import MinHashLSH

        self.threshold = threshold
        self.names: list[str] = []
        self.kept: list[frozenset[str]] = []
        self.seen: set[frozenset[str]] = set()
        self.index = MinHashLSH(threshold=threshold * SLACK, num_perm=PERMUTATIONS)
        for name, text in texts:
            self.add(name, text)

    def add(self, name: str, text: str) -> None:
        """One text more."""
        runs = shingles(text)
        if len(words_of(text)) < SHORTEST or runs in self.seen:
            return
        self.seen.add(runs)
        self.index.insert(str(len(self.names)), signature(runs))
        self.names.append(name)
        self.kept.append(runs)

    def nearest(self, text: str) -> tuple[str, float] | None:
        """The name of the text that is most like this one, and how like; None where none is near enough."""
        if len(words_of(text)) < SHORTEST:
            return None
        runs = shingles(text)
        near = {int(place): jaccard(runs, self.kept[int(place)]) for place in self.index.query(signature(runs))}
        best = max(near, key=lambda place: (near[place], -place), default=None)
        if best is None or near[best] < self.threshold:
            return None
        return self.names[best], near[best]


def signature(runs: frozenset[str]) -> object:
    """The MinHash of some shingles."""
    from datasketch import MinHash

    made = MinHash(num_perm=PERMUTATIONS, seed=SEED)
    made.update_batch([shingle.encode() for shingle in sorted(runs)])
    return made


def item_texts(items: Iterable[Item]) -> list[tuple[str, str]]:
    """What of an evaluation item is a text of its own: its variables and what was said before, named by task and id."""
    return [
        (f"{item.task} {item.id}", text)
        for item in items
        for text in (*item.vars.values(), *(message["content"] for message in item.history))
    ]


def leaks(
    texts_of: Mapping[str, Sequence[str]], evaluation: Iterable[tuple[str, str]], threshold: float
) -> dict[str, Leak]:
    """By training example the evaluation text that is most like one of its texts; only those that are near enough."""
    index = Index(evaluation, threshold)
    by_name = {}
    for name, texts in texts_of.items():
        near = [hit for text in texts if (hit := index.nearest(text))]
        if near:
            evaluated, similarity = max(near, key=lambda hit: hit[1])
            by_name[name] = Leak(name, evaluated, round(similarity, 4))
    return by_name


def without_leaks(
    texts_of: Mapping[str, Sequence[str]], evaluation: Callable[[], Iterable[tuple[str, str]]], threshold: float
) -> tuple[list[str], list[Leak]]:
    """The training examples without a leak, and the leaks. That none is left is checked again, by an index anew."""
    by_name = leaks(texts_of, evaluation(), threshold)
    kept = [name for name in texts_of if name not in by_name]
    if left := leaks({name: texts_of[name] for name in kept}, evaluation(), threshold):
        raise RuntimeError(f"{len(left)} evaluation texts are left in the training set")
    log.info("%d of %d training examples hold an evaluation text, and are left out", len(by_name), len(texts_of))
    return kept, list(by_name.values())


def duplicates(texts: Sequence[tuple[str, str]], threshold: float) -> list[str]:
    """The names of the texts that are nearly one of those before them."""
    names, before = [], Index([], threshold)
    for name, text in texts:
        if before.nearest(text):
            names.append(name)
        before.add(name, text)
    return names
