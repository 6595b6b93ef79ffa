"""Rows to exact integer sums: the clipped map, the block loop and the merge.

row x -> y = B (x - c) -> clip to ‖y‖ <= 1 -> q = rint(y 2^m) -> sum of q, an exact integer vector: the same for
every order of rows, block size, thread count and memory layout.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from queue import SimpleQueue
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .blocks import Addresses, Columns
from .errors import Floats, UsageError, vector, whole
from .integers import Ints, Wide
from .kernels.layout import BLOCK, LANES, PANEL, TILE, UNUSED

MOST_GRID_BITS = 48
_PIECE_ENTRIES = 1 << 17, 1 << 20  # entries handed to a thread at once: least, most
_SERIAL_ENTRIES = 1 << 18  # no more entries than this are added without a pool
_COPY_ENTRIES = 1 << 14  # entries copied at once where the kernel cannot read in place
_MOST_COLUMNS = 1024  # rows wider than this are read as rows: mapped columns would leave the cache
_SQRT_BITS = 32
Rows = NDArray[Any]


class RowMap(Protocol):
    """A fixed public map from rows to bounded integer rows."""

    @property
    def columns(self) -> int:
        """Entries of a row that goes in."""

    @property
    def width(self) -> int:
        """Entries of the integer row that comes out."""

    @property
    def norm_bound(self) -> Fraction:
        """No integer row is longer."""

    @property
    def diameter_bound(self) -> Fraction:
        """No two integer rows are further apart."""

    @property
    def rows_per_flush(self) -> int:
        """So many integer rows surely add up within 64 bits."""

    def add(self, block: Rows, total: Ints) -> None:
        """Adds the integer rows of a float32 or float64 block, releasing the GIL; a pure function of each row."""


def sqrt_upper(number: int) -> Fraction:
    """The least multiple of 2^-32 that is at least sqrt(number)."""
    root = math.isqrt((number << 2 * _SQRT_BITS) - 1) + 1 if number > 0 else 0
    return Fraction(root, 1 << _SQRT_BITS)


def clipped_norm_bound(width: int, grid_bits: int) -> Fraction:
    """R = 2^m (1 + (width + 8) 2^-52) + sqrt(width)/2, rounded up ([S2])."""
    return (1 << grid_bits) * (1 + Fraction(width + 8, 1 << 52)) + sqrt_upper(width) / 2


class EllipsoidMap:
    """q = rint(2^m y / max(1, ‖y‖)) with y = B (x - c), B diagonal (`scale`) or a matrix.

    Guarantee [S2]: ‖q‖ <= norm_bound for every row there is, whatever rounding does to y, so any two integer
    rows differ by at most diameter_bound = 2 norm_bound. q depends on its row alone ([S1]).
    Edge cases [S3]: a NaN or infinite entry counts as the centre's; a finite row whose y overflows is clipped
    along its direction; a column of scale zero gives zero whatever it holds.
    """

    def __init__(
        self,
        center: Any,
        scale: Any = None,
        matrix: Any = None,
        *,
        grid_bits: int,
    ) -> None:
        self.center = vector("center", center)
        self.grid_bits = whole("grid_bits", grid_bits, least=0)
        if self.grid_bits > MOST_GRID_BITS:
            raise UsageError(f"grid_bits must be <= {MOST_GRID_BITS}, got {grid_bits}. Take a coarser grid.")
        if (scale is None) == (matrix is None):
            raise UsageError("Exactly one of scale and matrix must be given. Leave the other out.")
        self.columns = self.center.size
        self._packed: Floats | None = None
        if matrix is None:
            self.width = self.columns
            self._frame = _frame(self.center, vector("scale", scale, self.columns))
        else:
            self.width = self._pack(matrix)
            padded = self.width + -self.width % PANEL
            self._frame = _frame(np.zeros(padded), np.ones(padded))
        padded = self._frame.shape[1]
        self._identity = _frame(np.zeros(padded), np.ones(padded))
        self.norm_bound = clipped_norm_bound(self.width, self.grid_bits)
        self.diameter_bound = 2 * self.norm_bound
        self.rows_per_flush = 1 << 62 - self.grid_bits  # |q_j| < 2^(m+1), [S4]

    def _pack(self, matrix: Any) -> int:
        """Keeps the matrix in panels of 16 rows, column after column; returns its number of rows."""
        try:
            given = np.asarray(matrix, dtype=np.float64)
        except (TypeError, ValueError):
            raise UsageError("matrix must be a table of numbers. Check for text or ragged nesting.") from None
        if given.ndim != 2 or given.shape[0] == 0 or given.shape[1] != self.columns:
            raise UsageError(f"matrix must have {self.columns} columns, one an entry of center.")
        if not np.isfinite(given).all():
            raise UsageError("matrix must be finite: it holds a NaN or an infinity.")
        height = int(given.shape[0])
        panels = -(-height // PANEL)
        self._packed = np.zeros((panels, self.columns, PANEL))
        for p in range(panels):
            part = given[p * PANEL : (p + 1) * PANEL]
            self._packed[p, :, : len(part)] = part.T
        largest = np.maximum(given.max(axis=0), -given.min(axis=0))
        exponents = np.maximum(np.frexp(largest)[1], -1000).astype(np.int64)
        self._exponents = np.where(largest == 0, UNUSED, exponents)
        return height

    def __reduce__(self) -> Any:
        return _rebuild, (self.center, self.scale, self.matrix, self.grid_bits)

    @property
    def scale(self) -> Floats | None:
        """The diagonal of B, or None where B is a matrix."""
        return self._frame[1, : self.width].copy() if self._packed is None else None

    @property
    def matrix(self) -> Floats | None:
        """B, or None where it is diagonal."""
        if self._packed is None:
            return None
        return self._packed.transpose(0, 2, 1).reshape(-1, self.columns)[: self.width].copy()

    def add(self, block: Rows | Columns, total: Ints) -> None:
        """Adds the block's integer rows to the total (int64, contiguous); the block is only read."""
        from .kernels.columns import add_columns
        from .kernels.diagonal import add_rows
        from .kernels.matrix import add_products

        padded = self._frame.shape[1]
        sums = total if padded == self.width else np.zeros(padded, np.int64)
        grid, spare = math.ldexp(1.0, self.grid_bits), np.empty(padded)
        places = _columns(block) if self._packed is None else None
        if places is not None:
            like, scratch = block.dtype.type(0), _column_scratch(self.columns)
            add_columns(places, len(block), like, self._frame, self._identity, grid, sums, spare, scratch)
        elif self._packed is None:
            for part in _readable(block, padded, singles=True):
                place = part.__array_interface__["data"][0], part.strides[0], len(part)
                add_rows(*place, part.dtype.type(0), self._frame, self._identity, grid, sums, spare)
        else:
            scratch = np.empty((BLOCK, TILE)), np.empty((BLOCK, padded)), spare
            maps = self.center, self._packed, self._exponents, self._identity
            for part in _readable(block, self.columns, singles=False):
                place = part.__array_interface__["data"][0], part.strides[0], len(part)
                add_products(*place, *maps, grid, sums, *scratch)
        if sums is not total:
            total += sums[: self.width]


