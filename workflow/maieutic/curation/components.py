"""The four components of a seed (KMP-Bench, section 2.2 and Appendix D), made side by side."""

from __future__ import annotations

from typing import Any

from maieutic.curation import standards
from maieutic.curation.crew import Crew, together
from maieutic.curation.parsers import Attempt, Steps
from maieutic.curation.records import (
    LEVELS,
    Attempted,
    Clarification,
    Components,
    Feedback,
    Level,
    Outcome,
    Posed,
    Seed,
    Standard,
)
from maieutic.curation.texts import numbered

STAGES = (
    *("tag_domain", "tag_cluster", "tag_standard", "validate_seed"),
    *("follow_up", "solve_follow_up"),
    *("wrong_solution", "rephrase", "verify_rephrasing", "correct"),
    *("similar", "solve_similar", "clarify"),
)
COMPLETE = "complete"  # the last look at a seed: whether it has all four
FOLLOW_UPS = 2
WRONG = 2  # solutions of each seed


async def make(crew: Crew, seed: Seed) -> Components | None:
    """A seed with all four components; None where it was rejected or lacks one."""
    tags, solution = await together(tag(crew, seed), crew.run("validate_seed", seed.id, seed.model_dump()))
    if tags is None or solution is None:
        return None
    sound = seed.model_copy(update={"solution": solution})
    followups, solutions, similar, clarifications = await together(
        follow_ups(crew, sound), attempts(crew, sound), similar_problems(crew, sound, tags), clarify(crew, sound)
    )
    made = {
        "follow-ups": followups,
        "wrong solutions": solutions,
        "similar problems": similar,
        "clarifications": clarifications,
    }
    lacking = [name for name, product in made.items() if not product]
    reason = f"no {', no '.join(lacking)}" if lacking else None
    there = {name: dump(product) for name, product in made.items() if product} if lacking else None
    crew.put(Outcome(seed=seed.id, stage=COMPLETE, reason=reason, product=there))
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


def dump(product: Any) -> Any:
    """A product as JSON has it."""
    if isinstance(product, dict):
        return {name: dump(value) for name, value in product.items()}
    return [dump(value) for value in product] if isinstance(product, list) else product.model_dump()


async def tag(crew: Crew, seed: Seed) -> list[Standard] | None:
    """Up to four standards, chosen from domain to cluster to standard."""

    async def choose(stage: str, level: str, options: list[dict[str, str]]) -> list[str] | None:
        most = int(crew.stages[stage].card.limits["most"])
        about = {**seed.model_dump(), "level": level, "options": options, "most": most}
        chosen: list[str] | None = await crew.run(stage, seed.id, about)
        return chosen

    domains = await choose("tag_domain", "domains", standards.domain_options())
    if domains is None:
        return None
    clusters = await choose("tag_cluster", "clusters of standards", standards.cluster_options(domains))
    if clusters is None:
        return None
    codes = await choose("tag_standard", "standards", standards.standard_options(domains, clusters))
    return None if codes is None else standards.standards_of(domains, codes)


async def posed_and_solved(crew: Crew, seed: Seed, stage: str, part: str, about: dict[str, Any]) -> Posed | None:
    """A new problem that the solvers' majority solves. about: the `problems` before it are the solvers' context."""
    new: Posed | None = await crew.run(stage, seed.id, about, part)
    if new is None:
        return None
    context = [*about.get("problems", ()), new.model_dump()]
    question = {"problems": context, "answer": new.answer}
    solved = await crew.run(f"solve_{stage}", seed.id, question, part, judged=new.model_dump())
    return new if solved else None


async def follow_ups(crew: Crew, seed: Seed) -> list[Posed] | None:
    """Two questions, each harder than those before it (Appendix D.1)."""
    problems = [Posed(problem=seed.problem, solution=seed.solution, answer=seed.answer)]
    for number in range(1, FOLLOW_UPS + 1):
        about = {"problems": [problem.model_dump() for problem in problems]}
        new = await posed_and_solved(crew, seed, "follow_up", str(number), about)
        if new is None:
            return None
        problems.append(new)
    return problems[1:]


async def similar_problems(crew: Crew, seed: Seed, tags: list[Standard]) -> dict[Level, Posed] | None:
    """An easier, an equal and a harder problem (Appendix D.3)."""

    async def one(level: Level) -> Posed | None:
        about = {**seed.model_dump(), "standards": [tag.model_dump() for tag in tags], "level": level}
        return await posed_and_solved(crew, seed, "similar", level, about)

    made = dict(zip(LEVELS, await together(*map(one, LEVELS)), strict=True))
    by_level = {level: problem for level, problem in made.items() if problem}
    return by_level if len(by_level) == len(LEVELS) else None


async def attempts(crew: Crew, seed: Seed) -> list[Attempted] | None:
    """Two wrong solutions and the right one, as steps, with what is wrong in them (Appendix D.2).

    Where one of the wrong ones is lost on the way the next one takes its place.
    """
    candidates = await crew.run("wrong_solution", seed.id, seed.model_dump())
    if candidates is None:
        return None
    numbered = [(f"wrong {number}", candidate) for number, candidate in enumerate(candidates, 1)]
    right = attempted(crew, seed, "right", "validators", Attempt(seed.solution, seed.answer), True)
    first = [attempted(crew, seed, part, candidate.by, candidate.value, False) for part, candidate in numbered[:WRONG]]
    correct, *wrong = await together(right, *first)
    for part, spare in numbered[WRONG:]:
        if sum(map(bool, wrong)) < WRONG and correct:
            wrong.append(await attempted(crew, seed, part, spare.by, spare.value, False))
    solutions = [solution for solution in wrong if solution]
    return [*solutions[:WRONG], correct] if correct and len(solutions) >= WRONG else None


async def attempted(crew: Crew, seed: Seed, part: str, by: str, attempt: Attempt, is_right: bool) -> Attempted | None:
    """One solution through rephrasing, its verification, and the feedback."""
    most = int(crew.stages["rephrase"].card.limits["most"])
    about = {**seed.model_dump(), "student": attempt.text, "attempt": attempt, "most": most}
    steps: Steps | None = await crew.run("rephrase", seed.id, about, part)
    if steps is None:
        return None
    lines = numbered(steps.steps)
    if not await crew.run("verify_rephrasing", seed.id, {**about, "rephrased": lines}, part, steps._asdict()):
        return None
    about = {**seed.model_dump(), "student": lines, "steps": steps.steps, "is_right": is_right}
    feedback: Feedback | None = await crew.run("correct", seed.id, about, part, steps._asdict())
    if feedback is None:
        return None
    return Attempted(steps=steps.steps, answer=steps.answer, by=by, feedback=feedback)


async def clarify(crew: Crew, seed: Seed) -> list[Clarification] | None:
    """Points of confusion and what the tutor says of them (Appendix D.4)."""
    clarifications: list[Clarification] | None = await crew.run("clarify", seed.id, seed.model_dump())
    return clarifications
