"""Submission file of the BEA 2025 shared task, with a judge's predictions on the test set.

The file has the format of the development set, where each response has an `annotation` with labels in four dimensions.
It is packed as predictions.json in a zip archive, like the sample submission in kaushal0494/UnifyingAITutorEvaluation.
"""

from __future__ import annotations

import json
import logging
import zipfile
from pathlib import Path

from maieutic.core.files import atomic_file, write_json
from maieutic.core.jobs import Job
from maieutic.core.records import Judgement, read_records
from maieutic.datasets.mrbench import SHARED_TASK, responses_of
from maieutic.datasets.sources import read_source
from maieutic.validation.trust import verdict_labels

log = logging.getLogger(__name__)
ARCHIVED_FILE = "predictions.json"


class WriteSubmission(Job):
    """Settings of write_submission. release: name of an unlabelled release for which a judge predicts the labels."""

    release: str


def write_submission(*, job: WriteSubmission, source: Path, verdicts: Path, out: Path, packed: Path) -> None:
    """Write the labels that a judge predicts for a release's replies, as a JSON file and as a zip archive of this file.

    Missing verdicts are left out and counted; no default label replaces them.

    source: file of the release; verdicts: file of the judge's verdicts; out: JSON file; packed: zip archive.
    """
    release = job.release
    answers = verdict_labels(judgement for judgement in read_records(verdicts, Judgement) if judgement.task == release)
    records = read_source(source, "json")
    missing = 0
    predicted = []
    for number, record in enumerate(records):
        responses = {}
        for tutor, response in responses_of(record).items():
            labels = {name: answers.get((f"mrbench-{number:03d}", tutor, name)) for name in SHARED_TASK}
            annotation = {name: label for name, label in labels.items() if label is not None}
            missing += len(SHARED_TASK) - len(annotation)
            responses[tutor] = {"response": response["response"], "annotation": annotation}
        dialogue = {key: record[key] for key in ("conversation_id", "conversation_history")}
        predicted.append({**dialogue, "tutor_responses": responses})
    write_json(out, predicted)
    with atomic_file(packed, "wb") as handle, zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(ARCHIVED_FILE), json.dumps(predicted, indent=1))
    if missing:
        log.warning(
            "the file lacks %d labels because verdicts are missing: add these labels before you submit the file",
            missing,
        )
    replies = sum(len(record["tutor_responses"]) for record in predicted)
    log.info("wrote the labels of %d replies in %d dialogues to %s", replies, len(predicted), packed)
