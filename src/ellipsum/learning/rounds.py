"""Several noisy sums over one source within one reserved budget.

[L7] Every round is charged before a row of it is read, by the filter of [P5] and [P10]; what a round asks may depend on
earlier noisy results. Rounds are Gaussian, with shares of mu^2, or pure, with shares of epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import BudgetRefused, Floats, UsageError
from ..noise import Stream
from ..noise.law import GaussianLaw, LaplaceLaw, NoiseLaw
from ..numerics.rounding import round_down, sqrt_down
from ..numerics.wide_integers import Wide
from ..plans.base import StatisticPlan
from ..privacy.guarantee import Privacy
from ..regions.ellipsoid import Ellipsoid
from ..releases.decode import MissingCounts
from ..releases.learning_record import RELEASE, Step
from ..request.missing import MissingValues
from ..row_maps.histograms import Count, CountMap, SideBySide
from ..row_maps.maps import Prepared, RowMap, ellipsoid_map, noise_units
from ..row_maps.maps import grid_bits as bits_for
from ..rows import Box, LearnedRows, Unknown
from ..session import Progress, Session
from ..sources import Source
from ..sources.protocol import scale_progress as share_of
from .constants import LEAST_SHARE


@dataclass(frozen=True)
class Split:
    """How a budget is split for n rows [L8][L12].

    privacy: the guarantee of rounds and release together. With mu, rounds are Gaussian, and the release spends the pure
    epsilon, if there is one. share: the part of mu^2, or of a pure epsilon, that finds columns. is_box: True if columns
    are clamped, False if rows are clipped by their norm. unit: the noise std of the released sum for each unit of a
    column's width or a row's norm. clear_rows: n over the noise std of a histogram of all columns, for all of it.
    """

    privacy: Privacy
    share: float
    is_box: bool
    unit: float
    clear_rows: float


class NoisySum(NamedTuple):
    """A noisy sum in natural units (grid removed), and the standard deviation of the noise in each entry."""

    values: Floats
    std: float


@dataclass
class Region:
    """The place of the rows as found so far, and the bounds of the release, in original units.

    center, unit: the median and spread of each column; vectors have one unit for all columns. radius: about the median
    norm of rows in these units. lower, upper: the ends that values are clamped to. clip: the ellipsoid that rows are
    clipped to, if they are clipped. found: whether each column was found; only the magnitude of another is known.
    bias: (2, d), 95% bounds on the amounts by which clamping and clipping lower and raise the sum of each column.
    warnings: why intervals cannot be trusted, in sentences. unnoticed: how many outliers could go unnoticed.
    missing_counts: the missing values of columns that were found one by one; None if the release counts them.
    measures_bias: whether `bias` bounds the effect of clipping; otherwise the release counts clipped rows.
    """

    center: Floats
    unit: Floats
    lower: Floats
    upper: Floats
    found: NDArray[np.bool_]
    bias: Floats
    warnings: tuple[str, ...] = ()
    unnoticed: int = 0
    missing_counts: MissingCounts | None = None
    radius: float = 1.0
    clip: LearnedRows | None = None
    measures_bias: bool = True

    @property
    def rows(self) -> Box | LearnedRows:
        """The bounds of the release."""
        return self.clip or Box(self.lower, self.upper)

    def ellipsoid(self, scale: Floats | float = 1.0) -> Ellipsoid:
        """y = scale (x - center) / unit; zero in columns that were not found."""
        return Ellipsoid(self.center, np.where(self.found, scale / self.unit, 0.0))

    def clamp(self, row_map: RowMap) -> RowMap:
        """The map after clamping, with missing values at the center, if columns were found one by one."""
        return row_map if self.missing_counts is None else Prepared(row_map, self.center, self.lower, self.upper)

    def move(self, steps: Floats) -> None:
        """Move the center by steps in these units, and not out of what values are clamped to."""
        self.center = np.clip(self.center + np.where(self.found, steps * self.unit, 0.0), self.lower, self.upper)


class Rounds:
    """Noisy sums over one source, within the guarantee of a plan [L7].

    With mu, rounds are Gaussian and take shares of mu^2; only the release spends a pure epsilon beside it. Without mu,
    rounds and release are pure and take shares of epsilon. If the number of rows is private, a first round counts them.
    """

    def __init__(self, session: Session, plan: StatisticPlan[Any], split: Split, passes: int, source: Source) -> None:
        if not session.rereadable:
            raise UsageError(
                "Unknown bounds are learned in several passes, and this source can be read only once. "
                "Pass an array, a table, a file or a list of batches."
            )
        request = plan.request
        assert isinstance(request.bounds, Unknown)
        self.session, self.split, self.source, self.d = session, split, source, source.width
        self.privacy = plan.privacy.as_pair()
        self.neighbors = request.neighbors
        self.missing_values = MissingValues(request.missing, request.count_clipped, source.nullable)
        self.magnitude = request.bounds.magnitudes(self.d)
        self.has_units = request.error_weights == "relative"
        """Whether columns have units of their own, so that they are located one by one."""
        self.names = source.columns or tuple(f"x{j + 1}" for j in range(self.d))
        self.steps: list[Step] = []
        self.left = Fraction(1)
        """The share of mu^2, or of epsilon, that is not charged yet."""
        self._account = session.reserve(self.privacy, f"{request.statistic} with unknown bounds", plan)
        self.rows_each = None if session.people is None else session.people.rows_each
        self.has_public_rows = self.neighbors == "replace" and self.rows_each is None
        """False if rows come and go, or if people have several rows [U8]."""
        self.passes_left = self._passes = passes
        """Passes over the rows that the plan still allows, the release included."""
        self.n, self.n_std = float(request.n or 0), 0.0
        """The number of rows: public, or noisy and at least 1; and the standard deviation of its noise."""
        if not self.has_public_rows:
            counted = self.sum("count", Count(self.d), LEAST_SHARE)
            self.n, self.n_std = max(1.0, float(counted.values[0])), counted.std

    @property
    def is_pure(self) -> bool:
        return not self.privacy.mu

    def whole_range(self) -> Region:
        """The region before the first round: each column from -magnitude to magnitude."""
        size, ones = self.magnitude, np.ones(self.d)
        return Region(0 * size, float(size.max()) * ones, -size, size, ones > 0, np.zeros((2, self.d)))

    def privacy_of(self, share: float | Fraction, slack: float = 0.0) -> Privacy:
        """The guarantee of this share of the rounds' budget; nothing is charged."""
        part, unit = Fraction(share), self.privacy.unit
        if self.is_pure:
            return Privacy.of_pure(round_down(part * Fraction(self.privacy.pure[0])), self.neighbors, unit)
        return Privacy(sqrt_down(part * Fraction(self.privacy.mu) ** 2), slack, self.neighbors, unit)

    def std(self, row_map: RowMap, share: float | Fraction) -> float:
        """The noise that a round would have; nothing is charged and no row is read."""
        return self._std(self._law(row_map, self.privacy_of(share)), row_map)

    @staticmethod
    def _std(law: NoiseLaw, row_map: RowMap) -> float:
        return math.ldexp(float(law.stds(1)[0]), -row_map.grid_bits)

    def unit_noise(self, share: float | Fraction) -> float:
        """The noise of a sum of rows clipped to norm 1, for this share of the budget."""
        return self.std(self.clip(Ellipsoid(np.zeros(self.d), np.ones(self.d))), share)

    def clip(self, ellipsoid: Ellipsoid) -> RowMap:
        """The map of rows clipped to an ellipsoid, on a grid whose rounding is far below the noise."""
        return ellipsoid_map(ellipsoid, bits_for(round(self.n), self.privacy.mu))

    def sum(self, name: str, row_map: RowMap, share: float | Fraction) -> NoisySum:
        """The noisy sum of a row map over the source, for this share of the rounds' budget [L7]."""
        return self.sums((name, row_map, share))[0]

    def sums(self, *rounds: tuple[str, RowMap, float | Fraction]) -> list[NoisySum]:
        """Noisy sums of several row maps from one pass; each has a name, a share, and a charge of its own [L7]."""
        spends = [self.charge(name, share, row_map.width) for name, row_map, share in rounds]
        row_maps = [row_map for _, row_map, _ in rounds]
        together = self._accumulate(row_maps[0] if len(rounds) == 1 else SideBySide(row_maps))
        ends = np.cumsum([0, *(row_map.width for row_map in row_maps)])
        results = []
        for row_map, spend, first, last in zip(row_maps, spends, ends[:-1], ends[1:], strict=True):
            law = self._law(row_map, spend)
            noisy = law.add(Wide(together.high[first:last], together.low[first:last]), [], self.stream())
            results.append(NoisySum(np.ldexp(noisy, -row_map.grid_bits), self._std(law, row_map)))
        return results

    def charge(self, name: str, share: float | Fraction, width: int, slack: float = 0.0) -> Privacy:
        """Charge a round before its rows are read, or refuse it."""
        if not 0 < Fraction(share) <= self.left:
            raise BudgetRefused(f"the round {name!r} asks for {float(share):.3g}, and {float(self.left):.3g} is left.")
        spend = self.privacy_of(share, slack)
        self._account.charge(spend, name)
        self.steps.append(Step(name, spend, width))
        self.left -= Fraction(share)
        return spend

    def charge_release(self, spend: Privacy, width: int) -> Stream:
        """Charge the release before its rows are read, and return the stream of its noise."""
        self._account.charge(spend, RELEASE)
        self.steps.append(Step(RELEASE, spend, width))
        return self.stream()

    def stream(self) -> Stream:
        """The stream of noise of a charged round: the account opens one stream for each charge."""
        return self._account.stream()

    def remaining(self) -> Privacy:
        """The guarantee of the release: the pure epsilon beside Gaussian rounds, or the rest of the rounds' budget."""
        if self.privacy.mu and self.privacy.pure:
            return Privacy.of_pure(self.privacy.pure[0], self.neighbors, self.privacy.unit)
        return self.privacy_of(self.left)

    @property
    def progress(self) -> Progress | None:
        """Progress of the release, which is the last part of the call."""
        return share_of(self.session.progress, self._passed, 1.0)

    @property
    def _passed(self) -> float:
        """The share of the passes that were made."""
        return 1 - self.passes_left / self._passes

    def _law(self, row_map: RowMap, spend: Privacy) -> NoiseLaw:
        """The distribution of a sum's noise, its scale in units of the grid and rounded up [L7][L8]."""
        if not self.is_pure:
            return GaussianLaw(
                noise_units(row_map.body.sensitivity(self.neighbors, rows_each=self.rows_each), spend.mu)
            )
        counts = row_map.inner if isinstance(row_map, Prepared) else row_map
        if not isinstance(counts, CountMap):
            raise UsageError("pure rounds count rows, and sum nothing else.")
        sides = 2 if self.neighbors == "replace" else 1
        return LaplaceLaw.least(counts.l1 * sides * (self.rows_each or 1), spend.pure[0])

    def _accumulate(self, row_map: RowMap) -> Wide:
        """Exact sums of one pass; under "replace" the source must have exactly n rows."""
        begin = self._passed
        self.passes_left = max(self.passes_left - 1, 1)
        progress = share_of(self.session.progress, begin, self._passed)
        fill = self.missing_values.missing
        if fill is not None and not isinstance(fill, str):
            row_map = Prepared(row_map, np.broadcast_to(np.asarray(fill, float), self.d))
        partial = self.session.total(row_map, self.has_public_rows, progress, self.source)
        if self.has_public_rows and partial.rows != self.n:
            raise UsageError(f"The plan was made for {self.n:.0f} rows, but the data has {partial.rows}.")
        return partial.sums
