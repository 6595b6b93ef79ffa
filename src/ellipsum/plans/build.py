"""Making a plan: its region, the counts beside the values, and its noise under each mechanism.

docs/proofs/plans.md: [U2] the weight of a count, [U9] the mechanisms.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

import numpy as np

from ..errors import Floats
from ..noise.block_law import BlockLaw
from ..noise.law import NoiseLaw, SphericalLaw
from ..numerics.wide_integers import Ints
from ..privacy.budget import Budget
from ..privacy.guarantee import Privacy
from ..privacy.spherical_curve import Guarantee, SphericalPrivacy, safe_ratio
from ..regions.ellipsoid import Clip
from ..releases.numbers import PublicNumbers
from ..request.missing import MissingValues, few_octaves, lay_auxiliary_counts
from ..request.people import unit_of
from ..request.request import SUMS, HoldsRequest, Request
from ..row_maps.auxiliary_counts import AuxiliaryCounts, free_squares, product_units
from ..row_maps.maps import (
    Body,
    all_moves,
    clamp_limits,
    clamped_body,
    clamped_moves,
    ellipsoid_body,
    grid_bits,
    noise_units,
)
from ..util.structural_equality import ValueEquality
from .forecast import square_levers
from .plan import WIDEST_COUNT_WEIGHT, OutOfRange, Plan

_FEW_ROWS = 28.0
"""The assumed n mu of a mean without n, for the weight of its count [U2]."""
_FREE_COUNT = math.sqrt(3) * (1 - 2.0**-20)
_SETTLED = 0.01  # Relative change of the noise below which the region is final; the excess error is its square.
LEAST_EPSILON = 1e-9
_LARGE = 2.0**400
_MOST_BOXED = 128  # Effective columns; with more, and delta > 0, noise in blocks never has the smallest error.
_MOST_CUT = 1 << 14  # Columns; with more, noise in blocks is not compared with other mechanisms.
_WIDEST_NORM_COUNT = 2.0**20  # With this weight all counts fit the integers that K-norm noise is added to.
_CLAMPED_SHARE = 0.074
"""Share of epsilon for the count of rows with a clamped value: 150 are detected at epsilon = 1; noise is 8% larger."""


P = TypeVar("P", bound=PublicNumbers)


@dataclass(frozen=True)
class Terms(HoldsRequest, ValueEquality):
    """A sized request, and the choices of its planning."""

    request: Request
    counts_left_out: bool = True
    """Whether rows that are left out are counted. In releases of groups they belong to no group."""
    least_count: float = 0.0
    """The minimum weight of the number of rows, if it is private."""
    planner: Callable[[Request], Plan] | None = None
    """The function that plans other requests."""

    @property
    def budget(self) -> Budget:
        assert self.request.budget is not None
        return self.request.budget

    def region(self, noise_multiplier: float) -> Clip:
        """The clip region of the rows. noise_multiplier: the noise std in the scaled space."""
        request = self.request
        return self.rows.region(self.d, self.n, noise_multiplier, request.error_weights, bool(request.count_clipped))

    @property
    def missing_values(self) -> MissingValues:
        request = self.request
        return MissingValues(request.missing, request.count_clipped, request.nullable, self.counts_left_out)

    @property
    def each(self) -> int | None:
        people = self.request.people
        return None if people is None else people.rows_each

    @property
    def private_rows(self) -> bool:
        """Whether the number of rows is private: under add_remove, or if people have several rows [U8]."""
        return self.request.neighbors == "add_remove" or self.each is not None

    @property
    def importances(self) -> Floats:
        """Weight of each column's squared error."""
        weights = self.rows.importances(self.d, self.request.error_weights)
        return np.ones(self.d) if weights is None else weights / float(weights.max())

    @property
    def levers(self) -> Floats:
        """Change of the statistic if a column's count increases by one; for a mean, times n."""
        if self.statistic not in SUMS:  # In a description it changes means and stds by the same amount.
            return self.rows.distances(self.d, self.n) * math.sqrt(2 if self.statistic == "describe" else 1)
        middle: Floats = np.abs(self.rows.middle())
        return middle


@dataclass(frozen=True)
class Draft:
    """A plan before its noise."""

    region: Clip
    auxiliary: AuxiliaryCounts
    bits: int
    count_units: int
    body: Body

    @property
    def dimension(self) -> int:
        return self.region.ellipsoid.width + self.auxiliary.width + (1 if self.count_units else 0)


def choose_plan(plans: Iterable[P], error_of: Callable[[P], float]) -> P:
    """Select the plan with the smallest squared error, and record the errors of all mechanisms in it."""
    best, least, errors = None, math.inf, {}
    for plan in plans:
        try:
            error = errors[plan.mechanism] = error_of(plan)
        except OverflowError:  # The error of this mechanism is too large for doubles.
            continue
        if best is None or error < least:
            best, least = plan, error
    if best is None:
        raise OutOfRange
    if len(errors) > 1:
        considered = {name: math.sqrt(error) for name, error in errors.items()}
        object.__setattr__(best, "considered", considered)  # A copy would prove its noise again.
    return best


