"""Lines that a run prints: its new requests at the start; its failed jobs, costs and report page at the end."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.models import HostedModel
from maieutic.core import paths
from maieutic.core.errors import PENDING_PLACE, UserError
from maieutic.core.ledger import JobSpending, spent_since
from maieutic.core.visible import terminal_text, visible_text
from maieutic.launch.bill import bill_of
from maieutic.launch.budget_limits import budget_text
from maieutic.launch.reader_changes import reader_change_lines
from maieutic.launch.requests import NewRequests, about
from maieutic.launch.runs import shorten_names
from maieutic.launch.snakemake_compat import LOCAL_TWIN
from maieutic.plan.plan import Plan
from maieutic.replies.reply_counts import MOST_CONTINUED, MOST_UNKNOWN_MARKERS, poorly_answered, unhandled_changes

Job = Any  # a Snakemake job
MOST_FAILURES = 10
MOST_CAUSE_CHARS = 300  # maximum number of characters in the printed cause of a failure
ERROR, FIX = " ERROR ", " Fix: "
LEAST_PROBLEM_CHARS = 80  # minimum number of characters that are kept of a problem; the fix is cut instead
BUDGET_KEY = "run.budget"
STOPPED = "stopped"  # begins the line about the jobs that stopped for lack of budget
GRADER_WORDS = {"reward": "reward model"}  # words for kinds of graders, where they differ from the kind
MOST_RANKED = 5  # maximum number of tutors in the last lines' ranking
MOST_NAMED_TUTORS = 8  # maximum number of tutors that are named if several have the same number of requests


class Billed(NamedTuple):
    """Tokens of requests to one model.

    prompt, answer: tokens in prompts and answers; cached: tokens in prompts that were read from a cache; batched: True
    if the requests are in batches, None if that depends on the model's registry entry.
    """

    model: str
    prompt: float
    answer: float
    cached: float = 0.0
    batched: bool | None = None


def registry_cost(plan: Plan, billed: Billed) -> float | None:
    """Return the cost of requests in US dollars, from the price in a model's registry entry; None without a price."""
    entry = plan.models[billed.model]
    if not isinstance(entry, HostedModel) or (price := entry.full_price) is None:
        return None
    batched = entry.batch if billed.batched is None else billed.batched
    return price.usd(billed.prompt, billed.answer, billed.cached, batched)


def cost_text(plan: Plan, amounts: Iterable[Billed]) -> str:
    """Return the total cost of requests as text, with the names of hosted models that have no price."""
    total, priced, unpriced = 0.0, False, []
    for billed in amounts:
        cost = registry_cost(plan, billed)
        if cost is not None:
            total, priced = total + cost, True
        elif isinstance(plan.models[billed.model], HostedModel) and billed.model not in unpriced:
            unpriced.append(billed.model)
    words = [f"about {total:.2f} USD" if total >= 0.005 else "under 0.01 USD"] if priced else []
    words += [f"no price for {', '.join(unpriced)}"] if unpriced else []
    return "; ".join(words)


