"""Dialogues woven of components: flows, the decision on each, expansion, test cases (KMP-Bench, section 2.3)."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maieutic.core.errors import UserError
from maieutic.core.files import safe_cell, whole_file
from maieutic.core.tables import read_table
from maieutic.curation.crew import Crew
from maieutic.curation.parsers import Decision
from maieutic.curation.records import Components, Dialogue, Flow, Level, Outcome, Said
from maieutic.curation.rules import Answered, Kept, Rejected, kept_flow
from maieutic.curation.texts import numbered

VERIFY, BY_PEOPLE = "verify_flow", "people"
STAGES_OF_FLOWS = ("flow", VERIFY)
STAGES_OF_DIALOGUES = ("expand", "choose_turns", "write_instruction")
NAMES: Mapping[Level, str] = {"easy": "easier", "medium": "similar", "hard": "harder"}  # of the levels, in Figure 14
COLUMNS = ("flow", "problem", "plan", "decision", "last")
DECISIONS = ("keep", "truncate", "discard")


def materials_of(made: Components) -> list[dict[str, str]]:
    """What a flow may use, by the names of Figure 14."""
    texts = {"seed": made.problem, "seed_solution": made.solution}
    for number, followup in enumerate(made.followups, 1):
        texts |= {f"seed_followup{number}": followup.problem, f"seed_followup{number}_solution": followup.solution}
    for number, solution in enumerate(made.solutions, 1):
        texts[f"seed_student{number}"] = numbered(solution.steps)
        wrong = f"Step {solution.feedback.step} is wrong: {solution.feedback.reason}\n{solution.feedback.corrected}"
        texts[f"seed_student{number}_correction"] = wrong if solution.feedback.step else "The solution is right."
    for level, name in NAMES.items():
        problem = made.similar[level]
        texts |= {f"seed_{name}": problem.problem, f"seed_{name}_solution": problem.solution}
    for number, turn in enumerate(made.clarifications, 1):
        texts |= {f"seed_clarification{number}": turn.query, f"seed_clarification{number}_response": turn.answer}
    return [{"name": name, "text": text} for name, text in texts.items()]


async def plan(
    crew: Crew, made: Components, planned: dict[str, Flow], decided: Mapping[str, Decision] | None
) -> Flow | None:
    """A flow that is kept. planned: takes every flow; decided: by people, None: the verifier decides."""
    materials = materials_of(made)
    flow: Flow | None = await crew.run("flow", made.id, {"id": made.id, "materials": materials})
    if flow is None:
        return None
    planned[made.id] = flow
    if decided is None:
        about = {"materials": materials, "flow": flow.model_dump(), "plan": flow}
        kept: Flow | None = await crew.run(VERIFY, made.id, about, judged=flow.model_dump())
        return kept
    if made.id not in decided:
        return None  # said by check_sheet
    fields: dict[str, Any] = {"seed": made.id, "stage": VERIFY, "by": [BY_PEOPLE]}
    try:
        by_hand: Kept = kept_flow([Answered(BY_PEOPLE, "", decided[made.id])], {"plan": flow}, {})
    except Rejected as rejected:
        crew.put(Outcome(**fields, reason=str(rejected), product=flow.model_dump()))
        return None
    crew.put(Outcome(**fields, truncated=by_hand.truncated))
    cut: Flow = by_hand.value
    return cut


def write_sheet(path: Path, flows: Sequence[tuple[Components, Flow]]) -> None:
    """The flows for people to decide on: `decision` is keep, truncate or discard, `last` the last exchange to keep."""
    with whole_file(path) as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(COLUMNS)
        for made, flow in flows:
            writer.writerow(map(safe_cell, (flow.id, made.problem, as_text(flow), "", "")))


def as_text(flow: Flow) -> str:
    """A flow as people read it."""
    lines = [flow.storyline]
    for number, exchange in enumerate(flow.exchanges, 1):
        lines.append(f"S{number} [{', '.join(exchange.student_materials) or 'none'}] {exchange.student}")
        principles = ", ".join(exchange.principles)
        lines.append(f"T{number} [{', '.join(exchange.tutor_materials) or 'none'}] ({principles}) {exchange.tutor}")
    return "\n".join(lines)


def read_sheet(path: Path) -> dict[str, Decision]:
    """People's decisions by flow. Raises UserError naming every line that holds none."""
    needed = ("flow", "decision", "last")
    rows = [row for _, row in read_table(path, needed, mend=f"the columns are {', '.join(COLUMNS)}").rows]
    decisions: dict[str, Decision] = {}
    faults: list[UserError] = []
    for number, row in enumerate(rows, 2):
        name = (row["flow"] or "").strip().removeprefix("'")
        word, last = (row["decision"] or "").strip().casefold(), (row["last"] or "").strip()
        place = f"{path}, row {number}"
        if word not in DECISIONS:
            faults.append(UserError(place, f"the decision on {name} is {word!r}", f"one of {', '.join(DECISIONS)}"))
        elif (word == "truncate") != bool(last) or (last and not last.isdecimal()):
            faults.append(UserError(place, f"last is {last!r}", "the last exchange to keep, with truncate alone"))
        elif name in decisions:
            faults.append(UserError(place, f"{name} is there twice", "decide on it once"))
        else:
            decisions[name] = Decision(word, int(last[:6]) if last else None)
    if faults:
        raise UserError.of(faults)
    return decisions


