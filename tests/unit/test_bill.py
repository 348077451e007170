"""The bill of materials: packages, models and data with versions and licences."""

from __future__ import annotations

import json
from collections import Counter
from email.message import Message
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from maieutic.plan.bill import licence_of, sbom
from maieutic.report.page import GRID


def test_the_bill_of_materials_lists_packages_models_and_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "bom.json"
    sbom(out=out)
    text = out.read_text(encoding="utf-8")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    parts = json.loads(text)["components"]
    kinds = Counter(part["type"] for part in parts)
    assert kinds["library"] > 100 and kinds["machine-learning-model"] > 50 and kinds["data"] > 20
    by_name = {part["name"]: part for part in parts}
    assert by_name["snakemake"]["version"] == "9.27.1" and by_name["snakemake"]["purl"] == "pkg:pypi/snakemake@9.27.1"
    assert by_name["smollm2-135m"]["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    assert by_name["smollm2-135m"]["hashes"][0]["alg"] == "SHA-256"
    library = by_name["datatables.net"]
    assert library["licenses"] == [{"license": {"id": "MIT"}}] and library["purl"].startswith("pkg:npm/datatables.net@")
    assert f"DataTables {library['version']}\n" in GRID.read_text(encoding="utf-8"), "the page holds what the lock says"
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == len(parts) and "gsm8k" in printed and "not stated" in printed


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"License-Expression": "MIT"}, "MIT"),
        ({"License": "MIT License\n\nCopyright (c) 2020"}, "MIT License"),
        ({"License": "x" * 500, "Classifier": "License :: OSI Approved :: BSD License"}, "BSD License"),
        ({"Classifier": "Topic :: Software"}, None),
        ({}, None),
    ],
)
def test_a_package_states_its_licence_in_one_of_three_places(fields: dict[str, str], licence: str | None) -> None:
    metadata = Message()
    for name, value in fields.items():
        metadata[name] = value

    class Package:
        pass

    package = Package()
    package.metadata = metadata
    assert licence_of(package) == licence
