"""Estimate a full run without running it: requests, tokens, GPU hours and cost of 10 to 1,000 models of 1B to 405B.

Writes the tables of docs/cluster.md and docs/models.md between their markers, from measured request sizes
(resources/sizes.csv) and the estimate of serving time (maieutic.launch.serving_time). `--print` prints the pages instead.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import mean
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "workflow"))

from maieutic.launch.lengths import answer_span, verdict_span
from maieutic.launch.requests import RequestSize, measured_sizes, tokens_of_chars
from maieutic.launch.serving_time import GPUS, START_SECONDS, ParameterCount, fits_in_memory, server_seconds

PAGES = (ROOT / "docs/cluster.md", ROOT / "docs/models.md")
CONCURRENCY = 256  # requests in flight, as models.*.concurrency of a served model
BENCHMARKS = ("mathtutorbench", "kmpbench", "mrbench", "tutorbench")
RUBRICS = ("mrbench_critic", "kmp_dialogue", "kmp_similar_problems", "kmp_followup_problems", "kmp_error_reason", "tutorbench")  # fmt: skip
MODELS = {
    "1B": ParameterCount(1, 1), "7B": ParameterCount(7, 7), "32B": ParameterCount(32, 32), "70B": ParameterCount(70, 70),
    "120B, 5B active": ParameterCount(117, 5.1), "405B": ParameterCount(405, 405),
}  # fmt: skip
GPU_KINDS = ("l40s", "a100", "h100", "h200", "b200")
PRICES = {"a small hosted model (0.15 / 0.60 USD a million tokens)": (0.15, 0.6), "a large one (2.50 / 10.00)": (2.5, 10.0)}  # fmt: skip
# A server uses at most the eight GPUs of one node.
MAX_GPUS = 8


class Load(NamedTuple):
    """Requests to one model, and the total tokens of their prompts and answers."""

    requests: float
    prompts: float
    answers: float


def tutor_load(benchmark: str) -> Load:
    """Return the load of all tasks of a benchmark, with every item once."""
    rows = {task: size for (name, task, rubric), size in measured_sizes().items() if name == benchmark and not rubric}
    return total_load([(size, mean(answer_span(benchmark, task, size.answer_chars))) for task, size in rows.items()])


def judge_load() -> Load:
    """Return a judge's load under the papers' rubrics, for one tutor."""
    rows = [size for (name, _, rubric), size in measured_sizes().items() if name in BENCHMARKS and rubric in RUBRICS]
    return total_load([(size, mean(verdict_span(size.criteria))) for size in rows])


def total_load(rows: list[tuple[RequestSize, float]]) -> Load:
    """Return the total load. rows: request sizes, each with the tokens of an answer."""
    requests = [size.items * size.requests for size, _ in rows]
    prompts = sum(number * tokens_of_chars(size.prompt_chars) for number, (size, _) in zip(requests, rows, strict=True))
    answers = sum(number * answer for number, (_, answer) in zip(requests, rows, strict=True))
    return Load(sum(requests), prompts, answers)


def gpus_for(size: ParameterCount, kind: str) -> int | None:
    """Return the smallest number of GPUs (1, 2, 4, 8) that a model fits on, or None if it does not fit on one node."""
    return next((number for number in (1, 2, 4, MAX_GPUS) if fits_in_memory(size, GPUS[kind], number)), None)


def hours_of(size: ParameterCount, kind: str, loads: list[Load]) -> float | None:
    """Return the GPU hours of a model with a separate server for each load, or None if it does not fit on one node."""
    gpus = gpus_for(size, kind)
    if gpus is None:
        return None
    return sum(gpus * server_seconds(size, GPUS[kind], gpus, *load, CONCURRENCY) for load in loads) / 3600


def number(value: float) -> str:
    """Return a value with two significant digits."""
    digits = f"{value:.2g}"
    return f"{float(digits):,.0f}" if value >= 10 else digits


def work_rows() -> list[str]:
    loads = {**{name: tutor_load(name) for name in BENCHMARKS}, "a judge, for one tutor": judge_load()}
    rows = [
        f"| {name} | {load.requests:,.0f} | {load.prompts / 1e6:,.1f} | {load.answers / 1e6:,.2f} |"
        for name, load in loads.items()
    ]
    return ["| one model on | requests | prompt tokens, millions | answer tokens, millions |", "| --- | --- | --- | --- |", *rows]  # fmt: skip


def hour_rows() -> list[str]:
    loads = [tutor_load(name) for name in BENCHMARKS]
    rows = []
    for name, size in MODELS.items():
        cells = []
        for kind in GPU_KINDS:
            hours, gpus = hours_of(size, kind, loads), gpus_for(size, kind)
            cells.append("-" if hours is None else f"{number(hours)} ({gpus})")
        rows.append(f"| a model of {name} | {' | '.join(cells)} |")
    return [f"| GPU hours (GPUs a server) | {' | '.join(GPU_KINDS)} |", "| --- " * (len(GPU_KINDS) + 1) + "|", *rows]


def run_rows() -> list[str]:
    """Return the rows for runs with 10 to 1,000 models of 7B on H100s and a judge of 70B."""
    loads, judged = [tutor_load(name) for name in BENCHMARKS], judge_load()
    requests = sum(load.requests for load in loads)
    small, large = MODELS["7B"], MODELS["70B"]
    rows = []
    for models in (10, 100, 1000):
        tutoring = hours_of(small, "h100", loads)
        all_judged = Load(*(models * part for part in judged))
        judging = hours_of(large, "h100", [all_judged])
        assert tutoring is not None and judging is not None
        hours = models * tutoring + judging
        rows.append(
            f"| {models:,} models | {models * requests / 1e6:,.1f} | {models * judged.requests / 1e6:,.1f} | "
            f"{number(models * tutoring)} | {number(judging)} | {number(hours / 32)} | {number(models * len(loads) * START_SECONDS / 3600)} |"
        )
    head = (
        "| models of 7B, a judge of 70B | replies, millions | verdicts, millions | GPU hours, tutors | GPU hours, judge "
        "| hours on 32 H100 | GPU hours in the tutors' starts |"
    )
    return [head, "| --- " * 7 + "|", *rows]


def money_rows() -> list[str]:
    loads, judged = [tutor_load(name) for name in BENCHMARKS], judge_load()
    rows = []
    for name, (prompt_price, answer_price) in PRICES.items():
        tutor_cost, judge_cost = (
            sum(load.prompts * prompt_price + load.answers * answer_price for load in loads_of_model) / 1e6
            for loads_of_model in (loads, [judged])
        )
        rows.append(f"| {name} | {tutor_cost:,.2f} | {judge_cost:,.2f} |")
    return ["| USD, one tutor on all four benchmarks | as the tutor | as its judge |", "| --- | --- | --- |", *rows]


def limit_rows() -> list[str]:
    """Return the hours of one tutor and of its judge under providers' rate limits."""
    requests, judged = sum(tutor_load(name).requests for name in BENCHMARKS), judge_load().requests
    rows = [
        f"| {limit:,} requests a minute | {number(requests / limit / 60)} | {number(judged / limit / 60)} |"
        for limit in (500, 10_000)
    ]
    return ["| hours at a provider's limit of | one tutor on all four benchmarks | its judge |", "| --- | --- | --- |", *rows]  # fmt: skip


TABLES = {"work": work_rows, "hours": hour_rows, "runs": run_rows, "money": money_rows, "limits": limit_rows}


def page(text: str) -> str:
    """Return a page with each of its tables between its markers replaced."""
    for name, rows in TABLES.items():
        if f"<!-- {name} -->\n" not in text:
            continue
        head, rest = text.split(f"<!-- {name} -->\n", 1)
        _, tail = rest.split("<!-- end -->", 1)
        text = f"{head}<!-- {name} -->\n" + "\n".join(rows()) + f"\n<!-- end -->{tail}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true")
    pages = {path: page(path.read_text(encoding="utf-8")) for path in PAGES}
    if parser.parse_args().print:
        print("\n".join(pages.values()))
        return
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
        print(f"{path}: written")


if __name__ == "__main__":
    main()
