"""Rows to exact integer sums: the kernel of each map, the loop over blocks, its threads, and the merge.

The sum of a map's integer rows is an exact integer vector: the same for every order of rows, block size, number of
threads and memory layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from queue import Empty, SimpleQueue

import numpy as np

from ..errors import UsageError, whole
from ..numerics.wide_integers import Ints, Wide
from ..row_maps.maps import ClampedMap, RowMap
from ..util.threads import count_cores, map_ahead
from .blocks import COPY_ENTRIES, LANES, Block, Columns, aligned, floats, has_complete_rows

_PIECE_ENTRIES = 1 << 17, 1 << 23  # values that a thread adds at once: least, most
_SERIAL_ENTRIES = 1 << 18  # up to this many values are added without threads

Kernel = Callable[[Block, Ints], None]
"""Adds the integer rows of a block to a total; a pure function of each row, run without the GIL."""
GroupKernel = Callable[[Block, Ints, Ints, Ints, Ints], None]
"""Adds the integer rows of a block to the sums of groups: codes of the rows' groups, low and high limbs, row counts."""

# The kind of a row map, and the class of its kernel. The modules of kernels compile, so they are imported when used.
KERNELS = {
    "diagonal": "kernels.ellipsoid.EllipsoidKernel",
    "matrix": "kernels.matrix.MatrixKernel",
    "clamped": "kernels.clamp.ClampedKernel",
    "squared": "kernels.squares.SquaresKernel",
    **dict.fromkeys(
        ("count", "column_histograms", "norm_histogram", "signed_parts", "directions", "second_moments", "sides"),
        "kernels.histograms.MapKernel",
    ),
    "prepared": "kernels.histograms.PreparedKernel",
    "side_by_side": "kernels.histograms.SideBySideKernel",
}


def kernel_for(row_map: RowMap) -> Kernel:
    """The kernel of a map."""
    kernel = kernel_of_complete_rows(row_map)
    if isinstance(row_map, ClampedMap) and row_map.auxiliary.missing == "row":
        return _CompleteRowsKernel(row_map, kernel)
    return kernel


def kernel_of_complete_rows(row_map: RowMap) -> Kernel:
    """The kernel of a map. That of clamped rows does not leave out rows with a missing value itself."""
    module, _, name = KERNELS[row_map.kind].rpartition(".")
    kernel: Kernel = getattr(import_module(f"..{module}", __package__), name)(row_map)
    return kernel


class _CompleteRowsKernel:
    """Leaves out clamped rows with a missing value, and counts them behind the values."""

    def __init__(self, row_map: ClampedMap, kernel: Kernel) -> None:
        self._values, self._unit = row_map.values, int(row_map.auxiliary.absences[0])
        self._kernel = kernel

    def __call__(self, block: Block, total: Ints) -> None:
        complete = np.flatnonzero(has_complete_rows(block))
        total[self._values] += (len(block) - complete.size) * self._unit
        self._kernel(block if complete.size == len(block) else block[complete], total)


@dataclass(frozen=True)
class Partial:
    """The exact sum of the integer rows of some rows, and the number of rows."""

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
    """A running 64-bit sum that is added to wide integers before it could overflow ([S4])."""

    def __init__(self, row_map: RowMap, kernel: Kernel) -> None:
        self._map = row_map
        self._kernel = kernel
        self._total = aligned(row_map.width).view(np.int64)
        self._pending = 0
        self._done: Partial | None = None

    def add(self, block: Block) -> None:
        first = 0
        while first < len(block):
            count = min(len(block) - first, self._map.rows_per_flush - self._pending)
            for part in _floats(block[first : first + count]):
                self._kernel(part, self._total)
            self._pending += count
            first += count
            if self._pending >= self._map.rows_per_flush:
                self._flush()

    def absorb(self, other: _Accumulator) -> None:
        """Add the sum of another one, which is not used any more."""
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


def _floats(block: Block) -> Iterator[Block]:
    """The block if it has native doubles or singles, else copies as doubles, a few rows at a time."""
    if isinstance(block, Columns):
        yield block
        return
    masked = type(block) is not np.ndarray and isinstance(block, np.ma.MaskedArray)  # numpy.ma is slow to import
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


def _pieces(row_map: RowMap, blocks: Iterable[Block], threads: int) -> Iterator[Block]:
    """The blocks, checked, in slices of bounded size: at least four for each thread if a block is large enough."""
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


def accumulate(row_map: RowMap, blocks: Iterable[Block], threads: int | None = None) -> Partial:
    """The exact sum of the integer rows of all blocks.

    The blocks are two-dimensional, of any real dtype and strides, or `Columns`. The calling thread reads them while
    other threads add; a few are in progress at a time, so each must stay unchanged until the call returns. Small
    inputs use no thread. Guarantee [S1]: the result depends on the multiset of rows alone.
    """
    count = count_cores() if threads is None else whole("threads", threads)
    kernel = kernel_for(row_map)
    accumulator = _Accumulator(row_map, kernel)
    pieces = _pieces(row_map, blocks, count)
    seen = 0
    for piece in pieces:
        if count > 1 and seen + piece.size > _SERIAL_ENTRIES:
            others = _add_in_threads(row_map, kernel, chain([piece], pieces), count)
            while others:
                accumulator.absorb(others.pop())
            return accumulator.partial()
        accumulator.add(piece)
        seen += piece.size
    return accumulator.partial()


def _add_in_threads(row_map: RowMap, kernel: Kernel, pieces: Iterable[Block], threads: int) -> list[_Accumulator]:
    """Add with one accumulator for each thread; which of them adds a piece makes no difference."""
    idle: SimpleQueue[_Accumulator] = SimpleQueue()

    def add_piece(piece: Block) -> None:
        try:
            accumulator = idle.get_nowait()
        except Empty:  # at most one for each thread, fewer for few pieces of many columns
            accumulator = _Accumulator(row_map, kernel)
        try:
            accumulator.add(piece)
        finally:
            idle.put(accumulator)

    for _ in map_ahead(add_piece, pieces, threads):
        pass
    return [idle.get() for _ in range(idle.qsize())]
