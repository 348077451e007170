"""The items of a shipped task from a folder of data, without a run: `resources/demo`, or the published files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conftest import ROOT
from maieutic.config.cards import Card
from maieutic.config.datasets import Dataset
from maieutic.core.records import Item
from maieutic.datasets.registry import LOADERS
from maieutic.datasets.sources import read_checked_source
from shipped import read

DEMO = ROOT / "resources/demo"
REGISTRY = {name: Dataset.model_validate(entry) for name, entry in read("datasets")["datasets"].items()}


# A reference for each kind of reply that robust parsers read, and the parsers of that kind.
REFERENCES: dict[str, dict[str, Any]] = {
    "number": {"answer": "4"}, "step": {"step": 2}, "yes_no": {"incorrect": True}
}  # fmt: skip
PARSERS_OF = {"number": ("answer", "corrected_answer"), "step": ("step",), "yes_no": ("yes_no",)}


def bare_item(task: str, question: str = "q") -> Item:
    """Return an item with a reference of a kind of REFERENCES and a question, and nothing else."""
    reference = {"text": "", "solution": "", **REFERENCES[task]}
    return Item(id="i", task="t", cluster="c", vars={"question": question}, reference=reference)


def items_of_card(card: Card, folder: Path, edition: str) -> list[Item]:
    """Return the items of a task, after the checks of its source. edition: `demo` or `published`."""
    dataset = REGISTRY[card.dataset]
    copy = dataset.file_of(card.dataset, edition)
    records = read_checked_source(folder / copy.path, dataset, copy, copy.path)
    return LOADERS[card.loader].load(records, card.task)
