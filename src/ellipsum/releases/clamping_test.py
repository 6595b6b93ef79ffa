"""The test that decides when a release warns of clamped values [U7]."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import Floats

_FALSE_ALARM = 1e-4  # Probability of a warning if no value is clamped.
_MISSED = 0.05  # Probability of no warning if as many rows are clamped as the printed limit.


@dataclass(frozen=True)
class ClampingTest:
    """Thresholds for noisy numbers of rows and values."""

    most_rows: float
    """More rows with a clamped value raise a warning; noise alone exceeds this in one release of 10,000."""
    most_values: Floats
    """A column is named where more of its values were clamped; empty where they are not counted by column."""
    undetected_rows: int
    """Clamping in fewer rows goes unnoticed in more than one release of 20."""


def clamping_test(std: float, value_stds: Floats, exceeded: Callable[[float], float]) -> ClampingTest:
    """The test for counts with these stds; exceeded: the multiple of its std that noise exceeds with a probability."""
    most, missed = std * exceeded(_FALSE_ALARM), std * exceeded(_MISSED)
    values = value_stds
    if values.size:
        values = np.where(values > 0, values * exceeded(_FALSE_ALARM / values.size), np.inf)
    return ClampingTest(most, values, math.ceil(most + missed))
