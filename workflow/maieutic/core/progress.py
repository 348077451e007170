"""Progress of long work: how much, how fast, how long still, on the terminal and in the log."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque

log = logging.getLogger(__name__)
EVERY_SECONDS = 5.0
MOST_REASONS = 3
SHORT_SECONDS = 1.0  # too short for a rate
BATCH_SECONDS = 0.05  # within which a forward pass of a reward model ends a whole batch
WINDOW = 200  # finished requests that the rate is taken from


def clock(seconds: float) -> str:
    """1:02:03 or 2:03."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Progress:
    """Counts finished pieces of work and says so every few seconds."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total = what, total
        self.done = self.known = self.failed = self.tokens = 0
        self.began = self.said = time.monotonic()
        self.recent: deque[float] = deque(maxlen=WINDOW)
        self.why: Counter[str] = Counter()

    def fail(self, why: str) -> None:
        """One more has failed."""
        self.why[why] += 1
        self.step(failed=True)

    def reasons(self) -> str:
        """Why pieces have failed, the most frequent reasons first."""
        return ", ".join(f"{why}: {number}" for why, number in self.why.most_common(MOST_REASONS))

    def step(self, known: bool = False, failed: bool = False, tokens: int = 0) -> None:
        """One more is done; `known`: it was in the journal; `tokens`: generated for it."""
        self.done += 1
        self.known += known
        self.failed += failed
        self.tokens += tokens
        if not known:
            self.recent.append(time.monotonic())
        if time.monotonic() - self.said >= EVERY_SECONDS and self.done < self.total:
            self.say()

    def rate(self, now: float) -> float:
        """Requests a second: of the last ones, or of all where those were one batch; 0 where nothing tells."""
        if len(self.recent) < 2:
            return 0.0
        span = now - self.recent[0]
        if span < SHORT_SECONDS:
            return (self.done - self.known) / (now - self.began) if now > self.began else 0.0
        # Of requests that ended together with the first one only that one counts: they took the time before it.
        together = sum(moment - self.recent[0] < BATCH_SECONDS for moment in self.recent)
        return (len(self.recent) - together + 1) / span

    def say(self) -> None:
        """Write one line."""
        now = self.said = time.monotonic()
        line = f"{self.what}: {self.done}/{self.total}"
        if self.known:
            line += f", {self.known} from the journal"
        if self.failed:
            line += f", {self.failed} failed"
        if rate := self.rate(now):
            line += f", {rate:.1f} requests/s, {self.tokens / (now - self.began):.0f} tokens/s"
            if self.done < self.total:
                line += f", {clock((self.total - self.done) / rate)} left"
        log.info(line)
