"""[G10] Listed groups that lie apart: a rough mean of each, then rows about the mean of their own group.

One small round gives every group a rough mean in the shape that all rows have. Where those lie further apart than their
noise explains, the norms of rows about them are counted, and the last round clips there: rows of a group are nearer to
each other than to those of other groups, so the radius, and with it the noise, is smaller. Every decision follows from
noisy results and public numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..errors import Floats
from ..plans.group_plan import GroupPlan
from ..plans.plan import Plan
from ..privacy.guarantee import Privacy
from ..regions.ellipsoid import Ellipsoid, length
from ..releases.decode import decode, group_stds
from ..releases.group_decode import Centers, lengths_of, spread_of
from ..request.groups import Listed
from ..rows import LearnedRows, Rows
from ..sources import Source
from .maps import NormHistogram
from .norm_law import fit_norm_law
from .rounds import Rounds
from .schedule import Shares
from .settle import edges_about, settle_steps


class Planned(Protocol):
    """Makes the plan of a release of groups of such rows, for what is given of the budget."""

    def __call__(self, rows: Rows, within: Privacy, times: float = 1.0) -> GroupPlan:
        """times: laid as if there were so many times as many rows."""


LEAST_SHARE, MOST_SHARE = 0.02, 0.05  # of the budget, for rough means
_ROUGH, _TOO_ROUGH = 0.1, 0.3  # of the rows' spread: the error of rough means that is wanted, and the most of use
_PAYS = 0.8  # of the squared error without: what is forecast must be below this
_HELD = 0.5  # of the rows' distance from their own mean: a center that is off by so much costs nothing
_BAD = 0.75  # of the same distance: centers that are off by more are looked for again
_FEW = 0.1  # of the groups
MOST_TIMES = 3
_NEARLY_ALL = 0.99  # of the rows
_ROOMY = 4.0  # times as many rows as there are, with the whole budget, would have the radius that rough means have
_NEAREST = 0.05  # of the squared norm, that is left at least however far apart groups are


@dataclass(frozen=True)
class Rough:
    """Rough means of groups, (groups, d); in the scaled space, squared distances from the center and squared noise."""

    places: Floats
    count: Floats
    squared_distance: Floats
    squared_noise: Floats

    @property
    def between(self) -> float:
        """Mean squared distance of a row's group from the center, less what noise explains."""
        return max(self._of_rows(self.squared_distance - self.squared_noise), 0.0)

    def _of_rows(self, squares: Floats) -> float:
        """The mean over rows of what their groups have."""
        weights = np.maximum(self.count, 0.0)
        return float(weights @ squares) / max(float(weights.sum()), 1.0)

    @property
    def squared_off(self) -> float:
        """Mean squared distance of a row's group from where it is put."""
        return self._of_rows(self.off**2)

    @property
    def kept(self) -> Floats:
        """The share of its distance from the center that each group keeps: the rest is noise."""
        between = max(self.between, 1e-300)
        shares: Floats = between / (between + self.squared_noise)
        return shares

    @property
    def off(self) -> Floats:
        """How far each group's mean is expected to be from its rough one, so shrunk, in the scaled space."""
        lengths: Floats = np.sqrt(self.kept * self.squared_noise)
        return lengths

    def offsets(self, center: Floats) -> Floats:
        """Where groups are put, from the center."""
        moved: Floats = self.kept[:, None] * (self.places - center)
        return moved


@dataclass(frozen=True)
class Apart:
    """Rows about rough means of their groups: what was learned of them, where they are, and the means.

    offsets: (groups, d), from the one center; off: how far off each is expected to be, and reach: the farthest, in the
    scaled space.
    """

    rows: LearnedRows
    source: Source
    offsets: Floats
    off: Floats
    reach: float

    @property
    def badly_placed(self) -> bool:
        """Whether more than a few groups lie so far from their rough means that they need better ones."""
        return float(np.mean(self.off > _BAD * self.rows.norm_law.median)) > _FEW

    def centers(self, plan: Plan) -> Centers:
        """The centers for the last round."""
        return Centers(
            self.rows.center + self.offsets, self.reach * float(plan.ellipsoid.scale[0] / self.rows.scale[0])
        )


def recentered(rounds: Rounds, rows: LearnedRows, keys: Listed, planned: Planned) -> Apart | None:
    """Groups about centers of their own, where that is forecast to pay; None where the one center serves.

    Where groups lie so far apart that their rough means are off by more than rows are from each other, once more: the
    region is smaller each time, and so is the noise.
    """
    found = _nearer(rounds, rows, keys, planned, None)
    for _ in range(MOST_TIMES - 1):
        if found is None or not found.badly_placed:
            break
        better = _nearer(rounds, found.rows, keys, planned, found)
        if better is None:
            break
        found = better
    return found