def request_counts(numbers: Mapping[str, str], tutors: Container[str]) -> list[str]:
    """Return each tutor's and judge's number of requests as text. Many tutors with the same number share one text.

    numbers: formatted number of requests of each tutor and judge; tutors: names of the tutors.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for name, number in numbers.items():
        if name in tutors:
            alike[number].append(name)
    parts = []
    for name, number in numbers.items():
        names = alike[number] if name in tutors else [name]
        if len(names) <= MOST_NAMED_TUTORS:
            parts.append(f"{name} {number}")
        elif name == names[0]:
            parts.append(f"{shorten_names(names, 2)}: {number} each")
    return parts


def requests_line(plan: Plan, planned: Sequence[NewRequests]) -> str:
    """Return one line about new requests, such as `new requests: far-away 100; between 0.02 and 0.04 USD`."""
    by_asker: dict[str, list[NewRequests]] = defaultdict(list)
    for part in planned:
        by_asker[part.asker].append(part)
    if not by_asker:
        return "new requests: none"
    numbers = {name: text for name, of_asker in by_asker.items() if (text := number_of_requests(of_asker))}
    parts = request_counts(numbers, set(plan.run.tutors))
    sent = {name: sum(part.in_batches for part in of_asker) for name, of_asker in by_asker.items()}
    batches = ", ".join(f"{name} {number}" for name, number in sent.items() if number)
    none = "none" if batches else "none, all answers are on file"
    total = f"new requests: {', '.join(parts) or none}"
    in_batches = f"in batches already: {batches}" if batches else ""
    return "; ".join(filter(None, [total, bill_of(plan, planned).text, in_batches, budget_text(plan, planned)]))


def number_of_requests(parts: Sequence[NewRequests]) -> str:
    """Return the number of requests of one tutor or judge as text, such as `about 40 or more`; "" for none."""
    number, is_unknown = sum(part.requests or 0 for part in parts), any(part.requests is None for part in parts)
    if not number and not is_unknown:
        return ""
    checks = sum(part.requests or 0 for part in parts if part.stage == "checks")
    text = f"{about(part for part in parts if part.requests)}{number}{' or more' if is_unknown else ''}"
    return f"{text} ({checks} to check it on labels)" if checks else text


def spent_line(plan: Plan, spent: Sequence[JobSpending]) -> str:
    """Return one line about the requests sent, their tokens and their cost. spent: entries in the ledgers."""
    by_asker: dict[str, list[JobSpending]] = defaultdict(list)
    for line in spent:
        by_asker[line.asker].append(line)
    parts = []
    for name, lines in by_asker.items():
        requests, retries = sum(line.requests for line in lines), sum(sum(line.retries.values()) for line in lines)
        prompt, answer = sum(line.prompt_tokens for line in lines), sum(line.completion_tokens for line in lines)
        tokens = f"{prompt:,} + {answer:,} tokens" if prompt or answer or not requests else "tokens not reported"
        parts.append(f"{name} {requests} ({tokens}{f', {retries} retries' if retries else ''})")
    unknown = unknown_cost(spent)
    amounts = [
        Billed(model, line.prompt_tokens, line.completion_tokens, line.cached_tokens, line.batched)
        for line in spent
        if line.asker in plan.models and (line.prompt_tokens or line.completion_tokens or not unknown)
        for model in [plan.answering_entry(line.asker)]
    ]
    return "; ".join(filter(None, [f"requests sent: {', '.join(parts) or 'none'}", cost_text(plan, amounts), unknown]))


def unknown_cost(spent: Sequence[JobSpending]) -> str:
    """Return what is not known about a run's cost as text, or "": whose requests lack usage, and what was charged."""
    unreported: Counter[str] = Counter()
    for line in spent:
        unreported[line.asker] += line.unreported
    names = [f"{name} ({number} requests without usage)" for name, number in unreported.items() if number]
    charged = sum(line.charged_usd for line in spent)
    if not names and not charged:
        return ""
    reserved = f"reserved {charged:.2f} USD" if charged else ""
    return f"cost unknown: {', '.join(filter(None, [reserved, *names]))}"


SBATCH_CALL = "sbatch call:"  # begins the part of the SLURM executor's message that repeats the command


def last_error_of(log: Path, since: float, reason: str = "") -> str | None:
    """Return the error that ended a job, from its log; None if this run did not write the log, and no reason is known.

    since: start of the run, in seconds since 1970; reason: the executor's message, for a log without an error: a job
    that was rejected or killed cannot write one.
    """
    known = [shorten_error(" ".join(reason.partition(SBATCH_CALL)[0].split()))] if reason else []
    if not log.is_file() or log.stat().st_mtime < since:
        return next(iter(known), None)
    text = terminal_text(log.read_text(encoding="utf-8", errors="replace"))
    lines = [line for line in text.split("\n") if line.strip()]
    last = max((number for number, line in enumerate(lines) if ERROR in line), default=None)
    if last is None:
        return shorten_error((known or lines or ["the log is empty"])[-1].strip())
    first = last  # a command lists all of its faults, one after the other
    while first and ERROR in lines[first - 1]:
        first -= 1
    more = f" (and {last - first} more in the log)" if last > first else ""
    return f"{shorten_error(lines[last].partition(ERROR)[2].strip())}{more}"


