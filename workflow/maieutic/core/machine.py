"""Description of the machine on which a job runs, for the record of a run."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from pydantic import BaseModel, ConfigDict


class Machine(BaseModel):
    """Anonymous description of a machine.

    cores: number of cores that this process may use; memory_gib: total memory, None if unknown.
    """

    model_config = ConfigDict(extra="forbid")

    processor: str
    cores: int
    memory_gib: float | None
    system: str

    @property
    def summary(self) -> str:
        """Description in one line, for the report page."""
        memory = "unknown memory" if self.memory_gib is None else f"{self.memory_gib:g} GiB"
        return f"{self.cores} core{'' if self.cores == 1 else 's'} of {self.processor}, {memory}, {self.system}"


def this_machine(proc: Path = Path("/proc")) -> Machine:
    """Return the description of the machine that this process runs on. proc: folder of Linux's proc file system."""
    fields = {name: value for file in ("cpuinfo", "meminfo") for name, value in read_name_values(proc / file)}
    total = fields.get("MemTotal", "").split()
    return Machine(
        processor=fields.get("model name") or platform.machine() or "an unknown processor",
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_gib=round(int(total[0]) / 2**20, 1) if total and total[0].isdigit() else None,
        system=f"{platform.system()} {platform.machine()}",
    )


def has_bfloat16(proc: Path = Path("/proc")) -> bool:
    """Return True if this machine's processor has bfloat16 instructions: AVX-512 BF16, AMX or Arm's BF16.

    Other processors emulate these instructions, several times slower than float32.
    proc: folder of Linux's proc file system.
    """
    flags = {
        flag
        for name, value in read_name_values(proc / "cpuinfo")
        if name in {"flags", "Features"}
        for flag in value.split()
    }
    return bool(flags & {"avx512_bf16", "amx_bf16", "bf16"})


def read_name_values(path: Path) -> list[tuple[str, str]]:
    """Return the `name: value` lines of a file; empty if the file cannot be read."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    pairs = (line.partition(":") for line in text.splitlines())
    return [(name.strip(), value.strip()) for name, _, value in pairs]
