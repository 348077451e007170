"""Several processes that share one training: torch's launcher, and what each of its processes does.

All of them die with the command that started them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from maieutic.core.errors import UserError
from maieutic.core.parent import PARENT, tie_to_parent
from maieutic.curation.training import Training, train_tutor
from maieutic.serving.inherited import inherited

SPEC = "training.spec.json"


def train_together(training: Training) -> None:
    """Run a training in the processes that it says. Raises UserError where one of them fails.

    Processes of one machine; they find each other by a free port of their own.
    """
    spec = training.out / SPEC
    spec.write_text(training.model_dump_json(), encoding="utf-8")
    line = [sys.executable, "-m", __name__]
    launcher = [
        *line, "launch", f"--nproc-per-node={training.processes}", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0",
        "--max-restarts=0", "-m", __name__, "train", str(spec),
    ]  # fmt: skip
    ended = subprocess.run(launcher, env={**inherited(os.environ), PARENT: str(os.getpid())}).returncode
    spec.unlink()
    if ended:
        raise UserError(
            f"tunings.{training.tuning}",
            f"one of its {training.processes} processes failed (status {ended})",
            "its cause stands above; run again to go on from the last checkpoint",
        )


def main(words: list[str]) -> None:
    """`launch ARGUMENTS`: torch's launcher; `train FILE`: one process of a training."""
    tie_to_parent()
    if words[0] == "launch":
        from torch.distributed.run import main as launch

        launch(words[1:])
    else:
        from maieutic.core.logs import log_to

        log_to(None)
        train_tutor(Training.model_validate_json(Path(words[1]).read_text(encoding="utf-8")))


if __name__ == "__main__":
    main(sys.argv[1:])