def _nearer(rounds: Rounds, rows: LearnedRows, keys: Listed, planned: Planned, before: Apart | None) -> Apart | None:
    """Centers of groups, or better ones than before; None where they do not pay."""
    share = rough_share(rounds, rows, planned)
    if share is None:
        return None
    rough = _rough_means(rounds, rows, keys, planned, share, None if before is None else before.source)
    if not _pays(rough, rows, rounds, share):
        return None
    offsets = rough.offsets(rows.center)
    offsets = offsets if before is None else before.offsets + offsets
    source = rounds.session.source.recentered(keys, offsets)
    reach = _reach(rows) if before is None else before.reach
    return Apart(_rows_about(rounds, rows, rough, source), source, offsets, rough.off, reach)


def _reach(rows: LearnedRows) -> float:
    """The farthest that a group's mean is expected to be from where it is put."""
    return rows.norm_law.quantile(_NEARLY_ALL)


def rough_share(rounds: Rounds, rows: LearnedRows, planned: Planned) -> float | None:
    """The part of the budget that rough means take; None where they would be too rough. From public numbers."""
    noise = planned(rows, rounds.within(rounds.left)).noise_std
    share = None if noise is None else share_for(length(noise) / length(rows.spread()))
    return None if share is None or share > rounds.affordable(share) else share


def share_for(error: float) -> float | None:
    """The part of the budget for rough means; error: of a group's mean for all of it, over the spread of rows."""
    if error > _TOO_ROUGH * math.sqrt(MOST_SHARE):
        return None
    return min(max((error / _ROUGH) ** 2, LEAST_SHARE), MOST_SHARE)


def _rough_means(
    rounds: Rounds, rows: LearnedRows, keys: Listed, planned: Planned, share: float, source: Source | None
) -> Rough:
    spend = rounds.charge("groups", share, rows.scale.size)
    plan = planned(rows, spend, _ROOMY / math.sqrt(share))
    noisy = plan.noisy(rounds.accumulate_by(plan.one.row_map, keys, source), rounds.stream())
    found = decode(plan.one, np.ldexp(noisy, -plan.one.grid_bits))
    one, radius = plan.one, float(rows.scale[0] / plan.one.ellipsoid.scale[0])
    squares = lengths_of(one.ellipsoid, found.value - rows.center) ** 2
    noise = spread_of(one, group_stds(one, found)) ** 2
    return Rough(found.value, found.rows.count, radius**2 * squares, radius**2 * noise)


def _pays(rough: Rough, rows: LearnedRows, rounds: Rounds, share: float) -> bool:
    """Whether groups are forecast to err less about their own means, taken together as a geometric mean."""
    square = rows.norm_law.median**2
    inside = _inside(rough, square)
    shorter = (inside + rough.squared_off) / square / (1 - _norms_share(rounds))
    without = rough.squared_noise * (share / float(rounds.left))  # of a last round about the one center
    later = rough.off * math.sqrt(min(shorter, 1.0))  # should these be bad, the next ones are off by no more
    lost = np.maximum(later - _HELD * math.sqrt(inside), 0.0) ** 2
    return float(np.mean(np.log(shorter + lost / without))) < math.log(_PAYS)


def _inside(rough: Rough, square: float) -> float:
    """The squared norm of a row about its own group's mean."""
    return max(square - rough.between, _NEAREST * square)


def _norms_share(rounds: Rounds) -> float:
    return rounds.affordable(Shares.of(rounds.noise_rows, rounds.d).final_norms)


def _rows_about(rounds: Rounds, rows: LearnedRows, rough: Rough, source: Source) -> LearnedRows:
    """What rows are like about their groups' rough means: the same shape, norms counted anew."""
    before = rows.norm_law
    middle = math.log2(_inside(rough, before.median**2)) / 2
    steps = settle_steps(Shares.of(rounds.noise_rows, rounds.d))
    edges = edges_about(middle, float(before.grid[-1]) + 1, steps)
    histogram = NormHistogram([(Ellipsoid(rows.center, rows.scale, rows.axes), edges)])
    rounds.source = source
    found = rounds.sum("norms", histogram, _norms_share(rounds))
    law = fit_norm_law(found.values, found.std, edges, rounds.n, 2.0**middle, pure=rounds.pure)
    nearer = law.median / before.median
    doubt = min(math.sqrt(rough.squared_off) / law.median, 1.0)
    errors = np.full(rows.scale.size, doubt)
    start = float(law.grid[0])
    return LearnedRows(rows.center, rows.std * nearer, rows.scale, start, law.mass, errors, rows.axes, rows.columns)
