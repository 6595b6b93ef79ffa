"""Spherical noise of density proportional to exp(-|eta| / scale), correctly rounded [B1], [N6].

eta = scale |z'| z with standard normal z in d dimensions and z' in d + 1. |z'|^2 is minus twice the log of a product of
uniforms, one for two degrees of freedom, and one squared normal if d + 1 is odd.
"""

from __future__ import annotations

import math

import numpy as np

from ..errors import positive, whole
from ..integers import Wide
from .gaussian import shift_for
from .stream import Stream


def ball_shift(scale: float, d: int) -> int:
    """The shift of a coordinate: its own std over 2^shift lies in [2^20, 2^21)."""
    return shift_for(scale * math.sqrt(d + 1))


def ball_draws(d: int, vectors: int = 1) -> int:
    """How many positions of a stream the noise of so many vectors takes."""
    return vectors * (d + (d + 2) // 2)


def add_ball_noise(sums: Wide, scale: float, stream: Stream, start: int = 0) -> Wide:
    """K_j = rint((S_j + scale |z'| z_j) / 2^shift), shift = ball_shift(scale, d). [B1]

    The last axis of `sums` holds the d coordinates; every other index is a vector with noise of its own.

    Guarantee: K is a function of the ideal release S + eta alone, so with l2 sensitivity D of S its privacy is the
    exact curve of D / scale in d dimensions, nothing added for finite precision [N6].

    Draws: the factors' uniforms vector by vector, their normals if d is even, then one per coordinate in C order.
    """
    from .shared import Factor, exponential_sums, roots
    from .vectors import Runs, add_vectors

    d = sums.high.shape[-1]
    shift = ball_shift(positive("scale", scale), d)
    runs = Runs(np.array([d], np.int64), np.array([scale]), np.array([shift], np.int64), normal=True)
    vectors, pairs, odd = sums.high.size // d, (d + 1) // 2, d % 2 == 0
    stream.claim(whole("start", start, least=0), ball_draws(d, vectors))
    if not vectors:
        return sums
    stream.read_ahead(start, ball_draws(d, vectors))
    normals = start + vectors * pairs

    def exact(place: int) -> Factor:
        return Factor(stream, start + place * pairs, pairs, root=True, normal=normals + place if odd else None)

    halves, bounds = exponential_sums(stream, start, np.full(vectors, pairs, np.int64))
    factors, errors = roots(stream, normals, halves, bounds, odd)
    return add_vectors(sums, runs, factors, errors, exact, stream, normals + vectors * odd)
