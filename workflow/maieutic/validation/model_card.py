"""Model card of a reward model that was trained in this run: data, counts, settings and accuracy."""

from __future__ import annotations

import json
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from maieutic.core.files import atomic_file
from maieutic.core.jobs import SampledJob
from maieutic.core.records import Pair, PairReward, read_records
from maieutic.core.stats import BootstrapSettings
from maieutic.validation.rewards import reward_pair_scores

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
