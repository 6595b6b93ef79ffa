"""The forecast of one release: the error to expect, and why the result may carry no information.

docs/proofs/plans.md: [U2] unknown n, [U6] columns with counts of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats
from ..releases.clipping_bias import list_columns
from ..releases.decode import count_stds, expect, noise_of, widen
from ..releases.noise_covariance import Noise
from ..releases.numbers import VectorNumbers
from ..releases.release import Release
from ..request.request import SUMS, Request
from ..rows import Rows
from .base import StatisticPlan

_EVEN = 1 / 3  # mean square, and variance, of a column spread evenly over its bounds, in units of its half-width


@dataclass(frozen=True, repr=False)
class VectorForecast(VectorNumbers, StatisticPlan[Release]):
    """The plan of one vector, as far as its numbers and its expected errors go."""

    considered: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Expected errors under the mechanisms that were compared, root mean square."""
    planner: Callable[[Request], VectorForecast] | None = field(default=None, compare=False)
    """The function that made this plan, to plan other requests for comparison; None for a plan from a file."""

    @cached_property
    def unserved(self) -> NDArray[np.bool_]:
        auxiliary, ellipsoid = self.auxiliary, self.ellipsoid
        if auxiliary.missing in ("row", "fill") or self.request.missing == "none":
            return np.zeros(self.d, bool)
        counted = auxiliary.absences > 0 if auxiliary.absences.size else np.zeros(1, bool)
        if self.statistic in SUMS:  # A missing value adds nothing if it counts as 0.
            lower, upper = self.rows.bounds() if self.clamped else (ellipsoid.center, ellipsoid.center)
            return np.broadcast_to(~(counted | ((lower <= 0) & (upper >= 0))), self.d)
        if ellipsoid.axes is None:  # A column with equal bounds is always at its center.
            counted = counted | (ellipsoid.scale == 0)
        return np.broadcast_to(~(counted | (ellipsoid.reach == 0)), self.d)

    # Forecast -------------------------------------------------------------------------------------------

    @property
    def noise(self) -> Noise | None:
        """Noise of the sums, over the number of rows for means; None for a mean without n."""
        ellipsoid, std = self.noise_base
        if self.statistic in SUMS:
            return Noise(ellipsoid, std, None if self.count_std is None else self.ellipsoid.center * self.count_std)
        return None if self.n is None else Noise(ellipsoid, std / self.n)

    @cached_property
    def noise_std(self) -> Floats | None:
        """Standard deviation of the noise of each column's sum, over n for means; `expected_error` adds the counts'."""
        return None if self.noise is None else self.noise.stds

    @property
    def noise_cov(self) -> Floats | None:
        """(d, d) covariance of the noise of the sums, over n^2 for means."""
        return None if self.noise is None else self.noise.covariance

    @property
    def _noise_errors(self) -> Floats | None:
        """Root mean square error of each column, clipping left aside [U2][U6]."""
        expected = expect(self)
        return None if expected is None else widen(self, noise_of(self, expected).stds, expected.rows)

    @property
    def _clipping_errors(self) -> Floats | None:
        """Root mean square of what clipping removes from each column."""
        if self.statistic in SUMS:
            return self.sum_clipping_errors
        return None if self.n is None else self.sum_clipping_errors / self.n

    @cached_property
    def expected_error(self) -> Floats | None:
        """Root mean square error of each column: the standard error of the release, for data as described."""
        if self._noise_errors is None or self._clipping_errors is None:
            return None
        return np.hypot(self._noise_errors, self._clipping_errors)

    @cached_property
    def noise_error(self) -> float | None:
        """Expected squared norm of the noise."""
        return _squared_norm(self._noise_errors)

    @property
    def clipping_error(self) -> float | None:
        """Expected squared norm of what clipping removes (0 where the given bounds hold every row)."""
        return _squared_norm(self._clipping_errors)

    @property
    def expected_squared_error(self) -> float | None:
        """E‖release - true statistic‖^2 = noise_error + clipping_error."""
        noise, clipping = self.noise_error, self.clipping_error
        return None if noise is None or clipping is None else noise + clipping

    @property
    def budget_error(self) -> tuple[float | None, str]:
        errors, squared, is_sum = self.expected_error, self.expected_squared_error, self.statistic in SUMS
        if errors is None or squared is None:
            return None, ""
        if self.statistic == "count":
            return float(errors[0]), "error of a count"
        if self.request.error_weights != "relative" or (is_sum and self.n is None):
            return math.sqrt(squared), "error, all columns together"
        spread = np.asarray(self.rows.spread(), float)
        live = spread > 0
        shares = errors[live] / spread[live] / (self.n if is_sum and self.n else 1)
        unit = "range" if self.rows.kind == "box" else "std"
        return float(np.sqrt(np.mean(shares**2))), f"RMS error / (n × {unit})" if is_sum else f"RMS error / {unit}"

    @property
    def std_errors(self) -> Floats | None:
        """[D1] Expected errors of a description's standard deviations, for columns spread evenly over their bounds."""
        if self.statistic != "describe" or self.n is None:
            return None
        shared, own = count_stds(self)
        counts = np.hypot(own, shared)
        doubt = np.sqrt(1 + 3 * np.minimum(counts / self.n, 1.0) ** 2) / self.n
        errors: Floats = square_levers(self.rows) * np.hypot(self.square_stds, (1 - _EVEN) * counts) * doubt
        return errors

    @property
    def correlation_error(self) -> float | None:
        """[D2] Expected error of a correlation of two columns, each spread evenly over its bounds by itself."""
        return self.product_std / (_EVEN * self.n) if self.auxiliary.products and self.n is not None else None

    @cached_property
    def warning(self) -> str | None:
        errors, scale = self.expected_error, self.n if self.statistic in SUMS else 1
        if errors is None or scale is None or self.center_spread == 0:
            return None
        open_range = self.rows.distances(self.d, self.n) * scale
        if not self.clamped:  # of all columns together, since nothing is known of columns by themselves
            errors, open_range = (np.full(1, float(np.linalg.norm(part))) for part in (errors, open_range))
        useless = (open_range > 0) & (errors >= open_range / 2)
        if not useless.any():
            return None
        columns = "" if useless[open_range > 0].all() else f" of {list_columns(self, useless)}"
        return (
            f"The expected error{columns} is as large as {self.rows.open_range}, so the result would carry no "
            "information. Use more rows, tighter bounds or a larger budget."
        )


def square_levers(rows: Rows) -> Floats:
    """Change of a standard deviation with its mean square, for uniform columns."""
    lower, upper = rows.bounds()
    return (upper - lower) / 2 / (2 * math.sqrt(_EVEN))


def _squared_norm(errors: Floats | None) -> float | None:
    if errors is None:
        return None
    with np.errstate(over="ignore", under="ignore"):
        return float(errors @ errors)
