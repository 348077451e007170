"""Write docs/reproduce.md: the run file of each printed table, what was reproduced here, and each run file's cost.

The tables are those in the benchmarks' `printed.py`. The cost of a run file is that of `maieutic estimate`, without any
answer on file; prices are those of the registry. What was reproduced without a model is read from bench/released.csv,
which `--released` copies from the report of `make released`.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "workflow"))
os.chdir(ROOT)

from maieutic.config.models import HostedModel
from maieutic.launch.bill import bill_of
from maieutic.launch.config_files import merged_configuration
from maieutic.launch.lengths import AmountRange
from maieutic.launch.serving_time import parameter_count
from maieutic.plan.plan import Plan
from maieutic.run_plan import plan_before_pins
from maieutic.scores.printed import PAPERS, paper_title
from maieutic.tools.counting import count_requests
from maieutic.tools.estimate import estimate_rows, estimate_total, range_cell

PAGE = ROOT / "docs/reproduce.md"
COUNTS = ROOT / "bench/released.csv"
REPORTED = Path("tables/printed-by-table-figure-or-section.csv")  # file of the report with the counts
GPU = "h200"  # eight of them hold the weights of every model
BYTES_A_PARAMETER = 2  # bfloat16

TEXT = """# Which command gives which table

Written by `make bills`: a row for each printed table, figure or section with numbers. The page *Every printed number* of a finished
run shows each number beside yours. The same question was asked for all numbers that are compared:

- **Reproduced:** equal up to the printed rounding, or within the 95 % interval of a model's score. **Differs:** not so.
- **Another release:** computed from public data that are not the paper's: MRBench's V1 has 53 dialogues from Bridge and 139 from
  MathDial, where the paper counts 60 and 132. **Settings:** constants that this project shares with the paper.
- **Follows** or **contradicts:** the number follows from other printed ones, or cannot be rounded from them.

Everything that needs no model takes minutes on two cores:

```sh fragment
make released    # DATA=FOLDER if the data are already there
```

Any other run file needs its models:

```sh fragment
make env VARIANT=cuda        # not if all models are hosted
source .venv/activate
export HF_TOKEN=...    # and the keys of the second table
maieutic pin --check --configfile config/NAME.yaml
maieutic estimate --configfile config/NAME.yaml
snakemake --profile slurm --configfile config/NAME.yaml
```

Without SLURM: `--cores all --workflow-profile profiles/workstation --resources server_gpus=8` (your GPUs) instead of `--profile slurm`.

"""
NOTES = """
MathTutorBench does not say how it counts turns. TutorBench scores 1,490 samples, of which 1,473 are released, and does not
print its judge's prompt; some [pictures are addresses](pins.md#pins). Remove retired models from `run.tutors`.

