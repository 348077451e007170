"""Tests of the bill of materials (SBOM): packages, models and data with their versions and licences."""

from __future__ import annotations

import json
from collections import Counter
from email.message import Message
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from maieutic.config.settings import Config, read_config
from maieutic.report.page import DATATABLES
from maieutic.tools import bill_of_materials
from maieutic.tools.bill_of_materials import SbomComponent, cyclonedx_json, licence_of, sbom
from shipped import registries


@pytest.mark.slow
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
    assert f"DataTables {library['version']}\n" in DATATABLES.read_text(encoding="utf-8"), (
        "the page's library is that of the lock file"
    )
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == len(parts) and "gsm8k" in printed and "not stated" in printed


def test_a_package_is_listed_with_its_licence_and_environment() -> None:
    components = {(part.name, part.source): part for part in bill_of_materials.package_components()}
    [pydantic] = [part for (name, source), part in components.items() if (name, source) == ("pydantic", "driver")]
    assert (pydantic.kind, pydantic.version, pydantic.licence) == ("package", version("pydantic"), "MIT")
    assert list(components) == sorted(components, key=lambda key: (key[1], key[0])), (
        "sorted by environment, then by name"
    )


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"License-Expression": "MIT"}, "MIT"),
        ({"License": "MIT License\n\nCopyright (c) 2020"}, "MIT License"),
        ({"License": "x" * 500, "Classifier": "License :: OSI Approved :: BSD License"}, "BSD License"),
        ({"License-Expression": "MIT", "License": "BSD"}, "MIT"),
        ({"License-Expression": "  ", "License": " \n BSD \nmore"}, "BSD"),
        ({"License": "x" * 80}, "x" * 80),
        ({"License": "X"}, "X"),
        ({"License": "x" * 81}, None),
        ({"License": "x" * 81, "Classifier": "License :: OSI Approved"}, None),
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


def test_a_package_may_have_several_licences() -> None:
    metadata = Message()
    for name in (
        "Topic :: Software",
        "License :: OSI Approved :: BSD License",
        "License :: OSI Approved :: MIT License",
    ):
        metadata["Classifier"] = name
    assert licence_of(SimpleNamespace(metadata=metadata)) == "BSD License; MIT License"


MODELS = {
    "on-hub": ({"engine": "vllm", "licence": "MIT", "weights": {"repo": "org/m", "revision": "1" * 40}}, ("1" * 40, "MIT", "org/m", None)),
    "in-package": (
        {"engine": "vllm", "weights": {"package": "p", "version": "1.2", "file": "p/m.gguf", "sha256": "a" * 64}},
        ("1.2", None, "p", "a" * 64),
    ),
    "on-disk": ({"engine": "vllm", "weights": {"path": "here"}}, (None, None, "here", None)),
    "far": ({"engine": "hosted", "model": "m-1", "base_url": "http://127.0.0.1:9/v1", "licence": "own"}, ("m-1", "own", "http://127.0.0.1:9/v1", None)),
    "echo": ({"engine": "baseline", "tutor": "echo"}, None),
    "judge": ({"engine": "judge", "model": "far", "rubrics": ["tutorbench"]}, None),
}  # fmt: skip
FILE = {"title": "T", "licence": "CC0", "format": "jsonl", "fields": ["q"]}
DATA = {
    "by-checksum": ({"path": "a", "url": "https://x/a", "sha256": "b" * 64, "blob": "2" * 40}, ("b" * 64, "https://x/a", "b" * 64)),
    "by-blob": ({"path": "a", "url": "https://x/b", "blob": "2" * 40}, ("2" * 40, "https://x/b", None)),
    "of-hub": ({"path": "a", "hub": {"repo": "org/d", "files": "*.parquet", "revision": "3" * 40}}, ("3" * 40, "org/d", None)),
    "own": ({"path": "a"}, (None, None, None)),
}  # fmt: skip


@pytest.fixture(scope="module")
def config() -> Config:
    config = registries()
    config["models"] = {**config["models"], **{name: keys for name, (keys, _) in MODELS.items()}}
    files = {
        name: {**FILE, "format": "parquet" if "hub" in copy else "jsonl", "published": copy}
        for name, (copy, _) in DATA.items()
    }
    config["datasets"] = {**config["datasets"], **files}
    return read_config({**config, "run": {"tutors": ["echo"], "tasks": ["mrbench"]}})


def test_models_with_weights_or_an_endpoint_are_listed(config: Config) -> None:
    expected = [
        SbomComponent("model", name, *fields) for name, (_, fields) in sorted(MODELS.items()) if fields is not None
    ]
    assert (
        list(bill_of_materials.model_components(config, list(MODELS))) == expected
        and list(bill_of_materials.model_components(config, [])) == []
    )


