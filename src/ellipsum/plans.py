"""Every public number of one release, made without data, and the forecast of its error.

docs/proofs/plans.md: [U1] one release, [U2] unknown n.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from . import codec
from .errors import Floats, UsageError, choice, columns_of, names, whole
from .grid import GRID_BITS, WIDE_GRID_BITS, ellipsoid_map, grid_bits, noise_units
from .privacy import NEIGHBOURS, Budget, Privacy
from .row_maps import Body, EllipsoidMap, clipped_norm_bound
from .rows import Rows, Unknown
from .shape import Clip, Ellipsoid, lay

if TYPE_CHECKING:
    from .release import Release

_OUT_OF_RANGE = "the noise of this plan or its forecast leaves the range of doubles. Rescale the columns."
STATISTICS = ("sum", "mean")
_WIDEST_COUNT_WEIGHT = 2.0**30
_FEW_ROWS = 28.0
"""n mu of a mean whose n nobody has guessed, for the weight of its count: see [U2]."""
_MOST_ROWS = 2.0**64  # beyond any data, where n is private
_FARTHEST_NOISE = 64.0  # stds: exceeded with probability below 1e-890


@dataclass(frozen=True)
class Noise:
    """Gaussian noise of a vector: covariance std^2 L L^T + u u^T, L the ellipsoid's inverse map."""

    ellipsoid: Ellipsoid
    std: float
    count_direction: Floats | None = None

    @property
    def stds(self) -> Floats:
        stds = self.ellipsoid.unscale * self.std
        if self.ellipsoid.axes is not None:
            largest = float(stds.max()) or 1.0  # squares of stds may leave the range of doubles
            stds = largest * np.sqrt(self.ellipsoid.axes**2 @ (stds / largest) ** 2)
        if self.count_direction is not None:
            stds = np.hypot(stds, self.count_direction)
        return stds

    @property
    def covariance(self) -> Floats:
        """The full d x d matrix."""
        axes, stretch = self.ellipsoid.axes, (self.ellipsoid.unscale * self.std) ** 2
        matrix = np.diag(stretch) if axes is None else (axes * stretch) @ axes.T
        if self.count_direction is not None:
            matrix = matrix + np.outer(self.count_direction, self.count_direction)
        return matrix

    def squared_length(self, offset: Floats) -> float:
        """offset^T V^-1 offset over the directions that carry noise."""
        ellipsoid = self.ellipsoid
        white = ellipsoid.scaled(offset) / self.std
        square = float(white @ white)
        if self.count_direction is not None:
            # Sherman-Morrison: the count's noise is one more direction.
            shared = ellipsoid.scaled(self.count_direction) / self.std
            square -= float(white @ shared) ** 2 / (1 + float(shared @ shared))
        return square

    @property
    def total(self) -> float:
        """Expected squared norm: the trace of the covariance."""
        total = self.std * self.std * self.ellipsoid.trace
        if self.count_direction is not None:
            with np.errstate(over="ignore", under="ignore"):
                total += float(self.count_direction @ self.count_direction)
        return total


