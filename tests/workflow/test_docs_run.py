"""What stands in the documents runs as it stands: files that a block names are written, commands are typed."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pandas as pd
from gullible import answering
from httpserver import serving
from maieutic.datasets.mrbench import LABELS
from running import environment

BLOCK = re.compile(r"<!-- (file: (?P<file>\S+)|run) -->\n```\w+\n(?P<text>.*?)```", re.DOTALL)


def test_what_stands_in_the_documents_runs(checkout: Path) -> None:
    """docs/extending.md from top to bottom; the endpoint of its judge is a scripted one."""
    kind = json.dumps({name: labels[0] for name, labels in LABELS.items()})
    environ = {**environment(), "OPENAI_API_KEY": "none"}
    ran = []
    with serving(answering(lambda prompt: kind if "strict examiner" in prompt else "?")) as address:
        for block in BLOCK.finditer(Path("docs/extending.md").read_text(encoding="utf-8")):
            text = block["text"]
            if block["file"]:
                target = checkout / block["file"]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text.replace("https://api.openai.com", address), encoding="utf-8")
                continue
            line = ["bash", "-c", f"export PATH=$PWD/.venv/driver/bin:$PATH; {text}"]
            done = subprocess.run(line, cwd=checkout, env=environ, text=True, capture_output=True)
            assert done.returncode == 0, done.stdout + done.stderr
            page = (checkout / "results/report/index.html").read_text(encoding="utf-8")
            ran.append((pd.read_csv(checkout / "results/report/scores.csv"), page))
    (problems, first), (prompts, _), (judged, third) = ran
    mine = problems[(problems.task == "my_problems") & problems.headline & (problems.scoring == "robust")]
    assert mine.set_index("model").value.to_dict() == {"always-0": 0.0, "echo": 0.0, "reference": 1.0}
    assert "My word problems" in first
    assert set(prompts.task) == {"problem_solving", "short_answers"}
    assert set(judged[judged.metric == "damr"].by) == {"examiner"}
    assert "No judge of the run has a rubric for “Error detection and correction”" in third
