"""Extensions of a run: folders anywhere that add benchmarks, tasks, prompts, rubrics and loaders to the shipped ones.

An extension has the layout of the checkout, with any of these folders:

| folder | content |
| --- | --- |
| `resources/benchmarks/NAME` | cards and prompts of a benchmark, shipped or new, with its `rubrics` and `printed.csv` |
| `resources/rubrics` | rubric cards and their prompts |
| `workflow/maieutic/benchmarks/NAME` | code of a new benchmark (`maieutic.benchmarks`) |

The key `extensions` of a run file names the folders. They are active in a process if the environment variable VARIABLE
names them: Snakemake sets it for its jobs, and the command line for the commands of people. A run without the key uses
no extension.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from maieutic.core.errors import UserError, check_all
from maieutic.core.paths import CONFIG as CONFIG_PATTERN
from maieutic.core.paths import HOME, RESOURCES, shipped_name
from maieutic.core.yaml_files import read_yaml

VARIABLE = "MAIEUTIC_EXTENSIONS"
LISTED = "extensions"  # folder of extensions in lists of files and in shared runs
CONFIG = Path(CONFIG_PATTERN).name
CODE = Path("workflow/maieutic/benchmarks")
SHIPPED_CODE = Path(__file__).parents[1] / "benchmarks"


def activate_extensions(folders: Iterable[str | Path]) -> None:
    """Make the extensions in these folders those of this process and of its children."""
    os.environ[VARIABLE] = os.pathsep.join(str(Path(folder).absolute()) for folder in folders)


def check_extensions(folders: Sequence[str]) -> None:
    """Activate the extensions of a run. Raises UserError if a folder is not an extension, or if two clash."""
    activate_extensions(folders)
    names = [Path(folder).absolute().name for folder in folders]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise UserError(f"extensions[{number}]", f"another extension has the name {name}", "rename its folder")
    check_all(partial(check_extension, number, Path(folder)) for number, folder in enumerate(folders))


def check_extension(number: int, folder: Path) -> None:
    """Raise UserError if a folder is not an extension, or adds code under the name of a shipped benchmark."""
    place = f"extensions[{number}]"
    parts = [folder / "resources/benchmarks", folder / "resources/rubrics", folder / CODE]
    if not any(part.is_dir() for part in parts):
        problem = f"expected a folder with resources/benchmarks, resources/rubrics or {CODE}, found none in {folder}"
        raise UserError(place, problem, "correct the path, which is relative to the working folder")
    for path in sorted((folder / CODE).glob("*/__init__.py")):
        if (SHIPPED_CODE / path.parent.name).is_dir():
            raise UserError(place, f"{path.parent} has the name of a shipped benchmark", "rename this folder")


def extension_folders() -> list[Path]:
    """Return the folders of the active extensions as absolute paths, in the order of the run file."""
    return [Path(folder) for folder in os.environ.get(VARIABLE, "").split(os.pathsep) if folder]


def resource_folders() -> list[Path]:
    """Return the folders of cards, prompts and rubrics: the shipped one, then those of the active extensions."""
    return [RESOURCES, *(folder / "resources" for folder in extension_folders())]


def folders_with_code(folders: Iterable[str | Path]) -> list[Path]:
    """Return the extensions that contain code."""
    return [Path(folder) for folder in folders if (Path(folder) / CODE).is_dir()]


def code_folders() -> list[Path]:
    """Return the folders of the active extensions that contain the code of benchmarks."""
    return [folder / CODE for folder in folders_with_code(extension_folders())]


def benchmarks_with_code() -> list[str]:
    """Return the names of the benchmarks whose code is in an active extension."""
    return sorted(path.parent.name for folder in code_folders() for path in folder.glob("*/__init__.py"))


def listed_name(path: Path) -> str:
    """Return the name of a card, prompt or rubric in lists of files.

    It is `resources/...` for a shipped file, `extensions/NAME/...` for a file of an active extension, and the path of
    any other file.
    """
    for folder in extension_folders():
        if path.is_relative_to(folder):
            return f"{LISTED}/{folder.name}/{path.relative_to(folder)}"
    return shipped_name(path)


def listed_path(name: str) -> Path:
    """Return the path of a card, prompt or rubric by its name in lists of files. Inverse of `listed_name`."""
    parts = Path(name).parts
    if parts[:1] == (LISTED,):
        folder = next((folder for folder in extension_folders() if folder.name == parts[1]), HOME / LISTED / parts[1])
        return folder.joinpath(*parts[2:])
    return HOME / name


def activate_named_extensions(words: Sequence[str]) -> None:
    """Activate the extensions in the run files, or in the configuration of the run, that a command line names.

    words: the command and its arguments; `check FOLDER` names an extension itself. Without `--configfile` and `--run`,
    the active extensions stay. A file that cannot be read is left to the command, which reports it. `doctor --offline`
    reads the run files of strangers, so it activates nothing.
    """
    if "--offline" in words:
        return
    if words[:1] == ["check"] and len(words) > 1:
        activate_extensions(words[1:2])
    files, flag = [], ""
    for word in words[1:]:
        if word.startswith("--"):
            flag = word
        elif flag == "--configfile":
            files.append(Path(word))
        elif flag == "--run":
            files += [Path(word, CONFIG), Path(CONFIG_PATTERN.of(run=f"runs/{word}"))]
    if words[:1] in (["export"], ["share"]) and "--run" not in words:
        files.append(Path(CONFIG_PATTERN.of(run="report")))
    for file in filter(Path.is_file, files):
        with contextlib.suppress(UserError):
            content = read_yaml(file)
            if isinstance(content, dict) and isinstance(content.get("extensions"), list):
                activate_extensions(map(str, content["extensions"]))


def require_active(folders: Sequence[str]) -> None:
    """Raise UserError unless the extensions of a finished run are active: its configuration may come from others."""
    if missing := [name for name in folders if Path(name).absolute() not in extension_folders()]:
        copies = os.pathsep.join(["/path/to/your/copy"] * len(missing))
        raise UserError(
            "extensions", f"the run uses {', '.join(missing)}", f"set {VARIABLE}={copies}, if you trust their code"
        )
