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

from ...errors import DataError, Floats
from ...request.people import People
from ...version import VERSION
from ..arrow import Layout, pieces
from ..engine import UNREADABLE, same_version
from ..identities import storage
from ..people import of_somebody, reduced, row_bits
from ..tables import Block, attempt, block_rows, sealed
from .runtime import FAILED, run
from .source import Batches, SparkSource, kept

SPARK_TYPES = {"int64": "long", "double": "double", "large_binary": "binary"}


class SparkPeople(SparkSource):
    """One row per person, made once and kept in the cluster until `close`."""

    def __init__(self, frame: Any, plan: Layout, key: str, people: People) -> None:
        self.available = self.chosen = self.columns = plan.columns
        self.width, self.places, self.key_place = plan.width, (0,), None
        self.gaps = plan.gaps
        self.by, self.by_places = (), ()
        self.layout = Layout(("row",), plan.columns, embedded=True, single=False)
        self._opened = partial(people_rows, width=self.width)
        self._frame = attempt(FAILED, lambda: kept(_grouped(frame, replace(plan, key=key), people)))
        try:
            counted = self._frame if people.rows_each is None else identities(frame, replace(plan, key=key))
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
    who = SPARK_TYPES[str(storage(plan.key))]
    marked = frame.mapInArrow(_marker(plan, capped), f"who {who}, row binary" + ", hash long" * capped)
    together = marked.repartition("who")
    ordered = together.sortWithinPartitions(*(["who", "hash", "row"] if capped else ["who"]))
    return ordered.mapInArrow(_reducer(plan, people), "row binary")


def identities(frame: Any, plan: Layout) -> Any:
    """The lazy frame of identities, each once."""
    assert plan.key is not None
    who = SPARK_TYPES[str(storage(plan.key))]
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

    from ..exact_sums import content_hashes

    who, rows = of_somebody(keys, block)
    columns = {"who": who.cast(pa.binary()) if pa.types.is_large_binary(who.type) else who, "row": blobs(rows)}
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
        for rows in reduced(checked_order(sealed(UNREADABLE, batches)), plan.width, people):
            for start in range(0, len(rows), step):
                yield pa.RecordBatch.from_arrays([blobs(rows[start : start + step])], names=["row"])

    return work


def checked_order(batches: Batches) -> Batches:
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


def blobs(rows: Floats) -> Any:
    """Each row's bytes as a binary cell."""
    import pyarrow as pa

    offsets = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(8 * rows.shape[1])
    return pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(rows)])


def people_rows(batches: Batches, width: int) -> Iterator[Any]:
    """People's rows on a worker: binary cells as lists of doubles."""
    import pyarrow as pa

    for batch in batches:
        values = pa.array(row_bits(batch.column(0), width).view(np.float64).reshape(-1))
        yield pa.RecordBatch.from_arrays([pa.FixedSizeListArray.from_arrays(values, width)], names=["row"])
