"""Count, mean and standard deviation of every column, from one release: squares stand beside the values.

docs/proofs/squares.md: [S11] what squares cost, [D1] standard deviations and their intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..display.document import Document
from ..errors import Floats, UsageError, choice, open_unit
from ..rows import Rows
from ..util import json_codec
from .decode import Counts
from .release import DOCTORED, WRONG, Release, follows, planned_release
from .std_estimates import Spreads, mean_squares, multiples

if TYPE_CHECKING:
    from ..display.plots.strips import Sheet

MOST_DESCRIBED = 1024
"""Columns with covariances at most: half a million pairs."""
STATED = ("count", "mean", "std")
_LEVEL = 0.95
_EVEN = 1 / 3  # mean square, and variance, of a column spread evenly over its bounds, in units of its half-width


@dataclass(frozen=True, repr=False)
class Description(Release):
    """Count, mean and standard deviation of every column; `value` and its intervals are those of the means.

    Standard deviations are the population's, and are for entries held to their bounds, as the means are.
    """

    @property
    def count(self) -> Floats:
        """How many rows have each column, one per column: noisy, or the public n where nothing can be missing."""
        return self._row_counts.rows

    @property
    def _row_counts(self) -> Counts:
        assert self.counts is not None
        return self.counts

    @cached_property
    def squares(self) -> Floats:
        """Noisy mean squares of the columns' distances from the middle of their bounds, in units of half a width."""
        return mean_squares(self.plan, self.count, self.noisy)

    @cached_property
    def products(self) -> Floats | None:
        """Noisy mean products of two columns' distances, of all pairs (0, 1), (0, 2), ...; None where nobody asked."""
        return mean_products(self.plan, self.count, self.noisy)

    @property
    def mean(self) -> Floats:
        return self.value

    @property
    def std(self) -> Floats:
        """Population standard deviations; 0 where noise leaves nothing."""
        return self._spreads.std

    @property
    def std_error(self) -> Floats:
        """Root mean square error of each std, to first order; near 0, that of the root of what noise leaves."""
        return self._spreads.std_error

    @cached_property
    def _spreads(self) -> Spreads:
        return Spreads(self.plan, self.value, self.squares, self.count, self._row_counts.stds)

    def confidence_interval(self, level: float = 0.95, of: str = "mean") -> Floats:
        """(d, 2) bounds for the "count", "mean" or "std" of each column, each covering its own column at `level`."""
        kind = choice("of", of, STATED)
        if kind == "mean":
            return super().confidence_interval(level)
        if kind == "std":
            return self._spreads.bounds(open_unit("level", level))
        plan: Any = self.plan
        return self._spreads.count_bounds(open_unit("level", level), float(plan.n) if plan.public_rows else np.inf)

    @property
    def covariance(self) -> Floats:
        """(d, d) population covariances, variances on the diagonal."""
        half = self._spreads.half
        matrix = np.diag(self._spreads.roots**2) + _symmetric(self._covariances, half.size)
        return np.asarray(matrix * np.outer(half, half))

    @property
    def correlation(self) -> Floats:
        """(d, d) correlations, 0 beside a column of which noise leaves no spread."""
        root = self._spreads.roots
        first, second = np.triu_indices(root.size, 1)
        scale = root[first] * root[second]
        pairs = np.where(scale > 0, self._covariances / np.where(scale > 0, scale, 1.0), 0.0)
        return _symmetric(np.clip(pairs, -1.0, 1.0), root.size) + np.eye(root.size)

    @property
    def _covariances(self) -> Floats:
        """Of all pairs, in units of the half-widths."""
        if self.products is None:
            raise UsageError("this release has no covariances. Ask for them: describe(..., covariance=True).")
        first, second = np.triu_indices(self.value.size, 1)
        offsets = self._spreads.offsets
        return self.products - offsets[first] * offsets[second]

    def correlation_interval(self, level: float = 0.95) -> Floats:
        """(d, d, 2) bounds for the correlations, each covering its own at `level`; all of [-1, 1] where a std may be 0.

        [D2] A covariance and two stds within intervals of their own, and the worst that these leave.
        """
        covariances, d = self._covariances, self.value.size
        many = multiples(self.plan, 1 - (1 - open_unit("level", level)) / 3)
        spans = self._spreads.bounds_at(many)
        first, second = np.triu_indices(d, 1)
        reach = self._covariance_reach(many)
        least, most = (spans[first] * spans[second]).T
        ends = []
        for end, sign in ((covariances - reach, -1.0), (covariances + reach, 1.0)):
            scale = np.where(sign * end > 0, least, most)
            pairs = np.where(scale > 0, end / np.where(scale > 0, scale, 1.0), sign)
            ends.append(_symmetric(np.clip(pairs, -1.0, 1.0), d) + np.eye(d))
        return np.stack(ends, axis=-1)

    def _covariance_reach(self, many: Floats) -> Floats:
        """[D2] How far noise may have moved each covariance: to first order, and by two means' errors together."""
        plan: Any = self.plan
        assert self.products is not None
        first, second = np.triu_indices(self.value.size, 1)
        values, doubt = self._spreads.value_stds
        one, other = self._spreads.offsets[first], self._spreads.offsets[second]
        counts = (self.products - 2 * one * other) * self._row_counts.stds[first]
        parts = plan.product_std**2 + (one * values[second]) ** 2 + (other * values[first]) ** 2 + counts**2
        shift = many * self._spreads.variance_stds[1]
        reach: Floats = many[first] * np.sqrt(parts) * doubt[first] + shift[first] * shift[second]
        return reach

    def denoise(self, method: str, **options: Any) -> Release:
        raise UsageError("denoise is for sums and means: a std beside a cleaned mean would not be its own. Use mean.")

    def to_dict(self) -> dict[str, Any]:
        bounds = {name: self.confidence_interval(_LEVEL, name).tolist() for name in ("count", "std")}
        section: dict[str, Any] = {name: part.tolist() for name, part in self._shown().items()}
        if self.products is not None:
            bounds["correlation"] = self.correlation_interval(_LEVEL).tolist()
        return {**super().to_dict(), "describe": {**section, "interval": {"level": _LEVEL, **bounds}}}

    def _shown(self) -> dict[str, Floats]:
        """What a file shows beside the means."""
        shown = {"count": self.count, "std": self.std, "std_error": self.std_error}
        return shown if self.products is None else {**shown, "correlation": self.correlation}

    def check_shown(self, fields: json_codec.Fields) -> None:
        super().check_shown(fields)
        found = fields.take("describe", lambda saved: saved)
        with json_codec.Fields(found, WRONG) as section:
            section.take("interval", lambda value: None)  # worked out again
            for name, wanted in self._shown().items():
                kind: json_codec.Kind[Floats] = json_codec.matrix if wanted.ndim == 2 else json_codec.numbers
                if not follows(section.take(name, kind), wanted):
                    raise UsageError(DOCTORED)

    def _table(self) -> dict[str, Any]:
        table: dict[str, Any] = {}
        for name in STATED:
            low, high = self.confidence_interval(_LEVEL, name).T
            table |= {name: getattr(self, name), f"{name}_lower": low, f"{name}_upper": high}
        return table

    def sheet(self, order: str = "given", columns: Sequence[str] | None = None) -> Sheet:
        from .pictures import description_sheet

        return description_sheet(self, order, columns)

    def document(self, most: int | None = None) -> Document:
        from .documents import description_document

        return description_document(self, most)


