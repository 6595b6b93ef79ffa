"""Categories as values: the position of a cell in the list of categories, or NaN if the list does not contain it.

[H2] A value depends on its own cell alone. Cells are compared in the same way as those that identify groups [G6].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..kernels.blocks import floats
from ..request.groups import Listed
from .group_labels import join_cells
from .local import Piece, Table
from .protocol import Progress
from .selection import Name

if TYPE_CHECKING:
    from .group_codes import KeyTable


class Coder:
    """Turns the first cells beside a row into values, which follow the row's own values.

    categories: the list of each column that is coded. kinds: the kinds of all columns of cells. groups: the number of
    columns that identify groups; these are the last ones and stay cells. A row without values gets a 0, to be counted.
    """

    def __init__(self, categories: Sequence[Listed], kinds: tuple[str, ...], groups: int) -> None:
        self._categories, self.kinds = tuple(categories), kinds
        self.by = kinds[len(kinds) - groups :]

    @cached_property
    def tables(self) -> list[KeyTable]:
        """The codes of the categories. It is a usage error if a column cannot contain one of its categories."""
        from .group_codes import key_table

        return [key_table((kind,), cells) for kind, cells in zip(self.kinds, self._categories, strict=False)]

    def __reduce__(self) -> tuple[type[Coder], tuple[tuple[Listed, ...], tuple[str, ...], int]]:
        """Pickle without the tables, which each worker makes for itself."""
        return Coder, (self._categories, self.kinds, len(self.by))

    def width(self, values: int) -> int:
        """The number of values of a coded row, given the number before."""
        return max(values + len(self._categories), 1)

    def nullable(self, before: tuple[bool, ...]) -> tuple[bool, ...]:
        """Whether each column may have missing values. A coded one may, because its list may lack a cell."""
        return (*before, *((bool(self._categories),) * (self.width(len(before)) - len(before))))

    def __call__(self, piece: Piece) -> Piece:
        cells, block = piece
        fields = [] if cells is None or not self.kinds else [cells.field(i) for i in range(len(self.kinds))]
        columns = [table.codes([field]).astype(np.float64) for table, field in zip(self.tables, fields, strict=False)]
        values = [np.where(codes >= 0, codes, np.nan) for codes in columns]
        if not block.shape[1] and not values:
            values = [np.zeros(len(block))]
        rows = np.column_stack([floats(block), *values]) if values else block
        if cells is None or not self.kinds:
            return cells, rows
        who = cells.field(len(fields)) if cells.type.num_fields > len(fields) else None
        return join_cells(fields[len(fields) - len(self.by) :], who), rows


def join_names(columns: tuple[str, ...] | None, names: Sequence[Name]) -> tuple[str, ...] | None:
    """The names of all columns, or None if they have no names."""
    return (*columns, *map(str, names)) or None if columns is not None else None


class CodedTable(Table):
    """A table whose last columns are coded; groups: how many columns identify groups."""

    def __init__(self, table: Table, names: Sequence[Name], categories: Sequence[Listed], groups: int) -> None:
        self._table = table
        self._describe_like(table)
        self._coder = Coder(categories, table.by, groups)
        self._coder.tables  # noqa: B018 (a usage error if a list does not fit its column)
        self.by = self._coder.by
        self.width = self._coder.width(table.width)
        self.columns = join_names(table.columns, names)
        self.nullable = self._coder.nullable(table.nullable)
        self.reopenable, self.ordered = table.reopenable, table.ordered

    def _count(self) -> int:
        return self._table.rows()

    def _read(self, progress: Progress | None) -> Iterator[Piece]:
        with closing(self._table.pieces(progress)) as pieces:  # type: ignore[type-var]  # a generator
            yield from map(self._coder, pieces)
