"""Detection of evaluation problems in training data, whether they occur verbatim, in large part, or slightly changed.

An index of five-word sequences finds the training texts that contain an evaluation text. MinHash (datasketch) finds
near-duplicates, and confirms that no leak is left.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from maieutic.core.records import Item
from maieutic.curation.records import folded_words

log = logging.getLogger(__name__)
SHINGLE = 5  # number of words in a sequence; texts are compared by the sequences that they share
PERMUTATIONS = 128
FEWEST_WORDS_OF_SEQUENCES = 6  # minimum number of words of a text that an index compares by its sequences
FEWEST_WORDS_OF_EQUAL_TEXT = (
    4  # minimum number of words of a text that counts as a leak if it equals an evaluation text
)
SEED = 1  # seed of MinHash's permutations, fixed so that every machine gets the same result
# An evaluation text with at least this many words is searched for within training texts; a shorter text is compared
# with whole training texts.
FEWEST_WORDS_OF_SEARCH = 12
CANDIDATE_FACTOR = 0.6  # share of the threshold at which MinHash selects candidates for an exact comparison


class Leak(NamedTuple):
    """An evaluation text found in training data.

    training: name of the training example; evaluation: name of the evaluation text; similarity: 1.0 if the words are
    the same, else the share of the evaluation text's five-word sequences that a text of the example contains. For an
    evaluation text of fewer than 12 words, it is the Jaccard similarity of the two texts' sequences.
    """

    training: str
    evaluation: str
    similarity: float


def shingles(words: Sequence[str]) -> frozenset[str]:
    """Return the five-word sequences of a text; for a text of up to five words, all its words as one sequence."""
    if len(words) <= SHINGLE:
        return frozenset({" ".join(words)})
    return frozenset(" ".join(words[place : place + SHINGLE]) for place in range(len(words) - SHINGLE + 1))


def jaccard(sequences: frozenset[str], other: frozenset[str]) -> float:
    """Return the Jaccard similarity of two sets of sequences."""
    return len(sequences & other) / len(sequences | other)


class EvaluationTexts:
    """An index that finds the evaluation text contained in a training text. Unlike MinHash, it compares exactly."""

    def __init__(self, texts: Iterable[tuple[str, str]], threshold: float) -> None:
        """Index (name, text) pairs. threshold: minimum similarity (as in `Leak`) of a match."""
        self.threshold = threshold
        self.names: list[str] = []
        self.sequences: list[frozenset[str]] = []
        self.are_long: list[bool] = []
        self.places: dict[str, list[int]] = defaultdict(list)  # sequence of words -> indices of the texts with it
        self.whole: dict[tuple[str, ...], str] = {}  # words of a text -> name of the first text with these words
        for name, text in texts:
            words = tuple(folded_words(text))
            if not words or words in self.whole:
                continue
            self.whole[words] = name
            if len(words) >= FEWEST_WORDS_OF_SEQUENCES:
                sequences = shingles(words)
                for sequence in sequences:
                    self.places[sequence].append(len(self.names))
                self.names.append(name)
                self.sequences.append(sequences)
                self.are_long.append(len(words) >= FEWEST_WORDS_OF_SEARCH)

    def contained_in(self, text: str) -> tuple[str, float] | None:
        """Return (name, similarity) of the evaluation text most similar to `text`; None if no text is similar enough.

        The similarity is defined as in `Leak`.
        """
        words = tuple(folded_words(text))
        if words in self.whole and len(words) >= FEWEST_WORDS_OF_EQUAL_TEXT:
            return self.whole[words], 1.0
        sequences = shingles(words)
        shared = Counter(place for sequence in sequences for place in self.places.get(sequence, ()))
        best: tuple[str, float] | None = None
        for place, count in sorted(shared.items()):
            total = len(self.sequences[place]) if self.are_long[place] else len(self.sequences[place] | sequences)
            if count / total >= self.threshold and (best is None or count / total > best[1]):
                best = self.names[place], count / total
        return best


class NearDuplicateIndex:
    """A MinHash index of named texts, which finds the text that is most similar to a given text."""

    def __init__(self, texts: Iterable[tuple[str, str]], threshold: float) -> None:
        """Index (name, text) pairs, except short texts. threshold: minimum Jaccard similarity of duplicates."""
        from datasketch import MinHashLSH

        self.threshold = threshold
        self.names: list[str] = []
        self.kept: list[frozenset[str]] = []
        self.seen: set[frozenset[str]] = set()
        self.index = MinHashLSH(threshold=threshold * CANDIDATE_FACTOR, num_perm=PERMUTATIONS)
        for name, text in texts:
            self.add(name, text)

    def add(self, name: str, text: str) -> None:
        """Add a text, unless it has fewer than six words or the same sequences as an earlier text."""
        words = folded_words(text)
        sequences = shingles(words)
        if len(words) < FEWEST_WORDS_OF_SEQUENCES or sequences in self.seen:
            return
        self.seen.add(sequences)
        self.index.insert(str(len(self.names)), signature(sequences))
        self.names.append(name)
        self.kept.append(sequences)

    def nearest(self, text: str) -> tuple[str, float] | None:
        """Return (name, similarity) of the indexed text most similar to `text`; None if no text is similar enough."""
        words = folded_words(text)
        if len(words) < FEWEST_WORDS_OF_SEQUENCES:
            return None
        sequences = shingles(words)
        near = {
            int(place): jaccard(sequences, self.kept[int(place)]) for place in self.index.query(signature(sequences))
        }
        best = max(near, key=lambda place: (near[place], -place), default=None)
        if best is None or near[best] < self.threshold:
            return None
        return self.names[best], near[best]


def signature(sequences: frozenset[str]) -> object:
    """Return the MinHash signature of a set of sequences."""
    from datasketch import MinHash

    minhash = MinHash(num_perm=PERMUTATIONS, seed=SEED)
    minhash.update_batch([shingle.encode() for shingle in sorted(sequences)])
    return minhash


def item_texts(items: Iterable[Item]) -> list[tuple[str, str]]:
    """Return (name, text) pairs for all texts of evaluation items. A name joins the task and the item's id."""
    return [(f"{item.task} {item.id}", text) for item in items for text in texts_in(item)]