@dataclass(frozen=True, repr=False)
class Plan:
    """One release, before the data: clip region, grid, noise, guarantee, forecast.

    Guarantee: `release` on any data is `privacy` for its neighbouring relation [U1].
    """

    rows: Rows
    statistic: str
    n: int | None
    privacy: Privacy
    ellipsoid: Ellipsoid
    grid_bits: int
    count_units: int
    """The count's own coordinate on the grid (unknown n), or 0."""
    noise_units: float
    """Noise std in grid units: noise_units * mu >= sensitivity in exact arithmetic."""
    clip_radius: float | None = None
    sum_clipping_error: float = 0.0
    center_spread: float = 0.0
    columns: tuple[str, ...] | None = None
    stated: Mapping[str, float] = field(default_factory=dict)
    """The budget in the caller's own words: epsilon and delta, mu, or rho."""
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A plan may come from a file: its noise is checked against its claim every time it is made.
        self.privacy.check_unit(self.options)
        self.privacy.check_stated(self.stated)
        names("columns", self.columns, self.d)
        self.ellipsoid.check()
        if not (math.isfinite(self.noise_units) and self.grid_bits in (GRID_BITS, WIDE_GRID_BITS)):
            raise UsageError("this plan's grid or noise is not a valid number. Make the plan anew.")
        self._check_count()
        if Fraction(self.noise_units) * Fraction(self.privacy.mu) < self._sensitivity():
            raise UsageError("this plan's noise is below what its guarantee needs. Make the plan anew.")
        if self.stated:  # the last round of learning keeps its results within range itself
            self._check_range()

    def _check_count(self) -> None:
        """The number of rows is a public n, or one more coordinate, or not needed at all [U2]."""
        if self.neighbours == "replace":
            valid = self.count_units == 0 and self.n is not None
        else:
            most = math.ldexp(_WIDEST_COUNT_WEIGHT, self.grid_bits)
            valid = (0 if self.statistic == "sum" else 1) <= self.count_units <= most
        if not valid or self.privacy.slack:
            raise UsageError("this plan does not count its rows as its guarantee has it. Make the plan anew.")

    def _check_range(self) -> None:
        """An error where the noise, a result or the forecast could leave the range of doubles: public numbers alone."""
        center, unscale = float(np.abs(self.ellipsoid.center).max()), float(self.ellipsoid.unscale.max())
        rows = float(self.n) if self.neighbours == "replace" and self.n is not None else _MOST_ROWS
        noise = unscale * self.scaled_std + center * (self.count_std or 0.0)
        farthest = (center + unscale) * rows + _FARTHEST_NOISE * noise
        square = noise * noise * self.ellipsoid.width + self.sum_clipping_error
        if not (math.isfinite(farthest) and math.isfinite(square) and math.isfinite(self.center_spread)):
            raise UsageError(_OUT_OF_RANGE)

    def _sensitivity(self) -> Fraction:
        return clip_sensitivity(self.ellipsoid.width, self.grid_bits, self.neighbours, self.count_units)

    @property
    def d(self) -> int:
        return int(self.ellipsoid.center.size)

    @property
    def neighbours(self) -> str:
        return self.privacy.neighbours

    @cached_property
    def row_map(self) -> EllipsoidMap:
        return ellipsoid_map(self.ellipsoid, self.grid_bits)

    @property
    def scaled_std(self) -> float:
        """Noise std in the scaled space, where rows have norm at most 1."""
        return math.ldexp(self.noise_units, -self.grid_bits)

    @property
    def count_weight(self) -> float:
        """kappa: the count's coordinate in the scaled space (unknown n), or 0."""
        return math.ldexp(self.count_units, -self.grid_bits)

    @property
    def count_std(self) -> float | None:
        """Noise std of the published count (unknown n), or None."""
        return self.scaled_std / self.count_weight if self.count_units else None

    def noise(self) -> Noise | None:
        """Noise of the planned statistic; None for a mean whose n nobody has guessed."""
        if self.statistic == "sum":
            if self.count_std is None:
                return Noise(self.ellipsoid, self.scaled_std)
            return Noise(self.ellipsoid, self.scaled_std, self.ellipsoid.center * self.count_std)
        if self.n is None:
            return None
        return Noise(self.ellipsoid, self.scaled_std / self.n)

    @cached_property
    def noise_std(self) -> Floats | None:
        noise = self.noise()
        return None if noise is None else noise.stds

    @property
    def noise_cov(self) -> Floats | None:
        noise = self.noise()
        return None if noise is None else noise.covariance

    @property
    def noise_error(self) -> float | None:
        """Expected squared norm of the noise; a mean's count noise enters through `center_spread`."""
        noise = self.noise()
        if noise is None:
            return None
        if self.statistic == "sum" or self.count_std is None:
            return noise.total
        assert self.n is not None
        shared = self.center_spread * self.count_std / self.n
        doubt = self.count_std / self.n
        return (noise.total + shared * shared) * (1 + 3 * doubt * doubt)  # [U2]

    @property
    def clipping_error(self) -> float | None:
        """Expected squared norm of what clipping removes (0 where the stated region holds every row)."""
        if self.statistic == "sum":
            return self.sum_clipping_error
        return None if self.n is None else self.sum_clipping_error / self.n**2

    @property
    def expected_squared_error(self) -> float | None:
        """E‖release - true statistic‖^2 = noise_error + clipping_error."""
        noise, clipping = self.noise_error, self.clipping_error
        return None if noise is None or clipping is None else noise + clipping

    def release(self, data: Any, rng: np.random.Generator | None = None, **how: Any) -> Release:
        """Run this plan on data; see `ellipsum.sum` for what data may be."""
        from .run import run_plan

        return run_plan(self, data, rng=rng, **how)

    def to_json(self) -> str:
        from .plan_files import plan_to_dict

        return codec.dump(plan_to_dict(self))

    @staticmethod
    def from_json(text: str) -> Plan:
        from .plan_files import plan_from_dict

        return plan_from_dict(codec.parse(text))

    def __repr__(self) -> str:
        from .texts import describe_plan

        return describe_plan(self)


