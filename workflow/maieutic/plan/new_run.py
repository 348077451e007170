"""`maieutic init`: a run file, by flags or by asking."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from math import inf
from pathlib import Path
from typing import Any, Literal, NamedTuple

from cyclopts import Parameter

from maieutic.benchmarks import BENCHMARKS
from maieutic.config.cards import CARDS, Card, read_card
from maieutic.config.providers import known_entry, provider_of, providers
from maieutic.config.registry import unknown
from maieutic.core.errors import UserError
from maieutic.core.files import whole_file
from maieutic.core.names import SAFE_NAME
from maieutic.plan.pinning import configuration
from maieutic.plan.plan import Plan
from maieutic.plan.rehearsal import Rehearsal
from maieutic.plan.requests import VERDICT_TOKENS, new_requests, sizes, tokens
from maieutic.plan.rules import plan_before_pins
from maieutic.plan.telling import requests_line

CHECKED = 200  # labelled replies on which a judge that a person adds is checked; without a limit it is all of them
HEAD = """\
# Written by `maieutic init`. Every key in one line: config/README.md.
#   snakemake --cores all --configfile {path} -n   # what it would do
#   snakemake --cores all --configfile {path}
"""


@Parameter(name="*")
@dataclass(frozen=True)
class Hosted:
    """A hosted model that config/models.yaml lacks: base URL or provider, its name there, the variable of its key."""

    address: str | None = None
    model: str | None = None
    key_env: str | None = None
    provider: Literal["openai", "anthropic", "google", "mistral"] | None = None

    @property
    def entry(self) -> dict[str, Any] | None:
        """The model as an entry of `models`; None where no flag names one.

        Of a known provider with the keys and the price of resources/providers.yaml. Raises UserError where address or
        name is missing.
        """
        address = providers()[self.provider].base_url if self.provider and not self.address else self.address
        if address is None and self.model is None:
            return None
        if address is None or self.model is None:
            raise UserError("--address, --model", "one of the two is missing", "give both, or --provider and --model")
        entry: dict[str, Any] = {"engine": "hosted", "base_url": address, "model": self.model, "endpoint": "chat"}
        if (provider := provider_of(address)) is not None:
            entry |= known_entry(provider, self.model).entry
        return entry | ({"key_env": self.key_env} if self.key_env else {})


NOT_HOSTED = Hosted()


class Wanted(NamedTuple):
    """What a person wants to run. hosted: the entry of a model that the registry lacks; limit: items a task."""

    tutors: list[str]
    benchmarks: list[str]
    judge: str | None
    limit: int | None
    name: str | None
    hosted: dict[str, Any] | None


def init(
    out: Path = Path("my.yaml"),
    *,
    tutors: list[str] | None = None,
    benchmarks: list[str] | None = None,
    judge: str | None = None,
    limit: int | None = None,
    name: str | None = None,
    hosted: Hosted = NOT_HOSTED,
    force: bool = False,
) -> None:
    """Write a run file. On a terminal, what is not said by a flag is asked.

    out: the file; tutors: models of config/models.yaml; benchmarks: by name; judge: a judge of config/models.yaml, or a
    model, also the one that this file adds, which then judges by the cheapest rubric of each task; limit: items a task;
    name: the run's name, of a folder of its own; hosted: a model that config/models.yaml lacks, by its
    OpenAI-compatible base URL (address) or provider, its name there (model) and the environment variable of its key;
    force: write over a file that is there. The file is checked as a run would check it before it is written. Raises
    UserError naming what is wrong.
    """
    if out.exists() and not force:
        raise UserError(str(out), "it is there already", "give another name, or --force")
    raw = configuration([])
    wanted = Wanted(tutors or [], benchmarks or [], judge, limit, name, hosted.entry)
    if sys.stdin.isatty():
        wanted = asked(wanted, list(tutors_of(raw)))
    if not (wanted.tutors or wanted.hosted):
        raise UserError("--tutors", "no model is named", "--tutors NAME, or --address, --model and --key-env of one")
    if not wanted.benchmarks:
        raise UserError("--benchmarks", "none is named", f"one or more of {', '.join(BENCHMARKS)}")
    for benchmark in wanted.benchmarks:
        if benchmark not in BENCHMARKS:
            raise unknown("--benchmarks", benchmark, list(BENCHMARKS), "the benchmarks")
    overlay = run_file(raw["models"], wanted)
    plan = check(raw, overlay)
    write(out, overlay)
    with Rehearsal(plan) as rehearsal:
        print(requests_line(plan, new_requests(plan, rehearsal)))
    print(f"{out} is written; next: snakemake --cores all --configfile {out} -n")


def tutors_of(raw: dict[str, Any]) -> list[str]:
    """The entries that answer as tutors."""
    return [name for name, entry in raw["models"].items() if entry.get("engine") in {"vllm", "hosted", "recorded"}]


def judged_cards(benchmarks: Sequence[str]) -> list[Card]:
    """The cards of some benchmarks that a judge judges."""
    cards = [read_card(path).card for name in benchmarks for path in sorted((CARDS / name).glob("*.yaml"))]
    return [card for card in cards if card.rubrics]


def cheapest_rubric(card: Card) -> str:
    """Return the rubric of a task that takes the fewest tokens an item; the card's first where none was measured."""

    def tokens_of(name: str) -> float:
        size = sizes().get((card.benchmark, card.task, name))
        return size.requests * (tokens(size.prompt_chars) + VERDICT_TOKENS) if size else inf

    return min(card.rubrics, key=tokens_of)


