"""Dialogues made from components: flows, decisions on flows, expansion, test cases (KMP-Bench, section 2.3)."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file, safe_cell
from maieutic.core.tables import read_table
from maieutic.curation.parsers import Decision
from maieutic.curation.records import Components, Dialogue, DialogueTurn, Flow, Level, Outcome, numbered_steps
from maieutic.curation.rules import AcceptedProduct, ProductRejected, StageAnswer, accept_kept_flow
from maieutic.curation.stage_runner import StageRunner

VERIFY, BY_PEOPLE = "verify_flow", "people"
STAGES_OF_FLOWS = ("flow", VERIFY)
STAGES_OF_DIALOGUES = ("expand", "choose_turns", "write_instruction")
# Names of the similar problems' levels in KMP-Bench's Figure 14.
LEVEL_NAMES: Mapping[Level, str] = {"easy": "easier", "medium": "similar", "hard": "harder"}
SHEET_COLUMNS = ("flow", "problem", "plan", "decision", "last")
DECISIONS = ("keep", "truncate", "discard")


def materials_of(components: Components) -> list[dict[str, str]]:
    """Return the materials (named texts) that a flow may use, with their names in KMP-Bench's Figure 14."""
    texts = {"seed": components.problem, "seed_solution": components.solution}
    for number, followup in enumerate(components.followups, 1):
        texts |= {f"seed_followup{number}": followup.problem, f"seed_followup{number}_solution": followup.solution}
    for number, solution in enumerate(components.solutions, 1):
        texts[f"seed_student{number}"] = numbered_steps(solution.steps)
        wrong = f"Step {solution.feedback.step} is wrong: {solution.feedback.reason}\n{solution.feedback.corrected}"
        texts[f"seed_student{number}_correction"] = wrong if solution.feedback.step else "The solution is right."
    for level, name in LEVEL_NAMES.items():
        problem = components.similar[level]
        texts |= {f"seed_{name}": problem.problem, f"seed_{name}_solution": problem.solution}
    for number, turn in enumerate(components.clarifications, 1):
        texts |= {f"seed_clarification{number}": turn.query, f"seed_clarification{number}_response": turn.answer}
    return [{"name": name, "text": text} for name, text in texts.items()]


async def make_flow(
    crew: StageRunner, components: Components, planned: dict[str, Flow], decided: Mapping[str, Decision] | None
) -> Flow | None:
    """Return the flow (the plan of a dialogue) made from a seed's components; None if it is rejected.

    planned: all flows by id, to which this function adds the new flow even if it is rejected afterwards; decided:
    people's decisions by flow id, None if the verifier (a model) decides.
    """
    materials = materials_of(components)
    flow: Flow | None = await crew.run_stage("flow", components.id, {"id": components.id, "materials": materials})
    if flow is None:
        return None
    planned[components.id] = flow
    if decided is None:
        about = {"materials": materials, "flow": flow.model_dump(), "plan": flow}
        kept: Flow | None = await crew.run_stage(VERIFY, components.id, about, judged=flow.model_dump())
        return kept
    if components.id not in decided:
        return None  # check_flow_decisions reports the missing decision
    fields: dict[str, Any] = {"seed": components.id, "stage": VERIFY, "by": [BY_PEOPLE]}
    try:
        by_hand: AcceptedProduct = accept_kept_flow(
            [StageAnswer(BY_PEOPLE, "", decided[components.id])], {"plan": flow}, {}
        )
    except ProductRejected as rejected:
        crew.add_outcome(Outcome(**fields, reason=str(rejected), product=flow.model_dump()))
        return None
    crew.add_outcome(Outcome(**fields, truncated=by_hand.truncated))
    cut: Flow = by_hand.value
    return cut


def write_flow_sheet(path: Path, flows: Sequence[tuple[Components, Flow]]) -> None:
    """Write the flows as a CSV sheet with two empty columns for people to fill in.

    The empty columns are `decision`, and `last` for the number of the last exchange to keep.
    """
    with atomic_file(path) as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(SHEET_COLUMNS)
        for components, flow in flows:
            writer.writerow(map(safe_cell, (flow.id, components.problem, flow_text(flow), "", "")))


def flow_text(flow: Flow) -> str:
    """Return a flow as readable text, with one line per planned turn."""
    lines = [flow.storyline]
    for number, exchange in enumerate(flow.exchanges, 1):
        lines.append(f"S{number} [{', '.join(exchange.student_materials) or 'none'}] {exchange.student}")
        principles = ", ".join(exchange.principles)
        lines.append(f"T{number} [{', '.join(exchange.tutor_materials) or 'none'}] ({principles}) {exchange.tutor}")
    return "\n".join(lines)


