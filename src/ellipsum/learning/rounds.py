"""One table, one budget, several noisy sums: each round is charged, and the whole never exceeds the budget.

[L6] Every round is a noisy release of an integer sum, all of them Gaussian or all pure [L8]; what a round asks may
depend on earlier results. Before anything is read, the filter of [P5] checks in exact arithmetic that the round fits
into the stated budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import BudgetRefused, Floats, UsageError, choice
from ..kernels.accumulate import Partial
from ..noise import Stream, add_noise, ball_shift, box_shifts, shift_for
from ..noise.spherical_law import ball_std
from ..numerics.rounding import round_down, round_up, sqrt_down
from ..numerics.wide_integers import Wide
from ..privacy.budget import Budget
from ..privacy.guarantee import NEIGHBORS, Privacy
from ..releases.round_record import Round
from ..request.groups import Listed
from ..request.missing import Handling
from ..request.people import unit_of
from ..row_maps.grid import noise_units
from ..row_maps.maps import RowMap
from ..session import Progress, Session
from ..sources import Source
from ..sources.group_sums import GroupSums
from ..sources.progress import share
from .maps import Count
from .schedule import PURE_PART, pure_cost, sample_rate, sample_rows

_DRAWING = 0.15  # of what is left of the progress
_COUNT_SHARE = Fraction(1, 100)
_USUAL = Handling()
Part = tuple[int, int, slice]


@dataclass(frozen=True)
class NoisySum:
    """A noisy sum in natural units (grid removed) and the std of its noise, the same in every entry."""

    values: Floats
    std: float


def promised(budget: Budget, slack: float, neighbors: str, unit: str, pure: bool) -> Privacy:
    """The guarantee of everything that rounds within a budget give."""
    if pure and budget.pair is not None:
        return Privacy.of_pure(budget.pair[0], neighbors, unit)
    return Privacy(budget.after_slack(slack).mu, slack, neighbors, unit)


def noise_rows(n: float, d: int, privacy: Privacy) -> float:
    """n in units of the noise of a clipped mean for a whole share; of pure rounds, with as many counts as columns."""
    sides = 1 if privacy.neighbors == "replace" else 2
    if privacy.pure:
        return n * sides * privacy.pure[0] * PURE_PART / math.sqrt(2 * d + 1)
    return n * sides * privacy.mu


class Rounds:
    """Several private sums over one source, within one budget and one neighboring relation.

    n: the public number of rows under "replace"; under "add_remove" the caller's guess, or, where there is none,
    a noisy count from a first round of one percent of the budget (at least 1). slack: a failure probability that
    a round may need, taken from the budget's delta. handling: what is done about missing entries. pure: whether rounds
    take parts of epsilon, and none of delta, rather than parts of mu^2 [L8]. source: rows in place of the session's.

    Guarantee [L6]: everything that `sum` ever returns, together, is `privacy`.
    """

    def __init__(
        self,
        session: Session,
        budget: Budget,
        neighbors: str,
        n: int | None = None,
        *,
        slack: float = 0.0,
        handling: Handling = _USUAL,
        relative: bool = False,
        pure: bool = False,
        note: str = "learning",
        plan: Any = None,
        source: Source | None = None,
        purpose: str = "release",
    ) -> None:
        choice("neighbors", neighbors, NEIGHBORS)
        self.source = source or session.source
        self.purpose = purpose
        """What the rounds lead to: a "release", one of "groups", or rows that are learned for "later" releases."""
        """Whether the last round is that of groups, each with a mean of its own."""
        if not session.rereadable:
            raise UsageError(
                "Unknown rows are read several times, and this source serves a single pass. "
                "Pass an array, a table, a file or a list of batches."
            )
        if neighbors == "replace" and n is None:
            raise UsageError("n is missing. Under 'replace' it is the public number of rows.")
        self.session = session
        self.d = self.source.width
        self.relative = relative
        """Whether errors count in units of each column's own spread."""
        self.handling = replace(handling, gaps=self.source.gaps)
        self.budget, self.neighbors = budget, neighbors
        self.pure = pure
        self.privacy = promised(budget, slack, neighbors, unit_of(session.people), pure)
        self._account = session.reserve(self.privacy, note, plan)
        self.history: list[Round] = []
        self._last = Fraction(0)
        self.spent = Fraction(0)
        """Part of the budget, its mu^2 or its epsilon, that is charged so far."""
        self._promised = n
        self.magnitude: float | Floats | None = None
        """What every entry is stated to lie within, where that was said."""
        self.far: dict[str, float] | None = None
        """Rows that may lie far out, or be noise: how many, the std of that, and how many radii away."""
        self.counted: NoisySum | None = None
        """The noisy count, where one was measured ("add_remove" only)."""
        self.rate = 1.0
        """The part of the rows that rounds read now."""
        self._drawn: Source | None = None
        self._latest: Partial
        self._shown = (Fraction(0), 0.0)
        self._each = None if session.people is None else session.people.rows_each
        self.n = n if n is not None else 0
        if n is None or self._each is not None:  # the number of people is public then, that of their rows is not [U8]
            self.count(_COUNT_SHARE)

    @property
    def mu(self) -> float:
        return self.privacy.mu

    @property
    def fineness(self) -> float:
        """mu, or the epsilon of pure rounds: how fine a grid the noise calls for."""
        return self.privacy.pure[0] if self.pure else self.mu

    @property
    def left(self) -> Fraction:
        """Share of the budget that is not charged yet."""
        return 1 - self.spent

    @property
    def noise_rows(self) -> float:
        """n in units of the noise of a clipped mean."""
        return noise_rows(self.n, self.d, self.privacy) / (self._each or 1)

    @property
    def rows_each(self) -> int:
        """Rows that a person may have, where those stay rows."""
        return self._each or 1

    def affordable(self, share: float) -> float:
        """An optional round takes at most a fifth of what is left, so that the last round is never starved."""
        return min(share, 0.2 * float(self.left))

    def charge(self, name: str, share: float | Fraction, width: int, slack: float = 0.0) -> Privacy:
        """Enter a round in the history, or refuse it; nothing is read yet."""
        part = Fraction(share)
        if part <= 0:
            raise UsageError(f"share must be > 0, got {float(part)}. It is a part of the whole budget.")
        if self.pure:
            part = min(max(part, Fraction(pure_cost(float(part)))), max(self.left / 2, part))  # never all but at last
        spend = self._spend(part, slack)
        if part > self.left:
            raise BudgetRefused(
                f"the round {name!r} asks for {float(part):.3g} of the budget, and {float(self.left):.3g} is left."
            )
        self._account.charge(spend, f"the round {name!r}")
        self.history.append(Round(name, spend, width))
        self.spent += part
        self._last = part
        return spend

    def sum(self, name: str, row_map: RowMap, share: float | Fraction) -> NoisySum:
        """The noisy sum of a row map over the source, for this share of the budget."""
        spend = self.charge(name, share, row_map.width)
        return self._noisy(row_map, spend, lambda: self.accumulate(row_map).sums)

    def _noisy(self, row_map: RowMap, spend: Privacy, sums: Callable[[], Wide]) -> NoisySum:
        """The sums of a map with the noise that its round was charged for; no row is read before it was."""
        if self.pure:
            return self._pure_sum(row_map, spend.pure[0], sums)
        needed = row_map.body.sensitivity(self.neighbors, rows_each=self._each)
        std = noise_units(needed, spend.mu)
        exact, shift = sums(), shift_for(std)
        noisy = add_noise(exact, std, shift, self.stream()).to_float()
        bits = row_map.grid_bits
        return NoisySum(np.ldexp(noisy, shift - bits), math.ldexp(std, -bits))

    def sum_again(self, name: str, row_map: RowMap, share: float | Fraction, parts: Sequence[Part]) -> NoisySum:
        """The noisy sum of a map whose entries are sums of those that the latest pass added up: no rows are read.

        parts: for each entry of the map, what a row counts in it and in the latest one, and the entries of that [L12].
        """
        latest = self._latest.sums.to_ints()
        sums = Wide.from_ints([weight * (sum(latest[place]) // before) for weight, before, place in parts])
        return self._noisy(row_map, self.charge(name, share, row_map.width), lambda: sums)

    def within(self, share: float | Fraction) -> Privacy:
        """What a round of this share would have; nothing is charged."""
        return self._spend(Fraction(share), 0.0)

    def _spend(self, part: Fraction, slack: float) -> Privacy:
        """What a part of the budget gives."""
        if self.pure:
            epsilon = round_down(part * Fraction(self.privacy.pure[0]))
            return Privacy.of_pure(epsilon, self.neighbors, self.privacy.unit)
        return Privacy(sqrt_down(part * Fraction(self.mu) ** 2), slack, self.neighbors, self.privacy.unit)

    def _pure_sum(self, row_map: RowMap, epsilon: float, sums: Callable[[], Wide]) -> NoisySum:
        """[L8] Counts with Laplace noise, each its own; other rows with noise of density exp(-length)."""
        from ..noise.vectors import add_ball_noise, add_box_noise  # compiles

        counts = row_map.body.ones is not None
        if counts:
            moved: Fraction | int = row_map.body.changes(self.neighbors, self._each)
        else:
            moved = row_map.body.sensitivity(self.neighbors, rows_each=self._each)
        scale = round_up(Fraction(moved) / Fraction(epsilon))
        exact, bits = sums(), row_map.grid_bits
        if counts:
            sizes, scales = [1] * row_map.width, [scale] * row_map.width
            noisy = add_box_noise(exact, sizes, scales, self.stream()).to_float()
            return NoisySum(np.ldexp(noisy, box_shifts(scales, sizes)), math.sqrt(2) * scale)
        width = row_map.width
        noisy = add_ball_noise(exact, scale, self.stream()).to_float()
        return NoisySum(np.ldexp(noisy, ball_shift(scale, width) - bits), math.ldexp(scale * ball_std(width), -bits))

    def accumulate(self, row_map: RowMap) -> Partial:
        """Exact sums of one pass; under "replace" the pass must deliver the n rows that were promised."""
        partial = self.session.total(row_map, self.public_rows, self._part_of_progress(), self._drawn or self.source)
        if self._drawn is None:
            self._check_rows(partial.rows)
        self._latest = partial
        return partial

    def accumulate_by(self, row_map: RowMap, keys: Listed | None, source: Source | None = None) -> GroupSums:
        """Exact sums of each group, in one pass of the session's own rows [G5], or of those recentered [G10]."""
        public = self.public_rows and self.session.people is None
        return self.session.total_by(row_map, keys, public, self._part_of_progress(), source)

    def draw(self) -> None:
        """Rounds from here on read rows that are drawn now, each by a coin, and kept in memory [L9].

        All of them where there are few. Every round reads the source where memory would not hold enough rows for the
        noise, or where the rows are elsewhere.
        """
        wanted = sample_rows(self.d, noise_rows(1, self.d, self.privacy) / (self._each or 1))
        if wanted is None or not self.source.local:
            return
        rate = sample_rate(self.n, wanted)
        begin = self._bar(self.spent)
        self._shown = self.spent, begin + _DRAWING * (1 - begin)
        progress = share(self.session.progress, begin, self._shown[1])
        source, rows = self.session.drawn(rate, self.public_rows, progress, self.source)
        self._check_rows(rows)
        self._drawn, self.rate = source, rate

    def let_go(self) -> None:
        """Rounds from here on read all rows."""
        self._drawn, self.rate = None, 1.0

    @contextmanager
    def of_all(self) -> Iterator[None]:
        """Rounds inside read all rows."""
        drawn, rate = self._drawn, self.rate
        self.let_go()
        yield
        self._drawn, self.rate = drawn, rate

    @property
    def public_rows(self) -> bool:
        """Whether the number of rows is public."""
        return self.neighbors == "replace" and self._each is None

    def _check_rows(self, rows: int) -> None:
        if self.public_rows and rows != self._promised:
            raise UsageError(f"this is for n = {self._promised} rows, the data has {rows}.")

    def _part_of_progress(self) -> Progress | None:
        """Progress within the round that was charged last, as progress of the whole budget."""
        return share(self.session.progress, self._bar(self.spent - self._last), self._bar(self.spent))

    def _bar(self, spent: Fraction) -> float:
        """Progress when so much of the budget is spent: drawing rows takes its part too."""
        drawn, shown = self._shown
        return shown + float((spent - drawn) / (1 - drawn)) * (1 - shown)

    def stream(self) -> Stream:
        """Fresh noise for the round that was charged last."""
        return self._account.stream()

    def count(self, share: float | Fraction) -> None:
        """Measure n privately and use it from here on, at least 1."""
        self.counted = self.sum("count", Count(self.d), share)
        self.n = max(1, round(float(self.counted.values[0])))