def _rebuild(center: Any, scale: Any, matrix: Any, grid_bits: int) -> EllipsoidMap:
    return EllipsoidMap(center, scale, matrix, grid_bits=grid_bits)


def _frame(center: Floats, scale: Floats) -> Floats:
    """Centres, scales and the scales of the last vector, whose columns counted before are at scale zero."""
    columns = center.size
    width = max(columns, LANES)
    frame = _aligned(3, width)
    frame[0, :columns], frame[1, :columns] = center, scale
    rest = width % LANES
    frame[2, LANES - rest : LANES] = frame[1, width - rest :]
    return frame


def _columns(block: Rows | Columns) -> Addresses | None:
    """Where the columns of a block begin, or None where its entries do not lie side by side in each column."""
    rows, columns = block.shape
    if columns > _MOST_COLUMNS or rows == 0:
        return None
    if isinstance(block, Columns):
        return block.addresses()
    if block.dtype.char not in "df" or not block.flags.aligned or block.strides[0] != block.itemsize:
        return None
    places: Addresses = np.arange(columns, dtype=np.int64)
    places *= block.strides[1]
    places += block.__array_interface__["data"][0]
    return places


def _aligned(*shape: int) -> Floats:
    """Zeros that begin at a multiple of 64 bytes: a vector that lies across two cache lines costs twice the time."""
    size = math.prod(shape)
    spare = np.zeros(size + LANES)
    start = -spare.__array_interface__["data"][0] // 8 % LANES
    return spare[start : start + size].reshape(shape)


