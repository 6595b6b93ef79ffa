"""How a plan is made: the region laid, the counts beside it, and its noise under each law.

docs/proofs/plans.md: [U2] the weight of a count, [U9] the laws of noise.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol, TypeVar

import numpy as np

from ..errors import Floats
from ..noise.block_law import BoxLaw
from ..noise.law import Law
from ..noise.spherical_law import BallLaw
from ..privacy.budget import Budget
from ..privacy.guarantee import Privacy
from ..privacy.spherical_curve import BallPrivacy, Guarantee, safe_ratio
from ..regions.ellipsoid import Clip
from ..releases.description import square_levers
from ..request.missing import Handling, lay_riders
from ..request.people import People, unit_of
from ..request.request import HoldsRequest, Request
from ..row_maps.auxiliary_counts import OCTAVES, Riders, free_squares, product_units
from ..row_maps.grid import clamp_limits, grid_bits, noise_units
from ..row_maps.maps import Body, all_moves, clamped_body, clamped_moves, ellipsoid_body
from ..rows import RegionOptions
from ..util.structural_equality import Alike
from .plan import WIDEST_COUNT_WEIGHT, OutOfRange, Plan, rows_each

_FEW_ROWS = 28.0
"""n mu of a mean whose n nobody has guessed, for the weight of its count: see [U2]."""
_FREE_COUNT = math.sqrt(3) * (1 - 2.0**-20)
_SETTLED = 0.01  # of the noise: a region that was laid for so little more or less errs by its square more
LEAST_EPSILON = 1e-9
_LARGE = 2.0**400
_MOST_BOXED = 128  # columns' worth: with delta above 0 and more, noise in blocks never errs least
_MOST_CUT = 1 << 14  # columns that are cut into blocks beside other laws
_WIDEST_NORM_COUNT = 2.0**20  # counts of any number of rows then fit the limbs that norm noise is added to
_FEWEST_OCTAVES = 2
_CURIOSITY = 0.01  # weight of a count of cells outside, as a share of their column's half-width


class HasLaw(Protocol):
    """A plan, of one vector or of groups."""

    @property
    def mechanism(self) -> str: ...


P = TypeVar("P", bound=HasLaw)


@dataclass(frozen=True)
class Terms(HoldsRequest, Alike):
    """A sized request, with what planning decides beside it."""

    request: Request
    counts_left_out: bool = True
    """Whether rows that are left out are counted; in groups they belong to none."""
    least_count: float = 0.0
    """The least weight that the count of rows shall have, where it is private."""

    @property
    def budget(self) -> Budget:
        assert self.request.budget is not None
        return self.request.budget

    @property
    def neighbors(self) -> str:
        return self.request.neighbors

    @property
    def people(self) -> People | None:
        return self.request.people

    @property
    def noise(self) -> str:
        return self.request.noise

    @property
    def region_options(self) -> RegionOptions:
        request = self.request
        return RegionOptions(request.error_weights, bool(request.count_clipped))

    @property
    def handling(self) -> Handling:
        request = self.request
        return Handling(request.missing, request.count_clipped, request.nullable, self.counts_left_out)

    @property
    def each(self) -> int | None:
        return rows_each(self.people)

    @property
    def private_rows(self) -> bool:
        """Whether the number of rows is private: where rows come and go, or people have many [U8]."""
        return self.neighbors == "add_remove" or self.each is not None

    @property
    def importances(self) -> Floats:
        """Weight of each column's squared error."""
        weights = self.rows.importances(self.d, self.request.error_weights)
        return np.ones(self.d) if weights is None else weights / float(weights.max())

    @property
    def levers(self) -> Floats:
        """By how much one row more in a column's count moves the statistic, times n for a mean."""
        if self.statistic != "sum":  # of a description: of its means and of its stds, which it moves as far
            return self.rows.distances(self.d, self.n) * math.sqrt(2 if self.statistic == "describe" else 1)
        middle: Floats = np.abs(self.rows.middle())
        return middle


@dataclass(frozen=True)
class Draft:
    """A plan before its noise."""

    region: Clip
    riders: Riders
    bits: int
    count_units: int
    body: Body

    @property
    def dimension(self) -> int:
        return self.region.ellipsoid.width + self.riders.width + (1 if self.count_units else 0)


