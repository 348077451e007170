"""Tests of the decision between pieces of evidence, of the reasons without a value, and of the counts of doubt."""

from __future__ import annotations

import inspect
import random
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from maieutic.core import paths
from maieutic.core.records import Grade, Item, Reply, Score, Turn, write_records
from maieutic.graders.answers import grade_answer, read_answer, read_final
from maieutic.graders.evidence import Evidence, Rank, decide, is_doubt
from maieutic.graders.short_answers import grade_step, grade_yes_no
from maieutic.graders.solution_numbers import solution_number
from maieutic.graders.steps import StepsShown, read_step, steps_shown
from maieutic.graders.yes_no import read_yes_no
from maieutic.launch.reader_changes import keep_previous_grades, reader_change_lines
from maieutic.replies.parsing import read_reply
from maieutic.replies.reply_counts import count_replies
from maieutic.report.contrasts import doubt_turns


@pytest.mark.parametrize(("pieces", "value"), [
    ([(Rank.FIELD, 3), (Rank.MARK, 4), (Rank.LINE, 5)], 3),
    ([(Rank.MARK, 4), (Rank.CONCLUSION, 2), (Rank.STATEMENT, 1)], 4),
    ([(Rank.CONCLUSION, 2), (Rank.STATEMENT, 1)], 2),
    ([(Rank.CONCLUSION, 2), (Rank.OPENING, 2)], 2),
    ([(Rank.CONCLUSION, 2), (Rank.OPENING, 3)], None),
    ([(Rank.CONCLUSION, None), (Rank.STATEMENT, 1)], None),
    ([(Rank.STATEMENT, 1)], 1),
    ([], None),
])  # fmt: skip
def test_the_strongest_evidence_decides(pieces: list[tuple[Rank, int | None]], value: int | None) -> None:
    decision = decide([Evidence(rank, stated, f"passage {place}") for place, (rank, stated) in enumerate(pieces)])
    assert decision.value == value
    assert (decision.reason is None) == (value is not None)


def test_a_line_of_its_own_decides_unless_it_opens_the_reply() -> None:
    conclusion = Evidence(Rank.CONCLUSION, 2, "The first error is in step 2.")
    assert decide([Evidence(Rank.LINE, 3, "3"), conclusion]).value == 3
    opening = decide([Evidence(Rank.LINE, 3, "3", opens=True), conclusion])
    assert (opening.value, opening.reason) == (None, "contradictory")
    assert opening.passage == "3 ... The first error is in step 2.", "both passages stand with the grade"


@pytest.mark.parametrize("reader", [read_final, read_answer, read_step, read_yes_no])
def test_no_reader_knows_the_gold_answer(reader: object) -> None:
    assert set(inspect.signature(reader).parameters) <= {"text", "question", "steps"}  # type: ignore[arg-type]


def step_item(lines: int) -> Item:
    solution = "\n".join(f"Step {number} - a" for number in range(1, lines + 1))
    return Item(id="i", task="t", cluster="c", vars={"student_solution": solution}, reference={"step": 2, "text": ""})


def test_a_value_that_the_question_does_not_admit_is_no_evidence() -> None:
    item = step_item(4)
    assert steps_shown(item.vars) == StepsShown(4, 4)
    [reading] = grade_step(item, "The first error is in step 2: it adds.\n#### 24", "robust")
    assert (reading.value, reading.correct) == (2, True)
    listed = "Step 1: correct\nStep 2: correct\nStep 3: correct"
    assert grade_step(item, listed, "robust")[0].value is None, "three of four steps are not the whole"
    assert grade_step(item, f"{listed}\nStep 4: correct", "robust")[0].value == 0


def test_two_final_marks_that_differ_are_in_doubt() -> None:
    doubtful = read_final("Final answer: 5\nFinal answer: 6")
    assert (doubtful.value, doubtful.why_none) == (None, "contradictory")
    assert read_final("Final answer: 5. Wait, I forgot one. Final answer: 6").value == 6
    assert read_final("In May: \\boxed{36}\nTogether 36 + 36 = \\boxed{72}").value == 72


@pytest.mark.parametrize(("text", "step"), [
    ("Der erste Fehler steckt in Schritt 2. Schritt 1 stimmt.", 2),
    ("L'étape 3 est la première étape fausse.", 3),
    ("El primer error está en el paso 1.", 1),
    ("Первая ошибка — в шаге 4.", 4),
    ("第一个错误的步骤是第4步。", 4),
    ("最初の間違いはステップ3です。", 3),
    ("İlk hatalı adım: 4. adım", 4),
])  # fmt: skip
def test_words_of_other_languages_are_understood(text: str, step: int) -> None:
    assert read_step(text, StepsShown(6, 6)).value == step