def blocks_may_pay(terms: Terms) -> bool:
    """Whether noise in blocks may have the smallest error: for pure DP, on request, or for few similar columns."""
    if not terms.rows.clamps or terms.budget.pair is None:
        return False
    if terms.budget.largest_mu is None or terms.request.noise == "knorm":
        return True
    lower, upper = terms.rows.bounds()
    sizes = np.sqrt(terms.importances) * (upper / 2 - lower / 2)
    sizes = sizes / (float(sizes.max()) or 1.0)
    return terms.d <= _MOST_CUT and float(sizes.sum()) ** 2 <= _MOST_BOXED * float(sizes @ sizes)


def weighted_error(terms: Terms, plan: Plan) -> float:
    """The expected squared error of a sum, weighted by the columns' importances."""
    ellipsoid, std = plan.noise_base
    with np.errstate(over="ignore"):
        errors = (ellipsoid.reach * std) ** 2
        if plan.absence_stds.size:
            errors = errors + (terms.levers * plan.absence_stds) ** 2
        if plan.count_std is not None:
            errors = errors + (terms.levers * plan.count_std) ** 2
        if plan.auxiliary.squares.size:
            errors = errors + (square_levers(terms.rows) * plan.square_stds) ** 2
        return float(terms.importances @ errors) + plan.sum_clipping_error


def plan_gaussian(terms: Terms) -> Plan:
    privacy = Privacy(terms.budget.mu, 0.0, terms.request.neighbors, unit_of(terms.request.people))
    region, kappa = lay_with_count(terms, privacy.mu)
    parts = make_draft(terms, region, kappa, privacy.mu)
    return finish(terms, parts, privacy, None, noise_units(_needed_noise(terms, parts), privacy.mu))


def _needed_noise(terms: Terms, draft: Draft) -> Fraction:
    """The sensitivity that the noise is calibrated to; at least one unit, even if no row changes the sums."""
    return max(draft.body.sensitivity(terms.request.neighbors, draft.count_units, terms.each), Fraction(1))


def plan_spherical(terms: Terms) -> Plan:
    """Make a plan with K-norm (L2) noise, of density exp(-length): another distribution, the same region [B1]."""
    from ..noise.law import ball_std

    assert terms.budget.pair is not None
    epsilon, delta = terms.budget.pair
    dimension = _likely_dimension(terms)
    for _ in range(2):  # The number of counts depends on the noise, and the noise on the number of counts.
        ratio = safe_ratio(epsilon, delta, dimension)
        region, kappa = lay_with_count(terms, ratio / ball_std(dimension))
        parts = make_draft(terms, region, min(kappa, _WIDEST_NORM_COUNT), epsilon, few=True)
        if parts.dimension == dimension:
            break
        dimension = parts.dimension
    ratio = safe_ratio(epsilon, delta, dimension)
    privacy = SphericalPrivacy(ratio, dimension, terms.request.neighbors, unit_of(terms.request.people))
    law = SphericalLaw.least(privacy, _needed_noise(terms, parts))
    return finish(terms, parts, privacy, law, 0.0)


def _likely_dimension(terms: Terms) -> int:
    """Guess the number of values and counts before the region is known. A wrong guess only costs time."""
    rule, _ = terms.missing_values.rule(terms.rows, terms.d)
    absences = {"column": terms.d, "row": 1}.get(rule, 0)
    outside = 1 if terms.rows.clamps else few_octaves(terms.d)
    counted = outside if terms.missing_values.counts(terms.rows) else 0
    squares = terms.d if terms.statistic == "describe" else 0
    return terms.d + absences + counted + squares + (1 if terms.private_rows else 0)


def plan_blocks(terms: Terms) -> Plan:
    """Make a plan with K-norm (L-infinity) noise in blocks of columns that share a radius [K1][K2]."""
    assert terms.budget.pair is not None
    epsilon = terms.budget.pair[0]
    region, kappa = lay_with_count(terms, epsilon)
    parts, law = _in_blocks(terms, region, kappa, epsilon)
    if law is None:
        return plan_spherical(terms)
    privacy = Privacy.of_pure(epsilon, terms.request.neighbors, unit_of(terms.request.people))
    return finish(terms, parts, privacy, law, 0.0)


