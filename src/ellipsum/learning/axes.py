"""Axes of the covariance from noisy second moments, where they pay."""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np

from ..errors import Floats
from .measure import Measure
from .schedule import Shares
from .state import Shape, State

_MOST_TURNS = 3
_PAYS = 0.97  # of the squared sum of spreads: axes that leave more of it are not worth their rounds
_STAND_OUT = 3.0  # stds of what noise alone makes of all entries beside the diagonal


class Turns:
    """Axes in several turns: the strongest directions hide the others until they are narrowed.

    A cheap probe comes first, then second moments in the columns' own axes, then again along those that were found.
    """

    def __init__(self, measure: Measure, shares: Shares) -> None:
        self._measure, self._shares = measure, shares
        self._left = _MOST_TURNS

    def next(self, state: State) -> bool:
        """Turn the state's shape; False where nothing more is to be had."""
        if not self._left:
            return False
        self._left -= 1
        found = self._found(state)
        if found is None:
            self._left = 0
            return False
        basis, spread = found
        before = state.shape.basis
        state.variance = (basis**2).T @ state.variance
        state.shape = Shape(spread, basis if before is None else before @ basis)
        state.law = state.law.scaled(1 / state.law.median)
        return True

    def _found(self, state: State) -> tuple[Floats, Floats] | None:
        """Axes with the spread along each, or None where no correlation is worth it."""
        share = self._measure.affordable(self._shares.covariance)
        if state.shape.basis is not None:
            # Small eigenvalues are told from noise by the number of rows alone: the last turn reads all of them.
            with self._measure.of_all() if self._left == 0 else nullcontext():
                return _axes(state, *self._moments("covariance", state, share))
        matrix, noise = self._moments("covariance probe", state, self._shares.probe)
        if not _correlated(matrix, noise):
            return None
        again, noise_again = self._moments("covariance", state, share)
        matrix = (matrix * noise_again**2 + again * noise**2) / (noise**2 + noise_again**2)
        return _axes(state, matrix, noise * noise_again / math.hypot(noise, noise_again))

    def _moments(self, name: str, state: State, share: float) -> tuple[Floats, float]:
        return self._measure.second_moments(name, state, state.law.median, share)


def _correlated(matrix: Floats, noise: float) -> bool:
    """Whether entries beside the diagonal are larger than noise alone would make them."""
    pairs = matrix.size - len(matrix)
    off = float((matrix**2).sum() - (np.diag(matrix) ** 2).sum())
    return (off / noise**2 - pairs / 2) / math.sqrt(pairs) >= _STAND_OUT


def _axes(state: State, matrix: Floats, noise: float) -> tuple[Floats, Floats] | None:
    """Off-diagonals stripped of what noise alone would show, with the learned scales on the diagonal."""
    d = len(matrix)
    trace = max(float(np.trace(matrix)), 1e-9)
    values, vectors = np.linalg.eigh(matrix - np.diag(np.diag(matrix)))
    edge = noise * math.sqrt(2 * d)
    values = np.sign(values) * np.sqrt(np.maximum(values**2 - edge**2, 0))
    off = (vectors * values) @ vectors.T
    np.fill_diagonal(off, 0)
    weights = state.shape.weights
    full = np.diag(weights / weights.sum() * trace) + off
    back = 1 / state.shape.b
    values, basis = np.linalg.eigh(full * np.outer(back, back))
    spread = np.sqrt(np.maximum(values, 1e-4 * values.max()))
    ratio = (float(spread.sum()) / float(np.sqrt(np.diag(full) * back**2).sum())) ** 2
    if ratio > _PAYS:
        return None
    return basis, np.maximum(spread, math.sqrt(edge) * float(np.median(back)) * 0.3)
