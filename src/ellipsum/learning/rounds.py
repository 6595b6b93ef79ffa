"""One table, one budget, several noisy sums: each round is charged, and the whole never exceeds the budget.

[L6] Every round is a Gaussian release of an integer sum; what a round asks may depend on earlier results. Before
anything is read, the filter of [P5] checks in exact arithmetic that the round fits into the stated budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from ..accumulate import Partial
from ..charged import Round
from ..curves import sqrt_down
from ..errors import BudgetRefused, Floats, UsageError, choice
from ..grid import noise_units
from ..handling import Handling
from ..noise import Stream, add_noise, shift_for
from ..people import unit_of
from ..privacy import NEIGHBOURS, Budget, Privacy
from ..row_maps import RowMap
from ..session import Progress, Session
from ..tables.progress import share
from .maps import Count

_COUNT_SHARE = Fraction(1, 100)
_USUAL = Handling()


@dataclass(frozen=True)
class NoisySum:
    """A noisy sum in natural units (grid removed) and the std of its noise, the same in every entry."""

    values: Floats
    std: float


class Rounds:
    """Several private sums over one source, within one budget and one neighbouring relation.

    n: the public number of rows under "replace"; under "add_remove" the caller's guess, or, where there is none,
    a noisy count from a first round of one percent of the budget (at least 1). slack: a failure probability that
    a round may need, taken from the budget's delta. handling: what is done about missing entries.

    Guarantee [L6]: everything that `sum` ever returns, together, is `privacy`.
    """

    def __init__(
        self,
        session: Session,
        budget: Budget,
        neighbours: str,
        n: int | None = None,
        *,
        slack: float = 0.0,
        handling: Handling = _USUAL,
        relative: bool = False,
    ) -> None:
        choice("neighbours", neighbours, NEIGHBOURS)
        if not session.source.reopenable:
            raise UsageError(
                "Unknown rows are read several times, and this source serves a single pass. "
                "Pass an array, a table, a file or a list of batches."
            )
        if neighbours == "replace" and n is None:
            raise UsageError("n is missing. Under 'replace' it is the public number of rows.")
        self.session = session
        self.d = session.source.width
        self.relative = relative
        """Whether errors count in units of each column's own spread."""
        self.handling = replace(handling, gaps=session.source.gaps)
        self.budget, self.neighbours = budget, neighbours
        self.privacy = Privacy(budget.after_slack(slack).mu, slack, neighbours, unit_of(session.people))
        self._account = session.reserve(self.privacy, "learning")
        self.history: list[Round] = []
        self._last = Fraction(0)
        self.spent = Fraction(0)
        """Share of the budget's mu^2 that is charged so far."""
        self._promised = n
        self.magnitude: float | None = None
        """What every entry is stated to lie within, where that was said."""
        self.counted: NoisySum | None = None
        """The noisy count, where one was measured ("add_remove" only)."""
        self._each = None if session.people is None else session.people.rows_each
        self.n = n if n is not None else 0
        if n is None or self._each is not None:  # the number of people is public then, that of their rows is not [U8]
            self.count(_COUNT_SHARE)

    @property
    def mu(self) -> float:
        return self.privacy.mu

    @property
    def left(self) -> Fraction:
        """Share of the budget that is not charged yet."""
        return 1 - self.spent

    @property
    def noise_rows(self) -> float:
        """n in units of the noise of a clipped mean: n mu under "replace", 2 n mu under "add_remove"."""
        return self.n * self.mu * (1 if self.neighbours == "replace" else 2) / (self._each or 1)

    def charge(self, name: str, share: float | Fraction, width: int, slack: float = 0.0) -> Privacy:
        """Enter a round in the history, or refuse it; nothing is read yet."""
        part = Fraction(share)
        if part <= 0:
            raise UsageError(f"share must be > 0, got {float(part)}. It is a part of the whole budget.")
        spend = Privacy(sqrt_down(part * Fraction(self.mu) ** 2), slack, self.neighbours, self.privacy.unit)
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
        """The noisy sum of a row map over the source, for this share of mu^2."""
        spend = self.charge(name, share, row_map.width)
        needed = row_map.body.sensitivity(self.neighbours, rows_each=self._each)
        std = noise_units(needed, spend.mu)
        partial = self.accumulate(row_map)
        shift = shift_for(std)
        noisy = add_noise(partial.sums, std, shift, self.stream()).to_float()
        bits = row_map.grid_bits
        return NoisySum(np.ldexp(noisy, shift - bits), math.ldexp(std, -bits))

    def accumulate(self, row_map: RowMap) -> Partial:
        """Exact sums of one pass; under "replace" the pass must deliver the n rows that were promised."""
        public = self.neighbours == "replace" and self._each is None
        partial = self.session.total(row_map, public, self._part_of_progress())
        if public and partial.rows != self._promised:
            raise UsageError(f"this is for n = {self._promised} rows, the data has {partial.rows}.")
        return partial

    def _part_of_progress(self) -> Progress | None:
        """Progress within the round that was charged last, as progress of the whole budget."""
        return share(self.session.progress, float(self.spent - self._last), float(self.spent))

    def stream(self) -> Stream:
        """Fresh noise for the round that was charged last."""
        return self._account.stream()

    def count(self, share: float | Fraction) -> None:
        """Measure n privately and use it from here on, at least 1."""
        self.counted = self.sum("count", Count(self.d), share)
        self.n = max(1, round(float(self.counted.values[0])))
