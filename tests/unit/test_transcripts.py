"""Tests of `maieutic transcripts`: reading, faults, redaction, samples, the written run, and what the judge sees."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import enter_checkout
from maieutic.config.cards import read_card
from maieutic.config.rubrics import read_rubric
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.files import read_json_lines
from maieutic.core.records import Reply, ReportedScore, Turn
from maieutic.core.user_tables import MOST_FAULTS
from maieutic.judges.assignments import case_of_reply
from maieutic.judges.questions import question_messages, questions_about
from maieutic.tools import counting
from maieutic.tools import transcripts as command
from maieutic.tools.forgetting import forget
from maieutic.tools.transcripts import Evaluation, Limits, Output, Privacy, Source, transcripts
from maieutic.transcripts import section
from maieutic.transcripts.loaders import conversation_items, moment_items
from maieutic.transcripts.moments import conversation_key, conversation_record, sample_moments
from maieutic.transcripts.reading import read_transcripts
from maieutic.transcripts.redaction import Redactor
from maieutic.transcripts.section import subsets_of
from maieutic.transcripts.understanding import Conversation, Reading
from running import maieutic

HEAD = ["conversation", "turn", "role", "text", "tutor", "subject"]
ROWS = [
    ["a", 1, "tutor", "Hello!", "v1", "sums"], ["a", 2, "student", "I think it is 5.", "", "sums"],
    ["a", 3, "tutor", "How did you get 5?", "v1", "sums"], ["b", 1, "student", "Why?", "", "cubes"],
    ["b", 2, "tutor", "Because it is 8.", "v2", "cubes"], ["b", 3, "student", "Ah, 8.", "", "cubes"],
    ["b", 4, "tutor", "Yes!", "v2", "cubes"],
]  # fmt: skip
HOSTED = command.Hosted(address="http://127.0.0.1:9/v1", model="far-judge")


def table(path: Path, rows: Sequence[Sequence[Any]] = ROWS, head: Sequence[str] = HEAD) -> Path:
    """Write a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle).writerows([head, *rows])
    return path


def read_conversations(path: Path, reading: Reading) -> list[Conversation]:
    return read_transcripts(path, reading).conversations


def texts_of(path: Path, **reading: Any) -> dict[str, list[tuple[str, str]]]:
    """Return role and text of each message by conversation."""
    conversations = read_conversations(path, Reading(**reading))
    return {each.id: [(message.role, message.text) for message in each.messages] for each in conversations}


EXPECTED = {
    "a": [("tutor", "Hello!"), ("student", "I think it is 5."), ("tutor", "How did you get 5?")],
    "b": [("student", "Why?"), ("tutor", "Because it is 8."), ("student", "Ah, 8."), ("tutor", "Yes!")],
}


@pytest.mark.parametrize("form", ["csv", "semicolons", "utf-16", "jsonl", "json", "parquet"])
def test_a_row_per_message_is_read_from_every_format(tmp_path: Path, form: str) -> None:
    frame = pd.DataFrame(ROWS, columns=HEAD)
    path = tmp_path / f"chats.{form if form in ('jsonl', 'json', 'parquet') else 'csv'}"
    if form == "csv":
        frame.to_csv(path, index=False)
    elif form == "semicolons":
        path.write_bytes(b"\xef\xbb\xbf" + frame.to_csv(index=False, sep=";").encode())
    elif form == "utf-16":
        path.write_bytes(frame.to_csv(index=False, sep="\t").encode("utf-16"))
    elif form == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=form == "jsonl")
    assert texts_of(path) == EXPECTED


def test_rows_of_conversations_may_alternate_and_messages_of_one_role_are_one_turn(tmp_path: Path) -> None:
    rows = [["a", 1, "user", "One", "", ""], ["b", 1, "user", "Two", "", ""], ["a", 2, "user", "more", "", ""],
            ["a", 3, "system", "ignored", "", ""], ["a", 4, "assistant", "Yes.", "v", ""], ["b", 2, "bot", "No.", "v", ""]]  # fmt: skip
    path = table(tmp_path / "chats.csv", rows, ["chat_id", "turn", "speaker", "message", "tutor", "subject"])
    assert texts_of(path) == {
        "a": [("student", "One\n\nmore"), ("tutor", "Yes.")],
        "b": [("student", "Two"), ("tutor", "No.")],
    }


