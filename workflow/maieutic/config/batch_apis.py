"""Batch APIs of providers (resources/batch_apis.yaml): form, limits and prices."""

from __future__ import annotations

from datetime import date
from fnmatch import fnmatchcase
from functools import cache
from typing import Literal
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

from maieutic.core import paths

BATCH_APIS_FILE = paths.RESOURCES / "batch_apis.yaml"


class BatchApi(BaseModel):
    """Batch API of a provider. The defaults hold for providers that `resources/batch_apis.yaml` lacks.

    hosts: patterns of host names; form: `openai` or `other`; url_prefix: beginning of the `url` in a batch's lines;
    requests: maximum number of requests of one batch; mb: its maximum size in MB of 1,000,000 bytes; price_factor:
    factor on the usual price; page: web page with these values; read: day on which it was read.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    hosts: list[str] = []
    form: Literal["openai", "other"] = "openai"
    url_prefix: str = "/v1"
    requests: int = 50_000
    mb: float = 200
    price_factor: float = 1.0
    page: str = ""
    read: date | None = None


@cache
def batch_apis() -> dict[str, BatchApi]:
    """Return the known batch APIs by provider."""
    content = yaml.safe_load(BATCH_APIS_FILE.read_text(encoding="utf-8"))
    return TypeAdapter(dict[str, BatchApi]).validate_python(content)


def batch_api_of(base_url: str) -> BatchApi:
    """Return the batch API of the provider at an address. Unknown addresses are taken to have OpenAI's API."""
    host = urlsplit(base_url).hostname or ""
    known = (api for api in batch_apis().values() if any(fnmatchcase(host, pattern) for pattern in api.hosts))
    return next(known, BatchApi())
