"""Layout in which a reward model reads a dialogue and one tutor's reply, shared by training and scoring.

The layout is that of the released scorer (eth-lre/mathtutorbench, reward_model/compute_scaffolding_score.py): a system
message with the instruction, a user message with the problem and its solution, the teacher's turns as assistant
messages, the student's turns as user messages, and the reply as the last assistant message. No generation prompt is
added.
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
UNKNOWN_SOLUTION = "N/A"  # text that replaces a missing solution in the released data
SPEAKERS = {"assistant": "Teacher", "user": "Student"}
TURN_START = re.compile(r"^[^\S\n]*(?=(?:Tutor|Teacher|Student):)", re.MULTILINE)


def merge_turns(turns: Iterable[tuple[str, str]]) -> list[Message]:
    """Convert turns (role, text) to messages. Consecutive turns with the same role are joined by a space."""
    messages: list[Message] = []
    for role, text in turns:
        text = text.strip()
        if messages and messages[-1]["role"] == role:
            messages[-1] = {"role": role, "content": f"{messages[-1]['content']} {text}".strip()}
        else:
            messages.append({"role": role, "content": text})
    return messages


def role_of(speaker: str) -> str:
    """Return the chat role of a speaker: `assistant` for a teacher or tutor, else `user`."""
    return "assistant" if speaker.strip().casefold() in {"teacher", "tutor"} else "user"


def parse_turns(text: str) -> list[tuple[str, str]]:
    """Parse the turns of a dialogue with lines `Tutor: ...` and `Student: ...`. A turn may span several lines."""
    turns = []
    for part in TURN_START.split(text.replace("\u00a0", " ")):
        speaker, colon, content = part.strip().partition(":")
        if colon:
            turns.append((role_of(speaker), content))
    return turns


def task_message(problem: str, solution: str) -> Message:
    """Return the message that states the problem and its solution, in the wording of the released scorer."""
    return {"role": "user", "content": f"Problem: {problem}\nReference Solution: {solution}"}


def stated_problem(messages: Sequence[Message]) -> str:
    """Return the problem that the first message of a dialogue states, or an empty string if the problem is blank."""
    return messages[0]["content"].removeprefix("Problem: ").partition("\nReference Solution: ")[0]


def messages_before_reply(problem: str, solution: str, turns: Sequence[Mapping[str, str]]) -> list[Message]:
    """Return the messages before a tutor's reply: the problem with its solution, then the turns (role, content)."""
    return [task_message(problem, solution), *map(dict, turns)]


def system_instruction(prompt: Prompt) -> str:
    """Return the system message of a prompt, or "" for `none`.

    The texts of `extended` and `simple` are in Figures 7 and 6 of the MathTutorBench paper.
    """
    return "" if prompt == "none" else (PROMPTS / f"{prompt}.txt").read_text(encoding="utf-8").strip()


def messages_to_score(messages: Sequence[Message], reply: str, system: str) -> list[Message]:
    """Return the messages that a reward model scores: system instruction (if any), dialogue and reply."""
    first = [{"role": "system", "content": system}] if system else []
    return [*first, *messages, {"role": "assistant", "content": reply}]


def scorer_text(tokenizer: Any, messages: Sequence[Message]) -> str:
    """Return a conversation as text to tokenise, in the tokenizer's chat template.

    Without a template, the text has lines in the style of Figure 7 of the MathTutorBench paper.
    """
    if tokenizer.chat_template:
        try:
            return str(tokenizer.apply_chat_template(list(messages), tokenize=False))
        except TemplateError as error:  # some templates reject a system message, or two messages of one role in a row
            fix = "set prompt: none, or choose another model"
            problem = f"the chat template rejects the dialogue: {error}"
            raise UserError(str(tokenizer.name_or_path), problem, fix) from None
    lines = []
    for number, message in enumerate(messages):
        bare = message["role"] == "system" or (number < 2 and message["content"].startswith("Problem: "))
        lines.append(message["content"] if bare else f"{SPEAKERS[message['role']]}: {message['content']}")
    return "\n".join(lines)


def encode_conversations(
    tokenizer: Any, conversations: Sequence[Sequence[Message]], longest: int | None
) -> list[list[int]]:
    """Return the token ids of every conversation.

    longest: maximum number of tokens, or None for no limit. The oldest tokens of a longer conversation are removed.
    """
    if not conversations:
        return []
    tokenizer.truncation_side = "left"
    cut: dict[str, Any] = {"truncation": True, "max_length": longest} if longest else {}
    texts = [scorer_text(tokenizer, messages) for messages in conversations]
    token_ids = tokenizer(texts, add_special_tokens=not tokenizer.chat_template, **cut)["input_ids"]
    return [list(ids) for ids in token_ids]