def least(plans: Sequence[P], errors: Sequence[float]) -> P:
    """The plan of least squared error, which says what the others would give."""
    best: Any = plans[int(np.argmin(errors))]
    if len(plans) > 1:
        considered = {plan.mechanism: math.sqrt(error) for plan, error in zip(plans, errors, strict=True)}
        best = replace(best, considered=considered)
    chosen: P = best
    return chosen


def blocks_may_pay(terms: Terms) -> bool:
    """Whether noise in blocks may err least: pure, as one may ask for, or where few columns are nearly as wide."""
    if not terms.rows.clamps or terms.budget.pair is None:
        return False
    if terms.budget.largest_mu is None or terms.noise == "norm":
        return True
    lower, upper = terms.rows.bounds()
    sizes = np.sqrt(terms.importances) * (upper / 2 - lower / 2)
    sizes = sizes / (float(sizes.max()) or 1.0)
    return terms.d <= _MOST_CUT and float(sizes.sum()) ** 2 <= _MOST_BOXED * float(sizes @ sizes)


def weighted_error(terms: Terms, plan: Plan) -> float:
    """The squared error of a sum of such rows, by the columns' importances."""
    ellipsoid, std = plan.noise_base
    with np.errstate(over="ignore"):
        errors = (ellipsoid.reach * std) ** 2
        if plan.absence_stds.size:
            errors = errors + (terms.levers * plan.absence_stds) ** 2
        if plan.count_std is not None:
            errors = errors + (terms.levers * plan.count_std) ** 2
        if plan.riders.squares.size:
            errors = errors + (square_levers(terms.rows) * plan.square_stds) ** 2
        return float(terms.importances @ errors) + plan.sum_clipping_error


def gaussian(terms: Terms) -> Plan:
    privacy = Privacy(terms.budget.mu, 0.0, terms.neighbors, unit_of(terms.people))
    region, kappa = lay_with_count(terms, privacy.mu)
    made = draft(terms, region, kappa, privacy.mu)
    return finished(terms, made, privacy, None, noise_units(_needed(terms, made), privacy.mu))


def _needed(terms: Terms, draft: Draft) -> Fraction:
    """The sensitivity that noise is drawn for; at least one unit, for where no row can move anything."""
    return max(draft.body.sensitivity(terms.neighbors, draft.count_units, terms.each), Fraction(1))


def spherical(terms: Terms) -> Plan:
    """Noise of density exp(-length): the same region and counts, another law [B1]."""
    from ..noise.spherical_law import ball_std

    assert terms.budget.pair is not None
    epsilon, delta = terms.budget.pair
    dimension = _likely_dimension(terms)
    for _ in range(2):  # the counts decide the dimension, and it decides the noise that they are laid for
        ratio = safe_ratio(epsilon, delta, dimension)
        region, kappa = lay_with_count(terms, ratio / ball_std(dimension))
        made = draft(terms, region, min(kappa, _WIDEST_NORM_COUNT), epsilon, few_octaves(terms.d))
        if made.dimension == dimension:
            break
        dimension = made.dimension
    ratio = safe_ratio(epsilon, delta, dimension)
    privacy = BallPrivacy(ratio, dimension, terms.neighbors, unit_of(terms.people))
    law = BallLaw.least(privacy, _needed(terms, made))
    return finished(terms, made, privacy, law, 0.0)


def _likely_dimension(terms: Terms) -> int:
    """Values, absences, what is outside, squares, the count of rows, before a region is laid; to err costs time."""
    rule, _ = terms.handling.rule(terms.rows, terms.d)
    absences = {"column": terms.d, "row": 1}.get(rule, 0)
    outside = terms.d if terms.rows.clamps else few_octaves(terms.d)
    counted = outside if terms.handling.counts(terms.rows) else 0
    squares = terms.d if terms.statistic == "describe" else 0
    return terms.d + absences + counted + squares + (1 if terms.private_rows else 0)


def boxed(terms: Terms) -> Plan:
    """Pure noise in blocks of columns that share a radius; every count is one more column [K1][K2]."""
    assert terms.budget.pair is not None
    epsilon = terms.budget.pair[0]
    region, kappa = lay_with_count(terms, epsilon)
    made, law = _in_blocks(terms, region, kappa, epsilon)
    if law is None:
        return spherical(terms)
    privacy = Privacy.of_pure(epsilon, terms.neighbors, unit_of(terms.people))
    return finished(terms, made, privacy, law, 0.0)


