"""Label sources of MRBench's releases and of the BEA 2025 shared task, which was built on MRBench."""

from collections import defaultdict
from collections.abc import Sequence

from maieutic.core.records import LabelledSet
from maieutic.datasets import mrbench
from maieutic.datasets.mrbench import LABELS
from maieutic.datasets.releases import LabelSource, SetStatistics
from maieutic.serving.conversations import parse_turns

HUMANS = ("Expert", "Novice")
SUBSETS = ("all", "bridge", "mathdial")


TONE = "Tutor_Tone"
OFFENSIVE = LABELS[TONE][-1]


def release_statistics(labelled_set: LabelledSet) -> SetStatistics:
    """Return the counts of MRBench's Table 7 for all dialogues and for each subset. Lengths are in characters."""
    subsets = {item.id: item.tags["source"] for item in labelled_set.items}
    tones = [label for label in labelled_set.labels if label.criterion == TONE]
    by_subset: SetStatistics = {}
    for subset in SUBSETS:
        items = [item for item in labelled_set.items if subset in {"all", item.tags["source"]}]
        replies = [reply for reply in labelled_set.replies if subset in {"all", subsets[reply.id]}]
        lengths: dict[str, list[int]] = defaultdict(list)
        for reply in replies:
            lengths[reply.tutor].append(len(reply.text))
        humans = sum(len(sizes) for tutor, sizes in lengths.items() if tutor in HUMANS)
        by_subset[subset] = {
            "dialogues": len(items),
            "distinct_dialogues": len({item.tags["conversation"] for item in items}),
            "turns": rounded_mean([len(parse_turns(item.vars["history"])) for item in items]),
            "dialogue_length": rounded_mean([labelled_set.lengths[item.id] for item in items]),
            "llm_responses": len(replies) - humans,
            "human_responses": humans,
            "responses": len(replies),
            "labels": sum(subset in {"all", subsets[label.id]} for label in labelled_set.labels),
            "labels_of_tone": sum(subset in {"all", subsets[label.id]} for label in tones),
            "offensive": sum(subset in {"all", subsets[label.id]} and label.label == OFFENSIVE for label in tones),
            "response_length": {tutor: rounded_mean(sizes) for tutor, sizes in sorted(lengths.items())},
        }
    return by_subset


def rounded_mean(values: Sequence[float]) -> float | None:
    """Return the mean, rounded to two digits, or None if there are no values."""
    return round(sum(values) / len(values), 2) if values else None


LABELLED = LabelSource(
    load=mrbench.labelled_set,
    scales=mrbench.SCALES,
    variables=frozenset(mrbench.JUDGE_PROMPT_VARIABLES),
    taxonomy=True,
    statistics=release_statistics,
)
RELEASES = {"mrbench": LABELLED, "mrbench_test": LABELLED._replace(labelled=False, judged_criteria=mrbench.SHARED_TASK)}
