"""Log lines about the progress of long jobs: finished requests, rate and remaining time."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque

log = logging.getLogger(__name__)
EVERY_SECONDS = 5.0  # minimum time between two log lines, in seconds
MOST_REASONS = 3  # maximum number of failure reasons in the summary
SHORT_SECONDS = 1.0  # the rate is computed from the latest requests only if they span at least this time, in seconds
BATCH_SECONDS = 0.05  # requests that finish within this time of each other belong to one batch of a reward model
WINDOW = 200  # number of latest finished requests from which the rate is computed


def format_duration(seconds: float) -> str:
    """Return a duration in the format 1:02:03 (hours, minutes, seconds), or 2:03 if it is under an hour."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Progress:
    """Counter of finished requests that logs a line every few seconds."""

    def __init__(self, what: str, total: int) -> None:
        self.title, self.total = what, total
        self.done = self.known = self.failed = self.later = self.unsent = self.tokens = 0
        self.began = self.logged_at = time.monotonic()
        self.recent: deque[float] = deque(maxlen=WINDOW)
        self.failure_reasons: Counter[str] = Counter()

    def fail(self, why: str, later: bool = False, sent: bool = True) -> None:
        """Count one request without an answer.

        why: reason shown in the summary; later: True if a later run collects the answer; sent: False if the request was
        not sent because the job is ending.
        """
        if not later:
            self.failure_reasons[why] += 1
        self.later += later
        self.unsent += not sent
        self.step(failed=True, sent=sent and not later)

    def reasons(self) -> str:
        """Return the most frequent reasons for failures with their counts."""
        return ", ".join(f"{why}: {number}" for why, number in self.failure_reasons.most_common(MOST_REASONS))

    def step(self, known: bool = False, failed: bool = False, tokens: int = 0, sent: bool = True) -> None:
        """Count one finished request.

        known: True if the journal had the answer; failed: True if there is no answer; tokens: number of generated
        tokens; sent: False if the request was not sent, or has no result yet.
        """
        self.done += 1
        self.known += known
        self.failed += failed
        self.tokens += tokens
        if not known and sent:
            self.recent.append(time.monotonic())
        if time.monotonic() - self.logged_at >= EVERY_SECONDS and self.done < self.total:
            self.log_line()

    def rate(self, now: float) -> float:
        """Return the rate of the last WINDOW requests, in requests per second.

        If they span less than SHORT_SECONDS, the rate of all requests is returned. Answers from the journal are not
        counted. The rate is 0 for fewer than two finished requests.
        """
        if len(self.recent) < 2:
            return 0.0
        span = now - self.recent[0]
        if span < SHORT_SECONDS:
            return (self.done - self.known - self.later - self.unsent) / (now - self.began) if now > self.began else 0.0
        # The time before the first request in the window is unknown. Requests that finished together with it therefore
        # count as one.
        together = sum(moment - self.recent[0] < BATCH_SECONDS for moment in self.recent)
        return (len(self.recent) - together + 1) / span

    def log_line(self) -> None:
        """Log the counts, the rate and the remaining time in one line."""
        now = self.logged_at = time.monotonic()
        line = f"{self.title}: {self.done}/{self.total}"
        if self.known:
            line += f", {self.known} from the journal"
        counts = {"failed": self.failed - self.later - self.unsent, "not sent": self.unsent, "in batches": self.later}
        line += "".join(f", {number} {what}" for what, number in counts.items() if number > 0)
        if self.done > self.known + self.later + self.unsent and (rate := self.rate(now)):
            line += f", {rate:.1f} requests/s, {self.tokens / (now - self.began):.0f} tokens/s"
            if self.done < self.total:
                line += f", {format_duration((self.total - self.done) / rate)} left"
        log.info(line)
