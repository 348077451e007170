"""How good the graders are: reward models and classifiers on the Bridge pairs and on held-out labels.

Every number is a Score whose task names the set of pairs, with an interval over problems.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from maieutic.core.jobs import Sampled
from maieutic.core.records import Labelling, Pair, PairReward, Score, read_records
from maieutic.core.stats import MEAN, Estimate, Sampling, estimate
from maieutic.judges.assignments import pairs_task
from maieutic.rewards.overlap import dialogue_of, seen_dialogues, seen_replies, stands_in
from maieutic.scores.score import score_of, write_scores

TASK = "bridge_pairs"
WITH_TIES = "accuracy_with_ties"
BEST_3 = "best_3"  # the sum of the best three, as a criterion
BEST = 3  # of the ensemble in MathTutorBench, Table 5


def mean_score(
    model: str,
    metric: str,
    values: Sequence[float],
    clusters: Sequence[str],
    sampling: Sampling,
    missing: int = 0,
    headline: bool = False,
    criterion: str | None = None,
) -> Score:
    """The mean of one number a pair (or reply), with its clustered interval."""
    mean = estimate(MEAN, values, clusters, sampling, missing)
    return score_of(mean, TASK, metric, grader=model, criterion=criterion, headline=headline)


def on_pairs(scores: Sequence[Score], source: str) -> list[Score]:
    """Scores on one set of pairs, which their task names."""
    return [row.model_copy(update={"task": pairs_task(source)}) for row in scores]


def margin(reward: PairReward) -> float | None:
    """How far the chosen reply is ahead; None where one of both has no number."""
    return None if reward.chosen is None or reward.rejected is None else float(reward.chosen) - float(reward.rejected)


def side_of(apart: float | None) -> str | None:
    """Which reply a margin prefers, in a judge's words."""
    return None if apart is None else "tie" if apart == 0 else "first" if apart > 0 else "second"


def with_ties(pairs: Mapping[str, Pair], said: Mapping[str, str | bool | None], sampling: Sampling) -> Estimate | None:
    """The share of all pairs of which people and a grader say the same: first (the chosen one), second, or tie.

    Source: acc_eq of Deutsch et al., Ties Matter (2023). None of pairs without a tie. said: by pair; None: unread.
    """
    if not any(pairs[name].tie for name in said):
        return None
    known = {name: value for name, value in said.items() if value is not None}
    right = [float(value == ("tie" if pairs[name].tie else "first")) for name, value in known.items()]
    return estimate(MEAN, right, [pairs[name].problem for name in known], sampling, len(said) - len(known))


def pair_scores(
    model: str, pairs: Sequence[Pair], rewards: Sequence[PairReward], sampling: Sampling, criterion: str | None = None
) -> list[Score]:
    """Pair accuracy (strict: a tie is wrong), margin, ties, and what length alone would say.

    Of pairs of which people prefer one reply; accuracy_with_ties: of all (acc_eq of Deutsch et al., Ties Matter, 2023).
    criterion: of the classifier, or the set of classifiers whose sum it is.
    Source: MathTutorBench, equation 3 (accuracy) and Table 3 (average margin).
    """
    texts = {pair.id: pair for pair in pairs}
    margin_of = {reward.id: margin(reward) for reward in rewards}
    three = with_ties(texts, {name: side_of(apart) for name, apart in margin_of.items()}, sampling)
    rewards = [reward for reward in rewards if not texts[reward.id].tie]
    read = [reward for reward in rewards if reward.chosen is not None and reward.rejected is not None]
    clusters = [reward.problem for reward in read]
    margins = [float(margin_of[reward.id] or 0) for reward in read]
    lengths = [len(texts[reward.id].chosen) - len(texts[reward.id].rejected) for reward in read]

    def score(metric: str, values: Sequence[float], headline: bool = False) -> Score:
        missing = len(rewards) - len(read)
        return mean_score(model, metric, values, clusters, sampling, missing, headline, criterion)

    scores = [
        score("pair_accuracy", [float(margin > 0) for margin in margins], headline=criterion is None),
        score("mean_margin", margins),
        score("ties", [float(margin == 0) for margin in margins]),
    ]
    if criterion is None:
        scores.append(score("longer_reply_accuracy", [float(length > 0) for length in lengths]))
        scores.append(correlation(model, margins, lengths, clusters))
    if three is not None:
        scores.append(score_of(three, TASK, WITH_TIES, grader=model, criterion=criterion))
    return scores


def leak_scores(
    model: str,
    pairs: Sequence[Pair],
    rewards: Sequence[PairReward],
    trained: Sequence[Pair],
    sampling: Sampling,
) -> list[Score]:
    """What of the pairs a reward model has learnt from, by text and by dialogue, and its accuracy on the others.

    leaked_text: a reply of the pair stands in its training pairs, after the same student turn; leaked_dialogue: the
    whole dialogue before it does.
    """
    texts, dialogues = seen_replies(trained), seen_dialogues(trained)
    by_text = {pair.id: stands_in(pair, texts) for pair in pairs}
    by_dialogue = {pair.id: dialogue_of(pair) in dialogues for pair in pairs}
    problems = [pair.problem for pair in pairs]
    scores = [
        mean_score(model, name, [float(found[pair.id]) for pair in pairs], problems, sampling)
        for name, found in (("leaked_text", by_text), ("leaked_dialogue", by_dialogue))
    ]
    ties = {pair.id for pair in pairs if pair.tie}
    clean = [one for one in rewards if not by_text[one.id] and not by_dialogue[one.id] and one.id not in ties]
    margins = [(one.problem, apart) for one in clean if (apart := margin(one)) is not None]
    values, clusters = [float(apart > 0) for _, apart in margins], [problem for problem, _ in margins]
    missing = len(clean) - len(margins)
    return [*scores, mean_score(model, "clean_pair_accuracy", values, clusters, sampling, missing)]