def _in_blocks(terms: Terms, region: Clip, kappa: float, epsilon: float) -> tuple[Draft, BlockLaw | None]:
    """A draft with equally wide columns on the grid, and its blocks; None if no row changes the sums."""
    region = _alike(region, terms)
    parts = _evenly(make_draft(terms, region, 1.0 if kappa > 0 else 0.0, epsilon, few=True), terms)
    limits = clamp_limits(terms.rows, region.ellipsoid, parts.bits)
    if not parts.count_units and not clamped_moves(limits, parts.auxiliary, terms.request.neighbors).any():
        return parts, None
    choices = [_block_law(terms, parts, limits, (), epsilon)]
    if parts.auxiliary.missing == "column":
        paired = np.flatnonzero((parts.auxiliary.absences > 0) & (limits > 0))
        absences = parts.auxiliary.absences.copy()
        absences[paired] = limits[paired]  # A missing value then changes its pair as much as a value does [K5].
        beside = replace(parts, auxiliary=replace(parts.auxiliary, absences=absences))
        pairs = tuple((j, terms.d + j) for j in paired.tolist())
        choices.append(_block_law(terms, beside, limits, pairs, epsilon))
    chosen, law = min(choices, key=lambda choice: choice[1].blocks.error)
    return chosen, law


def _block_law(
    terms: Terms, parts: Draft, limits: Ints, pairs: tuple[tuple[int, int], ...], epsilon: float
) -> tuple[Draft, BlockLaw]:
    """The blocks with the smallest error. pairs: values that share noise with the counts of their absence [K5]."""
    from ..noise.block_law import choose_blocks, with_count

    each, d = terms.each or 1, terms.d
    moves = all_moves(clamped_moves(limits, parts.auxiliary, terms.request.neighbors, pairs), parts.count_units, each)
    values = np.ldexp(moves[:d].astype(float), -parts.bits) * parts.region.ellipsoid.unscale
    unit = _unit(values)
    values = values / unit
    widths = np.concatenate([values, np.full(parts.dimension - d, float(each))])  # A row changes a count by one.
    weights = importances_of_all(terms, parts.auxiliary, parts.count_units, unit)
    if not np.isfinite(weights).all():
        raise OutOfRange
    live = moves > 0
    clamped_rows = d + parts.auxiliary.counted - 1 if parts.auxiliary.outside_rows else None
    if clamped_rows is not None:
        live[clamped_rows] = False
    weights = np.where(live, np.maximum(weights, 1e-12 * float(weights.max())), 0.0)
    widths = np.where(live, np.maximum(widths, 1e-300), 0.0)
    if pairs:  # The value has half of the noise of the sum of both, the count that of their difference.
        first, second = np.array(pairs).T
        absence = widths[second] * (1.0 if terms.request.neighbors == "replace" else 0.5)
        error = np.hypot(np.sqrt(weights[first]) * widths[first] / 2, np.sqrt(weights[second]) * absence)
        widths[first], weights[first], weights[second] = error, 1.0, 0.0
    blocks = choose_blocks(widths, weights, epsilon, dict(pairs))
    if unit != 1:
        blocks = replace(blocks, error=min(blocks.error * unit * unit, sys.float_info.max))
    if clamped_rows is not None:
        blocks = with_count(blocks, clamped_rows, _CLAMPED_SHARE)
    return parts, BlockLaw.least(blocks, moves, pairs)


def _unit(widths: Floats) -> float:
    """A power of two as unit of lengths whose squares would exceed the range of doubles; else 1."""
    largest = float(widths.max())
    return 1.0 if 1 / _LARGE < largest < _LARGE else math.ldexp(1.0, math.frexp(largest)[1])


def _alike(region: Clip, terms: Terms) -> Clip:
    """Scale the region so that all columns are equally wide: columns of a block share one scale of noise."""
    lower, upper = terms.rows.bounds()
    half = (upper - lower) / 2
    live = region.ellipsoid.scale > 0
    with np.errstate(divide="ignore", over="ignore"):
        scale = np.where(live, 1 / np.where(live, half, 1.0), 0.0) / math.sqrt(terms.d)
    return replace(region, ellipsoid=replace(region.ellipsoid, scale=scale))


def _evenly(draft: Draft, terms: Terms) -> Draft:
    """Scale counts so that a row changes them as much as values, and no count increases its block's noise."""
    limits = clamp_limits(terms.rows, draft.region.ellipsoid, draft.bits)
    move = (int(limits.max()) or 1) * (2 if terms.request.neighbors == "replace" else 1)
    auxiliary = replace(
        draft.auxiliary,
        absences=np.where(draft.auxiliary.absences > 0, move, 0),
        outside_rows=move if draft.auxiliary.outside_rows else 0,
        squares=np.where(draft.auxiliary.squares > 0, move, 0),
    )
    return replace(draft, auxiliary=auxiliary, count_units=move if draft.count_units else 0)


