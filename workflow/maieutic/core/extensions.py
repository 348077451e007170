"""Extensions of a run: folders anywhere that add benchmarks, tasks, prompts, rubrics and loaders to the shipped ones.

An extension has the layout of the checkout, with any of these folders:

| folder | content |
| --- | --- |
| `resources/benchmarks/NAME` | cards and prompts of a benchmark, shipped or new, with its `rubrics` and `printed.csv` |
| `resources/rubrics` | rubric cards and their prompts |
| `workflow/maieutic/benchmarks/NAME` | code of a new benchmark (`maieutic.benchmarks`) |

The key `extensions` of a run file names the folders. They are active in a process if the environment variable VARIABLE
names them: Snakemake sets it for its jobs, and the command line for the commands of people. A run without the key uses
no extension. The recorded configuration of a run activates none, since it may be that of a received run.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from maieutic.core.errors import UserError, check_all
from maieutic.core.paths import CONFIG as CONFIG_PATTERN
from maieutic.core.paths import HOME, RESOURCES, shipped_name
from maieutic.core.yaml_files import read_yaml

VARIABLE = "MAIEUTIC_EXTENSIONS"
MANIFEST = "manifest-sha256.txt"  # list of checksums of a shared run, which marks a received folder
LISTED = "extensions"  # folder of extensions in lists of files and in shared runs
CONFIG = Path(CONFIG_PATTERN).name
CODE = Path("workflow/maieutic/benchmarks")
SHIPPED_CODE = Path(__file__).parents[1] / "benchmarks"


def activate_extensions(folders: Iterable[str | Path]) -> None:
    """Make the extensions in these folders those of this process and of its children."""
    os.environ[VARIABLE] = os.pathsep.join(str(Path(folder).absolute()) for folder in folders)


def check_extensions(folders: Sequence[str]) -> None:
    """Check the extensions of a run, and leave only them active.

    Raises UserError if one is not active, if a folder is not an extension, or if two clash.
    """
    active = require_active(folders)
    names = [Path(folder).absolute().name for folder in folders]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise UserError(f"extensions[{number}]", f"another extension has the name {name}", "rename its folder")
    check_all(partial(check_extension, number, folder) for number, folder in enumerate(active))
    activate_extensions(active)


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


def is_recorded(file: Path) -> bool:
    """Return True if a configuration was recorded with a run, or lies in a received folder, so it may be a stranger's.

    A file that is given by a link is judged by both of its places.
    """
    return any(
        path.name == CONFIG or any((folder / MANIFEST).is_file() for folder in path.parents)
        for path in (file.absolute(), file.resolve())
    )


def extensions_of_run_files(files: Iterable[Path]) -> list[str]:
    """Return the extensions that run files of this machine name; those of recorded configurations are left out.

    Of several files the last one decides, as in Snakemake. A file that cannot be read is left to the command, which
    reports it.
    """
    named: list[str] = []
    for file in files:
        if not file.is_file() or is_recorded(file):
            continue
        with contextlib.suppress(UserError):
            content = read_yaml(file)
            if isinstance(content, dict) and isinstance(content.get("extensions"), list):
                named = list(map(str, content["extensions"]))
    return named


def activate_named_extensions(words: Sequence[str]) -> None:
    """Activate the extensions in the run files that a command line names.

    words: the command and its arguments; `check FOLDER` names an extension itself. Without a run file, the active
    extensions stay: those that the environment variable names. The configuration of a finished run activates nothing,
    since it may be that of a received run. Nor does `doctor --offline`, which reads the run files of strangers.
    """
    if "--offline" in words:
        return
    if words[:1] == ["check"] and len(words) > 1:
        activate_extensions(words[1:2])
    files, flag = [], ""
    for word in words[1:]:
        if word.startswith("--"):
            flag, _, value = word.partition("=")
            files += [Path(value)] if flag == "--configfile" and value else []
        elif flag == "--configfile":
            files.append(Path(word))
    if named := extensions_of_run_files(files):
        activate_extensions(named)


def extension_named(name: str) -> Path | None:
    """Return the active extension that a configuration names by its path or, elsewhere, by the name of its folder."""
    active = extension_folders()
    if Path(name).absolute() in active:
        return Path(name).absolute()
    return next((folder for folder in active if folder.name == Path(name).name), None)


def require_active(folders: Sequence[str]) -> list[Path]:
    """Return the active extensions that a run uses.

    Raises UserError unless all of them are active: a configuration does not activate code by itself, because it may
    be that of a received run.
    """
    folder_by_name = {name: extension_named(name) for name in folders}
    if missing := [name for name, folder in folder_by_name.items() if folder is None]:
        problem = f"the run uses {', '.join(missing)}, and a recorded configuration activates no code by itself"
        copies = [*map(str, extension_folders()), *map(local_copy, missing)]
        value = shlex.quote(os.pathsep.join(copies))
        raise UserError("extensions", problem, f"if you trust their code: export {VARIABLE}={value}")
    return [folder for folder in folder_by_name.values() if folder is not None]


def local_copy(name: str) -> str:
    """Return the path of an extension of this machine, or a placeholder for one that may be from another person."""
    folder = Path(name).absolute()
    is_own = folder.is_dir() and not any((parent / MANIFEST).is_file() for parent in folder.resolve().parents)
    return str(folder) if is_own else f"/path/to/your/copy/{folder.name}"


def extension_files() -> list[Path]:
    """Return the cards, prompts, rubrics and code of the active extensions, without links that lead out of them."""
    return [
        path
        for folder in extension_folders()
        for part in (folder / "resources", folder / "workflow")
        for path in sorted(part.rglob("*"))
        if path.is_file()
        and path.resolve().is_relative_to(folder.resolve())
        and not any(name.startswith(".") or name == "__pycache__" for name in path.relative_to(folder).parts)
    ]