def _symmetric(pairs: Floats, d: int) -> Floats:
    """The matrix of all pairs of d columns, nothing on the diagonal."""
    matrix = np.zeros((d, d))
    matrix[np.triu_indices(d, 1)] = pairs
    return matrix + matrix.T


def release_class(plan: Any) -> type[Release]:
    """What the release of a plan is."""
    return Description if plan.statistic == "describe" else Release


def mean_products(plan: Any, rows: Floats, scaled: Floats) -> Floats | None:
    """T / N of each pair of columns, from noisy sums of their products behind the squares [D2]."""
    riders = plan.riders
    if not riders.products:
        return None
    start = plan.ellipsoid.width + riders.width - riders.pairs
    each = max(float(rows[0]), 1.0)  # rows are complete: every column has as many
    means: Floats = np.ldexp(scaled[start : start + riders.pairs], plan.grid_bits) / riders.products / each
    return means


# Forecasts ----------------------------------------------------------------------------------------------


def square_levers(rows: Rows) -> Floats:
    """By how much a mean square moves a std, where a column is spread evenly over its bounds."""
    lower, upper = rows.bounds()
    return (upper - lower) / 2 / (2 * math.sqrt(_EVEN))


def correlation_error(plan: Any) -> float | None:
    """[D2] Forecast error of a correlation of two columns that are spread evenly over their bounds, each by itself."""
    if not plan.riders.products or plan.n is None:
        return None
    return float(plan.product_std / (_EVEN * plan.n))


def std_errors(plan: Any) -> Floats:
    """[D1] Forecast errors of the stds of columns that are spread evenly over their bounds, one per column."""
    counts = (
        np.hypot(plan.absence_stds, plan.count_std or 0.0) if plan.riders.absences.size else (plan.count_std or 0.0)
    )
    doubt = np.sqrt(1 + 3 * np.minimum(counts / plan.n, 1.0) ** 2) / plan.n
    errors: Floats = square_levers(plan.rows) * np.hypot(plan.square_stds, (1 - _EVEN) * counts) * doubt
    return errors


def check_covariance(rule: str, d: int, noise: str, pure: bool) -> None:
    """An error unless products of columns can be published: two columns, complete rows, Gaussian noise."""
    if not 2 <= d <= MOST_DESCRIBED:
        raise UsageError(f"covariance=True is for 2 to {MOST_DESCRIBED} columns, got {d}.")
    if rule == "column":
        raise UsageError(
            "covariance=True needs complete rows. State missing='row' to leave others out, 'center', or a number."
        )
    if noise == "norm" or pure:
        raise UsageError("covariance=True needs Gaussian noise. Leave noise= out, and state a delta above 0.")


# From a file --------------------------------------------------------------------------------------------


def check_squares(plan: Any) -> None:
    """An error unless a plan has squares beside its values where it describes them, and nowhere else."""
    squares = plan.riders.squares
    valid = (plan.statistic == "describe") == (squares.size > 0)
    if valid and squares.size:
        valid = plan.clamped and bool(((squares > 0) == (plan.row_map.limits > 0)).all())
    if not valid:
        raise UsageError("this plan's squares are not those of its statistic. Make the plan anew.")


def read_release(saved: Mapping[str, Any], make_plan: Callable[[Any], Any]) -> Release:
    """A release from a file."""
    return planned_release(saved, make_plan, release_class)
