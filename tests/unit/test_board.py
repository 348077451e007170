"""Tests of submissions and of the board that checks them: replies that others published, altered in five ways."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.extensions import MANIFEST
from maieutic.core.files import sha256_of
from maieutic.core.journal import canonical_digest
from maieutic.core.records import NO_REQUEST, Item, Prompt, Reply, Reward, Turn, read_records, write_records
from maieutic.launch.provenance import provenance_of_plan
from maieutic.launch.saved_runs import SaveConfig, save_config
from maieutic.plan.provenance import CodeState
from maieutic.plan.rules import RulePlan
from maieutic.preparation.items import MakeItems, make_items
from maieutic.record.board import board
from maieutic.record.finished_run import load_finished_run
from maieutic.record.planned_jobs import folder_of_run, jobs_of_run
from maieutic.record.share import share
from maieutic.record.summary import LEADERBOARDS, write_leaderboards
from maieutic.replies.baselines import baseline_reply
from maieutic.replies.generate import first_messages
from maieutic.report import write_report
from maieutic.run_plan import unchecked_plan
from shipped import shipped
from test_record import rewrite

BENCHMARK, REWARD_MODEL = "mathtutorbench", "rewarder"
PUBLISHED = {  # the values that the released code gave to these replies, of results-Qwen3-4B-Instruct-2507.yaml
    "pedagogy_following": 0.98173913, "pedagogy_following_hard": 0.87155963, "scaffolding_generation": 0.40608696,
    "scaffolding_generation_hard": 0.34862385,
}  # fmt: skip
HARD = ["pedagogy_following_hard", "scaffolding_generation_hard"]
HOSTED = {"engine": "hosted", "model": "m", "base_url": "http://127.0.0.1:9/v1", "label": "Qwen3-4B"}


def published_texts(data: Path, task: str) -> list[str]:
    """Return the published replies to a task, in the order of its items."""
    name = f"generations-Qwen3-4B-Instruct-2507-{task}.json"
    content = json.loads((data / "published_replies/mathtutorbench" / name).read_text(encoding="utf-8"))
    return [entry["generated_teacher_utterance"] for entry in content]


def submit(
    data: Path, folder: Path, tutor: str, tasks: list[str], *, hashed: bool = False, rewards: bool = False,
    second: str | None = None, **run: Any,
) -> Path:  # fmt: skip
    """Write a finished run of published replies, made by the run's folder_of_page jobs, and share it as a submission.

    hashed: the replies have hashes of the prompts; rewards: recorded rewards: the length of each reply; second: another
    recorded tutor, with the same replies to the first task alone.
    """
    config = shipped()
    recorded = {"engine": "recorded", "file": "replies.jsonl", "label": "Qwen3-4B"}
    config["models"][tutor] = HOSTED if hashed else recorded
    config["models"][REWARD_MODEL] = {"engine": "reward", "weights": {"repo": "org/rewarder", "revision": "0" * 40}}
    config |= {"edition": "published", "report": {"resamples": 100, "items_mb": 0}}
    names = [f"{BENCHMARK}/{task}" for task in tasks]
    answering = {tutor: tasks, **({second: tasks[:1]} if second else {})}
    if second:
        config["models"][second] = {**recorded, "tasks": names[:1]}
    config["run"] = {"tutors": list(answering), "tasks": names, "labels": [], **run}
    config["run"] |= {"reward_models": [REWARD_MODEL]} if rewards else {"preferences": []}
    plan, results = unchecked_plan(config), folder / "results"
    scored: dict[str, list[Reward]] = {}
    replies: dict[str, list[Reply]] = {name: [] for name in plan.tutors}
    prompts: list[Prompt] = []
    for loaded in plan.benchmarks[BENCHMARK]:
        task, dataset = loaded.card.task, plan.datasets[loaded.card.dataset]
        path = paths.ITEMS.within(results, benchmark=BENCHMARK, task=task)
        job = MakeItems(benchmark=BENCHMARK, task=task, form=dataset.format, seed=plan.run.seed, limit=plan.run.limit)
        make_items(job=job, source=data / dataset.published.path, pictures=[], out=path)
        items = read_records(path, Item)
        texts = dict(zip(sorted(item.id for item in items), published_texts(data, task), strict=False))
        for item in items:
            messages = first_messages(loaded, item, None, False, "user")
            sent = canonical_digest(messages) if hashed else NO_REQUEST
            prompts.append(Prompt(messages=sent, content=messages))
            turn = Turn(messages=sent, text=texts[item.id])
            for name in plan.tutors:
                if name in answering:
                    reply = Reply(id=item.id, task=task, tutor=name, key="k", turns=[turn])
                    replies[name] += [reply] if task in answering[name] else []
                else:
                    replies[name].append(baseline_reply(name, plan.models[name].tutor, item, 1))  # type: ignore[union-attr]
    for name, made in replies.items():
        write_records(paths.REPLIES.within(results, benchmark=BENCHMARK, tutor=name), made)
        write_records(paths.PROMPTS.within(results, benchmark=BENCHMARK, tutor=name), prompts if name == tutor else [])
        batch = next((batch for batch, members in plan.reward_batches(BENCHMARK).items() if name in members), "")
        scored.setdefault(batch, []).extend(
            Reward(
                id=reply.id,
                task=reply.task,
                tutor=name,
                key=f"{name}{reply.id}{reply.task}",
                score=float(len(reply.text)),
                tokens=1,
            )
            for reply in made
        )
    for batch, made_rewards in scored.items() if rewards else ():
        names_of_file = {"reward_model": REWARD_MODEL, "benchmark": BENCHMARK, "batch": batch}
        write_records(paths.REWARDS.within(results, **names_of_file), made_rewards)
    compute(plan, results)
    folder_of_page = results / "report"
    content = plan.config.model_dump(mode="json")
    provenance = provenance_of_plan(plan, CodeState(commit="c" * 40))
    save = SaveConfig(config=content, provenance=provenance.model_dump())
    save_config(job=save, out=folder_of_page / "config.yaml", provenance=folder_of_page / "provenance.json")
    write_report(plan, provenance, results, folder_of_page)
    return folder_of_page


def compute(plan: RulePlan, results: Path) -> None:
    """Run the jobs that compute grades and scores."""
    with folder_of_run(results):
        for job in (job for job in jobs_of_run(plan, results) if not job.missing):
            for path in job.outputs:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
            job.run({})


def pack(folder_of_page: Path, out: Path) -> None:
    """Write a submission without the validations of its graders, which `maieutic share` would ask for."""
    shutil.copytree(folder_of_page.parent, out / "results")
    (out / LEADERBOARDS).mkdir()
    write_leaderboards(load_finished_run(out / "results/report"), out / LEADERBOARDS)
    write_manifest(out)


def write_manifest(folder: Path) -> None:
    """Write the checksums of all files of a folder."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    lines = [f"{sha256_of(folder / name)}  {name}\n" for name in names if name != MANIFEST]
    (folder / MANIFEST).write_text("".join(lines), encoding="utf-8")


