"""Evaluate a caller's function on blocks of rows, each in its own process, and return only its vectors.

Each worker is a helper interpreter. It loads the function once (with cloudpickle, so lambdas and closures work) and
forks a new child for each block. The number of a block alone decides its helper and the seed of its random numbers.
A result is a function of its block, of its own random numbers and of public things [F10]. Output and warnings are
discarded. If a child raises, dies, hangs or returns anything but `dimension` finite numbers, its row is NaN.
"""

from __future__ import annotations

import contextlib
import math
import os
import queue
import signal
import struct
import sys
import threading
from collections.abc import Callable, Sequence

import numpy as np

from ..errors import Floats, UsageError
from ..kernels.blocks import floats
from ..noise import public_seed, public_words, seed_globals
from ..sources.protocol import Progress
from ..util.worker_process import Pipe, WorkerProcess, take_pipe

BlockFunction = Callable[[Floats], object]
_TASK = struct.Struct("<16sqq")  # The seed, and the numbers of rows and columns.
_LOADED, _READ = b"loaded", b"read"
_START_SECONDS = 120.0
_GRACE_SECONDS = 5.0
_GOLDEN = 0.6180339887498949
_WALL = 4.0
"""Wall-clock limit over CPU limit. It stops a child that only waits, but not one on a busy machine."""
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_END_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux.


def make_up_rows(rows: int, columns: int) -> Floats:
    """Rows of zeros and ones that do not depend on any data."""
    places = np.arange(1, rows * columns + 1)
    block: Floats = np.rint(np.mod(places * _GOLDEN, 1.0)).reshape(rows, columns)
    return block


def run_blocks(
    function: BlockFunction,
    blocks: Sequence[Floats],
    dimension: int,
    *,
    workers: int | None = None,
    time_limit: float = 60.0,
    seed: bytes | None = None,
    progress: Progress | None = None,
) -> Floats:
    """function(block) for every block, (blocks, dimension); a row of NaN for each block that failed.

    time_limit: CPU seconds for a block; four times as much may pass on the clock.
    seed: of the function's random numbers, together with the block's number; by default a fresh one.
    """
    program = _pack(function, dimension, time_limit)
    results = np.full((len(blocks), dimension), np.nan)
    count = max(1, min(workers or os.cpu_count() or 1, len(blocks)))
    finished: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    hash_seed, *seeds = map(bytes, public_words(seed or public_seed(), 0, 1 + len(blocks)))
    stop = threading.Event()
    helpers = [_Helper(program, dimension, time_limit, hash_seed, stop) for _ in range(count)]

    def serve(number: int, helper: _Helper) -> None:
        try:
            for index in range(number, len(blocks), count):  # Which helper is free would depend on rows [F10].
                if stop.is_set():
                    break
                results[index] = helper.run(blocks[index], seeds[index])
                finished.put(None)
        except BaseException as error:  # A helper could not start, which does not depend on rows.
            finished.put(error)
        finally:
            helper.close()

    threads = [threading.Thread(target=serve, args=lane, daemon=True) for lane in enumerate(helpers)]
    try:
        for thread in threads:
            thread.start()
        for done in range(1, len(blocks) + 1):
            error = finished.get()
            if error is not None:
                raise error
            if progress is not None:
                progress(done / len(blocks))
    finally:
        stop.set()
        for thread, helper in zip(threads, helpers, strict=True):
            helper.kill()
            if thread.ident is not None:
                thread.join()
    return results


def _pack(function: BlockFunction, dimension: int, time_limit: float) -> bytes:
    if not hasattr(os, "fork"):
        raise UsageError("subsample_and_aggregate forks processes, which this operating system does not support.")
    try:
        import cloudpickle  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise UsageError(
            "subsample_and_aggregate needs cloudpickle. Install it with: pip install cloudpickle"
        ) from None
    packed: bytes | None = None
    with contextlib.suppress(Exception):  # The message may quote what the function holds.
        packed = cloudpickle.dumps((function, dimension, time_limit))
    if packed is None:
        raise UsageError(
            "The function could not be sent to another process. It may hold an open file, a lock or a connection. "
            "Create them inside the function."
        )
    return packed


