"""`maieutic init`: write a run file from flags, or from answers typed at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from functools import cache
from itertools import count
from math import inf
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import yaml
from cyclopts import Parameter
from pydantic import Field, TypeAdapter

from maieutic.config.cards import CARDS, Card, read_card
from maieutic.config.models import Price, StrictModel
from maieutic.config.registry import unknown_name
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file
from maieutic.core.names import SAFE_NAME
from maieutic.core.plugins import benchmark_names
from maieutic.core.terminal import say
from maieutic.launch.config_files import merged_configuration
from maieutic.launch.lengths import verdict_span
from maieutic.launch.messages import empty_task_lines, requests_line
from maieutic.launch.requests import measured_sizes, tokens_of_chars
from maieutic.plan.rules import RulePlan
from maieutic.run_plan import plan_before_pins
from maieutic.tools.counting import count_requests

DEFAULT_LABEL_LIMIT = (
    200  # `label_limit` of a judge that `init` adds; without a limit, the judge would judge all labelled replies
)
RUN_FILE_HEADER = """\
# Written by `maieutic {command}`. config/README.md describes every key.
#   snakemake --cores all --configfile {path} -n   # dry run: print the jobs
#   snakemake --cores all --configfile {path}
"""


@Parameter(name="*")
@dataclass(frozen=True)
class Hosted:
    """A hosted model that has no registry entry yet.

    Args:
        address: OpenAI-compatible base URL of a model to add
        model: name of this model at its endpoint
        key_env: environment variable with the API key
        provider: provider, instead of --address
    """

    address: str | None = None
    model: str | None = None
    key_env: str | None = None
    provider: Literal["openai", "anthropic", "google", "mistral"] | None = None

    @property
    def entry(self) -> dict[str, Any] | None:
        """The model as an entry in `models`; None if no flag names a model.

        For a known provider, the entry's further keys and price come from resources/providers.yaml. Raises UserError
        if only the base URL or only the model name is known.
        """
        address = providers()[self.provider].base_url if self.provider and not self.address else self.address
        if address is None and self.model is None:
            return None
        if address is None or self.model is None:
            place, problem = "--address, --model", "expected both flags, found one"
            raise UserError(place, problem, "pass both, or --provider and --model")
        entry: dict[str, Any] = {"engine": "hosted", "base_url": address, "model": self.model, "endpoint": "chat"}
        if (provider := provider_of(address)) is not None:
            entry |= known_entry(provider, self.model).entry
        return entry | ({"key_env": self.key_env} if self.key_env else {})


NOT_HOSTED = Hosted()


class RunFileChoices(NamedTuple):
    """Choices for a new run file.

    hosted: entry for a model that the registry lacks; limit: number of items per task, None for all; chat_too: also ask
    each served tutor by its chat template, if a task's released code asks without one by default.
    """

    tutors: list[str]
    benchmarks: list[str]
    judge: str | None
    limit: int | None
    name: str | None
    hosted: dict[str, Any] | None
    chat_too: bool = False


def init(
    out: Path = Path("my.yaml"),
    *,
    tutors: list[str] | None = None,
    benchmarks: list[str] | None = None,
    judge: str | None = None,
    limit: int | None = None,
    name: str | None = None,
    chat_too: bool = False,
    hosted: Hosted = NOT_HOSTED,
    force: bool = False,
) -> None:
    """Write a run file. On a terminal, ask for the choices that no flag sets.

    The content is checked like that of any run file before it is written.

    Args:
        out: path of the file
        tutors: models in the registries
        benchmarks: names of benchmarks, or of tasks such as mathtutorbench/problem_solving
        judge: a judge in the registries, or any model, which then judges by the cheapest rubric of each task
        limit: number of items per task
        name: name of the run, which gets its own folder
        chat_too: also ask tutors by chat, if a benchmark published both protocols
        force: overwrite an existing file

    Raises:
        UserError: if a check fails
    """
    if out.exists() and not force:
        raise UserError(str(out), "the file already exists", "pass another path, or --force")
    raw = merged_configuration([])
    choices = RunFileChoices(tutors or [], benchmarks or [], judge, limit, name, hosted.entry, chat_too)
    if sys.stdin.isatty():
        choices = ask_missing_choices(choices, list(tutor_entries(raw)))
    if not (choices.tutors or choices.hosted):
        fix = "pass --tutors NAME, or --address, --model and --key-env of a hosted model"
        raise UserError("--tutors", "expected a model, found none", fix)
    if not choices.benchmarks:
        fix = f"pass one or more of {', '.join(benchmark_names())}"
        raise UserError("--benchmarks", "expected a benchmark, found none", fix)
    known = [
        *benchmark_names(),
        *(f"{name}/{path.stem}" for name in benchmark_names() for path in paths_of_cards(name)),
    ]
    for benchmark in choices.benchmarks:
        if benchmark not in known:
            raise unknown_name("--benchmarks", benchmark, known, "the list of benchmarks and tasks")
    overlay = run_file_content(raw["models"], choices)
    plan = plan_of_run_file(raw, overlay)
    write_run_file(out, overlay)
    for line in empty_task_lines(plan):
        say(line)
    if not choices.chat_too and (names := tutors_without_chat(raw["models"], choices)):
        say(f"asked without a chat template, one of two published protocols: {', '.join(names)} (--chat-too: by both)")
    say(requests_line(plan, count_requests(raw, plan)))
    say(f"Wrote {out}. Next: snakemake --cores all --configfile {out} -n")


def tutor_entries(raw: dict[str, Any]) -> list[str]:
    """Return the names of the registry entries for models that can be tutors."""
    return [name for name, entry in raw["models"].items() if entry.get("engine") in {"vllm", "hosted", "recorded"}]


def judged_cards(benchmarks: Sequence[str]) -> list[Card]:
    """Return the cards in some benchmarks or tasks that have rubrics, so that judges can grade their tasks."""
    cards = [read_card(path).card for name in benchmarks for path in paths_of_cards(name)]
    return [card for card in cards if card.rubrics]


def paths_of_cards(name: str) -> list[Path]:
    """Return the cards of a benchmark, or of a single task such as `mathtutorbench/problem_solving`."""
    return sorted((CARDS / name).glob("*.yaml")) or [CARDS / f"{name}.yaml"]


def cheapest_rubric(card: Card) -> str:
    """Return the rubric of a task with the fewest tokens per item; the card's first one if no sizes were measured."""

    def tokens_of(name: str) -> float:
        size = measured_sizes().get((card.benchmark, card.task, name))
        return size.requests * (tokens_of_chars(size.prompt_chars) + verdict_span(size.criteria).high) if size else inf

    return min(card.rubrics, key=tokens_of)


