"""`maieutic sbom`: what a run is made of, with licences: packages, models, data, as a CycloneDX bill of materials."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.models import Model
from maieutic.config.settings import Config, read_config
from maieutic.core.files import whole_file
from maieutic.core.paths import HOME
from maieutic.plan.pinning import configuration, everything, used

log = logging.getLogger(__name__)
UNKNOWN = "not stated"
PAGE = "page"
ENVIRONMENTS = ("driver", "serve")
PAGE_LOCK = Path(__file__).resolve().parents[1] / "report/vendor/package-lock.json"
CLASSIFIER = "License :: OSI Approved :: "
LONGEST_LICENCE = 80  # characters: some packages put the whole text into the field


class Part(NamedTuple):
    """A package, a model or a data set. version: or commit, or checksum; where: environment, hub name or address."""

    kind: str
    name: str
    version: str | None
    licence: str | None
    where: str | None
    sha256: str | None = None


def sbom(*, configfile: list[Path] | None = None, out: Path | None = None) -> None:
    """Print packages, models and data with their versions and licences, and write them as CycloneDX (JSON) to `out`.

    configfile: run files, whose models and data are listed; without them all of the registries are.
    """
    raw = configuration(configfile or [])
    if configfile:
        names, config = used(raw), read_config(raw)
    else:
        names, config = everything(raw), read_config({**raw, "run": {"tutors": list(raw["models"]), "tasks": ["*"]}})
    parts = [*packages(), *page_libraries(), *models(config, names.models), *datasets(config, names.datasets)]
    for part in parts:
        print("  ".join([f"{part.kind:8}", f"{part.name:40}", f"{part.version or '-':44}", part.licence or UNKNOWN]))
    unstated = sum(part.licence is None for part in parts)
    log.info("%d parts, %d of which state no licence here", len(parts), unstated)
    if out is not None:
        with whole_file(out) as handle:
            handle.write(as_json(parts))


def packages() -> Iterator[Part]:
    """The packages that are installed in each environment of this checkout."""
    for stack in ENVIRONMENTS:
        folders = [str(path) for path in (HOME / ".venv" / stack / "lib").glob("python3*/site-packages")]
        found = {str(each.metadata["Name"]).lower(): each for each in distributions(path=folders)}
        for name, package in sorted(found.items()):
            yield Part("package", name, package.version, licence_of(package), stack)


def page_libraries() -> Iterator[Part]:
    """The libraries that the report's page holds, by npm's lock."""
    for place, entry in json.loads(PAGE_LOCK.read_text(encoding="utf-8"))["packages"].items():
        if place:  # but for the lock's own entry
            yield Part("package", place.removeprefix("node_modules/"), entry["version"], entry.get("license"), PAGE)


def licence_of(package: Distribution) -> str | None:
    """The licence that a package states: its expression, else its field, else its classifiers."""
    about = package.metadata
    fields = [*(about.get_all("License-Expression") or ()), *(about.get_all("License") or ())]
    stated = next((field.strip().partition("\n")[0].strip() for field in fields if field.strip()), "")
    if 0 < len(stated) <= LONGEST_LICENCE:
        return stated
    named = [line.removeprefix(CLASSIFIER) for line in about.get_all("Classifier") or () if line.startswith(CLASSIFIER)]
    return "; ".join(named) or None


def models(config: Config, names: list[str]) -> Iterator[Part]:
    """Registry entries that have weights, or an endpoint of somebody else's."""
    for name in sorted(names):
        entry: Model = config.models[name]
        weights = getattr(entry, "weights", None)
        if weights is not None:
            where = (
                getattr(weights, "repo", None) or getattr(weights, "package", None) or getattr(weights, "path", None)
            )
            version = getattr(weights, "revision", None) or getattr(weights, "version", None)
            yield Part("model", name, version, entry.licence, where, getattr(weights, "sha256", None))
        elif (base_url := getattr(entry, "base_url", None)) is not None:
            yield Part("model", name, getattr(entry, "model", None), entry.licence, base_url)


def datasets(config: Config, names: list[str]) -> Iterator[Part]:
    """Source files of benchmarks."""
    for name in sorted(names):
        entry = config.datasets[name]
        copy = entry.published
        where = copy.url or (copy.hub.repo if copy.hub else None)
        version = copy.hub.revision if copy.hub else copy.sha256 or copy.blob
        yield Part("data", name, version, entry.licence, where, copy.sha256)


def as_json(parts: list[Part]) -> str:
    """A bill of materials, CycloneDX 1.6. Each part names its environment or source as a property."""
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model import HashAlgorithm, HashType, Property
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6
    from packageurl import PackageURL

    kinds = {
        "package": ComponentType.LIBRARY,
        "model": ComponentType.MACHINE_LEARNING_MODEL,
        "data": ComponentType.DATA,
    }
    licences = LicenseFactory()
    bom = Bom()
    root = bom.metadata.component = Component(name="maieutic", type=ComponentType.APPLICATION)
    for part in parts:
        more: dict[str, Any] = {}
        if part.kind == "package":
            more["purl"] = PackageURL("npm" if part.where == PAGE else "pypi", None, part.name, part.version)
        if part.sha256:
            more["hashes"] = [HashType(alg=HashAlgorithm.SHA_256, content=part.sha256)]
        bom.components.add(
            Component(
                name=part.name,
                type=kinds[part.kind],
                version=part.version,
                licenses=[licences.make_from_string(part.licence)] if part.licence else [],
                properties=[Property(name="maieutic:where", value=part.where)] if part.where else [],
                bom_ref=f"{part.kind}:{part.where if part.kind == 'package' else ''}:{part.name}",
                **more,
            )
        )
    bom.register_dependency(root, bom.components)
    return JsonV1Dot6(bom).output_as_string(indent=1)
