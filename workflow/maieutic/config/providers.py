"""What hosted models of some providers take and cost (resources/providers.yaml), for entries that are written anew."""

from __future__ import annotations

from datetime import date
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml
from pydantic import Field, TypeAdapter

from maieutic.config.models import Entry, Price
from maieutic.core import paths

FILE = paths.RESOURCES / "providers.yaml"


class Family(Entry):
    """Models of a provider that take the same. names: patterns; entry: their keys; pages: where that was read."""

    names: list[str]
    entry: dict[str, Any]
    pages: list[str]


class Provider(Entry):
    """A provider's endpoint and models. read: the day on which its pages were read; prices: by pattern of a name."""

    base_url: str
    key_env: str
    read: date
    priced_at: str
    models: list[Family]
    prices: dict[str, Price] = Field(description="US dollars per million tokens")


class Known(NamedTuple):
    """An entry for a model of a known provider, and a line for each source that it follows."""

    entry: dict[str, Any]
    sources: list[str]


@cache
def providers() -> dict[str, Provider]:
    """Return the providers by name."""
    return TypeAdapter(dict[str, Provider]).validate_python(yaml.safe_load(FILE.read_text(encoding="utf-8")))


def provider_of(base_url: str) -> Provider | None:
    """Return the provider at an address, or None."""
    host = urlsplit(base_url).hostname
    return next((one for one in providers().values() if urlsplit(one.base_url).hostname == host), None)


def known_entry(provider: Provider, model: str) -> Known:
    """Return the keys of an entry for a provider's model, with its price where that is known."""
    family = next(family for family in provider.models if any(fnmatchcase(model, name) for name in family.names))
    price = next((price for name, price in provider.prices.items() if fnmatchcase(model, name)), None)
    entry = {"key_env": provider.key_env, **family.entry}
    sources = [f"as {page} says, read {provider.read}, not run here" for page in family.pages]
    if price is not None:
        entry["price"] = price.model_dump(exclude_none=True)
        sources.append(f"price: {provider.priced_at}, read {provider.read}")
    return Known(entry, sources)
