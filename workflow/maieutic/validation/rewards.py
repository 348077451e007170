"""Agreement of reward models and classifiers with people, on sets of pairs and on held-out labels; model cards.

Every number is a Score with an interval that is clustered by problem. The score's task names the set of pairs.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from maieutic.core.files import atomic_file
from maieutic.core.jobs import SampledJob
from maieutic.core.records import Labelling, Pair, PairReward, Score, read_records
from maieutic.core.stats import MEAN, BootstrapSettings, Estimate, estimate_statistic
from maieutic.judges.assignments import pairs_task
from maieutic.rewards.overlap import dialogue_of, has_seen_reply, seen_dialogues, seen_replies
from maieutic.scores.score import score_from_estimate, write_scores

HERE = Path(__file__).parent
FINAL_STEPS_SHARE = 0.1  # the card's loss and accuracy are averages over this last share of the training steps


class WriteModelCard(SampledJob):
    """Job for the model card of a reward model that was trained in this run."""

    reward_model: str


def write_model_card(
    *, job: WriteModelCard, training: Path, pairs: Path, rewards: Path, counts: list[Path], out: Path
) -> None:
    """Write the model card, README.md, into the folder of the weights.

    training: the model's training.json; rewards: the model's rewards for the test `pairs`; counts: one file per source
    of training pairs, with the source's counts.
    """
    name, sampling = job.reward_model, BootstrapSettings(job.resamples, job.seed)
    content = json.loads(training.read_text(encoding="utf-8"))
    scores = reward_pair_scores(name, read_records(pairs, Pair), read_records(rewards, PairReward), sampling)
    measured = {score.metric: score for score in scores}
    history = content["history"]
    last = history[-max(1, round(FINAL_STEPS_SHARE * len(history))) :] if history else []
    environment = Environment(
        loader=FileSystemLoader(HERE), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    environment.filters["number"] = lambda value: "none" if value is None else f"{value:.3f}"
    text = environment.get_template("card.md.jinja").render(
        name=name,
        train=content["settings"]["train"],
        prompt=content["settings"]["prompt"],
        longest=content["longest"],
        counts=content["counts"],
        pretraining=content.get("pretraining"),
        shares=content["settings"]["train"].get("pretrain", {}) | content["settings"]["train"]["mix"],
        steps=len(history),
        loss=sum(step["loss"] for step in last) / len(last) if last else None,
        accuracy=sum(step["accuracy"] for step in last) / len(last) if last else None,
        sources=[json.loads(path.read_text(encoding="utf-8")) for path in counts],
        measured=measured,
    )
    with atomic_file(out) as handle:
        handle.write(text)


TASK = "bridge_pairs"
WITH_TIES = "accuracy_with_ties"
BEST_3 = "best_3"  # criterion name for the summed verdicts of the three best classifiers
ENSEMBLE_SIZE = 3  # number of classifiers in the small ensemble of MathTutorBench, Table 5


def mean_score(
    model: str,
    metric: str,
    values: Sequence[float],
    clusters: Sequence[str],
    sampling: BootstrapSettings,
    missing: int = 0,
    headline: bool = False,
    criterion: str | None = None,
) -> Score:
    """Return a score for the mean of one value per pair or reply, with an interval over `clusters`."""
    mean = estimate_statistic(MEAN, values, clusters, sampling, missing)
    return score_from_estimate(mean, TASK, metric, grader=model, criterion=criterion, headline=headline)


def with_pairs_task(scores: Sequence[Score], source: str) -> list[Score]:
    """Return the scores with the task that names a set of pairs. source: name of the set."""
    return [row.model_copy(update={"task": pairs_task(source)}) for row in scores]


def reward_margin(reward: PairReward) -> float | None:
    """Return the chosen reply's reward minus the rejected reply's; None if either reward is missing."""
    return None if reward.chosen is None or reward.rejected is None else float(reward.chosen) - float(reward.rejected)


def preferred_side(apart: float | None) -> str | None:
    """Return a reward margin as a verdict: `first` (the chosen reply), `second` or `tie`; None without a margin."""
    return None if apart is None else "tie" if apart == 0 else "first" if apart > 0 else "second"


def tie_aware_accuracy(
    pairs: Mapping[str, Pair], verdicts: Mapping[str, str | bool | None], sampling: BootstrapSettings
) -> Estimate | None:
    """Return the share of all pairs on which a grader agrees with people; None if people call no pair a tie.

    The grader agrees if it prefers the reply that people chose, or if both call the pair a tie (acc_eq of Deutsch et
    al., Ties Matter, 2023). verdicts: verdict by pair, `first` for the chosen reply, None if it cannot be parsed.
    """
    if not any(pairs[name].tie for name in verdicts):
        return None
    known = {name: value for name, value in verdicts.items() if value is not None}
    right = [float(value == ("tie" if pairs[name].tie else "first")) for name, value in known.items()]
    return estimate_statistic(
        MEAN, right, [pairs[name].problem for name in known], sampling, len(verdicts) - len(known)
    )


def reward_pair_scores(
    model: str,
    pairs: Sequence[Pair],
    rewards: Sequence[PairReward],
    sampling: BootstrapSettings,
    criterion: str | None = None,
) -> list[Score]:
    """Return pair accuracy, mean margin, share of ties, and the accuracy of preferring the longer reply.

    Equal rewards count as wrong. Pairs that people call a tie are excluded, except from accuracy_with_ties (acc_eq of
    Deutsch et al., Ties Matter, 2023). criterion: criterion of one classifier, or name of a sum of classifiers; None
    for a reward model. Source: MathTutorBench, equation 3 (accuracy) and Table 3 (average margin).
    """
    texts = {pair.id: pair for pair in pairs}
    margin_of = {reward.id: reward_margin(reward) for reward in rewards}
    with_tie = tie_aware_accuracy(texts, {name: preferred_side(apart) for name, apart in margin_of.items()}, sampling)
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
        scores.append(length_correlation_score(model, margins, lengths, clusters))
    if with_tie is not None:
        scores.append(score_from_estimate(with_tie, TASK, WITH_TIES, grader=model, criterion=criterion))
    return scores


def leak_scores(
    model: str,
    pairs: Sequence[Pair],
    rewards: Sequence[PairReward],
    trained: Sequence[Pair],
    sampling: BootstrapSettings,
) -> list[Score]:
    """Return the shares of test pairs that a model's training pairs contain, and the model's accuracy on all others.

    leaked_text: share of test pairs with a reply that follows the same student turn in a training pair;
    leaked_dialogue: share of test pairs with the same whole dialogue before the replies as a training pair. trained:
    the training pairs.
    """
    texts, dialogues = seen_replies(trained), seen_dialogues(trained)
    by_text = {pair.id: has_seen_reply(pair, texts) for pair in pairs}
    by_dialogue = {pair.id: dialogue_of(pair) in dialogues for pair in pairs}
    problems = [pair.problem for pair in pairs]
    scores = [
        mean_score(model, name, [float(leaked[pair.id]) for pair in pairs], problems, sampling)
        for name, leaked in (("leaked_text", by_text), ("leaked_dialogue", by_dialogue))
    ]
    ties = {pair.id for pair in pairs if pair.tie}
    clean = [
        reward for reward in rewards if not by_text[reward.id] and not by_dialogue[reward.id] and reward.id not in ties
    ]
    margins = [(reward.problem, apart) for reward in clean if (apart := reward_margin(reward)) is not None]
    values, clusters = [float(apart > 0) for _, apart in margins], [problem for problem, _ in margins]
    missing = len(clean) - len(margins)
    return [*scores, mean_score(model, "clean_pair_accuracy", values, clusters, sampling, missing)]


def length_correlation_score(
    model: str, margins: Sequence[float], lengths: Sequence[float], clusters: Sequence[str]
) -> Score:
    """Return Spearman's correlation of the reward margin with the difference in length between the two replies."""
    from scipy.stats import spearmanr  # imported here, since the import takes a second

    varied = len(set(margins)) > 1 and len(set(lengths)) > 1
    value = float(spearmanr(margins, lengths).statistic) if varied else None
    empty = mean_score(model, "length_correlation", [], [], BootstrapSettings(0, 0))
    return empty.model_copy(update={"value": value, "n": len(margins), "clusters": len(set(clusters))})


