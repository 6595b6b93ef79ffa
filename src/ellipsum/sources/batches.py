"""Table that the caller hands over one by one: iterables of arrays, record batches or frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from ..errors import DataError, UsageError
from .group_labels import beside, canonical_labels, label_kind
from .progress import Progress, share
from .protocol import Piece, Table
from .python_objects import label_field
from .sealing import own_copy, sealed, single_pass
from .selection import Selection, as_names

Opener = Callable[[Any, Selection], Table]
_FAILED = "The iterable of batches raised an error of its own. Run it by itself to see which."


class BatchesTable(Table):
    """An iterable of batches; an iterator or generator serves one pass, anything else as many as wanted.

    The first batch is drawn on opening: its columns and width are those of the table. What hands the batches over
    may be a query or a shuffling loader, so their rows have no places [T9].
    """

    ordered = False

    def __init__(self, data: Iterable[Any], selection: Selection, opener: Opener) -> None:
        self._data = data
        self._selection = selection
        self._opener = opener
        self.reopenable = not isinstance(data, Iterator)
        source = sealed(_FAILED, data)
        first = list(islice(source, 1))
        opened = self._open(first[0]) if first else _nothing(selection.named())
        self._describe_like(opened)
        self.gaps = (True,) * self.width  # later batches may be of other types
        self._waiting: tuple[list[Any], Iterator[Any]] | None = None if self.reopenable else (first, source)

    def _open(self, batch: Any) -> Table:
        if isinstance(batch, (str, bytes)) or (isinstance(batch, Iterator) and not _speaks_arrow(batch)):
            raise UsageError("A batch must be a two-dimensional array or an Arrow table.")
        return self._opener(batch, self._selection)

    def rows(self) -> int:
        if self._rows is None:
            if not self.reopenable:
                raise UsageError("A one-shot source knows its rows only after its pass. Pass a table or a file.")
            self._rows = sum(self._checked(batch).rows() for batch in sealed(_FAILED, self._data))
        return self._rows

    def _checked(self, batch: Any) -> Table:
        table = self._open(batch)
        check_same(self, table, "A later batch", "the first")
        return table

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        if self.reopenable:
            return self._read(sealed(_FAILED, self._data))
        if self._waiting is None:
            raise single_pass("This iterator")
        (first, rest), self._waiting = self._waiting, None
        return self._read(chain(first, rest))

    def _read(self, source: Iterator[Any]) -> Iterator[Piece]:
        pieces = chain.from_iterable(self._checked(batch).pieces() for batch in source)
        return self._counted(map(own_copy, pieces))  # the caller may fill the same memory with the next batch


def _nothing(selection: Selection) -> Table:
    """A table of no rows, where the names of several columns say what its rows would be.

    One name alone may stand for a column of lists, and an array has no names: nothing then tells what to publish.
    """
    import pyarrow as pa

    from .arrow import ArrowTable

    names = as_names(selection.columns) or ()
    if len(names) < 2 or not all(isinstance(name, str) for name in names):
        raise DataError(
            "The iterable of batches is empty. It must yield at least one batch, of any length, unless columns names "
            "several."
        )
    behind = [(str(name), pa.int64()) for name in selection.beside]
    kinds = [*((name, pa.float64()) for name in names), *behind]
    return ArrowTable(pa.schema(kinds).empty_table(), selection)


def _speaks_arrow(data: Any) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def check_same(first: Table, other: Table, what: str, than: str) -> None:
    """A usage error unless both deliver the same columns."""
    if other.width != first.width:
        raise UsageError(f"{what} has {other.width} columns, {than} has {first.width}. All must have the same.")
    if other.columns != first.columns:
        raise UsageError(f"{what} has other column names than {than}. All must have the same.")
    if other.by != first.by:
        raise UsageError(f"{what} names groups by columns of other types than {than}. Convert one of them.")
    if other.key != first.key:
        raise UsageError(
            f"{what} names people by {other.key}, {than} by {first.key}: one person would be two. Convert one of them."
        )


class Chain(Table):
    """Several tables of the same columns, read one after the other; ordered: whether that order is public [T9]."""

    def __init__(self, tables: Sequence[Table], weights: Sequence[float], ordered: bool = True) -> None:
        self.tables = tuple(tables)
        self._describe_like(tables[0])
        self.gaps = tuple(map(any, zip(*(part.gaps for part in tables), strict=True)))
        self.reopenable = all(part.reopenable for part in tables)
        self.ordered = ordered and all(part.ordered for part in tables)
        self._weights = [max(float(weight), 1.0) for weight in weights]

    def rows(self) -> int:
        return sum(part.rows() for part in self.tables)

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        total, before = sum(self._weights), 0.0
        for part, weight in zip(self.tables, self._weights, strict=True):
            yield from part.pieces(share(progress, before / total, (before + weight) / total))
            before += weight


_UNORDERED = (
    "by is an array, and the rows of this data have no places that it could go by. Name a column of the data in by."
)


class LabeledTable(Table):
    """A table, and for each of its rows the cells that name its group."""

    def __init__(self, table: Table, arrays: list[Any], names: list[str]) -> None:
        if not table.ordered:
            raise UsageError(_UNORDERED)
        self._table = table
        fields = [label_field(name, array) for name, array in zip(names, arrays, strict=True)]
        if any(len(array) != table.rows() for _, array in fields):
            raise UsageError("by must have one entry for each row of the data.")
        self._describe_like(table)
        self.reopenable, self.ordered = table.reopenable, table.ordered
        self.by = tuple(label_kind(field.type, field.name, "by") for field, _ in fields)
        self._labels = [canonical_labels(array, kind) for (_, array), kind in zip(fields, self.by, strict=True)]

    def rows(self) -> int:
        return self._table.rows()

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        start = 0
        for who, block in self._table.pieces(progress):
            yield beside([cells.slice(start, len(block)) for cells in self._labels], who), block
            start += len(block)
