"""`python -m maieutic VERB ...`: the command line of every verb that a rule runs."""

from __future__ import annotations

import argparse
import errno
import gc
import json
import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from maieutic.errors import UserError
from maieutic.logs import log_to

if TYPE_CHECKING:
    from maieutic.judges.judging import Panel
    from maieutic.models import RewardModel
    from maieutic.rewards.loading import Machine

Arguments = argparse.Namespace
GC_THRESHOLDS = (100_000, 50, 1000)
Verb = Callable[[Arguments], None]


def fetch(given: Arguments) -> None:
    from maieutic.datasets.fetch import fetch_dataset
    from maieutic.datasets.sources import Dataset

    dataset = Dataset.model_validate_json(given.settings)
    fetch_dataset(given.dataset, dataset, given.edition, given.data_dir, given.demo_dir, given.out)


def fetch_pictures(given: Arguments) -> None:
    from maieutic.datasets.pictures import fetch_pictures as run
    from maieutic.datasets.sources import Dataset

    dataset = Dataset.model_validate_json(given.settings)
    root = given.demo_dir if given.edition == "demo" else given.data_dir
    path = dataset.copy_of(given.dataset, given.edition).path
    folder = (root / path).parent if root else None
    run(given.dataset, dataset, given.edition, given.source, folder, given.store, given.out)


def prepare(given: Arguments) -> None:
    from pydantic import TypeAdapter

    from maieutic.models import AnyWeights
    from maieutic.weights import prepare_weights

    prepare_weights(given.model, TypeAdapter(AnyWeights).validate_json(given.weights), given.out, given.with_code)


def items(given: Arguments) -> None:
    from maieutic.commands import make_items

    make_items(
        given.benchmark,
        given.task,
        given.format,
        given.source,
        given.out,
        given.limit,
        given.seed,
        given.pictures,
    )


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
        given.pictures,
    )


def parse(given: Arguments) -> None:
    from maieutic.commands import parse_replies

    parse_replies(given.benchmark, given.tasks, given.items, given.replies, given.out)


def labels(given: Arguments) -> None:
    from maieutic.datasets.sources import read_source
    from maieutic.judges.labels import make_labels

    records = [read_source(path, form) for path, form in zip(given.sources, given.formats, strict=True)]
    make_labels(given.release, records, given.out)


def panel_of(given: Arguments) -> Panel:
    """A judge and the model that answers."""
    from maieutic.commands import model_of
    from maieutic.judges.judging import Panel
    from maieutic.models import BaselineModel, JudgeModel

    model = model_of(given.answering)
    if isinstance(model, BaselineModel):
        raise UserError(given.judge, "a baseline tutor cannot judge", "name a served or hosted model")
    judge = JudgeModel.model_validate_json(given.settings)
    return Panel(given.judge, judge, model, given.seed, given.stop_above)


def grade(given: Arguments) -> None:
    from maieutic.commands import cards_of
    from maieutic.judges.judging import run_judge
    from maieutic.judges.work import work_on_replies

    panel = panel_of(given)
    cards = [loaded.card for loaded in cards_of(given.benchmark, given.tasks, "released")]
    work = work_on_replies(panel.judge, cards, given.items, given.replies)
    run_judge(panel, work, given.weights, given.journal, given.server_log, given.out, given.pictures)


def judge_labelled(given: Arguments) -> None:
    from maieutic.judges.judging import run_judge
    from maieutic.judges.work import work_on_labels, work_on_pairs

    panel = panel_of(given)
    work = work_on_labels(panel.judge, given.labels, given.limit, given.seed)
    work += work_on_pairs(panel.judge, given.pairs, given.limit, given.seed)
    run_judge(panel, work, given.weights, given.journal, given.server_log, given.out)


def validate_judge(given: Arguments) -> None:
    from maieutic.judges.validation import validate_judge as run

    run(
        given.judge,
        given.judgements,
        given.labels,
        given.pairs,
        given.out,
        given.pairs_out,
        given.resamples,
        given.seed,
    )


def score_labels(given: Arguments) -> None:
    from maieutic.judges.validation import score_people

    score_people(given.release, given.labels, given.out, given.resamples, given.seed)


def validate_reward_labels(given: Arguments) -> None:
    from maieutic.judges.validation import validate_reward_on_labels

    validate_reward_on_labels(
        given.model, given.labels, given.rewards, given.seen, given.out, given.resamples, given.seed
    )


def validate_criteria_labels(given: Arguments) -> None:
    from maieutic.judges.validation import validate_criteria_on_labels

    validate_criteria_on_labels(given.model, given.labels, given.heldout, given.out, given.resamples, given.seed)