def test_an_answer_in_dollars_is_converted_if_cents_are_asked_for() -> None:
    assert read_answer("Each costs 24/240 = $0.10", "How many cents does each cost?").value == 10
    assert read_answer("Each costs 24/240 = $0.10", "How much does each cost?").value == pytest.approx(0.1)


@pytest.mark.parametrize(("text", "question", "value"), [
    ("In total it travels 14 + 12 = 26 billion miles.", "How many billions of miles does it travel?", 26),
    ("In total it travels 14 + 12 = 26 billion miles.", "How far does it travel?", 26e9),
    ("Final answer: $2k", "How much, in thousands of dollars, does she pay?", 2),
    ("Final answer: 26", "How many billions of miles does it travel?", 26),
    ("They sold 4,000,000 bottles.", "How many bottles, in millions, did they sell?", None),
    ("11 a.m. - 2 hours = 9 a.m.", "When did it begin?", None),
    ("He sold 12 cups by 9 a.m.", "How many cups did he sell?", 12),
    ("Hence, he will have a total of 40 cards in 4 weeks.", "After how many weeks will he have 40 cards?", None),
    ("Hence, he will have a total of 40 cards in 4 weeks.", "How many cards will he have?", 40),
    ("He will have 40 cards in 4 weeks.\nFinal answer: 4", "After how many weeks will he have 40 cards?", 4),
])  # fmt: skip
def test_an_answer_is_read_in_the_unit_that_its_question_asks_for(
    text: str, question: str, value: float | None
) -> None:
    assert read_answer(text, question).value == value


@pytest.mark.parametrize(("text", "language", "value"), [
    ("1.200", "en", 1.2),
    ("1.200", "de", 1200),
    ("Die Antwort ist 1.200,50 Euro.", "de", 1200.5),
    ("Es sind 1,250 Liter.", "de", 1.25),
    ("Final answer: 1.200.000", "de", 1_200_000),
    ("The answer is 1,200 litres of water.", "de", 1200),
    ("1,200", "ja", 1200),
])  # fmt: skip
def test_numbers_are_read_in_the_notation_of_the_tasks_language(text: str, language: str, value: float) -> None:
    item = Item(id="i", task="t", cluster="c", vars={"question": ""}, reference={"answer": value})
    reply = Reply(id=item.id, task=item.task, tutor="m", key="k", turns=[Turn(messages="prompt", text=text)])
    [reading] = read_reply("answer", item, reply, "robust", language)
    assert (reading.value, reading.correct) == (pytest.approx(value), True)


def reply(text: str) -> Reply:
    return Reply(id=f"i{hash(text)}", task="t", tutor="m", key="k", turns=[Turn(messages="prompt", text=text)])


INVENTED = (
    "The answer is 7.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nWhat is 4 + 5?<|eot_id|>The answer is 9.",
    "The answer is 7.\n\nHuman: What is 4 + 5?\nAssistant: The answer is 9.",
    "The answer is 7.\n\nQuestion: What is 4 + 5?\nAnswer: 9",
)


@pytest.mark.parametrize("text", INVENTED)
def test_invented_turns_are_not_read(text: str) -> None:
    assert read_final(text).value == 7
    assert read_final("Student: is it 5?\nNo, it is 7.").value == 7, "one line of a speaker ends nothing"


def test_replies_that_go_on_as_another_speaker_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    write_records(path, [*map(reply, INVENTED[:2]), reply("The answer is 7.")])
    assert count_replies(path).continued == 2


@pytest.mark.parametrize(("text", "why", "doubt"), [
    ("", "empty reply", False),
    ("It cannot be determined.", "declined: states that there is no answer", False),
    ("Final answer: 3 to 5 days", "no statement: a range", False),
    ("I would think about the price first.", "no number", False),
    ("So Jeff gets $80 and Brad gets $20.", "ambiguous number: several numbers", True),
    ("Das sind 2 * 30 = 60 Meilen am Tag.\nEndgültige Antwort: 31.800", "thousands: a point that may separate thousands", True),
    ("\\boxed{x + y}", "unknown kind: no number in the box", True),
])  # fmt: skip
def test_what_the_parser_did_not_understand_is_told_apart(text: str, why: str, doubt: bool) -> None:
    item = Item(id="i", task="t", cluster="c", vars={"question": "q"}, reference={"answer": "4"})
    [reading] = grade_answer(item, text, "robust")
    assert (reading.value, reading.correct) == (None, None)
    assert reading.why_none is not None and reading.why_none.endswith(why.split(": ")[-1])
    assert is_doubt(reading.why_none) == doubt


