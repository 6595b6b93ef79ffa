"""Spherical noise of density proportional to exp(-|eta| / scale), correctly rounded [B1], [N6].

eta = scale |z'| z with standard normal z in d dimensions and z' in d + 1. |z'|^2 is minus twice the log of a product of
uniforms, one for two degrees of freedom, and one squared normal if d + 1 is odd.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..errors import UsageError, positive, whole
from ..numerics.wide_integers import Wide
from .box_norm import compiled_parts
from .gaussian import shift_for
from .stream import Stream

if TYPE_CHECKING:
    from .shared_factor import Factor
    from .vectors import Runs


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
    return add_sphere_noise(sums, ball_runs(scale, sums.high.shape[-1]), stream, start)


def ball_runs(scale: float, d: int) -> Runs:
    """One run of d columns with this scale of noise."""
    shift = ball_shift(positive("scale", scale), d)
    runs: Runs = compiled_parts()[1].Runs(np.array([d], np.int64), np.array([scale]), np.array([shift], np.int64), True)
    return runs


def add_sphere_noise(sums: Wide, runs: Runs, stream: Stream, start: int = 0) -> Wide:
    """`add_ball_noise` for a run that was made before."""
    (shared, vectors_of), d = compiled_parts(), runs.width
    if d != sums.high.shape[-1]:
        raise UsageError(f"this noise is for {d} coordinates, got {sums.high.shape[-1]}. Make the plan anew.")
    vectors, pairs, odd = sums.high.size // d, (d + 1) // 2, d % 2 == 0
    stream.take(whole("start", start, least=0), ball_draws(d, vectors))
    if not vectors:
        return sums
    normals = start + vectors * pairs

    def exact(place: int) -> Factor:
        first, normal = start + place * pairs, normals + place if odd else None
        factor: Factor = shared.Factor(stream, first, pairs, root=True, normal=normal)
        return factor

    uniforms = np.full(vectors, pairs, np.int64)
    halves, bounds = shared.exponential_sums(stream, start, uniforms, vectors * pairs)
    factors, errors = shared.roots(stream, normals, halves, bounds, odd)
    noisy: Wide = vectors_of.add_vectors(sums, runs, factors, errors, exact, stream, normals + vectors * odd)
    return noisy
