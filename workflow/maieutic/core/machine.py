"""The machine that a step runs on, as the record of a run keeps it."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from pydantic import BaseModel, ConfigDict


class Machine(BaseModel):
    """A machine without its name. cores: those that this process may use; memory_gib: all of it, None if not known."""

    model_config = ConfigDict(extra="forbid")

    processor: str
    cores: int
    memory_gib: float | None
    system: str

    @property
    def told(self) -> str:
        """One line for the page."""
        memory = "memory not known" if self.memory_gib is None else f"{self.memory_gib:g} GiB"
        return f"{self.cores} core{'' if self.cores == 1 else 's'} of {self.processor}, {memory}, {self.system}"


def this_machine(proc: Path = Path("/proc")) -> Machine:
    """The machine of this process. proc: where Linux tells of processor and memory."""
    fields = {name: value for file in ("cpuinfo", "meminfo") for name, value in lines_of(proc / file)}
    total = fields.get("MemTotal", "").split()
    return Machine(
        processor=fields.get("model name") or platform.machine() or "an unknown processor",
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_gib=round(int(total[0]) / 2**20, 1) if total and total[0].isdigit() else None,
        system=f"{platform.system()} {platform.machine()}",
    )


def computes_in_bfloat16(proc: Path = Path("/proc")) -> bool:
    """Whether this machine's processor multiplies bfloat16 itself: by AVX-512 BF16, AMX or Arm's BF16 instructions.

    One that does not emulates them, several times slower than float32. proc: where Linux tells of the processor.
    """
    flags = {
        flag for name, value in lines_of(proc / "cpuinfo") if name in {"flags", "Features"} for flag in value.split()
    }
    return bool(flags & {"avx512_bf16", "amx_bf16", "bf16"})


def lines_of(path: Path) -> list[tuple[str, str]]:
    """The `name: value` lines of a file; none where it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    pairs = (line.partition(":") for line in text.splitlines())
    return [(name.strip(), value.strip()) for name, _, value in pairs]