def correct(given: Arguments) -> None:
    from maieutic.judges.validation import correct_by_people

    correct_by_people(given.judge, given.judgements, given.people, given.out, given.resamples, given.seed)


def align(given: Arguments) -> None:
    from maieutic.judges.alignment import align_judge

    align_judge(given.judge, given.judgements, given.people, given.out, given.resamples, given.seed)


def draw(given: Arguments) -> None:
    from maieutic.judges.study import draw_study

    draw_study(
        given.results, given.benchmark, given.task, given.tutors, given.n, given.annotators, given.seed, given.out
    )


def read(given: Arguments) -> None:
    from maieutic.judges.study import read_study

    read_study(given.study, given.resolver, given.out)


def predictions(given: Arguments) -> None:
    from maieutic.judges.predictions import score_predictions

    score_predictions(given.labels, given.predictions, given.out, given.resamples, given.seed, given.missing)


def submission(given: Arguments) -> None:
    from maieutic.judges.submission import write_submission

    write_submission(given.release, given.source, given.judgements, given.out, given.packed)


def check_judges(given: Arguments) -> None:
    from maieutic.judges.validation import CheckJudges, check_judges

    check_judges(job=CheckJudges.model_validate_json(given.job), judgements=given.judgements, out=given.out)


def pairs(given: Arguments) -> None:
    from maieutic.datasets.sources import read_source
    from maieutic.rewards.pairs import make_pairs

    records = [read_source(path, form) for path, form in zip(given.sources, given.formats, strict=True)]
    make_pairs(given.preference, records, given.out, given.counts, given.edition == "published")


def overlap(given: Arguments) -> None:
    from maieutic.rewards.overlap import find_overlap

    find_overlap(given.items, given.tasks, given.pairs, given.out)


def reward_settings(given: Arguments) -> tuple[RewardModel, Machine]:
    """The registry entry of a reward model, and what its job was given."""
    from maieutic.models import RewardModel
    from maieutic.rewards.loading import Machine

    return RewardModel.model_validate_json(given.settings), Machine(given.gpus, given.threads)


def train_reward(given: Arguments) -> None:
    from maieutic.rewards.training import train_reward_model

    model, machine = reward_settings(given)
    train_reward_model(given.model, model, given.base, given.preferences, given.journal, given.out, machine)


def train_criteria(given: Arguments) -> None:
    from maieutic.datasets.sources import read_source
    from maieutic.models import CriteriaModel
    from maieutic.rewards.criteria import train_criteria as run
    from maieutic.rewards.loading import Machine

    run(
        given.model,
        CriteriaModel.model_validate_json(given.settings),
        given.base,
        read_source(given.labels, given.format),
        given.pairs,
        given.journal,
        given.out,
        Machine(given.gpus, given.threads),
    )


def score_pairs(given: Arguments) -> None:
    from maieutic.rewards.scoring import score_pairs as run

    model, machine = reward_settings(given)
    run(
        given.model,
        model,
        given.weights,
        given.pairs,
        given.labels,
        given.journal,
        given.out,
        given.labels_out,
        machine,
    )


def score_rewards(given: Arguments) -> None:
    from maieutic.records import Item, read_records
    from maieutic.rewards.scoring import score_replies

    model, machine = reward_settings(given)
    cases = [item for task in given.tasks for item in read_records(given.items / f"{task}.jsonl", Item)]
    score_replies(given.model, model, given.weights, cases, given.replies, given.journal, given.out, machine)


def grade_rewards(given: Arguments) -> None:
    from maieutic.graders.rewards import GradeByRewards, grade_by_rewards

    grade_by_rewards(
        job=GradeByRewards.model_validate_json(given.job),
        items=given.items,
        replies=given.replies,
        rewards=given.rewards,
        overlaps=given.overlaps,
        out=given.out,
    )


def grade_verdicts(given: Arguments) -> None:
    from maieutic.graders.judges import GradeVerdicts, grade_verdicts

    job = GradeVerdicts.model_validate_json(given.job)
    grade_verdicts(job=job, verdicts=given.verdicts, items=given.items, out=given.out)


def validate_reward(given: Arguments) -> None:
    from maieutic.rewards.validation import validate_reward_model

    validate_reward_model(given.model, given.pairs, given.rewards, given.out, given.resamples, given.seed)


def validate_criteria(given: Arguments) -> None:
    from maieutic.rewards.validation import validate_criteria as run

    run(given.model, given.pairs, given.heldout, given.bridge, given.out, given.resamples, given.seed)


