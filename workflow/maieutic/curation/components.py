"""Generation of a seed's four components (KMP-Bench, section 2.2 and Appendix D).

The components are follow-up questions, students' solutions, similar problems, and clarifications.
"""

from __future__ import annotations

from typing import Any

from maieutic.curation import standards
from maieutic.curation.parsers import Attempt, Steps
from maieutic.curation.records import (
    LEVELS,
    Clarification,
    Components,
    Feedback,
    Level,
    Outcome,
    PosedProblem,
    Seed,
    Standard,
    StudentSolution,
    numbered_steps,
)
from maieutic.curation.stage_runner import StageRunner, gather_all

STAGES = (
    *("tag_domain", "tag_cluster", "tag_standard", "validate_seed"),
    *("follow_up", "solve_follow_up"),
    *("wrong_solution", "rephrase", "verify_rephrasing", "correct"),
    *("similar", "solve_similar", "clarify"),
)
COMPLETENESS_CHECK = "complete"  # name of the final check that a seed has all four components
FOLLOW_UPS = 2
WRONG_SOLUTIONS = 2  # number of wrong solutions made for each seed


async def complete_seed(crew: StageRunner, seed: Seed) -> Components | None:
    """Return the seed with its four components; None if the seed is rejected or a component cannot be made."""
    validation = crew.run_stage("validate_seed", seed.id, seed.model_dump())
    tags, solution = await gather_all(tag_standards(crew, seed), validation)
    if tags is None or solution is None:
        return None
    sound = seed.model_copy(update={"solution": solution})
    followups, solutions, similar, clarifications = await gather_all(
        make_follow_ups(crew, sound),
        check_solutions(crew, sound),
        make_similar_problems(crew, sound, tags),
        make_clarifications(crew, sound),
    )
    made = {
        "follow-ups": followups,
        "wrong solutions": solutions,
        "similar problems": similar,
        "clarifications": clarifications,
    }
    missing = [name for name, product in made.items() if not product]
    reason = f"no {', no '.join(missing)}" if missing else None
    present = {name: to_json_values(product) for name, product in made.items() if product} if missing else None
    crew.add_outcome(Outcome(seed=seed.id, stage=COMPLETENESS_CHECK, reason=reason, product=present))
    if not (followups and solutions and similar and clarifications):
        return None
    return Components(
        **sound.model_dump(),
        standards=tags,
        followups=followups,
        solutions=solutions,
        similar=similar,
        clarifications=clarifications,
    )


def to_json_values(product: Any) -> Any:
    """Convert the product of a stage (a record, or a list or dict of records) to values that JSON can represent."""
    if isinstance(product, dict):
        return {name: to_json_values(value) for name, value in product.items()}
    return [to_json_values(value) for value in product] if isinstance(product, list) else product.model_dump()


async def tag_standards(crew: StageRunner, seed: Seed) -> list[Standard] | None:
    """Return the standards of a seed, chosen by domain, then cluster, then standard; None if a choice is rejected."""

    async def choose(stage: str, level: str, options: list[dict[str, str]]) -> list[str] | None:
        most = int(crew.stages[stage].card.limits["most"])
        about = {**seed.model_dump(), "level": level, "options": options, "most": most}
        chosen: list[str] | None = await crew.run_stage(stage, seed.id, about)
        return chosen

    domains = await choose("tag_domain", "domains", standards.domain_options())
    if domains is None:
        return None
    clusters = await choose("tag_cluster", "clusters of standards", standards.cluster_options(domains))
    if clusters is None:
        return None
    codes = await choose("tag_standard", "standards", standards.standard_options(domains, clusters))
    return None if codes is None else standards.standards_of(domains, codes)


async def make_confirmed_problem(
    crew: StageRunner, seed: Seed, stage: str, part: str, about: dict[str, Any]
) -> PosedProblem | None:
    """Return a new problem if most solvers find its answer, else None.

    stage: stage that writes the problem; part: name of the problem among the seed's products at this stage; about:
    variables of the prompt. If `about` contains `problems`, the solvers see them before the new problem.
    """
    new: PosedProblem | None = await crew.run_stage(stage, seed.id, about, part)
    if new is None:
        return None
    context = [*about.get("problems", ()), new.model_dump()]
    question = {"problems": context, "answer": new.answer}
    solved = await crew.run_stage(f"solve_{stage}", seed.id, question, part, judged=new.model_dump())
    return new if solved else None


