"""Jobs that compare judges, reward models and classifiers with people, or that score the labels themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from maieutic.config.rubrics import annotation_scales, read_rubric
from maieutic.core.errors import UserError, raise_all
from maieutic.core.files import write_json
from maieutic.core.jobs import Job, SampledJob
from maieutic.core.records import (
    Closeness,
    Difference,
    Judgement,
    Label,
    Labelling,
    Pair,
    Reward,
    Score,
    read_records,
    without_copies,
    write_records,
)
from maieutic.core.stats import BootstrapSettings
from maieutic.datasets.labelled_sets import LabelledData, read_labelled_data
from maieutic.judges.assignments import pairs_task
from maieutic.people.labels import ReadsHumanLabels, resolved_labels
from maieutic.people.reliability import corrected_labels, read_reliability
from maieutic.rewards.criteria import binary_label
from maieutic.scores.score import write_scores
from maieutic.validation.agreement import Pairing
from maieutic.validation.corrected_rates import (
    annotator_scores,
    corrected_differences,
    corrected_rates,
    labels_of_half,
    people_scores,
    sampling_designs,
)
from maieutic.validation.grader_baselines import floor_verdicts
from maieutic.validation.pairs import judge_pair_scores
from maieutic.validation.rewards import with_pairs_task
from maieutic.validation.surface_measures import mean_labels, measure_scores
from maieutic.validation.trust import (
    PEOPLE,
    LabelsByReply,
    agreement_scores,
    correlations_by_tutor,
    desired_match_rates,
    estimate_rank_correlation,
    leniency_scores,
    pairings_of,
    panel_gain,
    rank_correlation,
    score_without_interval,
    trust_score,
    verdict_labels,
    with_task_in_id,
)


def reply_lengths(labels: LabelledData) -> dict[tuple[str, str], int]:
    """Return the length of every labelled reply in characters, by item and tutor."""
    return {(reply.id, reply.tutor): len(reply.text) for reply in labels.replies}


def with_release(scores: list[Score], release: str) -> list[Score]:
    """Return the scores with the column `release` set."""
    return [row.model_copy(update={"release": release}) for row in scores]


class ScoreLabels(SampledJob):
    """Job that scores a labelled release. encoders: names of the encoders that embedded its replies."""

    release: str
    encoders: list[str] = []


def score_labels(*, job: ScoreLabels, labels: list[Path], embedded: list[Path], out: Path) -> None:
    """Write the scores of a labelled release that need no grader.

    They are the DAMR and mean label of every tutor by people's labels, inter-annotator agreement, and the correlations
    of surface measures and closeness with the labels. MRBench reports the DAMR in its Tables 3, 8 and 9.

    labels: files of the release, in its folder; embedded: one file of closeness values per encoder of the job.
    """
    folder = labels[0].parent
    labelled_set, annotations = read_labelled_data(folder), read_records(folder / "annotations.jsonl", Label)
    sampling = BootstrapSettings(job.resamples, job.seed)
    scores = desired_match_rates(PEOPLE, labelled_set, None, sampling)
    close = {}
    for name, path in zip(job.encoders, embedded, strict=True):
        read = read_records(path, Closeness)
        close[f"{name}, last turn"] = {(closeness.id, closeness.tutor): closeness.last_turn for closeness in read}
        close[f"{name}, dialogue"] = {(closeness.id, closeness.tutor): closeness.dialogue for closeness in read}
    scores += [*measure_scores(labelled_set, sampling, close), *mean_labels(None, labelled_set, None, sampling)]
    scores += annotator_scores(None, [label for label in annotations if not label.resolves], labelled_set.scales)
    write_scores(with_release(scores, job.release), out)


def label_scores(
    judge: str, source: str, labels: LabelledData, verdicts: LabelsByReply, sampling: BootstrapSettings
) -> list[Score]:
    """Return the agreement of a judge with people on one labelled set, and that of grader baselines on the replies.

    If a criterion has a desired label, the scores include each tutor's rates by the judge and by people, and the rates
    corrected with half of the labels. source: name of the set.
    """
    pairings = pairings_of(labels.labels, verdicts, reply_lengths(labels), labels.scales)
    scores = agreement_scores(judge, pairings, labels.scales, sampling)
    scores += floor_agreement(judge, labels, verdicts, sampling)
    if not any(scale.desired for scale in labels.scales.values()):
        return with_release(scores, source)
    scores += leniency_scores(judge, labels, verdicts, sampling)
    scores += desired_match_rates(judge, labels, verdicts, sampling)
    scores += mean_labels(judge, labels, verdicts, sampling)
    scores += correlations_by_tutor(judge, labels, verdicts)
    half = labels_of_half(labels, verdicts, sampling.seed)
    scores += corrected_rates(judge, half, verdicts, "ppi_half", labels.scales, sampling)
    seen = labels._replace(
        labels=[label for label in labels.labels if (label.id, label.tutor, label.criterion) in verdicts]
    )
    truth = desired_match_rates(judge, seen, None, BootstrapSettings(100, sampling.seed))
    scores += [row.model_copy(update={"metric": "people_damr", "by": judge}) for row in truth]
    return with_release(scores, source)


def floor_agreement(
    grader: str, labels: LabelledData, verdicts: LabelsByReply, sampling: BootstrapSettings
) -> list[Score]:
    """Return the agreement of grader baselines with people, on the replies that `grader` was asked about."""
    scores = []
    for name, predictions in floor_verdicts(labels, sampling.seed).items():
        subset = {key: predictions[key] for key in verdicts if key in predictions}
        pairings = pairings_of(labels.labels, subset, reply_lengths(labels), labels.scales)
        scores += agreement_scores(name, pairings, labels.scales, sampling, by=grader)
    return scores


class ValidateJudge(SampledJob):
    """Job that validates a judge on labelled replies and pairs.

    sources: sets of pairs, starting with the set that decides the traffic lights for pairs; judges: members of a panel,
    empty for other judges.
    """

    judge: str
    sources: list[str] = ["bridge"]
    judges: list[str] = []


def validate_judge(
    *,
    job: ValidateJudge,
    verdicts: Path,
    single: list[Path],
    labels: list[Path],
    pairs: list[Path],
    out: Path,
    pairs_out: list[Path],
) -> None:
    """Write a judge's scores on every labelled release, and on each set of pairs under each of its rubrics.

    single: one file of verdicts per member of a panel, in the order of `job.judges`; labels: files of labelled
    releases, each in the folder of its release; pairs: one file per set of pairs, empty for a judge that compares no
    pairs; pairs_out: one file of scores per set of pairs.
    """
    judge, judgements = job.judge, read_records(verdicts, Judgement)
    alone = {name: read_records(path, Judgement) for name, path in zip(job.judges, single, strict=True)}
    sampling = BootstrapSettings(job.resamples, job.seed)
    scores: list[Score] = []
    for folder in dict.fromkeys(path.parent for path in labels):
        on_labels = [judgement for judgement in judgements if judgement.task == folder.name]
        if on_labels:
            release, answers = read_labelled_data(folder), verdict_labels(on_labels)
            scores += label_scores(judge, folder.name, release, answers, sampling)
            on_same = {
                name: verdict_labels(judgement for judgement in member if judgement.task == folder.name)
                for name, member in alone.items()
            }
            scores += with_release(panel_gain(judge, answers, on_same, release), folder.name)
    write_scores([*scores, *cost_scores(judge, judgements)], out)
    files = dict(zip(job.sources, pairs, strict=False))
    for place, pairs_file in enumerate(pairs_out):
        source = job.sources[place] if place < len(job.sources) else ""
        rows: list[Score] = []
        compared = [judgement for judgement in judgements if judgement.task == pairs_task(source)]
        read = read_records(files[source], Pair) if source in files else []
        for number, rubric in enumerate(dict.fromkeys(judgement.rubric for judgement in compared)):
            rows += judge_pair_scores(judge, read, compared, rubric, sampling, headline=number == 0)
        write_scores(with_pairs_task(rows, source), pairs_file)


def cost_scores(judge: str, judgements: Sequence[Judgement]) -> list[Score]:
    """Return the cost of judging (questions, tokens, seconds of all requests) and the share of missing verdicts."""
    totals = {
        "questions": len(judgements),
        "prompt_tokens": sum(judgement.prompt_tokens or 0 for judgement in judgements),
        "completion_tokens": sum(judgement.completion_tokens or 0 for judgement in judgements),
        "request_seconds": sum(judgement.seconds or 0.0 for judgement in judgements),
    }
    scores = [score_without_interval(judge, name, float(value), len(judgements), 0) for name, value in totals.items()]
    verdicts = [verdict for judgement in judgements for verdict in judgement.verdicts]
    unread = sum(verdict.value is None for verdict in verdicts)
    return [
        *scores,
        score_without_interval(judge, "unreadable", unread / len(verdicts) if verdicts else None, len(verdicts), 0),
    ]


class ValidateRewardOnLabels(SampledJob):
    """Job that validates a reward model on a labelled release. seen: True if the model was trained on its labels."""

    reward_model: str
    release: str
    seen: bool


def validate_reward_on_labels(*, job: ValidateRewardOnLabels, labels: list[Path], rewards: Path, out: Path) -> None:
    """Write the association of a reward model's rewards with people's labels.

    desired_correlation: Spearman's correlation of a reply's reward with its number of desired labels; auc: area under
    the ROC curve if the reward predicts the desired label of a criterion; seen_in_training: 1 if the model was trained
    on these labels.

    labels: files of the release, in its folder.
    """
    reward, release = job.reward_model, read_labelled_data(labels[0].parent)
    scores = {(record.id, record.tutor): record.score for record in read_records(rewards, Reward)}
    sampling = BootstrapSettings(job.resamples, job.seed)
    desired: dict[tuple[str, str], list[bool]] = {}
    problems: dict[tuple[str, str], str] = {}
    for label in release.labels:
        key = label.id, label.tutor
        desired.setdefault(key, []).append(label.label == release.scales[label.criterion].desired)
        problems[key] = label.problem
    read = [key for key in desired if scores.get(key) is not None]
    values = [float(scores[key] or 0.0) for key in read]
    lengths = reply_lengths(release)
    counts = [sum(desired[key]) for key in read]
    rows = [
        correlation_score(reward, values, counts, [problems[key] for key in read], sampling),
        score_without_interval(
            reward, "length_correlation", rank_correlation(values, [lengths[key] for key in read]), len(read), 0
        ),
        score_without_interval(reward, "unreadable", 1 - len(read) / len(desired), len(desired), 0),
        score_without_interval(reward, "seen_in_training", float(job.seen), len(desired), 0),
    ]
    from sklearn.metrics import roc_auc_score  # imported here, since the import takes a second

    for criterion, scale in release.scales.items():
        marks = [
            (scores.get((label.id, label.tutor)), label.label == scale.desired)
            for label in release.labels
            if label.criterion == criterion
        ]
        known = [(value, mark) for value, mark in marks if value is not None]
        both = len({mark for _, mark in known}) == 2
        auc = float(roc_auc_score([mark for _, mark in known], [value for value, _ in known])) if both else None
        if marks:
            rows.append(
                score_without_interval(reward, "auc", auc, len(known), len(marks) - len(known), criterion=criterion)
            )
    write_scores(with_release(rows, job.release), out)


def correlation_score(
    model: str, values: Sequence[float], counts: Sequence[int], problems: Sequence[str], sampling: BootstrapSettings
) -> Score:
    """Return a score for Spearman's correlation of rewards with numbers of desired labels.

    values: rewards of the replies. counts: numbers of their desired labels.
    """
    return trust_score(model, "desired_correlation", estimate_rank_correlation(values, counts, problems, sampling))


class ValidateCriteriaOnLabels(SampledJob):
    """Job that validates criteria classifiers on held-out replies of a labelled release."""

    classifier: str
    release: str


def validate_criteria_on_labels(*, job: ValidateCriteriaOnLabels, labels: list[Path], heldout: Path, out: Path) -> None:
    """Write the agreement of classifiers with people on held-out replies. All labels are made binary.

    labels: files of the release, in its folder.
    """
    classifier, release, sampling = (
        job.classifier,
        read_labelled_data(labels[0].parent),
        BootstrapSettings(job.resamples, job.seed),
    )
    lengths = {f"{item}-{tutor}": length for (item, tutor), length in reply_lengths(release).items()}
    labellings = read_records(heldout, Labelling)

    def compared(answers: Mapping[tuple[str, str], int | None]) -> dict[str, list[Pairing]]:
        pairings: dict[str, list[Pairing]] = {}
        for labelling in labellings:
            pairing = Pairing(
                1 - labelling.label,
                answers.get((labelling.id, labelling.criterion)),
                labelling.dialogue,
                lengths.get(labelling.id, 0),
            )
            pairings.setdefault(labelling.criterion, []).append(pairing)
        return pairings

    predictions = {
        (labelling.id, labelling.criterion): None
        if labelling.probability is None
        else int(labelling.probability <= 0.5)
        for labelling in labellings
    }
    scores = agreement_scores(classifier, compared(predictions), None, sampling)
    for floor, verdicts in floor_verdicts(release, job.seed).items():
        codes = {
            (f"{item}-{tutor}", criterion): None if label is None else 1 - binary_label(criterion, label)
            for (item, tutor, criterion), label in verdicts.items()
        }
        scores += agreement_scores(floor, compared(codes), None, sampling, by=classifier)
    write_scores(with_release(scores, job.release), out)


class SaveLabels(ReadsHumanLabels):
    """Job that reads people's labels of this run's replies."""


def save_labels(*, job: SaveLabels, people: Path, out: Path) -> None:
    """Write people's labels of this run's replies as records, with numbers in place of the annotators' names.

    people: CSV of the labels (`run.human_labels`).
    """
    labels = job.labels_in(people)
    names = dict.fromkeys(label.annotator for label in labels if label.annotator)
    numbers = {name: f"annotator {number}" for number, name in enumerate(names, 1)}
    write_records(out, [label.model_copy(update={"annotator": numbers.get(str(label.annotator))}) for label in labels])


class CorrectByPeople(ReadsHumanLabels):
    """Job that corrects a judge's rates on this run's replies. tasks: tasks that the judge judges, by rubric."""

    judge: str
    tasks: dict[str, list[str]]


def correct_by_people(
    *, job: CorrectByPeople, verdicts: list[Path], people: Path, out: Path, differences: Path
) -> None:
    """Write a judge's rates on this run's replies, corrected with people's labels of them.

    people: CSV of people's labels (`run.human_labels`); differences: file of the differences of corrected rates between
    any two tutors. Raises UserError if people labelled replies that the judge has not judged, and names each label.
    """
    lines = job.lines_in(people)
    read = without_copies(judgement for path in verdicts for judgement in read_records(path, Judgement))
    known = {(judgement.task, judgement.id, judgement.tutor) for judgement in read}
    judged = {task for task, _, _ in known}
    # Labels of comparisons are included: the replies that they compare are checked nowhere else.
    strange = [
        UserError(
            place,
            f"this run has no judged reply of {label.tutor} to {label.task}/{label.id}",
            "use item ids and tutor names that occur in results/replies",
        )
        for place, label in lines
        if label.task in judged and (label.task, label.id, label.tutor) not in known
    ]
    raise_all(strange)
    labels = [label for _, label in lines]
    reliability = read_reliability(people)
    sampling = BootstrapSettings(job.resamples, job.seed)
    scores: list[Score] = []
    all_differences: list[Difference] = []
    for rubric, tasks in job.tasks.items():
        scales = annotation_scales(read_rubric(rubric).rubric)
        # The task is part of the id, since two tasks may have items with the same id.
        rubric_labels = [
            label.model_copy(update={"id": f"{label.task}/{label.id}"})
            for label in labels
            if label.criterion in scales and label.task in tasks
        ]
        if not rubric_labels:
            continue
        # A rate covers the tasks in which people labelled the tutor: replies to other tasks are not part of the sample.
        sampled = {(label.task, label.tutor) for label in labels if label.criterion in scales and label.task in tasks}
        answers = verdict_labels(
            with_task_in_id(judgement)
            for judgement in read
            if judgement.rubric == rubric and (judgement.task, judgement.tutor) in sampled
        )
        errors = corrected_labels(rubric_labels, scales, reliability)
        rubric_scores = people_scores(job.judge, rubric_labels, answers, scales, sampling, errors)
        labelled = {(vote.id, vote.tutor, vote.criterion): label for vote, label in resolved_labels(rubric_labels)}
        designs = sampling_designs(rubric_labels)
        all_differences += corrected_differences(job.judge, labelled, answers, scales, designs, errors)
        # A score over all criteria has the rubric's name as its criterion.
        scores += [row if row.criterion else row.model_copy(update={"criterion": rubric}) for row in rubric_scores]
    write_scores(scores, out)
    write_json(differences, [difference.model_dump(mode="json") for difference in all_differences])


class CheckJudges(Job):
    """Job that checks the judges' shares of unparsed verdicts. limits: maximum share for each judge."""

    judges: list[str]
    limits: dict[str, float]


