"""Numbers that outputs become before they are compared: learned on runs that are counted nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...errors import Floats

_RIDGE = 1e-9  # of a correlation matrix: coordinates that share their noise have none in some direction


@dataclass(frozen=True)
class Score:
    """One number for each output: large ones speak for the second data set."""

    name: str
    measure: Callable[[Floats], Floats]
    sign: float
    failed: float
    """What an output that is no finite vector, or an exception, becomes: one infinity or the other."""

    def __call__(self, outputs: Floats) -> Floats:
        with np.errstate(all="ignore"):
            scores = self.sign * self.measure(outputs)
        return np.where(np.isfinite(outputs).all(axis=1) & np.isfinite(scores), scores, self.failed)


def learn_scores(first: Floats, second: Floats) -> list[Score]:
    """Scores that may tell the two data sets apart: along a direction, and by the distance from the center."""
    fails = [float(np.mean(~np.isfinite(outputs).all(axis=1))) for outputs in (first, second)]
    failed = np.inf if fails[1] >= fails[0] else -np.inf
    first, second = (outputs[np.isfinite(outputs).all(axis=1)] for outputs in (first, second))
    if not len(first) or not len(second):
        return [Score("failures", lambda outputs: np.zeros(len(outputs)), 1.0, failed)]
    center, spread = _standard(first, second)
    first, second = (first - center) / spread, (second - center) / spread
    shift = second.mean(axis=0) - first.mean(axis=0)
    directions = {"difference of means": shift, "linear discriminant": _discriminant(first, second, shift)}
    scores = [Score(name, _along(center, spread, w), 1.0, failed) for name, w in directions.items()]
    sign = 1.0 if np.mean(np.sum(second**2, axis=1)) >= np.mean(np.sum(first**2, axis=1)) else -1.0
    return [*scores, Score("distance from the center", _distance(center, spread), sign, failed)]


def _standard(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """The center of both samples, and each coordinate's spread; 1 where it never varies."""
    center = first.mean(axis=0) / 2 + second.mean(axis=0) / 2
    spread = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 2)
    spread = np.where(spread > 0, spread, np.abs(second.mean(axis=0) - first.mean(axis=0)))
    return center, np.where((spread > 0) & np.isfinite(spread), spread, 1.0)


def _discriminant(first: Floats, second: Floats, shift: Floats) -> Floats:
    """Fisher's direction: little noise, much difference."""
    both = np.concatenate([first - first.mean(axis=0), second - second.mean(axis=0)])
    covariance = both.T @ both / len(both)
    direction: Floats = np.linalg.solve(covariance + _RIDGE * np.eye(shift.size), shift)
    return direction


def _along(center: Floats, spread: Floats, weights: Floats) -> Callable[[Floats], Floats]:
    return lambda outputs: ((outputs - center) / spread) @ weights


def _distance(center: Floats, spread: Floats) -> Callable[[Floats], Floats]:
    return lambda outputs: np.sum(((outputs - center) / spread) ** 2, axis=1)