def importances_of_all(terms: Terms, auxiliary: AuxiliaryCounts, count_units: int, unit: float = 1.0) -> Floats:
    """Weights of the squared error of every coordinate: values, missing values, squares, the number of rows.

    The count of rows with a clamped value has weight 0, since no estimate uses it. unit: the unit of lengths.
    """
    columns, levers = terms.importances, terms.levers / unit
    by_column = columns * levers**2
    absences = auxiliary.absences.size
    beside = by_column if absences == terms.d else np.full(absences, float(by_column.sum()))
    lower, upper = (end / unit for end in terms.rows.bounds())
    outside = np.zeros(auxiliary.counted - absences)
    squares = (columns * (square_levers(terms.rows) / unit) ** 2)[: auxiliary.squares.size]
    least = terms.least_count**2 * float(columns @ ((upper - lower) / 2) ** 2) / terms.d
    last = [max(float(by_column.sum()), least)] if count_units else []
    return np.concatenate([columns, beside, outside, squares, last])


def make_draft(terms: Terms, region: Clip, kappa: float, fineness: float, few: bool = False) -> Draft:
    """Put a clip region and the counts beside it on the grid. fineness: mu, or a similar number.

    few: see `lay_auxiliary_counts`.
    """
    rows, neighbors = terms.rows, terms.request.neighbors
    bits = grid_bits(terms.n, fineness)
    auxiliary = lay_auxiliary_counts(rows, region, terms.statistic, neighbors, terms.missing_values, bits, few)
    if terms.statistic == "describe":
        limits = clamp_limits(rows, region.ellipsoid, bits)
        alone = neighbors == "replace" and terms.each is None
        auxiliary = replace(auxiliary, squares=free_squares(limits, auxiliary, alone))
        auxiliary = replace(auxiliary, products=product_units(limits)) if terms.request.covariance else auxiliary
    count_units = round(math.ldexp(min(kappa, WIDEST_COUNT_WEIGHT), bits))
    if terms.statistic not in SUMS and terms.private_rows:
        count_units = max(count_units, 1)
    if rows.clamps:
        body = clamped_body(clamp_limits(rows, region.ellipsoid, bits), auxiliary)
    else:
        body = ellipsoid_body(region.ellipsoid.width, bits, auxiliary)
    return Draft(region, auxiliary, bits, count_units, body)


def finish(
    terms: Terms,
    draft: Draft,
    privacy: Guarantee,
    law: NoiseLaw | None,
    units: float,
    is_part: bool = False,
) -> Plan:
    """Make the plan of a draft and its noise. is_part: the larger release holds the budget."""
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
        auxiliary=draft.auxiliary,
        law=law,
        planner=terms.planner,
    )


def lay_with_count(terms: Terms, mu: float) -> tuple[Clip, float]:
    """Find the clip region and the count weight [U2], which depend on each other through the noise.

    mu: sensitivity divided by the noise std. If people have several rows, a count of weight up to sqrt(3) does not
    increase the sensitivity [U8].
    """
    n, statistic, each = terms.n, terms.statistic, terms.each
    if terms.request.neighbors == "replace":
        region = terms.region(2 * (each or 1) / mu)
        return region, _FREE_COUNT if each is not None and _needs_count(region, statistic) else 0.0
    kappa = 0.0
    rounds = 3 if terms.rows.kind == "normal" else 1
    for _ in range(rounds):
        before = math.hypot(1, kappa)
        region = terms.region(before * (each or 1) / mu)
        kappa = max(count_weight(region, statistic, n, mu), terms.least_count)
        if abs(math.hypot(1, kappa) / before - 1) < _SETTLED:
            break
    return region, kappa


def _needs_count(region: Clip, statistic: str) -> bool:
    return statistic not in SUMS or bool(region.ellipsoid.center.any())


def count_weight(region: Clip, statistic: str, n: float | None, mu: float) -> float:
    """[U2] kappa^2 = (lever of the count) / sqrt(tr (B^T B)^-1) minimizes the error.

    The lever is ‖c‖ for sums (sum = c N + T) and ‖mean - c‖ for means (mean = c + T / N), where the noise of T adds to
    the distance of the mean.
    """
    unscale, center = region.ellipsoid.unscale, region.ellipsoid.center
    unit = max(float(unscale.max()), float(np.abs(center).max()))  # Squares may exceed the range of doubles.
    if not unscale.any():
        return 1.0
    if not math.isfinite(unit):
        raise OutOfRange
    stretch = float(np.linalg.norm(unscale / unit))
    if statistic in SUMS:
        lever = float(np.linalg.norm(center / unit))
    else:
        noisy_rows = _FEW_ROWS if n is None else n * mu
        lever = math.hypot(region.center_spread / unit, stretch * min(1.0, math.sqrt(3) / noisy_rows))
    return WIDEST_COUNT_WEIGHT if stretch == 0 else min(math.sqrt(lever / stretch), WIDEST_COUNT_WEIGHT)
