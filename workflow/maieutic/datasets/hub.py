"""Access to the Hugging Face hub over HTTP: commits of branches and tags, and the Parquet files of a commit."""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path
from typing import Any

from maieutic.core.errors import UserError
from maieutic.datasets.downloads import download_file, join_parquet

HUB = "https://huggingface.co"
TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
HUB_TIMEOUT = 30.0


def hub_address() -> str:
    """Return the address of the hub, or of the mirror that HF_ENDPOINT names."""
    return os.environ.get("HF_ENDPOINT", HUB).rstrip("/")


def hub_headers() -> dict[str, str]:
    """Return the authorisation header with the user's token, or an empty mapping if the user has no token."""
    token = next((os.environ[name] for name in TOKEN_VARIABLES if os.environ.get(name)), None)
    return {"Authorization": f"Bearer {token}"} if token else {}


def fetch_json(address: str, place: str) -> Any:
    """Return the JSON content at an address. Raises UserError if the request fails. place: config key for messages."""
    import requests

    try:
        answer = requests.get(address, headers=hub_headers(), timeout=HUB_TIMEOUT)
    except requests.RequestException as error:
        fix = "run the command on a machine with network access, or set HF_ENDPOINT to a mirror"
        raise UserError(place, f"{address} does not answer ({type(error).__name__})", fix) from None
    if answer.status_code in (401, 403):
        raise UserError(
            place,
            f"{address} answers with status {answer.status_code}",
            "request access on the repository's page, and set HF_TOKEN",
        )
    if not answer.ok:
        problem = f"{address} answers with status {answer.status_code}"
        raise UserError(place, problem, "correct repo or revision in the registry")
    try:
        return answer.json()
    except ValueError:
        raise UserError(place, f"expected JSON from {address}, found another format", "correct HF_ENDPOINT") from None


def hub_commit(kind: str, repo: str, revision: str, place: str) -> dict[str, str]:
    """Return the commit of a branch or tag of a hub repository, and the address of the request.

    kind: `models` or `datasets`; place: config key for messages.
    """
    address = f"{hub_address()}/api/{kind}/{repo}/revision/{revision.replace('/', '%2F')}"
    content = fetch_json(address, place)
    commit = content.get("sha") if isinstance(content, dict) else None
    if not isinstance(commit, str):
        fix = "look up the commit on the repository's page, and set revision to it"
        raise UserError(place, f"expected a commit from {address}, found none", fix)
    return {"revision": commit, "source": address}


def fetch_parquet(
    repo: str, revision: str, pattern: str, folder: Path, out: Path, place: str, read_seconds: float
) -> None:
    """Download the Parquet files of a commit and join them in the order of their names.

    pattern: pattern of the files' paths; folder: folder of the downloaded files, where an interrupted download resumes;
    place: config key for messages. Raises UserError if no file matches.
    """
    tree = fetch_json(f"{hub_address()}/api/datasets/{repo}/tree/{revision}?recursive=true", place)
    names = sorted(str(entry.get("path")) for entry in tree if isinstance(entry, dict))
    files = [name for name in names if fnmatch.fnmatch(name, pattern)]
    if not files:
        raise UserError(f"{place}.hub.files", f"no file of {repo} matches {pattern}", "correct the pattern")
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for number, name in enumerate(files):
        parts.append(folder / f"{number}.parquet")
        if parts[-1].exists():
            continue
        partial = parts[-1].with_suffix(".part")
        download_file(
            f"{hub_address()}/datasets/{repo}/resolve/{revision}/{name}", partial, read_seconds, hub_headers()
        )
        partial.replace(parts[-1])
    join_parquet(parts, out)
