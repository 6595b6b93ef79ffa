"""Ctrl-C and the signals that end a process: each unwinds the main thread, so that what was begun is undone.

The command line listens; a program that uses the library keeps the handlers that it has.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Result = TypeVar("Result")

_ENDINGS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
_MOMENT = 0.01  # seconds
_BURST = 1.0  # seconds in which further signals are taken for the same wish
_POLL_SECONDS = 0.05

_first = 0  # the signal that asked for the end
_raised = -_BURST  # when it was raised last
_holding = 0
_waiting = False
_written = False


def listen() -> None:
    """Let every ending signal raise KeyboardInterrupt; one that is ignored, as by nohup, stays so."""
    for name in (*_ENDINGS, "SIGALRM"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _hear)
    sys.unraisablehook = _swallowed
    threading.excepthook = lambda _: None  # the caller has the error; its text may quote cells


def ignore() -> None:
    """The end: what is left is to clean up, and no signal may stop that."""
    for name in (*_ENDINGS, "SIGALRM"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def signalled() -> int:
    """The signal that asked for the end; 0 if none did."""
    return _first


def check_interrupted() -> None:
    """Raise again where a library swallowed the interrupt: called with every batch, and before anything is written."""
    if _first:
        raise KeyboardInterrupt


def note_written() -> None:
    """From here on it is no longer true that nothing was written."""
    global _written
    _written = True


def anything_written() -> bool:
    """Whether a result has taken its place."""
    return _written


@contextmanager
def held() -> Iterator[None]:
    """For a few steps that must not be torn apart: an interrupt is raised after them. In the main thread."""
    global _holding, _waiting
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _holding += 1
    try:
        yield
    finally:
        _holding -= 1
        if _waiting and not _holding:
            _waiting = False
            _raise()


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Put the handlers back that a library replaces by its own."""
    numbers = [getattr(signal, name) for name in _ENDINGS if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def while_listening(call: Callable[[], Result], stop: Callable[[], object]) -> Result:
    """call() in a thread, while this one listens for Ctrl-C, which some libraries do not hear: it calls stop()."""
    from concurrent.futures import ThreadPoolExecutor, wait

    pool = ThreadPoolExecutor(1, thread_name_prefix="ellipsum-wait")
    future = pool.submit(call)
    try:
        while not wait([future], _POLL_SECONDS).done:
            pass
    except BaseException:
        while not wait([future], _POLL_SECONDS).done:
            stop()
        raise
    finally:
        pool.shutdown(wait=True)
    return future.result()


def _hear(number: int, _: object) -> None:
    global _first, _waiting
    _first = _first or number
    if _holding:
        _waiting = True
    else:
        _raise()


def _raise() -> None:
    """Unwind, unless that was begun a moment ago: a second signal must not stop what the first set off."""
    global _raised
    now = time.monotonic()
    if now - _raised >= _BURST:
        _raised = now
        raise KeyboardInterrupt


def _swallowed(event: Any) -> None:
    """An error where Python can raise none: an interrupt comes again in a moment, others may quote cells."""
    global _raised
    if issubclass(event.exc_type, KeyboardInterrupt) and hasattr(signal, "setitimer"):
        _raised = -_BURST
        signal.setitimer(signal.ITIMER_REAL, _MOMENT)
