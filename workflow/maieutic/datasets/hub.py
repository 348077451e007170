"""Datasets on the hub, by its own addresses: commits of names, files of commits. No client of the hub is needed."""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path
from typing import Any

from maieutic.core.errors import UserError
from maieutic.datasets.downloads import download, join_parquet

HUB = "https://huggingface.co"
TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
SECONDS = 30.0


def hub() -> str:
    """The hub's address."""
    return os.environ.get("HF_ENDPOINT", HUB).rstrip("/")


def headers() -> dict[str, str]:
    """How the user's token is shown, where there is one."""
    token = next((os.environ[name] for name in TOKENS if os.environ.get(name)), None)
    return {"Authorization": f"Bearer {token}"} if token else {}


def json_of(address: str, place: str) -> Any:
    """A JSON answer. place: what it is asked for. Raises UserError for none."""
    import requests

    try:
        answer = requests.get(address, headers=headers(), timeout=SECONDS)
    except requests.RequestException as error:
        mend = "run it where there is a network; HF_ENDPOINT names a mirror"
        raise UserError(place, f"{address} does not answer ({type(error).__name__})", mend) from None
    if answer.status_code in (401, 403):
        raise UserError(
            place, f"{address} answers {answer.status_code}", "ask for access on its page, and set HF_TOKEN"
        )
    if not answer.ok:
        raise UserError(place, f"{address} answers {answer.status_code}", "mend repo or revision in the registry")
    try:
        return answer.json()
    except ValueError:
        raise UserError(place, f"{address} answers no JSON", "check HF_ENDPOINT") from None


def commit_of(kind: str, repo: str, revision: str, place: str) -> dict[str, str]:
    """The commit that a branch or tag of a hub repository is, and where that was looked up. kind: models, datasets."""
    address = f"{hub()}/api/{kind}/{repo}/revision/{revision.replace('/', '%2F')}"
    content = json_of(address, place)
    commit = content.get("sha") if isinstance(content, dict) else None
    if not isinstance(commit, str):
        raise UserError(place, f"{address} names no commit", "look it up on the hub's page and set revision")
    return {"revision": commit, "source": address}


def fetch_parquet(
    repo: str, revision: str, pattern: str, folder: Path, out: Path, place: str, read_seconds: float
) -> None:
    """Download the Parquet files of a commit, and join them in the order of their names.

    folder: for the parts; a try after an interrupted one goes on in it. Raises UserError where there are none.
    """
    tree = json_of(f"{hub()}/api/datasets/{repo}/tree/{revision}?recursive=true", place)
    names = sorted(str(entry.get("path")) for entry in tree if isinstance(entry, dict))
    files = [name for name in names if fnmatch.fnmatch(name, pattern)]
    if not files:
        raise UserError(f"{place}.hub.files", f"no file of {repo} is {pattern}", "mend the pattern")
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for number, name in enumerate(files):
        parts.append(folder / f"{number}.parquet")
        if parts[-1].exists():
            continue
        partial = parts[-1].with_suffix(".part")
        download(f"{hub()}/datasets/{repo}/resolve/{revision}/{name}", partial, read_seconds, headers())
        partial.replace(parts[-1])
    join_parquet(parts, out)
