"""`maieutic transcripts`: write a run file and a data folder that evaluate a team's own tutoring conversations."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from cyclopts import Parameter

from maieutic.config.models import JudgeModel
from maieutic.config.registry import unknown_name
from maieutic.config.rubrics import read_rubric
from maieutic.core.errors import UserError
from maieutic.core.extensions import activate_extensions
from maieutic.core.files import atomic_file, remove, sha256_of, write_json_lines, write_text
from maieutic.core.ledger import valid_json_lines
from maieutic.core.paths import RESOURCES
from maieutic.core.plugins import benchmark_names
from maieutic.core.speakers import TUTOR
from maieutic.core.terminal import say
from maieutic.core.yaml_files import read_yaml
from maieutic.launch.bill import bill_of
from maieutic.launch.config_files import merged_configuration
from maieutic.launch.messages import requests_line
from maieutic.launch.requests import NewRequests
from maieutic.plan.plan import Plan
from maieutic.tools.counting import count_requests
from maieutic.tools.forgetting import reserved_names
from maieutic.tools.new_run import (
    DEFAULT_LABEL_LIMIT,
    NOT_HOSTED,
    Hosted,
    entry_name_for,
    plan_of_run_file,
    unused_entry_name,
    write_run_file,
)
from maieutic.transcripts.moments import (
    DATA_FILE,
    DATASET_SUFFIX,
    FIELDS,
    FOLDER_MARK,
    REPLIES_FILE,
    Record,
    conversation_record,
    dialogue_text,
    reply_of,
    sample_moments,
    whole_id,
    with_moments,
)
from maieutic.transcripts.reading import Transcripts, preview_lines, read_transcripts
from maieutic.transcripts.redaction import PATTERNS, Redactor
from maieutic.transcripts.understanding import Conversation, Reading

BASES = RESOURCES / "transcripts"  # cards, prompts and rubrics that the command copies into the data folder
RECORDED = "recorded"  # name of the tutor whose replies are those of the transcripts
COMPARISON, CONVERSATION = "transcript_comparison", "transcript_conversation"
DEFAULTS = BASES / "defaults.yaml"  # the rubric of single turns, and the labelled set on which it was validated
MOST_TAG_VALUES = 12  # maximum number of values of a tag that get numbers of their own, the most frequent first
UNDERSTOOD_FILE = "understood.txt"  # file of the data folder that states how the transcripts were read
OWN_ENTRIES = {
    FOLDER_MARK,
    DATA_FILE,
    REPLIES_FILE,
    UNDERSTOOD_FILE,
    "resources",
}  # files and folders that the command writes there
RUN_FILE_MARK = b"# Written by `maieutic transcripts`"
REDACTED = "Personal details were replaced"  # beginning of the page's note on redaction
MOST_NAMES = 5  # maximum number of names in a line
MOST_REQUESTS = 5000  # above this number of requests a budget is required
FREE_NAME = re.compile(r"[^a-z0-9]+")


@Parameter(name="*")
@dataclass(frozen=True)
class Source:
    """Flags for reading the file of transcripts.

    Args:
        columns: columns that are not found, as FIELD=COLUMN with the fields conversation, role, text, turn, tutor,
            problem, solution and time; or turns=COLUMN for whole conversations (A+B: two such columns)
        tags: columns whose values get numbers of their own
        roles: words in the role column, as WORD=tutor, WORD=student or WORD=system
        moves: tutor turns begin with a move, as in '(probing) Why?', which becomes a tag
        only: use only the rows with a value of a column, as COLUMN=VALUE; several values add up
        last: use only the last tutor turn of each conversation
        skip_empty: leave turns without a text out
        sample: number of tutor turns, drawn at random over the conversations
        seed: random seed of the sample
        max_mb: maximum size of the file in megabytes
        encoding: encoding of a text file that is not UTF-8, such as cp1250 or shift_jis
        sheet: sheet of a workbook
        sort: order of each conversation's rows: by time or turn, unchecked as in the file (file) or reversed
        dates: order of day and month in times such as 03/04/2025
        yes: take the proposed reading of everything that is in doubt
    """

    columns: list[str] | None = None
    tags: list[str] | None = None
    roles: list[str] | None = None
    moves: bool = False
    only: list[str] | None = None
    last: bool = False
    skip_empty: bool = False
    sample: int | None = None
    seed: int = 20250226
    max_mb: float = 100
    encoding: str | None = None
    sheet: str | None = None
    sort: Literal["time", "turn", "file", "reversed"] | None = None
    dates: Literal["day-first", "month-first"] | None = None
    yes: bool = False


@Parameter(name="*")
@dataclass(frozen=True)
class Evaluation:
    """Flags for the judge, its rubrics and other tutors.

    Args:
        judge: judge or model in the registries, or a name for the hosted model
        tutors: models in the registries that answer the same moments
        rubric: rubric of single turns: mrbench_taxonomy (default), transcript_principles (KMP-Bench's six principles)
            or one of your own
        extensions: folders with rubrics of your own
        whole: also judge whole conversations
        instructions: file with the system prompt of the other tutors
        check: number of MRBench's labelled replies on which the judge is checked, for its light (0: none)
    """

    judge: str | None = None
    tutors: list[str] | None = None
    rubric: str | None = None
    extensions: list[str] | None = None
    whole: bool = False
    instructions: Path | None = None
    check: int = DEFAULT_LABEL_LIMIT


@Parameter(name="*")
@dataclass(frozen=True)
class Privacy:
    """Flags for personal details.

    Args:
        redact: replace mail and web addresses, street addresses, phone numbers and long numbers
        names: columns with names of people, which are replaced as well (implies --redact)
    """

    redact: bool = False
    names: list[str] | None = None


@Parameter(name="*")
@dataclass(frozen=True)
class Output:
    """Flags for the files that are written.

    Args:
        name: name of the run (default: the file's name)
        out: run file (default: NAME.yaml); the data folder NAME is beside it
        force: replace a run file and data folder that this command wrote
    """

    name: str | None = None
    out: Path | None = None
    force: bool = False


@Parameter(name="*")
@dataclass(frozen=True)
class Limits:
    """Flags for the limits of a Snakemake call.

    Args:
        budget: maximum cost of a Snakemake call in US dollars
        max_requests: maximum number of requests of a Snakemake call
    """

    budget: float | None = None
    max_requests: int | None = None

    @property
    def entry(self) -> dict[str, float]:
        """The limits as the content of `run.budget`."""
        limits = {"usd": self.budget, "requests": self.max_requests}
        return {name: limit for name, limit in limits.items() if limit is not None}


DEFAULT_OUTPUT, DEFAULT_SOURCE, DEFAULT_EVALUATION = Output(), Source(), Evaluation()
DEFAULT_LIMITS, DEFAULT_PRIVACY = Limits(), Privacy()


class TranscriptSet(NamedTuple):
    """Records of conversations. turns: number of tutor turns; skipped: number of those that answer no student."""

    records: list[Record]
    turns: int
    skipped: int

    @property
    def moments(self) -> int:
        """Number of tutor turns that are evaluated."""
        return sum(len(record["moments"]) for record in self.records)

    @property
    def moment_tags(self) -> list[dict[str, str]]:
        """Tags of each moment."""
        return [moment["tags"] for record in self.records for moment in record["moments"]]


def transcripts(
    file: Path,
    *,
    output: Output = DEFAULT_OUTPUT,
    source: Source = DEFAULT_SOURCE,
    evaluation: Evaluation = DEFAULT_EVALUATION,
    limits: Limits = DEFAULT_LIMITS,
    privacy: Privacy = DEFAULT_PRIVACY,
    hosted: Hosted = NOT_HOSTED,
) -> None:
    """Write a run file that evaluates your own tutoring conversations, and the folder with its data. Nothing is sent.

    The judge's model is an entry of the registries, or is described by --address or --provider, --model and
    --key-env. A budget or a maximum number of requests is required if more than 5,000 requests are planned. What was
    understood of the file is printed, with its first conversations. Raises UserError that names everything in doubt,
    with the flag that settles it, and every faulty row. If the command fails, it leaves no files.

    Args:
        file: conversations as a table, workbook, JSON or Parquet: a row per message, exchange or conversation
    """
    place = place_of_run(file, output.name, output.out)
    check_replaceable(place, output.force)
    raw, defaults = merged_configuration([]), read_yaml(DEFAULTS)
    if entry := next((kind for kind in ("models", "datasets") if place.slug in raw.get(kind, {})), None):
        raise UserError("--name", f"{place.slug} is the name of an entry of {entry}", "pass another --name")
    rubric = evaluation.rubric or str(defaults["rubric"])
    content = read_transcripts(file, reading_of_file(source, privacy))
    conversations, redactor = content.conversations, None
    if privacy.redact or privacy.names:
        redactor = Redactor({name for conversation in conversations for name in conversation.names})
        conversations = [redacted(conversation, redactor) for conversation in conversations]
    elif output.force and place.run_file.is_file() and REDACTED in place.run_file.read_text(encoding="utf-8"):
        fix = "add --redact (and --names with the same columns), or pass another --name"
        raise UserError("--force", f"personal details were removed in {place.run_file}, but would not be now", fix)
    data = conversation_records(conversations, source)
    if not data.moments:
        number = number_of(len(conversations), "conversation")
        problem = f"no tutor's turn follows a student's turn, in {number} of {content.rows:,} rows"
        raise UserError(str(file), problem, "check the columns, the roles and the ids of the conversations")
    models, judge = judge_entry_of(raw["models"], hosted, evaluation, rubric)
    tutors = evaluation.tutors or []
    check_tutors(tutors, raw["models"] | models)
    if evaluation.instructions is not None and not tutors:
        raise UserError("--instructions", "no other tutor is asked", "add --tutors, or remove the flag")
    changed, understood = changed_texts(place.folder / DATA_FILE, data), understood_lines(content)
    with replaced(place):
        tasks = write_folder(place.folder, place.slug, data, evaluation, rubric)
        models[RECORDED] = {
            "engine": "recorded", "file": str(place.folder / REPLIES_FILE), "label": "As given", "images": False,
        }  # fmt: skip
        overlay: dict[str, Any] = {
            "edition": "published",
            "extensions": [*(evaluation.extensions or []), str(place.folder)],
            "datasets": datasets_of(place.folder, place.slug, data),
            "models": models,
            "run": {
                "name": place.slug,
                "tutors": [RECORDED, *tutors],
                "tasks": [f"{place.slug}/{task}" for task in tasks],
                "judges": [judge],
                "labels": defaults["labels"] if evaluation.check else [],
                "preferences": [],
                **({"budget": limits.entry} if limits.entry else {}),
            },
            "report": {
                "title": f"Transcripts: {output.name or file.stem}",
                "note": run_note(data, redactor, file, source, evaluation.check > 0, understood),
            },
        }
        plan = plan_of_run_file(raw, overlay)
        write_run_file(place.run_file, overlay, "transcripts")
        write_text(place.folder / UNDERSTOOD_FILE, "\n".join(understood) + "\n")
        for line in (*understood, *preview_lines(content._replace(conversations=conversations))):
            say(line)
        tell_plan(plan, count_requests(raw, plan), data, redactor, place.run_file)
        if changed:
            say(f"conversations whose texts differ from those prepared before: {changed}; they are asked about again")


def changed_texts(path: Path, data: TranscriptSet) -> int:
    """Return how many of the conversations that were prepared before have other texts now."""
    if not path.is_file():
        return 0
    before = {line.get("id"): line.get("messages") for line in valid_json_lines(path)}
    return sum(record["id"] in before and record["messages"] != before[record["id"]] for record in data.records)


class RunPlace(NamedTuple):
    """Places of a run. slug: name of the run and of its tasks; folder: data folder."""

    slug: str
    run_file: Path
    folder: Path


def place_of_run(file: Path, name: str | None, out: Path | None) -> RunPlace:
    """Return the places of a run, whose name is made of lower-case letters, digits and underscores."""
    words = name or file.stem
    plain = unicodedata.normalize("NFKD", words.casefold()).encode("ascii", "ignore").decode()
    slug = FREE_NAME.sub("_", plain).strip("_") or "transcripts"
    slug = slug if slug[0].isalpha() else f"t_{slug}"
    if slug in benchmark_names():
        raise UserError("--name", f"{slug} is the name of a benchmark", "pass another --name")
    if slug in reserved_names():
        raise UserError("--name", f"{slug} is the name of a folder of results", "pass another --name")
    if slug != words:
        say(f"name of the run: {slug}")
    run_file = out or Path(f"{slug}.yaml")
    if run_file.is_dir() or run_file.name == slug:
        raise UserError("--out", f"expected a file, found {run_file}", f"pass a file such as {slug}.yaml")
    if run_file.exists() and file.exists() and run_file.samefile(file):
        raise UserError("--out", f"{run_file} is the file with the transcripts", "pass another --out")
    return RunPlace(slug, run_file, run_file.parent / slug)


def check_replaceable(place: RunPlace, force: bool) -> None:
    """Raise UserError if a file or folder of a run exists, unless `force` and this command wrote it."""
    for path, is_own in ((place.run_file, is_own_run_file), (place.folder, is_own_folder)):
        if not path.exists():
            continue
        if not is_own(path):
            problem = "already exists, and was not written by this command"
            raise UserError(str(path), problem, "pass another --name or --out")
        if path.is_dir() and (others := sorted({entry.name for entry in path.iterdir()} - OWN_ENTRIES)):
            problem = f"contains {others[0]}, which was not written by this command"
            raise UserError(str(path), problem, "move it to another folder, or pass another --name")
        if not force:
            raise UserError(str(path), "already exists", "pass another --name or --out, or --force to replace it")


def is_own_run_file(path: Path) -> bool:
    """Return True if this command wrote a run file."""
    return path.is_file() and path.read_bytes().startswith(RUN_FILE_MARK)


def is_own_folder(path: Path) -> bool:
    """Return True if this command wrote a data folder."""
    return (path / FOLDER_MARK).is_file()


@contextmanager
def replaced(place: RunPlace) -> Iterator[None]:
    """Set the existing files of a run aside. If the body fails, remove what it wrote and put them back."""
    with tempfile.TemporaryDirectory(prefix=".maieutic-", dir=place.folder.parent) as aside:
        kept = [path for path in (place.run_file, place.folder) if path.exists()]
        for path in kept:
            path.rename(Path(aside) / path.name)
        try:
            yield
        except BaseException:
            for path in (place.run_file, place.folder):
                remove(path)
            for path in kept:
                (Path(aside) / path.name).rename(path)
            raise


def check_tutors(tutors: Sequence[str], known: Mapping[str, Any]) -> None:
    """Raise UserError if a tutor is unknown, is named twice, or is not a model that can answer."""
    for place, tutor in enumerate(tutors):
        if tutor not in known:
            raise unknown_name("--tutors", tutor, list(known), "the registries")
        engine = known[tutor].get("engine")
        if engine not in ("vllm", "hosted"):
            raise UserError("--tutors", f"{tutor} has the engine {engine}", "name hosted or served models")
        if tutor in tutors[:place]:
            raise UserError("--tutors", f"{tutor} is named twice", "name each tutor once")


def understood_lines(content: Transcripts) -> list[str]:
    """Return what was understood of a file, a line each: form, columns, order, and what was merged or left out."""
    lines = ["columns: " + ", ".join(f"{field}={column}" for field, column in content.columns.items())]
    if content.unused:
        lines.append(f"columns not used: {content.unused} (name them with --columns, --tags or --names)")
    return [*content.notes, *lines, *(f"assumed (--yes): {proposal}" for proposal in content.assumed)]


def number_of(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 turn` or `2 turns`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def reading_of_file(source: Source, privacy: Privacy) -> Reading:
    """Return how the file is read. Raises UserError for a malformed --columns or --roles."""
    pairs = [option_pair(word, "--columns", "role=speaker") for word in source.columns or []]
    columns = dict(pairs)
    if len(columns) < len(pairs):
        raise UserError("--columns", "a field is named twice", "name each field once")
    roles = dict(option_pair(word, "--roles", "coach=tutor") for word in source.roles or [])
    for word, role in roles.items():
        if role not in ("tutor", "student", "system"):
            raise UserError("--roles", f"{word}={role}: the role is unknown", "use tutor, student or system")
    if source.sample is not None and source.sample < 1:
        raise UserError("--sample", f"expected a positive number, found {source.sample}", "pass 1 or more")
    return Reading(
        columns,
        source.tags or [],
        roles,
        source.moves,
        source.max_mb,
        privacy.names or [],
        source.skip_empty,
        source.encoding,
        source.sheet,
        source.sort,
        None if source.dates is None else source.dates == "day-first",
        anonymous=privacy.redact or bool(privacy.names),
        takes_proposals=source.yes,
        only=values_by_column(source.only or []),
    )


def values_by_column(words: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return the values of each column in `COLUMN=VALUE`, of which the last part may be empty."""
    values: dict[str, frozenset[str]] = {}
    for word in words:
        column, sign, value = word.partition("=")
        if not (column and sign):
            raise UserError("--only", f"expected COLUMN=VALUE, found {word}", "write it like status=sent")
        values[column] = values.get(column, frozenset()) | {value.strip()}
    return values


def option_pair(word: str, option: str, example: str) -> tuple[str, str]:
    """Return the two parts of `name=value`. The value may be empty for --columns: no column has this field."""
    first, sign, second = word.partition("=")
    if not (first and sign and (second or option == "--columns")):
        raise UserError(option, f"expected name=value, found {word}", f"write it like {example}")
    return first, second


def redacted(conversation: Conversation, redactor: Redactor) -> Conversation:
    """Return a conversation with its texts redacted."""
    texts = [message.text for message in conversation.messages]
    redactor.note_unfound(conversation.names, [*texts, conversation.problem, conversation.solution])
    return conversation._replace(
        id=redacted_id(conversation.id, redactor),
        messages=[
            message._replace(
                text=redactor.text(message.text),
                tutor=None if message.tutor is None else redactor.text(message.tutor),
                tags={tag: redactor.text(value) for tag, value in message.tags.items()},
            )
            for message in conversation.messages
        ],
        problem=redactor.text(conversation.problem),
        solution=redactor.text(conversation.solution),
        names=frozenset(),
    )


def redacted_id(name: str, redactor: Redactor) -> str:
    """Return the id of a conversation; a digest of it if it contains personal details."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    return name if redactor.text(name) == name else f"conversation-{digest}"


def conversation_records(conversations: Sequence[Conversation], source: Source) -> TranscriptSet:
    """Return the records of the conversations, or of a sample of their tutors' turns."""
    records = [conversation_record(conversation) for conversation in conversations]
    answering = sum(len(record["moments"]) for record in records)
    turns = sum(message.role == TUTOR for conversation in conversations for message in conversation.messages)
    if source.last:
        records = with_moments(records, [record["moments"][-1]["id"] for record in records if record["moments"]])
    chosen = [moment["id"] for record in records for moment in record["moments"]]
    if source.sample:
        chosen = sample_moments(records, source.sample, source.seed)
    return TranscriptSet(with_moments(records, chosen), turns, turns - answering)


def judge_entry_of(
    registry: dict[str, Any], hosted: Hosted, evaluation: Evaluation, rubric: str
) -> tuple[dict[str, Any], str]:
    """Return the entries that the run file adds, and the name of the judge. Raises UserError for an unknown judge."""
    models: dict[str, Any] = {}
    judge = evaluation.judge
    if (entry := hosted.entry) is not None:
        added = unused_entry_name(judge or entry_name_for(str(entry["model"])), registry)
        models[added], judge = entry, added
    if judge is None:
        fix = "pass --judge NAME of a model in the registries, or --provider and --model of a hosted one"
        raise UserError("--judge", "expected a model that judges, found none", fix)
    known = registry | models
    if judge not in known:
        raise unknown_name("--judge", judge, list(known), "the registries")
    rubrics = [rubric]
    rubrics += [COMPARISON] if evaluation.tutors else []
    rubrics += [CONVERSATION] if evaluation.whole else []
    settings = {"rubrics": rubrics, **({"label_limit": evaluation.check} if evaluation.check else {})}
    if known[judge]["engine"] == "judge":
        base = {key: value for key, value in known[judge].items() if key not in ("rubrics", "pairs", "tags", "label")}
        name = unused_entry_name(f"{judge}-transcripts", registry)
        models[name] = {**base, **settings}
    else:
        name = unused_entry_name(f"{judge}-judge", registry)
        models[name] = {"engine": "judge", "model": judge, **settings}
    return models, name


# the data folder ------------------------------------------------------------------------------------------------------


def write_folder(folder: Path, slug: str, data: TranscriptSet, evaluation: Evaluation, rubric: str) -> list[str]:
    """Write the data folder, which is an extension, and return the names of its tasks."""
    cards = folder / "resources/benchmarks" / slug
    cards.mkdir(parents=True)
    write_text(folder / FOLDER_MARK, "Written by `maieutic transcripts`, which may replace this folder.\n")
    for file in ("turn.jinja", "conversation.jinja"):
        shutil.copy(BASES / file, cards)
    write_text(cards / "turn.system.jinja", system_template(evaluation.instructions))
    sizes = {"turns": data.moments}
    labelled = {"turns": (rubric, data.moment_tags)}  # rubric of the tasks that get labels, and the tags of their items
    copy_rubric(folder, rubric)
    if evaluation.tutors:
        sizes["comparison"] = data.moments
        copy_rubric(folder, COMPARISON)
    if evaluation.whole:
        sizes["conversations"] = len(data.records)
        labelled["conversations"] = (CONVERSATION, [record["tags"] for record in data.records])
        copy_rubric(folder, CONVERSATION)
    activate_extensions([*(evaluation.extensions or []), str(folder)])
    for task, items in sizes.items():
        changes: dict[str, Any] = {"benchmark": slug, "items": items, "dataset": f"{slug}{DATASET_SUFFIX}"}
        if task in labelled:
            name, item_tags = labelled[task]
            changes |= {"rubrics": [name], "metrics": criterion_metrics(name, tags_of(item_tags))}
        write_task_card(cards / f"{task}.yaml", changes)
    write_json_lines(folder / DATA_FILE, data.records)
    replies = [
        {"id": moment["id"], "task": "turns", "reply": reply_of(record, moment)}
        for record in data.records
        for moment in record["moments"]
    ]
    if evaluation.whole:
        replies += [
            {"id": whole_id(record), "task": "conversations", "reply": dialogue_text(record["messages"])}
            for record in data.records
        ]
    write_json_lines(folder / REPLIES_FILE, replies)
    return list(sizes)


def write_task_card(path: Path, changes: dict[str, Any]) -> None:
    """Write a task card: its base in BASES with changes."""
    import yaml

    class PlainDumper(yaml.SafeDumper):
        """Writes repeated values in full, so that people can edit the card."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    content = {**read_yaml(BASES / path.name), **changes}
    with atomic_file(path) as handle:
        yaml.dump(content, handle, PlainDumper, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)


def copy_rubric(folder: Path, name: str) -> None:
    """Copy a rubric card of BASES with its prompts into the data folder; nothing if the rubric is not one of them."""
    target = folder / "resources/rubrics"
    for path in (BASES / "rubrics").glob(f"{name}.*"):
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def tags_of(item_tags: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """Return each tag with its values, the most frequent first. Tags with one value for all items are left out.

    item_tags: tags of each item.
    """
    return {
        tag: sorted(values, key=lambda value: (-values[value], value))[:MOST_TAG_VALUES]
        for tag, values in count_tag_values(item_tags).items()
        if len(values) > 1 or values.total() < len(item_tags)
    }


def count_tag_values(item_tags: Iterable[Mapping[str, str]]) -> dict[str, Counter[str]]:
    """Return the number of items with each value of each tag. item_tags: tags of each item."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for tags in item_tags:
        for tag, value in tags.items():
            counts[tag][value] += 1
    return counts


def criterion_metrics(rubric: str, tags: dict[str, list[str]]) -> dict[str, Any]:
    """Return the metrics of a rubric, by tag: the share of desired labels over all criteria, and under each criterion.

    Raises UserError for a rubric without desired labels.
    """
    criteria = [name for name, criterion in read_rubric(rubric).rubric.criteria.items() if criterion.desired]
    if not criteria:
        raise UserError("--rubric", f"{rubric} has no criterion with a desired label", "choose another rubric")
    share = {"headline": True, "grader": "judge", "criterion": "desired_share", "function": "mean_share", "by": tags}
    by_criterion = {
        name.casefold(): {"grader": "judge", "criterion": name, "function": "accuracy", "by": tags} for name in criteria
    }
    return {"desired_share": share, **by_criterion}


def datasets_of(folder: Path, slug: str, data: TranscriptSet) -> dict[str, Any]:
    """Return the registry entry of the data file, with its checksum."""
    path = folder / DATA_FILE
    published = {
        "path": str(path), "sha256": sha256_of(path), "records": len(data.records),
    }  # fmt: skip
    entry = {"title": f"Transcripts {slug}", "licence": "yours", "format": "jsonl", "fields": FIELDS}
    return {f"{slug}{DATASET_SUFFIX}": {**entry, "published": published}}


def system_template(instructions: Path | None) -> str:
    """Return the template of the system message for other tutors. Raises UserError for an unreadable file."""
    path = instructions or BASES / "instructions.txt"
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise UserError("--instructions", f"{path} cannot be read: {error}", "pass a text file in UTF-8") from None
    if "endraw" in text:
        problem = f"{path} contains the word endraw, which ends a block of unchanged text in a Jinja template"
        raise UserError("--instructions", problem, "remove the word")
    base = (BASES / "turn.system.jinja").read_text(encoding="utf-8")
    return base.replace("{{ instructions }}", f"{{% raw %}}{text}{{% endraw %}}")


# messages -------------------------------------------------------------------------------------------------------------


LIGHT_NOTE = (
    "The judge's light was earned on MRBench: English dialogues about mathematics. On other subjects and languages it "
    "means little."
)


def run_note(
    data: TranscriptSet, redactor: Redactor | None, file: Path, source: Source, checked: bool, understood: Sequence[str]
) -> str:
    """Return the page's note on the data: their size, what was redacted, and what the judge's light rests on.

    checked: True if the judge is checked on MRBench's labelled replies; understood: lines on how the file was read.
    """
    part = "the last ones of each conversation" if source.last else "a random sample" if source.sample else ""
    lines = [
        f"{number_of(data.moments, 'tutor turn')} of {number_of(len(data.records), 'conversation')} from `{file.name}`"
        f"{f' ({part})' if part else ''}; {data.turns - data.skipped:,} turns answer a student, {data.skipped:,} do "
        "not. The intervals are over conversations.",
        LIGHT_NOTE if checked else "The judge was not checked on labelled replies.",
        "Without labels of these turns the rates are the judge's alone: label 20 to 40 of them (`maieutic label`) to "
        "check and to correct it.",
    ]
    if cut := tags_with_more_values(data):
        lines.append(f"Only the {MOST_TAG_VALUES} most frequent values are shown of: {', '.join(cut)}.")
    if redactor is None:
        lines.append("Personal details were not removed.")
    else:
        replaced = "; ".join(f"{what}: {number:,}" for what, number in sorted(redactor.counts.items()) if number)
        lines.append(
            f"{REDACTED} before anything was sent ({replaced or 'none were found'}). Only the "
            "stated patterns and the given names were searched: names in free text are not found."
        )
    read = "\n".join(f"- {line}" for line in understood)
    return "\n\n".join([*lines, f"How the file was read:\n\n{read}"])


def tags_with_more_values(data: TranscriptSet) -> list[str]:
    """Return the tags with more values than are shown."""
    return [tag for tag, values in count_tag_values(data.moment_tags).items() if len(values) > MOST_TAG_VALUES]


def models_by_address(plan: Plan) -> dict[str, list[str]]:
    """Return the models of a run by the address to which their requests are sent; "this machine" for served models."""
    judges = [plan.models[name] for name in plan.run.judges]
    names = [*plan.run.tutors, *(entry.model for entry in judges if isinstance(entry, JudgeModel) and entry.model)]
    places: dict[str, list[str]] = {}
    for name in names:
        entry = plan.models[name]
        if getattr(entry, "engine", None) == "hosted":
            places.setdefault(str(getattr(entry, "base_url", "")), []).append(name)
        elif getattr(entry, "engine", None) == "vllm":
            places.setdefault("this machine", []).append(name)
    return places


def checked_downloads(plan: Plan) -> list[str]:
    """Return the data sets that a run downloads to check its judge on labelled replies."""
    datasets = dict.fromkeys(name for release in plan.releases for name in plan.label_datasets(release))
    return [
        f"{name} ({urlsplit(copy.url).hostname})"
        for name in datasets
        if (copy := plan.datasets[name].file_of(name, plan.edition)).url is not None
    ]


def planned_usd(plan: Plan, planned: Sequence[NewRequests]) -> float | None:
    """Return the highest estimated cost of requests in US dollars; None if a model has no price."""
    bill = bill_of(plan, planned)
    return None if bill.unpriced or bill.usd is None else bill.usd.high + bill.thinking


def tell_plan(
    plan: Plan, planned: Sequence[NewRequests], data: TranscriptSet, redactor: Redactor | None, run_file: Path
) -> None:
    """Print what will be asked, where it is sent and what it costs. Raises UserError if a budget is needed.

    planned: new requests of the run.
    """
    requests = sum(part.requests or 0 for part in planned)
    conversations = number_of(len(data.records), "conversation")
    say(f"{data.moments:,} of {number_of(data.turns, 'tutor turn')} in {conversations}")
    if data.skipped:
        say(f"left out: {number_of(data.skipped, 'tutor turn')} that answer no student")
    if redactor is None:
        say("personal details: not removed (--redact)")
    else:
        searched = ", ".join(pattern.what for pattern in PATTERNS)
        counts = ", ".join(f"{what} {number}" for what, number in redactor.counts.items() if number) or "nothing"
        say(f"replaced: {counts} (searched: {searched}, given names; names in free text are not found)")
        if redactor.unfound:
            more = ", ..." if len(redactor.unfound) > MOST_NAMES else ""
            listed = ", ".join(sorted(redactor.unfound)[:MOST_NAMES]) + more
            number = len(redactor.unfound)
            say(
                f"names that are in no text of their own conversation: {number} ({listed}); are they written otherwise?"
            )
    for address, names in models_by_address(plan).items():
        say(f"sent to {address}: the problem and the dialogue before each turn ({', '.join(dict.fromkeys(names))})")
    if downloads := checked_downloads(plan):
        say(f"to check the judge on labelled replies, the run downloads {', '.join(downloads)}; --check 0 does without")
    say(requests_line(plan, planned))
    if (most := plan.run.budget.requests) is not None and requests > most:
        say(f"the run will stop after {most:,} requests (--max-requests)")
    if requests > MOST_REQUESTS and not plan.run.budget.is_limited():
        usd = planned_usd(plan, planned)
        limit = f"--max-requests {requests}" if usd is None else f"--budget {max(1, round(1.2 * usd + 0.5))}"
        raise UserError(
            "--budget",
            f"{requests:,} requests are planned, and no limit is set",
            f"run the command again with {limit}, or with --sample for fewer turns",
        )
    say(f"Wrote {run_file}. Next: snakemake --cores all --configfile {run_file}")
