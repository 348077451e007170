"""Merge one tutor's replies to one benchmark, which several jobs have written, one for each shard of the items."""

from __future__ import annotations

import heapq
from contextlib import ExitStack
from itertools import groupby, zip_longest
from pathlib import Path

from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file


def gather_shards(replies: list[Path], prompts: list[Path], out: Path, prompts_out: Path) -> None:
    """Write the replies of all shards in the order of the items, and all prompts without duplicates.

    replies, prompts: one file for each shard, in the order of the shards.
    """
    check_shard_sizes(replies)
    with ExitStack() as stack, atomic_file(out, "wb") as handle:
        lines = [stack.enter_context(open(path, "rb")) for path in replies]
        for group in zip_longest(*lines):
            handle.writelines(filter(None, group))
    with ExitStack() as stack, atomic_file(prompts_out, "wb") as handle:
        # Each line begins with the hash of its prompt, and each file is sorted by this hash.
        merged = heapq.merge(*(stack.enter_context(open(path, "rb")) for path in prompts))
        handle.writelines(line for line, _ in groupby(merged))


def check_shard_sizes(replies: list[Path]) -> None:
    """Raise UserError if the shards' sizes differ from those that result when items are assigned to shards in turn."""
    counts = []
    for path in replies:
        with open(path, "rb") as handle:
            counts.append(sum(1 for _ in handle))
    dealt = [len(range(place, sum(counts), len(counts))) for place in range(len(counts))]
    if counts != dealt:
        place = next(place for place, (count, due) in enumerate(zip(counts, dealt, strict=True)) if count != due)
        raise UserError(
            str(replies[place]),
            f"expected {dealt[place]} of {sum(counts)} replies in this shard, found {counts[place]}",
            "delete the folder of the shards and run again, which restores the replies from the journals",
        )
