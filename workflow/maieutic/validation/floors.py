"""Floors of graders, as baseline tutors are floors of metrics: what needs no understanding of a reply.

majority label: always the most frequent one; constant: always the desired one (else the first of the scale), as a
grader that praises everything; keywords: a list of words a criterion, where there is one; word counts: a linear
classifier of TF-IDF, each reply predicted by a model that has not seen its problem. A judge that beats none of them
adds nothing.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maieutic.core.plugins import merged
from maieutic.core.records import Item, Label, Scale
from maieutic.judges.labels import Labels
from maieutic.validation.heuristics import Heuristic
from maieutic.validation.trust import Said

FOLDS = 5
WORD = r"(?u)\b\w+\b|[?!]"
MAJORITY, CONSTANT, KEYWORDS, TFIDF = "majority label", "constant", "keywords", "word counts"
FLOORS = (MAJORITY, CONSTANT, KEYWORDS, TFIDF)
HEURISTICS: dict[str, Heuristic] = merged("heuristics", "HEURISTICS")


def floor_verdicts(labels: Labels, seed: int) -> dict[str, Said]:
    """What each floor says of every labelled reply, by item, tutor and criterion."""
    texts = labels.texts
    by_criterion: dict[str, list[Label]] = defaultdict(list)
    for label in labels.labels:
        by_criterion[label.criterion].append(label)
    verdicts: dict[str, Said] = {name: {} for name in FLOORS}
    folds: dict[tuple[tuple[str, str], ...], list[Fold]] = {}  # criteria mostly label the same replies
    for criterion, criterion_labels in by_criterion.items():
        keys = [(label.id, label.tutor, criterion) for label in criterion_labels]
        replies = [texts[label.id, label.tutor] for label in criterion_labels]
        most = Counter(label.label for label in criterion_labels).most_common(1)[0][0]
        verdicts[MAJORITY] |= dict.fromkeys(keys, most)
        scale = labels.scales[criterion]
        verdicts[CONSTANT] |= dict.fromkeys(keys, scale.desired or scale.labels[0])
        verdicts[KEYWORDS] |= {
            key: by_keywords(criterion, labels.items[key[0]], text, scale)
            for key, text in zip(keys, replies, strict=True)
            if criterion in HEURISTICS
        }
        labelled = tuple((label.id, label.tutor) for label in criterion_labels)
        if labelled not in folds:
            folds[labelled] = folds_of(replies, [label.problem for label in criterion_labels], seed)
        predicted = by_word_counts([label.label for label in criterion_labels], folds[labelled], seed)
        verdicts[TFIDF] |= dict(zip(keys, predicted, strict=True))
    return {name: said for name, said in verdicts.items() if said}


def by_keywords(criterion: str, item: Item, text: str, scale: Scale) -> str:
    """The label that a list of words gives."""
    heuristic = HEURISTICS[criterion]
    return scale.labels[0 if heuristic.holds(item, text) else heuristic.otherwise]


class Fold(NamedTuple):
    """Replies of some problems, and those of all other problems: their places and their word counts."""

    train: npt.NDArray[np.intp]
    test: npt.NDArray[np.intp]
    train_features: Any  # TF-IDF of those in `train`, a sparse matrix of replies by words and pairs; None without words
    test_features: Any  # of those in `test`, by the same words


def folds_of(texts: Sequence[str], problems: Sequence[str], seed: int) -> list[Fold]:
    """The word counts by which each reply can be predicted without its own problem; none of a single problem."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.model_selection import GroupKFold

    folds = min(FOLDS, len(set(problems)))
    if folds < 2:
        return []
    parts, word = [], re.compile(WORD)
    documents = np.array([text or "(empty)" for text in texts], dtype=object)
    for train, test in GroupKFold(folds, shuffle=True, random_state=seed).split(documents, groups=np.array(problems)):
        words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=WORD)
        if any(word.search(document) for document in documents[train]):
            parts.append(Fold(train, test, words.fit_transform(documents[train]), words.transform(documents[test])))
        else:  # it refuses texts without words
            parts.append(Fold(train, test, None, None))
    return parts


def by_word_counts(labels: Sequence[str], folds: Sequence[Fold], seed: int) -> list[str]:
    """The labels that a linear classifier of TF-IDF gives, each predicted without its own problem."""
    from sklearn.svm import LinearSVC

    if not folds:
        return [Counter(labels).most_common(1)[0][0]] * len(labels)
    gold = np.array(labels)
    predicted = np.empty(len(gold), dtype=object)
    for fold in folds:
        if fold.train_features is None or len(set(gold[fold.train])) == 1:
            predicted[fold.test] = Counter(gold[fold.train]).most_common(1)[0][0]
            continue
        model = LinearSVC(class_weight="balanced", random_state=seed)
        predicted[fold.test] = model.fit(fold.train_features, gold[fold.train]).predict(fold.test_features)
    return [str(label) for label in predicted]