def card(given: Arguments) -> None:
    from maieutic.rewards.card import write_card

    write_card(
        given.model,
        given.training,
        given.pairs,
        given.rewards,
        given.counts,
        given.out,
        given.resamples,
        given.seed,
    )


def score(given: Arguments) -> None:
    from maieutic.score import ScoreReplies, score_replies

    job = ScoreReplies.model_validate_json(given.job)
    score_replies(job=job, items=given.items, grades=given.grades, out=given.out)


def compare(given: Arguments) -> None:
    from maieutic.differences import CompareTutors, compare_tutors

    job = CompareTutors.model_validate_json(given.job)
    compare_tutors(job=job, items=given.items, grades=given.grades, out=given.out)


def config(given: Arguments) -> None:
    from maieutic.commands import save_config
    from maieutic.files import write_json

    save_config(given.settings, given.out)
    if given.provenance_out:
        write_json(given.provenance_out, json.loads(given.provenance))


def report(given: Arguments) -> None:
    from maieutic.report import build_report

    build_report(given.config, given.results, given.out, given.missing_ok, given.provenance)


def check_report(given: Arguments) -> None:
    from maieutic.report import check_report

    check_report(given.problems, given.out)


def shipped(given: Arguments) -> None:
    from maieutic.provenance import write_shipped

    write_shipped(given.datasets, given.out)


def recover(given: Arguments) -> None:
    from maieutic.recover import end_orphans

    end_orphans(given.results)


