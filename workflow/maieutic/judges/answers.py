"""Reading a judge's answer: the last verdict in the stated form counts, and what cannot be read is none.

Nothing here has a default. A judge may answer prose, fenced JSON, two verdicts, half of what was asked, NaN, a
megabyte, or another language.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from maieutic.core.objects import json_objects
from maieutic.core.records import Verdict
from maieutic.judges.rubrics import Criterion, Rubric, values_of

RESULT = re.compile(r"\[RESULT\][\s:*\"'`(]*(\S{0,12})", re.IGNORECASE)
WHOLE = re.compile(r"(\d+)[)\]}.,;:*\"'`]*")
LETTER = re.compile(r"\[\[\s*([A-Za-z]+)\s*\]\]")
# A verdict at the very end of an answer.
ENDS = re.compile(r"(?:\[RESULT\][\s:*\"'`(]*\d[)*\"'`.]*|\[\[\s*[A-Za-z]\s*\]\][*\"'`.]*)$", re.IGNORECASE)
TAIL = 20_000  # characters at the end of an answer in which its verdict is looked for
LONGEST_REASON = 500  # characters of a judge's reason that the results keep beside its verdict
MOST_BRACES = 2_000  # places where an object may begin


def no_number(name: str) -> Any:
    """NaN and Infinity are no JSON."""
    raise ValueError(f"{name} is no JSON")


class Twice:
    """Value of a key that occurs twice in a JSON object with different values."""


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object; a key with two different values gets the value `Twice`."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        found[key] = Twice() if key in found and found[key] != value else value
    return found


DECODER = json.JSONDecoder(parse_constant=no_number, object_pairs_hook=once)
CURLY = str.maketrans({"\u201c": '"', "\u201d": '"', "\u201e": '"', "\u2018": "'", "\u2019": "'"})
TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")
# A key or a value between single quotation marks, where a JSON object has one.
SINGLE_QUOTED = re.compile(r"(?<=[{\[,:])(\s*)'((?:[^'\\\n]|\\.|(?<=\w)'(?=\w))*)'(?=\s*[,:}\]])")


def read_answer(rubric: Rubric, criteria: Mapping[str, Criterion], text: str, finish: str | None) -> list[Verdict]:
    """One verdict for each of the criteria that were asked about, in their order; for a pair a single one."""
    asked: list[str | None] = [*criteria] or [None]
    if not text.strip():
        return [Verdict(criterion=name, value=None, why_none="empty answer") for name in asked]
    if rubric.answer == "json":
        return read_object(rubric, criteria, text[-TAIL:], finish)
    value, why = (read_result if rubric.answer == "result" else read_letter)(rubric, criteria, text[-TAIL:].rstrip())
    if finish == "length" and value is not None and not ENDS.search(text.rstrip()):
        value, why = None, "cut by max_tokens"  # what came before may be a quotation, the verdict was to follow
    return [Verdict(criterion=name, value=value, why_none=why) for name in asked]


def read_result(rubric: Rubric, criteria: Mapping[str, Criterion], text: str) -> tuple[str | None, str | None]:
    """The label of the score after the last [RESULT] (Prometheus' form)."""
    [criterion] = criteria.values()
    results = RESULT.findall(text)
    if not results:
        return None, "no [RESULT]"
    score = WHOLE.fullmatch(results[-1])
    number = int(score[1]) if score is not None and len(score[1]) <= 2 else 0
    if not 1 <= number <= len(criterion.labels):
        return None, f"[RESULT] is no score of 1 to {len(criterion.labels)}"
    return criterion.labels[-number if rubric.scores_fall else number - 1], None


def read_letter(rubric: Rubric, criteria: Mapping[str, Criterion], text: str) -> tuple[str | None, str | None]:
    """The last [[A]] or [[B]] (MathTutorBench, Figure 6)."""
    letters = LETTER.findall(text)
    if not letters:
        return None, "no [[A]] or [[B]]"
    letter = letters[-1].upper()
    return (letter, None) if letter in values_of(rubric, None) else (None, f"[[{letter[:8]}]] is neither A nor B")


def objects_in(text: str) -> list[dict[str, Any]]:
    """Every JSON object that stands in a text, from the first to the last, each with those directly in it."""
    found: list[dict[str, Any]] = []
    for _, _, value in islice(json_objects(text, DECODER), MOST_BRACES):
        if value is not None:
            found += [value, *(inner for inner in value.values() if isinstance(inner, dict))]
    return found


def read_object(rubric: Rubric, criteria: Mapping[str, Criterion], text: str, finish: str | None) -> list[Verdict]:
    """What the last of the objects says that name the most of the criteria (a pair: that has a verdict).

    A judge that ends with a quotation of one criterion has still said what it said of all. Where none names all of
    them, several together may, as of a first and a second problem; then the later one's word counts.
    """
    wanted = [*criteria] or ["verdict"]
    names, recovered = [name.casefold() for name in wanted], False
    answer, complete = whole_of(folded(objects_in(text)), names)
    if not answer and (mended := mend(text)) != text:
        answer, complete = whole_of(folded(objects_in(mended)), names)
        recovered = bool(answer)
    if not answer:
        why = "cut by max_tokens" if finish == "length" else "no JSON object with what was asked"
        return [Verdict(criterion=name if criteria else None, value=None, why_none=why) for name in wanted]
    cut = finish == "length" or not complete  # what was not said yet, or not in one piece, has not failed
    verdicts = [
        verdict_in(rubric, criteria.get(name), name if criteria else None, answer, name, cut) for name in wanted
    ]
    return [verdict.model_copy(update={"recovered": True}) for verdict in verdicts] if recovered else verdicts


def folded(objects: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return objects with casefolded keys."""
    return [{str(key).strip().casefold(): value for key, value in mapping.items()} for mapping in objects]


def mend(text: str) -> str:
    """Replace curly and single quotation marks by JSON's, and remove trailing commas."""
    straight = TRAILING_COMMA.sub("", text.translate(CURLY))
    return SINGLE_QUOTED.sub(lambda match: match[1] + json.dumps(match[2].replace("\\'", "'")), straight)


def whole_of(objects: Sequence[dict[str, Any]], wanted: Sequence[str]) -> tuple[dict[str, Any], bool]:
    """The answer among an answer's objects, and whether it is in one piece; empty where none names what was asked."""
    named = [(mapping, {name for name in wanted if name in mapping}) for mapping in objects]
    named = [(mapping, names) for mapping, names in named if names]
    if not named:
        return {}, True
    most = max(len(names) for _, names in named)
    best = next(mapping for mapping, names in reversed(named) if len(names) == most)
    if most == len(wanted) or len(named) == 1:
        return best, True
    if len(set().union(*(names for _, names in named))) == len(wanted):
        return {name: mapping[name] for mapping, names in named for name in names}, True
    return best, False


def verdict_in(
    rubric: Rubric, criterion: Criterion | None, shown: str | None, answer: Mapping[str, Any], key: str, cut: bool
) -> Verdict:
    """The verdict under one key of an answer that can be read."""
    if key.casefold() not in answer:
        if cut:
            return Verdict(criterion=shown, value=None, why_none="left out of an answer that is cut or in pieces")
        if rubric.rules.silence_fails:  # the rubric's own rule, told to the judge: what is not shown to hold, fails
            return Verdict(criterion=shown, value=False)
        return Verdict(criterion=shown, value=None, why_none="left out")
    verdict, reason = answer[key.casefold()], None
    if isinstance(verdict, Twice):
        return Verdict(criterion=shown, value=None, why_none="named twice with different verdicts")
    if isinstance(verdict, dict):
        folded = {str(name).casefold(): field for name, field in verdict.items()}
        verdict, reason = folded.get("verdict", folded.get("decision")), folded.get("reason")
    reason = reason.strip()[:LONGEST_REASON] or None if isinstance(reason, str) else None
    value = label_of(verdict, values_of(rubric, criterion))
    if value is None:
        return Verdict(criterion=shown, value=None, why_none=f"no such label: {str(verdict)[:40]!r}")
    return Verdict(criterion=shown, value=rubric.rules.verdict(value), reason=reason)


def label_of(verdict: Any, labels: Sequence[str]) -> str | None:
    """The label that was said, whatever its case and outer marks. true and false say pass and fail, nothing else."""
    if isinstance(verdict, bool):
        return ("pass" if verdict else "fail") if "pass" in labels else None
    if not isinstance(verdict, str):
        return None
    folded = verdict.strip(" \t\n\"'`*.").casefold()
    return next((label for label in labels if label.casefold() == folded), None)


def schema_of(rubric: Rubric, criteria: Mapping[str, Criterion], reasons: bool = True) -> dict[str, Any]:
    """The JSON schema of an answer, for servers that decode by one."""
    if not criteria:
        properties: dict[str, Any] = {"verdict": {"type": "string", "enum": values_of(rubric, None)}}
    else:
        labels = {
            name: {"type": "string", "enum": values_of(rubric, criterion)} for name, criterion in criteria.items()
        }
        properties = {name: rubric.rules.property_of(label, reasons) for name, label in labels.items()}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
