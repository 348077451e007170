"""A run as an RO-Crate by the Workflow Run profile: what was run on what, by whom, at what cost, with what result."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rocrate.model.contextentity import ContextEntity
from rocrate.model.person import Person
from rocrate.rocrate import ROCrate

from maieutic.core import paths
from maieutic.core.files import safe_name, write_json, write_text
from maieutic.plan.provenance import copy_of
from maieutic.report.record.costs import servers, shown, tokens_by_model, told, with_shares, works
from maieutic.report.record.croissant import croissant_of
from maieutic.report.record.opened import OpenRun
from maieutic.report.record.samples import hub_name
from maieutic.report.record.summary import markdown
from maieutic.report.tables import label_of
from maieutic.serving.keeper import DOING

PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
PARAMETER = "https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE"
WORKFLOW = "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"
LICENCE = "https://spdx.org/licenses/Apache-2.0"
MEDIA = {
    ".json": "application/json", ".jsonl": "application/jsonl", ".yaml": "application/yaml", ".csv": "text/csv",
    ".html": "text/html", ".parquet": "application/vnd.apache.parquet", ".txt": "text/plain", ".js": "text/javascript",
    ".md": "text/markdown",
}  # fmt: skip


def describe(run: OpenRun, folder: Path, digests: Mapping[str, str], author: str | None) -> None:
    """Write ro-crate-metadata.json, README.md and a Croissant file a data set into a folder that holds the run's files.

    digests: SHA-256 of the run's files by their paths from the folder; author: who ran it.
    """
    write_text(folder / "README.md", readme(run))
    crate = ROCrate(version="1.1")  # of which the profiles are
    tutors = ", ".join(label_of(run.plan, name) for name in run.plan.run.tutors[:3])
    crate.name = f"Maieutic: {tutors} on {', '.join(run.plan.benchmarks)}"
    crate.description = "Tutoring benchmarks: configuration, items, replies, grades, scores and the page of one run."
    # An archive reads one licence: each data set has its own, which its entity names.
    crate.license = "; ".join(dict.fromkeys(["Apache-2.0 (workflow)", *licences_of(run).values()]))
    root = crate.root_dataset
    root["conformsTo"] = [
        crate.add(ContextEntity(crate, address, {"@type": "CreativeWork", "name": name, "version": version}))
        for address, (name, version) in PROFILES.items()
    ]
    crate.metadata.extra_contexts.append("https://w3id.org/ro/terms/workflow-run/context")
    workflow = add_workflow(run, crate, folder)
    files = {path: add_file(crate, folder, path, digest) for path, digest in digests.items()}
    crate.add_file(
        folder / "README.md", "README.md", properties={"encodingFormat": "text/markdown", "about": {"@id": "./"}}
    )
    config, scores, page = (files[run.plan.own(path)] for path in (paths.CONFIG, paths.SCORE_PARQUET, paths.PAGE))
    workflow["input"] = add_parameter(crate, "config", config)
    workflow["output"] = add_parameter(crate, "scores", scores)
    action = add_action(run, crate)
    action["instrument"] = workflow
    action["object"] = [config, *data_sets(run, crate, folder), *models(run, crate)]
    action["result"] = [scores, page]
    action["subjectOf"] = costs(run, crate)
    if author:
        action["agent"] = crate.add(Person(crate, f"#{safe_name(author)}", {"name": author}))
    root["datePublished"] = action["endTime"]
    root["mentions"] = [action]
    crate.metadata.write(folder)


def add_workflow(run: OpenRun, crate: ROCrate, folder: Path) -> Any:
    """The workflow's own file, which lies beside the package, wherever a run works."""
    own = folder / "workflow/Snakefile"
    write_text(own, (Path(__file__).parents[3] / own.name).read_text(encoding="utf-8"))
    commit = run.provenance.code.commit if run.provenance else None
    return crate.add_workflow(
        own, "workflow/Snakefile", main=True, lang="snakemake",
        properties={"name": "Maieutic", "version": commit or "unknown", "conformsTo": {"@id": WORKFLOW},
                    "license": LICENCE},
    )  # fmt: skip


def add_file(crate: ROCrate, folder: Path, path: str, digest: str) -> Any:
    """A file of the run with its size and checksum."""
    place = folder / path
    kind = MEDIA.get(place.suffix, "application/octet-stream")
    size = str(place.stat().st_size)
    return crate.add_file(place, path, properties={"encodingFormat": kind, "contentSize": size, "sha256": digest})


def add_parameter(crate: ROCrate, name: str, file: Any) -> Any:
    """What the workflow takes or gives, with the file that it was in this run."""
    parameter = crate.add(
        ContextEntity(
            crate,
            f"#{name}",
            {"@type": "FormalParameter", "name": name, "additionalType": "File",
             "conformsTo": {"@id": PARAMETER}, "workExample": {"@id": file.id}},
        )
    )  # fmt: skip
    file["exampleOfWork"] = parameter
    return parameter