def shorten_error(line: str) -> str:
    """Shorten an error line to MOST_CAUSE_CHARS characters. The problem is shortened rather than the fix."""
    if len(line) <= MOST_CAUSE_CHARS:
        return line
    problem, mark, fix = line.partition(FIX)
    room = MOST_CAUSE_CHARS - len(mark) - len(fix)
    return f"{problem[: room - 4]} ...{mark}{fix}" if mark and room > LEAST_PROBLEM_CHARS else line[:MOST_CAUSE_CHARS]


def failure_lines(jobs: Iterable[Job], since: float, reasons: Mapping[int, str]) -> list[str]:
    """Return a line for each failed job, with its name and the last error in its log.

    All jobs that stopped for lack of budget share one line.
    since: start of the run, in seconds since 1970; reasons: messages of the executor by job number.
    """
    lines, unpaid = [], []
    for job in jobs:
        names: Mapping[str, str] = dict(job.wildcards.items())
        logs = [Path(str(path)) for path in job.log]
        reason = reasons.get(job.jobid, "")
        cause = last_error_of(logs[0], since, reason) if logs else reason or None
        what = " ".join([str(job.rule.name).removesuffix(LOCAL_TWIN), *names.values()])
        if (cause or "").startswith(BUDGET_KEY):
            unpaid.append((what, cause))
            continue
        lines.append(f"failed: {what}: {cause or 'no log was written'}" + (f" (log: {logs[0]})" if logs else ""))
    if unpaid:
        lines.append(f"{STOPPED}: {', '.join(what for what, _ in unpaid)}: {unpaid[-1][1]}")
    return lines


def is_pending(job: Job, since: float) -> bool:
    """Return True if a failed job waits for a batch. since: start of the run, in seconds since 1970."""
    return bool(job.log) and is_pending_log(Path(str(job.log[0])), since)


def is_pending_log(log: Path, since: float) -> bool:
    """Return True if the last error in a job's log is that it waits for a batch. since: as in `last_error_of`."""
    return (last_error_of(log, since) or "").startswith(f"{PENDING_PLACE}: ")


def poorly_answered_lines(plan: Plan) -> list[str]:
    """Return the lines for each tutor and benchmark that `poorly_answered` yields."""
    lines = []
    for benchmark, tutor, counted in poorly_answered(plan, Path(paths.ROOT), any_missing=True):
        answered = f"{tutor}: {counted.answered} of {counted.items} items of {benchmark} answered"
        if counted.cause:
            lines.append(f"{answered}: {counted.cause}")
        elif counted.marked > MOST_UNKNOWN_MARKERS * counted.items:
            unknown = "replies that begin with an unknown reasoning marker and are scored as text"
            lines.append(f"{answered}; {unknown}: {counted.marked}")
        if counted.continued > MOST_CONTINUED * counted.items:
            share = f"{counted.continued} of {counted.items} replies to {benchmark} go on as another speaker"
            fix = f"set models.{tutor}.endpoint: chat, or further stop strings (`stop`) on the task's card"
            lines.append(f"{tutor}: {share}, and parsers read only their first turn; {fix}")
    return lines


def absent_lines(plan: Plan) -> list[str]:
    """Return a line for each part of a run that is left out since its files are unavailable."""
    return [f"left out: {part.name} of {part.key}. To include it: {part.fix}" for part in plan.absent_parts]


def empty_task_lines(plan: Plan) -> list[str]:
    """Return a line for each kind of grader that a run lacks, with the tasks whose headline metric needs it."""
    tasks: dict[str, list[str]] = defaultdict(list)
    for loaded in plan.cards.values():
        if loaded.card.missing_grader:
            tasks[loaded.card.missing_grader].append(f"{loaded.card.benchmark}/{loaded.card.task}")
    return [
        f"without a {GRADER_WORDS.get(kind, kind)} these tasks stay empty: {', '.join(names)}. "
        f"Fix: add one to run.{GRADER_WORDS.get(kind, kind).replace(' ', '_')}s, if their values are needed"
        for kind, names in tasks.items()
    ]


