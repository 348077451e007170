"""A judge's predictions on the BEA 2025 shared task's test set, as the file that the task takes.

The file has the form of the development set: each response with its `annotation` in the four dimensions, packed as
predictions.json in a zip (the sample submission in kaushal0494/UnifyingAITutorEvaluation is packed so).
"""

from __future__ import annotations

import json
import logging
import zipfile
from pathlib import Path

from maieutic.core.files import whole_file, write_json
from maieutic.core.jobs import Job
from maieutic.core.records import Judgement, read_records
from maieutic.datasets.mrbench import SHARED_TASK, responses_of
from maieutic.datasets.sources import read_source
from maieutic.validation.trust import said_by

log = logging.getLogger(__name__)
NAME = "predictions.json"


class WriteSubmission(Job):
    """A release without labels that a judge predicts."""

    release: str


def write_submission(*, job: WriteSubmission, source: Path, verdicts: Path, out: Path, packed: Path) -> None:
    """Write the judge's labels of every reply of a release as JSON, and the same file in a zip.

    A verdict that could not be read is left out and counted: nothing stands for it.
    """
    release = job.release
    answers = said_by(judgement for judgement in read_records(verdicts, Judgement) if judgement.task == release)
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
        kept = {key: record[key] for key in ("conversation_id", "conversation_history")}
        predicted.append({**kept, "tutor_responses": responses})
    write_json(out, predicted)
    with whole_file(packed, "wb") as handle, zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(NAME), json.dumps(predicted, indent=1))
    if missing:
        log.warning("%d labels could not be read and are left out: fill them in before you submit the file", missing)
    replies = sum(len(record["tutor_responses"]) for record in predicted)
    log.info("%d replies to %d dialogues in %s", replies, len(predicted), packed)