def run_file_content(registry: dict[str, Any], choices: RunFileChoices) -> dict[str, Any]:
    """Return the content of a run file. registry: entries of the registries by name."""
    models, tutors, judge, added = {}, choices.tutors, choices.judge, ""
    if choices.hosted is not None:
        added = unused_entry_name(entry_name_for(str(choices.hosted["model"])), registry)
        models[added], tutors = choices.hosted, [*tutors, added]
    for tutor in tutors_without_chat(registry, choices) if choices.chat_too else ():
        name = unused_entry_name(f"{tutor}-chat", registry)
        label = f"{registry[tutor].get('label', tutor)}, chat"
        models[name], tutors = {**registry[tutor], "endpoint": "chat", "label": label}, [*tutors, name]
    known = registry | models
    run: dict[str, Any] = {"name": choices.name, "tutors": tutors, "tasks": choices.benchmarks, "limit": choices.limit}
    if judge is not None:
        if choices.hosted is not None and judge in (
            choices.hosted["model"],
            entry_name_for(str(choices.hosted["model"])),
        ):
            judge = added
        if judge not in known:
            raise unknown_name("--judge", judge, list(known), "the registries")
        if known[judge]["engine"] != "judge":
            rubrics = sorted({cheapest_rubric(card) for card in judged_cards(choices.benchmarks)})
            if not rubrics:
                problem = f"no task of {', '.join(choices.benchmarks)} is judged"
                judged = [name for name in benchmark_names() if judged_cards([name])]
                raise UserError("--judge", problem, f"drop the flag, or add one of {', '.join(judged)} to --benchmarks")
            name = unused_entry_name(f"{judge}-judge", registry)
            models[name] = {"engine": "judge", "model": judge, "rubrics": rubrics, "label_limit": DEFAULT_LABEL_LIMIT}
            judge = name
        run["judges"] = [judge]
    named = {key: value for key, value in run.items() if value is not None}
    return ({"models": models} if models else {}) | {"run": named}