def texts_in(item: Item) -> list[str]:
    """Return the texts of an item: its variables, the messages of its history, and its reference texts."""
    texts = [*item.vars.values(), *(message["content"] for message in item.history)]
    for value in item.reference.values():
        texts += [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
    return texts


def set_texts(name: str, records: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return (name, text) pairs for all problems in a set. A name joins the set's name and the record's id.

    records: records of the set, in the format of the loader `kmp_skills` or `kmp_dialogues`.
    """
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
    """Return the leaks by name of the training example. Each leak names the most similar evaluation text.

    texts_of: texts of each training example; evaluation: (name, text) pairs; threshold: minimum similarity of a leak.
    """
    index = EvaluationTexts(evaluation, threshold)
    by_name = {}
    for name, texts in texts_of.items():
        near = [hit for text in texts if (hit := index.contained_in(text))]
        if near:
            evaluated, similarity = max(near, key=lambda hit: hit[1])
            by_name[name] = Leak(name, evaluated, round(similarity, 4))
    return by_name


def without_leaks(
    texts_of: Mapping[str, Sequence[str]], evaluation: Sequence[tuple[str, str]], threshold: float
) -> tuple[list[str], list[Leak]]:
    """Return the names of the training examples without a leak, and the leaks.

    evaluation: (name, text) pairs; threshold: minimum similarity of a leak. Raises RuntimeError if MinHash still finds
    a leak in the remaining examples.
    """
    by_name = leaks(texts_of, evaluation, threshold)
    kept = [name for name in texts_of if name not in by_name]
    again = NearDuplicateIndex(evaluation, threshold)
    if left := [name for name in kept if any(again.nearest(text) for text in texts_of[name])]:
        raise RuntimeError(f"{len(left)} training examples still contain an evaluation text, for example {left[0]}")
    log.info("%d of %d training examples contain an evaluation text and are left out", len(by_name), len(texts_of))
    return kept, list(by_name.values())


def duplicates(texts: Sequence[tuple[str, str]], threshold: float) -> list[str]:
    """Return the names of the texts that are near-duplicates of an earlier text.

    texts: (name, text) pairs; threshold: minimum Jaccard similarity of duplicates.
    """
    names, earlier = [], NearDuplicateIndex([], threshold)
    for name, text in texts:
        if earlier.nearest(text):
            names.append(name)
        earlier.add(name, text)
    return names
