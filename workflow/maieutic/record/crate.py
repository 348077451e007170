"""Description of a run as an RO-Crate with the Workflow Run profile: workflow, inputs, author, costs and results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from rocrate.model.contextentity import ContextEntity
from rocrate.model.person import Person
from rocrate.rocrate import ROCrate

from maieutic.config.models import RecordedModel
from maieutic.core import paths
from maieutic.core.files import safe_name, write_text
from maieutic.core.ledger import spent_since, valid_json_lines
from maieutic.plan.provenance import copy_of_edition
from maieutic.record.finished_run import FinishedRun, results_folder_of
from maieutic.record.summary import public_model_name, run_markdown
from maieutic.report.tables import display_label, runtime_table
from maieutic.report.trust import cost_rows
from maieutic.serving.lease_manager import ACTIVITIES

PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
PARAMETER_PROFILE = "https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE"
WORKFLOW_PROFILE = "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"
SOFTWARE_LICENCE = "https://spdx.org/licenses/Apache-2.0"
MEDIA_TYPE_BY_SUFFIX = {
    ".json": "application/json", ".jsonl": "application/jsonl", ".yaml": "application/yaml", ".csv": "text/csv",
    ".html": "text/html", ".parquet": "application/vnd.apache.parquet", ".txt": "text/plain", ".js": "text/javascript",
    ".md": "text/markdown",
}  # fmt: skip


def describe_crate(run: FinishedRun, folder: Path, digests: Mapping[str, str], author: str | None) -> None:
    """Describe the run's files in `folder`: write ro-crate-metadata.json and README.md.

    digests: SHA-256 of each file by its path relative to the folder; author: name of the person who made the run.
    """
    write_text(folder / "README.md", crate_readme(run))
    crate = ROCrate(version="1.1")  # the RO-Crate version that the profiles require
    tutors = ", ".join(display_label(run.plan, name) for name in run.plan.run.tutors[:3])
    crate.name = f"Maieutic: {tutors} on {', '.join(run.plan.benchmarks)}"
    crate.description = "Tutoring benchmarks: configuration, items, replies, grades, scores and the page of one run."
    # Archives read only this licence field, so it lists all licences. Each data set's entity also has its own licence.
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
    config, scores, page = (files[run.plan.run_path(path)] for path in (paths.CONFIG, paths.SCORE_PARQUET, paths.PAGE))
    workflow["input"] = add_parameter(crate, "config", config)
    workflow["output"] = add_parameter(crate, "scores", scores)
    action = add_action(run, crate)
    action["instrument"] = workflow
    action["object"] = [config, *add_data_sets(run, crate), *add_models(run, crate)]
    action["result"] = [scores, page]
    action["subjectOf"] = add_costs(run, crate)
    if author:
        action["agent"] = crate.add(Person(crate, f"#{safe_name(author)}", {"name": author}))
    root["datePublished"] = action["endTime"]
    root["mentions"] = [action]
    crate.metadata.write(folder)


def add_workflow(run: FinishedRun, crate: ROCrate, folder: Path) -> Any:
    """Add the workflow's Snakefile, copied from this checkout, and return the workflow's entity."""
    target = folder / "workflow/Snakefile"
    write_text(target, (Path(__file__).parents[3] / target.name).read_text(encoding="utf-8"))
    commit = run.provenance.code.commit if run.provenance else None
    return crate.add_workflow(
        target, "workflow/Snakefile", main=True, lang="snakemake",
        properties={"name": "Maieutic", "version": commit or "unknown", "conformsTo": {"@id": WORKFLOW_PROFILE},
                    "license": SOFTWARE_LICENCE},
    )  # fmt: skip


def add_file(crate: ROCrate, folder: Path, path: str, digest: str) -> Any:
    """Add a file of the run, with its size and checksum, to the crate, and return the file's entity."""
    place = folder / path
    kind = MEDIA_TYPE_BY_SUFFIX.get(place.suffix, "application/octet-stream")
    size = str(place.stat().st_size)
    return crate.add_file(place, path, properties={"encodingFormat": kind, "contentSize": size, "sha256": digest})


def add_parameter(crate: ROCrate, name: str, file: Any) -> Any:
    """Add an input or output of the workflow that is linked to the run's file, and return the parameter's entity."""
    parameter = crate.add(
        ContextEntity(
            crate,
            f"#{name}",
            {"@type": "FormalParameter", "name": name, "additionalType": "File",
             "conformsTo": {"@id": PARAMETER_PROFILE}, "workExample": {"@id": file.id}},
        )
    )  # fmt: skip
    file["exampleOfWork"] = parameter
    return parameter


