"""Parts of an audit in interpreters of their own, so that closures serve and no script is run twice."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any, BinaryIO

from ...errors import Floats, UsageError
from ...noise import seed_globals
from ...util.interpreters import ended, started
from .runs import Part, Runner

_LOST = "a process of this audit ended before its work was done. Memory may be short: try processes=1."
_CANNOT_TRAVEL = "this mechanism or its data cannot be sent to another process. Pass processes=1."


def outputs_of(runner: Runner, parts: list[Part], processes: int) -> Iterator[Floats]:
    """What each part gives, in order; with one process, here."""
    yield from map(runner, parts) if processes == 1 else shared(runner, parts, processes)


def shared(runner: Runner, parts: list[Part], processes: int) -> Iterator[Floats]:
    """What each part gives, in order; worker w has the parts w, w + processes, ..."""
    program = _packed(runner)
    workers = [_Worker(program, parts[place::processes]) for place in range(min(processes, len(parts)))]
    try:
        for number in range(len(parts)):
            yield workers[number % len(workers)].next()
    finally:
        for worker in workers:
            worker.close()


def _packed(runner: Runner) -> bytes:
    import cloudpickle  # type: ignore[import-untyped,unused-ignore]

    try:
        packed: bytes = cloudpickle.dumps(runner)
    except Exception:
        raise UsageError(_CANNOT_TRAVEL) from None
    return packed


class _Worker:
    """One interpreter that serves some parts one after the other."""

    def __init__(self, program: bytes, parts: list[Part]) -> None:
        self._process = started(__name__)
        self._results: SimpleQueue[Any] = SimpleQueue()
        threading.Thread(target=self._collect, args=(program, parts), daemon=True).start()

    def _collect(self, program: bytes, parts: list[Part]) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump((program, parts), self._process.stdin)
            self._process.stdin.close()
            for _ in parts:
                self._results.put(pickle.load(self._process.stdout))
        except (OSError, EOFError, pickle.UnpicklingError):
            self._results.put(None)

    def next(self) -> Floats:
        result: Floats | None = self._results.get()
        if result is None:
            raise UsageError(_LOST)
        return result

    def close(self) -> None:
        ended(self._process)


def serve() -> None:
    """A worker's life: read the runner and its parts, answer each. What a mechanism prints goes to standard error."""
    answers: BinaryIO = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    program, parts = pickle.load(sys.stdin.buffer)
    runner = pickle.loads(program)
    for part in parts:
        seed_globals(part.seed)  # those that all callers in a process share would be alike in all processes
        pickle.dump(runner(part), answers)
        answers.flush()