def tutors_without_chat(registry: dict[str, Any], choices: RunFileChoices) -> list[str]:
    """Return the served tutors that a chosen task asks by completions, the released code's default (is_chat=False)."""
    cards = [read_card(path).card for name in choices.benchmarks for path in paths_of_cards(name)]
    served = [name for name in choices.tutors if registry.get(name, {}).get("engine") == "vllm"]
    by_completions = any(card.endpoint == "completions" for card in cards)
    return [name for name in served if by_completions and not registry[name].get("endpoint")]


def unused_entry_name(name: str, registry: dict[str, Any]) -> str:
    """Return the name, with a number appended if the registry has it, since entries with one name would be merged."""
    taken = (f"{name}-{number}" for number in count(2))
    return name if name not in registry else next(other for other in taken if other not in registry)


def entry_name_for(words: str) -> str:
    """Return a valid name of a registry entry, made from a model's name at its endpoint."""
    name = "".join(sign if SAFE_NAME.fullmatch("a" + sign) else "-" for sign in words.rpartition("/")[2])[:64]
    return name if SAFE_NAME.fullmatch(name) else "my-model"


def plan_of_run_file(raw: dict[str, Any], overlay: dict[str, Any]) -> RulePlan:
    """Return the plan of a run file, and print the missing pins. Raises UserError if a run would refuse the file.

    raw: configuration from the registries, which is updated; overlay: content of the run file.
    """
    from snakemake.utils import update_config

    update_config(raw, overlay)
    plan, unpinned = plan_before_pins(raw)
    for fault in unpinned:
        say(f"to fix before the run: {fault.line}")
    return plan


def write_run_file(out: Path, overlay: dict[str, Any], command: str = "init") -> None:
    """Write a run file. Comments at its top contain the commands to run it and the sources of providers' entries.

    overlay: content of the run file; command: command that writes it.
    """
    import yaml

    with atomic_file(out) as handle:
        handle.write(RUN_FILE_HEADER.format(path=out, command=command))
        for name, entry in overlay.get("models", {}).items():
            if (provider := provider_of(str(entry.get("base_url", "")))) is not None:
                handle.writelines(f"# {name}: {line}\n" for line in known_entry(provider, entry["model"]).sources)
        yaml.safe_dump(overlay, handle, sort_keys=False, allow_unicode=True, default_flow_style=None)


# questions at the terminal --------------------------------------------------------------------------------------------


def ask_missing_choices(choices: RunFileChoices, known: Sequence[str]) -> RunFileChoices:
    """Ask at the terminal for missing choices, and return all choices. known: names of models in the registry."""
    from rich.prompt import Confirm, IntPrompt

    tutors, benchmarks, judge, limit, name, entry, chat_too = choices
    if not (tutors or entry):
        if Confirm.ask("Use a hosted model (OpenAI-compatible) that the registries lack?", default=True):
            address = ask_at_terminal("Base URL", "https://api.openai.com/v1")
            model = ask_at_terminal("Model name at this endpoint")
            entry = Hosted(
                address, model, ask_at_terminal("Environment variable of the API key (empty: none)") or None
            ).entry
        else:
            tutors = ask_for_names("Models", known, [])
    if not benchmarks:
        benchmarks = ask_for_names("Benchmarks", benchmark_names(), [benchmark_names()[0]])
        limit = IntPrompt.ask("Items per task (0: all)", default=50) or None if limit is None else limit
        name = name or ask_at_terminal("Name of the run (empty: none)") or None
        if judge is None and judged_cards(benchmarks):
            judge = ask_at_terminal("Judge: an entry in the registries, or the model above (empty: none)") or None
    return RunFileChoices(tutors, benchmarks, judge, limit, name, entry, chat_too)


def ask_at_terminal(question: str, default: str = "") -> str:
    """Ask a question at the terminal and return the typed line, or `default` if it is empty."""
    from rich.prompt import Prompt

    return Prompt.ask(question, default=default, show_default=bool(default)).strip()


def ask_for_names(question: str, known: Sequence[str], default: Sequence[str]) -> list[str]:
    """Ask for names at the terminal and return them. The question is repeated until all names are known."""
    while True:
        names = ask_at_terminal(f"{question} ({', '.join(known)})", " ".join(default)).replace(",", " ").split()
        if names and set(names) <= set(known):
            return names
        say(f"unknown: {', '.join(sorted(set(names) - set(known)))}")


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
