"""Problems of evaluation sets in training data: the same words, most of a problem's words, or nearly the same text.

Two methods: an index of the runs of five words finds the texts that hold an evaluation text; MinHash (datasketch)
finds near-duplicates, and checks afterwards that none is left.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from maieutic.core.records import Item
from maieutic.curation.texts import words_of

log = logging.getLogger(__name__)
SHINGLE = 5  # words
PERMUTATIONS = 128
SHORTEST = 6  # words of a text that can be nearly another
FEWEST = 4  # words of one that says, word for word, which problem it is ("What is 15 % of 80?")
SEED = 1  # of the permutations: the same on every machine
LONG = 12  # words of a text that is looked for within others; a shorter one is compared with whole texts
SLACK = 0.6  # of the threshold: MinHash only finds candidates, which are then compared exactly


class Leak(NamedTuple):
    """An evaluation text found in training data.

    similarity: the share of its runs of five words that one training text holds; of a text of fewer than 12 words the
    Jaccard similarity of the two; 1.0 for the same words.
    """

    training: str
    evaluation: str
    similarity: float


def shingles(words: Sequence[str]) -> frozenset[str]:
    """The runs of five words in a text; of a shorter one all its words as one."""
    if len(words) <= SHINGLE:
        return frozenset({" ".join(words)})
    return frozenset(" ".join(words[place : place + SHINGLE]) for place in range(len(words) - SHINGLE + 1))


def jaccard(runs: frozenset[str], other: frozenset[str]) -> float:
    """Shared shingles over all."""
    return len(runs & other) / len(runs | other)


class EvaluationTexts:
    """Texts of evaluation sets, and which of them a training text holds. Exact, without sampling."""

    def __init__(self, texts: Iterable[tuple[str, str]], threshold: float) -> None:
        """texts: names and texts; threshold: of the similarity of a `Leak`."""
        self.threshold = threshold
        self.names: list[str] = []
        self.runs: list[frozenset[str]] = []
        self.are_long: list[bool] = []
        self.places: dict[str, list[int]] = defaultdict(list)  # by run of words, the texts that have it
        self.whole: dict[tuple[str, ...], str] = {}  # by their words, the name of the first text of them
        for name, text in texts:
            words = tuple(words_of(text))
            if not words or words in self.whole:
                continue
            self.whole[words] = name
            if len(words) >= SHORTEST:
                runs = shingles(words)
                for run in runs:
                    self.places[run].append(len(self.names))
                self.names.append(name)
                self.runs.append(runs)
                self.are_long.append(len(words) >= LONG)

    def held_by(self, text: str) -> tuple[str, float] | None:
        """The name of the evaluation text that a text holds most of, and how much; None: none above the threshold."""
        words = tuple(words_of(text))
        if words in self.whole and len(words) >= FEWEST:
            return self.whole[words], 1.0
        runs = shingles(words)
        shared = Counter(place for run in runs for place in self.places.get(run, ()))
        best: tuple[str, float] | None = None
        for place, count in sorted(shared.items()):
            total = len(self.runs[place]) if self.are_long[place] else len(self.runs[place] | runs)
            if count / total >= self.threshold and (best is None or count / total > best[1]):
                best = self.names[place], count / total
        return best


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
        words = words_of(text)
        runs = shingles(words)
        if len(words) < SHORTEST or runs in self.seen:
            return
        self.seen.add(runs)
        self.index.insert(str(len(self.names)), signature(runs))
        self.names.append(name)
        self.kept.append(runs)

    def nearest(self, text: str) -> tuple[str, float] | None:
        """The name of the text that is most like this one, and how like; None where none is near enough."""
        words = words_of(text)
        if len(words) < SHORTEST:
            return None
        runs = shingles(words)
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
    """The texts of evaluation items, named by task and id."""
    return [(f"{item.task} {item.id}", text) for item in items for text in texts_in(item)]


def texts_in(item: Item) -> list[str]:
    """What of an item is a text of its own: its variables, what was said before, and what replies are compared with."""
    texts = [*item.vars.values(), *(message["content"] for message in item.history)]
    for value in item.reference.values():
        texts += [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
    return texts


def set_texts(name: str, records: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The problems of a set in the formats of `kmp_skills` and `kmp_dialogues`, named by the set and the record."""
    return [
        (f"{name} {record['id']}", text)
        for record in records
        for text in (
            record["problem"],
            *(problem["question"] for kind in ("followups", "similar") for problem in record.get(kind, ())),
        )
    ]


def leaks(
    texts_of: Mapping[str, Sequence[str]], evaluation: Iterable[tuple[str, str]], threshold: float
) -> dict[str, Leak]:
    """By training example the evaluation text that one of its texts holds most of; only where that is enough."""
    index = EvaluationTexts(evaluation, threshold)
    by_name = {}
    for name, texts in texts_of.items():
        near = [hit for text in texts if (hit := index.held_by(text))]
        if near:
            evaluated, similarity = max(near, key=lambda hit: hit[1])
            by_name[name] = Leak(name, evaluated, round(similarity, 4))
    return by_name


def without_leaks(
    texts_of: Mapping[str, Sequence[str]], evaluation: Sequence[tuple[str, str]], threshold: float
) -> tuple[list[str], list[Leak]]:
    """The training examples without a leak, and the leaks. That none is left is checked again, by MinHash."""
    by_name = leaks(texts_of, evaluation, threshold)
    kept = [name for name in texts_of if name not in by_name]
    again = Index(evaluation, threshold)
    if left := [name for name in kept if any(again.nearest(text) for text in texts_of[name])]:
        raise RuntimeError(f"{len(left)} training examples hold an evaluation text still, {left[0]} among them")
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
