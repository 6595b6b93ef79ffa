"""The public matrix of a projection, ideal Gaussian entries correctly rounded to integers, and exact products.

The published matrix is `integers / (MATRIX_STD sqrt(k))`: entries N(0, 1/k) to within 2^-22 of their std [J2].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError, Floats, UsageError
from ..noise import KEY_BYTES, public_integers
from ..numerics.rounding import round_up, sqrt_up
from ..numerics.wide_integers import LOW_BITS, Ints, Wide
from ..row_maps.maps import EllipsoidMap

if TYPE_CHECKING:  # it compiles
    from ..kernels.blocks import Block

MATRIX_STD = 2.0**21 - 1  # The largest integer whose noise scale is in [2^20, 2^21) at shift 0.
_EXACT_BITS = 52  # Products of this many bits are exact in double precision, with one bit to spare.
_FAR = 20.0  # A column is this many stds longer than sqrt(d) with probability below e^-200.
_ROUNDOFF = 2.0**-53


def as_seed(seed: bytes | str) -> bytes:
    """A published seed, from bytes or from the hexadecimal text of `Projection.matrix_seed`."""
    try:
        seed_bytes = bytes.fromhex(seed) if isinstance(seed, str) else seed
    except ValueError:
        seed_bytes = b""
    if not isinstance(seed_bytes, bytes) or len(seed_bytes) != KEY_BYTES:
        raise UsageError(f"matrix_seed must be {KEY_BYTES} bytes or their hexadecimal text, as Projection.matrix_seed.")
    return seed_bytes


def draw_matrix(seed: bytes, d: int, k: int) -> Ints:
    """The d x k integers of a public seed: ideal N(0, MATRIX_STD^2), each correctly rounded [J2]."""
    return public_integers(seed, MATRIX_STD, d * k).reshape(d, k)


def unit(k: int) -> float:
    """The value of one integer of the matrix."""
    return 1 / (MATRIX_STD * math.sqrt(k))


def integers_of(matrix: Floats) -> Ints:
    """A caller's matrix in the same integer units."""
    scaled = np.rint(matrix / unit(matrix.shape[1]))
    if not (np.abs(scaled) < 2.0**40).all():
        raise UsageError("matrix must have finite entries of moderate size, like those of Projection.matrix.")
    return scaled.astype(np.int64)


def matrix_excess(d: int) -> float:
    """What rounding the entries to integers can add to w, rounded up: sqrt(d) / (2 MATRIX_STD) [J2]."""
    return round_up(Fraction(sqrt_up(Fraction(d))) / (2 * Fraction(MATRIX_STD)))


def row_grid_bits(d: int) -> int:
    """The finest grid of rows whose products with a drawn matrix stay exact in double precision [J2].

    A function of d alone: a grid that looked at the matrix would make the rows depend on it.
    """
    column = MATRIX_STD * (math.sqrt(d) + _FAR) + math.sqrt(d)
    return math.floor(_EXACT_BITS - math.log2(column))


class ExactProduct:
    """q -> q @ matrix for integer rows with ‖q‖ <= norm_bound, without any rounding [J2].

    Where every sum of absolute products is below 2^53, double precision has no rounding error in any order, so the fast
    matrix product is exact. Otherwise (probability below e^-150 for a drawn matrix, or a caller's own matrix) Python
    integers are used. The choice depends on the public matrix alone.
    """

    def __init__(self, matrix: Ints, norm_bound: Fraction) -> None:
        self._integers = matrix
        self._doubles = np.ascontiguousarray(matrix, np.float64)
        longest = float(np.sqrt(np.sum(self._doubles**2, axis=0)).max()) * (1 + 1e-9)
        self.fast = Fraction(longest) * norm_bound <= 2**_EXACT_BITS

    def __call__(self, rows: Floats) -> Wide:
        if self.fast:
            return Wide.from_int64((rows @ self._doubles).astype(np.int64))
        exact = rows.astype(np.int64).astype(object) @ self._integers.astype(object)
        wide = Wide.from_ints(exact.ravel())
        return Wide(wide.high.reshape(exact.shape), wide.low.reshape(exact.shape))


def spectral_norm_upper(matrix: Ints) -> Fraction:
    """At least ‖matrix‖_2, within 1e-6 relative: a Cholesky factorization that succeeds proves it [J6]."""
    doubles = np.asarray(matrix, np.float64)
    d, k = doubles.shape
    if d < k:
        return spectral_norm_upper(matrix.T)
    total = float(np.sum(doubles**2)) * (1 + 2 * d * k * _ROUNDOFF) * (1 + 1e-12)  # >= squared Frobenius norm
    if total == 0:
        return Fraction(0)
    gram = doubles.T @ doubles
    estimate = float(np.linalg.eigvalsh(gram)[-1])
    margin = 8 * (d + k + 8) * _ROUNDOFF * total
    for _ in range(60):
        bound = _prove_norm(gram, estimate + margin, total, d)
        if bound is not None:
            return Fraction(sqrt_up(bound))
        margin *= 2
    return Fraction(sqrt_up(Fraction(total)))


def _prove_norm(gram: Floats, level: float, total: float, d: int) -> Fraction | None:
    """An upper bound on the largest eigenvalue of the exact Gram matrix, if Cholesky proves one [J6]."""
    k = len(gram)
    shifted = -gram
    shifted[np.diag_indices(k)] = level - np.diag(gram)
    try:
        np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:
        return None
    unit_error = Fraction(_ROUNDOFF)
    trace = Fraction(float(np.trace(shifted))) * (1 + 2 * k * unit_error)
    factorization = 4 * (k + 4) * unit_error / (1 - 4 * (k + 4) * unit_error) * trace
    product = (d + 1) * unit_error / (1 - (d + 1) * unit_error) * Fraction(total)
    diagonal = unit_error * (Fraction(level) + Fraction(total)) * 2
    return Fraction(level) + factorization + product + diagonal


_INT64 = np.dtype("<i8")


@dataclass(frozen=True)
class Products:
    """Block -> integer rows @ matrix, each a function of its row alone [J2]. It holds no noise, and can be pickled."""

    row_map: EllipsoidMap
    matrix: Ints

    @property
    def k(self) -> int:
        return int(self.matrix.shape[1])

    @cached_property
    def _product(self) -> ExactProduct:
        return ExactProduct(self.matrix, self.row_map.body.norm)

    def __getstate__(self) -> dict[str, Any]:
        return {"row_map": self.row_map, "matrix": self.matrix}  # The product is computed again when needed.

    def __call__(self, block: Block) -> Wide:
        from .rows import integer_rows

        return self._product(integer_rows(self.row_map, block))

    def packed(self, block: Block) -> bytes:
        """The result as bytes to send: 8 bytes a number, or two limbs where a number may be longer."""
        sums = self(block)
        if self._product.fast:
            return ((sums.high << LOW_BITS) + sums.low).astype(_INT64).tobytes()
        return np.stack([sums.high, sums.low]).astype(_INT64).tobytes()

    def unpack(self, numbers: bytes) -> Wide:
        """Inverse of `packed`."""
        limbs = 1 if self._product.fast else 2
        if len(numbers) % (8 * limbs * self.k):
            raise DataError("A worker returned rows of a different width.")
        integers = np.frombuffer(numbers, _INT64).astype(np.int64).reshape(limbs, -1, self.k)
        return Wide.from_int64(integers[0]) if limbs == 1 else Wide(integers[0], integers[1])
