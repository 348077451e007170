"""Graders against people, file by file: judges, reward models, classifiers; and the labels' own tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from maieutic.core.errors import UserError
from maieutic.core.files import write_json
from maieutic.core.jobs import Job, Sampled
from maieutic.core.records import Closeness, Difference, Judgement, Label, Labelling, Pair, Reward, Score, read_records
from maieutic.core.stats import Sampling
from maieutic.judges.assignments import pairs_task
from maieutic.judges.labels import Labels, read_labels
from maieutic.judges.rubrics import read_rubric, scales_of
from maieutic.people.labels import ReadsPeople, majority
from maieutic.rewards.criteria import binary
from maieutic.scores.score import write_scores
from maieutic.validation.agreement import Pairing
from maieutic.validation.carry_over import left_out
from maieutic.validation.floors import floor_verdicts
from maieutic.validation.measures import mean_labels, measure_scores
from maieutic.validation.pairs import pair_scores
from maieutic.validation.people import (
    annotator_scores,
    corrected_differences,
    corrected_rates,
    designs_of,
    half_of,
    people_scores,
)
from maieutic.validation.rewards import on_pairs
from maieutic.validation.trust import (
    PEOPLE,
    Said,
    agreement_scores,
    correlations_by_tutor,
    leniency_scores,
    match_rates,
    of_its_task,
    pairings_of,
    panel_gain,
    plain,
    rank_correlation,
    ranked_correlation,
    said_by,
    score,
)


def lengths_of(labels: Labels) -> dict[tuple[str, str], int]:
    """The length of every labelled reply in characters, by item and tutor."""
    return {(reply.id, reply.tutor): len(reply.text) for reply in labels.replies}


def on_release(scores: list[Score], release: str) -> list[Score]:
    """Scores on one labelled release, which their column names."""
    return [row.model_copy(update={"release": release}) for row in scores]


class ScoreLabels(Sampled):
    """A labelled release. encoders: by their names, those by which closeness was measured."""

    release: str
    encoders: list[str] = []


def score_labels(*, job: ScoreLabels, labels: list[Path], embedded: list[Path], out: Path) -> None:
    """Write the DAMR and mean label of every labelled tutor by the labels of people, how far annotators agree with each
    other, and what can be counted of a reply has to do with its labels.

    Of MRBench DAMR is what its Tables 3, 8 and 9 print. labels: the files of the set, in its folder; embedded: a file
    of each of the job's encoders.
    """
    folder = labels[0].parent
    made, given = read_labels(folder), read_records(folder / "annotations.jsonl", Label)
    sampling = Sampling(job.resamples, job.seed)
    scores = match_rates(PEOPLE, made, None, sampling)
    close = {}
    for name, path in zip(job.encoders, embedded, strict=True):
        read = read_records(path, Closeness)
        close[f"{name}, last turn"] = {(one.id, one.tutor): one.last_turn for one in read}
        close[f"{name}, dialogue"] = {(one.id, one.tutor): one.dialogue for one in read}
    scores += [*measure_scores(made, sampling, close), *mean_labels(None, made, None, sampling)]
    scores += annotator_scores(None, [label for label in given if not label.resolves], made.scales)
    write_scores(on_release(scores, job.release), out)


def label_scores(judge: str, source: str, labels: Labels, verdicts: Said, sampling: Sampling) -> list[Score]:
    """A judge on one labelled set: its agreement with people, and that of the floors on the same replies.

    Of criteria with a desired label also each tutor's rate by the judge and by people, and what half of the labels
    would mend.
    """
    pairings = pairings_of(labels.labels, verdicts, lengths_of(labels), labels.scales)
    scores = agreement_scores(judge, pairings, labels.scales, sampling)
    scores += floor_agreement(judge, labels, verdicts, sampling)
    if not any(scale.desired for scale in labels.scales.values()):
        return on_release(scores, source)
    scores += leniency_scores(judge, labels, verdicts, sampling)
    scores += match_rates(judge, labels, verdicts, sampling)
    scores += mean_labels(judge, labels, verdicts, sampling)
    scores += correlations_by_tutor(judge, labels, verdicts)
    half = half_of(labels, verdicts, sampling.seed)
    scores += corrected_rates(judge, half, verdicts, "ppi_half", labels.scales, sampling)
    seen = labels._replace(
        labels=[label for label in labels.labels if (label.id, label.tutor, label.criterion) in verdicts]
    )
    scores += left_out(judge, seen, verdicts)
    truth = match_rates(judge, seen, None, Sampling(100, sampling.seed))
    scores += [row.model_copy(update={"metric": "people_damr", "by": judge}) for row in truth]
    return on_release(scores, source)


def floor_agreement(grader: str, labels: Labels, verdicts: Said, sampling: Sampling) -> list[Score]:
    """How far the floors of a grader agree with people on the replies that the grader was asked about."""
    scores = []
    for name, predictions in floor_verdicts(labels, sampling.seed).items():
        subset = {key: predictions[key] for key in verdicts if key in predictions}
        pairings = pairings_of(labels.labels, subset, lengths_of(labels), labels.scales)
        scores += agreement_scores(name, pairings, labels.scales, sampling, by=grader)
    return scores


class ValidateJudge(Sampled):
    """A judge that was asked about labelled replies and pairs.

    sources: the sets of pairs, the leading one first; judges: those that a panel is made of.
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
    """Write what a judge is worth on every labelled release, and on each set of pairs under each of its rubrics.

    single: the verdicts of each judge of a panel, in the job's order; labels: files of labelled releases, each in the
    folder of its release; pairs: a file of each of the job's sets, or none for a judge that compares none; pairs_out:
    the scores on each set.
    """
    judge, judgements = job.judge, read_records(verdicts, Judgement)
    alone = {name: read_records(path, Judgement) for name, path in zip(job.judges, single, strict=True)}
    sampling = Sampling(job.resamples, job.seed)
    scores: list[Score] = []
    for folder in dict.fromkeys(path.parent for path in labels):
        on_labels = [judgement for judgement in judgements if judgement.task == folder.name]
        if on_labels:
            release, said = read_labels(folder), said_by(on_labels)
            scores += label_scores(judge, folder.name, release, said, sampling)
            on_same = {name: said_by(one for one in given if one.task == folder.name) for name, given in alone.items()}
            scores += on_release(panel_gain(judge, said, on_same, release), folder.name)
    write_scores([*scores, *cost_scores(judge, judgements)], out)
    files = dict(zip(job.sources, pairs, strict=False))
    for place, own_out in enumerate(pairs_out):
        source = job.sources[place] if place < len(job.sources) else ""
        rows: list[Score] = []
        compared = [judgement for judgement in judgements if judgement.task == pairs_task(source)]
        read = read_records(files[source], Pair) if source in files else []
        for number, rubric in enumerate(dict.fromkeys(judgement.rubric for judgement in compared)):
            rows += pair_scores(judge, read, compared, rubric, sampling, headline=number == 0)
        write_scores(on_pairs(rows, source), own_out)


