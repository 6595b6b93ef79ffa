"""Rows about a place of their own group's: what is published of them is put back there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..errors import Floats
from ..kernels.blocks import Block, floats
from ..request.groups import Listed
from .group_codes import key_table
from .progress import Progress
from .protocol import Piece, Table


class RecenteredTable(Table):
    """A table with its group's offset taken from each row of a listed group; other rows, and what is missing, stay.

    A row remains a function of its own cells and key [G10]. offsets: (groups, width), in the order of the list.
    """

    def __init__(self, table: Table, listed: Listed, offsets: Floats) -> None:
        self._table = table
        self._keys = key_table(table.by, listed)
        self._offsets = np.concatenate([offsets, np.zeros((1, table.width))])  # the last is that of no group
        self._describe_like(table)
        self.reopenable, self.ordered = table.reopenable, table.ordered

    def rows(self) -> int:
        return self._table.rows()

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        for labels, block in self._table.pieces(progress):
            yield labels, self._moved(labels, block)

    def _moved(self, labels: object, block: Block) -> Floats:
        codes = self._keys.codes([labels.field(i) for i in range(len(self.by))])  # type: ignore[attr-defined]
        rows: Floats = floats(block, copy=True)
        with np.errstate(all="ignore"):
            rows -= self._offsets[codes]
        return rows
