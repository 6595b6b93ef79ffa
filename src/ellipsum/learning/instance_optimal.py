"""Instance-optimal mean: noisy medians in a rotated frame, a clip about them at a private rank.

Huang, Liang & Yi 2021.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ..errors import Floats, open_unit, whole
from ..regions.ellipsoid import Clip, Ellipsoid
from ..row_maps.maps import RowMap
from .methods import MOST_STEPS, Final
from .quantiles import CoordinateSurplus, bisect, norm_quantile
from .rotation import RotatedMap, Rotation
from .rounds import Rounds

STEPS = 10
CENTER_SHARE = Fraction(1, 4)
CLIP_SHARE = 0.25  # of what the center leaves


def prepare(rounds: Rounds, magnitude: float, *, steps: int = STEPS, clip_share: float = CLIP_SHARE) -> Final:
    """The mean of rows clipped about a median taken in a public random rotation.

    1. Q, a randomized Hadamard rotation, makes every coordinate alike: |(Q x)_j| is below
       magnitude sqrt(d / D) sqrt(2 ln(4 D)) with high odds, D the padded width.
    2. Medians of Q x by `steps` noisy bisections, turned back: a quarter of the budget.
    3. Clip radius at rank n - 4 sqrt(D)/mu_last - 2 sqrt(steps)/mu_radius of the distances (at least n/2), bisected.
    4. The final round is the clipped mean with what is left. Lengths do not change under Q, so steps 3 and 4 need no
       rotation, and the directions of the padding, where no row reaches, are dropped.

    Guarantee [L24]: the rounds' budget; Q is drawn apart from the data and is public.

    References: Huang, Liang & Yi 2021, "Instance-optimal Mean Estimation Under Differential Privacy", the clipped
    mean, the quantile by binary search and the shifted, rotated mean; shares and constants as in the authors' code.
    """
    steps, left, part = (
        whole("steps", steps, most=MOST_STEPS),
        rounds.left,
        Fraction(open_unit("clip_share", clip_share)),
    )
    rotation = Rotation.draw(rounds.d, rounds.session.seed())
    size = rotation.size
    reach = magnitude * math.sqrt(rounds.d / size * 2 * math.log(4 * size))
    center = rotation.back(_medians(rounds, rotation, magnitude, reach, steps, left * CENTER_SHARE))
    rest = left * (1 - CENTER_SHARE)
    missed = 4 * math.sqrt(size / (rest * (1 - part))) + 2 * math.sqrt(steps / (rest * part))
    rank = max(1 - missed / rounds.mu / rounds.n, 0.5)
    ball = Ellipsoid(center, np.ones(rounds.d))
    radius = norm_quantile(rounds, ball, rank, 2 * math.sqrt(size) * reach, steps, rest * part)
    each = radius / math.sqrt(rounds.d)
    return Final(Clip(Ellipsoid(center, np.full(rounds.d, 1 / radius)), None, 0.0, radius), np.full(rounds.d, each))


def _medians(rounds: Rounds, rotation: Rotation, magnitude: float, reach: float, steps: int, share: Fraction) -> Floats:
    origin, ends = np.zeros(rotation.size), np.full(rotation.size, reach)

    def surplus(middle: Floats) -> RowMap:
        return RotatedMap(rotation, CoordinateSurplus(origin, middle, 0.5, False), magnitude)

    return bisect(rounds, "median", surplus, -ends, ends, steps, share)
