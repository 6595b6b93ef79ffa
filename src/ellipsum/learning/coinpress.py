"""CoinPress: a ball that holds the mean, shrunk step by step (Biswas, Dong, Kamath & Ullman 2020)."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import Floats, UsageError, floats, vector, whole
from ..regions.ellipsoid import Clip, Ellipsoid, length
from ..row_maps.grid import ellipsoid_map, grid_bits
from .coinpress_covariance import covariance_bound, norm_bound
from .methods import MOST_STEPS, Final
from .rounds import Rounds

STEPS = 4
LAST_SHARE = Fraction(3, 4)
FAILURE = 0.01
CENTER_SHARE, COVARIANCE_SHARE = Fraction(1, 16), Fraction(3, 16)
_CROSS = 6.0  # 2 * 3: the authors' practical constant in place of 2 sqrt(2 ln(2/beta))


def prepare(rounds: Rounds, magnitude: float, *, steps: int = STEPS, std: Any = None) -> Final:
    """The mean by `steps` clipped means, each in the ball that the one before left; the last is the final round.

    With gamma^2 = d + 2 sqrt(d L) + 2 L, L = ln 100, in units where the covariance is at most the identity:
        clip radius  min(sqrt(r^2 + 6 r + gamma^2), r + gamma)
        next radius  gamma sqrt(1/n + noise variance)
    three quarters of the budget for the last step, the rest evenly; the first ball has radius magnitude sqrt(d).

    std is the method's own assumption: a public bound on each standard deviation (covariance <= diag(std^2)), one
    number or one per column. Without it a coarse center and the covariance are estimated first (a quarter of the
    budget) and the rows are whitened.

    Guarantee [L22]: the rounds' budget, whether the assumption holds or not.

    References: Biswas, Dong, Kamath & Ullman 2020, "CoinPress: Practical Private Mean and Covariance Estimation",
    arXiv v1: the multivariate mean (iterated clipped means) and the authors' practical radii and shares.
    """
    steps, d, left = whole("steps", steps, most=MOST_STEPS), rounds.d, rounds.left
    if std is not None:
        known = _bounds(std, d)
        start = Ellipsoid(np.zeros(d), 1 / known)
        return _shrink(rounds, start, float(np.linalg.norm(magnitude / known)), steps, left)
    wide = Ellipsoid(np.zeros(d), np.full(d, 1 / magnitude))
    coarse, _ = _step(rounds, "coarse center", wide, math.sqrt(d), left * CENTER_SHARE)
    white = covariance_bound(rounds, replace(wide, center=coarse), steps, left * COVARIANCE_SHARE)
    # (mean - center)(mean - center)^T is at most the second moment, so the whitened mean lies within 1.
    return _shrink(rounds, white, 1.0, steps, rounds.left)


def _shrink(rounds: Rounds, white: Ellipsoid, radius: float, steps: int, share: Fraction) -> Final:
    """All mean steps but the last from the ball of this radius about the ellipsoid's center."""
    gamma = norm_bound(rounds.d, FAILURE)
    for step, part in enumerate(step_shares(steps)[:-1]):
        center, noise = _step(rounds, f"mean {step + 1}", white, radius, share * part)
        white, radius = replace(white, center=center), gamma * math.hypot(1 / math.sqrt(rounds.n), noise)
    spread = radius / gamma * length(white.unscale)
    return Final(Clip(_region(white, radius, rounds.d), None, 0.0, spread), white.unscale)


def step_shares(steps: int) -> list[Fraction]:
    """One quarter evenly over all steps but the last."""
    if steps == 1:
        return [Fraction(1)]
    return [(1 - LAST_SHARE) / (steps - 1)] * (steps - 1) + [LAST_SHARE]


def _step(rounds: Rounds, name: str, white: Ellipsoid, radius: float, share: Fraction) -> tuple[Floats, float]:
    """A clipped mean: the new center, and the noise std in the whitened space."""
    region = _region(white, radius, rounds.d)
    found = rounds.sum(name, ellipsoid_map(region, grid_bits(rounds.n, rounds.mu)), share)
    moved = region.restore(found.values / rounds.n)
    return white.center + moved, clip_radius(radius, rounds.d) * found.std / rounds.n


def _region(white: Ellipsoid, radius: float, d: int) -> Ellipsoid:
    return replace(white, scale=white.scale / clip_radius(radius, d))


def clip_radius(radius: float, d: int) -> float:
    """Holds nearly all rows when the mean lies within `radius` and the covariance is at most the identity."""
    gamma = norm_bound(d, FAILURE)
    return min(math.hypot(radius, math.sqrt(_CROSS * radius), gamma), radius + gamma)


def _bounds(std: Any, d: int) -> Floats:
    stated = floats("std", std)
    given = vector("std", np.full(d, stated) if stated.ndim == 0 else stated, d)
    if not (given > 0).all():
        raise UsageError("std must be > 0. It bounds the standard deviation of each column.")
    return given
