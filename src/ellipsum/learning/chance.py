"""How far noise alone may reach: limits for Gaussian noise, and what stands for them where noise is Laplace's."""

from __future__ import annotations

from typing import Any

import numpy as np


def reach(stds: Any, bins: Any, pure: bool) -> Any:
    """So many stds of a sum over bins, or as many as are as rare where rounds are pure: Laplace noise has longer tails.

    Right within a tenth from 2 to 6 stds for a single bin; the more bins there are, the nearer to the Gaussian limit.
    """
    return stds * np.sqrt(1 + stds**2 / (8 * bins)) if pure else stds
