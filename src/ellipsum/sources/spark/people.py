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

from ...errors import DataError, Floats, UsageError
from ...kernels.blocks import Block
from ...request.groups import Listed
from ...request.people import People
from ...version import VERSION
from ..arrow import Layout, pieces
from ..engine import UNREADABLE, same_version
from ..group_codes import key_table
from ..group_labels import published
from ..identities import storage
from ..people import of_somebody, reduced, row_bits
from ..people_groups import cell_type, kept_pairs, marked
from ..protocol import block_rows
from ..sealing import attempt, sealed
from ..selection import EVERYTHING, Selection
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


class SparkGroupedPeople(SparkSource):
    """One row for each person and group, made once and kept in the cluster until `close`; `count` is of people."""

    def __init__(self, frame: Any, plan: Layout, people: People, most: int, listed: Listed | None) -> None:
        self.available = self.chosen = self.columns = plan.columns
        self.width, self.places, self.key_place = plan.width, (0,), None
        self.gaps = plan.gaps
        self.by, self.by_places = plan.by, tuple(range(1, len(plan.by) + 1))
        self.layout = Layout(("row",), plan.columns, embedded=True, single=False, by=plan.by)
        self._opened = partial(_rows, width=self.width, kinds=plan.by)
        self._frame = attempt(FAILED, lambda: kept(_gather_in_groups(frame, plan, people, most, listed)))
        owners = frame.select(*[name for i, name in enumerate(frame.columns) if i not in _labels(plan)])
        try:
            counted = attempt(FAILED, lambda: identities(owners, replace(plan, by=())))
            self._rows = int(run(counted, counted.count))
        except BaseException:  # an interrupt too
            self.close()
            raise

    def close(self) -> None:
        with suppress(Exception):
            self._frame.unpersist()


def _labels(plan: Layout) -> range:
    """The places of the columns that name groups, in a frame that has them behind the others."""
    return range(len(plan.names), len(plan.names) + len(plan.by))


def _gather_in_groups(frame: Any, plan: Layout, people: People, most: int, listed: Listed | None) -> Any:
    """The lazy frame of people in groups: binary rows of 8 width bytes, and the cells that name the group."""
    from pyspark.sql.functions import asc_nulls_last

    assert plan.key is not None
    capped = people.max_rows is not None
    groups = [f"g{i}" for i in range(len(plan.by))]
    cells = ", ".join(f"{name} {_spark_type(cell_type(kind))}" for name, kind in zip(groups, plan.by, strict=True))
    who = _spark_type(storage(plan.key))
    schema = f"who {who}, row binary, nowhere boolean, {cells}, pick long" + ", hash long" * capped
    rows = frame.mapInArrow(_mark_groups(plan, listed, capped), schema)
    ordered = ["who", "nowhere", "pick", *map(asc_nulls_last, groups), *(["hash", "row"] if capped else [])]
    together = rows.repartition("who").sortWithinPartitions(*ordered)
    return together.select("who", "row", "nowhere", *groups).mapInArrow(
        _reduce_groups(plan, people, most), f"row binary, {cells}"
    )


def _spark_type(kind: Any) -> str:
    return SPARK_TYPES[str(kind)]


def _mark_groups(plan: Layout, listed: Listed | None, capped: bool) -> Callable[[Batches], Batches]:
    """Rows with what they are sorted by: functions of the row alone, so that a repeated task sends the same ones."""
    version = VERSION

    def work(batches: Batches) -> Batches:
        import pyarrow as pa

        same_version(version)
        table = None if listed is None else key_table(plan.by, listed)
        places, count = range(len(plan.names) + len(plan.by) + 1), len(plan.by)
        names = ["who", "row", "nowhere", *[f"g{i}" for i in range(count)], "pick", *(["hash"] if capped else [])]
        for batch in sealed(UNREADABLE, batches):
            for keys, block in sealed(UNREADABLE, pieces(batch, places, plan)):
                columns, rows = marked(keys, block, count, table, capped)
                columns["row"] = blobs(rows)
                yield pa.RecordBatch.from_arrays([_short(columns[name]) for name in names], names=names)

    return work


def _short(cells: Any) -> Any:
    """Binary cells as Spark has them."""
    import pyarrow as pa

    return cells.cast(pa.binary()) if pa.types.is_large_binary(cells.type) else cells


def _reduce_groups(plan: Layout, people: People, most: int) -> Callable[[Batches], Batches]:
    """One row for each person and group of a partition, whose rows are sorted by person, then group."""
    version = VERSION

    def work(batches: Batches) -> Batches:
        same_version(version)
        begun: list[Any] = [None] * len(plan.by)
        pairs = _noted(kept_pairs(checked_order(sealed(UNREADABLE, batches)), most), begun)
        step = block_rows(plan.width)
        for rows in reduced(pairs, plan.width, people):
            for start in range(0, len(rows), step):
                yield _with_groups(rows[start : start + step], begun)

    return work


def _noted(found: Iterator[tuple[list[Any], Any]], begun: list[Any]) -> Iterator[Any]:
    """The batches of pairs; the groups of those that begin are put behind what is in `begun`."""
    import pyarrow as pa

    for labels, pairs in found:
        for i, cells in enumerate(labels):
            begun[i] = cells if begun[i] is None else pa.concat_arrays([begun[i], cells])
        yield pairs


def _with_groups(rows: Any, begun: list[Any]) -> Any:
    """Rows that are complete, with the first groups that were begun, which are theirs and are taken away."""
    import pyarrow as pa

    cells = [column.slice(0, len(rows)) for column in begun]
    begun[:] = [column.slice(len(rows)) for column in begun]
    return pa.RecordBatch.from_arrays([blobs(rows), *cells], names=["row", *[f"g{i}" for i in range(len(cells))]])


def _rows(batches: Batches, width: int, kinds: tuple[str, ...]) -> Iterator[Any]:
    """Rows on a worker: binary cells as lists of doubles, and the cells of their groups in their own types."""
    import pyarrow as pa

    for batch in batches:
        (rows,) = people_rows(iter([batch]), width)
        cells = [batch.column(i + 1) for i in range(len(kinds))]
        labels = [column.cast(pa.large_binary()) if pa.types.is_binary(column.type) else column for column in cells]
        columns = [rows.column(0), *published(labels, kinds)]
        yield pa.RecordBatch.from_arrays(columns, names=[str(i) for i in range(len(columns))])


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

    def grouped_by(self, people: People, most: int, listed: Listed | None) -> SparkSource:
        """[S7][G4] The rows of each person meet in one task, which makes one row of them in each group."""
        assert self._key is not None
        frame = self._numbered.select(*[f"c{i}" for i in (*self.places, *self.by_places, self.key_place)])
        return SparkGroupedPeople(frame, replace(self.layout, key=self._key), people, most, listed)
