"""Ctrl-C and the signals that end a process: each unwinds the main thread, so that unfinished work is removed.

The command line installs handlers; a program that uses the library keeps its own.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

Result = TypeVar("Result")

_ENDINGS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
_MOMENT = 0.01  # seconds
_BURST = 1.0  # seconds in which further signals count as the same request
_POLL_SECONDS = 0.05

_first = 0  # the signal that requested the end
_raised = -_BURST  # the time of the last interrupt that was raised
_holding = 0
_waiting = False
_written = False


def listen() -> None:
    """Let every ending signal raise KeyboardInterrupt. A signal that is ignored, as by nohup, stays ignored."""
    for name in (*_ENDINGS, "SIGALRM"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _hear)
    sys.unraisablehook = _swallowed
    threading.excepthook = lambda _: None  # the caller gets the error; its text may quote cells


def ignore() -> None:
    """Ignore signals from now on: only cleaning up is left, and no signal may stop it."""
    for name in (*_ENDINGS, "SIGALRM"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def signalled() -> int:
    """The signal that requested the end; 0 if none did."""
    return _first


def check_interrupted() -> None:
    """Raise again if a library swallowed the interrupt. Called with every batch, and before anything is written."""
    if _first:
        raise KeyboardInterrupt


def note_written() -> None:
    """Remember that something was written."""
    global _written
    _written = True


def anything_written() -> bool:
    """Whether a result was written."""
    return _written


@contextmanager
def held() -> Iterator[None]:
    """Delay interrupts in the main thread until a few steps that belong together are done."""
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
    """Restore the handlers that a library has replaced with its own."""
    numbers = [getattr(signal, name) for name in _ENDINGS if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def while_listening(call: Callable[[], Result], stop: Callable[[], object]) -> Result:
    """call() in a thread, while this one waits for Ctrl-C, which some libraries ignore, and then calls stop()."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, thread_name_prefix="ellipsum-wait") as pool:
        return _await(pool.submit(call), stop)


def read_ahead(items: Iterator[Result], stop: Callable[[], object]) -> Generator[Result]:
    """The items, each read by `while_listening` while the caller works on the one before. Close it to stop reading."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, thread_name_prefix="ellipsum-wait") as pool:
        end: Any = object()
        future = pool.submit(next, items, end)
        while (item := _await(future, stop)) is not end:
            future = pool.submit(next, items, end)
            try:
                yield item
            except BaseException:
                _end(future, stop)
                raise


def _await(future: Future[Result], stop: Callable[[], object]) -> Result:
    from concurrent.futures import wait

    try:
        while not wait([future], _POLL_SECONDS).done:
            pass
    except BaseException:
        _end(future, stop)
        raise
    return future.result()


def _end(future: Future[Any], stop: Callable[[], object]) -> None:
    from concurrent.futures import wait

    while not wait([future], _POLL_SECONDS).done:
        stop()


def _hear(number: int, _: object) -> None:
    global _first, _waiting
    _first = _first or number
    if _holding:
        _waiting = True
    else:
        _raise()


def _raise() -> None:
    """Raise an interrupt, unless one was raised a moment ago: a second signal must not stop the cleaning up."""
    global _raised
    now = time.monotonic()
    if now - _raised >= _BURST:
        _raised = now
        raise KeyboardInterrupt


def _swallowed(event: sys.UnraisableHookArgs) -> None:
    """An error that Python cannot raise: an interrupt is repeated in a moment, others may quote cells."""
    global _raised
    if issubclass(event.exc_type, KeyboardInterrupt) and hasattr(signal, "setitimer"):
        _raised = -_BURST
        signal.setitimer(signal.ITIMER_REAL, _MOMENT)
