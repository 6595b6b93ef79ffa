"""Rows to exact integer sums, group by group: threads with tables of their own, merged at the end.

[G5] The sums of a group are those of its rows, whatever the order of rows, the size of blocks or the number of threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import numpy as np

from ..errors import whole
from ..kernels.accumulate import default_threads
from ..kernels.blocks import Block
from ..numerics.wide_integers import LOW_BITS, Ints, Wide
from ..row_maps.maps import RowMap
from .group_codes import KeyTable, roomy
from .group_labels import Labels

_MASK = (1 << LOW_BITS) - 1
_STEP = 1 << 16  # rows handed to a thread at once


@dataclass(frozen=True)
class GroupSums:
    """The exact sums of every group that was met or listed.

    labels: canonical cells, one array for each column that names groups. rows: how many rows each group has.
    sums: (groups, width).
    """

    labels: list[Any]
    kinds: tuple[str, ...]
    rows: Ints
    sums: Wide

    def chosen(self, places: Ints) -> GroupSums:
        """Some of the groups, in the order of these places."""
        import pyarrow as pa

        labels = [cells.take(pa.array(places)) for cells in self.labels]
        return GroupSums(labels, self.kinds, self.rows[places], Wide(self.sums.high[places], self.sums.low[places]))


class GroupAdder:
    """Adds rows to the sums of their groups; one thread at a time."""

    def __init__(self, kernel: Any, width: int, keys: KeyTable) -> None:
        self._kernel, self.keys = kernel, keys
        size = max(keys.size, 16)
        self.low: Ints = np.zeros((size, width), np.int64)
        self.high: Ints = np.zeros((size, width), np.int64)  # pages that nothing is carried into take no memory
        self.rows: Ints = np.zeros(size, np.int64)

    def add(self, labels: list[Any], block: Block) -> None:
        codes = self.keys.codes(labels)
        self._make_room()
        self._kernel(block, codes, self.low, self.high, self.rows)

    def _make_room(self) -> None:
        more = self.keys.size - len(self.rows)
        if more > 0:
            carried = bool(self.high.any()) if self.rows.max(initial=0) else False
            used = len(self.rows)
            self.low, self.rows = roomy(self.low, used, more), roomy(self.rows, used, more)
            empty = np.zeros(self.low.shape, np.int64)
            if carried:
                empty[:used] = self.high
            self.high = empty

    def take(self, part: GroupSums) -> None:
        """Add what others have added up; order does not matter."""
        codes = self.keys.codes(part.labels)
        self._make_room()
        low = (self.low[codes] & _MASK) + part.sums.low
        self.high[codes] += part.sums.high + (self.low[codes] >> LOW_BITS) + (low >> LOW_BITS)
        self.low[codes] = low & _MASK
        self.rows[codes] += part.rows

    def sums(self) -> GroupSums:
        size = self.keys.size
        low = self.low[:size]
        total = Wide(self.high[:size] + (low >> LOW_BITS), low & _MASK)
        return GroupSums(self.keys.labels(), self.keys.kinds, self.rows[:size], total)


def add_groups(
    row_map: RowMap, pieces: Iterator[tuple[Labels, Block]], keys: KeyTable, listed: bool, threads: int | None
) -> GroupSums:
    """The sums of all groups; listed: the table holds every group there is, and threads share it."""
    from ..kernels.grouped import GroupedKernel  # compiles

    count = default_threads() if threads is None else whole("threads", threads)
    kernel = GroupedKernel(row_map)  # type: ignore[arg-type]
    tables = [keys if listed or i == 0 else KeyTable(keys.kinds) for i in range(count)]
    adders = [GroupAdder(kernel, row_map.width, table) for table in tables]
    _run(adders, _small(pieces, len(keys.kinds)))
    for other in adders[1:]:
        adders[0].take(other.sums())
    return adders[0].sums()


def _small(pieces: Iterator[tuple[Labels, Block]], columns: int) -> Iterator[tuple[list[Any], Block]]:
    """The pieces in slices of bounded size: labels and rows."""
    for keys, block in pieces:
        for start in range(0, len(block), _STEP):
            part = keys.slice(start, _STEP)
            yield [part.field(i) for i in range(columns)], block[start : start + _STEP]


def _run(adders: list[GroupAdder], parts: Iterator[tuple[list[Any], Block]]) -> None:
    if len(adders) == 1:
        for part in parts:
            adders[0].add(*part)
        return
    idle: SimpleQueue[GroupAdder] = SimpleQueue()
    for adder in adders:
        idle.put(adder)

    def work(part: tuple[list[Any], Block]) -> None:
        adder = idle.get()
        try:
            adder.add(*part)
        finally:
            idle.put(adder)

    running: deque[Future[None]] = deque()
    pool = ThreadPoolExecutor(len(adders), thread_name_prefix="ellipsum")
    try:
        for part in parts:
            running.append(pool.submit(work, part))
            if len(running) > 2 * len(adders):
                running.popleft().result()
        while running:
            running.popleft().result()
    finally:  # on an error or an interrupt, the parts not yet begun are dropped
        pool.shutdown(wait=True, cancel_futures=True)
