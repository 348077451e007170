"""`python -m maieutic VERB ...`: the command line of every verb that a rule runs."""

from __future__ import annotations

import argparse
import errno
import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from maieutic.errors import UserError
from maieutic.logs import log_to

Arguments = argparse.Namespace
Verb = Callable[[Arguments], None]


def fetch(given: Arguments) -> None:
    from maieutic.datasets.fetch import fetch_dataset
    from maieutic.datasets.sources import Dataset

    dataset = Dataset.model_validate_json(given.settings)
    fetch_dataset(given.dataset, dataset, given.edition, given.data_dir, given.demo_dir, given.out)


def prepare(given: Arguments) -> None:
    from pydantic import TypeAdapter

    from maieutic.models import AnyWeights
    from maieutic.weights import prepare_weights

    prepare_weights(given.model, TypeAdapter(AnyWeights).validate_json(given.weights), given.out, given.with_code)


def items(given: Arguments) -> None:
    from maieutic.commands import make_items

    make_items(given.benchmark, given.task, given.format, given.source, given.out, given.limit, given.seed)


def generate(given: Arguments) -> None:
    from maieutic.commands import generate as run
    from maieutic.generate import Limits

    run(
        given.benchmark,
        given.tasks,
        given.protocol,
        given.model,
        given.settings,
        given.items,
        given.weights,
        given.journal,
        given.server_log,
        given.out,
        given.prompts,
        Limits(given.max_tokens, given.seed),
    )


def parse(given: Arguments) -> None:
    from maieutic.commands import parse_replies

    parse_replies(given.benchmark, given.tasks, given.items, given.replies, given.out)


def score(given: Arguments) -> None:
    from maieutic.commands import cards_of
    from maieutic.score import score_replies

    cards = [loaded.card for loaded in cards_of(given.benchmark, given.tasks, "released")]
    score_replies(cards, given.model, given.items, given.grades, given.out, given.resamples, given.seed)


def config(given: Arguments) -> None:
    from maieutic.commands import save_config

    save_config(given.settings, given.out)


def report(given: Arguments) -> None:
    from maieutic.report import build_report

    build_report(given.config, given.results, given.out, given.missing_ok)


def recover(given: Arguments) -> None:
    from maieutic.recover import end_orphans

    end_orphans(given.results)


def schemas(given: Arguments) -> None:
    from maieutic.schemas import export_schemas

    export_schemas(given.out)


def parser() -> argparse.ArgumentParser:
    """All verbs and their arguments."""
    top = argparse.ArgumentParser(prog="maieutic", description=__doc__)
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, run: Verb, help: str, *paths: str, **more: dict[str, object]) -> None:
        one = verbs.add_parser(name, help=help)
        one.set_defaults(run=run)
        one.add_argument("--log", type=Path)
        for path in paths:
            one.add_argument(f"--{path}", type=Path, required=True)
        for option, settings in more.items():
            one.add_argument(f"--{option.replace('_', '-')}", **settings)  # type: ignore[arg-type]

    need: dict[str, object] = {"required": True}
    seed: dict[str, object] = {"type": int, "required": True}
    tasks: dict[str, object] = {"nargs": "+", "required": True}
    number: dict[str, object] = {"type": int}
    verb("fetch-dataset", fetch, "download or copy one dataset and verify it", "demo-dir", "out",
         dataset=need, settings=need, edition=need, data_dir={"type": Path})  # fmt: skip
    verb("prepare-weights", prepare, "bring one model's safetensors", "out",
         model=need, weights=need, with_code={"action": "store_true"})  # fmt: skip
    verb("make-items", items, "source file to items", "source", "out",
         benchmark=need, task=need, format=need, limit=number, seed=seed)  # fmt: skip
    verb("generate-replies", generate, "ask one model every item of a benchmark",
         "items", "journal", "server-log", "out", "prompts",
         benchmark=need, tasks=tasks, protocol=need, model=need, settings=need,
         weights={"type": Path}, max_tokens=number, seed=seed)  # fmt: skip
    verb(
        "parse-replies",
        parse,
        "read replies by the cards' parsers",
        "items",
        "replies",
        "out",
        benchmark=need,
        tasks=tasks,
    )
    verb("score-replies", score, "grades to scores with intervals", "items", "grades", "out",
         benchmark=need, tasks=tasks, model=need, resamples=seed, seed=seed)  # fmt: skip
    verb("save-config", config, "write the effective configuration", "out", settings=need)
    verb(
        "build-report",
        report,
        "render the page and the tables",
        "config",
        "results",
        "out",
        missing_ok={"action": "store_true"},
    )
    verb("recover", recover, "end drivers that outlived Snakemake", "results")
    verb("export-schemas", schemas, "write the JSON schemas of config, cards and records", "out")
    return top


def interrupt(*_: object) -> None:
    """A scheduler ends a job with SIGTERM: take it as Ctrl-C, which ends the server and closes the journal."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in whatever a script starts with `&`
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


def main(arguments: list[str] | None = None) -> int:
    """Run one verb. A fault that the user can mend is one line and exit code 2."""
    given = parser().parse_args(arguments)
    log_to(given.log)
    signal.signal(signal.SIGTERM, interrupt)
    try:
        given.run(given)
    except UserError as error:
        logging.getLogger("maieutic").error("%s", error)
        return 2
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES}:
            raise
        mend = "make room or mend the permissions, then run again: what was finished is kept"
        logging.getLogger("maieutic").error(
            "%s", UserError(str(error.filename or "results"), str(error.strerror), mend)
        )
        return 2
    except KeyboardInterrupt:
        logging.getLogger("maieutic").error("%s was interrupted; what was finished is kept", given.verb)
        return 130
    except Exception:
        logging.getLogger("maieutic").exception("%s failed", given.verb)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
