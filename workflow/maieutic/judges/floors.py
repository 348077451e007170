"""Floors of graders, as baseline tutors are floors of metrics: what needs no understanding of a reply.

majority label: always the most frequent one; keywords: a list of words a criterion; word counts: a linear classifier of
TF-IDF, each reply predicted by a model that has not seen its problem. A judge that beats none of them adds nothing.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from maieutic.benchmarks.kmpbench.mr_gsm8k import ERROR_REASON
from maieutic.graders.numerals import numerals
from maieutic.judges.labels import SCALES, Labels
from maieutic.judges.trust import Said
from maieutic.records import Item, Label

FOLDS = 5
MAJORITY, KEYWORDS, TFIDF = "majority label", "keywords", "word counts"
FLOORS = (MAJORITY, KEYWORDS, TFIDF)
MISTAKE = re.compile(
    r"\b(?:mistake|error|incorrect|wrong|not quite|not correct|isn't right|re-?check|check again|look again"
    r"|careful|close|actually|instead|reconsider|almost)\b",
    re.IGNORECASE,
)
PLACE = re.compile(
    r"\d|\bstep\b|\bwhen you\b|\byou (?:said|wrote|added|multiplied|divided|subtracted|used)\b", re.IGNORECASE
)
REVEALS = re.compile(
    r"\b(?:the (?:correct )?answer is|answer would be|so it(?:'s| is)|equals|which is)\b|=\s*\$?\d", re.IGNORECASE
)
GUIDES = re.compile(
    r"\b(?:hint|remember|think about|recall|first|let's|try|consider|for example|imagine|means|because)\b",
    re.IGNORECASE,
)
ACTION = re.compile(r"\?|\b(?:try|can you|could you|let's|please|re-?check|tell me|show me)\b", re.IGNORECASE)
WARM = re.compile(
    r"\b(?:great|good|nice|well done|excellent|awesome|fantastic|almost|right track|keep|close|thank|happy)\b|!",
    re.IGNORECASE,
)
STIFF = re.compile(r"\bas an AI\b|\*\*|^\s*(?:[-*]|\d+[.)])\s", re.IGNORECASE | re.MULTILINE)
WORD = re.compile(r"[a-z0-9]{3,}")
MANY_WORDS = 80  # a longer turn sounds like no person
COMMON = 0.3  # share of an annotator's words that a reason has to hold


def words(text: str) -> set[str]:
    """The words and numbers of a text."""
    return set(WORD.findall(text.casefold()))


def has(pattern: re.Pattern[str]) -> Callable[[Item, str], bool]:
    """Whether a reply holds one of the words."""
    return lambda item, text: pattern.search(text) is not None


def follows(item: Item, text: str) -> bool:
    """Whether a reply takes up a word or number of the student's last turn."""
    return bool(words(text) & words(item.vars["history"].rsplit("Student:", 1)[-1]))


def natural(item: Item, text: str) -> bool:
    """Whether a reply has a person's length and form."""
    return len(text.split()) <= MANY_WORDS and not STIFF.search(text)


def same_reason(item: Item, text: str) -> bool:
    """Whether a reason holds some of the annotator's words or numbers."""
    known = words(item.vars["reference_reason"])
    return len(known & words(text)) >= COMMON * len(known)


def reveals(item: Item, text: str) -> bool:
    """Whether a reply announces an answer, or says the number that the solution ends with."""
    final = [one.value for one in numerals(str(item.reference.get("solution", "")))][-1:]
    return bool(REVEALS.search(text)) or bool(final and final[0] in {one.value for one in numerals(text)})


# By criterion: whether the first label of its scale is said, else the last one.
HEURISTICS: dict[str, Callable[[Item, str], bool]] = {
    "Mistake_Identification": has(MISTAKE),
    "Mistake_Location": lambda item, text: bool(MISTAKE.search(text) and PLACE.search(text)),
    "Revealing_of_the_Answer": reveals,
    "Providing_Guidance": has(GUIDES),
    "Actionability": has(ACTION),
    "Coherence": follows,
    "Tutor_Tone": has(WARM),
    "humanlikeness": natural,
    ERROR_REASON: same_reason,
}
SECOND = {"Tutor_Tone"}  # whose other label is the second of its scale: nobody is taken for offensive


def floor_verdicts(labels: Labels, seed: int) -> dict[str, Said]:
    """What each floor says of every labelled reply, by item, tutor and criterion."""
    texts = {(reply.id, reply.model): " ".join(turn.text for turn in reply.turns) for reply in labels.replies}
    by_criterion: dict[str, list[Label]] = defaultdict(list)
    for label in labels.labels:
        by_criterion[label.criterion].append(label)
    found: dict[str, Said] = {name: {} for name in FLOORS}
    for criterion, of in by_criterion.items():
        keys = [(label.id, label.model, criterion) for label in of]
        said = [texts[label.id, label.model] for label in of]
        most = Counter(label.label for label in of).most_common(1)[0][0]
        found[MAJORITY] |= dict.fromkeys(keys, most)
        found[KEYWORDS] |= {
            key: by_keywords(criterion, labels.items[key[0]], text) for key, text in zip(keys, said, strict=True)
        }
        predicted = by_word_counts(said, [label.label for label in of], [label.problem for label in of], seed)
        found[TFIDF] |= dict(zip(keys, predicted, strict=True))
    return found


def by_keywords(criterion: str, item: Item, text: str) -> str:
    """The label that a list of words gives."""
    scale = SCALES[criterion]
    if HEURISTICS[criterion](item, text):
        return scale[0]
    return scale[1] if criterion in SECOND else scale[-1]


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
