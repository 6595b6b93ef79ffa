"""Several noisy sums over one source within one reserved budget.

[L7] Every round is charged before a row of it is read, by the filter of [P5] and [P10]; what a round asks may depend on
earlier noisy results. Rounds are Gaussian, with shares of mu^2, or pure, with shares of epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import BudgetRefused, Floats, UsageError
from ..kernels.accumulate import Partial
from ..noise import Stream, add_noise, box_shifts, shift_for
from ..noise.vectors import add_box_noise
from ..numerics.rounding import round_down, round_up, sqrt_down
from ..numerics.wide_integers import Wide
from ..privacy.guarantee import Privacy
from ..releases.decode import Absent
from ..releases.learning_record import RELEASE, Step
from ..request.missing import Handling
from ..request.people import unit_of
from ..row_maps.grid import noise_units
from ..row_maps.histograms import ColumnHistograms, Count, CountMap, SideBySide
from ..row_maps.maps import RowMap
from ..row_maps.prepared import Prepared
from ..rows import Box, LearnedRows
from ..session import Progress, Session
from ..sources import Source
from ..sources.progress import share as share_of
from .constants import COUNT_SHARE


class NoisySum(NamedTuple):
    """A noisy sum in natural units (grid removed) and the standard deviation of its noise, alike in every entry."""

    values: Floats
    std: float


@dataclass(frozen=True)
class Region:
    """Where the release clamps columns (`Box`) or clips rows (`LearnedRows`), in original units.

    bias: (2, d), what clipping lowers and what it raises the sum of each column by at most, at 95%: the true sum lies
    up to bias[0] below and up to bias[1] above what is released, noise aside.
    found: whether each column was found; of another nothing is known but its magnitude.
    warnings: why intervals cannot be trusted, in sentences. unnoticed: how many outliers could go unnoticed.
    absent: the noisy number of missing entries, where the release fills them in; None where it counts them itself.
    unmeasured: whether the method bounds nothing of what clipping hides, so that the release counts clipped rows.
    """

    rows: Box | LearnedRows
    bias: Floats
    found: NDArray[np.bool_]
    warnings: tuple[str, ...] = ()
    unnoticed: int = 0
    absent: Absent | None = None
    unmeasured: bool = False


class Rounds:
    """Noisy sums over one source, within one guarantee and one neighboring relation [L7].

    privacy: the guarantee of everything together. With mu, rounds are Gaussian and take shares of mu^2, and a pure
    epsilon beside it is for the release alone. Without mu, rounds and release are pure and take shares of epsilon.
    n: the public number of rows under "replace". Under "add_remove" a first round of a hundredth of the budget counts
    them, and likewise where people have several rows each, whose number is private.
    passes: how many passes over the rows are planned at most.
    """

    def __init__(
        self,
        session: Session,
        privacy: Privacy,
        n: int | None,
        handling: Handling,
        magnitude: Floats,
        note: str,
        plan: Any = None,
        source: Source | None = None,
        passes: int = 10,
        relative: bool = False,
    ) -> None:
        if not session.rereadable:
            raise UsageError(
                "Unknown rows are read several times, and this source serves a single pass. "
                "Pass an array, a table, a file or a list of batches."
            )
        self.session, self.source = session, source or session.source
        self.privacy = replace(privacy, unit=unit_of(session.people))
        self.neighbors = privacy.neighbors
        self.handling = replace(handling, gaps=self.source.gaps)
        self.magnitude = magnitude
        """What every entry is stated to lie within, one per column."""
        self.relative = relative
        """Whether errors count in units of each column's own spread, so that columns are located one by one."""
        self.d = self.source.width
        self.names = self.source.columns or tuple(f"x{j + 1}" for j in range(self.d))
        self.pure = not privacy.mu
        self.steps: list[Step] = []
        self.left = Fraction(1)
        """The share of mu^2, or of epsilon, that is not charged yet."""
        self._account = session.reserve(self.privacy, note, plan)
        self._each = None if session.people is None else session.people.rows_each
        self._passes, self._pass = passes, 0
        self._rows = n if self.public_rows else None
        words = handling.missing
        self._fill = (
            None if words is None or isinstance(words, str) else np.broadcast_to(np.asarray(words, float), self.d)
        )
        self.n = float(n or 0)
        """The number of rows: public, or noisy and at least 1."""
        self.counted: NoisySum | None = None
        """The noisy count of rows, where their number is private."""
        if not self.public_rows:
            self.counted = self.sum("count", Count(self.d), COUNT_SHARE)
            self.n = max(1.0, float(self.counted.values[0]))

    @property
    def public_rows(self) -> bool:
        """Whether the number of rows is public: not where rows come and go, or people have several [U8]."""
        return self.neighbors == "replace" and self._each is None

    @property
    def rows_each(self) -> int:
        """Rows that a person may have, where those stay rows."""
        return self._each or 1

    def spend(self, share: float | Fraction) -> Privacy:
        """What this share of the rounds' budget guarantees; nothing is charged."""
        part, unit = Fraction(share), self.privacy.unit
        if self.pure:
            return Privacy.of_pure(round_down(part * Fraction(self.privacy.pure[0])), self.neighbors, unit)
        return Privacy(sqrt_down(part * Fraction(self.privacy.mu) ** 2), 0.0, self.neighbors, unit)

    def std(self, row_map: RowMap, share: float | Fraction) -> float:
        """The noise that a round would have; nothing is charged and no row is read."""
        return self._noise(row_map, self.spend(share))[1]

    def sum(self, name: str, row_map: RowMap, share: float | Fraction) -> NoisySum:
        """The noisy sum of a row map over the source, for this share of the rounds' budget [L7]."""
        return self.sums((name, row_map, share))[0]

    def sums(self, *asked: tuple[str, RowMap, float | Fraction]) -> list[NoisySum]:
        """Noisy sums of several row maps from one pass: each has its name and share, and is charged for itself [L7]."""
        spends = [self._charge(name, share, row_map.width) for name, row_map, share in asked]
        row_maps = [row_map for _, row_map, _ in asked]
        together = self._accumulate(row_maps[0] if len(asked) == 1 else SideBySide(row_maps)).sums
        ends = np.cumsum([0, *(row_map.width for row_map in row_maps)])
        return [
            self._noisy(row_map, spend, Wide(together.high[first:last], together.low[first:last]))
            for row_map, spend, first, last in zip(row_maps, spends, ends[:-1], ends[1:], strict=True)
        ]

    def _noisy(self, row_map: RowMap, spend: Privacy, sums: Wide) -> NoisySum:
        """Exact sums with the noise of a charge."""
        scale, std = self._noise(row_map, spend)
        bits = row_map.grid_bits
        if self.pure:
            return NoisySum(np.ldexp(self._laplace(sums, scale), -bits), std)
        shift = shift_for(scale)
        noisy = add_noise(sums, scale, shift, self._account.stream()).to_float()
        return NoisySum(np.ldexp(noisy, shift - bits), std)

    def medians(self, name: str, histograms: ColumnHistograms, shares: list[float]) -> list[int]:
        """For each column of one histogram, the bin that holds its median, each by a pure choice of its own [L9].

        The noisy scores of all bins are compared here, and nothing but the winner leaves.
        """
        places = range(len(histograms.sizes))
        spends = [self._charge(f"{name} {j + 1}", share, 1) for j, share in zip(places, shares, strict=True)]
        counts = self._accumulate(histograms).sums.to_ints()
        ends = np.cumsum([0, *histograms.sizes])
        moves = (2 if self.neighbors == "replace" else 1) * self.rows_each
        chosen = []
        for j, spend in zip(places, spends, strict=True):
            inside = np.array(counts[ends[j] : ends[j + 1] - 1], np.int64)  # the last bin is of missing entries
            below = np.cumsum(inside)
            total = int(below[-1])
            far = np.maximum(np.maximum(2 * (below - inside) - total, total - 2 * below), 0)
            scale = round_up(Fraction(2 * moves) / Fraction(spend.pure[0]))
            if box_shifts([scale], [1])[0] > 0:
                raise UsageError("so small an epsilon makes the noise of a median too coarse. State a larger one.")
            noisy = add_box_noise(Wide.from_int64(-far), [1] * far.size, [scale] * far.size, self._account.stream())
            chosen.append(int(np.lexsort((-noisy.low, -noisy.high))[0]))
        return chosen

    def remaining(self) -> Privacy:
        """What is left for the release: the pure epsilon beside Gaussian rounds, or the rest of the rounds' budget."""
        if self.privacy.mu and self.privacy.pure:
            return Privacy.of_pure(self.privacy.pure[0], self.neighbors, self.privacy.unit)
        return self.spend(self.left)

    def charge_release(self, spend: Privacy, width: int) -> Stream:
        """Charge the release, and give its noise; it reads the rows after that."""
        self._account.charge(spend, RELEASE)
        self.steps.append(Step(RELEASE, spend, width))
        return self._account.stream()

    @property
    def progress(self) -> Progress | None:
        """Progress of the release, within that of everything."""
        return share_of(self.session.progress, self._pass / self._passes, 1.0)

    def charged(self, name: str, share: float | Fraction, width: int, slack: float = 0.0) -> tuple[Privacy, Stream]:
        """What a round that is no sum of a row map may spend, and its noise; it reads the rows after that."""
        return self._charge(name, share, width, slack), self._account.stream()

    def _charge(self, name: str, share: float | Fraction, width: int, slack: float = 0.0) -> Privacy:
        """Charge a round, or refuse it; nothing is read yet."""
        part = Fraction(share)
        if not 0 < part <= self.left:
            raise BudgetRefused(f"the round {name!r} asks for {float(part):.3g}, and {float(self.left):.3g} is left.")
        spend = replace(self.spend(part), slack=slack)
        self._account.charge(spend, f"the round {name!r}")
        self.steps.append(Step(name, spend, width))
        self.left -= part
        return spend

    def _noise(self, row_map: RowMap, spend: Privacy) -> tuple[float, float]:
        """The scale of the noise on the grid, rounded up, and its standard deviation in natural units [L7][L8]."""
        inner = row_map.inner if isinstance(row_map, Prepared) else row_map
        if not self.pure:
            scale = noise_units(row_map.body.sensitivity(self.neighbors, rows_each=self._each), spend.mu)
            return scale, math.ldexp(scale, -row_map.grid_bits)
        if not isinstance(inner, CountMap):
            raise UsageError("pure rounds count rows, and sum nothing else.")
        moved = inner.l1 * (2 if self.neighbors == "replace" else 1) * self.rows_each
        scale = round_up(Fraction(moved) / Fraction(spend.pure[0]))
        return scale, math.ldexp(math.sqrt(2) * scale, -row_map.grid_bits)

    def _laplace(self, sums: Wide, scale: float) -> Floats:
        """Whole numbers with Laplace noise, each its own [K1]."""
        sizes, scales = [1] * len(sums), [scale] * len(sums)
        noisy = add_box_noise(sums, sizes, scales, self._account.stream()).to_float()
        values: Floats = np.ldexp(noisy, box_shifts(scales, sizes))
        return values

    def _accumulate(self, row_map: RowMap) -> Partial:
        """Exact sums of one pass; under "replace" it must deliver the n rows that were promised."""
        begin = self._pass / self._passes
        self._pass = min(self._pass + 1, self._passes - 1)
        progress = share_of(self.session.progress, begin, self._pass / self._passes)
        read = row_map if self._fill is None else Prepared(row_map, self._fill)
        partial = self.session.total(read, self.public_rows, progress, self.source)
        if self._rows is not None and partial.rows != self._rows:
            raise UsageError(f"this is for n = {self._rows} rows, the data has {partial.rows}.")
        return partial