class _Helper:
    """One helper interpreter. It starts again if a block ended it."""

    def __init__(
        self, program: bytes, dimension: int, time_limit: float, hash_seed: bytes, stop: threading.Event
    ) -> None:
        self._program, self._dimension, self._time_limit = program, dimension, time_limit
        self._hash_seed = int.from_bytes(hash_seed[:4], "little")
        self._stop = stop
        self._worker: WorkerProcess | None = None

    def run(self, block: Floats, seed: bytes) -> Floats:
        worker = self._worker or self._start()
        worker.send(b"block")
        worker.send(_TASK.pack(seed, *block.shape) + np.ascontiguousarray(block).tobytes())
        answer = worker.receive(_WALL * self._time_limit + 3 * _GRACE_SECONDS, most=8 * self._dimension)
        if answer is None or len(answer) != 8 * self._dimension:
            self.close()
            return np.full(self._dimension, np.nan)
        return np.frombuffer(answer)

    def _start(self) -> WorkerProcess:
        environment = {**dict.fromkeys(_ONE_THREAD, "1"), **os.environ, "PYTHONHASHSEED": str(self._hash_seed)}
        worker = self._worker = WorkerProcess(__name__, quiet=True, environment=environment)
        if self._stop.is_set():
            worker.kill()
        worker.send(self._program)
        if worker.receive(_START_SECONDS, most=len(_LOADED)) != _LOADED:
            self.close()
            raise UsageError(
                "The function could not be loaded in another process. Define it in the main script or notebook, or in "
                "a module that can be imported without side effects."
            )
        return worker

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def kill(self) -> None:
        """End the helper at once; can be called from any thread."""
        worker = self._worker
        if worker is not None:
            worker.kill()


def serve() -> None:
    """Load the function, then fork a child for every announced block, until the caller is gone."""
    import pickle
    import resource

    caller = take_pipe()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # A core file would hold the block.
    try:
        function, dimension, time_limit = pickle.loads(caller.receive() or b"")
    except Exception:  # The caller reports that this process ended.
        return
    seed_globals(bytes(16))  # Loads the modules of random numbers for every child.
    caller.send(_LOADED)
    while caller.receive() is not None:
        answer = _run_in_child(function, dimension, time_limit, caller)
        if answer is None:
            return  # The pipe may hold the rest of a block. The caller starts another helper.
        caller.send(answer)


def _run_in_child(function: BlockFunction, dimension: int, time_limit: float, caller: Pipe) -> bytes | None:
    """The bytes of the child's vector, or of NaNs; None if the child did not read the whole block.

    The child itself reads the block from the pipe, so the process that forks later children never holds a row.
    """
    receive, send = os.pipe()
    helper = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            _end_with(helper)
            os.close(receive)
            os.close(caller.outgoing)
            _serve_block(function, dimension, time_limit, Pipe(caller.incoming, send))
        finally:
            os._exit(0)  # No exit handlers and no tracebacks.
    os.close(send)
    answers, wall = Pipe(receive, -1), _WALL * time_limit + _GRACE_SECONDS
    has_read = answers.receive(wall, len(_READ), caller) == _READ
    vector = answers.receive(wall, 8 * dimension, caller) if has_read else None
    os.close(receive)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    os.kill(child, signal.SIGKILL)  # It may not have a process group of its own yet.
    os.waitpid(child, 0)
    if vector is None or len(vector) != 8 * dimension:
        vector = np.full(dimension, np.nan).tobytes()
    return vector if has_read else None


def _serve_block(function: BlockFunction, dimension: int, time_limit: float, pipe: Pipe) -> None:
    task = pipe.receive()
    if task is None:
        return
    seed, rows, columns = _TASK.unpack_from(task)
    block = np.frombuffer(task, offset=_TASK.size).reshape(rows, columns).copy()
    del task
    os.close(pipe.incoming)
    seed_globals(seed)
    pipe.send(_READ)
    _limit_cpu(time_limit)
    pipe.send(_vector(function(block), dimension).tobytes())


def _end_with(helper: int) -> None:
    """Ask Linux to end this child when its helper ends; on other systems a sleeping child would stay."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != helper:  # The helper ended before that call.
        os._exit(0)


def _limit_cpu(seconds: float) -> None:
    import resource

    whole = math.ceil(seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (whole, whole))
    if seconds < whole:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _vector(result: object, dimension: int) -> Floats:
    """The result as a vector of this length, or NaN."""
    vector = floats(result).reshape(-1)
    if vector.size != dimension or not np.isfinite(vector).all():
        return np.full(dimension, np.nan)
    return vector
