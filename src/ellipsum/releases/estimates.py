"""What releases of one vector and of many groups share: estimates with their errors, decoded from noisy sums.

docs/proofs/plans.md: [U2] counts in doubt, [U10] values within what is possible; docs/proofs/learning.md: [L11].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import Floats, UsageError, choice, open_unit
from ..request.people import People
from ..request.request import SUMS
from .base import LEVEL, StatisticRelease
from .decode import Decoded, MissingCounts, decode, widen
from .numbers import VectorNumbers


def is_of_population(target: str, people: People | None) -> bool:
    """Whether an interval is of a population, for which rows must be independent draws: not those of one person."""
    if choice("target", target, ("data", "population")) == "population" and people and (people.rows_each or 1) > 1:
        raise UsageError(
            "target='population' needs independent rows, and several rows of one person are not. Use "
            "per_person='mean' or max_rows=1, or leave target out."
        )
    return target == "population"


@dataclass(frozen=True, repr=False)
class VectorRelease(StatisticRelease):
    """A statistic of one vector, or of one in each group along a leading axis."""

    @property
    def vector_plan(self) -> VectorNumbers:
        """The plan of one vector, by which noisy sums are decoded."""
        raise NotImplementedError

    @property
    def coverage(self) -> str:
        """What the confidence intervals account for."""
        raise NotImplementedError

    @property
    def _missing_counts(self) -> MissingCounts | None:
        return None

    @cached_property
    def decoded(self) -> Decoded:
        """Everything that follows from the noisy sums [U3][U6]."""
        return decode(self.vector_plan, self.noisy, self._missing_counts)

    @property
    def raw_value(self) -> Floats:
        """The value before it was cut or cleaned: its noise has mean zero, as values that are added up need."""
        return self.decoded.value

    def _possible_value(self, value: Floats) -> Floats:
        """Means of clamped values lie within the bounds, and a column that was not found has no value [U10][L11].

        A count alone is at least 0; those of groups are added up, so they are published as they are.
        """
        plan = self.vector_plan
        if self.statistic == "count" and value.ndim == 1:
            value = np.maximum(value, 0.0)
        if plan.clamped and self.statistic not in SUMS:
            value = np.clip(value, *plan.rows.bounds())
        return value if self.learned is None else np.where(self.learned.found, value, np.nan)

    @property
    def _possible_range(self) -> tuple[Any, Any]:
        """What the statistic of the data lies between, whatever the noise: counts, and what clamped values allow.

        Where bounds were learned values may lie beyond them, but not beyond the magnitude that was given.
        """
        plan = self.vector_plan
        if self.statistic == "count":
            return 0.0, np.inf
        if not plan.clamped:
            return -np.inf, np.inf
        low, high = plan.rows.bounds() if self.learned is None else (-self.learned.magnitude, self.learned.magnitude)
        if self.statistic not in SUMS:
            return low, high
        people = self.plan.people
        rows = self.plan.n if self.plan.neighbors == "replace" and (people is None or not people.rows_each) else None
        most = np.inf if rows is None else float(rows)
        with np.errstate(invalid="ignore", over="ignore"):  # a missing value adds nothing
            return np.fmin(low * most, 0.0), np.fmax(high * most, 0.0)

    @property
    def _widened_stds(self) -> Floats:
        """Noise stds, widened where a mean divides by a count that is itself in doubt [U2]."""
        return widen(self.vector_plan, self.noise_std, self.decoded.rows)

    @property
    def _center(self) -> Floats:
        """What intervals are about."""
        return self.raw_value

    def half_widths(self, level: float = LEVEL) -> Floats:
        """Half the width of each interval, before it is cut to the possible values; one number per column."""
        half: Floats = self.vector_plan.multiples(open_unit("level", level)) * self._widened_stds
        return half

    def confidence_interval(self, level: float = LEVEL, *, target: str = "data") -> Floats:
        """Bounds for the statistic of every column, each covering its own at a confidence level.

        They account for the noise of sums and counts and, where rows are clipped, for the bias that the counted rows
        may cause; for Box rows they are for the clamped values, and end at the bounds at the latest. `warnings` says
        where they cannot be relied on. They do not account for what was not counted (count_clipped=False).

        Parameters
        ----------
        level : float, default 0.95
            Probability with which each interval covers its own number.
        target : {"data", "population"}, default "data"
            "data": the statistic of the data at hand. "population": of the population that the rows are a random
            sample of; this needs the standard deviation, so `describe` has it.

        Returns
        -------
        ndarray of shape (..., d, 2)
        """
        if is_of_population(target, self.plan.people):
            if self.statistic == "count":
                raise UsageError(
                    "target='population' is not for counts. Use es.histogram, whose intervals have of='share'."
                )
            raise UsageError(
                f"target='population' needs standard deviations, which a {self.statistic} does not release. "
                "Use es.describe."
            )
        return self._data_interval(level)

    def _data_interval(self, level: float) -> Floats:
        center, half = self._center, self.half_widths(level)
        ends = np.empty((*np.broadcast_shapes(center.shape, half.shape), 2))
        low, high = ends[..., 0], ends[..., 1]  # In place, since there may be millions of columns.
        np.subtract(center, half, out=low)
        np.add(center, half, out=high)
        if self.learned is not None:
            low[...], high[...] = self._with_learned_bias(low, high)
        for end in (low, high):
            np.clip(end, *self._possible_range, out=end)
        return ends

    def _with_learned_bias(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Interval ends, widened by the bias of clamping to learned bounds [L11]."""
        assert self.learned is not None
        return self.learned.widened(low, high, np.maximum(self.decoded.rows.rows, 1.0), self.statistic in SUMS)
