"""Run a caller's function on blocks of rows, each in its own process, and let nothing but its vector out.

One helper interpreter per worker loads the function once (cloudpickle, so lambdas and closures serve) and
forks a fresh child for each block. Which helper serves a block, and what its random numbers start from, depends on the
block's number alone: a result is a function of its block, random numbers of its own and public things [F10].
Output and warnings go nowhere; a child that raises, dies, hangs or answers with anything but `dimension`
finite numbers gives a row of NaN, and looks the same as any other failure.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import queue
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import Floats, UsageError
from ..kernels.blocks import floats
from ..noise import public_seed, public_words, seed_globals

Progress = Callable[[float], None]
_SHAPE = struct.Struct("<qq")
_SEED_BYTES = 16
_NO, _YES = b"\x00", b"\x01"
_START_SECONDS = 120.0
_GRACE_SECONDS = 5.0
_REHEARSAL_SECONDS = 20.0
_GOLDEN = 0.6180339887498949
_WALL = 4.0
"""Wall-clock limit over CPU limit: stops a child that only waits, not one that was crowded out."""
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def made_up(rows: int, columns: int) -> Floats:
    """Rows of zeros and ones that have nothing to do with any data, for rehearsals."""
    places = np.arange(1, rows * columns + 1)
    block: Floats = np.rint(np.mod(places * _GOLDEN, 1.0)).reshape(rows, columns)
    return block


# The caller's side ---------------------------------------------------------------------------------------


def run_blocks(
    function: Callable[[Floats], Any],
    blocks: Sequence[Floats],
    dimension: int,
    *,
    workers: int | None = None,
    time_limit: float = 60.0,
    seed: bytes | None = None,
    progress: Progress | None = None,
) -> Floats:
    """function(block) for every block, (blocks, dimension); a row of NaN for each that failed.

    time_limit: seconds of CPU time a block may use; four times as much may pass on the clock.
    seed: what the function's random numbers follow from, with the number of the block; a fresh one unless stated.
    """
    program = _pack(function)
    results = np.full((len(blocks), dimension), np.nan)
    count = max(1, min(workers or os.cpu_count() or 1, len(blocks)))
    finished: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    hash_seed, *seeds = map(bytes, public_words(seed or public_seed(), 0, 1 + len(blocks)))
    stop = threading.Event()
    helpers = [_Helper(program, dimension, time_limit, hash_seed) for _ in range(count)]

    def serve(number: int, helper: _Helper) -> None:
        try:
            for index in range(number, len(blocks), count):  # whoever is free next would depend on run times [F10]
                if stop.is_set():
                    break
                results[index] = helper.run(blocks[index], seeds[index])
                finished.put(None)
        except BaseException as error:  # a helper that cannot start: a public fact, raised by the caller
            finished.put(error)
        finally:
            helper.close()

    threads = [threading.Thread(target=serve, args=lane, daemon=True) for lane in enumerate(helpers)]
    try:
        for thread in threads:
            thread.start()
        _collect(finished, len(blocks), progress)
    finally:
        stop.set()
        for thread, helper in zip(threads, helpers, strict=True):
            helper.kill()
            if thread.ident is not None:
                thread.join()
    return results


def _collect(finished: queue.SimpleQueue[BaseException | None], total: int, progress: Progress | None) -> None:
    for done in range(1, total + 1):
        error = finished.get()
        if error is not None:
            raise error
        if progress is not None:
            progress(done / total)


def _pack(function: Callable[[Floats], Any]) -> bytes:
    if not callable(function):
        raise UsageError(f"function must be callable, got {type(function).__name__}.")
    if not hasattr(os, "fork"):
        raise UsageError("blocks run in forked processes, which this operating system does not offer.")
    try:
        import cloudpickle  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise UsageError("this needs cloudpickle. Install it with: pip install cloudpickle") from None
    packed: bytes | None = None
    with contextlib.suppress(Exception):  # its text may quote what the function holds
        packed = cloudpickle.dumps(([p for p in sys.path if isinstance(p, str)], cloudpickle.dumps(function)))
    if packed is None:
        raise UsageError(
            "function could not be packed for another process. It may hold an open file, a lock or a "
            "connection: create such things inside it."
        )
    return packed


class _Helper:
    """One helper interpreter, restarted if a block takes it down."""

    def __init__(self, program: bytes, dimension: int, time_limit: float, hash_seed: bytes) -> None:
        self._program, self._dimension, self._time_limit = program, dimension, time_limit
        self._hash_seed = int.from_bytes(hash_seed[:4], "little")
        self._process: subprocess.Popen[bytes] | None = None
        self._send = self._receive = -1

    def run(self, block: Floats, seed: bytes) -> Floats:
        self._start(*block.shape)
        answer = b""
        with contextlib.suppress(OSError):
            _write(self._send, _YES + seed + _SHAPE.pack(*block.shape) + np.ascontiguousarray(block).tobytes())
            limit = _WALL * self._time_limit + 3 * _GRACE_SECONDS
            answer = _read(self._receive, 8 * self._dimension, limit)
        if len(answer) != 8 * self._dimension:
            self.close()
            return np.full(self._dimension, np.nan)
        return np.frombuffer(answer)

    def _start(self, rows: int, columns: int) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        task_read, self._send = os.pipe()
        self._receive, answer_write = os.pipe()
        settings = {**dict.fromkeys(_ONE_THREAD, "1"), **os.environ, "PYTHONHASHSEED": str(self._hash_seed)}
        command = [
            sys.executable,
            "-c",
            f"from {__name__} import main; main()",
            str(task_read),
            str(answer_write),
        ]
        settings["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if isinstance(p, str))
        with open(os.devnull, "r+b") as nothing:
            self._process = subprocess.Popen(
                command,
                stdin=nothing,
                stdout=nothing,
                stderr=nothing,
                pass_fds=(task_read, answer_write),
                env=settings,
                start_new_session=True,
            )
        os.close(task_read)
        os.close(answer_write)
        start = struct.pack("<qqd", len(self._program), self._dimension, self._time_limit)
        ready = b""
        with contextlib.suppress(OSError):
            _write(self._send, start + _SHAPE.pack(rows, columns) + self._program)
            ready = _read(self._receive, 1, _START_SECONDS)
        if ready != _YES:
            self.close()
            raise UsageError(
                "function could not be loaded in a worker process. Define it in the main script or notebook, "
                "or in a module that can be imported without running anything."
            )

    def close(self) -> None:
        for end in (self._send, self._receive):
            if end >= 0:
                os.close(end)
        self._send = self._receive = -1
        self.kill()
        if self._process is not None:
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        """End the helper at once; safe from any thread."""
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def _write(end: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(end, view) :]


def _read(end: int, size: int, limit: float | None) -> bytes:
    """Up to size bytes; fewer if the other side closes its end or the limit (None: there is none) passes."""
    waiting = select.poll()
    waiting.register(end, select.POLLIN)
    deadline = None if limit is None else time.monotonic() + limit
    parts = bytearray()
    while len(parts) < size:
        left = None if deadline is None else max(0, math.ceil(1000 * (deadline - time.monotonic())))
        if not waiting.poll(left):
            break
        part = os.read(end, min(size - len(parts), 1 << 20))
        if not part:
            break
        parts += part
    return bytes(parts)


# The helper's side ---------------------------------------------------------------------------------------


def main() -> None:
    """Load the function, then fork a child for every block that is announced, until the caller is gone."""
    import pickle
    import resource

    tasks, answers = int(sys.argv[1]), int(sys.argv[2])
    for end in (tasks, answers):
        os.set_inheritable(end, False)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold the block
    size, dimension, time_limit = struct.unpack("<qqd", _exactly(tasks, 24))
    rows, columns = _SHAPE.unpack(_exactly(tasks, _SHAPE.size))
    function = None
    with contextlib.suppress(Exception):
        path, packed = pickle.loads(_exactly(tasks, size))
        sys.path[:] = path
        function = pickle.loads(packed)
    seed_globals(bytes(_SEED_BYTES))  # loads their modules, for every child
    if function is not None:
        _preload(function, made_up(rows, columns), time_limit, (tasks, answers))
    _write(answers, _NO if function is None else _YES)
    while function is not None and _exactly(tasks, 1):
        _write(answers, _in_child(function, dimension, time_limit, tasks, answers))


def _exactly(end: int, size: int) -> bytes:
    data = _read(end, size, None)
    if len(data) < size:
        sys.exit(0)  # the caller is gone
    return data


def _in_child(function: Callable[[Floats], Any], dimension: int, time_limit: float, tasks: int, answers: int) -> bytes:
    """The bytes of the child's vector, or of as many NaNs.

    The child takes the block from the pipe itself: the process that later children are forked from never
    holds a row in its memory.
    """

    def work(send: int) -> None:
        os.close(answers)
        seed_globals(_exactly(tasks, _SEED_BYTES))
        rows, columns = _SHAPE.unpack(_exactly(tasks, _SHAPE.size))
        block = np.frombuffer(_exactly(tasks, 8 * rows * columns)).reshape(rows, columns).copy()
        os.close(tasks)
        _write(send, _YES)
        _limit_cpu(time_limit)
        _write(send, _vector(function(block), dimension).tobytes())

    # one byte more than a vector: a function that writes to the pipe itself only fails its own block
    answer = _forked(work, 8 * dimension + 2, _WALL * time_limit + _GRACE_SECONDS)
    if answer[:1] != _YES:
        sys.exit(0)  # the pipe may hold the rest of a block: the caller starts another helper
    vector = answer[1:]
    return vector if len(vector) == 8 * dimension else np.full(dimension, np.nan).tobytes()


def _preload(function: Callable[[Floats], Any], block: Floats, time_limit: float, private: tuple[int, int]) -> None:
    """Import what a rehearsal on made-up rows imported, so that the children need not do it one by one.

    Only imports happen here; the function itself never runs in the process that the children are forked from.
    """

    def work(send: int) -> None:
        for end in private:
            os.close(end)
        _limit_cpu(min(time_limit, _REHEARSAL_SECONDS))
        with contextlib.suppress(Exception):
            function(block)
        _write(send, "\n".join(sys.modules).encode())

    names = _forked(work, 1 << 24, min(_WALL * time_limit, 2 * _REHEARSAL_SECONDS)).decode(errors="ignore")
    for name in names.split("\n"):
        if name and name not in sys.modules:
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def _forked(work: Callable[[int], None], size: int, limit: float) -> bytes:
    """What a forked child writes (up to size bytes) before it ends or the limit on the clock stops it."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(receive)
            os.setsid()
            work(send)
        finally:
            os._exit(0)  # no exit handlers, no tracebacks
    os.close(send)
    answer = _read(receive, size, limit)
    os.close(receive)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    os.kill(child, signal.SIGKILL)  # in case it had not yet become a group of its own
    os.waitpid(child, 0)
    return answer


def _limit_cpu(seconds: float) -> None:
    import resource

    whole = max(1, math.ceil(seconds))
    resource.setrlimit(resource.RLIMIT_CPU, (whole, whole))
    if seconds < whole:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _vector(result: Any, dimension: int) -> Floats:
    """The result as a vector of the stated length, or NaN."""
    vector = floats(result).reshape(-1)
    if vector.size != dimension or not np.isfinite(vector).all():
        return np.full(dimension, np.nan)
    return vector
