"""One tutor's replies to one benchmark from the jobs that its items were shared among."""

from __future__ import annotations

import heapq
from contextlib import ExitStack
from itertools import groupby, zip_longest
from pathlib import Path

from maieutic.core.errors import UserError
from maieutic.core.files import whole_file


def gather_shards(replies: list[Path], prompts: list[Path], out: Path, prompts_out: Path) -> None:
    """Write the replies of all shards in the order of the items, and their prompts, each once.

    replies, prompts: of each shard, from the first to the last.
    """
    check_lengths(replies)
    with ExitStack() as stack, whole_file(out, "wb") as handle:
        lines = [stack.enter_context(open(path, "rb")) for path in replies]
        for group in zip_longest(*lines):
            handle.writelines(filter(None, group))
    with ExitStack() as stack, whole_file(prompts_out, "wb") as handle:
        merged = heapq.merge(
            *(stack.enter_context(open(path, "rb")) for path in prompts)
        )  # a line begins with its hash
        handle.writelines(line for line, _ in groupby(merged))


def check_lengths(replies: list[Path]) -> None:
    """Raises UserError where the shards' sizes are not those of one list that was dealt out."""
    counts = []
    for path in replies:
        with open(path, "rb") as handle:
            counts.append(sum(1 for _ in handle))
    dealt = [len(range(place, sum(counts), len(counts))) for place in range(len(counts))]
    if counts != dealt:
        place = next(place for place, (own, due) in enumerate(zip(counts, dealt, strict=True)) if own != due)
        raise UserError(
            str(replies[place]),
            f"a shard of {counts[place]} replies where {dealt[place]} of {sum(counts)} are due",
            "delete the folder of the shards and run again: they are rebuilt from the journals",
        )
