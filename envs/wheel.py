"""Hooks of the wheel's build: its dependencies, from the driver's lock, its files, and the commit of the code."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

NAME = re.compile(r"^([A-Za-z0-9._-]+)(?:[<>=!~ ]|$)")  # a requirement's name at the beginning of its line
INCLUDED = ("Snakefile", "workflow", "resources", "config", "profiles", "envs", "containers")
START = "envs/maieutic_start.py"  # the module of the command `maieutic`
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


class WorkflowFiles(BuildHookInterface):
    """Includes the workflow's files, and a file with the commit if they are a checkout without changes."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files to those that the build includes. version: kind of the build."""
        commands = (["rev-parse", "--show-toplevel"], ["rev-parse", "HEAD"], ["status", "--porcelain"])
        top, commit, changes = (self.git(*words) for words in commands)
        is_checkout = top is not None and Path(top).resolve() == Path(self.root).resolve()
        # A checkout may have images, environments and files of its own, so only what git knows is included.
        listed = self.git("ls-files", "-z", "--", *INCLUDED) if is_checkout else None
        files = listed.split("\0") if listed else self.files()
        for name in filter(None, files):
            if (Path(self.root) / name).is_file():
                place = Path(name).name if name == START else f"maieutic_workflow/{name}"
                build_data["force_include"][str(Path(self.root) / name)] = place
        plugin = Path(self.root, "workflow/plugin/snakemake_logger_plugin_maieutic")
        build_data["force_include"][str(plugin)] = plugin.name  # Snakemake looks for plugins among installed packages
        if is_checkout and commit and changes == "":
            path = Path(tempfile.mkdtemp()) / "COMMIT"
            path.write_text(f"{commit}\n", encoding="utf-8")
            build_data["force_include"][str(path)] = COMMIT_FILE

    def files(self) -> Iterator[str]:
        """Yield the files of a copy without git."""
        for name in INCLUDED:
            path = Path(self.root) / name
            for file in [path] if path.is_file() else sorted(path.rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    yield str(file.relative_to(self.root))

    def git(self, *words: str) -> str | None:
        """Return the output of a git command; None if it fails."""
        done = subprocess.run(["git", "-C", self.root, *words], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None
