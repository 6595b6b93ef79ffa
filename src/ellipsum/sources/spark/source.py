"""Spark frames: tasks make partial sums by mapInArrow, and the driver or, if they are long, the cluster merges them.

A part is a row of a task's output, never a side effect. So a task that is repeated, or runs twice at the same time,
counts once. Every part has the numbers of its partitions. A partition that is delivered twice is an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...errors import DataError, UsageError
from ...kernels.blocks import Block
from ...request.groups import Listed
from ...request.people import People
from ...version import VERSION
from ..arrow import Layout
from ..engine import EngineSource, Fold, check_version, read_blocks
from ..identities import key_kind
from ..protocol import BlockWork, Progress, Result, attempt, seal
from ..selection import EVERYTHING, Selection
from .people import find_identities, gather_rows, unpack_rows
from .runtime import FAILED, Batches, label_type, number_type, persist, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Unpack = Callable[[Batches], Batches]
MERGERS = 4  # tasks of the merging stage, and rows that the driver then receives
SHORT_BYTES = 2048  # parts up to this length are merged by the driver: a second stage would cost more
_PART = "partition long, partitions binary, part binary"


class SparkSource(EngineSource):
    """Some columns of a Spark frame. Every pass evaluates the frame: use `frame.cache()` if that is expensive."""

    def __init__(self, frame: DataFrame, selection: Selection = EVERYTHING) -> None:
        if frame.isStreaming:
            raise UsageError("data is a streaming frame, which has no end. Pass a batch of it.")
        fields = attempt(FAILED, lambda: list(frame.schema.fields))
        names = [field.name for field in fields]
        super().__init__(names, lambda i: number_type(fields[i]), selection, lambda i: label_type(fields[i]))
        key = None if self.key_place is None else fields[self.key_place]
        self._key = None if key is None else key_kind(label_type(key), key.name, "data")
        # By position, because names may be repeated, differ in case only, or contain dots.
        self._numbered = attempt(FAILED, lambda: frame.toDF(*[f"c{i}" for i in range(len(names))]))
        self._frame = self._numbered.select(*[f"c{i}" for i in (*self.places, *self.by_places)])
        self._unpack: Unpack = iter

    def count(self) -> int:
        if self._rows is None:
            self._rows = int(run(self._frame, self._frame.count))
        return self._rows

    def fold(self, fold: Fold, progress: Progress | None = None) -> bytes | None:
        parts = attempt(FAILED, lambda: self._frame.mapInArrow(_mapper(fold, self._unpack), _PART))
        if fold.part_bytes > SHORT_BYTES:
            spread = attempt(FAILED, lambda: parts.repartition(MERGERS, "partition"))
            parts = attempt(FAILED, lambda: spread.mapInArrow(_merger(fold), _PART))
        rows = run(self._frame, parts.collect, progress)
        merged = attempt(FAILED, _merged, fold, [(row.partition, row.partitions, row.part) for row in rows])
        return None if merged is None else merged[1]

    def each(self, work: BlockWork[Result], most_rows: int, progress: Progress | None = None) -> Iterator[Result]:
        """[S8] The results are made and kept in the cluster. The driver reads one partition of them at a time."""
        worker = _worker(work.packed, most_rows, self.layout, self._unpack)
        results = attempt(FAILED, lambda: persist(self._frame.mapInArrow(worker, "result binary")))
        try:
            expected = run(self._frame, results.count, progress)
            for row in seal(FAILED, attempt(FAILED, results.toLocalIterator, True)):
                expected -= 1
                yield work.unpack(bytes(row.result))
            if expected:
                raise DataError(FAILED)
        finally:
            with suppress(Exception):
                results.unpersist()

    def grouped(self, people: People, most: int | None = None, listed: Listed | None = None) -> SparkSource:
        """[S7][G4] The rows of each person meet in one task, which makes one row of them, or one in each group."""
        assert self._key is not None
        by_places = () if most is None and self.coded is None else self.by_places
        frame = self._numbered.select(*[f"c{i}" for i in (*self.places, *by_places, self.key_place)])
        plan = replace(self.layout, key=self._key, by=() if most is None else self.layout.by)
        return SparkPeople(frame, plan, people, most, listed)


class SparkPeople(SparkSource):
    """One row per person, or person and group. The rows are made once and kept in the cluster until `close`."""

    def __init__(
        self, frame: DataFrame, plan: Layout, people: People, most: int | None = None, listed: Listed | None = None
    ) -> None:
        self.available = self.chosen = self.columns = plan.columns
        self.width, self.places, self.key_place = plan.width, (0,), None
        self.nullable = plan.nullable
        self.by, self.by_places = plan.by, tuple(range(1, len(plan.by) + 1))
        self.layout = Layout(("row",), plan.columns, embedded=True, single=False, by=plan.by)
        self._unpack = partial(unpack_rows, width=self.width, kinds=plan.by)
        self._frame = attempt(FAILED, lambda: persist(gather_rows(frame, plan, people, most or 1, listed)))
        try:
            one_each = not plan.by and people.rows_each is None
            persons = self._frame if one_each else attempt(FAILED, lambda: find_identities(frame, plan))
            self._rows = int(run(persons, persons.count))
        except BaseException:  # an interrupt too
            self.close()
            raise

    def close(self) -> None:
        with suppress(Exception):
            self._frame.unpersist()


def open_spark(data: Any, selection: Selection = EVERYTHING) -> SparkSource:
    """Open a Spark frame (classic, Connect or pandas-on-Spark)."""
    if type(data).__name__ != "DataFrame":  # a Column has every attribute
        raise UsageError(f"data must be a Spark DataFrame, got a Spark {type(data).__name__}.")
    frame = data.to_spark() if type(data).__module__.startswith("pyspark.pandas") else data
    return SparkSource(frame, selection)


def _mapper(fold: Fold, unpack: Unpack) -> Callable[[Batches], Batches]:
    version = VERSION

    def work(batches: Batches) -> Batches:
        from pyspark import TaskContext

        check_version(version)
        context = TaskContext.get()
        assert context is not None
        index = context.partitionId()
        yield _row(index, b"", fold.map(index, unpack(batches)))

    return work


def _merger(fold: Fold) -> Callable[[Batches], Batches]:
    def work(batches: Batches) -> Batches:
        merged = _merged(fold, _parts(batches))
        if merged is not None:
            yield _row(0, *merged)

    return work


def _worker(
    result: Callable[[Block], bytes], most_rows: int, plan: Layout, unpack: Unpack
) -> Callable[[Batches], Batches]:
    version = VERSION

    def work(batches: Batches) -> Batches:
        check_version(version)
        for block in read_blocks(unpack(batches), plan):
            for start in range(0, len(block), most_rows):
                packed = result(block[start : start + most_rows])
                yield pa.RecordBatch.from_arrays([pa.array([packed], pa.binary())], names=["result"])

    return work


def _parts(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes, bytes]]:
    for batch in batches:
        for i in range(batch.num_rows):
            partition, partitions, part = (column[i].as_py() for column in batch.columns)
            yield partition, partitions, part


def _merged(fold: Fold, parts: Iterable[tuple[int, bytes, bytes]]) -> tuple[bytes, bytes] | None:
    """Merge all parts, and the sets of their partitions. A partition that occurs twice is an error.

    The bits of a number represent a set. An empty one means the single partition beside it.
    """
    seen = 0

    def new_parts() -> Iterator[bytes]:
        nonlocal seen
        for partition, partitions, part in parts:
            these = int.from_bytes(partitions, "little") or 1 << partition
            if seen & these:
                raise DataError("A partition was delivered twice.")
            seen |= these
            yield bytes(part)

    source = new_parts()
    first = next(source, None)
    if first is None:
        return None
    total = fold.merge(itertools.chain([first], source))
    return seen.to_bytes(-(-seen.bit_length() // 8), "little"), total


def _row(partition: int, partitions: bytes, part: bytes) -> pa.RecordBatch:
    columns = [pa.array([partition], pa.int64()), pa.array([partitions], pa.binary()), pa.array([part], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["partition", "partitions", "part"])
