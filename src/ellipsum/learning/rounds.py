"""One table, one budget, several noisy sums: each round is charged, and the whole never exceeds the budget.

[L6] Every round is a Gaussian release of an integer sum; what a round asks may depend on earlier results. Before
anything is read, the filter of [P5] checks in exact arithmetic that the round fits into the stated budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from .. import codec
from ..accumulate import Partial
from ..curves import sqrt_down
from ..errors import MOST_WHOLE, BudgetRefused, Floats, UsageError, choice
from ..grid import noise_units
from ..noise import Stream, add_noise, shift_for
from ..privacy import NEIGHBOURS, Budget, Privacy, fits
from ..row_maps import RowMap
from ..tables import Table
from ..tables.progress import Progress, share, steps
from .maps import Count

_COUNT_SHARE = Fraction(1, 100)


@dataclass(frozen=True)
class NoisySum:
    """A noisy sum in natural units (grid removed) and the std of its noise, the same in every entry."""

    values: Floats
    std: float


@dataclass(frozen=True)
class Round:
    """One charged round: what it was, what it cost, how many numbers it gave."""

    name: str
    privacy: Privacy
    width: int

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "privacy": self.privacy.to_dict(), "width": self.width}

    @staticmethod
    def from_dict(found: Any) -> Round:
        with codec.Fields(found, "a round has a name, its privacy and a width.") as fields:
            return Round(
                fields.take("name", codec.text),
                fields.take("privacy", Privacy.from_dict),
                fields.take("width", codec.integer(1, MOST_WHOLE)),
            )


def check_rounds(total: Privacy, rounds: Sequence[Round], stated: Mapping[str, float]) -> None:
    """An error unless the rounds, "final" the last, fit into a guarantee that is the stated budget's [P5]."""
    total.check_stated(stated)
    if not stated or not rounds or rounds[-1].name != "final" or not fits(total, [step.privacy for step in rounds]):
        raise UsageError("these rounds are not those of the stated budget. They were changed after they were made.")


class Rounds:
    """Several private sums over one table, within one budget and one neighbouring relation.

    n: the public number of rows under "replace"; under "add_remove" the caller's guess, or, where there is none,
    a noisy count from a first round of one percent of the budget (at least 1). slack: a failure probability that
    a round may need, taken from the budget's delta.

    Guarantee [L6]: everything that `sum` ever returns, together, is `privacy`.
    """

    def __init__(
        self,
        table: Table,
        budget: Budget,
        neighbours: str,
        n: int | None = None,
        *,
        slack: float = 0.0,
        rng: np.random.Generator | None = None,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        choice("neighbours", neighbours, NEIGHBOURS)
        if not table.reopenable:
            raise UsageError(
                "Unknown rows are read several times, and this source serves a single pass. "
                "Pass an array, a table, a file or a list of batches."
            )
        if neighbours == "replace" and n is None:
            raise UsageError("n is missing. Under 'replace' it is the public number of rows.")
        self.table, self.d = table, table.width
        self.budget, self.neighbours = budget, neighbours
        self.privacy = Privacy(budget.after_slack(slack).mu, slack, neighbours)
        self.history: list[Round] = []
        self._last = self._squares = self._slacks = Fraction(0)
        self.spent = Fraction(0)
        """Share of the budget's mu^2 that is charged so far."""
        self.secure = rng is None
        self.rng, self._threads, self._progress = rng, threads, progress
        self._promised = n
        self.counted: NoisySum | None = None
        """The noisy count, where one was measured ("add_remove" only)."""
        self.n = n if n is not None else 0
        if n is None:
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
        return self.n * self.mu * (1 if self.neighbours == "replace" else 2)

    def charge(self, name: str, share: float | Fraction, width: int, slack: float = 0.0) -> Privacy:
        """Enter a round in the history, or refuse it; nothing is read yet."""
        part = Fraction(share)
        if part <= 0:
            raise UsageError(f"share must be > 0, got {float(part)}. It is a part of the whole budget.")
        spend = Privacy(sqrt_down(part * Fraction(self.mu) ** 2), slack, self.neighbours)
        squares = self._squares + Fraction(spend.mu) ** 2  # [P5]
        slacks = self._slacks + Fraction(slack)
        if part > self.left or squares > Fraction(self.mu) ** 2 or slacks > Fraction(self.privacy.slack):
            raise BudgetRefused(
                f"the round {name!r} asks for {float(part):.3g} of the budget, and {float(self.left):.3g} is left."
            )
        self.history.append(Round(name, spend, width))
        self.spent, self._last, self._squares, self._slacks = self.spent + part, part, squares, slacks
        return spend

    def sum(self, name: str, row_map: RowMap, share: float | Fraction) -> NoisySum:
        """The noisy sum of a row map over the table, for this share of mu^2."""
        spend = self.charge(name, share, row_map.width)
        needed = row_map.body.sensitivity(self.neighbours)
        std = noise_units(needed, spend.mu)
        partial = self.accumulate(row_map)
        shift = shift_for(std)
        noisy = add_noise(partial.sums, std, shift, self.stream()).to_float()
        bits = row_map.grid_bits
        return NoisySum(np.ldexp(noisy, shift - bits), math.ldexp(std, -bits))

    def accumulate(self, row_map: RowMap) -> Partial:
        """Exact sums of one pass; under "replace" the pass must deliver the n rows that were promised."""
        with steps(self._part_of_progress(), public=self.neighbours == "replace") as tell:
            partial = accumulate_table(self.table, row_map, self._threads, tell)
        if self.neighbours == "replace" and partial.rows != self._promised:
            raise UsageError(f"this is for n = {self._promised} rows, the data has {partial.rows}.")
        return partial

    def _part_of_progress(self) -> Progress | None:
        """Progress within the round that was charged last, as progress of the whole budget."""
        return share(self._progress, float(self.spent - self._last), float(self.spent))

    def stream(self) -> Stream:
        """Fresh noise: the operating system's, or the next of the caller's generator."""
        return Stream.open(self.rng)

    def count(self, share: float | Fraction) -> None:
        """Measure n privately and use it from here on, at least 1."""
        self.counted = self.sum("count", Count(self.d), share)
        self.n = max(1, round(float(self.counted.values[0])))