def add_action(run: OpenRun, crate: ROCrate) -> Any:
    """The run itself: from its configuration to its page."""
    began, ended = (
        datetime.fromtimestamp(run.own(path).stat().st_mtime, UTC).isoformat(timespec="seconds")
        for path in (paths.CONFIG, paths.PAGE)
    )
    properties = {
        "@type": "CreateAction",
        "name": f"Run {run.plan.run.name or 'without a name'}",
        "description": "snakemake --cores all --configfile config.yaml",
        "startTime": began,
        "endTime": ended,
        "actionStatus": "http://schema.org/CompletedActionStatus",
    }
    return crate.add(ContextEntity(crate, "#run", properties))


def add_value(crate: ROCrate, identifier: str, name: str, value: str) -> Any:
    """Something that was measured, as a text."""
    properties = {"@type": "PropertyValue", "name": name, "value": value}
    return crate.add(ContextEntity(crate, f"#{identifier}", properties))


def data_sets(run: OpenRun, crate: ROCrate, folder: Path) -> list[Any]:
    """The data sets of a run, each with a Croissant file."""
    entities = []
    for name, dataset in run.plan.datasets.items():
        copy = copy_of(dataset, run.plan.edition)
        path = f"croissant/{safe_name(name)}.json"
        write_json(folder / path, croissant_of(name, dataset, copy, dataset.form_of(run.plan.edition)))
        described = crate.add_file(folder / path, path, properties={"encodingFormat": "application/ld+json"})
        properties = {
            "@type": "CreativeWork",
            "name": dataset.title,
            "identifier": (run.provenance.data.get(name) if run.provenance else None) or "not recorded",
            "license": dataset.licence,
            "subjectOf": {"@id": described.id},
        }
        if copy is not None and copy.url:
            properties["url"] = copy.url
        entities.append(crate.add(ContextEntity(crate, f"#data-{safe_name(name)}", properties)))
    return entities


def models(run: OpenRun, crate: ROCrate) -> list[Any]:
    """The tutors and graders of a run, with their revisions."""
    entities = []
    for name in dict.fromkeys([*run.plan.run.tutors, *run.plan.run.judges, *run.plan.reward_models]):
        entry = run.plan.models[run.plan.answering(name)]
        weights = getattr(entry, "weights", None)
        pin = getattr(weights, "revision", None) or getattr(weights, "sha256", None)
        properties = {
            "@type": "CreativeWork",
            "name": label_of(run.plan, name),
            "identifier": hub_name(run.plan, run.plan.answering(name)),
            "version": pin
            or ("trained by this run" if getattr(entry, "train", None) else "no weights of its own here"),
        }
        entities.append(crate.add(ContextEntity(crate, f"#model-{safe_name(name)}", properties)))
    return entities


def costs(run: OpenRun, crate: ROCrate) -> list[Any]:
    """What each stage of each tutor and judge took, and what servers took, by what they did."""
    kept = servers(run)
    entities = [
        add_value(crate, f"cost-{safe_name(work.name)}", work.title, told(measured))
        for work, measured in with_shares(list(works(run)), kept, tokens_by_model(run))
    ]
    for model, server in kept.items():
        parts = [
            f"{doing}: {shown('GPU hours', server.hours[doing])} GPU hours, "
            f"energy in joules {shown('joules', server.joules[doing])}"
            for doing in DOING
        ]
        entities.append(add_value(crate, f"servers-{safe_name(model)}", f"servers of {model}", "; ".join(parts)))
    if run.provenance and run.provenance.machine:
        entities.append(add_value(crate, "machine", "machine of the workflow", run.provenance.machine.told))
    return entities


def licences_of(run: OpenRun) -> dict[str, str]:
    """The licence of each data set of a run."""
    return {name: dataset.licence for name, dataset in run.plan.datasets.items()}


def readme(run: OpenRun) -> str:
    """What lies in the crate, how to check it, and the run in short."""
    lines = [
        "# A run of Maieutic",
        "",
        f"Open `{run.plan.own(paths.PAGE)}` in a browser: it needs no network.",
        "",
        "- Checksums: `sha256sum -c manifest-sha256.txt`",
        "- Grades from replies, scores from grades, the page from scores, without a server: `maieutic verify FOLDER`",
        "- What was run on what: `ro-crate-metadata.json` (RO-Crate, Workflow Run profile)",
        "",
        "Items and labels stay under the licences of their data sets:",
        "",
        *(f"- {name}: {licence}" for name, licence in licences_of(run).items()),
        "",
    ]
    return "\n".join(lines) + "\n" + markdown(run)
