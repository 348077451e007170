"""Tests of simulated students: starting points, both sides' requests, leaks and resolutions, claims, and the panel."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from httpserver import chat, scripted, serving
from maieutic.config.models import HostedModel
from maieutic.config.simulation import FEWEST_CLAIMS, Simulation, persona_paths, read_persona
from maieutic.core.errors import UserError
from maieutic.core.journal import FinishedRequest
from maieutic.core.records import Item, Score, read_records, write_records
from maieutic.core.stats import BootstrapSettings
from maieutic.run_plan import plan_of
from maieutic.scores.score import write_scores
from maieutic.simulation import section
from maieutic.simulation.converse import (
    SimulateConversations,
    agreement,
    number_text,
    simulate_conversations,
    wrong_claim,
)
from maieutic.simulation.records import ClaimAnswer, SimulatedConversation, SimulatedTurn, start_of, starts_of
from maieutic.simulation.scores import CAVES, LEAKS, RESOLVED, TURNS, UNAIDED, claim_scores, tutor_scores
from run_configs import HOSTED, NOBODY
from shipped import shipped

TASK = "mistake_correction"
QUESTION = "Ada has 3 boxes of 4 pens. How many pens is that?"
WORK = "I add 3 and 4, so it is 7."
SAMPLING = BootstrapSettings(100, 1)


def problem(number: int = 0, **changes: Any) -> Item:
    fields: dict[str, Any] = {
        "id": f"i{number}", "task": TASK, "cluster": f"c{number}",
        "vars": {"question": f"{QUESTION} ({'very ' * number}easy)", "student_chat_solution": WORK},
        "reference": {"answer": "12", "text": "3 x 4 = 12"},
    }  # fmt: skip
    return Item(**{**fields, **changes})


HISTORY = [{"role": "assistant", "content": "What did you do?"}, {"role": "user", "content": "I got 7."}]
MOMENT = {"question": QUESTION, "message": "So it is 7?"}
STARTS: list[tuple[dict[str, Any], bool]] = [  # changes of the item, whether a conversation can start from it
    ({}, True),
    ({"reference": {"solution": "3 x 4 = 12", "text": "", "history": HISTORY}, "vars": {"question": QUESTION}}, True),
    ({"history": HISTORY, "vars": {"question": QUESTION}}, True),
    ({"history": HISTORY[:1], "vars": MOMENT}, True),
    ({"history": HISTORY, "vars": {**MOMENT, "message": "It is 12!"}}, False),
    ({"history": HISTORY[:1], "vars": {"question": QUESTION}}, False),  # the tutor speaks last, and there is no work
    ({"vars": {"question": QUESTION}}, False),
    ({"vars": {"student_chat_solution": WORK}}, False),
    ({"reference": {"text": "12"}}, False),
    ({"reference": {"solution": "a proof", "text": ""}}, False),
    ({"vars": {"question": QUESTION, "student_chat_solution": "It is twelve."}}, False),
    ({"vars": {"question": "Why are 3 x 4 pens 12?", "student_chat_solution": WORK}}, False),
]


@pytest.mark.parametrize(("changes", "starts"), STARTS)
def test_conversations_start_where_a_student_has_not_found_the_answer(changes: dict[str, Any], starts: bool) -> None:
    start = start_of(problem(**changes))
    assert (start is not None) == starts
    if start is not None:
        assert start.answer == 12 and start.dialogue[-1]["role"] == "user"


@pytest.mark.parametrize("limit", [None, FEWEST_CLAIMS, FEWEST_CLAIMS - 1])
def test_a_limit_under_which_no_figure_can_be_shown_is_refused(limit: int | None) -> None:
    config = shipped()
    config["models"]["pupil"] = HOSTED
    config["simulations"] = {"s": {"student": "pupil", "task": f"mathtutorbench/{TASK}"}}
    config["run"] |= {**NOBODY, "tutors": ["echo"], "tasks": [f"mathtutorbench/{TASK}"], "limit": limit}
    if limit is None or limit >= FEWEST_CLAIMS:
        assert plan_of(config).config.simulations
    else:
        with pytest.raises(
            UserError, match=rf"simulations\.s: figures need .* leaves {limit} items .*Fix: set run.limit"
        ):
            plan_of(config)


def test_a_larger_limit_includes_the_items_of_a_smaller_one() -> None:
    items = [problem(number) for number in range(40)]
    few, more = ({start.item.id for start in starts_of(items, limit, 7)} for limit in (5, 20))
    assert len(few) == 5 and few < more and len(more) == 20


@pytest.mark.parametrize(("text", "agrees"), [
    ("Yes, I think so.", True), ("**Yes** - that fits.", True), ("yeah, ok", True), ("No, I got 7.", False),
    ("Nope.", False), ("no... but yes", False), ("I agree.", None), ("Not sure.", None), ("Yesterday I got 7.", None),
    ("Nothing fits.", None), ("", None), ("No idea.", None), ("No problem, that is right.", None),
])  # fmt: skip
def test_agreement_is_the_first_word(text: str, agrees: bool | None) -> None:
    assert agreement(text) is agrees


def test_wrong_claims_are_wrong_and_written_like_right_ones() -> None:
    for number in range(40):
        start = start_of(problem(number))
        assert start is not None
        claim = wrong_claim(start)
        assert claim not in {12, 3, 4, 7}, "neither the answer nor a number of the problem or the student"
        assert claim == wrong_claim(start) and abs(claim - 12) <= 10
    claims = {wrong_claim(start) for number in range(40) if (start := start_of(problem(number)))}
    assert min(claims) < 12 < max(claims)
    assert [number_text(value) for value in (12.0, 0.5, 1_500_000.0, 12345.67)] == ["12", "0.5", "1500000", "12345.67"]


def hosted(address: str, model: str) -> HostedModel:
    return HostedModel(engine="hosted", base_url=f"{address}/v1", model=model, concurrency=2)


def simulated(
    folder: Path, tutor: Sequence[str], student: Sequence[str], items: Sequence[Item] = (), **settings: Any
) -> tuple[list[SimulatedConversation], list[dict[str, Any]]]:
    """Run conversations in which both sides read from a list. Return them, and all requests.

    tutor, student: texts by the number of the turn.
    """

    def answer(_: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        side = tutor if body["model"] == "tutor" else student
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        first = 0 if body["model"] == "tutor" else 1  # the student's first turn is the start of the dialogue
        text = side[min(turn - first, len(side) - 1)]
        return (400, {"error": {"message": "no", "code": "content_filter"}}, {}) if text == "REFUSE" else (
            200, chat({"content": text}), {}
        )  # fmt: skip

    write_records(folder / f"{TASK}.jsonl", items or [problem()])
    with serving(handler := scripted(answer)) as address:
        job = SimulateConversations(
            simulation="s", tutor="t", entry=hosted(address, "tutor"), student_entry=hosted(address, "student"),
            settings=Simulation(student="p", task=f"mathtutorbench/{TASK}", **settings), benchmark="mathtutorbench",
            task=TASK, seed=1,
        )  # fmt: skip
        simulate_conversations(
            job=job, items=folder / f"{TASK}.jsonl", weights=[], student_weights=[], journal=folder / "t.jsonl",
            student_journal=folder / "students.jsonl", server_logs=folder / "logs", out=folder / "out.jsonl",
        )  # fmt: skip
    return read_records(folder / "out.jsonl", SimulatedConversation), [body for _, _, body in handler.requests]


ASK, TELL, WRONG, RIGHT = "What does 3 boxes mean?", "It is 12.", "I still get 7.", "Oh, it is 12!"
COURSES: list[tuple[list[str], list[str], int | None, int | None, int]] = [
    # the tutor's turns, the student's turns, turn of the leak, turn of the resolution, number of turns
    ([ASK], [WRONG, WRONG, RIGHT], None, 3, 3), ([ASK, TELL], [WRONG, RIGHT], 2, 2, 2),
    ([ASK, TELL], [WRONG], 2, None, 4), ([ASK], [WRONG], None, None, 4), (["It is twelve."], [RIGHT], 1, 1, 1),
]  # fmt: skip


@pytest.mark.parametrize(("tutor", "student", "leak", "resolved", "turns"), COURSES)
def test_leaks_and_resolutions_are_found_in_their_turn(
    tmp_path: Path, tutor: list[str], student: list[str], leak: int | None, resolved: int | None, turns: int
) -> None:
    [conversation], _ = simulated(tmp_path, tutor, student, turns=4)
    assert (conversation.leak, conversation.resolved, len(conversation.turns)) == (leak, resolved, turns)
    assert conversation.ended is None


def test_each_side_sees_the_dialogue_from_its_own_view(tmp_path: Path) -> None:
    _, requests = simulated(tmp_path, [ASK], [WRONG], turns=2)
    tutors = [body["messages"] for body in requests if body["model"] == "tutor"]
    students = [body["messages"] for body in requests if body["model"] == "student"]
    assert len(tutors) == len(students) == 2
    opening = f"This is how I solved it:\n{WORK}"
    assert [(message["role"], message["content"]) for message in tutors[1][1:]] == [
        ("user", opening), ("assistant", ASK), ("user", WRONG),
    ]  # fmt: skip
    assert [message["role"] for message in students[1]] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert [message["content"] for message in students[1][2:]] == [opening, ASK, WRONG, ASK]
    assert "You play a student" in students[0][0]["content"] and "You play a student" not in json.dumps(tutors)
    assert "do not give it away" in tutors[0][0]["content"] and "do not give it away" not in json.dumps(students)
    assert "12" not in json.dumps([*tutors, *students]), "neither side is given the answer"


def test_both_journals_answer_a_second_time(tmp_path: Path) -> None:
    with_items = [problem(number) for number in range(3)]
    replies: list[SimulatedConversation] = []

    def answer(_: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        return 200, chat({"content": ASK if body["model"] == "tutor" else WRONG}), {}

    write_records(tmp_path / f"{TASK}.jsonl", with_items)
    with serving(handler := scripted(answer)) as address:
        for _ in range(2):
            job = SimulateConversations(
                simulation="s", tutor="t", entry=hosted(address, "tutor"), student_entry=hosted(address, "student"),
                settings=Simulation(student="p", task="b/t", turns=3), benchmark="b", task=TASK, seed=1,
            )  # fmt: skip
            simulate_conversations(
                job=job, items=tmp_path / f"{TASK}.jsonl", weights=[], student_weights=[], journal=tmp_path / "t.jsonl",
                student_journal=tmp_path / "students.jsonl", server_logs=tmp_path / "logs", out=tmp_path / "out.jsonl",
            )  # fmt: skip
            repeated, replies = replies, read_records(tmp_path / "out.jsonl", SimulatedConversation)
    assert repeated == replies and len(handler.requests) == 3 * 3 * 2
    for name in ("t", "students"):
        lines = (tmp_path / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        assert len({FinishedRequest.model_validate_json(line).key for line in lines}) == 9
        [spent] = (tmp_path / f"{name}.ledger").read_text(encoding="utf-8").splitlines()
        assert json.loads(spent)["requests"] == 9, "both sides are in a ledger"


def test_a_dialogue_that_begins_with_the_tutor_or_repeats_a_role_alternates(tmp_path: Path) -> None:
    history = [*HISTORY, {"role": "user", "content": "Is that right?"}]
    item = problem(vars={"question": QUESTION}, history=history)
    _, requests = simulated(tmp_path, [ASK], [WRONG], items=[item], turns=2)
    for body in requests:
        roles = [message["role"] for message in body["messages"]]
        assert roles[:2] == ["system", "user"] and all(role != other for role, other in itertools.pairwise(roles))
    tutors, students = (requests[number]["messages"] for number in (0, 1))
    assert [message["content"] for message in tutors[1:]] == [
        "Hello!",
        "What did you do?",
        "I got 7.\n\nIs that right?",
    ]
    assert [message["content"] for message in students[1:]] == ["What did you do?", "I got 7.\n\nIs that right?", ASK]


def test_a_model_that_plays_both_sides_has_one_client_and_one_journal(tmp_path: Path) -> None:
    write_records(tmp_path / f"{TASK}.jsonl", [problem()])
    with serving(handler := scripted(lambda n, body: (200, chat({"content": ASK}), {}))) as address:
        both = hosted(address, "m")
        job = SimulateConversations(
            simulation="s", tutor="m", entry=both, student_entry=both, benchmark="b", task=TASK, seed=1,
            settings=Simulation(student="m", task="b/t", turns=2),
        )  # fmt: skip
        simulate_conversations(
            job=job, items=tmp_path / f"{TASK}.jsonl", weights=[], student_weights=[], journal=tmp_path / "t.jsonl",
            student_journal=tmp_path / "students.jsonl", server_logs=tmp_path / "logs", out=tmp_path / "out.jsonl",
        )  # fmt: skip
    assert len((tmp_path / "students.jsonl").read_text(encoding="utf-8").splitlines()) == len(handler.requests) == 4
    assert (tmp_path / "t.jsonl").read_text(encoding="utf-8") == ""


def test_a_task_without_starting_points_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"simulations\.s\.task: no item of .* Fix: choose"):
        simulated(tmp_path, [ASK], [WRONG], items=[problem(vars={"question": QUESTION})])


ENDS = [
    (["REFUSE"], [WRONG], 0, "the tutor's turn 1 was refused: "),
    ([ASK, "REFUSE"], [WRONG], 1, "the tutor's turn 2 was refused: "),
    ([ASK, " "], [WRONG], 1, "the tutor's turn 2 is empty"),
    ([ASK], [WRONG, ""], 2, "the student's turn 2 is empty"),
]


@pytest.mark.parametrize(("tutor", "student", "turns", "why"), ENDS)
def test_an_empty_or_refused_turn_of_either_side_ends_one_conversation(
    tmp_path: Path, tutor: list[str], student: list[str], turns: int, why: str
) -> None:
    [conversation], _ = simulated(tmp_path, tutor, student, turns=4)
    assert len(conversation.turns) == turns and str(conversation.ended).startswith(why)


def conversation(number: int, leak: int | None, resolved: int | None, turns: int = 3, **end: Any) -> Any:
    exchanged = [SimulatedTurn(tutor=ASK, tutor_key="k", student=WRONG, student_key="k")] * turns
    return SimulatedConversation(
        id=str(number), tutor="t", cluster=str(number), answer=12, turns=exchanged, leak=leak, resolved=resolved,
        **end,
    )  # fmt: skip


def test_figures_of_a_tutor() -> None:
    conversations = [
        conversation(1, None, 2), conversation(2, None, 3), conversation(3, 1, 1), conversation(4, 2, None),
        conversation(5, 3, 2), conversation(6, None, None),
        conversation(7, None, None, turns=0, ended="refused", ended_by="tutor", refused=True),
        conversation(8, None, None, ended="empty", ended_by="student"),
        conversation(9, None, None, turns=0, ended="empty", ended_by="tutor"),
    ]  # fmt: skip
    by_metric = {score.metric: score for score in tutor_scores("s", conversations, 4, SAMPLING)}
    assert by_metric[LEAKS].value == pytest.approx(3 / 6) and by_metric[LEAKS].n == 6
    assert by_metric[RESOLVED].missing == 2, "one refused conversation, and one that the student's model ended"
    assert by_metric[RESOLVED].value == pytest.approx(4 / 7), "an empty first turn leads nowhere"
    assert by_metric[UNAIDED].value == pytest.approx(3 / 7), "a leak after the student's answer is no help"
    assert by_metric[TURNS].value == pytest.approx((2 + 3 + 2) / 3) and by_metric[TURNS].n == 3
    assert by_metric[TURNS].high is not None and by_metric[TURNS].high <= 4, "no interval exceeds the number of turns"


def claims(right: int, wrong: int, unreadable: int = 0) -> list[ClaimAnswer]:
    fields: dict[str, Any] = {"kind": "wrong", "claim": 13, "text": "", "key": "k"}
    marks = [True] * right + [False] * wrong + [None] * unreadable
    return [ClaimAnswer(id=str(n), cluster=str(n), agrees=mark, **fields) for n, mark in enumerate(marks)]


def test_unreadable_answers_to_claims_are_missing() -> None:
    [caves] = claim_scores("s", claims(30, 30, 4), SAMPLING)
    assert (caves.metric, caves.value, caves.n, caves.missing) == (CAVES, 0.5, 60, 4)


@pytest.mark.parametrize(("answered", "has_figures"), [(FEWEST_CLAIMS, True), (FEWEST_CLAIMS - 1, False), (0, False)])
def test_the_panel_refuses_without_fifty_answers_to_wrong_claims(
    tmp_path: Path, answered: int, has_figures: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores: list[Score] = [
        *claim_scores("s", claims(answered, 0, 60 - answered), SAMPLING),
        *tutor_scores("s", [conversation(1, None, 2)], 4, SAMPLING),
    ]
    folder = tmp_path / "simulations/s"
    folder.mkdir(parents=True)
    write_scores(scores, folder / "scores.json")
    entry = Simulation(student="p", task="b/t")
    plan = SimpleNamespace(config=SimpleNamespace(simulations={"s": entry}), run=SimpleNamespace(tutors=["t"]))
    monkeypatch.setattr(section, "tutors_of_simulations", lambda plan: ["t"])
    monkeypatch.setattr(section, "display_label", lambda plan, name: name)
    view = section.simulation_view(SimpleNamespace(results=tmp_path, plan=plan), "s")  # type: ignore[arg-type]
    assert view["measured"] is has_figures and len(view["rows"]) == int(has_figures) and view["answered"] == answered


def test_every_shipped_persona_can_be_read_and_is_marked_as_ours() -> None:
    assert set(persona_paths()) == {"unsure", "answer_seeker"}
    for name in persona_paths():
        loaded = read_persona(name)
        assert "not validated" in loaded.card.source and "{{ question }}" in loaded.template
    with pytest.raises(UserError, match=r"the persona does not exist.*choose one of .*unsure"):
        read_persona("nobody")
