"""Baselines for graders (floors), which label replies without understanding them.

majority label: always the most frequent label; constant: always the desired label, or the first label of a scale
without one, like a grader that praises everything; keywords: a label chosen by a word list, for criteria that have a
list; word counts: a linear classifier on TF-IDF features that has not seen the reply's problem in training. A judge
that exceeds none of these floors adds nothing.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maieutic.core.plugins import merged_plugin_tables
from maieutic.core.records import Item, Label, Scale
from maieutic.datasets.labelled_sets import LabelledData
from maieutic.validation.trust import LabelsByReply
from maieutic.validation.word_rules import Heuristic

FOLDS = 5
TOKEN_PATTERN = r"(?u)\b\w+\b|[?!]"
MAJORITY, CONSTANT, KEYWORDS, TFIDF = "majority label", "constant", "keywords", "word counts"
FLOORS = (MAJORITY, CONSTANT, KEYWORDS, TFIDF)
HEURISTICS: dict[str, Heuristic] = merged_plugin_tables("heuristics", "HEURISTICS")


def floor_verdicts(labels: LabelledData, seed: int) -> dict[str, LabelsByReply]:
    """Return each grader baseline's labels of the labelled replies, by item, tutor and criterion."""
    texts = labels.texts
    by_criterion: dict[str, list[Label]] = defaultdict(list)
    for label in labels.labels:
        by_criterion[label.criterion].append(label)
    verdicts: dict[str, LabelsByReply] = {name: {} for name in FLOORS}
    folds: dict[tuple[tuple[str, str], ...], list[Fold]] = {}  # by the labelled replies, which many criteria share
    for criterion, criterion_labels in by_criterion.items():
        keys = [(label.id, label.tutor, criterion) for label in criterion_labels]
        replies = [texts[label.id, label.tutor] for label in criterion_labels]
        most = Counter(label.label for label in criterion_labels).most_common(1)[0][0]
        verdicts[MAJORITY] |= dict.fromkeys(keys, most)
        scale = labels.scales[criterion]
        verdicts[CONSTANT] |= dict.fromkeys(keys, scale.desired or scale.labels[0])
        verdicts[KEYWORDS] |= {
            key: label_by_keywords(criterion, labels.items[key[0]], text, scale)
            for key, text in zip(keys, replies, strict=True)
            if criterion in HEURISTICS
        }
        labelled = tuple((label.id, label.tutor) for label in criterion_labels)
        if labelled not in folds:
            folds[labelled] = problem_folds(replies, [label.problem for label in criterion_labels], seed)
        predicted = labels_by_word_counts([label.label for label in criterion_labels], folds[labelled], seed)
        verdicts[TFIDF] |= dict(zip(keys, predicted, strict=True))
    return {name: predictions for name, predictions in verdicts.items() if predictions}


def label_by_keywords(criterion: str, item: Item, text: str, scale: Scale) -> str:
    """Return the label of a reply according to the criterion's word list."""
    heuristic = HEURISTICS[criterion]
    return scale.labels[0 if heuristic.matches(item, text) else heuristic.otherwise]


class Fold(NamedTuple):
    """A split into training and test replies that share no problem: the indexes and features of both."""

    train: npt.NDArray[np.intp]
    test: npt.NDArray[np.intp]
    # sparse TF-IDF matrix of the training replies (replies x words and word pairs); None if they contain no words
    train_features: Any
    test_features: Any  # TF-IDF of the test replies, with the same columns


def problem_folds(texts: Sequence[str], problems: Sequence[str], seed: int) -> list[Fold]:
    """Return folds whose test replies share no problem with their training replies; [] if there is only one problem."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.model_selection import GroupKFold

    folds = min(FOLDS, len(set(problems)))
    if folds < 2:
        return []
    parts, word = [], re.compile(TOKEN_PATTERN)
    documents = np.array([text or "(empty)" for text in texts], dtype=object)
    for train, test in GroupKFold(folds, shuffle=True, random_state=seed).split(documents, groups=np.array(problems)):
        words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=TOKEN_PATTERN)
        if any(word.search(document) for document in documents[train]):
            parts.append(Fold(train, test, words.fit_transform(documents[train]), words.transform(documents[test])))
        else:  # TfidfVectorizer rejects texts without words
            parts.append(Fold(train, test, None, None))
    return parts


def labels_by_word_counts(labels: Sequence[str], folds: Sequence[Fold], seed: int) -> list[str]:
    """Return the labels that a linear classifier on TF-IDF features predicts after training on other problems."""
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
