"""CoinPress for the covariance: an ellipsoid that bounds it, shrunk step by step (Biswas et al. 2020)."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from ..errors import Floats
from ..regions.ellipsoid import Ellipsoid
from .maps import OuterSum
from .rounds import Rounds

FAILURE = 0.1
_THINNEST = 1e-13  # below this share of the largest variance an eigenvalue is rounding


def covariance_bound(rounds: Rounds, start: Ellipsoid, steps: int, share: Fraction) -> Ellipsoid:
    """The whitening map of a bound on the second moments about start.center, where start's map whitens a first bound.

    Each step: y = A (x - c) clipped to gamma, Z = noisy mean of y y^T made positive semidefinite,
    U = min(Z + (eta + nu) I, I), A <- U^(-1/2) A, with eta for sampling and nu for the spectral norm of the noise.

    The mean is not taken to be zero, as in the paper, but `start.center`, released before.
    A margin eta + nu of 1 or more, which public numbers alone decide, would leave every bound as it is: then nothing is
    measured and nothing is spent.
    Guarantee [L23]: `steps` rounds of share / steps each, or none.

    References: Biswas, Dong, Kamath & Ullman 2020, the multivariate covariance (iterated truncated second moments).
    """
    white = start
    if forecast_margin(rounds, share / steps) >= 1:
        return start
    for step in range(steps):
        variances, axes, noise = second_moments(rounds, f"covariance {step + 1}", white, share / steps)
        margin = sampling_margin(rounds.d, rounds.n) + noise_margin(rounds.d, noise)
        # The last bound was the identity here; a step that measures nothing leaves it.
        white = _whiten(white, (axes * np.minimum(variances + margin, 1.0)) @ axes.T)
    return white


def forecast_margin(rounds: Rounds, share: Fraction) -> float:
    """eta + nu of a step with this share, before it is taken."""
    unit = math.sqrt(2) if rounds.neighbors == "replace" else 1.0
    noise = unit * norm_bound(rounds.d, FAILURE) ** 2 / (rounds.n * rounds.mu * math.sqrt(share))
    return sampling_margin(rounds.d, rounds.n) + noise_margin(rounds.d, noise)


def second_moments(rounds: Rounds, name: str, white: Ellipsoid, share: Fraction) -> tuple[Floats, Floats, float]:
    """Noisy mean of y y^T made positive semidefinite: eigenvalues, axes, and the std of its noise on the diagonal."""
    gamma = norm_bound(rounds.d, FAILURE)
    row_map = OuterSum(replace(white, scale=white.scale / gamma))
    found = rounds.sum(name, row_map, share)
    values, vectors = np.linalg.eigh(row_map.matrix(found.values) * (gamma**2 / rounds.n))
    return np.maximum(values, 0.0), vectors, row_map.diagonal_std(found.std) * gamma**2 / rounds.n


def _whiten(white: Ellipsoid, bound: Floats) -> Ellipsoid:
    """The map under which `bound`, stated in the whitened space, becomes the identity."""
    axes = np.eye(white.width) if white.axes is None else white.axes
    largest = float(white.unscale.max())
    back = axes * (white.unscale / largest)
    variances, directions = np.linalg.eigh(back @ bound @ back.T)
    held = np.maximum(variances, _THINNEST * variances[-1])
    return Ellipsoid(white.center, 1 / np.sqrt(held) / largest, directions)


def norm_bound(d: int, failure: float) -> float:
    """Laurent-Massart: a standard normal vector is longer with probability at most `failure`."""
    log_odds = math.log(1 / failure)
    return math.sqrt(d + 2 * math.sqrt(d * log_odds) + 2 * log_odds)


def sampling_margin(d: int, n: int) -> float:
    """eta: how far a sample's covariance may fall short of the identity."""
    shortfall = math.sqrt(d / n) + math.sqrt(2 * math.log(2 / FAILURE) / n)
    return 2 * shortfall + shortfall**2


def noise_margin(d: int, noise: float) -> float:
    """nu: spectral norm of symmetric noise with std `noise` on the diagonal, 5/7 of it beside."""
    on, off = OuterSum.factors
    return noise * on / off * (2 * math.sqrt(d) + 2 * math.sqrt(math.log(1 / FAILURE)))
