"""Parse a judge's answer: the last verdict in the required form counts. A verdict that cannot be parsed is missing.

A missing verdict is not replaced by a default. An answer can be any text: prose, JSON in a code fence, two verdicts,
verdicts for only half of the criteria, NaN, a megabyte of text, or text in another language.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from maieutic.config.rubrics import Criterion, Rubric, allowed_answers
from maieutic.core.json_text import json_objects
from maieutic.core.records import Verdict

RESULT = re.compile(r"\[RESULT\][\s:*\"'`(]*(\S{0,12})", re.IGNORECASE)
WHOLE_NUMBER_TOKEN = re.compile(r"(\d+)[)\]}.,;:*\"'`]*")
LETTER = re.compile(r"\[\[\s*([A-Za-z]+)\s*\]\]")
# A verdict at the very end of an answer
FINAL_VERDICT = re.compile(r"(?:\[RESULT\][\s:*\"'`(]*\d[)*\"'`.]*|\[\[\s*[A-Za-z]\s*\]\][*\"'`.]*)$", re.IGNORECASE)
SEARCHED_TAIL = 20_000  # only this many characters at the end of an answer are searched for verdicts
LONGEST_REASON = 500  # maximum number of characters of a judge's reason in the results
MAX_OBJECT_STARTS = 2_000  # maximum number of positions in a text at which the parser tries to read a JSON object


def reject_constant(name: str) -> Any:
    """Raise ValueError for NaN and Infinity, which are not JSON."""
    raise ValueError(f"{name} is not JSON")


class ConflictingValues:
    """Marker for a key that occurs twice in a JSON object with different values."""


def object_from_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object. A key with two different values gets a `ConflictingValues` marker as its value."""
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        mapping[key] = ConflictingValues() if key in mapping and mapping[key] != value else value
    return mapping


DECODER = json.JSONDecoder(parse_constant=reject_constant, object_pairs_hook=object_from_pairs)
CURLY = str.maketrans({"\u201c": '"', "\u201d": '"', "\u201e": '"', "\u2018": "'", "\u2019": "'"})
TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")
# A key or a value in single quotation marks, at a position where JSON allows a string
SINGLE_QUOTED = re.compile(r"(?<=[{\[,:])(\s*)'((?:[^'\\\n]|\\.|(?<=\w)'(?=\w))*)'(?=\s*[,:}\]])")


def parse_verdicts(rubric: Rubric, criteria: Mapping[str, Criterion], text: str, finish: str | None) -> list[Verdict]:
    """Return one verdict for each criterion in the question, in order, or a single verdict if it has no criteria.

    finish: reason why the model stopped, such as `length`.
    """
    names: list[str | None] = [*criteria] or [None]
    if not text.strip():
        return [Verdict(criterion=name, value=None, why_none="empty answer") for name in names]
    if rubric.answer == "json":
        return parse_object(rubric, criteria, text[-SEARCHED_TAIL:], finish)
    value, why = (parse_result if rubric.answer == "result" else parse_letter)(
        rubric, criteria, text[-SEARCHED_TAIL:].rstrip()
    )
    if finish == "length" and value is not None and not FINAL_VERDICT.search(text.rstrip()):
        value, why = None, "cut by max_tokens"  # the match may be quoted text, and the verdict may be cut off
    return [Verdict(criterion=name, value=value, why_none=why) for name in names]


def parse_result(rubric: Rubric, criteria: Mapping[str, Criterion], text: str) -> tuple[str | None, str | None]:
    """Return the label for the score after the last [RESULT], as in Prometheus, and None.

    If there is no valid score, return None and the reason.
    """
    [criterion] = criteria.values()
    results = RESULT.findall(text)
    if not results:
        return None, "no [RESULT]"
    score = WHOLE_NUMBER_TOKEN.fullmatch(results[-1])
    number = int(score[1]) if score is not None and len(score[1]) <= 2 else 0
    if not 1 <= number <= len(criterion.labels):
        return None, f"[RESULT] is not a score of 1 to {len(criterion.labels)}"
    return criterion.labels[-number if rubric.scores_fall else number - 1], None


def parse_letter(rubric: Rubric, criteria: Mapping[str, Criterion], text: str) -> tuple[str | None, str | None]:
    """Return the letter in the last [[A]] or [[B]] (MathTutorBench, Figure 6) and None.

    If there is no valid letter, return None and the reason.
    """
    letters = LETTER.findall(text)
    if not letters:
        return None, "no [[A]] or [[B]]"
    letter = letters[-1].upper()
    return (letter, None) if letter in allowed_answers(rubric, None) else (None, f"[[{letter[:8]}]] is neither A nor B")


def objects_in(text: str) -> list[dict[str, Any]]:
    """Return all JSON objects in a text in order, each followed by the objects that are its direct values."""
    objects: list[dict[str, Any]] = []
    for _, _, value in islice(json_objects(text, DECODER), MAX_OBJECT_STARTS):
        if value is not None:
            objects += [value, *(inner for inner in value.values() if isinstance(inner, dict))]
    return objects


