"""Tests of a reward model's input text: with a chat template, and in the format of Figure 7 without one."""

from __future__ import annotations

from typing import Any

import pytest
from jinja2 import TemplateError
from maieutic.core.errors import UserError
from maieutic.serving.conversations import (
    encode_conversations,
    messages_before_reply,
    messages_to_score,
    parse_turns,
    role_of,
    scorer_text,
    stated_problem,
    task_message,
)


class Tokenizer:
    """The part of a tokenizer that `scorer_text` and `encode_conversations` use; it records the options of a call."""

    name_or_path = "some/model"

    def __init__(self, chat_template: str | None = None, refuses: bool = False) -> None:
        self.chat_template, self.refuses = chat_template, refuses
        self.truncation_side = "right"
        self.options: dict[str, Any] = {}

    def apply_chat_template(self, messages: list[dict[str, str]], tokenize: bool) -> str:
        if self.refuses:
            raise TemplateError("roles must alternate")
        assert tokenize is False and isinstance(messages, list)
        return "".join(f"<{message['role']}>{message['content']}" for message in messages)

    def __call__(self, texts: list[str], **options: Any) -> dict[str, list[tuple[int, ...]]]:
        self.options = options
        return {"input_ids": [tuple(map(ord, text)) for text in texts]}


TURNS = [{"role": "assistant", "content": "Hi."}, {"role": "user", "content": "Problem: none of mine."}]


def test_text_without_a_template_follows_figure_7() -> None:
    messages = messages_to_score(messages_before_reply("2 + 2?", "4", TURNS), "Why?", "Judge.")
    assert messages == [
        {"role": "system", "content": "Judge."}, {"role": "user", "content": "Problem: 2 + 2?\nReference Solution: 4"},
        *TURNS, {"role": "assistant", "content": "Why?"},
    ]  # fmt: skip
    text = (
        "Judge.\nProblem: 2 + 2?\nReference Solution: 4\nTeacher: Hi.\nStudent: Problem: none of mine.\nTeacher: Why?"
    )
    assert scorer_text(Tokenizer(), messages) == text
    bare = messages_to_score(messages_before_reply("2 + 2?", "4", TURNS), "Why?", "")
    assert scorer_text(Tokenizer(), bare) == text.removeprefix("Judge.\n"), (
        "without an instruction, the text starts with the problem"
    )


@pytest.mark.parametrize(("messages", "text"), [
    ([{"role": "user", "content": "I do not know."}], "Student: I do not know."),
    ([{"role": "user", "content": "Problem: x"}, {"role": "user", "content": "y"}], "Problem: x\nStudent: y"),
    ([{"role": "user", "content": "y"}, {"role": "user", "content": "Problem: x"}], "Student: y\nProblem: x"),
    ([{"role": "assistant", "content": "a"}, {"role": "system", "content": "b"}], "Teacher: a\nb"),
    ([*TURNS, {"role": "user", "content": "Problem: z"}], "Teacher: Hi.\nProblem: none of mine.\nStudent: Problem: z"),
])  # fmt: skip
def test_only_a_first_or_second_message_may_state_the_problem(messages: list[dict[str, str]], text: str) -> None:
    assert scorer_text(Tokenizer(), messages) == text


def test_a_chat_template_is_used_and_may_reject_a_dialogue() -> None:
    assert scorer_text(Tokenizer("x"), TURNS) == "<assistant>Hi.<user>Problem: none of mine."
    with pytest.raises(UserError) as error:
        scorer_text(Tokenizer("x", refuses=True), TURNS)
    assert str(error.value) == (
        "some/model: the chat template rejects the dialogue: roles must alternate."
        " Fix: set prompt: none, or choose another model"
    )


@pytest.mark.parametrize("template", [None, "x"])
@pytest.mark.parametrize("longest", [None, 7])
def test_the_oldest_tokens_are_cut_and_special_ones_come_once(template: str | None, longest: int | None) -> None:
    tokenizer = Tokenizer(template)
    ids = encode_conversations(tokenizer, [TURNS, TURNS[:1]], longest)
    assert [bytes(row).decode() for row in ids] == [scorer_text(tokenizer, TURNS), scorer_text(tokenizer, TURNS[:1])]
    assert all(isinstance(row, list) for row in ids)
    truncation = {} if longest is None else {"truncation": True, "max_length": 7}
    assert tokenizer.options == {"add_special_tokens": template is None, **truncation}
    assert tokenizer.truncation_side == "left"


def test_a_printed_dialogue_is_read_turn_by_turn() -> None:
    text = "Tutor: Hi\u00a0there.\nHow are you?\n  Student: Fine: thanks. \nTeacher: Good.\nNo speaker here"
    assert parse_turns(text) == [
        ("assistant", " Hi there.\nHow are you?"),
        ("user", " Fine: thanks."),
        ("assistant", " Good.\nNo speaker here"),
    ]
    assert parse_turns("nobody says this") == [] and parse_turns("") == []
    assert [role_of(name) for name in (" TUTOR ", "teacher", "Student", "Ines")] == [
        "assistant", "assistant", "user", "user",
    ]  # fmt: skip


def test_a_problem_comes_back_from_its_message() -> None:
    assert stated_problem([task_message("2 + 2?\nSure?", "4")]) == "2 + 2?\nSure?"
    assert stated_problem([task_message("2 + 2?", "4\nReference Solution: 5")]) == "2 + 2?"
    assert stated_problem([{"role": "user", "content": "What is a prime?"}]) == "What is a prime?"
    assert task_message("a", "b") == {"role": "user", "content": "Problem: a\nReference Solution: b"}
