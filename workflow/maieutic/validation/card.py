"""The model card of a reward model that was trained here: data, counts, settings, accuracy."""

from __future__ import annotations

import json
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from maieutic.core.files import whole_file
from maieutic.core.jobs import Sampled
from maieutic.core.records import Pair, PairReward, read_records
from maieutic.core.stats import Sampling
from maieutic.validation.rewards import pair_scores

HERE = Path(__file__).parent
LAST = 0.1  # share of the steps that "at the end" means


class WriteModelCard(Sampled):
    """A reward model that was trained here."""

    reward_model: str


def write_model_card(
    *, job: WriteModelCard, training: Path, pairs: Path, rewards: Path, counts: list[Path], out: Path
) -> None:
    """Write README.md beside the weights.

    training: its training.json; rewards: its scores of the test `pairs`; counts: of each source of pairs.
    """
    name, sampling = job.reward_model, Sampling(job.resamples, job.seed)
    content = json.loads(training.read_text(encoding="utf-8"))
    scores = pair_scores(name, read_records(pairs, Pair), read_records(rewards, PairReward), sampling)
    measured = {score.metric: score for score in scores}
    history = content["history"]
    last = history[-max(1, round(LAST * len(history))) :] if history else []
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
    with whole_file(out) as handle:
        handle.write(text)
