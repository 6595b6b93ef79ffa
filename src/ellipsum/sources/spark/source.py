"""Spark frames: partial sums by mapInArrow; the driver receives short parts, or a few rows merged in the cluster.

A part is a row of a task's output, never a side effect, so a task that is tried twice, or runs twice at once, counts
once. Every part carries the numbers of the partitions in it, and a partition that came twice would be refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ...errors import DataError, UsageError
from ...kernels.blocks import Block
from ...version import VERSION
from ..arrow import Layout
from ..engine import EngineSource, Fold, blocks_of, same_version
from ..progress import Progress
from ..protocol import BlockWork, Result
from ..sealing import attempt, sealed
from ..selection import EVERYTHING, Selection
from .runtime import FAILED, key_of, label_type, number_type, run

MERGERS = 4  # tasks of the merging stage, and rows that the driver then receives
SHORT_BYTES = 2048  # parts up to this length are merged by the driver: a second stage would cost more
_PART = "partition long, partitions binary, part binary"
Batches = Iterator[Any]
Opened = Callable[[Batches], Batches]


class SparkSource(EngineSource):
    """Some columns of a Spark frame. Every pass evaluates the frame; `frame.cache()` where that is costly."""

    def __init__(self, frame: Any, selection: Selection = EVERYTHING) -> None:
        if frame.isStreaming:
            raise UsageError("data is a streaming frame, which has no end. Pass a batch of it.")
        fields = attempt(FAILED, lambda: list(frame.schema.fields))
        names = [field.name for field in fields]
        super().__init__(names, lambda i: number_type(fields[i]), selection, lambda i: label_type(fields[i]))
        self._key = None if self.key_place is None else key_of(fields[self.key_place])
        # By place, since names may be repeated, differ in case only, or hold dots.
        self._numbered = attempt(FAILED, lambda: frame.toDF(*[f"c{i}" for i in range(len(names))]))
        self._frame = self._numbered.select(*[f"c{i}" for i in (*self.places, *self.by_places)])
        self._opened: Opened = iter

    def count(self) -> int:
        if self._rows is None:
            self._rows = int(run(self._frame, self._frame.count))
        return self._rows

    def fold(self, fold: Fold, progress: Progress | None = None) -> bytes | None:
        parts = attempt(FAILED, lambda: self._frame.mapInArrow(_mapper(fold, self._opened), _PART))
        if fold.part_bytes > SHORT_BYTES:
            spread = attempt(FAILED, lambda: parts.repartition(MERGERS, "partition"))
            parts = attempt(FAILED, lambda: spread.mapInArrow(_merger(fold), _PART))
        rows = run(self._frame, parts.collect, progress)
        merged = attempt(FAILED, _merged, fold, [(row.partition, row.partitions, row.part) for row in rows])
        return None if merged is None else merged[1]

    def each(self, work: BlockWork[Result], most_rows: int, progress: Progress | None = None) -> Iterator[Result]:
        """[S8] Made in the cluster and kept there until the driver has taken them, a partition's at a time."""
        worker = _worker(work.packed, most_rows, self.layout, self._opened)
        results = attempt(FAILED, lambda: kept(self._frame.mapInArrow(worker, "result binary")))
        try:
            expected = run(self._frame, results.count, progress)
            for row in sealed(FAILED, attempt(FAILED, results.toLocalIterator, True)):
                expected -= 1
                yield work.unpack(bytes(row.result))
            if expected:
                raise DataError(FAILED)
        finally:
            with suppress(Exception):
                results.unpersist()


def kept(frame: Any) -> Any:
    """The frame, to be evaluated once: in the executors' memory, and on their disks where that is full.

    Where a platform keeps no frames it is evaluated for each pass, to the same rows.
    """
    from pyspark import StorageLevel

    with suppress(Exception), _merging_small_partitions(frame.sparkSession.conf):
        return frame.persist(StorageLevel.MEMORY_AND_DISK)
    return frame


@contextmanager
def _merging_small_partitions(settings: Any) -> Iterator[None]:
    """What adaptive execution does for other frames, for one that is kept from here on; only speed depends on it."""
    name = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"
    before = None
    with suppress(Exception):  # a platform may not let it be set
        before = settings.get(name, None)
        settings.set(name, "true")
    try:
        yield
    finally:
        with suppress(Exception):
            settings.unset(name) if before is None else settings.set(name, before)


def _mapper(fold: Fold, opened: Opened) -> Callable[[Batches], Batches]:
    version = VERSION

    def work(batches: Batches) -> Batches:
        from pyspark import TaskContext

        same_version(version)
        context = TaskContext.get()
        assert context is not None
        index = context.partitionId()
        yield _row(index, b"", fold.map(index, opened(batches)))

    return work


def _merger(fold: Fold) -> Callable[[Batches], Batches]:
    def work(batches: Batches) -> Batches:
        merged = _merged(fold, _parts(batches))
        if merged is not None:
            yield _row(0, *merged)

    return work


def _worker(
    result: Callable[[Block], bytes], most_rows: int, plan: Layout, opened: Opened
) -> Callable[[Batches], Batches]:
    version = VERSION

    def work(batches: Batches) -> Batches:
        import pyarrow as pa

        same_version(version)
        for block in blocks_of(opened(batches), plan):
            for start in range(0, len(block), most_rows):
                packed = result(block[start : start + most_rows])
                yield pa.RecordBatch.from_arrays([pa.array([packed], pa.binary())], names=["result"])

    return work


def _parts(batches: Iterable[Any]) -> Iterator[tuple[int, bytes, bytes]]:
    for batch in batches:
        for i in range(batch.num_rows):
            partition, partitions, part = (column[i].as_py() for column in batch.columns)
            yield partition, partitions, part


def _merged(fold: Fold, parts: Iterable[tuple[int, bytes, bytes]]) -> tuple[bytes, bytes] | None:
    """The set of partitions in all parts, and their merged part; a partition that comes twice is an error.

    A set is the bits of a number; an empty one stands for the single partition beside it.
    """
    seen = 0

    def fresh() -> Iterator[bytes]:
        nonlocal seen
        for partition, partitions, part in parts:
            these = int.from_bytes(partitions, "little") or 1 << partition
            if seen & these:
                raise DataError("a partition was delivered twice.")
            seen |= these
            yield bytes(part)

    source = fresh()
    first = next(source, None)
    if first is None:
        return None
    total = fold.merge(itertools.chain([first], source))
    return seen.to_bytes(-(-seen.bit_length() // 8), "little"), total


def _row(partition: int, partitions: bytes, part: bytes) -> Any:
    import pyarrow as pa

    columns = [pa.array([partition], pa.int64()), pa.array([partitions], pa.binary()), pa.array([part], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["partition", "partitions", "part"])