def add_action(run: FinishedRun, crate: ROCrate) -> Any:
    """Add the run as an action, and return the action's entity.

    The action starts when the run's configuration was written, and it ends when the report page was written.
    """
    began, ended = (
        datetime.fromtimestamp(run.path_of(path).stat().st_mtime, UTC).isoformat(timespec="seconds")
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
    """Add a measured quantity to the crate as text, and return the quantity's entity."""
    properties = {"@type": "PropertyValue", "name": name, "value": value}
    return crate.add(ContextEntity(crate, f"#{identifier}", properties))


def add_data_sets(run: FinishedRun, crate: ROCrate) -> list[Any]:
    """Add the data sets of a run, and return their entities."""
    entities = []
    for name, dataset in run.plan.datasets.items():
        copy = copy_of_edition(dataset, run.plan.edition)
        properties = {
            "@type": "CreativeWork",
            "name": dataset.title,
            "identifier": (run.provenance.data.get(name) if run.provenance else None) or "not recorded",
            "license": dataset.licence,
        }
        if copy is not None and copy.url:
            properties["url"] = copy.url
        entities.append(crate.add(ContextEntity(crate, f"#data-{safe_name(name)}", properties)))
    return entities


def add_models(run: FinishedRun, crate: ROCrate) -> list[Any]:
    """Add the tutors and graders of a run with their revisions, and return their entities."""
    entities = []
    for name in dict.fromkeys([*run.plan.run.tutors, *run.plan.run.judges, *run.plan.reward_models]):
        entry = run.plan.models[run.plan.answering_entry(name)]
        weights = getattr(entry, "weights", None)
        pin = getattr(weights, "revision", None) or getattr(weights, "sha256", None)
        properties = {
            "@type": "CreativeWork",
            "name": display_label(run.plan, name),
            "identifier": public_model_name(run.plan, run.plan.answering_entry(name)),
            "version": pin or ("trained by this run" if getattr(entry, "train", None) else "no local weights"),
        }
        entities.append(crate.add(ContextEntity(crate, f"#model-{safe_name(name)}", properties)))
    return entities


def add_costs(run: FinishedRun, crate: ROCrate) -> list[Any]:
    """Add the costs of tutors and judges by stage and the costs of servers by activity, and return their entities."""
    servers_by_model = server_costs(run)
    entities = [
        add_value(crate, f"cost-{safe_name(work.name)}", work.title, format_quantities(measured))
        for work, measured in with_server_shares(list(stage_costs(run)), servers_by_model, tokens_by_model(run))
    ]
    for model, server in servers_by_model.items():
        parts = [
            f"{doing}: {format_quantity('GPU hours', server.hours[doing])} GPU hours, "
            f"energy in joules {format_quantity('joules', server.joules[doing])}"
            for doing in ACTIVITIES
        ]
        entities.append(add_value(crate, f"servers-{safe_name(model)}", f"servers of {model}", "; ".join(parts)))
    if run.provenance and run.provenance.machine:
        entities.append(add_value(crate, "machine", "machine of the workflow", run.provenance.machine.summary))
    return entities


def licences_of(run: FinishedRun) -> dict[str, str]:
    """Return the licence of each data set of a run, then those of its models that state one, by name."""
    models = {name: model.licence for name, model in run.plan.models.items() if model.licence}
    return {name: dataset.licence for name, dataset in run.plan.datasets.items()} | models


def crate_readme(run: FinishedRun) -> str:
    """Return the README of a crate: the crate's content, instructions to verify it, and a summary of the run."""
    lines = [
        "# A run of Maieutic",
        "",
        f"Open `{run.plan.run_path(paths.PAGE)}` in a browser. It needs no network.",
        "",
        "- To check the checksums: `sha256sum -c manifest-sha256.txt`",
        "- To recompute grades, scores and page from the replies, without a server: `maieutic verify FOLDER`",
        "- Code, inputs, models and costs of the run: `ro-crate-metadata.json` (RO-Crate, Workflow Run profile)",
        "",
        "Items and labels remain under the licences of their data sets, and weights under those of their models:",
        "",
        *(f"- {name}: {licence}" for name, licence in licences_of(run).items()),
        "",
    ]
    return "\n".join(lines) + "\n" + run_markdown(run)


NOT_MEASURED = "not measured"
SECONDS_PER_HOUR = 3600.0
MeasuredNumber = float | None


class StageCost(NamedTuple):
    """Cost of one tutor on one benchmark, or of one judge on one set of replies.

    model: registry entry of the model that answered, empty for a panel; tokens: number of prompt and generated tokens,
    0 for a panel; measured: requests, tokens, seconds and dollars by name, each None if it was not measured.
    """

    name: str
    title: str
    model: str
    tokens: int
    measured: dict[str, MeasuredNumber]


class ServerCost(NamedTuple):
    """GPU hours and joules of all servers of one model, each by activity. Joules are None if they were not measured."""

    hours: dict[str, float]
    joules: dict[str, MeasuredNumber]


def stage_costs(run: FinishedRun) -> Iterator[StageCost]:
    """Yield the cost of each tutor on each benchmark, and of each judge on each set of replies that it judged."""
    for row in runtime_table(run.plan, run.results).to_dict("records"):
        tutor, benchmark = row["tutor"], row["benchmark"]
        calls_model = not isinstance(run.plan.models[tutor], RecordedModel)
        measured = {
            "requests": row["requests"] if calls_model else None,
            "prompt tokens": row["prompt_tokens"] or None,
            "generated tokens": row["completion_tokens"] or None,
            "request seconds": row["request_seconds"] or None,
            "US dollars": None if row["usd"] != row["usd"] else row["usd"],
        }
        tokens = row["prompt_tokens"] + row["completion_tokens"]
        yield StageCost(f"{tutor}-{benchmark}", f"{tutor} on {benchmark}", tutor, tokens, measured)
    for judged in cost_rows(run.plan, run.results):
        judge, target = judged["name"], judged["what"]
        prompt, generated = judged["tokens"]
        measured = {
            "questions": judged["questions"],
            "prompt tokens": prompt or None,
            "generated tokens": generated or None,
            "US dollars": judged["usd"],
        }
        # A panel itself sends no requests. The tokens of its judges are counted under each judge.
        tokens, model = (0, "") if judged["panel"] else (prompt + generated, run.plan.answering_entry(judge))
        yield StageCost(f"{judge}-{target}", f"{display_label(run.plan, judge)} on {target}", model, tokens, measured)


def server_costs(run: FinishedRun) -> dict[str, ServerCost]:
    """Return the cost of each model's servers, from the records that the servers write when they shut down."""
    path = paths.SERVER_RECORD.within(results_folder_of(run.folder))
    records = list(valid_json_lines(path)) if path.exists() else []
    lines_by_model: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in records:
        if line["model"] in run.plan.models:
            lines_by_model[line["model"]].append(line)
    return {
        model: ServerCost(
            {
                doing: sum(line["gpus"] * line[f"{doing}_seconds"] for line in lines) / SECONDS_PER_HOUR
                for doing in ACTIVITIES
            },
            {doing: sum_if_measured([line.get(f"{doing}_joules") for line in lines]) for doing in ACTIVITIES},
        )
        for model, lines in lines_by_model.items()
    }


def sum_if_measured(numbers: list[MeasuredNumber]) -> MeasuredNumber:
    """Return the sum of the numbers, or None if the list is empty or contains None (not measured)."""
    known = [number for number in numbers if number is not None]
    return sum(known) if numbers and len(known) == len(numbers) else None


def tokens_by_model(run: FinishedRun) -> dict[str, int]:
    """Return each model's number of prompt and generated tokens, from the ledgers of all runs in the results folder.

    All of these runs are counted since they may share servers.
    """
    entries = run.plan.models
    tokens: dict[str, int] = defaultdict(int)
    for line in spent_since("", paths.JOURNALS.within(results_folder_of(run.folder))):
        model = line.model or (run.plan.answering_entry(line.asker) if line.asker in entries else line.asker)
        tokens[model] += line.prompt_tokens + line.completion_tokens
    return tokens


def with_server_shares(
    work_list: list[StageCost], servers_by_model: dict[str, ServerCost], model_tokens: Mapping[str, int]
) -> Iterator[tuple[StageCost, dict[str, MeasuredNumber]]]:
    """Yield each cost in `work_list` with its measured quantities and its share of the servers' busy time and energy.

    A server does not record for which tutor or judge it processes tokens. Busy GPU hours and joules are therefore
    divided in proportion to prompt and generated tokens. Start-up and idle time are not divided. model_tokens: number
    of tokens by model over all runs in the results folder. If this number is smaller than in `work_list`, ledger lines
    are missing, and the shares of the model's costs are None.
    """
    tokens: dict[str, int] = defaultdict(int)
    for work in work_list:
        tokens[work.model] += work.tokens
    for work in work_list:
        server, all_tokens = servers_by_model.get(work.model), model_tokens.get(work.model, 0)
        taken: dict[str, MeasuredNumber] = {"GPU hours": None, "joules": None}
        if server and work.tokens and all_tokens >= tokens[work.model]:
            part, joules = work.tokens / all_tokens, server.joules["busy"]
            taken = {"GPU hours": part * server.hours["busy"], "joules": None if joules is None else part * joules}
        yield work, {**work.measured, **taken}


def format_quantity(name: str, number: MeasuredNumber) -> str:
    """Format a quantity with the number of decimals usual for its name; None becomes NOT_MEASURED."""
    if number is None:
        return NOT_MEASURED
    return {"GPU hours": f"{number:.3f}", "joules": f"{number:.0f}"}.get(name, f"{number}")


def format_quantities(measured: dict[str, MeasuredNumber]) -> str:
    """Format measured quantities as `name: value`, separated by commas."""
    return ", ".join(f"{name}: {format_quantity(name, number)}" for name, number in measured.items())
