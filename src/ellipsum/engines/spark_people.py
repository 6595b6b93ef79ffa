"""People with many rows on Spark: a shuffle brings a person's rows together, and they are made one where they meet.

[S7] The rows that come out are those of a local grouping: the same code makes identities, rows and their sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..errors import DataError, Floats, UsageError
from ..people import People
from ..tables import Block
from ..tables.arrow import Layout, pieces
from ..tables.base import attempt, block_rows, sealed
from ..tables.grouping import of_somebody, reduced, row_bits
from ..tables.keys import storage
from ..tables.selection import EVERYTHING, Selection
from ..version import VERSION
from .base import UNREADABLE, same_version
from .spark import Batches, SparkSource, kept
from .spark_run import FAILED, run

_SPARK_TYPES = {"int64": "long", "double": "double", "large_binary": "binary"}


def open_spark(data: Any, selection: Selection = EVERYTHING) -> SparkSource:
    """The source of a Spark frame (classic, Connect or pandas-on-Spark)."""
    if type(data).__name__ != "DataFrame":  # a Column answers to every attribute
        raise UsageError(f"data must be a Spark DataFrame, got a Spark {type(data).__name__}.")
    frame = data.to_spark() if type(data).__module__.startswith("pyspark.pandas") else data
    return SparkRows(frame, selection)


class SparkRows(SparkSource):
    """The rows of a frame, which may be brought together by person."""

    def grouped(self, people: People) -> SparkSource:
        """[S7] The rows of each person meet in one task, which makes one row of them."""
        assert self._key is not None
        frame = self._numbered.select(*[f"c{i}" for i in (*self.places, self.key_place)])
        return SparkPeople(frame, replace(self.layout, by=()), self._key, people)


class SparkPeople(SparkSource):
    """One row per person, made once and kept in the cluster until `close`."""

    def __init__(self, frame: Any, plan: Layout, key: str, people: People) -> None:
        self.available = self.chosen = self.columns = plan.columns
        self.width, self.places, self.key_place = plan.width, (0,), None
        self.gaps = plan.gaps
        self.by, self.by_places = (), ()
        self.layout = Layout(("row",), plan.columns, embedded=True, single=False)
        self._opened = partial(_rows, width=self.width)
        self._frame = attempt(FAILED, lambda: kept(_grouped(frame, replace(plan, key=key), people)))
        try:
            counted = self._frame if people.rows_each is None else _people(frame, replace(plan, key=key))
            self._rows = int(run(counted, counted.count))
        except BaseException:  # an interrupt too
            self.close()
            raise

    def close(self) -> None:
        with suppress(Exception):
            self._frame.unpersist()


def _grouped(frame: Any, plan: Layout, people: People) -> Any:
    """The lazy frame of people: binary rows of 8 width bytes."""
    assert plan.key is not None
    capped = people.max_rows is not None
    who = _SPARK_TYPES[str(storage(plan.key))]
    marked = frame.mapInArrow(_marker(plan, capped), f"who {who}, row binary" + ", hash long" * capped)
    together = marked.repartition("who")
    ordered = together.sortWithinPartitions(*(["who", "hash", "row"] if capped else ["who"]))
    return ordered.mapInArrow(_reducer(plan, people), "row binary")


def _people(frame: Any, plan: Layout) -> Any:
    """The lazy frame of identities, each once."""
    assert plan.key is not None
    who = _SPARK_TYPES[str(storage(plan.key))]
    return frame.mapInArrow(_marker(plan, False), f"who {who}, row binary").select("who").distinct()


def _marker(plan: Layout, capped: bool) -> Callable[[Batches], Batches]:
    """Rows as (who, row[, hash]): functions of the row alone, so that a repeated task sends the same ones."""
    version = VERSION

    def work(batches: Batches) -> Batches:
        same_version(version)
        places = range(len(plan.names) + 1)
        for batch in sealed(UNREADABLE, batches):
            for keys, block in sealed(UNREADABLE, pieces(batch, places, plan)):
                yield _marked(keys, block, capped)

    return work


def _marked(keys: Any, block: Block, capped: bool) -> Any:
    import pyarrow as pa

    from ..tables.grouping_kernels import content_hashes

    who, rows = of_somebody(keys, block)
    columns = {"who": who.cast(pa.binary()) if pa.types.is_large_binary(who.type) else who, "row": _blobs(rows)}
    if capped:
        columns["hash"] = pa.array(content_hashes(rows.view(np.int64)))
    return pa.RecordBatch.from_pydict(columns)


def _reducer(plan: Layout, people: People) -> Callable[[Batches], Batches]:
    """One row for each person of a partition, whose rows are sorted by person."""
    version = VERSION

    def work(batches: Batches) -> Batches:
        import pyarrow as pa

        same_version(version)
        step = block_rows(plan.width)
        for rows in reduced(_sorted(sealed(UNREADABLE, batches)), plan.width, people):
            for start in range(0, len(rows), step):
                yield pa.RecordBatch.from_arrays([_blobs(rows[start : start + step])], names=["row"])

    return work


def _sorted(batches: Batches) -> Batches:
    """The batches, with a second look at what the engine promised: identities that only rise."""
    import pyarrow as pa
    import pyarrow.compute as pc

    last: list[Any] = []
    for batch in batches:
        keys = pa.concat_arrays([*last, batch.column(0)])
        if pc.any(pc.less(keys.slice(1), keys.slice(0, max(len(keys) - 1, 0)))).as_py():
            raise DataError("rows of a person came apart.")
        last = [keys.slice(len(keys) - 1)] if len(keys) else last
        yield batch


def _blobs(rows: Floats) -> Any:
    """Each row's bytes as a binary cell."""
    import pyarrow as pa

    offsets = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(8 * rows.shape[1])
    return pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(rows)])


def _rows(batches: Batches, width: int) -> Iterator[Any]:
    """People's rows on a worker: binary cells as lists of doubles."""
    import pyarrow as pa

    for batch in batches:
        values = pa.array(row_bits(batch.column(0), width).view(np.float64).reshape(-1))
        yield pa.RecordBatch.from_arrays([pa.FixedSizeListArray.from_arrays(values, width)], names=["row"])
