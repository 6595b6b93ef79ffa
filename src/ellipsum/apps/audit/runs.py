"""Many runs of a mechanism on one data set, in parts whose generators are seeded apart.

What a part draws depends on the seed, the data set and the part's number, not on which process serves it. Parts run in
interpreters of their own, so that closures serve and no script is run twice.
"""

from __future__ import annotations

import inspect
import os
import pickle
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import Floats, UsageError
from ...noise import public_generator, public_words, seed_globals
from ...util.worker_process import WorkerProcess, take_pipe

_MANY, _SINGLE = 1 << 16, 64  # runs in a part: drawn in one call, or one by one
_WORTH_PROCESSES = 4.0  # seconds of work: each starts an interpreter
_LOST = "a process of this audit ended before its work was done. Memory may be short: try processes=1."
_CANNOT_TRAVEL = "this mechanism or its data cannot be sent to another process. Pass processes=1."


@dataclass(frozen=True)
class Part:
    """Some runs on one of the two data sets."""

    which: int
    runs: int
    seed: bytes


@dataclass(frozen=True)
class Runner:
    """A mechanism and the two data sets that it is run on."""

    mechanism: Callable[..., Any]
    pair: tuple[Any, Any]
    width: int

    def __call__(self, part: Part) -> Floats:
        """The outputs, one per row; NaN where a run failed or gave anything but `width` numbers."""
        rng = public_generator(part.seed)
        data = self.pair[part.which]
        many = getattr(self.mechanism, "many", None)
        if many is not None:
            return np.asarray(many(data, part.runs, rng), np.float64).reshape(part.runs, self.width)
        call = caller(self.mechanism, rng)
        return np.stack([_padded(call, data, self.width) for _ in range(part.runs)])


def caller(mechanism: Callable[..., Any], rng: np.random.Generator) -> Callable[[Any], Any]:
    """The mechanism as a function of data alone; it gets a generator if it takes two arguments."""
    return (lambda data: mechanism(data, rng)) if _takes_two(mechanism) else mechanism


def _takes_two(mechanism: Callable[..., Any]) -> bool:
    try:
        inspect.signature(mechanism).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True


def flat(output: Any) -> Floats:
    """The numbers of an output: a number, a vector, an array, or the value of a release."""
    return np.asarray(getattr(output, "value", output), np.float64).reshape(-1)


def _padded(call: Callable[[Any], Any], data: Any, width: int) -> Floats:
    try:
        numbers = flat(call(data))
    except Exception:  # that a run fails is an outcome like any other
        numbers = np.empty(0)
    return numbers if numbers.size == width else np.full(width, np.nan)


@dataclass(frozen=True)
class Trial:
    """What a run before all others showed: how many numbers an output has, and how long a run takes."""

    width: int
    seconds: float = 0.0

    def processes(self, runs: int, stated: int | None) -> int:
        """As stated; otherwise all cores where runs are made one by one and take long together."""
        if stated is not None:
            return stated
        return os.cpu_count() or 1 if 2 * runs * self.seconds > _WORTH_PROCESSES else 1


def trial_of(mechanism: Callable[..., Any], pair: tuple[Any, Any], seed: bytes) -> Trial:
    """Runs on one of the data sets, or a single draw where the mechanism draws many outputs in one call."""
    if hasattr(mechanism, "many"):
        return Trial(int(flat(mechanism.many(pair[0], 1, public_generator(seed))).size))
    error: Exception | None = None
    call = caller(mechanism, public_generator(seed))
    for data in pair:
        try:
            width = max(int(flat(call(data)).size), 1)
        except Exception as failure:
            error = failure
        else:
            begin = time.perf_counter()
            _padded(call, data, width)  # again: the first may have read or compiled what it needs
            return Trial(width, time.perf_counter() - begin)
    raise UsageError(
        f"the mechanism fails on both data sets ({type(error).__name__}). Try it by hand first."
    ) from error


def parts_of(which: int, runs: int, seed: bytes, many: bool) -> Iterator[Part]:
    """The parts of so many runs on a data set, each with a seed of its own."""
    size = _MANY if many else _SINGLE
    count = -(-runs // size)
    for number, words in enumerate(public_words(seed, which << 40, count)):
        yield Part(which, min(size, runs - number * size), words.tobytes())


# In other processes -------------------------------------------------------------------------------------


def run_parts(runner: Runner, parts: list[Part], processes: int) -> Iterator[Floats]:
    """What each part gives, in order; with one process, here. Worker w has the parts w, w + processes, ..."""
    if processes == 1:
        yield from map(runner, parts)
        return
    tasks = [_pack(runner, parts[place::processes]) for place in range(min(processes, len(parts)))]
    workers = [WorkerProcess(__name__) for _ in tasks]
    try:
        for worker, task in zip(workers, tasks, strict=True):
            worker.send(task)
        for number in range(len(parts)):
            answer = workers[number % len(workers)].receive()
            if answer is None:
                raise UsageError(_LOST)
            outputs: Floats = pickle.loads(answer)
            yield outputs
    finally:
        for worker in workers:
            worker.close()


def _pack(runner: Runner, parts: list[Part]) -> bytes:
    import cloudpickle  # type: ignore[import-untyped,unused-ignore]

    try:
        packed: bytes = cloudpickle.dumps((runner, parts))
    except Exception:
        raise UsageError(_CANNOT_TRAVEL) from None
    return packed


def serve() -> None:
    """A worker's life: read the runner and its parts, answer each. What a mechanism prints goes to standard error."""
    caller = take_pipe()
    task = caller.receive()
    if task is None:
        return
    runner, parts = pickle.loads(task)
    for part in parts:
        seed_globals(part.seed)  # those that all callers in a process share would be alike in all processes
        caller.send(pickle.dumps(runner(part)))