class ValidateRewardModel(SampledJob):
    """Job that validates a reward model on a set of pairs. source: name of the set."""

    reward_model: str
    source: str = "bridge"


def validate_reward_model(
    *, job: ValidateRewardModel, pairs: Path, rewards: Path, training: list[Path], out: Path
) -> None:
    """Write a reward model's scores on a set of pairs, and the share of these pairs that are in its training pairs.

    training: files of the pairs that the model was trained on, if they are available.
    """
    name, sampling = job.reward_model, BootstrapSettings(job.resamples, job.seed)
    read, scored = read_records(pairs, Pair), read_records(rewards, PairReward)
    scores = reward_pair_scores(name, read, scored, sampling)
    if training:
        trained = [pair for path in training for pair in read_records(path, Pair)]
        scores += leak_scores(name, read, scored, trained, sampling)
    write_scores(with_pairs_task(scores, job.source), out)


def discrete_verdict(probability: float | None) -> float:
    """Return a classifier's verdict, 1 or 0 (C_i(y) in MathTutorBench, section 4.3.1); NaN without a probability."""
    return float("nan") if probability is None else float(probability > 0.5)


def sum_criteria(rewards: Sequence[PairReward], criteria: Sequence[str]) -> list[PairReward]:
    """Return the sum of the verdicts under `criteria` for both replies of every pair; None if a verdict is missing."""
    by_pair: dict[str, list[PairReward]] = defaultdict(list)
    for reward in rewards:
        if reward.criterion in criteria:
            by_pair[reward.id].append(reward)
    sums = []
    for name, group in by_pair.items():
        chosen, rejected = (
            sum(discrete_verdict(getattr(member, side)) for member in group) for side in ("chosen", "rejected")
        )
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