def plan(
    rows: Rows,
    *,
    n: int | None = None,
    d: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    statistic: str = "sum",
    neighbours: str = "replace",
    shape: str = "optimal",
    clip: str | float = "optimal",
    clip_probability: float | None = None,
    weights: Any = None,
    method: str = "auto",
    columns: tuple[str, ...] | list[str] | None = None,
) -> Plan:
    """Every public number of one release of `statistic`, made without data.

    n is the public number of rows under "replace" and the caller's guess under "add_remove"; weights are
    per-coordinate importances of the squared error (Box and Normal rows), or "relative" to count each
    column's error in units of its own stated spread. For Unknown rows the result is a
    `learning.plan.LearningPlan`, the schedule of rounds, and `method` names how they are learned.
    """
    if not isinstance(rows, Rows):
        raise UsageError(f"rows must be one of Ball, Box, Normal, Unknown, got {type(rows).__name__}.")
    spend = Budget.of(epsilon=epsilon, delta=delta, budget=budget)
    choice("statistic", statistic, STATISTICS)
    choice("neighbours", neighbours, NEIGHBOURS)
    if n is None and neighbours == "replace":
        raise UsageError("n is missing. State the number of rows; it is public under neighbours='replace'.")
    count = None if n is None else whole("n", n)
    named = names("columns", columns) or rows.columns
    width = _width(rows, d, named)
    if isinstance(rows, Unknown):
        from .learning.plan import plan_unknown

        if not (_is(shape, "optimal") and _is(clip, "optimal") and clip_probability is None and weights is None):
            raise UsageError("shape, clip and weights cannot be chosen for Unknown rows: they are learned.")
        learned = plan_unknown(rows, statistic, count, width, spend, neighbours, named, method)
        return cast(Plan, learned)  # a LearningPlan: the same words, with a schedule in place of the noise
    if not _is(method, "auto"):
        raise UsageError("method is for Unknown rows. Leave it out.")
    options = {"shape": shape, "clip": clip, "clip_probability": clip_probability, "weights": weights}
    known = rows.resolve(width)
    privacy = Privacy(spend.mu, 0.0, neighbours)
    region, kappa = _lay_with_count(known, width, options, count, privacy, statistic)
    return assemble(known, statistic, count, privacy, region, kappa, named, dict(spend.stated), options)


def _is(value: Any, word: str) -> bool:
    """Whether a value, of any type at all, is this word."""
    return isinstance(value, str) and value == word