def read_flow_decisions(path: Path) -> dict[str, Decision]:
    """Return people's decisions by flow id, read from a sheet. Raises UserError that lists all invalid rows."""
    needed = ("flow", "decision", "last")
    rows = [row for _, row in read_table(path, needed, fix=f"keep the columns {', '.join(SHEET_COLUMNS)}").rows]
    decisions: dict[str, Decision] = {}
    faults: list[UserError] = []
    for number, row in enumerate(rows, 2):
        name = (row["flow"] or "").strip().removeprefix("'")
        word, last = (row["decision"] or "").strip().casefold(), (row["last"] or "").strip()
        place = f"{path}, row {number}"
        if word not in DECISIONS:
            choices = " or ".join(DECISIONS)
            problem = f"expected {choices} as the decision on {name}, found {word!r}"
            faults.append(UserError(place, problem, f"set decision to {choices}"))
        elif (word == "truncate") != bool(last) or (last and not last.isdecimal()):
            fix = "for truncate, set last to the number of the last exchange to keep; otherwise leave last empty"
            faults.append(UserError(place, f"found last {last!r} with the decision {word}", fix))
        elif name in decisions:
            faults.append(UserError(place, f"found a second row for the flow {name}", "keep one row for each flow"))
        else:
            decisions[name] = Decision(word, int(last[:6]) if last else None)
    if faults:
        raise UserError.of(faults)
    return decisions


def check_flow_decisions(people: Sequence[Path], decided: Mapping[str, Decision], planned: Mapping[str, Flow]) -> None:
    """Raise UserError unless people decided on every planned flow, and on no other flow.

    people: the sheet with the decisions; empty if a model decides, in which case nothing is checked.
    """
    if not people:
        return
    place = str(people[0])
    if missing := sorted(planned.keys() - decided.keys()):
        problem = f"found no decision on {len(missing)} of {len(planned)} flows: {', '.join(missing[:5])}"
        raise UserError(place, problem, "decide on each flow of results/curation/NAME/flows.csv, or set people: null")
    if unknown := sorted(decided.keys() - planned.keys()):
        fix = "use the sheet of this curation, results/curation/NAME/flows.csv"
        raise UserError(place, f"found flows that the curation lacks: {', '.join(unknown[:5])}", fix)


async def make_dialogue(crew: StageRunner, components: Components, flow: Flow, tested: bool) -> Dialogue | None:
    """Return the dialogue that expands a flow, or None if it is rejected. tested: True to add test cases."""
    about = {"materials": materials_of(components), "flow": flow.model_dump(), "plan": flow}
    exchanges: list[tuple[str, str]] | None = await crew.run_stage("expand", components.id, about)
    if exchanges is None:
        return None
    turns = [
        turn
        for (query, reply), exchange in zip(exchanges, flow.exchanges, strict=True)
        for turn in (
            DialogueTurn(speaker="student", text=query),
            DialogueTurn(speaker="tutor", text=reply, principles=exchange.principles),
        )
    ]
    dialogue = Dialogue(
        id=components.id,
        problem=components.problem,
        solution=components.solution,
        persona=flow.persona,
        student_profile=flow.student_profile,
        objectives=flow.objectives,
        turns=turns,
    )
    return await add_test_cases(crew, dialogue) if tested else dialogue


async def add_test_cases(crew: StageRunner, dialogue: Dialogue) -> Dialogue | None:
    """Return the dialogue with its test cases (KMP-Bench, section 3.1); None if no turn becomes a test case."""
    turns = dialogue.turns
    places = [place for place, turn in enumerate(turns) if turn.speaker == "tutor"]
    about = {
        "problem": dialogue.problem,
        "turns": [turn.model_dump() for turn in turns],
        "options": [{"code": place} for place in places],
        "most": int(crew.stages["choose_turns"].card.limits["most"]),
    }
    chosen: list[str] | None = await crew.run_stage("choose_turns", dialogue.id, about, judged=dialogue.model_dump())
    if chosen is None:
        return None
    tested = list(turns)
    for place in sorted(map(int, chosen)):
        before = [f"{turn.speaker.capitalize()}: {turn.text}" for turn in turns[:place]]
        variables = {**dialogue.model_dump(), "principles": turns[place].principles, "history": "\n".join(before)}
        instruction: str | None = await crew.run_stage("write_instruction", dialogue.id, variables, str(place))
        if instruction is not None:
            tested[place] = turns[place].model_copy(update={"evaluate": True, "instruction": instruction})
    if not any(turn.evaluate for turn in tested):
        return None
    return dialogue.model_copy(update={"turns": tested})
