"""Training in several processes: torch's launcher, and the entry point of each process.

All processes end when the command that started them ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from maieutic.core.errors import UserError
from maieutic.core.parent_process import PARENT_VARIABLE, tie_to_parent
from maieutic.curation.training import TutorTraining, train_tutor
from maieutic.serving.environment_allow_list import inherited_environment

SPEC = "training.spec.json"


def train_in_processes(training: TutorTraining) -> None:
    """Run a training in `training.processes` processes on this machine. Raises UserError if one of them fails.

    The processes find each other through a free port that the launcher chooses.
    """
    spec = training.out / SPEC
    spec.write_text(training.model_dump_json(), encoding="utf-8")
    line = [sys.executable, "-m", __name__]
    launcher = [
        *line, "launch", f"--nproc-per-node={training.processes}", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0",
        "--max-restarts=0", "-m", __name__, "train", str(spec),
    ]  # fmt: skip
    status = subprocess.run(
        launcher, env={**inherited_environment(os.environ), PARENT_VARIABLE: str(os.getpid())}
    ).returncode
    spec.unlink()
    if status:
        raise UserError(
            f"tunings.{training.tuning}",
            f"one of the {training.processes} training processes failed (status {status})",
            "correct the error shown above, then run again: the training resumes from its last checkpoint",
        )


def main(arguments: list[str]) -> None:
    """Run `launch ARGUMENTS` (torch's launcher) or `train FILE` (one process of a training)."""
    tie_to_parent()
    if arguments[0] == "launch":
        from torch.distributed.run import main as launch

        launch(arguments[1:])
    else:
        from maieutic.core.logs import log_to

        log_to(None)
        train_tutor(TutorTraining.model_validate_json(Path(arguments[1]).read_text(encoding="utf-8")))


if __name__ == "__main__":
    main(sys.argv[1:])
