"""Registry keys and prices of known providers' hosted models (resources/providers.yaml), for `maieutic init`."""

from __future__ import annotations

from datetime import date
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml
from pydantic import Field, TypeAdapter

from maieutic.config.models import Price, StrictModel
from maieutic.core import paths

PROVIDERS_FILE = paths.RESOURCES / "providers.yaml"


class ModelFamily(StrictModel):
    """Models of one provider that share the same registry keys.

    names: patterns of the models' names; entry: registry keys with their values; pages: web pages about these keys.
    """

    names: list[str]
    entry: dict[str, Any]
    pages: list[str]


class Provider(StrictModel):
    """Endpoint, models and prices of a provider.

    read: date on which the provider's pages were read; priced_at: page with the prices; prices: patterns of model
    names, each with its price.
    """

    base_url: str
    key_env: str
    read: date
    priced_at: str
    models: list[ModelFamily]
    prices: dict[str, Price] = Field(description="Prices in US dollars per million tokens.")


class KnownEntry(NamedTuple):
    """Registry entry for a known provider's model. sources: comment lines that cite the pages with its values."""

    entry: dict[str, Any]
    sources: list[str]


@cache
def providers() -> dict[str, Provider]:
    """Return the known providers by name."""
    return TypeAdapter(dict[str, Provider]).validate_python(yaml.safe_load(PROVIDERS_FILE.read_text(encoding="utf-8")))


def provider_of(base_url: str) -> Provider | None:
    """Return the known provider whose endpoint has the same host as an address, or None."""
    host = urlsplit(base_url).hostname
    known = providers().values()
    return next((provider for provider in known if urlsplit(provider.base_url).hostname == host), None)


def known_entry(provider: Provider, model: str) -> KnownEntry:
    """Return a registry entry for a provider's model, with the model's price if known."""
    family = next(family for family in provider.models if any(fnmatchcase(model, name) for name in family.names))
    price = next((price for name, price in provider.prices.items() if fnmatchcase(model, name)), None)
    entry = {"key_env": provider.key_env, **family.entry}
    sources = [f"source: {page}, read {provider.read}, not run here" for page in family.pages]
    if price is not None:
        entry["price"] = price.model_dump(exclude_none=True)
        sources.append(f"price: {provider.priced_at}, read {provider.read}")
    return KnownEntry(entry, sources)
