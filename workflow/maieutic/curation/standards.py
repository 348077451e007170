"""The hierarchy of the Common Core standards: domains, clusters, standards (Lucy et al., 2024, tag by it)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from maieutic.core.documents import read_yaml
from maieutic.core.paths import RESOURCES
from maieutic.curation.records import Standard

FILE = RESOURCES / "curation/standards.yaml"


class Cluster(NamedTuple):
    """A cluster of standards. standards: their texts by code."""

    code: str
    text: str
    grade: str
    domain: str
    standards: dict[str, str]


class Domain(NamedTuple):
    """A domain of the K-8 curriculum, its clusters grade by grade."""

    code: str
    text: str
    clusters: tuple[Cluster, ...]


@cache
def domains(path: Path = FILE) -> tuple[Domain, ...]:
    """The eleven domains."""
    entries = read_yaml(path)["domains"]
    return tuple(
        Domain(
            domain["code"],
            domain["text"],
            tuple(
                Cluster(cluster["code"], cluster["text"], cluster["grade"], domain["text"], dict(cluster["standards"]))
                for cluster in domain["clusters"]
            ),
        )
        for domain in entries
    )


def options(**texts: str) -> list[dict[str, str]]:
    """What a stage chooses from."""
    return [{"code": code, "text": text} for code, text in texts.items()]


def domain_options() -> list[dict[str, str]]:
    """The domains."""
    return options(**{domain.code: domain.text for domain in domains()})


def clusters_of(codes: list[str]) -> list[Cluster]:
    """The clusters of some domains, in the order of the choice."""
    known = {domain.code: domain for domain in domains()}
    return [cluster for code in codes for cluster in known[code].clusters]


def cluster_options(chosen: list[str]) -> list[dict[str, str]]:
    """The clusters of the chosen domains."""
    return options(**{cluster.code: f"grade {cluster.grade}: {cluster.text}" for cluster in clusters_of(chosen)})


def standard_options(domain_codes: list[str], chosen: list[str]) -> list[dict[str, str]]:
    """The standards of the chosen clusters."""
    known = {cluster.code: cluster for cluster in clusters_of(domain_codes)}
    return options(**{code: text for name in chosen for code, text in known[name].standards.items()})


def standards_of(domain_codes: list[str], chosen: list[str]) -> list[Standard]:
    """The chosen standards as records."""
    by_code = {code: cluster for cluster in clusters_of(domain_codes) for code in cluster.standards}
    return [
        Standard(
            code=code,
            grade=by_code[code].grade,
            domain=by_code[code].domain,
            cluster=by_code[code].text,
            standard=by_code[code].standards[code],
        )
        for code in chosen
    ]
