"""What a run says of itself in a few lines: what it would ask, before; where the page is, what was paid and why jobs
failed, after.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from maieutic.config.models import BaselineModel, HostedModel, Model
from maieutic.core import paths
from maieutic.core.ledger import Spent, spent_since
from maieutic.plan.plan import Plan
from maieutic.plan.rehearsal import Rehearsal
from maieutic.plan.requests import NewRequests, new_requests
from maieutic.plan.runs import shortened
from maieutic.replies.answered import Answered, answered

Job = Any  # of Snakemake
MOST_FAILURES = 10
LONGEST = 300  # characters of a failure's cause
ERROR, FIX = " ERROR ", " Fix: "
SHORTEST = 80  # characters of a problem that is cut
BUDGET = "run.budget"
MANY = 8  # tutors that are asked equally often; more of them are not all named


def usd(plan: Plan, model: str, prompt_tokens: float, answer_tokens: float, cached_tokens: float = 0) -> float | None:
    """US dollars by the registry's price of a model, None where it has none."""
    price = getattr(plan.models[model], "price", None)
    return None if price is None else price.usd(prompt_tokens, answer_tokens, cached_tokens)


def money(plan: Plan, amounts: Iterable[tuple[str, float, float, float]]) -> str:
    """What requests cost, as words: of those models that have a price, and which have none.

    amounts: model, tokens of prompts, of answers, and of prompts from a cache.
    """
    total, priced, unpriced = 0.0, False, []
    for model, prompt, answer, cached in amounts:
        cost = usd(plan, model, prompt, answer, cached)
        if cost is not None:
            total, priced = total + cost, True
        elif isinstance(plan.models[model], HostedModel) and model not in unpriced:
            unpriced.append(model)
    words = [f"about {total:.2f} USD" if total >= 0.005 else "under 0.01 USD"] if priced else []
    words += [f"no price of {', '.join(unpriced)}"] if unpriced else []
    return "; ".join(words)


def planned_requests(plan: Plan, jobs: Sequence[Job]) -> list[NewRequests]:
    """Count what planned jobs will ask; of jobs that cannot be counted, name the models."""
    asking = [job for job in jobs if job.resources.get("server_gpus") is not None]
    planned = [(str(job.rule.name).removesuffix("_locally"), dict(job.wildcards.items())) for job in asking]
    with Rehearsal(plan, {str(file) for job in jobs for file in job.output}) as rehearsal:
        asked = new_requests(plan, rehearsal, planned)
    others = [models for job in asking if (models := uncounted(plan, job))]
    return [*asked, *(NewRequests("others", " + ".join(models), models[0], None) for models in others)]


def to_be_asked(plan: Plan, jobs: Sequence[Job]) -> set[str]:
    """The models that some planned job will ask for what is not on file."""
    return {part.model for part in planned_requests(plan, jobs) if part.requests != 0 or not part.exact}


def uncounted(plan: Plan, job: Job) -> list[str]:
    """The models of a job whose requests are not counted beforehand: of a curation, of taggers."""
    asks = job.rule.name.startswith(("make_components", "write_flows", "write_dialogues", "rate_", "tag_items"))
    models: list[str] = plan.models_of(job.wildcards) if asks else []  # type: ignore[attr-defined]
    return models


def parts_of(numbers: Mapping[str, str], tutors: Container[str]) -> list[str]:
    """Who is asked how often; of many tutors that are asked equally often the first two and how many more."""
    alike: dict[str, list[str]] = defaultdict(list)
    for name, number in numbers.items():
        if name in tutors:
            alike[number].append(name)
    parts = []
    for name, number in numbers.items():
        names = alike[number] if name in tutors else [name]
        if len(names) <= MANY:
            parts.append(f"{name} {number}")
        elif name == names[0]:
            parts.append(f"{shortened(names, 2)}: {number} each")
    return parts


def requests_line(plan: Plan, asked: Sequence[NewRequests]) -> str:
    """One line of what will be asked: `new requests: far-away 100, my-judge 50; about 0.02 USD`."""
    counts: Counter[str] = Counter()
    checks: Counter[str] = Counter()
    supposed, unknown = set(), set()
    for part in asked:
        counts[part.asker] += part.requests or 0
        checks[part.asker] += part.requests or 0 if part.stage == "checks" else 0
        if part.requests is None:
            unknown.add(part.asker)
        elif not part.exact and part.requests:
            supposed.add(part.asker)
    if not counts:
        return "new requests: none"
    places = {name: place for place, name in enumerate([*plan.run.tutors, *plan.run.judges])}
    numbers = {
        name: f"{'about ' if name in supposed else ''}{number}{' or more' if name in unknown else ''}"
        + (f" ({checks[name]} to check it on labels)" if checks[name] else "")
        for name, number in sorted(counts.items(), key=lambda count: places.get(count[0], len(places)))
        if number or name in unknown
    }
    parts = parts_of(numbers, set(plan.run.tutors))
    cost = money(plan, [(part.model, part.prompt_tokens, part.answer_tokens, 0.0) for part in asked if part.requests])
    said = f"new requests: {', '.join(parts) or 'none, all answers are on file'}"
    return "; ".join(filter(None, [said, cost, thinking_line(plan, asked)]))


def thinking_line(plan: Plan, asked: Sequence[NewRequests]) -> str:
    """Return the most that thinking may cost besides: every request with all of `thinking_tokens`; "" of no model."""
    most = 0.0
    for part in asked:
        tokens = (part.requests or 0) * getattr(plan.models[part.model], "thinking_tokens", 0)
        most += usd(plan, part.model, 0, tokens) or 0.0
    return f"at most {most:.2f} USD more for thinking" if most >= 0.005 else ""


