"""`maieutic sbom`: print a run's packages, models and data with licences, as a bill of materials (CycloneDX SBOM)."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.models import Model
from maieutic.config.settings import Config, read_config
from maieutic.core.files import atomic_file
from maieutic.core.paths import HOME
from maieutic.tools.pinning import all_entries, merged_configuration, used_entries

log = logging.getLogger(__name__)
UNSTATED = "not stated"
PAGE = "page"
ENVIRONMENTS = ("driver", "serve")
PAGE_LOCK = Path(__file__).resolve().parents[1] / "report/vendor/package-lock.json"
CLASSIFIER = "License :: OSI Approved :: "
# Maximum length of a licence field in characters. Some packages put the whole text of the licence into the field.
LONGEST_LICENCE = 80


class SbomComponent(NamedTuple):
    """Package, model or dataset in a bill of materials.

    version: version, commit or checksum; source: environment of a package, Hub repository, path or URL.
    """

    kind: str
    name: str
    version: str | None
    licence: str | None
    source: str | None
    sha256: str | None = None


def sbom(*, configfile: list[Path] | None = None, out: Path | None = None) -> None:
    """Print packages, models and data with their versions and licences, and write them as CycloneDX (JSON) to `out`.

    configfile: run files whose models and data are listed; if omitted, all entries of the registries are listed.
    """
    raw = merged_configuration(configfile or [])
    if configfile:
        names, config = used_entries(raw), read_config(raw)
    else:
        names, config = all_entries(raw), read_config({**raw, "run": {"tutors": list(raw["models"]), "tasks": ["*"]}})
    parts = [
        *package_components(),
        *page_components(),
        *model_components(config, names.models),
        *dataset_components(config, names.datasets),
    ]
    for part in parts:
        print("  ".join([f"{part.kind:8}", f"{part.name:40}", f"{part.version or '-':44}", part.licence or UNSTATED]))
    unstated = sum(part.licence is None for part in parts)
    log.info("%d components, %d without a stated licence", len(parts), unstated)
    if out is not None:
        with atomic_file(out) as handle:
            handle.write(cyclonedx_json(parts))


def package_components() -> Iterator[SbomComponent]:
    """Yield a component for each package installed in an environment of this checkout."""
    for stack in ENVIRONMENTS:
        folders = [str(path) for path in (HOME / ".venv" / stack / "lib").glob("python3*/site-packages")]
        installed = {str(package.metadata["Name"]).lower(): package for package in distributions(path=folders)}
        for name, package in sorted(installed.items()):
            yield SbomComponent("package", name, package.version, licence_of(package), stack)


def page_components() -> Iterator[SbomComponent]:
    """Yield a component for each library that is bundled in the report page, from npm's lock file."""
    for place, entry in json.loads(PAGE_LOCK.read_text(encoding="utf-8"))["packages"].items():
        if place:  # the empty path is the root project
            yield SbomComponent(
                "package", place.removeprefix("node_modules/"), entry["version"], entry.get("license"), PAGE
            )


def licence_of(package: Distribution) -> str | None:
    """Return a package's licence: its SPDX expression, `License` field or classifiers, in this order; None if unset."""
    about = package.metadata
    fields = [*(about.get_all("License-Expression") or ()), *(about.get_all("License") or ())]
    stated = next((field.strip().partition("\n")[0].strip() for field in fields if field.strip()), "")
    if 0 < len(stated) <= LONGEST_LICENCE:
        return stated
    named = [line.removeprefix(CLASSIFIER) for line in about.get_all("Classifier") or () if line.startswith(CLASSIFIER)]
    return "; ".join(named) or None


def model_components(config: Config, names: list[str]) -> Iterator[SbomComponent]:
    """Yield a component for each registry entry with weights or with a hosted endpoint."""
    for name in sorted(names):
        entry: Model = config.models[name]
        weights = getattr(entry, "weights", None)
        if weights is not None:
            where = (
                getattr(weights, "repo", None) or getattr(weights, "package", None) or getattr(weights, "path", None)
            )
            version = getattr(weights, "revision", None) or getattr(weights, "version", None)
            yield SbomComponent("model", name, version, entry.licence, where, getattr(weights, "sha256", None))
        elif (base_url := getattr(entry, "base_url", None)) is not None:
            yield SbomComponent("model", name, getattr(entry, "model", None), entry.licence, base_url)


def dataset_components(config: Config, names: list[str]) -> Iterator[SbomComponent]:
    """Yield a component for each dataset's published source file."""
    for name in sorted(names):
        entry = config.datasets[name]
        copy = entry.published
        where = copy.url or (copy.hub.repo if copy.hub else None)
        version = copy.hub.revision if copy.hub else copy.sha256 or copy.blob
        yield SbomComponent("data", name, version, entry.licence, where, copy.sha256)


def cyclonedx_json(parts: list[SbomComponent]) -> str:
    """Return a bill of materials as CycloneDX 1.6 JSON. The source of each component is stored as a property."""
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
            more["purl"] = PackageURL("npm" if part.source == PAGE else "pypi", None, part.name, part.version)
        if part.sha256:
            more["hashes"] = [HashType(alg=HashAlgorithm.SHA_256, content=part.sha256)]
        bom.components.add(
            Component(
                name=part.name,
                type=kinds[part.kind],
                version=part.version,
                licenses=[licences.make_from_string(part.licence)] if part.licence else [],
                properties=[Property(name="maieutic:where", value=part.source)] if part.source else [],
                bom_ref=f"{part.kind}:{part.source if part.kind == 'package' else ''}:{part.name}",
                **more,
            )
        )
    bom.register_dependency(root, bom.components)
    return JsonV1Dot6(bom).output_as_string(indent=1)
