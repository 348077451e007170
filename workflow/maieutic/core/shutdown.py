"""Graceful shutdown: after a signal, a job finishes its requests in progress, because they are already paid for."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from maieutic.core.parent_process import snakemake_processes

log = logging.getLogger(__name__)
T = TypeVar("T")
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class ShutdownFlag:
    """Flag that is set by the first shutdown signal. No new requests are sent once it is set."""

    is_set = False


SHUTDOWN = ShutdownFlag()


def run_with_grace(work: Coroutine[Any, Any, T], grace: float) -> T:
    """Run a coroutine with graceful shutdown and return its result.

    A first SIGTERM or SIGINT, or the end of the Snakemake that started this job, sets SHUTDOWN, so that the coroutine
    sends no new requests. The coroutine is cancelled `grace` seconds later, or by a second signal. Raises
    KeyboardInterrupt if it was ended early.
    """

    async def run() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        SHUTDOWN.is_set = False

        def end() -> None:
            if SHUTDOWN.is_set:
                task.cancel()
                return
            log.warning("shutting down: requests in progress have %g s to finish; a second signal stops at once", grace)
            SHUTDOWN.is_set = True
            loop.call_later(grace, task.cancel)

        # Signals that are ignored stay ignored: a shell ignores Ctrl-C in a script's background jobs (`&`). Only the
        # main thread can handle signals.
        before = {number: signal.getsignal(number) for number in SIGNALS}
        in_main_thread = threading.current_thread() is threading.main_thread()
        handled = [number for number in SIGNALS if in_main_thread and before[number] is not signal.SIG_IGN]
        for number in handled:
            loop.add_signal_handler(number, end)
        watched = snakemake_processes()

        def end_with_snakemake(process: int) -> None:
            loop.remove_reader(process)
            log.warning("Snakemake has ended")
            end()

        for process in watched:
            loop.add_reader(process, end_with_snakemake, process)
        try:
            return await work
        finally:
            for process in watched:
                loop.remove_reader(process)
                os.close(process)
            for number in handled:
                loop.remove_signal_handler(number)
                signal.signal(number, before[number])

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    except Exception:
        if SHUTDOWN.is_set:  # the shutdown caused the error, since requests that were not sent have no answers
            raise KeyboardInterrupt from None
        raise