MathTutorBench's Table 7 has ten example replies and no number; *Reward models* shows yours beside them. KMP-LM and the tutors
beside it in KMP-Bench's Tables 2, 4 and 6 come from `kmp_lm`; `kmpbench_dialogue` makes dialogues in place
of the paper's. TutorBench's Figure 6 compares with [ratings](people.md#ratings-of-criteria-tutorbench) of your own.

**Your model beside MathTutorBench's Table 4.** The board's numbers hang on `is_chat`: its code asks with or without the model's chat
template. `maieutic init --tutors NAME --benchmarks mathtutorbench --chat-too` asks by both, in two rows. Add
`reward_models: [pedagogical-rm-1.5b]` to `run` for the win rates. The page *Against the papers* puts your rows below the printed
ones; `maieutic export leaderboard --out rows` writes them in the paper's columns.
"""


class Bill(NamedTuple):
    """Cost of a run file.

    has_more: True if some requests cannot be known in advance; usd, gpu_hours: None if unknown; thinking: most USD
    more; weights: GB to download; left_out: names without a known pin; keys: environment variables.
    """

    requests: int | None
    has_more: bool
    usd: AmountRange | None
    thinking: float
    gpu_hours: AmountRange | None
    weights: float
    left_out: list[str]
    keys: list[str]


def bill_of_file(run_file: str) -> Bill:
    """Return the bill of a run file."""
    raw = merged_configuration([Path(f"config/{run_file}.yaml")])
    plan, _ = plan_before_pins(raw)
    jobs = count_requests(raw, plan)
    rows = estimate_rows(plan, GPU, jobs)
    total = estimate_total(rows) if rows else None
    models = sorted({job.model for job in jobs})
    keys = {entry.key_env for name in models if isinstance(entry := plan.models[name], HostedModel) and entry.key_env}
    return Bill(
        total.requests if total else 0,
        total.has_more if total else False,
        total.usd if total else None,
        bill_of(plan, jobs).thinking,
        total.gpu_hours if total else None,
        sum(weights_of(plan, name) for name in plan.used_models),
        sorted({part.name for part in plan.absent_parts if part.key == "run.tutors"}),
        sorted(keys),
    )


def weights_of(plan: Plan, name: str) -> float:
    """Return the GB of a model's weights, 0 for a hosted model."""
    size = parameter_count(name, plan.models[name])
    return size.total * BYTES_A_PARAMETER if size else 0.0


def cells(bill: Bill) -> list[str]:
    """Return a bill as cells of the page."""
    return [
        "unknown" if bill.requests is None else f"{bill.requests:,}{' or more' if bill.has_more else ''}",
        "-" if bill.usd is None else range_cell(bill.usd, ",.0f"),
        "-" if not bill.thinking else f"0 to {bill.thinking:,.0f}",
        "-" if bill.gpu_hours is None else range_cell(bill.gpu_hours, ",.1f"),
        "-" if not bill.weights else f"{bill.weights:,.0f}",
        ", ".join(f"`{name}`" for name in bill.left_out) or "-",
        ", ".join(f"`{key}`" for key in bill.keys) or "-",
    ]


def reproduced_here() -> dict[str, dict[str, str]]:
    """Return the counts of each table that `make released` wrote here, by paper and table."""
    with COUNTS.open(encoding="utf-8", newline="") as handle:
        return {next(iter(row.values())): row for row in csv.DictReader(handle)}


def page() -> str:
    """Return the page."""
    here = reproduced_here()
    lines = [
        "| table, figure or section | run file | numbers | without a model | the others |",
        "| --- | --- | --- | --- | --- |",
    ]
    run_files: dict[str, None] = {}
    for benchmark, paper in PAPERS.items():
        for display in paper.displays.values():
            title = paper_title(benchmark)
            counts = here[f"{title}, {display.title} {display.content}"]
            file = f"[`{display.run_file}`](../config/{display.run_file}.yaml)"
            complete = counts["numbers"] == counts["with a value"]
            others = "-" if complete else display.needs
            verdicts = counts["verdicts"] or "-"
            lines.append(
                f"| {title}, {display.title}: {display.content} | {file} | {counts['numbers']} | {verdicts} | {others} |"
            )
            run_files[display.run_file] = None
    lines += [
        NOTES,
        "`make released` also grades published solutions of GSM8K by four models (Cobbe et al., 2021): 5,276 grades equal the authors' flags.",
        "",
        "## The bill",
        "",
        f"By `maieutic estimate --gpu {GPU}`, with the registry's prices: if all answers are as long as those of the shortest, and of the",
        "longest, model whose replies were published (`resources/reply_lengths.csv`). On replies that it was not fitted to, the estimate is",
        "within 25 %. Not included: models without a price, thinking of served models. Weights are in GB, at two bytes a parameter.",
        "",
        "| run file | requests, about | USD | thinking, USD more | GPU hours | weights | left out | keys |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for run_file in run_files:
        lines.append(f"| `{run_file}` | {' | '.join(cells(bill_of_file(run_file)))} |")
    return TEXT + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", help="print the page instead of writing it")
    parser.add_argument("--released", type=Path, help="report folder of `make released`, whose counts are copied")
    arguments = parser.parse_args()
    if arguments.released:
        shutil.copyfile(arguments.released / REPORTED, COUNTS)
    if arguments.print:
        print(page(), end="")
        return
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE}: written")


if __name__ == "__main__":
    main()