def spent_line(plan: Plan, spent: Sequence[Spent]) -> str:
    """One line of what was asked, from the ledgers."""
    by_asker: dict[str, list[Spent]] = defaultdict(list)
    for line in spent:
        by_asker[line.asker].append(line)
    parts = []
    for name, lines in by_asker.items():
        requests, retries = sum(line.requests for line in lines), sum(sum(line.retries.values()) for line in lines)
        prompt, answer, _ = tokens_of(lines)
        parts.append(f"{name} {requests} ({prompt:,} + {answer:,} tokens{f', {retries} retries' if retries else ''})")
    amounts = [(plan.answering(name), *tokens_of(lines)) for name, lines in by_asker.items() if name in plan.models]
    return "; ".join(filter(None, [f"asked: {', '.join(parts) or 'nobody'}", money(plan, amounts)]))


def tokens_of(lines: Sequence[Spent]) -> tuple[int, int, int]:
    """Tokens of prompts, of answers, and of prompts from a cache."""
    prompt, answer = sum(line.prompt_tokens for line in lines), sum(line.completion_tokens for line in lines)
    return prompt, answer, sum(line.cached_tokens for line in lines)


def cause_of(log: Path, since: float) -> str | None:
    """The last error in a rule's log, where the log is of this run. since: seconds since 1970."""
    if not log.is_file() or log.stat().st_mtime < since:
        return None
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [line.partition(ERROR)[2] for line in lines if ERROR in line]
    return in_short((errors or lines or ["it wrote nothing"])[-1].strip())


def in_short(line: str) -> str:
    """Return a fault in LONGEST characters: of a longer one the problem is cut, and never the fix."""
    if len(line) <= LONGEST:
        return line
    problem, mark, fix = line.partition(FIX)
    room = LONGEST - len(mark) - len(fix)
    return f"{problem[: room - 4]} ...{mark}{fix}" if mark and room > SHORTEST else line[:LONGEST]


def failures(jobs: Iterable[Job], since: float) -> list[str]:
    """A line for each job that failed: its name, and the last error in its log."""
    lines, unpaid = [], []
    for job in jobs:
        names: Mapping[str, str] = dict(job.wildcards.items())
        logs = [Path(str(path)) for path in job.log]
        cause = cause_of(logs[0], since) if logs else None
        what = " ".join([job.rule.name, *names.values()])
        if (cause or "").startswith(BUDGET):
            unpaid.append((what, cause))
            continue
        lines.append(f"failed: {what}: {cause or 'it left no log'}" + (f" (log: {logs[0]})" if logs else ""))
    if unpaid:
        lines.append(f"stopped: {', '.join(what for what, _ in unpaid)}: {unpaid[-1][1]}")
    return lines


MARKED = 0.05  # a larger share of answers with unknown marks of reasoning is told


def unanswered(plan: Plan, results: Path) -> Iterator[tuple[str, str, Answered]]:
    """Yield tutor, benchmark and counts below `report.least_readable`, or with many unknown marks of reasoning."""
    for benchmark in plan.benchmarks:
        for tutor in (name for name in plan.run.tutors if name in plan.tutors_on(benchmark)):
            replies = paths.REPLIES.within(results, benchmark=benchmark, tutor=tutor)
            if not isinstance(plan.models[tutor], BaselineModel) and replies.exists():
                counted = answered(replies)
                if counted.share < plan.config.report.least_readable or counted.marked > MARKED * counted.items:
                    yield benchmark, tutor, counted


def unanswered_lines(plan: Plan) -> list[str]:
    """Return a line for each tutor and benchmark that `unanswered` yields."""
    return [
        f"{tutor}: {counted.answered} of {counted.items} items of {benchmark} answered"
        + (
            f": {counted.cause}"
            if counted.cause
            else f"; {counted.marked} begin with a mark of reasoning: scored as text"
        )
        for benchmark, tutor, counted in unanswered(plan, Path(paths.ROOT))
    ]


def is_mended(entry: Model, kind: str, line: str) -> bool:
    """Return whether an entry has the setting that a line about a silent change names by now."""
    omitted = getattr(entry, "omit", [])
    if kind == "model":
        return f" where {getattr(entry, 'model', None)} is asked" not in line
    if kind == "max_tokens" and line.endswith(f"max_tokens_as: {getattr(entry, 'max_tokens_as', None)}"):
        return True
    return kind in omitted


def unheeded(plan: Plan, spent: Iterable[Spent]) -> list[tuple[str, str]]:
    """Return asker and line of each silent change of an endpoint that the registry's entry does not mend yet."""
    askers = {*plan.run.tutors, *plan.run.judges}
    found = {(one.asker, kind): line for one in spent if one.asker in askers for kind, line in one.unheeded.items()}
    return [
        (asker, line)
        for (asker, kind), line in found.items()
        if not is_mended(plan.models[plan.answering(asker)], kind, line)
    ]


def last_lines(plan: Plan, failed: Sequence[Job], since: str, since_seconds: float, page: str | None) -> list[str]:
    """What a run says last: what failed and why, what was asked and paid, where the page is."""
    lines = failures(failed[:MOST_FAILURES], since_seconds)
    if len(failed) > MOST_FAILURES:
        lines.append(f"failed: {len(failed) - MOST_FAILURES} further jobs")
    lines += unanswered_lines(plan)
    spent = spent_since(since, Path(paths.JOURNALS.of()))
    lines += [f"{asker}: {line}" for asker, line in unheeded(plan, spent)]
    return [*lines, spent_line(plan, spent), *([f"report: {page}"] if page else [])]