@pytest.mark.parametrize("turns", [
    [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "(probing) What: do you think?"}],
    json.dumps([{"user": "student", "text": "Why?"}, {"user": "tutor", "text": "(probing) What: do you think?"}]),
    "Student: Why?\nTutor: (probing) What: do you think?\n",
    "Mariana: Why?|EOM|Teacher: (probing) What: do you think?",
])  # fmt: skip
def test_a_row_per_conversation_is_read_in_every_form(tmp_path: Path, turns: Any) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_text(json.dumps({"id": 7, "dialogue": turns}) + "\n")
    [conversation] = read_conversations(path, Reading({"conversation": "id", "turns": "dialogue"}, moves=True))
    assert conversation.id == "7"
    assert [(part.role, part.text) for part in conversation.messages] == [
        ("student", "Why?"), ("tutor", "What: do you think?"),
    ]  # fmt: skip
    assert conversation.messages[1].tags == {"move": "probing"}


CHANGES = {  # change of ROWS -> messages
    "no role": ([(1, 2, "")], [r"chats.csv:3: the role is empty\. Fix: write tutor or student"]),
    "unknown role": ([(1, 2, "Mum")], [r"chats.csv: unknown word for a role: 'Mum' \(1\)\. Fix: pass --roles Mum=ROLE with student, tutor or system"]),
    "empty turn": ([(2, 3, " ")], [r"chats.csv:4: the text of the tutor's turn is empty\. Fix: .*--skip-empty"]),
    "out of order": ([(4, 1, 7)], [r"chats.csv: 1 conversations are not in the order of turn, such as b\. Fix: pass --sort turn .*; --yes takes: "]),
    "no number": ([(4, 1, "three")], [r"chats.csv: column turn has 'three', which is not a number"]),
    "no conversation": ([(3, 0, "")], [r"chats.csv: 1 rows have no id in column conversation \(first: .*chats.csv:5\)"]),
    "a doubt hides rows that only seem faulty": ([(0, 2, "x"), (6, 3, "")], [r"unknown word for a role: 'x' \(1\)"]),
    "two faults": ([(1, 2, ""), (6, 3, "")], [r"chats.csv:3: the role is empty", r"chats.csv:8: the text"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
def test_each_faulty_row_is_one_line_with_file_row_and_fix(tmp_path: Path, case: str) -> None:
    changes, messages = CHANGES[case]
    rows = [list(row) for row in ROWS]
    for row, column, value in changes:
        rows[row][column] = value
    with pytest.raises(UserError) as fault:
        read_conversations(table(tmp_path / "chats.csv", rows), Reading())
    lines = [each.line for each in fault.value.all]
    assert len(lines) == len(messages)
    for line, message in zip(lines, messages, strict=True):
        pytest.importorskip("re").search(message, line) or pytest.fail(f"{line!r} does not match {message!r}")


def test_two_tutors_in_a_turn_are_refused(tmp_path: Path) -> None:
    rows = [
        ["a", 1, "student", "Why?", "", ""],
        ["a", 2, "tutor", "So.", "v1", ""],
        ["a", 3, "tutor", "Or so.", "v2", ""],
    ]
    with pytest.raises(UserError, match=r"chats.csv:4: conversation a: one turn has two tutors, v1 and v2"):
        read_conversations(table(tmp_path / "chats.csv", rows), Reading())


def test_many_faults_are_counted(tmp_path: Path) -> None:
    rows = [["a", number, "tutor", "", "", ""] for number in range(MOST_FAULTS + 7)]
    with pytest.raises(UserError, match="7 more rows are faulty") as fault:
        read_conversations(table(tmp_path / "chats.csv", rows), Reading())
    assert len(fault.value.all) == MOST_FAULTS + 1


@pytest.mark.parametrize(("name", "content", "message"), [
    ("chats.csv", b"conversation,role,text\na,student,\xe9\nb,student,\xc3\xa9\n", "chats.csv:2: line 2 is not UTF-8"),
    ("chats.csv", b"", "the file is empty"),
    ("chats.csv", b"conversation,role,text\n", "the table has no rows"),
    ("chats.csv", b"conversation,role,text,text\na,student,x,y\n", "chats.csv:1: two columns are named text"),
    ("chats.csv", b"x,y\n1,2\n", "found no column for conversation, role, text among x, y"),
    ("chats.xlsx", b"PK\x03\x04x", r"cannot be read as a workbook"),
    ("chats.jsonl", b'{"conversation": "a"\n[1]\n', "cannot be parsed"),
    ("chats.parquet", b"PAR1", "cannot be read as Parquet"),
    ("chats.csv", b"conversation,role,text\na,student,Hi\n", "no message has the role of a tutor"),
])  # fmt: skip
def test_unreadable_files_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_conversations(path, Reading())


def test_a_large_file_is_refused_and_the_fix_works(tmp_path: Path) -> None:
    path = table(tmp_path / "chats.csv", [[*row[:3], "x" * 300_000, *row[4:]] for row in ROWS])
    with pytest.raises(UserError, match=r"expected at most 1 MB, found 2 MB\. Fix: split the file, or pass --max-mb 3"):
        read_conversations(path, Reading(max_mb=1))
    assert len(read_conversations(path, Reading(max_mb=3))) == 2


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a file"):
        read_conversations(tmp_path, Reading())


@pytest.mark.parametrize("times", [["9:59", "10:01", "10:02"], ["2024-01-01T09:59", "2024-01-01T10:01", "2024-01-02"]])
def test_times_in_order_are_accepted_in_any_form(tmp_path: Path, times: list[str]) -> None:
    rows = [["a", time, role, "x", "", ""] for time, role in zip(times, ("student", "tutor", "student"), strict=True)]
    path = table(tmp_path / "chats.csv", rows, ["conversation", "time", "role", "text", "tutor", "subject"])
    assert len(read_conversations(path, Reading())) == 1
    rows[0][1], rows[1][1] = "2024-01-01T10:00", "2024-01-01T09:00"
    rows[2][1] = "2024-01-01T11:00"
    problem = r"not in the order of time, such as a \(by at most an hour, as when summer time"
    with pytest.raises(UserError, match=problem):
        read_conversations(table(path, rows, ["conversation", "time", "role", "text", "tutor", "subject"]), Reading())


def test_a_tag_holds_until_another_value_follows(tmp_path: Path) -> None:
    rows = [list(row) for row in ROWS]
    for place, subject in enumerate(["", "sums", "", "cubes", "", "", "graphs"]):
        rows[place][5] = subject
    conversations = read_conversations(table(tmp_path / "chats.csv", rows), Reading(tags=["subject"]))
    tags = [
        message.tags.get("subject") for each in conversations for message in each.messages if message.role == "tutor"
    ]
    assert tags == [None, "sums", "cubes", "graphs"]


@pytest.mark.parametrize(("turns", "message"), [
    ([{"role": "robot", "content": "x"}], r"unknown word for a role: 'robot' \(1\)\. Fix: pass --roles robot=ROLE"),
    ([{"role": "tutor"}], "turn 1 has no role or no text"),
    ("Mum: Hello\nTutor: Hi", "does not begin with a speaker: 'Mum: Hello'"),
    ("", "the conversation has no turns"),
    ("[1", "the turns are not a JSON list"),
])  # fmt: skip
def test_a_faulty_conversation_is_one_line(tmp_path: Path, turns: Any, message: str) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_text(json.dumps({"id": 7, "messages": turns}) + "\n")
    with pytest.raises(UserError, match=f"chats.jsonl.*{message}"):
        read_conversations(path, Reading())


def test_lines_without_a_speaker_belong_to_the_turn_and_calls_of_tools_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    parts = [{"type": "text", "text": "Why"}, {"type": "text", "text": "so?"}]
    lists = [
        {"role": "user", "content": parts}, {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "content": "42"}, {"role": "assistant", "content": "Well."},
    ]  # fmt: skip
    path.write_text(
        "".join(json.dumps({"chat": name, "messages": turns}) + "\n" for name, turns in (
            ("a", "Student: Why?\nTutor: See.\nNote: a hint\nStudent: Ah"), ("b", lists)))
    )  # fmt: skip
    assert texts_of(path) == {
        "a": [("student", "Why?"), ("tutor", "See.\nNote: a hint"), ("student", "Ah")],
        "b": [("student", "Why\nso?"), ("tutor", "Well.")],
    }


def test_a_column_that_does_not_exist_is_named(tmp_path: Path) -> None:
    path = table(tmp_path / "chats.csv")
    for reading, message in (
        (Reading({"text": "words"}), "--columns: .* has no column words"),
        (Reading({"words": "text"}), "--columns: the field words is unknown"),
        (Reading(tags=["grade"]), "--tags: .* has no column grade"),
        (Reading(names=["pupil"]), "--names: .* has no column pupil"),
    ):
        with pytest.raises(UserError, match=message):
            read_conversations(path, reading)


def inner_turns(text: str) -> dict[str, Any]:
    """Return an object with a list of two turns."""
    return {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "Count."}]}


def test_an_object_without_the_turns_of_the_others_is_a_conversation_without_turns(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    rows = [{"id": "a", "prompt": inner_turns("Why?")}, {"id": "b", "prompt": {"error": "no reply"}}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError, match=r"chats.jsonl:2: the conversation has no turns"):
        read_conversations(path, Reading())


def test_lists_of_turns_in_several_columns_are_never_chosen_or_merged_silently(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    rows = [{"id": name, "prompt": inner_turns("Why?"), "retry": inner_turns("How?")} for name in "ab"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError, match=r"2 columns .*prompt.messages, retry.messages.* turns=prompt.messages"):
        read_conversations(path, Reading())
    for column, text in (("prompt.messages", "Why?"), ("retry.messages", "How?")):
        turns = [("student", text), ("tutor", "Count.")]
        assert list(texts_of(path, columns={"turns": column}).values()) == [turns, turns]


def test_a_column_of_roles_is_taken_under_another_name_only_if_it_is_the_only_one(tmp_path: Path) -> None:
    head = ["conversation", "role", "side", "text"]
    rows = [["a", "u1", "student", "Why?"], ["a", "u2", "tutor", "Count."]]
    expected = [("student", "Why?"), ("tutor", "Count.")]
    assert texts_of(table(tmp_path / "one.csv", rows, head)) == {"a": expected}
    same = [[*row, row[2].title()] for row in rows]
    assert texts_of(table(tmp_path / "same.csv", same, [*head, "kind"])) == {"a": expected}
    other = [[*rows[0], "tutor"], [*rows[1], "student"]]
    with pytest.raises(UserError, match="'u1'"):
        read_conversations(table(tmp_path / "two.csv", other, [*head, "kind"]), Reading())


def test_real_dialogues_are_read_by_naming_columns(data: Path) -> None:
    columns = {"conversation": "qid", "turns": "conversation", "problem": "question", "solution": "ground_truth"}
    reading = Reading(columns, moves=True, skip_empty=True)
    with pytest.raises(UserError, match=r"295 rows share 90 ids in column qid\. Fix: .*; --yes takes: each row is"):
        read_conversations(data / "mathdial/test.jsonl", reading)
    dialogues = read_conversations(data / "mathdial/test.jsonl", reading._replace(takes_proposals=True))
    assert len(dialogues) == 599 and len({each.id for each in dialogues}) == 599
    moves = {message.tags.get("move") for each in dialogues for message in each.messages if message.role == "tutor"}
    assert moves == {"generic", "focus", "probing", "telling"} and all(each.problem for each in dialogues)
    columns = {"conversation": "c_id", "turns": "c_h+c_r_"}
    bridge = read_conversations(
        data / "bridge/test.json", Reading(columns, ["z_what"], skip_empty=True, takes_proposals=True)
    )
    assert len(bridge) == 210 and all(each.messages[-1].role == "tutor" for each in bridge[:20])


# redaction ------------------------------------------------------------------------------------------------------------


def test_redacting_real_problems_and_dialogues_about_numbers_changes_nothing(data: Path) -> None:
    redactor = Redactor([])
    for record in read_json_lines(data / "mathdial/test.jsonl"):
        redactor.text(record["conversation"])
    for record in read_json_lines(data / "gsm8k/test.jsonl"):
        redactor.text(f"{record['question']}\n{record['answer']}")
    assert redactor.counts.total() == 0


# moments --------------------------------------------------------------------------------------------------------------


def test_a_moment_is_a_tutors_turn_after_a_student_and_a_cluster_is_a_conversation(tmp_path: Path) -> None:
    records = [conversation_record(each) for each in read_conversations(table(tmp_path / "chats.csv"), Reading())]
    items = moment_items(records, "turns")
    assert [(item.id, item.cluster, item.tags) for item in items] == [
        ("a-2", "a", {"tutor": "v1", "position": "turns 2-3"}),
        ("b-1", "b", {"tutor": "v2", "position": "turn 1"}),
        ("b-2", "b", {"tutor": "v2", "position": "turns 2-3"}),
    ]
    last = items[-1]
    assert last.vars["history"] == "Student: Why?\nTutor: Because it is 8.\nStudent: Ah, 8."
    assert last.vars["message"] == "Ah, 8." and last.reference["text"] == "Yes!"
    assert [turn["content"] for turn in last.history] == ["Why?", "Because it is 8."]
    assert [item.tags for item in conversation_items(records, "conversations")] == [{"tutor": "v1"}, {"tutor": "v2"}]


def test_a_sample_takes_one_turn_of_each_conversation_first_and_a_larger_one_contains_it(tmp_path: Path) -> None:
    rows = [
        [name, number, "tutor" if number % 2 else "student", f"{name}{number}", "", ""]
        for name in "abcdefgh"
        for number in range(10)
    ]
    path = table(tmp_path / "chats.csv", rows)
    records = [conversation_record(each) for each in read_conversations(path, Reading())]
    eight, twelve = sample_moments(records, 8, 1), sample_moments(records, 12, 1)
    assert {name.split("-")[0] for name in eight} == set("abcdefgh") and twelve[:8] == eight
    assert sample_moments(records, 8, 2) != eight and len(sample_moments(records, 1000, 1)) == 40


def test_any_id_of_a_conversation_is_a_safe_and_distinct_part_of_item_ids() -> None:
    keys = [conversation_key(name) for name in ("c1", "../x", "a/b", "a b", "ä" * 200, "x" * 200, "x" * 201)]
    assert len(set(keys)) == len(keys) and keys[0] == "c1"
    assert all("/" not in key and len(key) <= 60 and not key.startswith(".") for key in keys)


def test_the_judge_does_not_see_who_answered() -> None:
    records = [
        {
            "id": "a", "conversation": "a", "problem": "", "solution": "", "tags": {"tutor": "SECRET-2"},
            "messages": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because."}],
            "moments": [{"id": "a-1", "message": 1, "tags": {"tutor": "SECRET-1"}}],
        }
    ]  # fmt: skip
    [item] = moment_items(records, "comparison")
    reply = Reply(
        id="a-1", task="comparison", tutor="SECRET-3", key="k", turns=[Turn(messages="m", text="What do you think?")]
    )
    orders = []
    for name in ("mrbench_taxonomy",):
        loaded = read_rubric(name)
        for question in questions_about(loaded.rubric, case_of_reply(loaded, item, reply)):
            prompt = json.dumps(question_messages(loaded, case_of_reply(loaded, item, reply), question))
            assert "SECRET" not in prompt and "What do you think?" in prompt and "Because." not in prompt
            orders.append(question.order)
    assert orders == [None]


# the written run ------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty working folder in which the shipped registries are found."""
    monkeypatch.setenv("MAIEUTIC_EXTENSIONS", "")
    enter_checkout(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture
def chats(folder: Path) -> Path:
    """Return a checkout with the transcripts chats.csv."""
    table(folder / "chats.csv")
    return folder


def prepare(**settings: Any) -> None:
    """Prepare the run of chats.csv, without a check by requests."""
    transcripts(Path("chats.csv"), **{"hosted": HOSTED, "evaluation": Evaluation(check=0), **settings})


def written(folder: Path, name: str = "chats") -> dict[str, Any]:
    from maieutic.core.yaml_files import read_yaml

    return read_yaml(folder / f"{name}.yaml")


def test_the_run_asks_the_judge_about_each_turn_and_no_baseline(
    chats: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transcripts(Path("chats.csv"), hosted=HOSTED, source=Source(tags=["subject"]), evaluation=Evaluation(check=0))
    output = capsys.readouterr().out
    assert "3 of 4 tutor turns in 2 conversations" in output and "left out: 1 tutor turn that" in output
    assert "sent to http://127.0.0.1:9/v1: the problem and the dialogue before each turn (far-judge)" in output
    assert "new requests: far-judge-judge 3;" in output
    run = written(chats)["run"]
    assert (run["tutors"], run["tasks"], run["labels"]) == (["recorded"], ["chats/turns"], [])
    card = (chats / "chats/resources/benchmarks/chats/turns.yaml").read_text()
    assert "subject: [cubes, sums]" in card and "tutor: [v2, v1]" in card and "floor: []" in card


def test_other_tutors_answer_the_moments_and_are_compared_in_both_orders(
    chats: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluation = Evaluation(tutors=["gpt-4o-mini"], whole=True, check=0)
    prepare(evaluation=evaluation)
    output = capsys.readouterr().out
    # 3 given turns, 3 of the model, 3 comparisons in 2 orders, 2 conversations
    assert "gpt-4o-mini 3, far-judge-judge about 14" in output
    assert "sent to https://api.openai.com/v1: " in output
    assert written(chats)["run"]["tasks"] == ["chats/turns", "chats/comparison", "chats/conversations"]


def test_the_principles_are_a_rubric_of_their_own(chats: Path) -> None:
    prepare(evaluation=Evaluation(rubric="transcript_principles", check=0))
    card = (chats / "chats/resources/benchmarks/chats/turns.yaml").read_text()
    assert "rubrics: [transcript_principles]" in card and "criterion: Questioning" in card
    assert (chats / "chats/resources/rubrics/transcript_principles.jinja").is_file()


@pytest.mark.parametrize(("settings", "message"), [
    ({"evaluation": Evaluation(judge="gpt-4o-minni"), "hosted": command.NOT_HOSTED}, r"--judge: .*did you mean 'gpt-4o-mini'"),
    ({"hosted": command.NOT_HOSTED}, r"--judge: expected a model that judges, found none"),
    ({"evaluation": Evaluation(tutors=["gpt-5-nano-nano"])}, r"--tutors: .*gpt-5-nano-nano"),
    ({"evaluation": Evaluation(rubric="mrbench_taxonomi")}, r"mrbench_taxonomi"),
    ({"evaluation": Evaluation(tutors=["always-ask"])}, r"--tutors: always-ask has the engine baseline"),
    ({"evaluation": Evaluation(tutors=["gpt-4o", "gpt-4o"])}, r"--tutors: gpt-4o is named twice"),
    ({"source": Source(columns=["text=a", "text=b"])}, r"--columns: a field is named twice"),
    ({"output": Output(name="mrbench")}, r"--name: mrbench is the name of a benchmark"),
    ({"source": Source(roles=["Mum"])}, r"--roles: expected name=value, found Mum"),
    ({"source": Source(roles=["Mum=parent"])}, r"--roles: Mum=parent: the role is unknown"),
    ({"source": Source(sample=0)}, r"--sample: expected a positive number"),
    ({"evaluation": Evaluation(instructions=Path("none.txt"))}, r"--instructions: no other tutor is asked"),
    ({"evaluation": Evaluation(tutors=["gpt-4o"], instructions=Path("none.txt"))}, r"--instructions: none.txt cannot be read"),
])  # fmt: skip
def test_wrong_flags_are_refused(chats: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        transcripts(Path("chats.csv"), **{"hosted": HOSTED, **settings})
    assert not (chats / "chats.yaml").exists()


def test_force_never_removes_what_the_command_did_not_write(chats: Path) -> None:
    (chats / "mine").mkdir()
    (chats / "mine/thesis.txt").write_text("years of work")
    (chats / "other.yaml").write_text("run: {}")
    for output, message in (
        (Output(name="mine", force=True), "mine: already exists, and was not written by this command"),
        (Output(out=Path("other.yaml"), force=True), "other.yaml: already exists, and was not written by this command"),
        (Output(out=Path("chats.csv"), force=True), "--out: chats.csv is the file with the transcripts"),
    ):
        with pytest.raises(UserError, match=message):
            prepare(output=output)
    assert (chats / "mine/thesis.txt").read_text() == "years of work" and (chats / "chats.csv").stat().st_size > 100


def test_force_refuses_a_data_folder_with_files_of_others(chats: Path) -> None:
    prepare()
    for name in ("chats.yaml.replaced", "chats/labels.json"):
        (chats / name).write_text("mine")
    with pytest.raises(UserError, match=r"chats: contains labels\.json, which was not written by this command"):
        prepare(output=Output(force=True))
    (chats / "chats/labels.json").unlink()
    prepare(output=Output(force=True))
    assert (chats / "chats.yaml.replaced").read_text() == "mine" and not list(chats.glob(".maieutic-*"))
    with pytest.raises(UserError, match=r"--out: expected a file, found chats"):
        transcripts(Path("chats.csv"), hosted=HOSTED, output=Output(out=Path("chats"), force=True))


def test_json_lines_may_contain_separators_of_lines_and_lists_of_parts(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    rows = [
        {"conversation": "a", "role": "user", "content": "one\u2028two\u0085"},
        {
            "conversation": "a",
            "role": "assistant",
            "content": [{"type": "text", "text": "Yes."}, {"type": "image_url"}],
        },
    ]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    assert texts_of(path) == {"a": [("student", "one\u2028two"), ("tutor", "Yes.")]}


def test_repeated_ids_get_ids_that_no_other_conversation_has(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    turns = [{"role": "user", "content": "x"}, {"user": "u1", "role": "tutor", "content": "y"}]
    names = ["a", "a", "a-no-2", "a"]
    path.write_text("".join(json.dumps({"chat": name, "messages": turns}) + "\n" for name in names))
    conversations = read_conversations(path, Reading(takes_proposals=True))
    assert [conversation.id for conversation in conversations] == ["a", "a-no-3", "a-no-2", "a-no-4"]


def test_a_command_that_fails_leaves_the_files_of_an_earlier_one(chats: Path) -> None:
    wrong = command.Hosted(address="localhost:1", model="far")
    for _ in range(2):
        with pytest.raises(UserError):
            transcripts(Path("chats.csv"), hosted=wrong, evaluation=Evaluation(check=0))
        assert sorted(path.name for path in chats.iterdir()) == ["chats.csv", "config", "resources"]
    prepare()
    before = (chats / "chats.yaml").read_text(), (chats / "chats/conversations.jsonl").read_text()
    with pytest.raises(UserError):
        transcripts(
            Path("chats.csv"), hosted=wrong, evaluation=Evaluation(check=0), source=Source(last=True),
            output=Output(force=True),
        )  # fmt: skip
    assert before == ((chats / "chats.yaml").read_text(), (chats / "chats/conversations.jsonl").read_text())


def test_a_redacted_run_is_not_replaced_by_one_with_personal_details(chats: Path) -> None:
    prepare(privacy=Privacy(redact=True))
    with pytest.raises(UserError, match=r"--force: personal details were removed in chats.yaml, but would not be now"):
        prepare(output=Output(force=True))


def test_tags_that_share_values_have_numbers_of_their_own(folder: Path) -> None:
    rows = [[*row, answer] for row, answer in zip(ROWS, ["", "yes", "no", "no", "yes", "no", "no"], strict=True)]
    for row, subject in zip(rows, ["yes", "yes", "yes", "no", "no", "no", "no"], strict=True):
        row[5] = subject
    table(folder / "chats.csv", rows, [*HEAD, "solved"])
    prepare(source=Source(tags=["subject", "solved"]))
    card = read_card(folder / "chats/resources/benchmarks/chats/turns.yaml").card
    shares = [name for name in card.metrics if name.startswith("desired_share_")]
    assert {"desired_share_subject_yes", "desired_share_solved_yes", "desired_share_v1"} <= set(shares)
    assert [row[:2] for row in subsets_of(card)].count(("solved", "yes")) == 1


def test_the_columns_that_were_and_were_not_used_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(folder / "chats.csv", ROWS, ["session", "seq", "speaker", "message", "bot", "subject"])
    prepare()
    output = capsys.readouterr().out
    assert "columns: conversation=session, role=speaker, text=message, turn=seq" in output
    assert (
        "columns not used: bot" in output
        and "subject" in output
        and "personal details: not removed (--redact)" in output
    )


def test_transcripts_are_prepared_in_any_folder(tmp_path: Path) -> None:
    done = maieutic(tmp_path, "transcripts", str(table(tmp_path / "chats.csv")), "--judge", "gpt-4o-mini")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "chats.yaml").is_file() and (tmp_path / "chats/conversations.jsonl").is_file()


def test_a_run_that_was_only_prepared_is_forgotten(chats: Path) -> None:
    prepare()
    forget("chats", transcripts=True, yes=True)
    assert not list(chats.glob("chats/*.jsonl")) and (chats / "chats/resources").is_dir()


def test_an_existing_run_is_overwritten_by_force_only(chats: Path) -> None:
    prepare()
    with pytest.raises(UserError, match=r"chats.yaml: already exists"):
        prepare()
    prepare(source=Source(last=True), output=Output(force=True))
    assert (
        "2 tutor turns of 2 conversations from `chats.csv` (the last ones of each conversation)"
        in written(chats)["report"]["note"]
    )


def test_a_large_run_needs_a_limit_and_the_printed_fix_works(chats: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "MOST_REQUESTS", 2)
    with pytest.raises(UserError, match=r"3 requests are planned, and no limit is set\. Fix: .*--max-requests 3,"):
        prepare()
    prepare(limits=Limits(max_requests=3))
    assert written(chats)["run"]["budget"] == {"requests": 3}


@pytest.mark.parametrize(("rubric", "requests"), [("mrbench_taxonomy", 3), ("mrbench_toolkit", 24)])
def test_the_requests_of_a_set_too_large_to_build_are_estimated_by_its_rubric(
    chats: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rubric: str, requests: int
) -> None:
    """A rubric that asks about each of eight dimensions separately has eight requests for each turn."""
    monkeypatch.setattr(counting, "MOST_MADE_ITEMS", 2)
    prepare(evaluation=Evaluation(rubric=rubric, check=0))
    assert f"new requests: far-judge-judge about {requests};" in capsys.readouterr().out


def test_redaction_happens_before_anything_is_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [[*row, "Ann Lee"] for row in ROWS]
    rows[1][3] = "I am Ann, mail ann@x.org"
    table(folder / "chats.csv", rows, [*HEAD, "pupil"])
    prepare(privacy=Privacy(names=["pupil"]))
    content = "".join(path.read_text() for path in folder.glob("chats/*.jsonl"))
    assert "I am [NAME], mail [MAIL]" in content and "Ann" not in content and "ann@" not in content
    assert "mail addresses 1" in capsys.readouterr().out
    note = written(folder)["report"]["note"]
    assert "mail addresses: 1" in note and "names in free text are not found" in note


def test_texts_that_differ_from_prepared_ones_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A redaction by other patterns, for example of a later version, is not made in silence."""
    rows = [["c1", 1, "student", "I am Ann, mail ann@x.org", "Ann"], ["c1", 2, "tutor", "Why?", "Ann"]]
    table(folder / "chats.csv", rows, ["conversation", "turn", "role", "text", "who"])
    privacy, source = Privacy(redact=True, names=["who"]), Evaluation(check=0)
    prepare(evaluation=source, privacy=privacy)
    prepare(evaluation=source, privacy=privacy, output=Output(force=True))
    assert "differ from those prepared before" not in capsys.readouterr().out
    data = folder / "chats/conversations.jsonl"
    data.write_text(data.read_text().replace("[NAME]", "Ann"))
    prepare(evaluation=source, privacy=privacy, output=Output(force=True))
    assert "conversations whose texts differ from those prepared before: 1" in capsys.readouterr().out


def test_forgetting_removes_every_text_and_keeps_the_numbers(chats: Path) -> None:
    prepare()
    kept = [paths.SCORES.of(benchmark="chats", tutor="recorded"), "results/runs/chats/scores.csv"]
    texts = [
        paths.ITEMS.of(benchmark="chats", task="turns"), paths.REPLIES.of(benchmark="chats", tutor="recorded"),
        paths.VERDICTS.of(judge="j", benchmark="chats", batch="recorded"),
        paths.VERDICT_JOURNAL.of(judge="j", benchmark="chats", batch="recorded"),
        paths.JUDGE_GRADES.of(benchmark="chats", judge="j", tutor="recorded"), "results/logs/judge_replies/j/chats/r.log",
        paths.SOURCE.of(dataset="chats_transcripts"), "results/runs/chats/index.html", "results/runs/chats/items/x.js",
    ]  # fmt: skip
    others = [paths.REPLIES.of(benchmark="mrbench", tutor="recorded")]
    for name in (*kept, *texts, *others):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("How did you get 5?")
    Path("results/runs/chats/config.yaml").write_text(Path("chats.yaml").read_text())
    with pytest.raises(UserError, match="either --missing REASON or --transcripts"):
        forget("chats")
    with pytest.raises(UserError, match=r"nothing was removed yet: \d+ files and folders .* Fix: add --yes"):
        forget("chats", transcripts=True)
    assert all(Path(name).exists() for name in texts)
    forget("chats", transcripts=True, yes=True)
    assert not any(Path(name).exists() for name in texts) and all(Path(name).exists() for name in (*kept, *others))
    assert not list(Path("chats").glob("*.jsonl")) and Path("chats/resources").is_dir()
    with pytest.raises(UserError, match="expected the name of a run"):
        forget(transcripts=True)


# the page -------------------------------------------------------------------------------------------------------------


def score_of(value: float | None, n: int = 40, clusters: int = 20, half: float | None = 0.1) -> ReportedScore:
    interval = (None, None) if value is None or half is None else (value - half, value + half)
    return ReportedScore(
        benchmark="chats", task="turns", tutor="recorded", metric="m", scoring="robust", value=value, low=interval[0],
        high=interval[1], n=n, missing=0, clusters=clusters, headline=True,
    )  # fmt: skip


def test_the_difference_of_versions_has_the_interval_of_independent_values() -> None:
    apart = section.difference_of(score_of(0.7), score_of(0.5))
    assert apart is not None and apart.low is not None and apart.high is not None
    assert (apart.value, apart.low, apart.high) == pytest.approx((0.2, 0.2 - 0.1 * 2**0.5, 0.2 + 0.1 * 2**0.5))
    assert section.difference_of(score_of(None), score_of(0.5)) is None
    without = section.difference_of(score_of(0.7, half=None), score_of(0.5))
    assert without is not None and without.low is None


def rows_of(*versions: tuple[str, int], clusters: int = 40) -> list[section.SubsetRow]:
    rows = [section.SubsetRow("", section.ALL, score_of(0.6, clusters=clusters), [score_of(0.5)])]
    return [*rows, *(section.SubsetRow("tutor", name, score_of(0.6, n), [score_of(0.5)]) for name, n in versions)]


def test_versions_stand_side_by_side_with_the_difference_of_the_largest() -> None:
    assert section.version_table(rows_of(("v1", 9)), ["Tone"], "desired_share") is None
    table = section.version_table(rows_of(("v1", 9), ("v2", 30), ("v3", 20), clusters=60), ["Tone"], "desired_share")
    assert table is not None and table["versions"] == ["v1", "v2", "v3"] and table["pair"] == ("v3", "v2")
    assert [row["name"] for row in table["rows"]] == ["desired_share", "Tone"]
    assert all(row["apart"].low is not None for row in table["rows"])
    mixed = section.version_table(rows_of(("v1", 9), ("v2", 30), clusters=25), ["Tone"], "desired_share")
    assert mixed is not None and mixed["rows"][0]["apart"].low is None, "some conversations have turns of both"


def test_each_tag_but_the_version_has_a_chart() -> None:
    rows = [*rows_of(("v1", 9)), section.SubsetRow("position", "turn 1", score_of(0.25), [])]
    [chart] = section.dot_charts(rows)
    assert chart["tag"] == "position" and chart["dots"][0]["at"] == 25.0
    assert chart["dots"][0]["low"] == pytest.approx(15)
