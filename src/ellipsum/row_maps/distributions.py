"""Matrices that turn the histogram of a column into sums from which all cumulative counts follow with little noise.

A row in bin i adds column i of a fixed matrix of integers; the last line of the matrix counts rows. A missing value
adds nothing. docs/proofs/quantiles.md: [Q10] sensitivity.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..errors import Floats
from .maps import Body, sqrt_upper

FORMS = ("circulant", "skew", "tree")
_ONE = 1 << 16  # the size of 1 in a matrix: rounding to whole numbers changes no std by more than 10^-4
_ARITY = 16
_FEW_NODES = 32  # more nodes than these are added up once more


class Spread(NamedTuple):
    """The largest squared norm of a column of a matrix, and the largest squared distance of two, or of one to zero.

    Of matrices of zeros and ones these are their l1 norms and distances too.
    """

    norm: int
    distance: int


@lru_cache(maxsize=64)
def cumulative_matrix(form: str, bins: int) -> Floats:
    """The matrix, whole numbers as doubles: its products with counts below 2^24 are exact.

    "circulant" has the smallest distances, for rows that are replaced; "skew" the smallest norms, for rows that come or
    go; "tree" is of zeros and ones, for Laplace noise.
    """
    if form == "tree":
        return _tree(bins)
    lines = _skew(bins) if form == "skew" else _circulant(bins)
    norm, distance = _spread(lines)
    # [Q10] The count is free up to the distance of two rows; where rows come or go it weighs as much as pays.
    count = _ONE / math.sqrt(2) if form == "skew" else math.isqrt(distance - norm)
    return np.vstack([lines, np.full(bins, math.floor(count))])


@lru_cache(maxsize=64)
def spread_of(form: str, bins: int) -> Spread:
    """[Q10] Computed from the integers of the matrix itself."""
    return _spread(cumulative_matrix(form, bins))


def body_of(form: str, sizes: list[int]) -> Body:
    """[Q10] Bounds on the integer rows of several columns: one matrix for each, one under the other."""
    parts = [spread_of(form, bins) for bins in sizes]
    norm, distance = sum(part.norm for part in parts), sum(part.distance for part in parts)
    if form == "tree":
        return Body(Fraction(norm), Fraction(distance))
    return Body(sqrt_upper(norm), sqrt_upper(distance))


def _spread(lines: Floats) -> Spread:
    products = lines.T @ lines  # whole numbers below 2^53: exact in doubles
    squares = products.diagonal()
    norm = int(squares.max())
    return Spread(norm, max(norm, int((squares[:, None] + squares - 2 * products).max())))


def _circulant(bins: int) -> Floats:
    """A Toeplitz square root of the cumulative sum on a circle, without its constant part."""
    period = 3 * bins // 2
    waves = np.arange(1.0, period)
    line = _cosines(2 * waves, 2 * period, period) / period
    places = (np.arange(period)[:, None] - np.arange(bins)) % period
    matrix: Floats = np.rint(_ONE * line)[places]
    return matrix


def _skew(bins: int) -> Floats:
    """The same with r(k + bins) = -r(k): odd waves alone."""
    line = np.rint(_ONE * _cosines(np.arange(1.0, 2 * bins, 2), 2 * bins, bins) / bins)
    places = np.arange(bins)[:, None] - np.arange(bins)
    matrix: Floats = np.where(places < 0, -line[places % bins], line[places % bins])
    return matrix


def _cosines(waves: Floats, period: int, length: int) -> Floats:
    """sum over waves w of cos(2 pi k w / period) / sqrt(2 sin(pi w / period)), for k < length."""
    angles = np.outer(np.arange(length), waves) % period * (2 * np.pi / period)
    heights: Floats = np.cos(angles) @ (1 / np.sqrt(2 * np.sin(waves * (np.pi / period))))
    return heights


def _tree(bins: int) -> Floats:
    """Bins, sums of 16 bins, of 256 bins, ...; and the sum of all."""
    lines, width = [np.eye(bins)], _ARITY
    while width * _FEW_NODES < _ARITY * bins:
        lines.append(np.eye(-(-bins // width)).repeat(width, axis=1)[:, :bins])
        width *= _ARITY
    return np.vstack([*lines, np.ones(bins)])
