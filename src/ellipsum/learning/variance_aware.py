"""PLAN: noise shaped by private estimates of each coordinate's spread (Aumüller, Lebeda, Nelson & Pagh 2023)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ..errors import Floats, whole
from ..regions.ellipsoid import Clip, Ellipsoid
from ..row_maps.maps import RowMap
from .methods import MOST_STEPS, Final
from .quantiles import CoordinateSurplus, bisect, norm_quantile
from .rounds import Rounds

STEPS = 20
FIRST_SHARE = Fraction(1, 4)  # center and spreads together
CENTER_SHARE = Fraction(1, 4)  # of the first
CLIP_SHARE = Fraction(1, 4)  # of the rest
FAILURE = 0.1
STD_PER_MEDIAN = 1.482602218505602  # 1 / (the normal law's 3/4 quantile): std over median size


def prepare(rounds: Rounds, magnitude: float, *, steps: int = STEPS) -> Final:
    """The mean clipped in a space where coordinate j is divided by about the square root of its spread.

    1. Medians by `steps` noisy bisections of [-magnitude, magnitude].
    2. Spreads s_j from the medians of |x_j - c_j|, bisected in [0, 2 magnitude].
    3. y_j = (x_j - c_j) / sqrt(s_j + mean s): noise variance in proportion to the spread, held away from zero.
    4. Clip radius at rank n - sqrt(n) - sqrt(T ln(T/0.1)) / mu_radius of ‖y‖, T = steps, bisected; the final round is
       the clipped mean. A quarter of the budget for 1 and 2 (one to three), a quarter of the rest for the radius.

    The authors take the spreads from half squared differences of paired rows; a row map sees one row at a time, so here
    they come from distances to the released medians: the same law for symmetric rows, from twice as many values.

    Guarantee [L25]: the rounds' budget. Every coordinate of a row is counted once a round; the authors' optional
    spreading of each value into three copies would triple the sensitivity (costing nine times rho) and is left out.

    References: Aumüller, Lebeda, Nelson & Pagh 2023, "PLAN: Variance-Aware Private Mean Estimation": the scaled
    and clipped mean for l2 error; shares, regularisation and constants as in the authors' experiments.
    """
    steps, left, n, d = whole("steps", steps, most=MOST_STEPS), rounds.left, rounds.n, rounds.d
    first, rest = left * FIRST_SHARE, left * (1 - FIRST_SHARE)
    ends = np.full(d, float(magnitude))
    center = _medians(rounds, "center", np.zeros(d), False, -ends, ends, steps, first * CENTER_SHARE)
    sizes = _medians(rounds, "spread", center, True, 0 * ends, 2 * ends, steps, first * (1 - CENTER_SHARE))
    std = STD_PER_MEDIAN * sizes / magnitude  # in units of the magnitude: nothing overflows below
    shape = Ellipsoid(center, 1 / np.sqrt(2 * std + float(np.mean(2 * std))) / magnitude)
    clip_part = rest * CLIP_SHARE
    missed = math.sqrt(n) + math.sqrt(steps * math.log(steps / FAILURE) / clip_part) / rounds.mu
    upper = math.sqrt(max(math.log(d), 1.0) * math.log(1 / FAILURE) * float(std.sum()))
    radius = norm_quantile(rounds, shape, max(1 - missed / n, 0.5), upper, steps, clip_part)
    spread = float(np.linalg.norm(std)) * magnitude
    return Final(Clip(Ellipsoid(center, shape.scale / radius), None, 0.0, spread), std * magnitude)


def _medians(
    rounds: Rounds,
    name: str,
    center: Floats,
    absolute: bool,
    low: Floats,
    high: Floats,
    steps: int,
    share: Fraction,
) -> Floats:
    def surplus(middle: Floats) -> RowMap:
        return CoordinateSurplus(center, middle, 0.5, absolute)

    return bisect(rounds, name, surplus, low, high, steps, share)
