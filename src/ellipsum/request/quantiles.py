"""The probabilities of quantiles, the bins in which values are counted, and the method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import Floats, UsageError, choice, floats, shown, vector, whole
from ..rows import LearnedRows, Rows, Unknown
from ..util import json_codec
from ..util.structural_equality import ValueEquality

QUARTILES = (0.25, 0.5, 0.75)
METHODS = ("cdf", "exponential")
MOST_BINS = 1 << 16
_WRONG = "Invalid plan file: the quantiles have missing, unknown or wrong fields. Create a new plan with es.plan."
_MOST_VALUES = 1024  # The largest number of whole numbers that have a bin each.
_OCTAVES = 60  # Logarithmic bins reach from the magnitude down by this factor of 2, as the unit is unknown.
_NUMBERS = json_codec.list_of(json_codec.number)


@dataclass(frozen=True)
class Quantiles(ValueEquality):
    """Probabilities q, and the public bins of each column.

    bins: None chooses their number; a number of bins; "integer" where columns hold whole numbers; edges for all
    columns; or a list of edges for each column. Bins, like bounds, must not be computed from the data.
    method: "cdf" publishes the whole distribution function; "exponential" chooses a bin for each quantile.
    """

    q: tuple[float, ...] = QUARTILES
    bins: Any = None
    method: str = "cdf"

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", parse_probabilities(self.q))
        object.__setattr__(self, "bins", _parse_bins(self.bins))
        choice("method", self.method, METHODS)

    @staticmethod
    def of(q: float | Sequence[float], bins: Any = None, method: str = "cdf") -> Quantiles:
        """The quantiles of a call."""
        return Quantiles(parse_probabilities(q), bins, method)

    def with_bins(self, number: int) -> Quantiles:
        """The same quantiles with this number of bins, if the caller gave none."""
        return replace(self, bins=number) if self.bins is None else self

    def edges(self, bounds: Rows, d: int) -> list[Floats]:
        """For each column the edges e_0 <= e_1 < ... < e_{B-1} <= e_B: bin i is (e_{i-1}, e_i].

        The first bin also holds smaller values, and the last bin larger values.
        """
        lower, upper = _ends(bounds, d)
        if not isinstance(self.bins, tuple):
            is_log = isinstance(bounds, Unknown)
            return [_spaced(self.bins, *ends, is_log) for ends in zip(lower.tolist(), upper.tolist(), strict=True)]
        edges_by_column = self.bins if isinstance(self.bins[0], tuple) else (self.bins,) * d
        if len(edges_by_column) != d:
            raise UsageError(f"bins must have edges for every column: {d}, got {len(edges_by_column)}.")
        return [_within(np.array(inner), *ends) for inner, *ends in zip(edges_by_column, lower, upper, strict=True)]

    def are_values(self, edges: Floats) -> bool:
        """Whether each bin holds a single whole number, its upper edge."""
        return self.bins == "integer" and float(np.diff(edges).max()) <= 1

    def to_dict(self) -> dict[str, Any]:
        return {"q": list(self.q), "bins": self.bins, "method": self.method}

    @staticmethod
    def from_dict(saved: Any) -> Quantiles:
        """Inverse of `to_dict`."""
        number = json_codec.integer(2, MOST_BINS)
        kind = json_codec.any_of(number, json_codec.word("integer"), _NUMBERS, json_codec.list_of(_NUMBERS))
        with json_codec.Fields(saved, _WRONG) as fields:
            q, bins = fields.take("q", _NUMBERS), fields.maybe("bins", kind)
            return Quantiles(q, bins, fields.take("method", json_codec.word(*METHODS)))


def quantiles_of_description(quantiles: float | Sequence[float] | None) -> Quantiles | None:
    """The `quantiles` argument of `es.describe`: probabilities; None or an empty list leaves quantiles out."""
    if quantiles is None or (isinstance(quantiles, Sequence) and not quantiles):
        return None
    return Quantiles.of(quantiles)


def parse_probabilities(q: float | Sequence[float]) -> tuple[float, ...]:
    """Check one probability, or several."""
    parsed = vector("q", np.atleast_1d(floats("q", q)))
    if (parsed < 0).any() or (parsed > 1).any():
        raise UsageError(f"q must be between 0 and 1, got {shown(q)}. Pass a probability, or a list of them.")
    return tuple(parsed.tolist())


def _parse_bins(bins: Any) -> Any:
    if bins is None or (isinstance(bins, str) and bins == "integer"):
        return bins
    if isinstance(bins, (int, np.integer)):
        return whole("bins", bins, least=2, most=MOST_BINS)
    try:
        edges = [] if isinstance(bins, (str, Mapping)) else list(bins)
    except TypeError:
        edges = []
    if not edges:
        raise UsageError("bins must be 'integer', a number of bins, edges, or a list of edges for each column.")
    if floats("bins", edges[0]).ndim == 0:
        return _increasing(edges)
    return tuple(_increasing(part) for part in edges)


def _increasing(edges: Any) -> tuple[float, ...]:
    numbers = vector("bins", edges)
    if (np.diff(numbers) <= 0).any() or numbers.size > MOST_BINS:
        raise UsageError(f"edges of bins must increase, and there may be {MOST_BINS:,} of them at most.")
    return tuple(numbers.tolist())


def _ends(bounds: Rows, d: int) -> tuple[Floats, Floats]:
    if isinstance(bounds, Unknown):
        sizes = bounds.magnitudes(d)
        return -sizes, sizes
    if isinstance(bounds, LearnedRows):
        return bounds.center - bounds.region_reach, bounds.center + bounds.region_reach
    return bounds.bounds()


def _spaced(bins: Any, low: float, high: float, is_log: bool) -> Floats:
    """Equal bins, bins on a logarithmic scale, or a bin for each whole number or for several whole numbers."""
    if is_log:
        if bins == "integer" or bins < 4:
            raise UsageError("Unknown bounds need a number of bins of at least 4, or edges. Leave bins out.")
        sizes = high * 2.0 ** -np.linspace(_OCTAVES, 0, bins // 2)
        return np.concatenate([-sizes[::-1], sizes])
    if bins == "integer":
        low, high = float(np.ceil(low)), float(np.floor(high))
        if low > high:
            raise UsageError("bins='integer' needs a whole number between the bounds.")
        step = -(-(high - low + 1) // _MOST_VALUES)
        return _within(low + step * np.arange((high - low) // step + 1), low, high)
    return _within(low + (high / bins - low / bins) * np.arange(1, bins), low, high)


def _within(inner: Floats, low: float, high: float) -> Floats:
    """The lower end, the edges between the ends (at least one), and the upper end."""
    inner = np.unique(inner[(inner >= low) & (inner < high)])
    return np.concatenate([[low], inner if inner.size else [low], [high]])
