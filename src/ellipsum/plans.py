"""Every public number of one release, made without data, and the forecast of its error.

docs/proofs/plans.md: [U1] one release, [U2] unknown n.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from . import codec
from .accumulate import Partial
from .answers import answer
from .errors import Floats, UsageError, names
from .grid import GRID_BITS, WIDE_GRID_BITS, clamp_limits, clamped_map, ellipsoid_map, grid_bits, noise_units
from .handling import Handling, lay_riders
from .noise import Stream, add_noise, add_noise_exact, shift_for
from .people import People, unit_of
from .plan_files import FORMAT, FORMAT_1, checked_spread, plan_fields, plan_to_dict
from .privacy import Budget, Privacy
from .release import Counts, Release, planned_release, register_reader
from .riders import OCTAVES, PLAIN, Riders
from .row_maps import ClampedMap, EllipsoidMap, clamped_body, ellipsoid_body
from .rows import Rows, Wishes
from .runnable import Runnable, check_gaps, check_width
from .session import Session
from .shape import Clip, Ellipsoid
from .texts import describe_plan, plan_html
from .vector_noise import Noise

_DROWNED = (
    "the noise would be as large as what the bounds leave open. More rows, tighter bounds or a larger budget help."
)
_OUT_OF_RANGE = "the noise of this plan or its forecast leaves the range of doubles. Rescale the columns."
_WIDEST_COUNT_WEIGHT = 2.0**30
_FEW_ROWS = 28.0
"""n mu of a mean whose n nobody has guessed, for the weight of its count: see [U2]."""
_MOST_ROWS = 2.0**64  # beyond any data, where n is private
_FARTHEST_NOISE = 64.0  # stds: exceeded with probability below 1e-890
_PLAINLY = Handling("center", check=False)
_FREE_COUNT = math.sqrt(3) * (1 - 2.0**-20)


@dataclass(frozen=True, repr=False)
class Plan(Runnable):
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
    people: People | None = None
    """Where rows are people: by which column, and what became of a person's rows."""
    riders: Riders = PLAIN
    """What is done about missing entries, and what is counted beside the values."""
    clamped: bool = False
    """Whether each entry is clamped to its own bounds (Box rows), rather than rows clipped by their norm."""

    def __post_init__(self) -> None:
        # A plan may come from a file: its noise is checked against its claim every time it is made.
        self.privacy.check_unit(self.people is not None)
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
        """The number of rows is a public n, or one more coordinate, or not needed at all [U2][U8]."""
        if self.public_rows:
            valid = self.count_units == 0 and self.n is not None
        elif self.neighbours == "replace" and self.n is None:
            valid = False
        else:
            most = math.ldexp(_WIDEST_COUNT_WEIGHT, self.grid_bits)
            valid = (0 if self.statistic == "sum" else 1) <= self.count_units <= most
        if not valid or self.privacy.slack:
            raise UsageError("this plan does not count its rows as its guarantee has it. Make the plan anew.")

    def _check_range(self) -> None:
        """An error where the noise, a result or the forecast could leave the range of doubles: public numbers alone."""
        center, unscale = float(np.abs(self.ellipsoid.center).max()), float(self.ellipsoid.unscale.max())
        rows = float(self.n) if self.public_rows and self.n is not None else _MOST_ROWS
        noise = unscale * self.scaled_std + center * (self.count_std or 0.0)
        farthest = (center + unscale) * rows + _FARTHEST_NOISE * noise
        square = noise * noise * self.ellipsoid.width + self.sum_clipping_error
        if not (math.isfinite(farthest) and math.isfinite(square) and math.isfinite(self.center_spread)):
            raise UsageError(_OUT_OF_RANGE)

    def _sensitivity(self) -> Fraction:
        """[U1] l2-sensitivity of the integer sum, with the count as one more coordinate where n is private."""
        return self.row_map.body.sensitivity(self.neighbours, self.count_units, rows_each(self.people))

    @property
    def d(self) -> int:
        return int(self.ellipsoid.center.size)

    @property
    def neighbours(self) -> str:
        return self.privacy.neighbours

    @property
    def public_rows(self) -> bool:
        """Whether the number of rows is public: under "replace", but not where people have many [U8]."""
        return self.neighbours == "replace" and rows_each(self.people) is None

    @cached_property
    def row_map(self) -> EllipsoidMap | ClampedMap:
        return plan_map(self.rows, self.ellipsoid, self.grid_bits, self.riders, self.clamped)

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
        """Expected squared norm of the noise; that of a mean's counts enters through the mean's distance [U2][U6]."""
        noise = self.noise()
        if noise is None:
            return None
        if self.statistic == "sum":
            return noise.total + self._absences_error(self.ellipsoid.center, 1.0)
        assert self.n is not None
        total = noise.total + self._absences_error(self.rows.distances(self.d, self.n), float(self.n))
        if self.count_std is None:
            return total
        shared = self.center_spread * self.count_std / self.n
        doubt = self.count_std / self.n
        return (total + shared * shared) * (1 + 3 * doubt * doubt)  # [U2]

    def _absences_error(self, levers: Floats, rows: float) -> float:
        """What the noise of the absences' counts adds, as levers of the statistic [U6]."""
        units = np.array(self.riders.absences, float)
        if not units.any():
            return 0.0
        with np.errstate(over="ignore", divide="ignore"):
            stds = np.where(units > 0, self.noise_units / units, 0.0) / rows
            return float(np.sum((levers * stds) ** 2))

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

    @property
    def doubt(self) -> str | None:
        """Why a budget spent on this plan may be wasted, in words; None where there is no reason."""
        if self.noise_error is None or self.center_spread == 0:
            return None
        scale = 1.0 if self.statistic == "mean" else self.n
        if scale is None or np.sqrt(self.noise_error) < self.center_spread * scale / 2:
            return None
        return _DROWNED

    def run(self, session: Session) -> Release:
        """[U1] Exact sums -> correctly rounded noisy integers -> the release, whatever source summed the rows."""
        check_width(self.d, session.source)
        check_gaps(self, session.source)
        session.propose(self)
        account = session.reserve(self.privacy, self.statistic)
        account.charge(account.cap, self.statistic)
        if self.neighbours == "replace" and not self.public_rows:
            self._check_rows(session.source.count())
        partial = session.total(self.row_map, public=self.public_rows)
        return self.publish(self.noisy_sums(partial, account.stream()), session.secure)

    def noisy_sums(self, partial: Partial, stream: Stream) -> Floats:
        """[U1] The noisy sums in the scaled space; under add_remove the weighted count comes last."""
        if self.public_rows:
            self._check_rows(partial.rows)
        shift = shift_for(self.noise_units)
        noisy = add_noise(partial.sums, self.noise_units, shift, stream)
        if self.count_units:  # an exact rational: its integer may be too wide for limbs before the shift, never after
            rows = [partial.rows * self.count_units]
            noisy = noisy.join(add_noise_exact(rows, self.noise_units, shift, stream, len(partial.sums)))
        scaled: Floats = np.ldexp(noisy.to_float(), shift - self.grid_bits)
        return scaled

    def _check_rows(self, count: int) -> None:
        """Under "replace" n is public, and a plan is for this many rows, or people."""
        if count != self.n:
            what = "rows" if self.people is None else "people"
            raise UsageError(f"this plan is for n = {self.n} {what}, the data has {count}. Plan anew for this n.")

    def publish(self, scaled: Floats, secure: bool) -> Release:
        """From noisy sums in the scaled space to original units: post-processing only [U3][U6]."""
        value, noise, tally = answer(self, scaled)
        return Release(value, self, noise, secure, tally.count, counts=Counts.of(self, tally, scaled))

    def to_dict(self) -> dict[str, Any]:
        return plan_to_dict(self)

    def to_json(self) -> str:
        return codec.dump(self.to_dict())

    @staticmethod
    def from_json(text: str) -> Plan:
        return plan_from_dict(codec.parse(text))

    def __repr__(self) -> str:
        return describe_plan(self)

    def _repr_html_(self) -> str:
        return plan_html(self)


