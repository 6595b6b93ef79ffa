"""Axes of the covariance from noisy second moments, where they pay."""

from __future__ import annotations

import math

import numpy as np

from ..errors import Floats
from .measure import Measure
from .schedule import Shares
from .state import State


def learn_rotation(measure: Measure, state: State, shares: Shares) -> tuple[Floats, Floats] | None:
    """Axes as columns with the spread along each, or None where a cheap probe finds no correlation worth it."""
    d = measure.d
    radius = state.law.median
    matrix, noise = measure.second_moments("covariance probe", state, radius, shares.probe)
    off = matrix - np.diag(np.diag(matrix))
    pairs = d * (d - 1)
    score = (float((off**2).sum()) / noise**2 - pairs / 2) / math.sqrt(pairs)
    if score < 3:
        return None
    with measure.of_all():  # small eigenvalues are told from noise by the number of rows alone
        again, noise_again = measure.second_moments("covariance", state, radius, measure.affordable(shares.covariance))
    matrix = (matrix * noise_again**2 + again * noise**2) / (noise**2 + noise_again**2)
    noise = noise * noise_again / math.hypot(noise, noise_again)
    return _axes(state, matrix, noise)


def _axes(state: State, matrix: Floats, noise: float) -> tuple[Floats, Floats] | None:
    """Off-diagonals stripped of what noise alone would show, with the learned scales on the diagonal."""
    d = len(matrix)
    trace = max(float(np.trace(matrix)), 1e-9)
    values, vectors = np.linalg.eigh(matrix - np.diag(np.diag(matrix)))
    edge = noise * math.sqrt(2 * d)
    values = np.sign(values) * np.maximum(np.abs(values) - edge, 0)
    off = (vectors * values) @ vectors.T
    np.fill_diagonal(off, 0)
    weights = state.shape.weights
    full = np.diag(weights / weights.sum() * trace) + off
    back = 1 / state.shape.b
    values, basis = np.linalg.eigh(full * np.outer(back, back))
    spread = np.sqrt(np.maximum(values, 1e-4 * values.max()))
    ratio = (float(spread.sum()) / float(np.sqrt(np.diag(full) * back**2).sum())) ** 2
    if ratio > 0.9:
        return None
    return basis, np.maximum(spread, math.sqrt(edge) * float(np.median(back)) * 0.3)