def board_rows(out: Path) -> list[dict[str, str]]:
    """Return the rows of a board's table."""
    with (out / "board.csv").open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


@pytest.fixture(scope="module")
def submission(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a submission of replies with prompt hashes and recorded rewards to the two hard tasks."""
    folder = tmp_path_factory.mktemp("run")
    folder_of_page = submit(data, folder, "qwen", HARD, hashed=True, rewards=True)
    pack(folder_of_page, folder / "qwen")
    return folder / "qwen"


def test_published_replies_get_their_published_values(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    (tmp_path / "subs").mkdir()
    for task in PUBLISHED:
        folder_of_page = submit(data, tmp_path / task, f"qwen-{task}", [task])
        share(run=folder_of_page, out=tmp_path / f"subs/{task}", submission=True)
    assert "mathtutorbench: 1 tutors, pedagogy_following n = 1,150" in caplog.text
    head = "model,revision,protocol,pedagogy_following/win_rate\n"
    (tmp_path / "subs/elsewhere.csv").write_text(f"{head}Elsewhere,,released,0.9000\n", encoding="utf-8")
    board(tmp_path / "subs", out=tmp_path / "board")
    rows = {row["tutor"]: row for row in board_rows(tmp_path / "board")}
    for task, value in PUBLISHED.items():
        row = rows[f"qwen-{task}"]
        assert row[f"{task}/match"] == f"{value:.8f}" and "have no prompt hashes" in row["checked"]
    assert rows["Elsewhere"]["checked"] == "claimed, not checked"
    page = (tmp_path / "board/index.html").read_text(encoding="utf-8")
    assert "Claimed, not checked" in page and 'data-start="#/"' in page


def reward_file(folder: Path) -> str:
    return next(str(path.relative_to(folder)) for path in folder.rglob("rewards/replies/*/*/qwen.jsonl"))


def changed_replies(edit: Callable[[list[Reply]], str]) -> Callable[[Path], str]:
    """Return a change of a submission's replies. edit: changes their list, and returns the expected message."""

    def change(folder: Path) -> str:
        path = folder / f"results/replies/{BENCHMARK}/qwen.jsonl"
        replies = read_records(path, Reply)
        message = edit(replies)
        write_records(path, replies)
        return message

    return change


def change_turn(replies: list[Reply], place: int, **changes: str) -> None:
    """Change the turn of one reply."""
    turn = replies[place].turns[0].model_copy(update=changes)
    replies[place] = replies[place].model_copy(update={"turns": [turn]})


def altered_reply(place: int) -> Callable[[Path], str]:
    """Return a change of one reply: it asks where it did not, and the other way round."""

    def edit(replies: list[Reply]) -> str:
        change_turn(replies, place, text="No." if "?" in replies[place].text else "Why?")
        return rf"grades/{BENCHMARK}/_parsers/qwen\.jsonl: .*"

    return changed_replies(edit)


def swapped(first: int, second: int) -> Callable[[Path], str]:
    """Return a change of the order of two replies."""

    def edit(replies: list[Reply]) -> str:
        expected = replies[first].id
        replies[first], replies[second] = replies[second], replies[first]
        return rf"qwen\.jsonl: order: the reply to .* stands where that to {expected} belongs"

    return changed_replies(edit)


def fewer(items: bool, number: int) -> Callable[[Path], str]:
    """Return a change of n: the last replies are dropped, with their items if `items`."""

    def change(folder: Path) -> str:
        path = folder / f"results/replies/{BENCHMARK}/qwen.jsonl"
        write_records(path, read_records(path, Reply)[:-number])
        if not items:
            return rf"qwen\.jsonl: n: {327 - number} replies to the 327 items"
        item_file = folder / f"results/items/{BENCHMARK}/{HARD[1]}.jsonl"
        write_records(item_file, read_records(item_file, Item)[:-number])
        return rf"{HARD[1]}\.jsonl: n: expected 327 items, found {327 - number}"

    return change


def other_protocol(protocol: str) -> Callable[[Path], str]:
    """Return a change of the protocol that the run claims."""

    def change(folder: Path) -> str:
        rewrite(folder / "results/report/config.yaml", lambda text: text.replace("protocol: released", f"protocol: {protocol}"))  # fmt: skip
        return rf"leaderboards/{BENCHMARK}\.csv: row 1, protocol: found 'released', recomputed '{protocol}'"

    return change


def other_prompt(place: int) -> Callable[[Path], str]:
    """Return a change of one prompt's hash."""

    def edit(replies: list[Reply]) -> str:
        change_turn(replies, place, messages=f"sha256:{'0' * 64}")
        return rf"protocol: {replies[place].id} of .* was not asked as released prescribes"

    return changed_replies(edit)


def other_reward(place: int) -> Callable[[Path], str]:
    """Return a change of one recorded reward, so that the reply wins where it lost, and the other way round."""

    def change(folder: Path) -> str:
        path = folder / reward_file(folder)
        rewards = read_records(path, Reward)
        score = -1.0 if (rewards[place].score or 0) > 200 else 1e6
        rewards[place] = rewards[place].model_copy(update={"score": score})
        write_records(path, rewards)
        return rf"grades/{BENCHMARK}/{REWARD_MODEL}/qwen\.jsonl: .*"

    return change


ALTERED: list[tuple[str, Callable[[Path], str]]] = [
    *((f"reply {place}", altered_reply(place)) for place in (0, 100, 326, 653)),
    *((f"order {pair}", swapped(*pair)) for pair in ((0, 1), (5, 300), (325, 326), (327, 653))),
    *((f"n {items} {number}", fewer(items, number)) for items in (False, True) for number in (1, 7)),
    *((f"protocol {name}", other_protocol(name)) for name in ("newlines", "corrected")),
    *((f"prompt {place}", other_prompt(place)) for place in (3, 500)),
    *((f"reward {place}", other_reward(place)) for place in (0, 40, 327, 650)),
]


@pytest.mark.parametrize(("why", "change"), ALTERED, ids=[why for why, _ in ALTERED])
def test_an_altered_submission_is_refused_by_file_and_first_value(
    why: str, change: Callable[[Path], str], submission: Path, tmp_path: Path
) -> None:
    """The sender has also written the manifest anew."""
    assert len(ALTERED) == 20
    folder = tmp_path / "subs/changed"
    shutil.copytree(submission, folder)
    message = change(folder)
    write_manifest(folder)
    with pytest.raises(UserError, match=rf"^changed: .*{message}"):
        board(tmp_path / "subs", out=tmp_path / "board")
    assert not (tmp_path / "board").exists()


@pytest.mark.parametrize("cells", [-1, 1])
def test_rows_with_other_numbers_of_cells_are_refused(cells: int, submission: Path, tmp_path: Path) -> None:
    """A column that is missing, or one too many, is an alteration too."""
    folder = tmp_path / "subs/changed"
    shutil.copytree(submission, folder)
    path = folder / f"leaderboards/{BENCHMARK}.csv"
    rows = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()]
    changed = [[*row, "1"] if cells > 0 else row[:cells] for row in rows]
    path.write_text("".join(f"{','.join(row)}\n" for row in changed), encoding="utf-8")
    write_manifest(folder)
    with pytest.raises(UserError, match=rf"^changed: leaderboards/{BENCHMARK}\.csv: found columns"):
        board(tmp_path / "subs", out=tmp_path / "board")


