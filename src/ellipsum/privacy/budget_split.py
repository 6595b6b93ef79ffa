"""One budget for a pure step and a Gaussian step together: the largest mu that the Gaussian step may have.

A release with both is (mu, pure = (epsilon_1,)), whose curve is exact and certified [P8].
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ..errors import Floats, UsageError
from ..numerics.roots import root
from .budget import Budget
from .composition import composed_delta, composed_epsilon
from .gaussian_curve import certified_mu, gaussian_delta
from .guarantee import MISMATCH, Privacy
from .spherical_curve import Guarantee

_LEAST = 1e-4  # of the mu without a pure step
_NUDGES = range(36, 3, -3)
_NEAR = 1 + 1e-6


def beside(mu: Floats, first: Floats, epsilon: float) -> Floats:
    """delta(epsilon) of a Gaussian step beside a pure one of epsilon_1 = first < epsilon, in doubles [P8]."""
    up = 1 / (1 + np.exp(-first))
    delta: Floats = up * gaussian_delta(mu, epsilon - first) + (1 - up) * gaussian_delta(mu, epsilon + first)
    return delta


@lru_cache(maxsize=64)
def mu_beside(first: float, epsilon: float, delta: float) -> float | None:
    """The largest mu beside a pure step of epsilon_1 = first, rounded down and proved [P8]; None if there is none."""
    most = certified_mu(epsilon, delta)

    def excess(mu: float) -> float:
        delta_here = float(beside(np.array(mu), np.array(first), epsilon))
        return math.log(max(delta_here, 1e-320) / delta)

    if excess(_LEAST * most) >= 0 or excess(most) <= 0:
        return None
    start = root(excess, _LEAST * most, most, 1e-13 * most)
    for shift in _NUDGES:
        mu = start * (1 - math.ldexp(1.0, -shift))
        if proved(mu, first, epsilon, delta):
            return mu
    return None


def proved(mu: float, first: float, epsilon: float, delta: float) -> bool:
    """Whether both steps together are certified for (epsilon, delta), as a delta and as an epsilon [P8]."""
    if composed_delta(mu, (first,), 0.0, epsilon) > delta:
        return False
    return composed_epsilon(mu, (first,), 0.0, delta) <= epsilon


def check_split(privacy: Guarantee, stated: Mapping[str, float]) -> None:
    """An error unless a Gaussian and a pure step spend the requested (epsilon, delta), or a little less."""
    if not stated:
        return
    pair = Budget(**stated).pair
    lawful = isinstance(privacy, Privacy) and privacy.mu > 0 and len(privacy.pure) == 1 and not privacy.slack
    if pair is None or not stated.get("delta") or not lawful or not isinstance(privacy, Privacy):
        raise UsageError(MISMATCH)
    epsilon, delta = stated["epsilon"], stated["delta"]
    unspent = replace(privacy, mu=privacy.mu * _NEAR).delta(epsilon) < delta
    if privacy.delta(epsilon) > delta or unspent:
        raise UsageError(MISMATCH)
