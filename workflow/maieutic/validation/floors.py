"""Floors of graders, as baseline tutors are floors of metrics: what needs no understanding of a reply.

majority label: always the most frequent one; constant: always the desired one (else the first of the scale), as a
grader that praises everything; keywords: a list of words a criterion, where there is one; word counts: a linear
classifier of TF-IDF, each reply predicted by a model that has not seen its problem. A judge that beats none of them
adds nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from maieutic.core.plugins import merged
from maieutic.core.records import Item, Label, Scale
from maieutic.judges.labels import Labels
from maieutic.validation.heuristics import Heuristic
from maieutic.validation.trust import Said

FOLDS = 5
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
        predicted = by_word_counts(
            replies, [label.label for label in criterion_labels], [label.problem for label in criterion_labels], seed
        )
        verdicts[TFIDF] |= dict(zip(keys, predicted, strict=True))
    return {name: said for name, said in verdicts.items() if said}


def by_keywords(criterion: str, item: Item, text: str, scale: Scale) -> str:
    """The label that a list of words gives."""
    heuristic = HEURISTICS[criterion]
    return scale.labels[0 if heuristic.holds(item, text) else heuristic.otherwise]


def by_word_counts(texts: Sequence[str], labels: Sequence[str], problems: Sequence[str], seed: int) -> list[str]:
    """The labels that a linear classifier of TF-IDF gives, each predicted without its own problem."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.model_selection import GroupKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    gold, groups = np.array(labels), np.array(problems)
    folds = min(FOLDS, len(set(problems)))
    if folds < 2:
        return [Counter(labels).most_common(1)[0][0]] * len(labels)
    predicted = np.empty(len(gold), dtype=object)
    documents = np.array([text or "(empty)" for text in texts], dtype=object)
    for train, test in GroupKFold(folds, shuffle=True, random_state=seed).split(documents, gold, groups):
        if len(set(gold[train])) == 1:
            predicted[test] = gold[train][0]
            continue
        model = make_pipeline(
            TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b|[?!]"),
            LinearSVC(class_weight="balanced", random_state=seed),
        )
        predicted[test] = model.fit(documents[train], gold[train]).predict(documents[test])
    return [str(label) for label in predicted]