def test_data_files_are_listed_with_their_pins(config: Config) -> None:
    expected = [
        SbomComponent("data", name, fields[0], "CC0", *fields[1:]) for name, (_, fields) in sorted(DATA.items())
    ]
    assert list(bill_of_materials.dataset_components(config, list(DATA))) == expected


def test_each_part_becomes_a_component_with_all_its_fields() -> None:
    parts = [
        SbomComponent("package", "a", "1", "MIT", "driver"), SbomComponent("package", "a", "1", None, "serve"),
        SbomComponent("package", "j", "2", "MIT", bill_of_materials.PAGE), SbomComponent("model", "m", None, "own words", "org/m", "a" * 64),
        SbomComponent("data", "d", "3" * 40, "CC0-1.0", None),
    ]  # fmt: skip
    document = json.loads(cyclonedx_json(parts))
    root = document["metadata"]["component"]
    assert (root["name"], root["type"]) == ("maieutic", "application")
    place_key = "maieutic:where"
    components = {
        component["bom-ref"]: {key: value for key, value in component.items() if key != "bom-ref"}
        for component in document["components"]
    }
    assert components == {
        "package:driver:a": {
            "name": "a", "type": "library", "version": "1", "purl": "pkg:pypi/a@1", "licenses": [{"license": {"id": "MIT"}}],
            "properties": [{"name": place_key, "value": "driver"}],
        },
        "package:serve:a": {"name": "a", "type": "library", "version": "1", "purl": "pkg:pypi/a@1", "properties": [{"name": place_key, "value": "serve"}]},
        "package:page:j": {
            "name": "j", "type": "library", "version": "2", "purl": "pkg:npm/j@2", "licenses": [{"license": {"id": "MIT"}}],
            "properties": [{"name": place_key, "value": "page"}],
        },
        "model::m": {
            "name": "m", "type": "machine-learning-model", "licenses": [{"license": {"name": "own words"}}],
            "hashes": [{"alg": "SHA-256", "content": "a" * 64}], "properties": [{"name": place_key, "value": "org/m"}],
        },
        "data::d": {"name": "d", "type": "data", "version": "3" * 40, "licenses": [{"license": {"id": "CC0-1.0"}}]},
    }  # fmt: skip
    assert {component["ref"]: sorted(component.get("dependsOn", [])) for component in document["dependencies"]}[
        root["bom-ref"]
    ] == sorted(components)
    assert cyclonedx_json(parts).startswith('{\n "')


def test_a_bill_covers_one_run_or_everything(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    parts = [SbomComponent("package", "a", None, None, "driver"), SbomComponent("package", "b", "1", "MIT", "serve")]
    monkeypatch.setattr(bill_of_materials, "package_components", lambda: iter(parts))
    monkeypatch.setattr(bill_of_materials, "page_components", lambda: iter(()))
    sbom()
    all_lines = capsys.readouterr().out.splitlines()
    assert (
        all_lines[0] == f"package   {'a':40}  {'-':44}  not stated"
        and all_lines[1] == f"package   {'b':40}  {'1':44}  MIT"
    )
    run = tmp_path / "run.yaml"
    run.write_text("edition: published\nrun: {tutors: [echo, smollm2-135m], tasks: [mrbench]}\n", encoding="utf-8")
    sbom(configfile=[run], out=tmp_path / "deep/bom.json")
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[1] for line in lines} >= {"a", "b", "smollm2-135m", "mrbench"} and len(lines) < 10 < len(
        all_lines
    )
    unstated = sum(line.endswith("  not stated") for line in lines)
    assert caplog.messages[-1] == f"{len(lines)} components, {unstated} without a stated licence"
    assert len(json.loads((tmp_path / "deep/bom.json").read_text(encoding="utf-8"))["components"]) == len(lines)


def test_the_pages_libraries_come_from_its_lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock = tmp_path / "package-lock.json"
    packages = {
        "": {"name": "page", "dependencies": {"grid": "1"}},
        "node_modules/grid": {"version": "1.0.2", "license": "MIT"},
        "node_modules/späte-liste": {"version": "3"},
    }
    lock.write_text(json.dumps({"lockfileVersion": 3, "packages": packages}, ensure_ascii=False), encoding="utf-8")
    monkeypatch.setattr(bill_of_materials, "PAGE_LOCK", lock)
    assert list(bill_of_materials.page_components()) == [
        SbomComponent("package", "grid", "1.0.2", "MIT", "page"),
        SbomComponent("package", "späte-liste", "3", None, "page"),
    ]