def test_a_verdict_without_a_value_has_its_passages() -> None:
    item = Item(id="i", task="t", cluster="c", vars={"question": "q"}, reference={"incorrect": True})
    [reading] = grade_yes_no(item, "No\n\nSo the solution is incorrect.", "robust")
    assert (reading.value, reading.why_none) == (None, "contradictory")
    assert reading.raw == "No ... So the solution is incorrect."


def score(value: float, best: float | None) -> Score:
    return Score(
        task="t", metric="accuracy", scoring="robust", headline=True, value=value, low=None, high=None, n=10, missing=0,
        clusters=10, doubtful=0 if best is None else 2, best=best,
    )  # fmt: skip


def test_doubt_is_counted_and_turns_no_order() -> None:
    assert doubt_turns("BETTER", score(0.6, None), score(0.5, 0.65))
    assert not doubt_turns("BETTER", score(0.7, None), score(0.5, 0.65))
    assert doubt_turns("WORSE", score(0.5, 0.65), score(0.6, None))
    assert not doubt_turns("OPEN", score(0.6, None), score(0.5, 0.9))
    assert not doubt_turns("BETTER", score(0.6, 0.9), score(0.5, None)), "the doubt of the leader changes nothing"


def grade(name: str, value: float | None, correct: bool | None) -> Grade:
    why = None if value is not None else "contradictory"
    return Grade(
        id=name, task="t", kind="answer", scoring="robust", value=value, correct=correct, raw="passage", why_none=why
    )


class PlannedJob(NamedTuple):
    """Job of Snakemake's plan, as `keep_previous_grades` sees it."""

    rule: SimpleNamespace
    wildcards: dict[str, str]


def test_grades_that_moved_with_the_readers_are_reported_once(tmp_path: Path) -> None:
    def planned(rule: str) -> PlannedJob:
        return PlannedJob(SimpleNamespace(name=rule), {"benchmark": "b", "tutor": "m"})

    grades = paths.PARSED.within(tmp_path, benchmark="b", tutor="m")
    grades.parent.mkdir(parents=True)
    write_records(grades, [grade("1", 5, True), grade("2", 6, True), grade("3", 7, False)])
    keep_previous_grades([planned("parse_replies")], tmp_path)
    grades.unlink()  # as Snakemake does before the job
    write_records(grades, [grade("1", 5, True), grade("2", None, None), grade("3", 8, True)])
    [line] = reader_change_lines(tmp_path)
    assert line.startswith("m: readers changed: 2 of 3 grades of b moved, 1 to unread; 0.67 to 0.67 right (")
    table = paths.READER_CHANGES.within(tmp_path).read_text(encoding="utf-8").splitlines()
    assert table[1] == "b,m,t,2,answer,,6,,contradictory,passage" and len(table) == 3
    assert reader_change_lines(tmp_path) == [], "a second call has nothing to report"
    keep_previous_grades([planned("parse_replies"), planned("generate_replies")], tmp_path)
    assert reader_change_lines(tmp_path) == [], "other replies move grades for another reason"


FRAGMENTS = (
    "step ", "Step 3", "the first error", "incorrect", "correct", "yes", "no", "Answer:", "####", "\\boxed{", "}", "$", "12",
    "3/4", "1,000", "\u0130", "\u0131", "\u00df", "\u2028", "\x00", "\ud7ff", "\u0663", "\u00bd", "\u00b2", "and", "or", "but",
    "because", "so", "not", "all", "steps 1 to 3", ":", ";", "\n", "\n\n", " ", "|", "---", "**", "~~", "<think>", "</s>",
    "<|im_end|>", '{"step": 3}', "[INST]", "Student:", "Question:", "Schritt", "\u00e9tape", "\u7b2c", "\u6b65", "%", "=",
    "(", ")", "Final answer:", "wait", "no, ", "Edit:", "\u27e82\u27e9", "\u27e8", "\u27e9", "'", '"', "`", "\u200b", "\U0001f600",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_no_text_stops_a_reader(seed: int) -> None:
    """Random texts of any script, and random combinations of what the readers look for."""
    rng = random.Random(seed)
    ranges = ((32, 127), (0, 0x2FFF), (0x3000, 0xD7FF), (0xE000, 0x1FFFF))
    for _ in range(150):
        letters = "".join(chr(rng.randrange(*rng.choice(ranges))) for _ in range(rng.randrange(60)))
        pieces = "".join(rng.choice(FRAGMENTS) + rng.choice(("", " ")) for _ in range(rng.randrange(1, 25)))
        for text in (letters, pieces):
            for final in (read_final(text), solution_number(text)):
                assert (final.value is None) == (final.why_none is not None), text
            for decision in (read_step(text), read_step(text, StepsShown(4, 5)), read_yes_no(text)):
                assert (decision.value is None) == (decision.reason is not None), text
