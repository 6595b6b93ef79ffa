"""Rows whose groups are named by arrays of their own, beside the data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import UsageError
from .group_labels import beside, canonical_labels, label_kind
from .progress import Progress
from .python_objects import label_field
from .tables import Batches, Piece, SourceTable

_UNORDERED = (
    "by is an array, and the rows of this data have no places that it could go by. Name a column of the data in by."
)


class LabeledTable(Batches):
    """A table, and for each of its rows the cells that name its group."""

    def __init__(self, table: SourceTable, arrays: list[Any], names: list[str]) -> None:
        if not table.ordered:
            raise UsageError(_UNORDERED)
        self._table = table
        fields = [label_field(name, array) for name, array in zip(names, arrays, strict=True)]
        if any(len(array) != table.rows() for _, array in fields):
            raise UsageError("by must have one entry for each row of the data.")
        self.by = tuple(label_kind(field.type, field.name, "by") for field, _ in fields)
        self._labels = [canonical_labels(array, kind) for (_, array), kind in zip(fields, self.by, strict=True)]
        self.columns, self.width, self.gaps = table.columns, table.width, table.gaps
        self.reopenable, self.ordered = table.reopenable, table.ordered
        self.available, self.chosen, self.key = table.available, table.chosen, table.key

    def rows(self) -> int:
        return self._table.rows()

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        start = 0
        for who, block in self._table.pieces(progress):
            yield beside([cells.slice(start, len(block)) for cells in self._labels], who), block
            start += len(block)
