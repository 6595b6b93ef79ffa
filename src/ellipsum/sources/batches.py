"""Tables in several parts: iterables of batches, tables one after the other, and labels beside a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain, islice

import pyarrow as pa
from numpy.typing import ArrayLike

from ..errors import DataError, UsageError
from ..util.threads import chain_ahead
from .arrow import ArrowTable, copy_piece
from .group_labels import canonicalize_labels, join_cells, label_kind
from .local import Piece, PieceReader, Table
from .protocol import Progress, scale_progress, seal
from .python_objects import label_field
from .selection import Selection, as_names

_FAILED = "The iterable of batches raised an error of its own. Run it by itself to see which."


class BatchesTable(Table):
    """An iterable of batches. An iterator or generator can be read once, other iterables as often as needed.

    The first batch is read when the table is opened, because it determines the columns. The batches may come from a
    query or a shuffling loader, so the order of their rows is not public [T9].
    """

    def __init__(
        self, data: Iterable[object], selection: Selection, open_batch: Callable[[object, Selection], Table]
    ) -> None:
        self._selection, self._open_batch = selection, open_batch
        self.reopenable = not isinstance(data, Iterator)
        source = seal(_FAILED, data)
        first = list(islice(source, 1))
        self._data = data if self.reopenable else chain(first, source)
        self._describe_like(self._open(first[0]) if first else _open_nothing(selection.named()))
        self.nullable = (True,) * self.width  # later batches may be of other types

    def _open(self, batch: object) -> Table:
        if isinstance(batch, (str, bytes)) or (isinstance(batch, Iterator) and not _supports_arrow(batch)):
            raise UsageError("A batch must be a two-dimensional array or an Arrow table.")
        return self._open_batch(batch, self._selection)

    def _tables(self) -> Iterator[Table]:
        for batch in seal(_FAILED, self._data):
            table = self._open(batch)
            check_same(self, table, "A later batch", "the first")
            yield table

    def _count(self) -> int:
        return sum(table.rows() for table in self._tables())

    def _read(self, progress: Progress | None) -> Iterator[Piece]:
        for table in self._tables():
            yield from map(copy_piece, table.pieces())  # the caller may write the next batch to the same memory


def _open_nothing(selection: Selection) -> Table:
    """A table without rows, if the names of several columns determine what its rows would be.

    A single name may be the name of a column of lists, and an array has no names. Then the width is not known.
    """
    names = as_names(selection.columns) or ()
    if len(names) < 2 or not all(isinstance(name, str) for name in names):
        raise DataError(
            "The iterable of batches is empty. It must yield at least one batch, of any length, unless columns names "
            "several."
        )
    kinds = [(str(name), pa.float64()) for name in names] + [(str(name), pa.int64()) for name in selection.beside]
    return ArrowTable(pa.schema(kinds).empty_table(), selection)


def _supports_arrow(data: object) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def check_same(first: Table, other: Table, what: str, than: str) -> None:
    """Raise a usage error unless both tables have the same columns."""
    if other.width != first.width:
        raise UsageError(f"{what} has {other.width} columns, {than} has {first.width}. All must have the same.")
    if other.columns != first.columns:
        raise UsageError(f"{what} has other column names than {than}. All must have the same.")
    if other.by != first.by:
        raise UsageError(f"{what} has grouping columns of other types than {than}. Convert one of them.")
    if other.key != first.key:
        raise UsageError(
            f"{what} has privacy_id of type {other.key}, {than} of type {first.key}: one person could count as "
            "two. Convert one of them."
        )


class Chain(Table):
    """Several tables of the same columns, read one after the other; ordered: whether their order is public [T9]."""

    def __init__(self, tables: Sequence[Table], weights: Sequence[float], ordered: bool = True) -> None:
        self._tables = tuple(tables)
        self._describe_like(tables[0])
        self.nullable = tuple(map(any, zip(*(part.nullable for part in tables), strict=True)))
        self.reopenable = all(part.reopenable for part in tables)
        self.ordered = ordered and all(part.ordered for part in tables)
        self._weights = [max(float(weight), 1.0) for weight in weights]
        counts = [part.known_rows for part in tables]
        self._rows = None if None in counts else sum(rows or 0 for rows in counts)

    def _count(self) -> int:
        return sum(part.rows() for part in self._tables)

    def row_groups(self) -> list[PieceReader]:
        groups = [part.row_groups() for part in self._tables]
        return [reader for readers in groups for reader in readers] if all(groups) else []

    def _read(self, progress: Progress | None) -> Iterator[Piece]:
        if groups := self.row_groups():
            yield from chain_ahead(groups)
            return
        total, before = sum(self._weights), 0.0
        for part, weight in zip(self._tables, self._weights, strict=True):
            yield from part.pieces(scale_progress(progress, before / total, (before + weight) / total))
            before += weight


class LabeledTable(Table):
    """A table and, for each row, the cells that identify its group."""

    def __init__(self, table: Table, arrays: Sequence[ArrayLike], names: Sequence[str]) -> None:
        if not table.ordered:
            raise UsageError(
                "by is an array, but the rows of this data have no public order. Name a column of the data in by."
            )
        self._table = table
        fields = [label_field(name, array) for name, array in zip(names, arrays, strict=True)]
        if any(len(array) != table.rows() for _, array in fields):
            raise UsageError("by must have one entry for each row of the data.")
        self._describe_like(table)
        self.reopenable, self.ordered, self._rows = table.reopenable, table.ordered, table.rows()
        self.by = tuple(label_kind(field.type, field.name, "by") for field, _ in fields)
        self._labels = [canonicalize_labels(array, kind) for (_, array), kind in zip(fields, self.by, strict=True)]

    def _read(self, progress: Progress | None) -> Iterator[Piece]:
        start = 0
        with closing(self._table.pieces()) as pieces:  # type: ignore[type-var]  # a generator
            for who, block in pieces:
                yield join_cells([cells.slice(start, len(block)) for cells in self._labels], who), block
                start += len(block)
