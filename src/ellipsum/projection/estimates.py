"""Distances and inner products from projected rows: unbiased over the matrix and the noise [J8].

Symbols: k columns, noise std s in each; y = v P + g with P of N(0, 1/k) entries, so that every coordinate of
y_i - y_j is N(0, ‖v_i - v_j‖^2/k + 2 s^2), independent of the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats, UsageError, open_unit
from ..numerics.wide_integers import Ints


@dataclass(frozen=True)
class Estimates:
    """Estimates with standard errors, for the *clipped* rows, over the draw of matrix and noise together.

    Squares (distances, norms) are a scaled chi-square with k degrees of freedom less a constant, so their
    intervals are exact; those of inner products are normal approximations, good from k = 30 or so.
    """

    value: Floats
    standard_error: Floats
    raw: Floats | None = None
    """Squares: the squared length before the noise's share is taken off."""
    k: int = 0

    def confidence_interval(self, level: float = 0.95) -> Floats:
        """(pairs, 2) bounds, each covering its own true value at `level`; squares are held at 0 or above."""
        from scipy.special import chdtri, ndtri

        tail = (1 - open_unit("level", level)) / 2
        if self.raw is None:
            half = float(ndtri(1 - tail)) * self.standard_error
            return np.stack([self.value - half, self.value + half], axis=1)
        offset = self.raw - self.value
        ends = [self.k * self.raw / float(chdtri(self.k, p)) - offset for p in (tail, 1 - tail)]
        return np.maximum(np.stack(ends, axis=1), 0.0)


def check_pairs(pairs: Any, n: int) -> Ints:
    """(m, 2) row numbers from 0 to n - 1."""
    array = _array("pairs", pairs)
    if array.ndim == 1 and array.size == 2:
        array = array[None, :]
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise UsageError("pairs must be a list of (row, row) numbers, shape (m, 2).")
    return check_rows(array, n, "pairs")


def _array(name: str, value: Any) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except ValueError:  # ragged
        raise UsageError(f"{name} must be whole numbers.") from None


def check_rows(rows: Any, n: int, name: str = "rows") -> Ints:
    """Row numbers from 0 to n - 1."""
    array = _array(name, rows)
    if array.dtype.kind not in "iu":
        raise UsageError(f"{name} must be whole numbers.")
    if array.size and not (0 <= int(array.min()) and int(array.max()) < n):
        raise UsageError(f"{name} must be row numbers from 0 to {n - 1}. Count rows from zero.")
    return array.astype(np.int64)


def squares(lengths: Floats, k: int, noise_variance: float) -> Estimates:
    """‖v‖^2 from ‖y‖^2, y = v P + noise of the given variance a coordinate.

    y is N(0, (‖v‖^2/k + variance) I_k), so ‖y‖^2 - k variance is unbiased with variance 2k (...)^2, and
    2‖y‖^4/(k + 2) is an unbiased estimate of that [J8].
    """
    return Estimates(lengths - k * noise_variance, lengths * math.sqrt(2 / (k + 2)), lengths, k)


def squared_distances(first: Floats, second: Floats, noise_std: float, same: Any) -> Estimates:
    """‖v_i - v_j‖^2; exactly 0 where i = j."""
    k = first.shape[1]
    lengths = np.sum((first - second) ** 2, axis=1)
    estimates = squares(lengths, k, 2 * noise_std**2)
    return Estimates(np.where(same, 0.0, estimates.value), estimates.standard_error, np.where(same, 0.0, lengths), k)


def inner_products(first: Floats, second: Floats, noise_std: float, same: Any) -> Estimates:
    """<v_i, v_j>, less k s^2 where i = j.

    With a, b the coordinates' variances and c their covariance, Var <y_i, y_j> = k (a b + c^2); the standard
    error takes the unbiased estimate of it from ‖y_i‖^2 ‖y_j‖^2 and <y_i, y_j>^2 [J8].
    """
    k = first.shape[1]
    raw = np.sum(first * second, axis=1)
    lengths = np.sum(first**2, axis=1) * np.sum(second**2, axis=1)
    if k == 1:
        variance = lengths  # no unbiased estimate exists; this one is too large by the squared inner product
    else:
        variance = (k * lengths + (k - 2) * raw**2) / ((k + 2) * (k - 1))
    variance = np.where(same, 2 * raw**2 / (k + 2), variance)
    return Estimates(raw - np.where(same, k * noise_std**2, 0.0), np.sqrt(variance))
