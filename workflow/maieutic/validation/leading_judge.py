"""Choice of a run's leading judge: the one that agrees most often with people's labels of this run's replies.

TutorBench compared judges with the ratings of people in the same way (section 3.7, Figure 6).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maieutic.core.files import write_json
from maieutic.core.records import Judgement, read_records
from maieutic.core.stats import BootstrapSettings
from maieutic.datasets.halves import CHOSEN_ON, accuracies_on_halves
from maieutic.people.labels import ReadsHumanLabels, resolved_labels
from maieutic.validation.corrected_rates import FEWEST_LABELS
from maieutic.validation.trust import verdict_labels, with_task_in_id


class ChooseJudge(ReadsHumanLabels):
    """Job that chooses the leading judge of a run.

    judges: judge of each file of verdicts, in the order of the run; of equally good judges, the first one leads.
    """

    judges: list[str]


def choose_judge(*, job: ChooseJudge, verdicts: list[Path], people: Path, out: Path) -> None:
    """Write the leading judge, and each judge's agreement with people's labels on two halves of the labelled items.

    Only questions count that people and all candidates answered; an unreadable verdict disagrees. A judge of fewer than
    twice FEWEST_LABELS labelled questions is no candidate. With fewer than FEWEST_LABELS labels on the half that
    chooses, there is no evidence for a choice, and the first judge leads.

    verdicts: files of the judges' verdicts; people: CSV of people's labels (`run.human_labels`).
    """
    judged: dict[str, dict[tuple[str, str, str], str | None]] = {name: {} for name in job.judges}
    for name, path in zip(job.judges, verdicts, strict=True):
        judged[name] |= verdict_labels(map(with_task_in_id, read_records(path, Judgement)))
    labels = {
        (f"{vote.task}/{vote.id}", vote.tutor, vote.criterion): (f"{vote.task}/{vote.problem or vote.id}", label)
        for vote, label in resolved_labels(job.labels_in(people))
    }
    candidates = {
        name: answers for name, answers in judged.items() if len(labels.keys() & answers.keys()) >= 2 * FEWEST_LABELS
    } or judged
    questions = set.intersection(*(set(answers) for answers in candidates.values()))
    known = {key: entry for key, entry in labels.items() if key in questions and entry[1] is not None}
    sampling = BootstrapSettings(job.resamples, job.seed)
    rows: list[dict[str, Any]] = []
    for name, answers in candidates.items():
        right = [(problem, answers[key] == label) for key, (problem, label) in known.items()]
        rows.append({"judge": name, **accuracies_on_halves((problem for problem, _ in right), right, sampling)})
    enough = rows[0][CHOSEN_ON]["n"] >= FEWEST_LABELS
    leader = max(rows, key=lambda row: row[CHOSEN_ON]["value"] or 0.0) if enough else rows[0]
    write_json(out, {"leader": leader["judge"], "enough": enough, "fewest": FEWEST_LABELS, "rows": rows})