def classifier_heldout_scores(model: str, labellings: Sequence[Labelling], sampling: BootstrapSettings) -> list[Score]:
    """Return each classifier's accuracy on held-out dialogues, and the accuracy of predicting the most common label."""
    scores = []
    by_criterion: dict[str, list[Labelling]] = defaultdict(list)
    for labelling in labellings:
        by_criterion[labelling.criterion].append(labelling)
    for criterion, labelled in by_criterion.items():
        examples = [example for example in labelled if example.probability is not None]
        clusters = [example.dialogue for example in examples]
        most = float(sum(example.label for example in examples) * 2 >= len(examples))
        right: dict[str, Callable[[Labelling], bool]] = {
            "heldout_accuracy": lambda example: discrete_verdict(example.probability) == example.label,
            "majority_accuracy": lambda example, most=most: example.label == most,  # type: ignore[misc]
        }
        for metric, check in right.items():
            values = [float(check(example)) for example in examples]
            missing = len(labelled) - len(examples)
            scores.append(mean_score(model, metric, values, clusters, sampling, missing, criterion=criterion))
    return scores


class ValidateCriteria(SampledJob):
    """Job that validates criteria classifiers on held-out dialogues and on a set of pairs. source: name of the set."""

    classifier: str
    source: str = "bridge"


def validate_criteria(*, job: ValidateCriteria, pairs: Path, heldout: Path, classified: Path, out: Path) -> None:
    """Write the scores of the criteria classifiers: each one alone, the sum of all, and the sum of the best three.

    The paper does not name its best three classifiers. Here, a classifier's held-out accuracy is compared with that of
    always predicting the most common label, and the three with the largest gain are the best: for a rare criterion,
    even a useless classifier has a high accuracy. Without held-out dialogues (test_share: 0), the best three have the
    highest accuracy on the test pairs, which makes their sum look better on the same pairs.

    heldout: predictions on held-out dialogues; classified: predictions on both replies of every test pair.
    """
    model, sampling = job.classifier, BootstrapSettings(job.resamples, job.seed)
    read, rewards = read_records(pairs, Pair), read_records(classified, PairReward)
    alone = classifier_heldout_scores(model, read_records(heldout, Labelling), sampling)
    criteria = list(dict.fromkeys(str(reward.criterion) for reward in rewards))
    single = [
        score
        for criterion in criteria
        for score in reward_pair_scores(model, read, sum_criteria(rewards, [criterion]), sampling, criterion)
    ]
    values = {(score.metric, score.criterion): score.value or 0.0 for score in (*alone, *single)}
    gain = {
        name: values["heldout_accuracy", name] - values["majority_accuracy", name]
        if alone
        else values.get(("pair_accuracy", name), 0.0)
        for name in criteria
    }
    best = sorted(criteria, key=lambda name: -gain[name])[:ENSEMBLE_SIZE]
    scores = reward_pair_scores(model, read, sum_criteria(rewards, criteria), sampling)
    scores += reward_pair_scores(model, read, sum_criteria(rewards, best), sampling, BEST_3)
    scores += single
    write_scores([*alone, *with_pairs_task(scores, job.source)], out)
