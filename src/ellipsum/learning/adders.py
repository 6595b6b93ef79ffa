"""The kernels of the learning rounds' maps: how a block of rows adds to a sum. Imported only when rows are added."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..kernels.blocks import floats
from ..kernels.memory import Rows
from ..kernels.table import kernel_for
from ..numerics.wide_integers import Ints
from .frame import Frame
from .map_kernels import (
    add_absolutes,
    add_coordinate_bins,
    add_far,
    add_norm_bins,
    add_outer_products,
    add_shells,
)
from .quantile_kernels import add_coordinate_sides, add_norm_sides
from .rotation_kernels import spin

_COPY_ENTRIES = 1 << 15
_SPIN_ENTRIES = 1 << 16

Add = Callable[[Any, Rows, Ints], None]


class BlockKernel:
    """Hands a block on as contiguous doubles to a function of the map, the rows and the total."""

    takes_columns = False

    def __init__(self, row_map: Any) -> None:
        self._map = row_map
        self._add: Add = ADDERS[row_map.kind]

    def __call__(self, block: Rows, total: Ints) -> None:
        for part in _doubles(block):
            self._add(self._map, part, total)


class RotatedKernel:
    """Turns rows, a few at a time, and hands them to the kernel of the map behind the rotation."""

    takes_columns = False

    def __init__(self, row_map: Any) -> None:
        self._rotation = row_map.rotation
        self._magnitude = row_map.magnitude
        self._inner = kernel_for(row_map.inner)

    def __call__(self, block: Rows, total: Ints) -> None:
        rotation = self._rotation
        step = max(16, _SPIN_ENTRIES // rotation.size)
        for part in _doubles(block):
            for first in range(0, len(part), step):
                rows = np.empty((min(step, len(part) - first), rotation.size))
                spin(part[first : first + step], rotation.signs, rotation.factor, self._magnitude, rows)
                self._inner(rows, total)


class FilledKernel:
    """Puts stated numbers in the place of NaN and infinite entries, and hands rows to the kernel of the map behind."""

    takes_columns = False

    def __init__(self, row_map: Any) -> None:
        self._fill = row_map.fill
        self._inner = kernel_for(row_map.inner)

    def __call__(self, block: Rows, total: Ints) -> None:
        step = max(16, _COPY_ENTRIES // block.shape[1])
        for first in range(0, len(block), step):
            part = floats(block[first : first + step], copy=True)
            self._inner(np.where(np.isfinite(part), part, self._fill), total)


def _doubles(block: Rows) -> Iterator[Rows]:
    """The block as writable contiguous doubles, in copies of a few rows where it is not."""
    if block.dtype.char == "d" and block.flags.c_contiguous and block.flags.writeable and block.flags.aligned:
        yield block
        return
    step = max(16, _COPY_ENTRIES // block.shape[1])
    for first in range(0, len(block), step):
        yield floats(block[first : first + step], copy=True)


def _count(row_map: Any, part: Rows, total: Ints) -> None:
    total[0] += len(part)


def _norm_histogram(row_map: Any, part: Rows, total: Ints) -> None:
    histograms: list[Ints] = []
    frame: Frame
    for frame, edges, finer in zip(row_map.frames, row_map.edges, row_map.finer, strict=True):
        counts = np.zeros(edges.size + 1, np.int64)
        if finer is None:
            add_norm_bins(part, *frame.arguments(), edges, counts, *frame.scratch())
        else:
            counts[:] = np.add.reduceat(histograms[finer], row_map.starts(edges, finer))
        histograms.append(counts)
    weighted = [weight * counts for weight, counts in zip(row_map.weights, histograms, strict=True)]
    total += np.concatenate(weighted)


def _far_count(row_map: Any, part: Rows, total: Ints) -> None:
    add_far(part, row_map.center, row_map.reach, total)


def _coordinate_histogram(row_map: Any, part: Rows, total: Ints) -> None:
    add_coordinate_bins(part, row_map.edges, row_map.folded, row_map.absences, total)


def _absolute_sum(row_map: Any, part: Rows, total: Ints) -> None:
    frame: Frame = row_map.frame
    add_absolutes(part, *frame.arguments(), row_map.grid, total, *frame.scratch())


def _shell_sum(row_map: Any, part: Rows, total: Ints) -> None:
    frame: Frame = row_map.frame
    add_shells(part, *frame.arguments(), row_map.inner, row_map.outer, row_map.grid, total, *frame.scratch())


def _outer_sum(row_map: Any, part: Rows, total: Ints) -> None:
    frame: Frame = row_map.frame
    sides = frame.width
    on, off = row_map.factors
    few, products = np.empty((4, sides)), np.zeros((sides, sides))
    add_outer_products(part, *frame.arguments(), row_map.grid, on, off, total, *frame.scratch(), few, products)


def _coordinate_surplus(row_map: Any, part: Rows, total: Ints) -> None:
    add_coordinate_sides(part, row_map.center, row_map.middle, row_map.absolute, row_map.below, row_map.above, total)


def _norm_surplus(row_map: Any, part: Rows, total: Ints) -> None:
    frame: Frame = row_map.frame
    sides = float(row_map.middle[0]), row_map.below, row_map.above
    add_norm_sides(part, *frame.arguments(), *sides, total, *frame.scratch())


ADDERS: dict[str, Add] = {
    "count": _count,
    "far_count": _far_count,
    "norm_histogram": _norm_histogram,
    "coordinate_histogram": _coordinate_histogram,
    "absolute_sum": _absolute_sum,
    "shell_sum": _shell_sum,
    "outer_sum": _outer_sum,
    "coordinate_surplus": _coordinate_surplus,
    "norm_surplus": _norm_surplus,
}
