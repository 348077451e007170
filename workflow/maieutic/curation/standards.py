"""Hierarchy of Common Core standards (domains, clusters, standards) with which Lucy et al. (2024) tag problems."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from maieutic.core.paths import RESOURCES
from maieutic.core.yaml_files import read_yaml
from maieutic.curation.records import Standard

FILE = RESOURCES / "curation/standards.yaml"


class Cluster(NamedTuple):
    """A cluster of standards. standards: the texts of its standards by code."""

    code: str
    text: str
    grade: str
    domain: str
    standards: dict[str, str]


class Domain(NamedTuple):
    """A domain of the K-8 curriculum, with its clusters ordered by grade."""

    code: str
    text: str
    clusters: tuple[Cluster, ...]


@cache
def domains(path: Path = FILE) -> tuple[Domain, ...]:
    """Return the eleven domains of the hierarchy. path: file of the hierarchy."""
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


def as_options(**texts: str) -> list[dict[str, str]]:
    """Return texts as options of a tagging prompt. texts: the text of each option, with its code as the keyword."""
    return [{"code": code, "text": text} for code, text in texts.items()]


def domain_options() -> list[dict[str, str]]:
    """Return all domains as the options of a tagging prompt."""
    return as_options(**{domain.code: domain.text for domain in domains()})


def clusters_of(codes: list[str]) -> list[Cluster]:
    """Return the clusters of the domains with the given codes, in the order of the codes."""
    known = {domain.code: domain for domain in domains()}
    return [cluster for code in codes for cluster in known[code].clusters]


def cluster_options(chosen: list[str]) -> list[dict[str, str]]:
    """Return the clusters of the chosen domains as options of a tagging prompt. chosen: codes of the domains."""
    return as_options(**{cluster.code: f"grade {cluster.grade}: {cluster.text}" for cluster in clusters_of(chosen)})


def standard_options(domain_codes: list[str], chosen: list[str]) -> list[dict[str, str]]:
    """Return the standards of the chosen clusters as options of a tagging prompt. chosen: codes of the clusters."""
    known = {cluster.code: cluster for cluster in clusters_of(domain_codes)}
    return as_options(**{code: text for name in chosen for code, text in known[name].standards.items()})


def standards_of(domain_codes: list[str], chosen: list[str]) -> list[Standard]:
    """Return the chosen standards as records. chosen: codes of standards in the domains with the given codes."""
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