def plan_from_dict(found: Any) -> Plan:
    """Inverse of `Plan.to_dict`: whatever the file claims is checked."""
    plan = Plan(**plan_fields(found))
    return replace(plan, center_spread=checked_spread(plan))


for _format in (FORMAT, FORMAT_1):
    register_reader(_format, lambda saved: planned_release(saved, plan_from_dict))


def plan_map(rows: Rows, ellipsoid: Ellipsoid, bits: int, riders: Riders, clamped: bool) -> EllipsoidMap | ClampedMap:
    """The row map of a plan."""
    return clamped_map(rows, ellipsoid, bits, riders) if clamped else ellipsoid_map(ellipsoid, bits, riders)


def plan_statistic(
    rows: Rows,
    statistic: str,
    n: int | None,
    d: int,
    budget: Budget,
    neighbours: str,
    columns: tuple[str, ...] | None,
    people: People | None,
    wishes: Wishes,
    handling: Handling,
) -> Plan:
    """A plan for rows whose region can be laid from what is stated."""
    known = rows.resolve(d)
    privacy = Privacy(budget.mu, 0.0, neighbours, unit_of(people))
    region, kappa = _lay_with_count(known, d, wishes, n, privacy, statistic, rows_each(people))
    options = {**vars(wishes), "missing": handling.missing}
    stated = dict(budget.stated)
    return assemble(known, statistic, n, privacy, region, kappa, columns, stated, options, people, handling)


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
    people: People | None = None,
    handling: Handling = _PLAINLY,
    octaves: int = OCTAVES,
) -> Plan:
    """Put a clip region on the grid and give it the least noise that the budget allows."""
    bits = grid_bits(n, privacy.mu)
    riders = lay_riders(rows, region, statistic, privacy.neighbours, handling, bits, octaves)
    count_units = round(math.ldexp(min(kappa, _WIDEST_COUNT_WEIGHT), bits))
    each = rows_each(people)
    if statistic == "mean" and (privacy.neighbours == "add_remove" or each is not None):
        count_units = max(count_units, 1)
    if rows.clamps:
        body = clamped_body(clamp_limits(rows, region.ellipsoid, bits), riders)
    else:
        body = ellipsoid_body(region.ellipsoid.width, bits, riders)
    needed = body.sensitivity(privacy.neighbours, count_units, each)
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
        people=people,
        riders=riders,
        clamped=rows.clamps,
    )