def check_judges(*, job: CheckJudges, verdicts: list[Path], out: Path) -> None:
    """Write each judge's share of verdicts that cannot be parsed. Raises UserError if any exceeds its limit.

    verdicts: one file for each entry of `job.judges`, which may list a judge several times.
    """
    shares, limits = {}, job.limits
    files: dict[str, list[Path]] = defaultdict(list)
    for judge, path in zip(job.judges, verdicts, strict=True):
        files[judge].append(path)
    for judge, paths in files.items():
        all_verdicts = [
            verdict for path in paths for judgement in read_records(path, Judgement) for verdict in judgement.verdicts
        ]
        unread = sum(verdict.value is None for verdict in all_verdicts)
        shares[judge] = {
            "verdicts": len(all_verdicts),
            "unreadable": unread,
            "share": unread / max(1, len(all_verdicts)),
        }
    above = {judge: tally for judge, tally in shares.items() if tally["share"] > limits[judge]}
    if above:
        details = ", ".join(
            f"{judge} ({tally['unreadable']} of {tally['verdicts']}, {limits[judge]:.1%} allowed)"
            for judge, tally in above.items()
        )
        raise UserError(
            "run.max_unreadable",
            f"too many verdicts cannot be parsed: {details}",
            "see the reasons on the report's trust page; ask these again (`maieutic forget --missing unparsed`), "
            "change the rubric or the judge, or raise run.max_unreadable",
        )
    write_json(out, shares)