def correlation(model: str, margins: Sequence[float], lengths: Sequence[float], clusters: Sequence[str]) -> Score:
    """Spearman correlation of margin and length difference: what of the verdict length alone explains."""
    from scipy.stats import spearmanr  # a second to import, which those who only name a job need not pay

    varied = len(set(margins)) > 1 and len(set(lengths)) > 1
    value = float(spearmanr(margins, lengths).statistic) if varied else None
    empty = mean_score(model, "length_correlation", [], [], Sampling(0, 0))
    return empty.model_copy(update={"value": value, "n": len(margins), "clusters": len(set(clusters))})


class ValidateRewardModel(Sampled):
    """A reward model that a set of pairs was scored with. source: the set."""

    reward_model: str
    source: str = "bridge"


def validate_reward_model(
    *, job: ValidateRewardModel, pairs: Path, rewards: Path, training: list[Path], out: Path
) -> None:
    """Write the scores of one reward model on a set of pairs, and what of them it has learnt from.

    training: the pairs that it has learnt from, as far as they are here.
    """
    name, sampling = job.reward_model, Sampling(job.resamples, job.seed)
    read, scored = read_records(pairs, Pair), read_records(rewards, PairReward)
    scores = pair_scores(name, read, scored, sampling)
    if training:
        trained = [pair for path in training for pair in read_records(path, Pair)]
        scores += leak_scores(name, read, scored, trained, sampling)
    write_scores(on_pairs(scores, job.source), out)


def verdict(probability: float | None) -> float:
    """A classifier's discrete verdict, C_i(y) of MathTutorBench, section 4.3.1; NaN where it gave no number."""
    return float("nan") if probability is None else float(probability > 0.5)


def ensemble(rewards: Sequence[PairReward], criteria: Sequence[str]) -> list[PairReward]:
    """The sum of the verdicts of some criteria for both replies of every pair; none where one of them has none."""
    by_pair: dict[str, list[PairReward]] = defaultdict(list)
    for reward in rewards:
        if reward.criterion in criteria:
            by_pair[reward.id].append(reward)
    sums = []
    for name, group in by_pair.items():
        chosen, rejected = (sum(verdict(getattr(member, side)) for member in group) for side in ("chosen", "rejected"))
        read = math.isfinite(chosen + rejected)
        sums.append(
            PairReward(
                id=name,
                problem=group[0].problem,
                chosen=chosen if read else None,
                rejected=rejected if read else None,
                why_none=None if read else "a classifier gave no number",
            )
        )
    return sums


def heldout_scores(model: str, labellings: Sequence[Labelling], sampling: Sampling) -> list[Score]:
    """Accuracy of each criterion's classifier on held-out dialogues, and of always saying the more frequent label."""
    scores = []
    by_criterion: dict[str, list[Labelling]] = defaultdict(list)
    for labelling in labellings:
        by_criterion[labelling.criterion].append(labelling)
    for criterion, labelled in by_criterion.items():
        examples = [example for example in labelled if example.probability is not None]
        clusters = [example.dialogue for example in examples]
        most = float(sum(example.label for example in examples) * 2 >= len(examples))
        right: dict[str, Callable[[Labelling], bool]] = {
            "heldout_accuracy": lambda example: verdict(example.probability) == example.label,
            "majority_accuracy": lambda example, most=most: example.label == most,  # type: ignore[misc]
        }
        for metric, check in right.items():
            values = [float(check(example)) for example in examples]
            missing = len(labelled) - len(examples)
            scores.append(mean_score(model, metric, values, clusters, sampling, missing, criterion=criterion))
    return scores


class ValidateCriteria(Sampled):
    """Criteria classifiers that have labelled held-out dialogues and a set of pairs. source: the set."""

    classifier: str
    source: str = "bridge"


def validate_criteria(*, job: ValidateCriteria, pairs: Path, heldout: Path, classified: Path, out: Path) -> None:
    """Write the scores of the criteria classifiers: each one alone, all together, and the best three.

    The paper does not name its best three. Here they are those whose held-out accuracy is farthest above the frequent
    label's, because a rare criterion's classifier alone has a high accuracy. Without held-out dialogues (test_share: 0)
    they are those with the highest accuracy on the test pairs, which favours them on these same pairs.

    heldout: the labels of held-out dialogues; classified: those of both replies of every test pair.
    """
    model, sampling = job.classifier, Sampling(job.resamples, job.seed)
    read, rewards = read_records(pairs, Pair), read_records(classified, PairReward)
    alone = heldout_scores(model, read_records(heldout, Labelling), sampling)
    criteria = list(dict.fromkeys(str(reward.criterion) for reward in rewards))
    single = [
        score
        for criterion in criteria
        for score in pair_scores(model, read, ensemble(rewards, [criterion]), sampling, criterion)
    ]
    values = {(score.metric, score.criterion): score.value or 0.0 for score in (*alone, *single)}
    gain = {
        name: values["heldout_accuracy", name] - values["majority_accuracy", name]
        if alone
        else values.get(("pair_accuracy", name), 0.0)
        for name in criteria
    }
    best = sorted(criteria, key=lambda name: -gain[name])[:BEST]
    scores = pair_scores(model, read, ensemble(rewards, criteria), sampling)
    scores += pair_scores(model, read, ensemble(rewards, best), sampling, BEST_3)
    scores += single
    write_scores([*alone, *on_pairs(scores, job.source)], out)
