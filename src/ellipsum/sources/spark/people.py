"""People with several rows on Spark: a shuffle brings the rows of each person together, and they become one row.

[S7] The rows are the same as those of a local grouping: the same code computes identities, rows and their sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError, Floats
from ...request.groups import Listed
from ...request.people import People
from ...version import VERSION
from ..arrow import Layout
from ..engine import UNREADABLE, check_version, read_pieces
from ..group_codes import key_table
from ..group_labels import publish_labels
from ..local import block_rows
from ..person_rows import PersonSort, count_pairs, reduce_people, row_bits
from ..protocol import seal
from .runtime import Batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SPARK_TYPES = {"int64": "long", "double": "double", "large_binary": "binary", "bool": "boolean"}


def _person_sort(plan: Layout, is_capped: bool) -> PersonSort:
    assert plan.key is not None
    return PersonSort(plan.key, plan.by, bool(plan.by), is_capped)


def gather_rows(frame: DataFrame, plan: Layout, people: People, most: int, listed: Listed | None) -> DataFrame:
    """Make the lazy frame of people: binary rows of 8 width bytes and, with groups, the cells of the group."""
    from pyspark.sql.functions import asc_nulls_last

    sort = _person_sort(plan, people.max_rows is not None)
    types = sort.types(pa.large_binary())
    groups = {name: kind for name, kind in types.items() if name.startswith("g")}
    order = [asc_nulls_last(name) if name in groups else name for name in sort.order]
    together = _marked_frame(frame, plan, sort, listed).repartition("who").sortWithinPartitions(*order)
    reducer = _reducer(plan, people, most)
    return together.select(*sort.output).mapInArrow(reducer, _schema({"row": types["row"], **groups}))


def _marked_frame(frame: DataFrame, plan: Layout, sort: PersonSort, listed: Listed | None) -> DataFrame:
    """Make the lazy frame of rows with the columns they are sorted by."""
    return frame.mapInArrow(_marker(plan, sort, listed), _schema(sort.types(pa.large_binary())))


def find_identities(frame: DataFrame, plan: Layout) -> DataFrame:
    """Make the lazy frame of distinct identities."""
    count = len(plan.names)
    owners = frame.select(*[name for i, name in enumerate(frame.columns) if not 0 <= i - count < len(plan.by)])
    plan = replace(plan, by=())
    return _marked_frame(owners, plan, _person_sort(plan, False), None).select("who").distinct()


def _schema(types: dict[str, pa.DataType]) -> str:
    return ", ".join(f"{name} {SPARK_TYPES[str(kind)]}" for name, kind in types.items())


def _marker(plan: Layout, sort: PersonSort, listed: Listed | None) -> Callable[[Batches], Batches]:
    """Add the columns to sort by. They depend on the row alone, so a repeated task sends the same ones."""
    version, names = VERSION, list(sort.types(pa.large_binary()))

    def work(batches: Batches) -> Batches:
        check_version(version)
        table = None if listed is None else key_table(plan.by, listed)
        for cells, block in read_pieces(batches, plan):
            columns, rows = sort.columns(cells, block, table)
            columns["row"] = to_blobs(rows)
            yield pa.RecordBatch.from_arrays([_short(columns[name]) for name in names], names=names)

    return work


def _short(cells: pa.Array) -> pa.Array:
    """Convert binary cells to the type that Spark uses."""
    return cells.cast(pa.binary()) if pa.types.is_large_binary(cells.type) else cells


def _reducer(plan: Layout, people: People, most: int) -> Callable[[Batches], Batches]:
    """Make one row for each person (and group) of a partition that is sorted by person, then group."""
    version = VERSION

    def work(batches: Batches) -> Batches:
        check_version(version)
        begun: list[pa.Array | None] = [None] * len(plan.by)
        ordered = check_order(seal(UNREADABLE, batches))
        pairs = _append_groups(count_pairs(ordered, most), begun) if plan.by else ordered
        step = block_rows(plan.width)
        for rows in reduce_people(pairs, plan.width, people):
            for start in range(0, len(rows), step):
                yield _with_groups(rows[start : start + step], begun)

    return work


def check_order(batches: Batches) -> Batches:
    """Yield the batches. It is an error if identities decrease, although the engine promises to sort them."""
    last: list[pa.Array] = []
    for batch in batches:
        keys = pa.concat_arrays([*last, batch.column(0)])
        if pc.any(pc.less(keys.slice(1), keys.slice(0, max(len(keys) - 1, 0)))).as_py():
            raise DataError("The rows of one person arrived separately.")
        last = [keys.slice(len(keys) - 1)] if len(keys) else last
        yield batch


def to_blobs(rows: Floats) -> pa.Array:
    """Convert each row to a binary cell."""
    offsets = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(8 * rows.shape[1])
    return pa.Array.from_buffers(
        pa.binary(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(rows))]
    )


def _append_groups(batches: Iterator[tuple[list[pa.Array], pa.RecordBatch]], begun: list[pa.Array | None]) -> Batches:
    """Yield the batches of pairs. Append the cells of the groups that begin in them to `begun`."""
    for labels, pairs in batches:
        for i, cells in enumerate(labels):
            begun[i] = cells if begun[i] is None else pa.concat_arrays([begun[i], cells])
        yield pairs


def _with_groups(rows: Floats, begun: list[pa.Array]) -> pa.RecordBatch:
    """Join complete rows with their groups. These are the first in `begun` and are removed from it."""
    cells = [column.slice(0, len(rows)) for column in begun]
    begun[:] = [column.slice(len(rows)) for column in begun]
    return pa.RecordBatch.from_arrays([to_blobs(rows), *cells], names=["row", *[f"g{i}" for i in range(len(cells))]])


def unpack_rows(batches: Batches, width: int, kinds: tuple[str, ...]) -> Batches:
    """Convert binary cells to lists of doubles, and the cells of groups to their own types, on a worker."""
    for batch in batches:
        values = pa.array(row_bits(batch.column(0), width).view(np.float64).reshape(-1))
        cells = [batch.column(i + 1) for i in range(len(kinds))]
        labels = [column.cast(pa.large_binary()) if pa.types.is_binary(column.type) else column for column in cells]
        columns = [pa.FixedSizeListArray.from_arrays(values, width), *publish_labels(labels, kinds)]
        yield pa.RecordBatch.from_arrays(columns, names=[str(i) for i in range(len(columns))])
