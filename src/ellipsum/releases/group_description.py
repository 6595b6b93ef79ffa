"""Count, mean and standard deviation of every column in each group, from one release [D1]."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import Floats, choice, open_unit
from .description import STATED
from .group_release import LEVEL, GroupRelease
from .std_estimates import Spreads, mean_squares


@dataclass(frozen=True, repr=False)
class GroupDescription(GroupRelease):
    """Count, mean and standard deviation of every column in each group; `value` and its intervals are the means.

    Standard deviations are the population's, and are for entries held to their bounds, as the means are.
    """

    @property
    def count(self) -> Floats:
        """(groups, d): how many rows of each group have each column, noisy."""
        return self._rows.rows

    @property
    def mean(self) -> Floats:
        return self.value

    @property
    def std(self) -> Floats:
        """(groups, d) population standard deviations; 0 where noise leaves nothing."""
        return self._spreads.std

    @property
    def std_error(self) -> Floats:
        """(groups, d): root mean square error of each std, to first order."""
        return self._spreads.std_error

    @cached_property
    def _spreads(self) -> Spreads:
        one, rows, stds = self.plan.one, self._rows.rows, self._rows.stds
        return Spreads(one, self._decoded.value, mean_squares(one, rows, self.noisy), rows, stds)

    def confidence_interval(self, level: float = LEVEL, of: str = "mean") -> Floats:
        """(groups, d, 2) bounds for the "count", "mean" or "std" of each column, each covering its own at `level`."""
        kind = choice("of", of, STATED)
        if kind == "mean":
            return super().confidence_interval(level)
        if kind == "std":
            return self._spreads.bounds(open_unit("level", level))
        return self._spreads.count_bounds(open_unit("level", level), np.inf)

    def parts(self) -> dict[str, tuple[Floats, Floats, Floats]]:
        bounds = {name: self.confidence_interval(LEVEL, name) for name in STATED}
        errors = {"count": self._rows.stds, "mean": self.standard_error, "std": self.std_error}
        return {name: (getattr(self, name), bounds[name], errors[name]) for name in STATED}

    def to_dict(self) -> dict[str, Any]:
        section: dict[str, Any] = {"std_error": self.std_error.tolist()}
        for name, (value, bounds, _) in self.parts().items():
            if name != "mean":
                ends = {"low": bounds[:, :, 0].tolist(), "high": bounds[:, :, 1].tolist()}
                section |= {name: value.tolist(), f"{name}_interval": {"level": LEVEL, **ends}}
        return {**super().to_dict(), "describe": section}
