"""Spark frames: partial sums by mapInArrow, merged in the cluster; the driver receives a few rows.

A part is a row of a task's output, never a side effect, so a task that is tried twice, or runs twice at once, counts
once. Every part carries the numbers of the partitions in it, and a partition that came twice would be refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..errors import DataError, UsageError
from ..tables import Block, Progress
from ..tables.arrow import not_a_number
from ..tables.base import attempt, sealed
from ..version import VERSION
from .base import EngineTable, Fold, same_version

MERGERS = 4  # tasks of the merging stage, and rows that the driver receives
_PART = "partition long, partitions binary, part binary"
_FAILED = (
    "The Spark job failed, and nothing was published. Spark's own log says why: the frame's query, a lost worker, or "
    "workers without the same ellipsum, numpy, numba and pyarrow as here."
)
_POLL_SECONDS = 0.2
_groups = itertools.count(1)


def open_spark(data: Any, columns: Any = None, exclude: Iterable[Any] = ()) -> SparkTable:
    """The table of a Spark frame (classic, Connect or pandas-on-Spark)."""
    if type(data).__name__ != "DataFrame":  # a Column answers to every attribute
        raise UsageError(f"data must be a Spark DataFrame, got a Spark {type(data).__name__}.")
    frame = data.to_spark() if type(data).__module__.startswith("pyspark.pandas") else data
    return SparkTable(frame, columns, exclude)


def _arrow_type(field: Any) -> Any:
    """How Spark hands a numeric column over; a usage error for any other."""
    import pyarrow as pa

    kind = field.dataType
    name = str(kind.typeName())
    if name == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    plain = {
        "byte": pa.int8,
        "short": pa.int16,
        "integer": pa.int32,
        "long": pa.int64,
        "float": pa.float32,
        "double": pa.float64,
        "boolean": pa.bool_,
        "void": pa.null,
    }
    if name not in plain:
        raise not_a_number(field.name, str(kind.simpleString()), "data")
    return plain[name]()


class SparkTable(EngineTable):
    """Some columns of a Spark frame. Every pass evaluates the frame; `frame.cache()` where that is costly."""

    def __init__(self, frame: Any, columns: Any = None, exclude: Iterable[Any] = ()) -> None:
        if frame.isStreaming:
            raise UsageError("data is a streaming frame, which has no end. Pass a batch of it.")
        fields = attempt(_FAILED, lambda: list(frame.schema.fields))
        names = [field.name for field in fields]
        super().__init__(names, lambda i: _arrow_type(fields[i]), columns, exclude)
        # By place, since names may be repeated, differ in case only, or hold dots.
        numbered = attempt(_FAILED, lambda: frame.toDF(*[f"c{i}" for i in range(len(names))]))
        self._frame = numbered.select(*[f"c{i}" for i in self.places])

    def rows(self) -> int:
        if self._rows is None:
            self._rows = int(_run(self._frame, self._frame.count))
        return self._rows

    def fold(self, fold: Fold, progress: Progress | None = None) -> bytes | None:
        parts = attempt(_FAILED, lambda: self._frame.mapInArrow(_mapper(fold), _PART))
        merged = attempt(_FAILED, lambda: parts.repartition(MERGERS, "partition").mapInArrow(_merger(fold), _PART))
        rows = _run(self._frame, merged.collect, progress)
        found = attempt(_FAILED, _merged, fold, [(row.partitions, row.part) for row in rows])
        return None if found is None else found[1]

    def batches(self, progress: Progress | None = None) -> Iterator[Block]:
        """All rows through the driver, one partition at a time."""
        dtype = np.dtype("<f4" if self.layout.single else "<f8")
        frame = attempt(_FAILED, lambda: self._frame.mapInArrow(_sender(self.layout, dtype), "block binary"))
        for row in sealed(_FAILED, attempt(_FAILED, frame.toLocalIterator, True)):
            yield np.frombuffer(row.block, dtype).reshape(-1, self.width).astype(dtype.newbyteorder("="), copy=False)
        if progress is not None:
            progress(1.0)


def _mapper(fold: Fold) -> Callable[[Iterator[Any]], Iterator[Any]]:
    version = VERSION

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        same_version(version)
        context = TaskContext.get()
        assert context is not None
        index = context.partitionId()
        yield _row(index, 1 << index, fold.map(index, batches))

    return run


def _merger(fold: Fold) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        found = _merged(fold, _parts(batches))
        if found is not None:
            yield _row(0, *found)

    return run


def _parts(batches: Iterable[Any]) -> Iterator[tuple[bytes, bytes]]:
    for batch in batches:
        partitions, parts = batch.column(1), batch.column(2)
        for i in range(batch.num_rows):
            yield partitions[i].as_py(), parts[i].as_py()


def _merged(fold: Fold, parts: Iterable[tuple[bytes, bytes]]) -> tuple[int, bytes] | None:
    """All parts as one, with the set of its partitions as the bits of a number; one that comes twice is an error."""
    seen = 0

    def fresh() -> Iterator[bytes]:
        nonlocal seen
        for partitions, part in parts:
            these = int.from_bytes(partitions, "little")
            if seen & these:
                raise DataError("a partition was delivered twice.")
            seen |= these
            yield bytes(part)

    source = fresh()
    first = next(source, None)
    if first is None:
        return None
    total = fold.merge(itertools.chain([first], source))
    return seen, total


def _row(partition: int, partitions: int, part: bytes) -> Any:
    import pyarrow as pa

    bits = partitions.to_bytes(-(-partitions.bit_length() // 8), "little")
    columns = [pa.array([partition], pa.int64()), pa.array([bits], pa.binary()), pa.array([part], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["partition", "partitions", "part"])


def _sender(plan: Any, dtype: Any) -> Callable[[Iterator[Any]], Iterator[Any]]:
    version = VERSION

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from ellipsum.engines.base import _blocks

        same_version(version)
        for block in _blocks(batches, plan):
            yield pa.RecordBatch.from_pydict({"block": pa.array([block.astype(dtype).tobytes()], pa.binary())})

    return run


def _run(frame: Any, call: Callable[[], Any], progress: Progress | None = None) -> Any:
    """The result of a Spark action, in a thread of its own: an interrupt cancels its jobs, and progress is shown."""
    context = _context(frame)
    if context is None:
        return attempt(_FAILED, call)
    from pyspark import InheritableThread

    group, outcome = f"ellipsum-{next(_groups)}", []

    def work() -> None:
        try:
            context.setJobGroup(group, "ellipsum")
            outcome.append(call())
        except Exception:  # whatever it says may quote a cell
            pass

    thread = InheritableThread(target=work)
    thread.start()
    try:
        _wait(thread, context, group, progress)
    except BaseException:
        context.cancelJobGroup(group)
        raise
    if not outcome:
        raise DataError(_FAILED)
    return outcome[0]


def _context(frame: Any) -> Any:
    """The Spark context, or None behind Spark Connect."""
    try:
        return frame.sparkSession.sparkContext
    except Exception:
        return None


def _wait(thread: Any, context: Any, group: str, progress: Progress | None) -> None:
    shown = 0.0
    while thread.is_alive():
        thread.join(_POLL_SECONDS)
        if progress is not None:
            shown = max(shown, _share(context, group))
            progress(shown)
    if progress is not None:
        progress(1.0)


def _share(context: Any, group: str) -> float:
    """Tasks done of the group's tasks known so far."""
    tracker = context.statusTracker()
    jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
    stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
    tasks = sum(stage.numTasks for stage in stages if stage is not None)
    done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
    return done / tasks if tasks else 0.0
