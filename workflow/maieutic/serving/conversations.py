"""How a dialogue and one tutor's reply are laid out for a reward model, the same for training and scoring.

Layout of the released scorer (eth-lre/mathtutorbench, reward_model/compute_scaffolding_score.py): a system message that
says what to judge, the problem with its solution as the user, teacher turns as the assistant, student turns as the
user, and the reply as the last assistant message. There is no generation prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from jinja2 import TemplateError

from maieutic.core.errors import UserError
from maieutic.core.paths import RESOURCES

Message = dict[str, str]
Prompt = Literal["extended", "simple", "none"]

PROMPTS = RESOURCES / "rewards"
UNKNOWN_SOLUTION = "N/A"  # what the released data print for a dialogue without one
SPEAKERS = {"assistant": "Teacher", "user": "Student"}
TURN = re.compile(r"^[^\S\n]*(?=(?:Tutor|Teacher|Student):)", re.MULTILINE)


def merged(turns: Iterable[tuple[str, str]]) -> list[Message]:
    """Turns (role, text) as messages, neighbours of one speaker joined by a space."""
    messages: list[Message] = []
    for role, text in turns:
        text = text.strip()
        if messages and messages[-1]["role"] == role:
            messages[-1] = {"role": role, "content": f"{messages[-1]['content']} {text}".strip()}
        else:
            messages.append({"role": role, "content": text})
    return messages


def role_of(speaker: str) -> str:
    """The chat role of a speaker: whoever teaches is the assistant."""
    return "assistant" if speaker.strip().casefold() in {"teacher", "tutor"} else "user"


def parse_turns(text: str) -> list[tuple[str, str]]:
    """Turns of a dialogue printed as lines `Tutor: ...` and `Student: ...`, a turn may hold several lines."""
    turns = []
    for part in TURN.split(text.replace("\u00a0", " ")):
        speaker, colon, content = part.strip().partition(":")
        if colon:
            turns.append((role_of(speaker), content))
    return turns


def task_message(problem: str, solution: str) -> Message:
    """The problem and its solution, as the released scorer words them."""
    return {"role": "user", "content": f"Problem: {problem}\nReference Solution: {solution}"}


def problem_of(messages: Sequence[Message]) -> str:
    """The problem that the first message of a dialogue states; empty where it states none."""
    return messages[0]["content"].removeprefix("Problem: ").partition("\nReference Solution: ")[0]


def dialogue(problem: str, solution: str, turns: Sequence[Mapping[str, str]]) -> list[Message]:
    """The messages before the reply. turns: messages with `role` and `content`."""
    return [task_message(problem, solution), *map(dict, turns)]


def instruction(prompt: Prompt) -> str:
    """The text of a system message: the paper's Figure 7 (extended) or Figure 6 (simple), or none."""
    return "" if prompt == "none" else (PROMPTS / f"{prompt}.txt").read_text(encoding="utf-8").strip()


def conversation(messages: Sequence[Message], reply: str, system: str) -> list[Message]:
    """What is scored: instruction, dialogue, reply."""
    first = [{"role": "system", "content": system}] if system else []
    return [*first, *messages, {"role": "assistant", "content": reply}]


def as_text(tokenizer: Any, messages: Sequence[Message]) -> str:
    """A conversation as the text that is tokenised: the model's chat template, or Figure 7's lines without one."""
    if tokenizer.chat_template:
        try:
            return str(tokenizer.apply_chat_template(list(messages), tokenize=False))
        except TemplateError as error:  # some refuse a system message, or two messages of one speaker in a row
            mend = "set prompt: none, or name another model"
            problem = f"its chat template refuses the dialogue: {error}"
            raise UserError(str(tokenizer.name_or_path), problem, mend) from None
    lines = []
    for number, message in enumerate(messages):
        bare = message["role"] == "system" or (number < 2 and message["content"].startswith("Problem: "))
        lines.append(message["content"] if bare else f"{SPEAKERS[message['role']]}: {message['content']}")
    return "\n".join(lines)


def encode(tokenizer: Any, conversations: Sequence[Sequence[Message]], longest: int | None) -> list[list[int]]:
    """Token ids of every conversation. longest: the oldest tokens of a longer one are cut; None: none are."""
    if not conversations:
        return []
    tokenizer.truncation_side = "left"
    cut: dict[str, Any] = {"truncation": True, "max_length": longest} if longest else {}
    texts = [as_text(tokenizer, messages) for messages in conversations]
    token_ids = tokenizer(texts, add_special_tokens=not tokenizer.chat_template, **cut)["input_ids"]
    return [list(ids) for ids in token_ids]