def parse_object(rubric: Rubric, criteria: Mapping[str, Criterion], text: str, finish: str | None) -> list[Verdict]:
    """Return the verdicts in the last of those objects that name the most criteria or, for a pair, contain a verdict.

    An earlier object with more criteria takes precedence, since a judge may quote a single criterion after it. If no
    object names all criteria but several together do, for example one object for each criterion, they are joined. The
    last value of a repeated criterion counts.
    """
    keys = [*criteria] or ["verdict"]
    names, recovered = [key.casefold() for key in keys], False
    answer, complete = most_complete_object(casefold_keys(objects_in(text)), names)
    if not answer and (repaired := repair_json(text)) != text:
        answer, complete = most_complete_object(casefold_keys(objects_in(repaired)), names)
        recovered = bool(answer)
    if not answer:
        why = "cut by max_tokens" if finish == "length" else "no JSON object with a criterion of the question"
        return [Verdict(criterion=key if criteria else None, value=None, why_none=why) for key in keys]
    cut = finish == "length" or not complete  # omission from a truncated or fragmented answer is not a fail
    verdicts = [
        verdict_under_key(rubric, criteria.get(key), key if criteria else None, answer, key, cut) for key in keys
    ]
    return [verdict.model_copy(update={"recovered": True}) for verdict in verdicts] if recovered else verdicts


def casefold_keys(objects: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return copies of the objects with casefolded keys."""
    return [{str(key).strip().casefold(): value for key, value in mapping.items()} for mapping in objects]


def repair_json(text: str) -> str:
    """Return a text with curly and single quotation marks replaced by JSON's, and without trailing commas."""
    straight = TRAILING_COMMA.sub("", text.translate(CURLY))
    return SINGLE_QUOTED.sub(lambda match: match[1] + json.dumps(match[2].replace("\\'", "'")), straight)


def most_complete_object(objects: Sequence[dict[str, Any]], keys: Sequence[str]) -> tuple[dict[str, Any], bool]:
    """Return the last of those objects that contain the most keys, and False if the answer is fragmented.

    An answer is fragmented if several objects contain some keys, but not all keys together. Objects that contain all
    keys only together are joined. If no object contains a key, the returned object is empty.
    """
    named = [(mapping, {key for key in keys if key in mapping}) for mapping in objects]
    named = [(mapping, names) for mapping, names in named if names]
    if not named:
        return {}, True
    most = max(len(names) for _, names in named)
    best = next(mapping for mapping, names in reversed(named) if len(names) == most)
    if most == len(keys) or len(named) == 1:
        return best, True
    if len(set().union(*(names for _, names in named))) == len(keys):
        return {name: mapping[name] for mapping, names in named for name in names}, True
    return best, False


def verdict_under_key(
    rubric: Rubric, criterion: Criterion | None, name: str | None, answer: Mapping[str, Any], key: str, cut: bool
) -> Verdict:
    """Return the verdict under one key of a parsed answer.

    name: the criterion's name in the verdict; cut: True if the answer is truncated or fragmented.
    """
    if key.casefold() not in answer:
        if cut:
            return Verdict(criterion=name, value=None, why_none="left out of a cut or fragmented answer")
        if rubric.rules.omission_fails:  # the rubric states that a criterion fails unless it is shown to be met
            return Verdict(criterion=name, value=False)
        return Verdict(criterion=name, value=None, why_none="left out")
    verdict, reason = answer[key.casefold()], None
    if isinstance(verdict, ConflictingValues):
        return Verdict(criterion=name, value=None, why_none="named twice with different verdicts")
    if isinstance(verdict, dict):
        fields = {str(field).casefold(): value for field, value in verdict.items()}
        verdict, reason = fields.get("verdict", fields.get("decision")), fields.get("reason")
    reason = reason.strip()[:LONGEST_REASON] or None if isinstance(reason, str) else None
    value = match_label(verdict, allowed_answers(rubric, criterion))
    if value is None:
        return Verdict(criterion=name, value=None, why_none=f"no such label: {str(verdict)[:40]!r}")
    return Verdict(criterion=name, value=rubric.rules.verdict(value), reason=reason)


def match_label(verdict: Any, labels: Sequence[str]) -> str | None:
    """Return the label that a verdict names, ignoring case and surrounding marks.

    The values true and false of JSON mean pass and fail.
    """
    if isinstance(verdict, bool):
        return ("pass" if verdict else "fail") if "pass" in labels else None
    if not isinstance(verdict, str):
        return None
    folded = verdict.strip(" \t\n\"'`*.").casefold()
    return next((label for label in labels if label.casefold() == folded), None)


def answer_schema(rubric: Rubric, criteria: Mapping[str, Criterion], reasons: bool = True) -> dict[str, Any]:
    """Return the JSON schema of an answer, for servers with structured output."""
    if not criteria:
        properties: dict[str, Any] = {"verdict": {"type": "string", "enum": allowed_answers(rubric, None)}}
    else:
        labels = {
            name: {"type": "string", "enum": allowed_answers(rubric, criterion)} for name, criterion in criteria.items()
        }
        properties = {name: rubric.rules.criterion_schema(label, reasons) for name, label in labels.items()}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