def _in_blocks(terms: Terms, region: Clip, kappa: float, epsilon: float) -> tuple[Draft, BoxLaw | None]:
    """A draft whose columns are alike on the grid, and the blocks of least error; None where no row moves anything."""
    from ..noise.block_law import choose_blocks

    region = _alike(region, terms)
    made = _evenly(draft(terms, region, 1.0 if kappa > 0 else 0.0, epsilon), terms)
    each = terms.each or 1
    limits = clamp_limits(terms.rows, region.ellipsoid, made.bits)
    moves = all_moves(clamped_moves(limits, made.riders, terms.neighbors), made.count_units, each)
    if not moves.any():
        return made, None
    values = np.ldexp(moves[: terms.d].astype(float), -made.bits) * region.ellipsoid.unscale
    unit = _unit(values)
    values = values / unit
    widths = np.concatenate([values, np.full(made.dimension - terms.d, float(each))])  # a row moves a count by one
    weights = importances_of_all(terms, made.riders, made.count_units, unit)
    live = moves > 0
    if not np.isfinite(weights).all():
        raise OutOfRange
    weights = np.where(live, np.maximum(weights, 1e-12 * float(weights.max())), 0.0)
    blocks = choose_blocks(np.where(live, np.maximum(widths, 1e-300), 0.0), weights, epsilon)
    if unit != 1:
        blocks = replace(blocks, error=min(blocks.error * unit * unit, sys.float_info.max))
    return made, BoxLaw.least(blocks, moves)


def _unit(widths: Floats) -> float:
    """A power of two that lengths are measured in where their squares would leave the range of doubles; else 1."""
    largest = float(widths.max())
    return 1.0 if 1 / _LARGE < largest < _LARGE else math.ldexp(1.0, math.frexp(largest)[1])


def _alike(region: Clip, terms: Terms) -> Clip:
    """The region with every column as wide as any other on the grid: columns of a block share one scale of noise."""
    lower, upper = terms.rows.bounds()
    half = (upper - lower) / 2
    live = region.ellipsoid.scale > 0
    with np.errstate(divide="ignore", over="ignore"):
        scale = np.where(live, 1 / np.where(live, half, 1.0), 0.0) / math.sqrt(terms.d)
    return replace(region, ellipsoid=replace(region.ellipsoid, scale=scale))


def _evenly(draft: Draft, terms: Terms) -> Draft:
    """The draft with counts that move as far as values do, so that none makes its block's noise larger."""
    limits = clamp_limits(terms.rows, draft.region.ellipsoid, draft.bits)
    move = int(limits.max()) * (2 if terms.neighbors == "replace" else 1)
    riders = replace(
        draft.riders,
        absences=np.where(draft.riders.absences > 0, move, 0),
        outside=np.where(draft.riders.outside > 0, move, 0),
        squares=np.where(draft.riders.squares > 0, move, 0),
    )
    return replace(draft, riders=riders, count_units=move if draft.count_units else 0)


def importances_of_all(terms: Terms, riders: Riders, count_units: int, unit: float = 1.0) -> Floats:
    """Weights of the squared error of every coordinate: values, absences, cells outside, squares, the count of rows.

    unit: what lengths are measured in.
    """
    columns, levers = terms.importances, terms.levers / unit
    by_column = columns * levers**2
    absences = riders.absences.size
    beside = by_column if absences == terms.d else np.full(absences, float(by_column.sum()))
    lower, upper = (end / unit for end in terms.rows.bounds())
    curious = columns * (_CURIOSITY * (upper - lower) / 2) ** 2
    outside = curious[: riders.outside.size]
    squares = (columns * (square_levers(terms.rows) / unit) ** 2)[: riders.squares.size]
    least = terms.least_count**2 * float(columns @ ((upper - lower) / 2) ** 2) / terms.d
    last = [max(float(by_column.sum()), least)] if count_units else []
    return np.concatenate([columns, beside, outside, squares, last])


