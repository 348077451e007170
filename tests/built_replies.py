"""Build complete tutor replies: a real reasoning text, then a closing line with a known value."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

TASKS = ("step", "yes_no", "number")
Value = int | float | bool | None


@dataclass(frozen=True)
class Reasoning:
    """A reply's text before its closing line. value: the value that it argues for, or None if it reaches no verdict."""

    text: str
    value: Value
    first_error: int | None = None
    steps: int = 0


@dataclass(frozen=True)
class _Solution:
    steps: tuple[str, ...]
    first_error: int
    reason: str


_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
_TENS = ". . twenty thirty forty fifty sixty seventy eighty ninety".split()
_NTHS = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
    "fourteenth fifteenth sixteenth"
).split()
_SLOT = re.compile(
    r"\{(n|word|nth|nth_short|wrong|wrong_word|wrong_nth|money|comma|yes|no|correct_word|prev|next|double)\}"
)
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?|-?\.\d+")


def number_word(n: int) -> str:
    if n < 20:
        return _ONES[n]
    if n < 100:
        return _TENS[n // 10] + (f"-{_ONES[n % 10]}" if n % 10 else "")
    if n < 1000:
        return f"{_ONES[n // 100]} hundred" + (f" and {number_word(n % 100)}" if n % 100 else "")
    raise ValueError(n)


def digits(x: float) -> str:
    return str(int(x)) if float(x).is_integer() else f"{x:.10g}"


def nth_short(n: int) -> str:
    end = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{end}"


def _clean(text: str) -> str:
    return re.sub(r"[ \t]+", " ", re.sub(r"<<[^<>]*>>", "", text)).strip()


def _stop(text: str) -> str:
    return text if text[-1:] in ".!?:" else text + "."


def _jsonl(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _answer(text: str) -> float | None:
    matches = re.findall(r"(?:^|\n)\s*(?:A:|####)\s*\$?(-?[\d,]*\.?\d+)\s*$", text.rstrip())
    return float(matches[-1].replace(",", "")) if matches else None


def _numbers(text: str) -> set[float]:
    return {float(m.group().replace(",", "")) for m in _NUMBER.finditer(text)}


def _right_solutions(data: Path) -> list[tuple[tuple[str, ...], float]]:
    """Return the lines and the value of each right solution."""
    out = []
    seen: set[tuple[str, ...]] = set()
    for row in _jsonl(data / "gsm8k" / "example_model_solutions.jsonl"):
        value = _answer(row["ground_truth"])
        for model in sorted(k for k, v in row.items() if isinstance(v, dict)):
            solution = row[model]
            if not solution["is_correct"] or value is None or _answer(solution["solution"]) != value:
                continue
            lines = [_clean(s) for s in solution["solution"].strip().split("\n")[:-1]]
            steps = tuple(s for s in lines if s)
            # the text itself must lead to the value
            if steps and value in _numbers(steps[-1]) and value >= 0 and steps not in seen:
                seen.add(steps)
                out.append((steps, value))
    return out


def _wrong_solutions(data: Path) -> list[_Solution]:
    out = []
    seen: set[tuple[str, ...]] = set()
    for path in sorted((data / "mr_gsm8k" / "gpt4-grading").glob("*.json")):
        for row in json.loads(path.read_text(encoding="utf-8")):
            n = row["model_output_solution_first_error_step"]
            reason = _clean(" ".join(str(row["model_output_solution_first_error_reason"]).split()))
            steps = tuple(re.sub(r"^Step \d+:\s*", "", _clean(" ".join(s.split()))) for s in row["model_output_steps"])
            if not (isinstance(n, int) and 1 <= n <= len(steps) and len(reason) > 15 and all(steps)):
                continue
            if re.search(r"[\u3000-\u9fff\uff00-\uffef]", reason):  # reasons in Chinese
                continue
            if any(int(k) != n for k in re.findall(r"(?i)steps?\s*#?(\d+)", reason)):  # the reason names another step
                continue
            if steps not in seen:
                seen.add(steps)
                out.append(_Solution(steps, n, _stop(reason)))
    return out


def _quoted(s: _Solution) -> str:
    lines = []
    for k, text in enumerate(s.steps, 1):
        if s.first_error and k > s.first_error:
            break
        if k == s.first_error:
            lines.append(f"Step {k}: {_stop(text)} This is wrong. {s.reason}")
        else:
            lines.append(f"Step {k}: {_stop(text)} This is correct.")
    return "\n".join(lines)


def _paragraph(s: _Solution) -> str:
    parts = ["Let me go through the student's solution."]
    for k, text in enumerate(s.steps, 1):
        if s.first_error and k > s.first_error:
            parts.append("What follows builds on this.")
            break
        verdict = f"That is not right. {s.reason}" if k == s.first_error else "That is right."
        parts.append(f'In step {k} the student writes: "{text}" {verdict}')
    if not s.first_error:
        parts.append("The result is right, too.")
    return " ".join(parts)


def _numbered(s: _Solution) -> str:
    lines = ["I check each step in turn:", ""]
    for k, text in enumerate(s.steps, 1):
        if s.first_error and k > s.first_error:
            lines.append(f"{k}. {_stop(text)} - relies on the wrong result before it")
        elif k == s.first_error:
            lines.append(f"{k}. {_stop(text)} - ✗ {s.reason}")
        else:
            lines.append(f"{k}. {_stop(text)} - ✓")
    return "\n".join(lines)


def _bullets(s: _Solution) -> str:
    lines = ["**Analysis of the student's solution**", ""]
    for k, text in enumerate(s.steps, 1):
        if s.first_error and k > s.first_error:
            break
        verdict = f"Not correct. {s.reason}" if k == s.first_error else "No problem here."
        lines.append(f"- **Step {k}:** {_stop(text)} {verdict}")
    return "\n".join(lines)


def _restated(s: _Solution) -> str:
    body = "\n".join(f"Step {k}: {text}" for k, text in enumerate(s.steps, 1))
    if s.first_error:
        end = f"I compare this with the problem. The trouble starts in step {s.first_error}. {s.reason}"
    else:
        end = "I compare this with the problem. The quantities and the calculations agree with it in every step."
    return f"The student's solution goes as follows.\n{body}\n\n{end}"


def _open_plain(s: _Solution) -> str:
    body = "\n".join(f"Step {k}: {text}" for k, text in enumerate(s.steps, 1))
    return f"The student's solution goes as follows.\n{body}"


def _open_paragraph(s: _Solution) -> str:
    parts = [f'In step {k} the student writes: "{text}"' for k, text in enumerate(s.steps, 1)]
    return "Let me read the student's solution first. " + " ".join(parts)


_FRAMES: tuple[Callable[[_Solution], str], ...] = (_quoted, _paragraph, _numbered, _bullets, _restated)
_OPEN: tuple[Callable[[_Solution], str], ...] = (_open_plain, _open_paragraph)


def _number_frames(steps: tuple[str, ...]) -> list[str]:
    return [
        "\n".join(steps),
        "Let's think step by step.\n\n" + "\n".join(_stop(s) for s in steps),
        "\n".join(f"{k}. {s}" for k, s in enumerate(steps, 1)),
        "\n\n".join(f"Step {k}: {_stop(s)}" for k, s in enumerate(steps, 1)),
        "\n".join(f"- {s}" for s in steps),
        " ".join(_stop(s) for s in steps),
    ]


@cache
def reasonings(data: Path, task: str) -> list[Reasoning]:
    """Return all reasoning texts for a task, each in several formats. Texts with value None reach no verdict."""
    out: list[Reasoning] = []
    right = _right_solutions(data)
    if task == "number":
        for steps, value in right:
            out += [Reasoning(t, value, None, len(steps)) for t in _number_frames(steps)]
            part = steps[:-1]
            if part and value not in _numbers(" ".join(part)):
                out += [Reasoning(t, None, None, len(part)) for t in _number_frames(part)]
        return out
    if task not in TASKS:
        raise ValueError(task)
    solutions = [_Solution(steps, 0, "") for steps, _ in right] + _wrong_solutions(data)
    for s in solutions:
        value: Value = s.first_error if task == "step" else bool(s.first_error)
        out += [Reasoning(f(s), value, s.first_error, len(s.steps)) for f in _FRAMES]
        out += [Reasoning(f(s), None, None, len(s.steps)) for f in _OPEN]
    return out


def _fits(task: str, form: dict, r: Reasoning) -> bool:
    """Return True if the closing line can follow the reasoning without contradicting it."""
    text, value = form["text"], form["value"]
    slots = set(_SLOT.findall(text))
    if value is None:
        return r.value is None
    if r.value is None or r.steps < form.get("steps", 0):
        return False
    if task == "number":
        x = float(r.value)
        if (form.get("whole") or slots & {"word"}) and not (x.is_integer() and x <= 999):
            return False
        if slots & {"money"} and round(x, 2) != x:
            return False
        return not (form.get("big") and x < 1000)
    n = r.first_error or 0
    if n < form.get("min", 0) or ("prev" in slots and n < 2):
        return False
    if "next" in slots and not 0 < n < r.steps:
        return False
    if task == "yes_no":
        return "only" not in form or form["only"] is r.value
    if slots & {"nth", "nth_short"} and n == 0:
        return False
    if value != "n" and n != value:
        return False
    return not (form.get("nonzero") and n == 0) and not (form.get("zero") and n != 0)


def _slots(task: str, r: Reasoning, rng: random.Random) -> dict[str, str]:
    if r.value is None:
        return {}
    if task == "yes_no":
        yes = bool(r.value)
        n = r.first_error or 0
        return {
            "yes": "Yes" if yes else "No", "no": "No" if yes else "Yes",
            "correct_word": "incorrect" if yes else "correct", "n": str(n), "prev": str(n - 1), "next": str(n + 1),
        }  # fmt: skip
    if task == "step":
        n = int(r.value)
        wrong = rng.choice([k for k in range(1, max(r.steps, 3) + 1) if k != n])
        return {
            "n": str(n), "word": number_word(n), "nth": _NTHS[n], "nth_short": nth_short(n), "wrong": str(wrong),
            "wrong_word": number_word(wrong), "wrong_nth": _NTHS[min(wrong, len(_NTHS) - 1)], "prev": str(n - 1),
            "next": str(n + 1),
        }  # fmt: skip
    x = float(r.value)
    others = [x + 1, x + 2, x + 10, 2 * x, 3 * x] + [y for y in (x - 1, x - 2, x - 10, x / 2) if y > 0]
    other = rng.choice([y for y in others if y != x])
    cents = f"{x:,.2f}"
    return {
        "n": digits(x),
        "word": number_word(int(x)) if x.is_integer() and x <= 999 else "",
        "wrong": digits(other),
        "money": cents,
        "comma": f"{int(x):,}" if x.is_integer() else f"{x:,.10g}",
        "double": digits(2 * x),
    }


def _joined(reasoning: str, text: str, rng: random.Random) -> str:
    sentence = (
        re.match(r"[A-Z][a-z']*[ ,]", text) is not None
        and text.endswith(".")
        and "\n" not in text
        and len(text.split()) >= 4
    )
    if re.match(r"\s*(?:[-*•>|#]|\d+\.(?:\s|$))", text):  # otherwise it would continue a list of the reasoning
        glue = "\n\n"
    else:
        glue = rng.choice(("\n", "\n\n", " ") if sentence else ("\n", "\n\n"))
    if glue == " ":
        return (reasoning if reasoning[-1] in '.!?"✓' else reasoning + ".") + " " + text
    return reasoning + glue + text


def _expected(task: str, form: dict, r: Reasoning) -> Value:
    if form["value"] is None:
        return None
    if form["value"] == "n":
        return r.value
    literal: Value = form["value"]
    if (task == "step" and literal != r.value) or (task == "yes_no" and literal is not r.value):
        raise ValueError(f"{form}: does not follow from its reasoning")
    return literal


def build(kinds: Path, data: Path, seed: int, per_form: int) -> Iterator[dict]:
    """Yield {task, kind, text, value}. The same arguments yield the same replies."""
    for task, families in yaml.safe_load(kinds.read_text(encoding="utf-8")).items():
        pool = reasonings(data, task)
        fitting: dict[Any, dict[str, list[Reasoning]]] = {}  # by what decides which reasoning fits a form
        for family in families:
            for i, form in enumerate(family["forms"]):
                rng = random.Random(f"{seed}/{task}/{family['kind']}/{i}")
                needs = frozenset(_SLOT.findall(form["text"])), repr({**form, "text": ""})
                if needs not in fitting:
                    by_value: dict[str, list[Reasoning]] = {}
                    for r in pool:
                        if _fits(task, form, r):
                            # Group verdicts by value, so that rare ones are drawn too; numbers form one group.
                            by_value.setdefault("number" if task == "number" else str(r.value), []).append(r)
                    fitting[needs] = by_value
                by_value = fitting[needs]
                if not by_value:
                    raise ValueError(f"no reasoning fits {task}/{family['kind']}: {form}")
                groups = sorted(by_value)
                weights = [min(len(by_value[g]), 200) for g in groups]
                for _ in range(per_form):
                    r = rng.choice(by_value[rng.choices(groups, weights)[0]])
                    slots = _slots(task, r, rng)
                    text = _SLOT.sub(lambda m, s=slots: s[m.group(1)], form["text"])
                    yield {
                        "task": task, "kind": family["kind"], "text": _joined(r.text, text, rng),
                        "value": _expected(task, form, r),
                    }  # fmt: skip
