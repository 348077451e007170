"""Scripted models of a curation: good answers at every stage, and bad ones for seeds with a fault.

A seed's problem ends with `[CASE ANSWER]`, and every text made from it keeps this mark. A fault maps a case to a stage
and a function, which turns the good answer and the number of the attempt (0: first, 1: repeated) into the bad answer.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from httpserver import chat, scripted
from obedient_judge import prompt_of

MARK = re.compile(r"\[([\w-]+) (-?\d+)\]")
STAGES = {
    "tag": "You are an expert in the K-8 mathematics curriculum",
    "validate_seed": "determine whether there are any issues",
    "follow_up": "create one additional follow-up problem",
    "solve": "Solve the last problem.",
    "wrong_solution": "Solve this problem.",
    "rephrase": "Write the same solution as steps of one kind",
    "verify_rephrasing": "the same solution rephrased as steps",
    "correct": "correcting student's mistakes",
    "similar": "create a math problem at a specific difficulty level",
    "clarify": "craft both the student's queries",
    "flow": "curriculum designer and pedagogical strategist",
    "verify_flow": "You review a plan for a conversation",
    "expand": "expert K-8 math tutor and curriculum implementer",
    "choose_turns": "You choose test cases",
    "write_instruction": "You write the system prompt",
    "rate": "Mistake_Identification",
}
Fault = Callable[[str, int], str]


def stage_of(prompt: str) -> str:
    """Return the stage that a prompt belongs to."""
    [stage] = [name for name, words in STAGES.items() if words in prompt]
    return stage


def steps(answer: int, wrong_at: int | None = None) -> str:
    """Return a solution of two steps. wrong_at: number of the wrong step."""
    lines = [f"Step 1: There are {answer - 1} at first{' (miscounted)' if wrong_at == 1 else ''}."]
    lines.append(f"Step 2: One more makes {answer}{' (misadded)' if wrong_at == 2 else ''}.")
    return "\n".join(lines)


def problem(stage: str, case: str, number: int, salt: str) -> str:
    """Return a new problem, with its answer in its mark."""
    return (
        f"{salt.capitalize()} of {stage}: a farmer named {salt} counts quite different things on day {number}. "
        f"How many? [{case} {number}]"
    )


def made(tag: str, text: str) -> str:
    return f"<{tag}>{text}</{tag}>"


def good(prompt: str, model: str, sample: int) -> str:
    """Return the answer of a good model to any prompt of a curation."""
    stage = stage_of(prompt)
    case, number = MARK.findall(prompt)[-1] if MARK.search(prompt) else ("none", "0")
    answer = int(number)
    if stage == "tag":
        codes = re.findall(r"^(\S+): ", prompt.split("Answer: ")[-1], re.MULTILINE)
        return made("choice", codes[1 if "OA" in codes else 0])
    if stage == "validate_seed":
        return f"<analysis>fine</analysis><judge>Y</judge><reason>ok</reason><solution>{steps(answer)} \\boxed{{{answer}}}</solution>"
    if stage == "follow_up":
        place = len(re.findall(r"^<question\d+>", prompt, re.MULTILINE)) + 1
        new = answer + 10
        return (
            f"<construction>c</construction><verification>v</verification><result>no</result><method>more</method>"
            f"<question{place}>{problem('follow up', case, new, f'round{place}')}</question{place}>"
            f"<solution{place}>{steps(new)} \\boxed{{{new}}}</solution{place}><answer>{new}</answer>"
        )
    if stage == "similar":
        level = prompt.rsplit("Difficulty level of the problem to create: ", 1)[1].strip()
        new = answer + {"easy": 100, "medium": 200, "hard": 300}[level]
        return (
            f"<construction>c</construction><verification>v</verification><result>{'yes' if level == 'hard' else 'no'}"
            f"</result><question>{problem('similar', case, new, level)}</question>"
            f"<solution>{steps(new)} \\boxed{{{new}}}</solution><answer>{new}</answer>"
        )
    if stage == "solve":
        return f"It is \\boxed{{{answer}}}."
    if stage == "wrong_solution":
        wrong = answer + 1 + sample
        return f"{model} says: {steps(wrong, 1 + sample % 2)} \\boxed{{{wrong}}}"
    student = int(re.findall(r"One more makes (-?\d+)", prompt)[-1]) if "One more makes " in prompt else 0
    if stage == "rephrase":
        at = 1 if "miscounted" in prompt else 2 if "misadded" in prompt else None
        return made("steps", steps(student, at)) + made("answer", str(student))
    if stage == "verify_rephrasing":
        return made("judge", "Y")
    if stage == "correct":
        solution = prompt.rsplit("Student's solution:\n", 1)[1]
        if "mis" not in solution:
            return made("correctness", "yes")
        at = 1 if "miscounted" in solution else 2
        first = solution.split("\n")[0].removeprefix("Step 1: ") if at == 2 else f"There are {answer - 1} at first."
        corrected = f"Step 1: {first}\nStep 2: It is {answer}, \\boxed{{{answer}}}."
        return (
            made("analyze_step", "a") + made("analyze_solution", "b") + made("correctness", "no")
            + made("error_step", f"Step {at} is wrong since it counts badly.") + made("error_step_num", str(at))
            + made("corrected_solution", corrected) + made("answer", str(answer)) + made("corrected_steps", "2")
        )  # fmt: skip
    if stage == "clarify":
        return made("result", "no") + "".join(
            made(f"type{n}", kind) + made(f"query{n}", f"{kind} is it?") + made(f"answer{n}", f"Well, {kind}.")
            for n, kind in enumerate(("What", "How", "Why"), 1)
        )
    if stage == "flow":
        plan = [
            ("Asks for help with the problem", "seed", "Asks what is known", "seed_solution", "Questioning"),
            (
                "Shows a solution", "seed_student1", "Says where it is wrong", "seed_student1_correction",
                "Feedback,Explanation",
            ),
            ("Says thanks", "none", "Says goodbye", "none", "Practice"),
        ]  # fmt: skip
        return (
            "<scenario><tutor_persona>Patient</tutor_persona><student_profile>Grade 3</student_profile>"
            "<objectives>- Count\n- Add</objectives></scenario><storyline>From a mistake to the answer.</storyline>"
            + "".join(
                f"<Sflow{n}><action>{a}</action><source_material>{b}</source_material></Sflow{n}>"
                f"<Tflow{n}><action>{c}</action><source_material>{d}</source_material><principles>{e}</principles></Tflow{n}>"
                for n, (a, b, c, d, e) in enumerate(plan, 1)
            )
        )
    if stage == "verify_flow":
        return made("decision", "truncate") + made("last", "2")
    if stage == "expand":
        count = len(re.findall(r"<Sflow\d+><action>", prompt))
        return made("verification", "ok") + made("result", "no") + "".join(
            made(f"S{n}", f"Student's words {n} about {case} {number}") + made(f"T{n}", f"What do you know, step {n} of {case}?")
            for n in range(1, count + 1)
        )  # fmt: skip
    if stage == "rate":
        options = re.findall(r'^- "(\w+)": .*One of: ([^|\n]+)', prompt, re.MULTILINE)
        return json.dumps({name: first.strip() for name, first in options})
    if stage == "choose_turns":
        return made("choice", re.findall(r"^Turn (\d+), tutor", prompt, re.MULTILINE)[-1])
    return made("instruction", "You are a patient tutor. Say the next words to the student.")


class Curator:
    """The script, with counts of the requests. faults: the failing stage and its fault, by case."""

    def __init__(self, faults: dict[str, tuple[str, Fault]] | None = None, wait: float = 0.0) -> None:
        self.faults = faults or {}
        self.wait = wait
        self.lock, self.more = threading.Lock(), math.inf
        self.released = threading.Event()
        self.asked: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()

    @contextmanager
    def answering(self, more: int) -> Iterator[None]:
        """Answer only a number of requests within the context. Further requests wait, and are dropped when it ends."""
        self.more, self.released = more, threading.Event()
        yield
        self.released.set()
        self.more = math.inf

    def may_answer(self, body: dict[str, Any]) -> bool:
        """Count a request. Return True if it may be answered; otherwise wait, and return False when it is dropped."""
        released = self.released
        with self.lock:
            self.requests[repr(sorted((key, repr(value)) for key, value in body.items()))] += 1
            self.more -= 1
            free = self.more >= 0
        return free or not released.wait()

    def answer(self, body: dict[str, Any]) -> str:
        prompt, seed = prompt_of(body), body.get("seed", 0)
        stage = stage_of(prompt)
        self.asked[stage] += 1
        attempt, sample = divmod(max(0, seed - SEED), 1000) if seed else (0, 0)
        text = good(prompt, body["model"], sample)
        case = MARK.findall(prompt)[-1][0] if MARK.search(prompt) else ""
        if case in self.faults and self.faults[case][0] == stage:
            return self.faults[case][1](text, attempt)
        return text

    def handler(self) -> Any:
        """Return a request handler for `httpserver.serving`."""

        def reply(n: int, body: dict[str, Any]) -> tuple[int, dict[str, Any], dict[str, str]]:
            if not self.may_answer(body):
                return 0, {}, {}
            time.sleep(self.wait)
            return 200, chat({"content": self.answer(body)}), {}

        return scripted(reply)


SEED = 7  # seed of the runs with this script


def roles() -> dict[str, Any]:
    """Return the roles of a curation, filled by scripted models."""
    return {
        "generator": "maker", "solvers": ["one", "two", "maker"], "validators": ["one", "two"],
        "weak_solvers": ["weak", "weaker"], "verifier": "one",
    }  # fmt: skip


def entries(address: str) -> dict[str, Any]:
    """Return the registry entries of the scripted models, by the names in `roles`."""
    return {
        name: {"engine": "hosted", "model": name, "base_url": f"{address}/v1", "concurrency": 64}
        for name in ("maker", "one", "two", "weak", "weaker")
    }


def seeded(folder: Path, problems: list[tuple[str, str]], **more: Any) -> dict[str, Any]:
    """Write problems and answers into a checkout; return data sets with an entry `mine` for them. more: other sets."""
    content = "".join(json.dumps({"question": text, "answer": answer}) + "\n" for text, answer in problems).encode()
    (folder / "resources/demo/mine.jsonl").write_bytes(content)
    pin = {"sha256": hashlib.sha256(content).hexdigest(), "records": len(problems)}
    mine = {
        "title": "Mine", "licence": "CC0-1.0", "format": "jsonl", "fields": ["question", "answer"],
        "published": {"path": "mine.jsonl"}, "demo": {"path": "mine.jsonl", **pin},
    }  # fmt: skip
    return {"mine": mine, **more}


def counting(count: int) -> list[tuple[str, str]]:
    """Return a number of problems that the script can answer, with their answers."""
    return [(f"Ann counts. [case-{number} {5 + number}]", str(5 + number)) for number in range(count)]


def curation(**more: Any) -> dict[str, Any]:
    """Return the configuration of a curation `c` of the data set `mine`."""
    return {"c": {"seeds": {"mine": "word_problems"}, "roles": roles(), **more}}
