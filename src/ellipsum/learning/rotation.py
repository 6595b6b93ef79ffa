"""A public random rotation in front of any row map: randomized Hadamard transforms, row by row.

x -> Q x with Q = (H D_3)(H D_2)(H D_1), H the orthonormal Hadamard matrix and D_i random signs; rows are padded
with zeros to a power of two. Q is orthogonal, so lengths and sensitivities are those of the rows themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..errors import Floats, UsageError, positive, whole
from ..noise import public_normals
from ..row_maps.maps import Body, RowMap

PASSES = 3


@dataclass(frozen=True)
class Rotation:
    """Q, given by its signs (passes, size); columns is the length of a row before the padding."""

    columns: int
    signs: Floats

    @staticmethod
    def draw(columns: int, seed: bytes, passes: int = PASSES) -> Rotation:
        """A rotation from a public seed, drawn independently of the data."""
        columns, passes = whole("columns", columns), whole("passes", passes)
        size = 1 << (columns - 1).bit_length()
        normals = public_normals(seed, passes * size).reshape(passes, size)
        return Rotation(columns, np.where(normals < 0, -1.0, 1.0))

    @property
    def size(self) -> int:
        return int(self.signs.shape[1])

    @property
    def factor(self) -> float:
        """What makes the Hadamard matrices orthonormal."""
        return math.sqrt(1 / self.size) ** len(self.signs)

    def back(self, turned: Floats) -> Floats:
        """Q^T y, without the padding."""
        from .rotation_kernels import unspin

        values = np.array(turned, dtype=np.float64)
        unspin(values, self.signs, self.factor)
        return values[: self.columns]


class RotatedMap:
    """The map `inner` applied to rotated rows, each entry first held to [-magnitude, magnitude].

    Guarantee [L20]: a pure function of each row, with inner's bounds.
    Edge cases: a NaN or infinite entry counts as zero, the middle of what is known, before the rotation.
    """

    kind = "rotated"

    def __init__(self, rotation: Rotation, inner: RowMap, magnitude: float) -> None:
        if inner.columns != rotation.size:
            raise UsageError(f"inner must take {rotation.size} columns, got {inner.columns}.")
        self.rotation, self.inner = rotation, inner
        self.magnitude = positive("magnitude", magnitude)

    @property
    def columns(self) -> int:
        return self.rotation.columns

    @property
    def width(self) -> int:
        return self.inner.width

    @property
    def body(self) -> Body:
        return self.inner.body

    @property
    def rows_per_flush(self) -> int:
        return self.inner.rows_per_flush

    @property
    def grid_bits(self) -> int:
        return self.inner.grid_bits
