"""Choice of a run's leading reward model: the most accurate one on half of the problems of the test pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maieutic.core.files import write_json
from maieutic.core.jobs import SampledJob
from maieutic.core.records import PairReward, read_records
from maieutic.core.stats import BootstrapSettings
from maieutic.datasets.halves import CHOSEN_ON, accuracies_on_halves


class ChooseRewardModel(SampledJob):
    """Job that chooses the leading reward model of a run.

    reward_models: the candidates, in the order of the run; of equally accurate ones, the first leads. source: name of
    the set of pairs.
    """

    reward_models: list[str]
    source: str = "bridge"


def choose_reward_model(*, job: ChooseRewardModel, rewards: list[Path], out: Path) -> None:
    """Write the leading reward model, and each model's accuracy on both halves of the pairs.

    The pairs of one problem are all in the same half. The accuracy on the half that chose a model is too high on
    average, so the other half shows how accurate the chosen model is. rewards: scores of the pairs, one file for each
    reward model in the order of the job. Source: MathTutorBench, section 5.2 and Table 3, where the model is chosen on
    the pairs on which it is reported.
    """
    sampling = BootstrapSettings(job.resamples, job.seed)
    rows: list[dict[str, Any]] = []
    for name, path in zip(job.reward_models, rewards, strict=True):
        scored = read_records(path, PairReward)
        read = [reward for reward in scored if reward.chosen is not None and reward.rejected is not None]
        right = [(reward.problem, (reward.chosen or 0.0) > (reward.rejected or 0.0)) for reward in read]
        rows.append(
            {"reward_model": name, **accuracies_on_halves((reward.problem for reward in scored), right, sampling)}
        )
    leader = max(rows, key=lambda row: row[CHOSEN_ON]["value"] or 0.0)
    write_json(out, {"leader": leader["reward_model"], "source": job.source, "rows": rows})
