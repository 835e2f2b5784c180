"""Ctrl-C and SIGTERM while a study runs."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def stopped_by_signals(schedule: Any) -> Iterator[None]:
    """Handle Ctrl-C or SIGTERM: the first stops with everything saved, the second at once."""
    # Python lets no other thread set handlers: `ablate.run` in a thread is not stopped by signals.
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        if schedule.stop_reason is not None:
            raise KeyboardInterrupt
        schedule.stop_reason = f"stopped by {signal.Signals(number).name}"
        schedule.note("stopping: saving the running trials (again to stop at once)")

    numbers = (signal.SIGINT, signal.SIGTERM)
    # A background job of a shell ignores SIGINT, and should go on doing so.
    handled = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