def cost_scores(judge: str, judgements: Sequence[Judgement]) -> list[Score]:
    """What judging took: questions, tokens, summed seconds of requests."""
    totals = {
        "questions": len(judgements),
        "prompt_tokens": sum(judgement.prompt_tokens or 0 for judgement in judgements),
        "completion_tokens": sum(judgement.completion_tokens or 0 for judgement in judgements),
        "request_seconds": sum(judgement.seconds or 0.0 for judgement in judgements),
    }
    scores = [plain(judge, name, float(value), len(judgements), 0) for name, value in totals.items()]
    verdicts = [verdict for judgement in judgements for verdict in judgement.verdicts]
    unread = sum(verdict.value is None for verdict in verdicts)
    return [*scores, plain(judge, "unreadable", unread / len(verdicts) if verdicts else None, len(verdicts), 0)]


class ValidateRewardOnLabels(Sampled):
    """A reward model that labelled replies were scored with. seen: whether it has learnt from these labels."""

    reward_model: str
    release: str
    seen: bool


def validate_reward_on_labels(*, job: ValidateRewardOnLabels, labels: list[Path], rewards: Path, out: Path) -> None:
    """Write what a reward model's scalars have to do with people's labels.

    desired_correlation: Spearman with the number of desired labels; auc: how well the scalar tells replies with the
    desired label of a criterion from the others; seen_in_training: whether it has learnt from these labels.

    labels: the files of the release, in its folder.
    """
    reward, release = job.reward_model, read_labels(labels[0].parent)
    scores = {(record.id, record.tutor): record.score for record in read_records(rewards, Reward)}
    sampling = Sampling(job.resamples, job.seed)
    desired: dict[tuple[str, str], list[bool]] = {}
    problems: dict[tuple[str, str], str] = {}
    for label in release.labels:
        key = label.id, label.tutor
        desired.setdefault(key, []).append(label.label == release.scales[label.criterion].desired)
        problems[key] = label.problem
    read = [key for key in desired if scores.get(key) is not None]
    values = [float(scores[key] or 0.0) for key in read]
    lengths = lengths_of(release)
    counts = [sum(desired[key]) for key in read]
    rows = [
        correlation_score(reward, values, counts, [problems[key] for key in read], sampling),
        plain(reward, "length_correlation", rank_correlation(values, [lengths[key] for key in read]), len(read), 0),
        plain(reward, "unreadable", 1 - len(read) / len(desired), len(desired), 0),
        plain(reward, "seen_in_training", float(job.seen), len(desired), 0),
    ]
    from sklearn.metrics import roc_auc_score  # a second to import, which those who only name a job need not pay

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
            rows.append(plain(reward, "auc", auc, len(known), len(marks) - len(known), criterion=criterion))
    write_scores(on_release(rows, job.release), out)


def correlation_score(
    model: str, values: Sequence[float], counts: Sequence[int], problems: Sequence[str], sampling: Sampling
) -> Score:
    """Spearman's correlation of scalars with counts of desired labels. Its interval is that of the ranks' Pearson."""
    return score(model, "desired_correlation", ranked_correlation(values, counts, problems, sampling))