async def make_follow_ups(crew: StageRunner, seed: Seed) -> list[PosedProblem] | None:
    """Return two follow-up questions of increasing difficulty (Appendix D.1); None if either is rejected."""
    problems = [PosedProblem(problem=seed.problem, solution=seed.solution, answer=seed.answer)]
    for number in range(1, FOLLOW_UPS + 1):
        about = {"problems": [problem.model_dump() for problem in problems]}
        new = await make_confirmed_problem(crew, seed, "follow_up", str(number), about)
        if new is None:
            return None
        problems.append(new)
    return problems[1:]


async def make_similar_problems(
    crew: StageRunner, seed: Seed, tags: list[Standard]
) -> dict[Level, PosedProblem] | None:
    """Return an easier, an equally hard and a harder problem, by level (Appendix D.3); None if any is rejected."""

    async def of_level(level: Level) -> PosedProblem | None:
        about = {**seed.model_dump(), "standards": [tag.model_dump() for tag in tags], "level": level}
        return await make_confirmed_problem(crew, seed, "similar", level, about)

    made = dict(zip(LEVELS, await gather_all(*map(of_level, LEVELS)), strict=True))
    by_level = {level: problem for level, problem in made.items() if problem}
    return by_level if len(by_level) == len(LEVELS) else None


async def check_solutions(crew: StageRunner, seed: Seed) -> list[StudentSolution] | None:
    """Return two wrong solutions and a right one, each as steps with feedback (Appendix D.2); None if one is missing.

    A wrong solution that a later stage rejects is replaced by the next candidate.
    """
    candidates = await crew.run_stage("wrong_solution", seed.id, seed.model_dump())
    if candidates is None:
        return None
    parts = [(f"wrong {number}", candidate) for number, candidate in enumerate(candidates, 1)]
    right = check_solution(crew, seed, "right", "validators", Attempt(seed.solution, seed.answer), True)
    first = [
        check_solution(crew, seed, part, candidate.by, candidate.value, False)
        for part, candidate in parts[:WRONG_SOLUTIONS]
    ]
    correct, *wrong = await gather_all(right, *first)
    for part, spare in parts[WRONG_SOLUTIONS:]:
        if sum(map(bool, wrong)) < WRONG_SOLUTIONS and correct:
            wrong.append(await check_solution(crew, seed, part, spare.by, spare.value, False))
    solutions = [solution for solution in wrong if solution]
    return [*solutions[:WRONG_SOLUTIONS], correct] if correct and len(solutions) >= WRONG_SOLUTIONS else None


async def check_solution(
    crew: StageRunner, seed: Seed, part: str, by: str, attempt: Attempt, is_right: bool
) -> StudentSolution | None:
    """Return one solution after rephrasing, verification and feedback; None if a stage rejects it.

    part: name of the solution among the seed's solutions; by: author of the solution; is_right: True if the solution
    is expected to be right.
    """
    most = int(crew.stages["rephrase"].card.limits["most"])
    about = {**seed.model_dump(), "student": attempt.text, "attempt": attempt, "most": most}
    steps: Steps | None = await crew.run_stage("rephrase", seed.id, about, part)
    if steps is None:
        return None
    lines = numbered_steps(steps.steps)
    if not await crew.run_stage("verify_rephrasing", seed.id, {**about, "rephrased": lines}, part, steps._asdict()):
        return None
    about = {**seed.model_dump(), "student": lines, "steps": steps.steps, "is_right": is_right}
    feedback: Feedback | None = await crew.run_stage("correct", seed.id, about, part, steps._asdict())
    if feedback is None:
        return None
    return StudentSolution(steps=steps.steps, answer=steps.answer, by=by, feedback=feedback)


async def make_clarifications(crew: StageRunner, seed: Seed) -> list[Clarification] | None:
    """Return points of confusion, each with the tutor's answer (Appendix D.4); None if they are rejected."""
    clarifications: list[Clarification] | None = await crew.run_stage("clarify", seed.id, seed.model_dump())
    return clarifications