def schemas(given: Arguments) -> None:
    from maieutic.schemas import export_schemas, write_config_page

    export_schemas(given.out)
    write_config_page()


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
    verb("fetch-pictures", fetch_pictures, "bring the pictures of one dataset", "source", "store", "demo-dir", "out",
         dataset=need, settings=need, edition=need, data_dir={"type": Path})  # fmt: skip
    verb("prepare-weights", prepare, "bring one model's safetensors", "out",
         model=need, weights=need, with_code={"action": "store_true"})  # fmt: skip
    verb("make-items", items, "source file to items", "source", "out",
         benchmark=need, task=need, format=need, limit=number, seed=seed, pictures={"type": Path})  # fmt: skip
    verb("generate-replies", generate, "ask one model every item of a benchmark",
         "items", "journal", "server-log", "out", "prompts",
         benchmark=need, tasks=tasks, protocol=need, model=need, settings=need,
         weights={"type": Path}, max_tokens=number, seed=seed, pictures={"type": Path})  # fmt: skip
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
    files: dict[str, object] = {"nargs": "+", "type": Path, "required": True}
    some: dict[str, object] = {"nargs": "*", "type": Path, "default": []}
    machine: dict[str, dict[str, object]] = {"gpus": seed, "threads": seed}
    verb("make-pairs", pairs, "source files to preference pairs", "out", "counts",
         preference=need, edition=need, sources=files, formats=tasks)  # fmt: skip
    verb("find-overlap", overlap, "which human replies stand in training pairs", "items", "pairs", "out", tasks=tasks)
    verb("train-reward-model", train_reward, "preference pairs to a reward model",
         "base", "preferences", "journal", "out", model=need, settings=need, **machine)  # fmt: skip
    verb("write-model-card", card, "the model card of a trained reward model", "training", "pairs", "rewards", "out",
         model=need, counts=some, resamples=seed, seed=seed)  # fmt: skip
    verb("train-criteria", train_criteria, "labels to criteria classifiers",
         "base", "labels", "pairs", "journal", "out", model=need, settings=need, format=need, **machine)  # fmt: skip
    verb("score-pairs", score_pairs, "score test pairs and labelled replies with a reward model", "weights",
         "pairs", "labels", "journal", "out", "labels-out", model=need, settings=need, **machine)  # fmt: skip
    judge: dict[str, dict[str, object]] = {"judge": need, "settings": need, "answering": need, "seed": seed,
                                           "weights": {"type": Path},
                                           "stop_above": {"type": float, "default": 0.5}}  # fmt: skip
    sampling: dict[str, dict[str, object]] = {"resamples": seed, "seed": seed}
    verb("make-labels", labels, "source files to labelled replies", "out", release=need, sources=files, formats=tasks)
    verb("write-submission", submission, "a judge's predictions as a file of the shared task",
         "source", "judgements", "out", "packed", release=need)  # fmt: skip
    verb("grade-replies", grade, "a judge on tutors' replies", "items", "journal", "server-log", "out",
         benchmark=need, tasks=tasks, replies=files, pictures={"type": Path}, **judge)  # fmt: skip
    verb("judge-labelled", judge_labelled, "a judge on labelled replies and on pairs", "journal", "server-log", "out",
         labels=some, pairs={"type": Path}, limit=number, **judge)  # fmt: skip
    verb("validate-judge", validate_judge, "a judge against people", "judgements", "out", "pairs-out",
         judge=need, labels=some, pairs={"type": Path}, **sampling)  # fmt: skip
    verb("score-labels", score_labels, "what people say of the labelled tutors", "labels", "out",
         release=need, **sampling)  # fmt: skip
    verb("validate-reward-on-labels", validate_reward_labels, "a reward model against people's labels",
         "labels", "rewards", "out", model=need, seen={"action": "store_true"}, **sampling)  # fmt: skip
    verb("validate-criteria-on-labels", validate_criteria_labels, "classifiers against people's labels",
         "labels", "heldout", "out", model=need, **sampling)  # fmt: skip
    verb("correct-by-people", correct, "a judge's rates corrected by labels of your own", "people", "out",
         judge=need, judgements=files, **sampling)  # fmt: skip
    verb("align-judge", align, "a judge's Win, Tie and Lose against people's", "people", "out",
         judge=need, judgements=files, **sampling)  # fmt: skip
    verb("draw-study", draw, "a blind sample of compared replies for annotators", "out",
         results={"type": Path, "default": Path("results")}, benchmark={"default": "kmpbench"},
         task={"default": "dialogue"}, tutors=tasks, n={"type": int, "default": 300}, annotators=tasks,
         seed={"type": int, "default": 1})  # fmt: skip
    verb("read-study", read, "annotators' sheets to labels", "study", "out", resolver={})
    verb("score-predictions", predictions, "predictions of your own by the BEA 2025 protocol",
         "labels", "predictions", "out",
         missing={"choices": ["wrong", "exclude", "refuse"], "default": "wrong"},
         resamples={"type": int, "default": 2000}, seed={"type": int, "default": 1})  # fmt: skip
    verb("check-judges", check_judges, "fail where too many verdicts cannot be read", "out",
         judgements=some, job=need)  # fmt: skip
    verb("score-rewards", score_rewards, "score tutors' replies with a reward model",
         "weights", "items", "journal", "out",
         model=need, settings=need, tasks=tasks, replies=files, **machine)  # fmt: skip
    verb("grade-by-rewards", grade_rewards, "a tutor's rewards against the human ones", "items", "replies", "out",
         job=need, rewards=files, overlaps=some)  # fmt: skip
    verb("grade-verdicts", grade_verdicts, "a judge's verdicts to grades of one tutor", "verdicts", "items", "out",
         job=need)  # fmt: skip
    verb("score-replies", score, "grades to scores with intervals", "items", "out", job=need, grades=files)
    verb("compare-tutors", compare, "paired differences of tutors", "items", "out", job=need, grades=files)
    verb("validate-reward-model", validate_reward, "a reward model on the test pairs", "pairs", "rewards", "out",
         model=need, resamples=seed, seed=seed)  # fmt: skip
    verb("validate-criteria", validate_criteria, "criteria classifiers on labels and pairs",
         "pairs", "heldout", "bridge", "out", model=need, resamples=seed, seed=seed)  # fmt: skip
    verb("save-config", config, "write the effective configuration, and what the run was made of", "out", settings=need,
         provenance={}, provenance_out={"type": Path})  # fmt: skip
    verb("check-report", check_report, "fail where a part of the page could not be made", "problems", "out")
    verb(
        "build-report",
        report,
        "render the page and the tables",
        "config",
        "results",
        "out",
        missing_ok={"action": "store_true"},
        provenance={"type": Path},
    )
    from maieutic.cli_rubrics import add_verbs

    add_verbs(verb, judge)
    verb("recover", recover, "end drivers that outlived Snakemake", "results")
    verb("export-shipped", shipped, "write the checksums of what this version ships", "datasets", "out")
    verb("export-schemas", schemas, "write the JSON schemas of config, cards and records, and config/README.md", "out")
    return top


def interrupt(*_: object) -> None:
    """A scheduler ends a job with SIGTERM: take it as Ctrl-C, which ends the server and closes the journal."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in whatever a script starts with `&`
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


def main(arguments: list[str] | None = None) -> int:
    """Run one verb. A fault that the user can mend is one line and exit code 2."""
    given = parser().parse_args(arguments)
    # Records are hundreds of thousands of small objects that live to a verb's end. Looking for cycles among them again
    # and again took more than half of a report's time.
    gc.set_threshold(*GC_THRESHOLDS)
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