def assemble(
    rows: Rows,
    statistic: str,
    n: int | None,
    privacy: Privacy,
    region: Clip,
    kappa: float,
    columns: tuple[str, ...] | None,
    stated: Mapping[str, float],
    options: Mapping[str, Any],
) -> Plan:
    """Put a clip region on the grid and give it the least noise that the budget allows."""
    bits = grid_bits(n, privacy.mu)
    count_units = round(math.ldexp(min(kappa, _WIDEST_COUNT_WEIGHT), bits))
    if statistic == "mean" and privacy.neighbours == "add_remove":
        count_units = max(count_units, 1)
    needed = clip_sensitivity(region.ellipsoid.width, bits, privacy.neighbours, count_units)
    return Plan(
        rows=rows,
        statistic=statistic,
        n=n,
        privacy=privacy,
        ellipsoid=region.ellipsoid,
        grid_bits=bits,
        count_units=count_units,
        noise_units=noise_units(needed, privacy.mu),
        clip_radius=region.radius,
        sum_clipping_error=region.clipping_error,
        center_spread=region.center_spread,
        columns=columns,
        stated=stated,
        options={k: v for k, v in options.items() if v is not None},
    )


@lru_cache(maxsize=256)
def clip_sensitivity(width: int, bits: int, neighbours: str, count_units: int = 0) -> Fraction:
    """[S2] l2-sensitivity of the integer sum of clipped rows; [U2] with the count as one more coordinate."""
    norm = clipped_norm_bound(width, bits)
    return Body(norm, 2 * norm).sensitivity(neighbours, count_units)


def _lay_with_count(
    rows: Rows, d: int, options: Mapping[str, Any], n: int | None, privacy: Privacy, statistic: str
) -> tuple[Clip, float]:
    """Clip region and count weight [U2]; they depend on each other through the noise, so settle both."""
    if privacy.neighbours == "replace":
        return lay(rows, d, n=n, noise_multiplier=2 / privacy.mu, **options), 0.0
    kappa = 0.0
    rounds = 3 if rows.kind == "normal" else 1
    for _ in range(rounds):
        region = lay(rows, d, n=n, noise_multiplier=math.hypot(1, kappa) / privacy.mu, **options)
        kappa = count_weight(region, statistic, n, privacy.mu)
    return region, kappa


def count_weight(region: Clip, statistic: str, n: float | None, mu: float) -> float:
    """[U2] kappa^2 = (lever of the count) / sqrt(tr (B^T B)^-1) minimises the error.

    The lever is ‖c‖ for sums (sum = c N + T) and ‖mean - c‖ for means (mean = c + T / N), where the noise of T stands
    beside the mean's own distance.
    """
    unscale, center = region.ellipsoid.unscale, region.ellipsoid.center
    unit = max(float(unscale.max()), float(np.abs(center).max()))  # squares may leave the range of doubles
    if not unscale.any():
        return 1.0
    if not math.isfinite(unit):
        raise UsageError(_OUT_OF_RANGE)
    stretch = float(np.linalg.norm(unscale / unit))
    if statistic == "sum":
        lever = float(np.linalg.norm(center / unit))
    else:
        noisy_rows = _FEW_ROWS if n is None else n * mu
        lever = math.hypot(region.center_spread / unit, stretch * min(1.0, math.sqrt(3) / noisy_rows))
    return _WIDEST_COUNT_WEIGHT if stretch == 0 else min(math.sqrt(lever / stretch), _WIDEST_COUNT_WEIGHT)


def _width(rows: Rows, d: int | None, named: tuple[str, ...] | None) -> int:
    found = {columns_of("d", d)} if d is not None else set()
    found |= {rows.d} if rows.d is not None else set()
    found |= {len(named)} if named is not None else set()
    if not found:
        raise UsageError("d is missing. State the number of columns, or give vectors or names in rows.")
    if len(found) > 1:
        raise UsageError(f"d, rows and columns disagree on the number of columns: {sorted(found)}.")
    return found.pop()