def test_a_tutor_has_replies_to_its_own_tasks_alone(data: Path, tmp_path: Path) -> None:
    page = submit(data, tmp_path / "run", "qwen", HARD, second="half")
    pack(page, tmp_path / "subs/both")
    board(tmp_path / "subs", out=tmp_path / "board")
    rows = {row["tutor"]: row for row in board_rows(tmp_path / "board")}
    assert rows["half"][f"{HARD[0]}/match"] == rows["qwen"][f"{HARD[0]}/match"] == f"{PUBLISHED[HARD[0]]:.8f}"
    assert rows["half"][f"{HARD[1]}/match"] == "" != rows["qwen"][f"{HARD[1]}/match"]


def test_a_missing_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="none: is not a folder"):
        board(tmp_path / "none", out=tmp_path / "board")


def test_a_refused_submission_does_not_stop_the_others(submission: Path, data: Path, tmp_path: Path) -> None:
    subs = tmp_path / "subs"
    for name in ("one", "two", "changed"):
        shutil.copytree(submission, subs / name)
    rewrite(subs / f"changed/results/scores/{BENCHMARK}/qwen.json", lambda text: text.replace("0.", "0.1", 1))
    pack(submit(data, tmp_path / "other", "qwen", HARD, hashed=True), subs / "zother")
    with pytest.raises(UserError) as refusal:
        board(subs, out=tmp_path / "board")
    changed, other = [fault.line for fault in refusal.value.all]
    assert re.search(r"changed: .*qwen\.json was altered", changed)
    assert f"zother: {REWARD_MODEL} is not the same as in one" in other
    rows = board_rows(tmp_path / "board")
    assert [(row["tutor"], row["submission"]) for row in rows] == [("qwen-one", "one"), ("qwen-two", "two")]
    assert {row["best_rank"] for row in rows} == {"1"} and {row["worst_rank"] for row in rows} == {"2"}, "equal replies"
    assert all(f"computed from recorded rewards of {REWARD_MODEL}" in row["checked"] for row in rows)
    assert "Refused" in (tmp_path / "board/index.html").read_text(encoding="utf-8")


def test_a_sample_is_no_submission(data: Path, tmp_path: Path) -> None:
    folder_of_page = submit(data, tmp_path, "qwen", HARD[:1], limit=20)
    with pytest.raises(UserError, match=r"^run\.limit: a leaderboard counts all items, and this run has at most 20"):
        share(run=folder_of_page, out=tmp_path / "out", submission=True)
    share(run=folder_of_page, out=tmp_path / "plain")
    (tmp_path / "subs").mkdir()
    (tmp_path / "plain").rename(tmp_path / "subs/plain")
    with pytest.raises(UserError, match=r"plain: run\.limit"):
        board(tmp_path / "subs", out=tmp_path / "board")