def _lay_with_count(
    rows: Rows, d: int, wishes: Wishes, n: int | None, privacy: Privacy, statistic: str, each: int | None = None
) -> tuple[Clip, float]:
    """Clip region and count weight [U2]; they depend on each other through the noise, so settle both.

    each: where people have up to so many rows, the count of rows is free up to a weight of sqrt(3) [U8].
    """
    if privacy.neighbours == "replace":
        region = rows.region(d, wishes, n, 2 * (each or 1) / privacy.mu)
        return region, _FREE_COUNT if each is not None and _needs_count(region, statistic) else 0.0
    kappa = 0.0
    rounds = 3 if rows.kind == "normal" else 1
    for _ in range(rounds):
        region = rows.region(d, wishes, n, math.hypot(1, kappa) * (each or 1) / privacy.mu)
        kappa = count_weight(region, statistic, n, privacy.mu)
    return region, kappa


def last_count_weight(region: Clip, statistic: str, n: int, privacy: Privacy, people: People | None) -> float:
    """The weight of the count of rows in a region that is laid already [U2][U8]."""
    if privacy.neighbours != "replace":
        return count_weight(region, statistic, n, privacy.mu)
    return _FREE_COUNT if rows_each(people) is not None and _needs_count(region, statistic) else 0.0


def rows_each(people: People | None) -> int | None:
    """So many rows of a person enter a statistic of rows; None where everybody is one row."""
    return None if people is None else people.rows_each


def _needs_count(region: Clip, statistic: str) -> bool:
    return statistic == "mean" or bool(region.ellipsoid.center.any())


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
