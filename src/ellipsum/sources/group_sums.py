"""Exact integer sums of the rows of each group. Threads share the codes of groups, and each has its own sums.

[G5] The sums of a group are those of its rows, for every order of rows, size of blocks and number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np
import pyarrow as pa

from ..errors import whole
from ..kernels.accumulate import GroupKernel
from ..kernels.blocks import Block
from ..numerics.wide_integers import Ints, Wide
from ..row_maps.maps import RowMap
from ..util.threads import count_cores, map_ahead
from .group_codes import KeyTable, enlarge

Pieces = Iterator[tuple[pa.Array | None, Block]]
"""Rows and the cells beside them (`local.Piece`)."""
_STEP = 1 << 16  # rows that a thread adds at once


@dataclass(frozen=True)
class GroupSums:
    """The exact sums of every group that occurs or was listed.

    labels: canonical cells, one array for each column that identifies groups. rows: the number of rows of each group.
    sums: (groups, width).
    """

    labels: list[pa.Array]
    kinds: tuple[str, ...]
    rows: Ints
    sums: Wide

    def labels_of(self, places: Ints) -> list[pa.Array]:
        """The labels of some of the groups."""
        return [cells.take(pa.array(places)) for cells in self.labels]

    def chosen(self, places: Ints) -> GroupSums:
        """Some of the groups, in the order of these places."""
        labels = self.labels_of(places)
        rows, high, low = (part.take(places, axis=0) for part in (self.rows, self.sums.high, self.sums.low))
        return GroupSums(labels, self.kinds, rows, Wide(high, low))


class GroupAdder:
    """Adds rows to the sums of their groups. One thread uses it at a time, while other threads may assign codes."""

    def __init__(self, kernel: GroupKernel | None, width: int, keys: KeyTable) -> None:
        self._kernel, self.keys = kernel, keys
        size = max(keys.size, 16)
        self.low: Ints = np.zeros((size, width), np.int64)
        self.high: Ints = np.zeros((size, width), np.int64)  # pages without a carry take no memory
        self.rows: Ints = np.zeros(size, np.int64)

    def add(self, labels: list[pa.Array], block: Block) -> None:
        with self.keys.lock:
            codes = self.keys.codes(labels)
            self._make_room()
        assert self._kernel is not None
        self._kernel(block, codes, self.low, self.high, self.rows)

    def _make_room(self) -> None:
        used, more = len(self.rows), self.keys.size - len(self.rows)
        if more > 0:
            carried = bool(self.high.any()) if self.rows.max(initial=0) else False
            self.low, self.rows = enlarge(self.low, used, more), enlarge(self.rows, used, more)
            high = np.zeros(self.low.shape, np.int64)
            if carried:
                high[:used] = self.high
            self.high = high

    def take(self, part: GroupSums) -> None:
        """Add the sums of a part, in any order."""
        codes = self.keys.codes(part.labels)
        self._make_room()
        self._add(codes, part.rows, part.sums.low, part.sums.high)

    def merge(self, other: GroupAdder) -> None:
        """Add the sums of another adder with the same codes."""
        self._make_room()
        size = min(self.keys.size, len(other.rows))  # arrays have capacity for more groups
        self._add(np.arange(size), other.rows, other.low, other.high)

    def _add(self, codes: Ints, rows: Ints, low: Ints, high: Ints) -> None:
        from ..kernels.grouped import GroupTotals, add_totals

        add_totals(GroupTotals(codes, 0, low, high, rows), GroupTotals(codes, 0, self.low, self.high, self.rows))

    def sums(self) -> GroupSums:
        """All sums. They share the arrays of this adder, so no rows may be added after this call."""
        from ..kernels.grouped import carry

        self._make_room()
        size = self.keys.size
        high, low, rows = self.high[:size], self.low[:size], self.rows[:size]
        carry(low, high)
        return GroupSums(self.keys.labels(), self.keys.kinds, rows, Wide(high, low))


def add_groups(row_map: RowMap, pieces: Pieces, keys: KeyTable, threads: int | None) -> GroupSums:
    """The sums of all groups of a table, or of the listed ones."""
    from ..kernels.grouped import grouped_kernel

    count = count_cores() if threads is None else whole("threads", threads)
    kernel = grouped_kernel(row_map)
    first, *others = [GroupAdder(kernel, row_map.width, keys) for _ in range(count)]
    parts = _cut(pieces, len(keys.kinds))
    if not others:
        for part in parts:
            first.add(*part)
        return first.sums()
    idle: SimpleQueue[GroupAdder] = SimpleQueue()
    for adder in (first, *others):
        idle.put(adder)

    def add_part(part: tuple[list[pa.Array], Block]) -> None:
        adder = idle.get()
        try:
            adder.add(*part)
        finally:
            idle.put(adder)

    for _ in map_ahead(add_part, parts, count):
        pass
    while others:
        first.merge(others.pop())
    return first.sums()


def _cut(pieces: Pieces, columns: int) -> Iterator[tuple[list[pa.Array], Block]]:
    """The pieces as labels and rows, in slices of bounded size."""
    for cells, block in pieces:
        assert cells is not None
        for start in range(0, len(block), _STEP):
            part = cells.slice(start, _STEP)
            yield [part.field(i) for i in range(columns)], block[start : start + _STEP]
