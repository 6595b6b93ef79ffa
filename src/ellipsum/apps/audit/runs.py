"""Many runs of a mechanism on one data set, in parts with independent seeds.

The draws of a part depend on the seed, the data set and the number of the part, not on the process. Processes are new
interpreters, so that closures can be sent to them and the caller's script is not run again.
"""

from __future__ import annotations

import inspect
import os
import pickle
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ... import UsageError
from ...errors import Floats, whole
from ...noise import public_generator, public_seed, public_words, seed_globals
from ...session import Progress
from ...util.worker_process import WorkerProcess, take_pipe

LEAST_RUNS = 100


class ManyDraws(Protocol):
    """A mechanism that draws many outputs in one call, one per row."""

    def many(self, data: Any, runs: int, rng: np.random.Generator) -> Floats: ...


Mechanism = Callable[..., object] | ManyDraws
"""A function of data, or of data and a generator; or an object that draws many outputs at once."""
Pair = tuple[object, object]
"""Two neighboring data sets, of any type that the mechanism accepts."""

_MANY, _SINGLE = 1 << 16, 64  # The number of runs in a part, where they are drawn in one call or one by one.
_WORTH_PROCESSES = 4.0  # Seconds of work from which on other processes save time.
_LOST = "A process of this audit ended early. Memory may be short: use processes=1."
_CANNOT_TRAVEL = "This mechanism or its data cannot be sent to another process. Pass processes=1."


@dataclass(frozen=True)
class Part:
    """Some runs on one of the two data sets."""

    which: int
    runs: int
    seed: bytes


@dataclass(frozen=True)
class Runner:
    """A mechanism and the two data sets that it is run on."""

    mechanism: Mechanism
    pair: Pair
    width: int

    def __call__(self, part: Part) -> Floats:
        """The outputs, one per row; NaN where a run failed or did not return `width` numbers."""
        rng = public_generator(part.seed)
        data = self.pair[part.which]
        if hasattr(self.mechanism, "many"):
            return np.asarray(self.mechanism.many(data, part.runs, rng), np.float64).reshape(part.runs, self.width)
        call = caller(self.mechanism, rng)
        return np.stack([_pad_pair(call, data, self.width) for _ in range(part.runs)])


def caller(mechanism: Callable[..., object], rng: np.random.Generator) -> Callable[[object], object]:
    """The mechanism as a function of data alone; a mechanism with two arguments gets the generator."""
    return (lambda data: mechanism(data, rng)) if _takes_two(mechanism) else mechanism


def _takes_two(mechanism: Callable[..., object]) -> bool:
    try:
        inspect.signature(mechanism).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True


def flat(output: object) -> Floats:
    """The numbers of an output: a number, a vector, an array, or the value of a release."""
    return np.asarray(getattr(output, "value", output), np.float64).reshape(-1)


def _pad_pair(call: Callable[[object], object], data: object, width: int) -> Floats:
    try:
        numbers = flat(call(data))
    except Exception:  # A failed run is an outcome like any other.
        numbers = np.empty(0)
    return numbers if numbers.size == width else np.full(width, np.nan)


@dataclass(frozen=True)
class Trial:
    """The result of a test run: how many numbers an output has, and how long a run takes."""

    width: int
    seconds: float = 0.0

    def processes(self, runs: int, stated: int | None) -> int:
        """The requested number; by default all cores if runs are made one by one and take long."""
        if stated is not None:
            return stated
        return os.cpu_count() or 1 if 2 * runs * self.seconds > _WORTH_PROCESSES else 1


def trial_of(mechanism: Mechanism, pair: Pair, seed: bytes) -> Trial:
    """Test the mechanism by two runs on a data set, or by one call if it draws many outputs at once."""
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
            _pad_pair(call, data, width)  # Time a second run: the first may have compiled code.
            return Trial(width, time.perf_counter() - begin)
    raise UsageError(
        f"The mechanism fails on both data sets ({type(error).__name__}). Call it yourself first."
    ) from error


def parts_of(which: int, runs: int, seed: bytes, many: bool) -> Iterator[Part]:
    """The parts of a number of runs on a data set, each with its own seed."""
    size = _MANY if many else _SINGLE
    count = -(-runs // size)
    for number, key in enumerate(public_words(seed, which << 40, count)):
        yield Part(which, min(size, runs - number * size), key.tobytes())


@dataclass
class PairRuns:
    """Runs of a mechanism on two neighboring data sets in stages with separate seeds.

    runs: the number on each data set, in all stages together.
    """

    runner: Runner
    seed: bytes
    runs: int
    processes: int
    report: Progress | None = None
    done: int = 0

    @staticmethod
    def of(
        mechanism: Mechanism, pair: object, runs: int, processes: int | None, rng: np.random.Generator | None
    ) -> PairRuns:
        """Check the arguments of an audit, and measure the time of a run."""
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise UsageError("pair must hold two data sets: (data, the same with one row or person changed).")
        if not callable(mechanism) and not hasattr(mechanism, "many"):
            raise UsageError(f"mechanism must be a function of data, got {type(mechanism).__name__}.")
        whole("runs", runs, least=LEAST_RUNS)
        processes = None if processes is None else whole("processes", processes)
        first, second = pair
        seed = public_seed(rng)
        trial = trial_of(mechanism, (first, second), seed)
        runner = Runner(mechanism, (first, second), trial.width)
        return PairRuns(runner, seed, runs, trial.processes(runs, processes))

    def outputs(self, stage: int, runs: int) -> Iterator[tuple[int, Floats]]:
        """Yield (which data set, outputs of some runs on it), until each data set has this number of runs."""
        seed = public_words(self.seed, stage, 1).tobytes()
        many = hasattr(self.runner.mechanism, "many")
        parts = [part for which in (0, 1) for part in parts_of(which, runs, seed, many)]
        for part, outputs in zip(parts, run_parts(self.runner, parts, self.processes), strict=True):
            self.done += part.runs
            if self.report is not None:
                self.report(self.done / (2 * self.runs))
            yield part.which, outputs

    def collect(self, stage: int, runs: int) -> tuple[Floats, Floats]:
        """The outputs on each data set."""
        samples: tuple[list[Floats], list[Floats]] = ([], [])
        for which, outputs in self.outputs(stage, runs):
            samples[which].append(outputs)
        return np.concatenate(samples[0]), np.concatenate(samples[1])


# In other processes -------------------------------------------------------------------------------------


def run_parts(runner: Runner, parts: list[Part], processes: int) -> Iterator[Floats]:
    """The outputs of the parts, in order. Worker w runs the parts w, w + processes, ...; one process is this one."""
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
    """Run as a worker: read the runner and its parts, and send the outputs. Printed text goes to standard error."""
    caller = take_pipe()
    task = caller.receive()
    if task is None:
        return
    runner, parts = pickle.loads(task)
    for part in parts:
        seed_globals(part.seed)  # The global generators would otherwise be equal in all processes.
        caller.send(pickle.dumps(runner(part)))