class ValidateCriteriaOnLabels(Sampled):
    """Criteria classifiers that have labelled held-out replies of a release."""

    classifier: str
    release: str


def validate_criteria_on_labels(*, job: ValidateCriteriaOnLabels, labels: list[Path], heldout: Path, out: Path) -> None:
    """Write how far classifiers agree with people on the replies that were held out, binary labels on both sides.

    labels: the files of the release, in its folder.
    """
    classifier, release, sampling = job.classifier, read_labels(labels[0].parent), Sampling(job.resamples, job.seed)
    lengths = {f"{item}-{tutor}": length for (item, tutor), length in lengths_of(release).items()}
    held = read_records(heldout, Labelling)

    def compared(answers: Mapping[tuple[str, str], int | None]) -> dict[str, list[Pairing]]:
        pairings: dict[str, list[Pairing]] = {}
        for labelling in held:
            pairing = Pairing(
                1 - labelling.label,
                answers.get((labelling.id, labelling.criterion)),
                labelling.dialogue,
                lengths.get(labelling.id, 0),
            )
            pairings.setdefault(labelling.criterion, []).append(pairing)
        return pairings

    own = {
        (labelling.id, labelling.criterion): None
        if labelling.probability is None
        else int(labelling.probability <= 0.5)
        for labelling in held
    }
    scores = agreement_scores(classifier, compared(own), None, sampling)
    for floor, verdicts in floor_verdicts(release, job.seed).items():
        codes = {
            (f"{item}-{tutor}", criterion): None if label is None else 1 - binary(criterion, label)
            for (item, tutor, criterion), label in verdicts.items()
        }
        scores += agreement_scores(floor, compared(codes), None, sampling, by=classifier)
    write_scores(on_release(scores, job.release), out)


class CorrectByPeople(ReadsPeople):
    """A judge of this run's replies; tasks: those that it judges by each rubric with criteria of its own."""

    judge: str
    tasks: dict[str, list[str]]


def correct_by_people(
    *, job: CorrectByPeople, verdicts: list[Path], people: Path, out: Path, differences: Path
) -> None:
    """Write a judge's rates corrected by the labels that people gave to this run's replies. Refuses unknown replies.

    people: the CSV of their labels (`run.human_labels`); differences: of the corrected rates of any two tutors.
    """
    lines = job.lines_in(people)
    read = [judgement for path in verdicts for judgement in read_records(path, Judgement)]
    known = {(judgement.task, judgement.id, judgement.tutor) for judgement in read}
    judged = {task for task, _, _ in known}
    strange = [  # comparisons too: of which replies they are is checked here
        UserError(
            place,
            f"this run has no judged reply of {label.tutor} to {label.task}/{label.id}",
            "item and tutor are named as in results/replies",
        )
        for place, label in lines
        if label.task in judged and (label.task, label.id, label.tutor) not in known
    ]
    if strange:
        raise UserError.of(strange)
    labels = [label for _, label in lines]
    sampling = Sampling(job.resamples, job.seed)
    scores: list[Score] = []
    apart_by: list[Difference] = []
    for rubric, tasks in job.tasks.items():
        scales = scales_of(read_rubric(rubric).rubric)
        # Two tasks may have items of one name.
        apart = [
            label.model_copy(update={"id": f"{label.task}/{label.id}"})
            for label in labels
            if label.criterion in scales and label.task in tasks
        ]
        if not apart:
            continue
        # A rate is of the tasks that people have labelled of a tutor: other tasks' replies are no part of the sample.
        sampled = {(label.task, label.tutor) for label in labels if label.criterion in scales and label.task in tasks}
        answers = said_by(
            of_its_task(judgement)
            for judgement in read
            if judgement.rubric == rubric and (judgement.task, judgement.tutor) in sampled
        )
        found = people_scores(job.judge, apart, answers, scales, sampling)
        labelled = {(vote.id, vote.tutor, vote.criterion): label for vote, label in majority(apart)}
        apart_by += corrected_differences(job.judge, labelled, answers, scales, designs_of(apart))
        # What is over all criteria belongs to the rubric.
        scores += [row if row.criterion else row.model_copy(update={"criterion": rubric}) for row in found]
    write_scores(scores, out)
    write_json(differences, [difference.model_dump(mode="json") for difference in apart_by])


class CheckJudges(Job):
    """Whose verdicts each file holds, and by judge the share of them that may be unreadable."""

    judges: list[str]
    limits: dict[str, float]


def check_judges(*, job: CheckJudges, verdicts: list[Path], out: Path) -> None:
    """Write each judge's share of unreadable verdicts. Raises UserError naming the judges above the limit.

    verdicts: files, one for each of the job's judges, which may be named several times.
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
            f"too many verdicts cannot be read: {details}",
            "see the trust page of the report for why; another rubric or judge, or a higher limit of your own",
        )
    write_json(out, shares)