def run_file(registry: dict[str, Any], wanted: Wanted) -> dict[str, Any]:
    """The run file's content. registry: the models that there are."""
    models, tutors, judge, own = {}, wanted.tutors, wanted.judge, ""
    if wanted.hosted is not None:
        own = free_name(safe(str(wanted.hosted["model"])), registry)
        models[own], tutors = wanted.hosted, [*tutors, own]
    known = registry | models
    run: dict[str, Any] = {"name": wanted.name, "tutors": tutors, "tasks": wanted.benchmarks, "limit": wanted.limit}
    if judge is not None:
        if wanted.hosted is not None and judge in (wanted.hosted["model"], safe(str(wanted.hosted["model"]))):
            judge = own
        if judge not in known:
            raise unknown("--judge", judge, list(known), "config/models.yaml")
        if known[judge]["engine"] != "judge":
            rubrics = sorted({cheapest_rubric(card) for card in judged_cards(wanted.benchmarks)})
            if not rubrics:
                problem = f"no task of {', '.join(wanted.benchmarks)} is judged"
                judged = [name for name in BENCHMARKS if judged_cards([name])]
                raise UserError("--judge", problem, f"leave it out, or add one of {', '.join(judged)}")
            name = free_name(f"{judge}-judge", registry)
            models[name] = {"engine": "judge", "model": judge, "rubrics": rubrics, "label_limit": CHECKED}
            judge = name
        run["judges"] = [judge]
    named = {key: value for key, value in run.items() if value is not None}
    return ({"models": models} if models else {}) | {"run": named}


def free_name(name: str, registry: dict[str, Any]) -> str:
    """Return a name that the registry has not: an entry of the same name would be merged with the registry's."""
    taken = (f"{name}-{number}" for number in count(2))
    return name if name not in registry else next(other for other in taken if other not in registry)


def safe(words: str) -> str:
    """A name of an entry for a model's own name."""
    name = "".join(sign if SAFE_NAME.fullmatch("a" + sign) else "-" for sign in words.rpartition("/")[2])[:64]
    return name if SAFE_NAME.fullmatch(name) else "my-model"


def check(raw: dict[str, Any], overlay: dict[str, Any]) -> Plan:
    """Return the plan of a run file. Raises UserError for one that a run would refuse; a missing pin is printed."""
    from snakemake.utils import update_config  # type: ignore[import-untyped]

    update_config(raw, overlay)
    plan, unpinned = plan_before_pins(raw)
    for fault in unpinned:
        print(f"before it runs: {fault.line}")
    return plan


def write(out: Path, overlay: dict[str, Any]) -> None:
    """The run file, with what to do with it above."""
    import yaml

    with whole_file(out) as handle:
        handle.write(HEAD.format(path=out))
        for name, entry in overlay.get("models", {}).items():
            if (provider := provider_of(str(entry.get("base_url", "")))) is not None:
                handle.writelines(f"# {name}: {line}\n" for line in known_entry(provider, entry["model"]).sources)
        yaml.safe_dump(overlay, handle, sort_keys=False, allow_unicode=True, default_flow_style=None)


# asking ---------------------------------------------------------------------------------------------------------------


def asked(wanted: Wanted, known: Sequence[str]) -> Wanted:
    """What a person wants, asked at the terminal where no flag says it. known: the models of the registry."""
    from rich.prompt import Confirm, IntPrompt

    tutors, benchmarks, judge, limit, name, entry = wanted
    if not (tutors or entry):
        if Confirm.ask("Is the model at an OpenAI-compatible address, and not in config/models.yaml?", default=True):
            address = ask("Address", "https://api.openai.com/v1")
            model = ask("Its name there")
            entry = Hosted(address, model, ask("Environment variable of its key (empty: none)") or None).entry
        else:
            tutors = ask_for_several("Models", known, [])
    if not benchmarks:
        benchmarks = ask_for_several("Benchmarks", BENCHMARKS, [BENCHMARKS[0]])
        limit = IntPrompt.ask("Items a task (0: all)", default=50) or None if limit is None else limit
        name = name or ask("Name of the run (empty: none)") or None
        if judge is None and judged_cards(benchmarks):
            judge = ask("Judge: of config/models.yaml, or the model above (empty: none)") or None
    return Wanted(tutors, benchmarks, judge, limit, name, entry)


def ask(question: str, default: str = "") -> str:
    """An answer of the person at the terminal."""
    from rich.prompt import Prompt

    return Prompt.ask(question, default=default, show_default=bool(default)).strip()


def ask_for_several(question: str, known: Sequence[str], default: Sequence[str]) -> list[str]:
    """Names, until all are known."""
    while True:
        names = ask(f"{question} ({', '.join(known)})", " ".join(default)).replace(",", " ").split()
        if names and set(names) <= set(known):
            return names
        print(f"not known: {', '.join(sorted(set(names) - set(known)))}")