def few_octaves(d: int) -> int:
    """Octaves of rows outside that are told apart: spherical noise grows with every coordinate, so few beside few."""
    return min(OCTAVES, max(_FEWEST_OCTAVES, d // 4))


def draft(terms: Terms, region: Clip, kappa: float, fineness: float, octaves: int = OCTAVES) -> Draft:
    """Put a clip region and what is counted beside it on the grid; fineness: mu, or what comes near it."""
    rows, neighbors = terms.rows, terms.neighbors
    bits = grid_bits(terms.n, fineness)
    riders = lay_riders(rows, region, terms.statistic, neighbors, terms.handling, bits, octaves)
    if terms.statistic == "describe":
        limits = clamp_limits(rows, region.ellipsoid, bits)
        alone = neighbors == "replace" and terms.each is None
        riders = replace(riders, squares=free_squares(limits, riders, alone))
        riders = replace(riders, products=product_units(limits)) if terms.request.covariance else riders
    count_units = round(math.ldexp(min(kappa, WIDEST_COUNT_WEIGHT), bits))
    if terms.statistic != "sum" and terms.private_rows:
        count_units = max(count_units, 1)
    if rows.clamps:
        body = clamped_body(clamp_limits(rows, region.ellipsoid, bits), riders)
    else:
        body = ellipsoid_body(region.ellipsoid.width, bits, riders)
    return Draft(region, riders, bits, count_units, body)


def finished(
    terms: Terms,
    draft: Draft,
    privacy: Guarantee,
    law: Law | None,
    units: float,
    is_part: bool = False,
) -> Plan:
    """A draft with its noise; is_part: one part of a larger release, whose budget is stated there."""
    region = draft.region
    return Plan(
        request=replace(terms.request, budget=None) if is_part else terms.request,
        privacy=privacy,
        ellipsoid=region.ellipsoid,
        grid_bits=draft.bits,
        count_units=draft.count_units,
        noise_units=units,
        clip_radius=region.radius,
        sum_clipping_error=region.clipping_error,
        center_spread=region.center_spread,
        riders=draft.riders,
        law=law,
    )


def lay_with_count(terms: Terms, mu: float) -> tuple[Clip, float]:
    """Clip region and count weight [U2]; they depend on each other through the noise, so settle both.

    mu: sensitivity over the noise's std. Where people have up to so many rows, the count of rows is free up to a weight
    of sqrt(3) [U8].
    """
    rows, d, options, n, statistic, each = (
        terms.rows,
        terms.d,
        terms.region_options,
        terms.n,
        terms.statistic,
        terms.each,
    )
    if terms.neighbors == "replace":
        region = rows.region(d, options, n, 2 * (each or 1) / mu)
        return region, _FREE_COUNT if each is not None and _needs_count(region, statistic) else 0.0
    kappa = 0.0
    rounds = 3 if rows.kind == "normal" else 1
    for _ in range(rounds):
        before = math.hypot(1, kappa)
        region = rows.region(d, options, n, before * (each or 1) / mu)
        kappa = max(count_weight(region, statistic, n, mu), terms.least_count)
        if abs(math.hypot(1, kappa) / before - 1) < _SETTLED:
            break
    return region, kappa


def _needs_count(region: Clip, statistic: str) -> bool:
    return statistic != "sum" or bool(region.ellipsoid.center.any())


def count_weight(region: Clip, statistic: str, n: float | None, mu: float) -> float:
    """[U2] kappa^2 = (lever of the count) / sqrt(tr (B^T B)^-1) minimizes the error.

    The lever is ‖c‖ for sums (sum = c N + T) and ‖mean - c‖ for means (mean = c + T / N), where the noise of T stands
    beside the mean's own distance.
    """
    unscale, center = region.ellipsoid.unscale, region.ellipsoid.center
    unit = max(float(unscale.max()), float(np.abs(center).max()))  # squares may leave the range of doubles
    if not unscale.any():
        return 1.0
    if not math.isfinite(unit):
        raise OutOfRange
    stretch = float(np.linalg.norm(unscale / unit))
    if statistic == "sum":
        lever = float(np.linalg.norm(center / unit))
    else:
        noisy_rows = _FEW_ROWS if n is None else n * mu
        lever = math.hypot(region.center_spread / unit, stretch * min(1.0, math.sqrt(3) / noisy_rows))
    return WIDEST_COUNT_WEIGHT if stretch == 0 else min(math.sqrt(lever / stretch), WIDEST_COUNT_WEIGHT)
