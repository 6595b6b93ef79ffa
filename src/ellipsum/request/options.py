"""The arguments that one statistic takes and the others do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypedDict

from ..errors import UsageError, choice
from ..rows import Rows, parse_bounds
from .bins import Bins, bins_of_columns
from .quantiles import QUARTILES, Quantiles, quantiles_of_description
from .request import ONES, STATISTICS

_TAKEN = {
    "describe": ("covariance", "quantiles"),
    "quantiles": ("q", "bins", "method"),
    "histogram": ("bins", "categories"),
}


class OwnArguments(TypedDict, total=False):
    """The arguments that not every statistic has, as keywords."""

    covariance: bool
    quantiles: float | Sequence[float] | None
    q: float | Sequence[float]
    bins: Any
    categories: Any
    method: str


@dataclass(frozen=True)
class StatisticOptions:
    """What calls of any statistic (`es.plan`, `es.prepare`) accept for some of them."""

    covariance: bool = False
    quantiles: float | Sequence[float] | None = QUARTILES
    q: float | Sequence[float] = QUARTILES
    bins: Any = None
    categories: Any = None
    method: str = "cdf"

    def _check(self, statistic: str) -> None:
        for field in fields(self):
            is_given = getattr(self, field.name) is not field.default
            if is_given and field.name not in _TAKEN.get(statistic, ()):
                owners = " and ".join(name for name, taken in _TAKEN.items() if field.name in taken)
                raise UsageError(f"{field.name} is an argument of {owners}, not of {statistic}. Leave it out.")

    def parse_quantiles(self, statistic: str) -> Quantiles | None:
        """The quantiles of a description or of `es.quantiles`."""
        if statistic == "describe":
            return quantiles_of_description(self.quantiles)
        return Quantiles.of(self.q, self.bins, self.method) if statistic == "quantiles" else None

    def bounds(
        self, statistic: str, bounds: Rows | Mapping[str, Any] | None, columns: Sequence[str | int] | None
    ) -> Rows:
        """What is known about the values: of a histogram its bins; of a count, that every row is one."""
        self._check(choice("statistic", statistic, STATISTICS))
        if statistic not in ("count", "histogram") or isinstance(bounds, Bins):
            return parse_bounds(bounds)
        if bounds is not None:
            raise UsageError(f"{statistic} has no bounds. Leave them out.")
        return bins_of_columns(self.bins, self.categories, columns) if statistic == "histogram" else ones(columns)


OWN = tuple(field.name for field in fields(StatisticOptions))


def ones(columns: Sequence[str | int] | None) -> Rows:
    """What is known of the rows of a count: each is a 1. It reads no columns."""
    if columns is not None:
        raise UsageError("A count reads no columns: it counts rows. Use histogram or describe for counts of values.")
    return ONES
