"""People with rows in several groups on Spark: one row for each person and group, made where a person's rows meet.

[S7][G4] The rows and groups that come out are those of a local grouping: the same code marks, picks and adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from ...request.groups import Listed
from ...request.people import People
from ...version import VERSION
from ..arrow import Layout, pieces
from ..engine import UNREADABLE, same_version
from ..group_codes import key_table, published
from ..identities import storage
from ..people import reduced
from ..people_groups import cell_type, kept_pairs, marked
from ..tables import attempt, block_rows, sealed
from .people import SPARK_TYPES, blobs, checked_order, identities, people_rows
from .runtime import FAILED, run
from .source import Batches, SparkSource, kept


class SparkGroupedPeople(SparkSource):
    """One row for each person and group, made once and kept in the cluster until `close`; `count` is of people."""

    def __init__(self, frame: Any, plan: Layout, people: People, most: int, listed: Listed | None) -> None:
        self.available = self.chosen = self.columns = plan.columns
        self.width, self.places, self.key_place = plan.width, (0,), None
        self.gaps = plan.gaps
        self.by, self.by_places = plan.by, tuple(range(1, len(plan.by) + 1))
        self.layout = Layout(("row",), plan.columns, embedded=True, single=False, by=plan.by)
        self._opened = partial(_rows, width=self.width, kinds=plan.by)
        self._frame = attempt(FAILED, lambda: kept(_grouped(frame, plan, people, most, listed)))
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


def _grouped(frame: Any, plan: Layout, people: People, most: int, listed: Listed | None) -> Any:
    """The lazy frame of people in groups: binary rows of 8 width bytes, and the cells that name the group."""
    from pyspark.sql.functions import asc_nulls_last

    assert plan.key is not None
    capped = people.max_rows is not None
    groups = [f"g{i}" for i in range(len(plan.by))]
    cells = ", ".join(f"{name} {_spark_type(cell_type(kind))}" for name, kind in zip(groups, plan.by, strict=True))
    who = _spark_type(storage(plan.key))
    schema = f"who {who}, row binary, nowhere boolean, {cells}, pick long" + ", hash long" * capped
    rows = frame.mapInArrow(_marker(plan, listed, capped), schema)
    ordered = ["who", "nowhere", "pick", *map(asc_nulls_last, groups), *(["hash", "row"] if capped else [])]
    together = rows.repartition("who").sortWithinPartitions(*ordered)
    return together.select("who", "row", "nowhere", *groups).mapInArrow(
        _reducer(plan, people, most), f"row binary, {cells}"
    )


def _spark_type(kind: Any) -> str:
    return SPARK_TYPES[str(kind)]


def _marker(plan: Layout, listed: Listed | None, capped: bool) -> Callable[[Batches], Batches]:
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


def _reducer(plan: Layout, people: People, most: int) -> Callable[[Batches], Batches]:
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
