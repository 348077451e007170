"""A job that is told to end takes the answers that are under way: what was asked is paid."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Ending:
    """Whether this process has been told to end: from then on nothing further is asked."""

    is_set = False


ENDING = Ending()


def run_to_the_end(work: Coroutine[Any, Any, T], grace: float) -> T:
    """Run a coroutine. A first SIGTERM or SIGINT lets it finish what is under way; raises KeyboardInterrupt after that.

    The coroutine sees ENDING, asks nothing more, and is cancelled after `grace` seconds, or by a second signal.
    """

    async def run() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        ENDING.is_set = False

        def end() -> None:
            if ENDING.is_set:
                task.cancel()
                return
            log.warning("told to end: takes the answers that come within %g s; once more ends at once", grace)
            ENDING.is_set = True
            loop.call_later(grace, task.cancel)

        # What a script starts with `&` ignores Ctrl-C; a thread hears no signal.
        before = {number: signal.getsignal(number) for number in SIGNALS}
        alone = threading.current_thread() is threading.main_thread()
        heard = [number for number in SIGNALS if alone and before[number] is not signal.SIG_IGN]
        for number in heard:
            loop.add_signal_handler(number, end)
        try:
            return await work
        finally:
            for number in heard:
                loop.remove_signal_handler(number)
                signal.signal(number, before[number])

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    except Exception:
        if ENDING.is_set:  # what stayed unanswered did so since nothing was asked any more
            raise KeyboardInterrupt from None
        raise