def _column_scratch(columns: int) -> tuple[Any, ...]:
    """As `kernels.columns.add_columns` wants it."""
    group = LANES * LANES
    whole = _aligned(columns + LANES + 1, group)
    sums = _aligned(columns, LANES).view(np.int64)
    return whole[:columns], whole[columns:-1], whole[-1], sums


def _readable(block: Rows | Columns, width: int, singles: bool) -> Iterator[Rows]:
    """The block as doubles (or singles) side by side in each row: itself, or copies of a few rows at a time."""
    rows, columns = block.shape
    if (
        not isinstance(block, Columns)
        and block.dtype.char in ("df" if singles else "d")
        and columns == width
        and block.flags.aligned
        and block.strides[1] == block.itemsize
    ):
        yield block
        return
    step = max(BLOCK, _COPY_ENTRIES // width)
    buffer = np.zeros((min(step, rows), width))
    for first in range(0, rows, step):
        part = buffer[: min(step, rows - first)]
        given = np.asarray(block[first : first + step])
        if columns < width:  # few columns: one long copy each
            for j in range(columns):
                part[:, j] = given[:, j]
        else:
            part[:] = given
        yield part


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

    def __init__(self, row_map: RowMap) -> None:
        self._map = row_map
        self._total = np.zeros(row_map.width, np.int64)
        self._pending = 0
        self._done: Partial | None = None

    def add(self, block: Rows | Columns) -> None:
        first = 0
        while first < len(block):
            count = min(len(block) - first, self._map.rows_per_flush - self._pending)
            for part in _floats(block[first : first + count], isinstance(self._map, EllipsoidMap)):
                self._map.add(part, self._total)
            self._pending += count
            first += count
            if self._pending >= self._map.rows_per_flush:
                self._flush()

    def _flush(self) -> None:
        self._done = self.partial()
        self._total[:] = 0
        self._pending = 0

    def partial(self) -> Partial:
        """Everything added so far."""
        pending = Partial(self._pending, Wide.from_int64(self._total))
        return pending if self._done is None else self._done.merge(pending)


def _floats(block: Rows | Columns, columns_do: bool) -> Iterator[Any]:
    """The block if it holds native doubles or singles, else copies as doubles, a few rows at a time."""
    if isinstance(block, Columns):
        yield block if columns_do else np.asarray(block)
        return
    masked = isinstance(block, np.ma.MaskedArray)
    if not masked and block.dtype.char in "df" and block.dtype.isnative:
        yield np.asarray(block)
        return
    step = max(LANES, 4 * _COPY_ENTRIES // block.shape[1])
    for first in range(0, len(block), step):
        part = block[first : first + step]
        with np.errstate(all="ignore"):  # a warning would tell something about the data
            doubles = part.astype(np.float64)
        yield np.ma.filled(doubles, np.nan) if masked else np.asarray(doubles)


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
    accumulator = _Accumulator(row_map)
    pieces = _pieces(row_map, blocks, count)
    seen = 0
    for piece in pieces:
        if count > 1 and seen + piece.size > _SERIAL_ENTRIES:
            rest = _accumulate_threaded(row_map, piece, pieces, count)
            return accumulator.partial().merge(rest)
        accumulator.add(piece)
        seen += piece.size
    return accumulator.partial()


def _accumulate_threaded(
    row_map: RowMap, first: Rows | Columns, rest: Iterator[Rows | Columns], threads: int
) -> Partial:
    """As accumulate, with an accumulator for each thread; which one takes a piece makes no difference."""
    idle: SimpleQueue[_Accumulator] = SimpleQueue()
    accumulators = [_Accumulator(row_map) for _ in range(threads)]
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
    result = Partial.empty(row_map.width)
    for accumulator in accumulators:
        result = result.merge(accumulator.partial())
    return result
