"""The public matrix of a projection: ideal Gaussian entries, correctly rounded to integers.

The published matrix is `integers / (MATRIX_STD sqrt(k))`: entries N(0, 1/k) to within 2^-22 of their std [J2].
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ..errors import Floats, UsageError
from ..noise import KEY_BYTES, public_integers
from ..numerics.rounding import round_up, sqrt_up
from ..numerics.wide_integers import Ints

MATRIX_STD = 2.0**21 - 1  # The largest integer whose noise scale is in [2^20, 2^21) at shift 0.
EXACT_BITS = 52  # Products of this many bits are exact in double precision, with one bit to spare.
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
    """The most that rounding the entries to integers adds to w, rounded up: sqrt(d) / (2 MATRIX_STD) [J2]."""
    return round_up(Fraction(sqrt_up(Fraction(d))) / (2 * Fraction(MATRIX_STD)))


def row_grid_bits(d: int) -> int:
    """The finest grid of rows whose products with a drawn matrix stay exact in double precision [J2].

    A function of d alone: with a grid that depends on the matrix, the rows would depend on it too.
    """
    column = MATRIX_STD * (math.sqrt(d) + _FAR) + math.sqrt(d)
    return math.floor(EXACT_BITS - math.log2(column))


def spectral_norm_upper(matrix: Ints) -> Fraction:
    """An upper bound on ‖matrix‖_2, within 1e-6 relative; a Cholesky factorization proves it [J6]."""
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
