"""Hooks of the wheel's build: its dependencies, from the driver's lock, and a file with the commit of the code."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

NAME = re.compile(r"^([A-Za-z0-9._-]+)(?:[<>=!~ ]|$)")  # a requirement's name at the beginning of its line
COMMIT_FILE = "maieutic_workflow/COMMIT"  # read by `maieutic.launch.provenance`


def locked_requirements(root: Path) -> list[str]:
    """Return the direct requirements of the driver's environment with the versions of its lock."""
    wanted = [match[1] for line in (root / "envs/driver.in").read_text().splitlines() if (match := NAME.match(line))]
    locked = {
        name.casefold(): version
        for name, version in re.findall(
            r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", (root / "envs/driver.txt").read_text(), re.MULTILINE
        )
    }
    return [f"{name}=={locked[name.casefold()]}" for name in wanted]


class LockedRequirements(MetadataHookInterface):
    """Sets the dependencies of the wheel."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `dependencies`."""
        metadata["dependencies"] = locked_requirements(Path(self.root))


class CommitFile(BuildHookInterface):
    """Adds a file with the commit of the checkout, if it is one without changes."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file, and include it. version: kind of the build."""
        git = ["git", "-C", self.root]
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        changes = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=False)
        if commit.returncode == 0 and not changes.stdout.strip():
            path = Path(tempfile.mkdtemp()) / "COMMIT"
            path.write_text(commit.stdout, encoding="utf-8")
            build_data["force_include"][str(path)] = COMMIT_FILE
