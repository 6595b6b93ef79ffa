"""Rows to exact integer sums: the block loop, its threads and the merge.

The sum of a map's integer rows is an exact integer vector: the same for every order of rows, block size, thread count
and memory layout.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np

from ..errors import UsageError, whole
from ..numerics.wide_integers import Wide
from ..row_maps.maps import RowMap
from .blocks import Columns, floats
from .memory import COPY_ENTRIES, LANES, Rows
from .table import Kernel, kernel_for

_PIECE_ENTRIES = 1 << 17, 1 << 23  # entries handed to a thread at once: least, most
_SERIAL_ENTRIES = 1 << 18  # no more entries than this are added without a pool


@dataclass(frozen=True)
class Partial:
    """The exact sum of the integer rows of some rows, and how many rows."""

    rows: int
    sums: Wide

    @staticmethod
    def empty(width: int) -> Partial:
        return Partial(0, Wide.zeros(width))

    def merge(self, other: Partial) -> Partial:
        """The partial sum of both sets of rows; order does not matter."""
        if len(self.sums) != len(other.sums):
            raise UsageError("Partial sums must have the same width. Merge sums made with one map.")
        return Partial(self.rows + other.rows, self.sums + other.sums)


class _Accumulator:
    """A running 64-bit sum that is flushed into wide integers before it could overflow ([S4])."""

    def __init__(self, row_map: RowMap, kernel: Kernel) -> None:
        self._map = row_map
        self._kernel = kernel
        self._total = np.zeros(row_map.width, np.int64)
        self._pending = 0
        self._done: Partial | None = None

    def add(self, block: Rows | Columns) -> None:
        first = 0
        while first < len(block):
            count = min(len(block) - first, self._map.rows_per_flush - self._pending)
            for part in _floats(block[first : first + count], self._kernel.takes_columns):
                self._kernel(part, self._total)
            self._pending += count
            first += count
            if self._pending >= self._map.rows_per_flush:
                self._flush()

    def absorb(self, other: _Accumulator) -> None:
        """Add what another one holds, which is not used any more."""
        if self._pending + other._pending > self._map.rows_per_flush:
            self._flush()
        self._total += other._total
        self._pending += other._pending
        if other._done is not None:
            self._done = other._done if self._done is None else self._done.merge(other._done)

    def _flush(self) -> None:
        self._done = self.partial()
        self._total[:] = 0
        self._pending = 0

    def partial(self) -> Partial:
        """Everything added so far."""
        pending = Partial(self._pending, Wide.from_int64(self._total))
        return pending if self._done is None else self._done.merge(pending)


def _floats(block: Rows | Columns, columns_do: bool) -> Iterator[Rows | Columns]:
    """The block if it holds native doubles or singles, else copies as doubles, a few rows at a time."""
    if isinstance(block, Columns):
        yield block if columns_do else np.asarray(block)
        return
    masked = type(block) is not np.ndarray and isinstance(block, np.ma.MaskedArray)
    if not masked and block.dtype.char in "df" and block.dtype.isnative:
        yield np.asarray(block)
        return
    step = max(LANES, 4 * COPY_ENTRIES // block.shape[1])
    for first in range(0, len(block), step):
        part = block[first : first + step]
        doubles = floats(np.ma.getdata(part), copy=True)
        if masked:
            doubles[np.ma.getmaskarray(part)] = np.nan
        yield doubles


def _pieces(row_map: RowMap, blocks: Iterable[Rows | Columns], threads: int) -> Iterator[Rows | Columns]:
    """The blocks, checked, in slices of bounded size: where a block is large enough, four a thread or more."""
    columns = row_map.columns
    least, most = _PIECE_ENTRIES
    for block in blocks:
        if not isinstance(block, (np.ndarray, Columns)) or block.dtype.kind not in "fiub":
            raise UsageError("Every block must be a numpy array of real numbers. Convert it first.")
        if block.ndim != 2 or block.shape[1] != columns:
            raise UsageError(f"Every block must be two-dimensional with {columns} columns.")
        entries = min(max(block.size // (4 * threads), least), most)
        step = max(LANES, entries // columns // LANES * LANES)
        for first in range(0, len(block), step):
            yield block[first : first + step]


def default_threads() -> int:
    """The processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def accumulate(row_map: RowMap, blocks: Iterable[Rows | Columns], threads: int | None = None) -> Partial:
    """The exact sum of the integer rows of all blocks.

    Blocks (two-dimensional, any real dtype and strides, or `Columns`) are drawn in the calling thread while others
    add; a few are in flight at a time, so each must stay unchanged until the call returns. Small inputs use no thread.
    Guarantee [S1]: the result depends on the multiset of rows alone.
    """
    count = default_threads() if threads is None else whole("threads", threads)
    kernel = kernel_for(row_map)
    accumulator = _Accumulator(row_map, kernel)
    pieces = _pieces(row_map, blocks, count)
    seen = 0
    for piece in pieces:
        if count > 1 and seen + piece.size > _SERIAL_ENTRIES:
            others = _accumulate_threaded(row_map, kernel, piece, pieces, count)
            while others:
                accumulator.absorb(others.pop())
            return accumulator.partial()
        accumulator.add(piece)
        seen += piece.size
    return accumulator.partial()


def _accumulate_threaded(
    row_map: RowMap, kernel: Kernel, first: Rows | Columns, rest: Iterator[Rows | Columns], threads: int
) -> list[_Accumulator]:
    """Adds with an accumulator for each thread; which one takes a piece makes no difference."""
    idle: SimpleQueue[_Accumulator] = SimpleQueue()
    accumulators = [_Accumulator(row_map, kernel) for _ in range(threads)]
    for accumulator in accumulators:
        idle.put(accumulator)

    def work(piece: Rows | Columns) -> None:
        accumulator = idle.get()
        try:
            accumulator.add(piece)
        finally:
            idle.put(accumulator)

    running: deque[Future[None]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="ellipsum")
    try:
        running.append(pool.submit(work, first))
        for piece in rest:
            running.append(pool.submit(work, piece))
            if len(running) > 2 * threads:
                running.popleft().result()
        while running:
            running.popleft().result()
    finally:  # on an error or an interrupt, the pieces not yet begun are dropped
        pool.shutdown(wait=True, cancel_futures=True)
    return accumulators