def differing_scorers(plan: Plan, results: Path) -> list[str]:
    """Return a line for each reward model whose scores differ from the scores that its paper prints."""
    files = {
        name: paths.PUBLISHED_SCORES.within(results, reward_model=name) for name in plan.models_with_published_scores
    }
    published = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in files.items() if path.exists()}
    return [
        f"{name}: the scorer differs from the paper: scores differ by up to {entry['largest']:.3f}, expected at most "
        f"{entry['tolerance']}; see the report's page on reward models"
        for name, entry in published.items()
        if entry["differs"]
    ]


def last_lines(
    plan: Plan,
    failed: Sequence[Job],
    since: str,
    since_seconds: float,
    page: str | None,
    reasons: Mapping[int, str],
    printed: Container[int] = (),
) -> list[str]:
    """Return the last lines of a run: failed jobs with causes, requests sent and their cost, path of the page.

    reasons: messages of the executor about failed jobs, by job number; printed: numbers of the jobs whose failure was
    printed when it happened.
    """
    above = [job for job in failed if job.jobid in printed]
    failed = [job for job in failed if job.jobid not in printed]
    lines = failure_lines(failed[:MOST_FAILURES], since_seconds, reasons)
    if above:
        lines.append(f"jobs that ended early, with their causes above: {len(above)}")
    if len(failed) > MOST_FAILURES:
        lines.append(f"failed: {len(failed) - MOST_FAILURES} further jobs")
    spent = spent_since(since, Path(paths.JOURNALS.of()))
    remarks: list[Callable[[], Iterable[str]]] = [
        partial(poorly_answered_lines, plan),
        lambda: (f"{asker}: {line}" for asker, line in unhandled_changes(plan, spent)),
        partial(differing_scorers, plan, Path(paths.ROOT)),
        partial(reader_change_lines, Path(paths.ROOT)),
        partial(absent_lines, plan),
    ]
    for remark in remarks:
        try:
            lines += list(remark())
        except UserError as error:  # a damaged results file must not hide the other lines
            lines += [line for line in error.lines.splitlines() if line not in " ".join(lines)]
    return [*lines, spent_line(plan, spent), *(finding_lines(page) if page else [])]


def finding_lines(page: str) -> list[str]:
    """Return the run's finding and its first tutors, both by its ranking.json, and the path of the page."""
    rankings = Path(page).with_name(Path(paths.RANKING).name)
    entries = json.loads(rankings.read_text(encoding="utf-8")) if rankings.is_file() else []
    lines = []
    for entry in (entry for entry in entries if entry["scoring"] == "robust"):
        lines.append(f"finding: {visible_text(entry['sentence'])}")
        ranked = sorted((tutor for tutor in entry["tutors"] if tutor["best"]), key=lambda tutor: tutor["best"])
        lines += [ranked_line(tutor, len(ranked)) for tutor in ranked[:MOST_RANKED]]
        if more := len(ranked) - MOST_RANKED:
            lines += [f"  and {more} more"] if more > 0 else []
    return [*lines, f"report: {page}"]


def ranked_line(tutor: Mapping[str, Any], of: int) -> str:
    """Return one tutor's line in the ranking, such as `  1 to 2 of 4  qwen-7b, above the floor on 3 of 4 tasks`.

    tutor: its entry in ranking.json; of: number of ranked tutors.
    """
    best, worst = tutor["best"], tutor["worst"]
    rank = f"{best}" if best == worst else f"{best} to {worst}"
    floors = (
        f", above the floor on {tutor['above_floor']} of {tutor['with_floor']} tasks" if tutor["with_floor"] else ""
    )
    return f"  {rank} of {of}  {visible_text(tutor['tutor'])}{floors}"
