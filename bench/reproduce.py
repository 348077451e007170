"""Write docs/reproduce.md: the command of each printed table, with its requests, dollars, GPU hours and weights.

The bill of a run file is that of `maieutic estimate`, without any answer on file. Prices are those of the registry.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "workflow"))
os.chdir(ROOT)

from maieutic.config.models import HostedModel
from maieutic.plan.plan import Plan
from maieutic.plan.rules import plan_before_pins
from maieutic.tools.estimate import estimate_rows, estimate_total
from maieutic.tools.pinning import merged_configuration
from maieutic.tools.serving_time import parameter_count

PAGE = ROOT / "docs/reproduce.md"
GPU = "h100"
BYTES_A_PARAMETER = 2  # bfloat16
RELEASED = "released"

TEXT = """# Which command gives which table

Written by `make bills`. The first table has a row for each printed table or group of tables. The page *Against the papers* of a
finished run shows the printed values beside yours. A value counts as reproduced if the same question was asked and, allowing for
the printed value's rounding, the two are equal (released labels or replies), or the printed value lies in the 95 % interval (a
model was asked).

```sh
make released                                    # everything without a model: minutes on two cores
maieutic pin --configfile config/NAME.yaml       # once: looks up the commits that nobody has recorded yet
maieutic estimate --configfile config/NAME.yaml  # the bill, by model
snakemake --profile slurm --configfile config/NAME.yaml
```

If the data are already in a folder: `make released DATA=FOLDER`.

"""


class Table(NamedTuple):
    """Printed tables that one run file gives. obstacle: what cannot be had, and why; empty if nothing is missing."""

    paper: str
    tables: str
    content: str
    run_file: str
    obstacle: str = ""


TABLES = (
    Table("MRBench", "3, 8, 9", "DAMR of people's labels, by tutor and source", RELEASED, "release V1 has other dialogues than the tables: 6 of 208 cells are equal"),
    Table("MRBench", "7", "sizes of the data", RELEASED, "the printed numbers contradict each other; the page marks them"),
    Table("MRBench", "5, 6", "correlation of critics with people", "mrbench", "the registry has not all commits of the models: pin them first"),
    Table("MathTutorBench", "4, floors and ceilings", "trivial tutors and the human reference", RELEASED),
    Table("MathTutorBench", "4", "eight models on nine tasks", "mathtutorbench", "the registry has no price for LearnLM 1.5 Pro, and not all commits of the models"),
    Table("MathTutorBench", "3, Figures 3 and 4", "ablation of reward models, trained here", "paper"),
    Table("MathTutorBench", "5", "classifiers of criteria", "paper"),
    Table("KMP-Bench", "2, 4, 6", "skills, on public data of the same format", "kmpbench", "the paper's data are not released, so no cell can be equal"),
    Table("KMP-Bench", "1, 5", "dialogues under teaching principles", "kmpbench", "needs a curated set: add the task kmpbench/dialogue (docs/curation.md)"),
    Table("KMP-Bench", "4, floors", "error detection by trivial tutors", RELEASED, "on public data only"),
    Table("TutorBench", "1, Figures 7, 11, 12", "fifteen models by a judge", "tutorbench", "the judge's prompt is not printed, so no cell is comparable"),
    Table("GSM8K (Cobbe et al., 2021)", "-", "published solutions of four models: 5,276 grades equal the authors' flags", RELEASED),
)  # fmt: skip


class Bill(NamedTuple):
    """Cost of a run file. usd, gpu_hours: None if unknown; weights: GB to download; keys: environment variables."""

    requests: int | None
    usd: float | None
    gpu_hours: float | None
    weights: float
    keys: list[str]


def bill_of(run_file: str) -> Bill:
    """Return the bill of a run file."""
    plan, _ = plan_before_pins(merged_configuration([Path(f"config/{run_file}.yaml")]))
    rows = estimate_rows(plan, GPU)
    total = estimate_total(rows) if rows else None
    models = sorted({row.model for row in rows})
    keys = {entry.key_env for name in models if isinstance(entry := plan.models[name], HostedModel) and entry.key_env}
    return Bill(
        total.requests if total else 0,
        total.usd if total else 0.0,
        total.gpu_hours if total else 0.0,
        sum(weights_of(plan, name) for name in models),
        sorted(keys),
    )


def weights_of(plan: Plan, name: str) -> float:
    """Return the GB of a model's weights, 0 for a hosted model."""
    size = parameter_count(name, plan.models[name])
    return size.total * BYTES_A_PARAMETER if size else 0.0


def cells(bill: Bill) -> list[str]:
    """Return a bill as cells of the page."""
    return [
        "unknown" if bill.requests is None else f"{bill.requests:,}",
        "-" if not bill.usd else f"{bill.usd:,.0f}",
        "-" if not bill.gpu_hours else f"{bill.gpu_hours:,.1f}",
        "-" if not bill.weights else f"{bill.weights:,.0f}",
        ", ".join(f"`{key}`" for key in bill.keys) or "-",
    ]


def page() -> str:
    """Return the page."""
    lines = ["| paper | table | content | run file | what is missing |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| {row.paper} | {row.tables} | {row.content} | [`config/{row.run_file}.yaml`](../config/{row.run_file}.yaml) "
        f"| {row.obstacle or '-'} |"
        for row in TABLES
    ]
    lines += [
        "",
        "## The bill",
        "",
        f"By `maieutic estimate --gpu {GPU}`, with the prices in `config/models.yaml`; models without a price are not included. The",
        "time to train and to run reward models is not included. Weights are in GB, at two bytes a parameter.",
        "",
        "| run file | requests, about | USD | GPU hours | weights | keys |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for run_file in dict.fromkeys(row.run_file for row in TABLES):
        lines.append(f"| `{run_file}` | {' | '.join(cells(bill_of(run_file)))} |")
    return TEXT + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", help="print the page instead of writing it")
    if parser.parse_args().print:
        print(page(), end="")
        return
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE}: written")


if __name__ == "__main__":
    main()