def check_sheet(people: Sequence[Path], decided: Mapping[str, Decision], planned: Mapping[str, Flow]) -> None:
    """Every flow was decided on, and nothing else. Raises UserError."""
    if not people:
        return
    place = str(people[0])
    if missing := sorted(planned.keys() - decided.keys()):
        problem = f"no decision on {len(missing)} of {len(planned)} flows: {', '.join(missing[:5])}"
        raise UserError(place, problem, "decide on each flow of results/curation/NAME/flows.csv, or set people: null")
    if strange := sorted(decided.keys() - planned.keys()):
        raise UserError(place, f"no such flow: {', '.join(strange[:5])}", "it is the sheet of another curation")


async def expand(crew: Crew, made: Components, flow: Flow, tested: bool) -> Dialogue | None:
    """A flow as a conversation. tested: with test cases, the turns that the verifier chooses and their instructions."""
    about = {"materials": materials_of(made), "flow": flow.model_dump(), "plan": flow}
    exchanges: list[tuple[str, str]] | None = await crew.run("expand", made.id, about)
    if exchanges is None:
        return None
    turns = [
        turn
        for (asked, replied), exchange in zip(exchanges, flow.exchanges, strict=True)
        for turn in (
            Said(speaker="student", text=asked),
            Said(speaker="tutor", text=replied, principles=exchange.principles),
        )
    ]
    dialogue = Dialogue(
        id=made.id,
        problem=made.problem,
        solution=made.solution,
        persona=flow.persona,
        student_profile=flow.student_profile,
        objectives=flow.objectives,
        turns=turns,
    )
    return await with_tests(crew, dialogue) if tested else dialogue


async def with_tests(crew: Crew, dialogue: Dialogue) -> Dialogue | None:
    """A dialogue with its test cases; None where no turn of it is one (section 3.1)."""
    turns = dialogue.turns
    places = [place for place, turn in enumerate(turns) if turn.speaker == "tutor"]
    about = {
        "problem": dialogue.problem,
        "turns": [turn.model_dump() for turn in turns],
        "options": [{"code": place} for place in places],
        "most": int(crew.stages["choose_turns"].card.limits["most"]),
    }
    chosen: list[str] | None = await crew.run("choose_turns", dialogue.id, about, judged=dialogue.model_dump())
    if chosen is None:
        return None
    tested = list(turns)
    for place in sorted(map(int, chosen)):
        before = [f"{turn.speaker.capitalize()}: {turn.text}" for turn in turns[:place]]
        variables = {**dialogue.model_dump(), "principles": turns[place].principles, "history": "\n".join(before)}
        words: str | None = await crew.run("write_instruction", dialogue.id, variables, str(place))
        if words is not None:
            tested[place] = turns[place].model_copy(update={"evaluate": True, "instruction": words})
    if not any(turn.evaluate for turn in tested):
        return None
    return dialogue.model_copy(update={"turns": tested})
