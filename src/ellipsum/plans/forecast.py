"""The forecast of one release: the error to expect, why the result may carry no information, and its document.

docs/proofs/plans.md: [U2] unknown n, [U6] columns with counts of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..display.document import Document, TextTable, make_table
from ..display.wording import (
    BOUNDS,
    MECHANISMS,
    SHOWN,
    column_names,
    describe_bounds,
    describe_guarantee,
    describe_size,
    describe_statistic,
    describe_weights,
    format_error,
    format_up,
    people_facts,
)
from ..errors import Floats, shown
from ..privacy.budget import Budget
from ..privacy.guarantee import Privacy, compose
from ..releases.clipping_bias import list_columns
from ..releases.decode import Noise, count_stds, expect, noise_of, widen
from ..releases.documents import Facts, clamping_facts, describe_mechanism, missing_facts, plan_warnings
from ..releases.numbers import PublicNumbers, VectorNumbers, of_part
from ..releases.release import Release
from ..request.missing import COMPLETE
from ..request.request import SUMS, Request
from ..rows import Rows
from .base import Released, StatisticPlan

_EVEN = 1 / 3  # Mean square, and variance, of a uniform column, in units of its half-width.
_NEEDS_N = "known once n is: pass n= for the expected error of a mean"
_CORRELATED = 1.42  # Factor of the noise of all other numbers if covariances are released too.
_DIFFERENT = 1.005  # A ratio that is printed as 1 is left out.


@dataclass(frozen=True, repr=False)
class VectorForecast(VectorNumbers, StatisticPlan[Release]):
    """The public numbers and the expected errors of the plan of one vector."""

    considered: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Expected error (root mean square) of each mechanism that was compared."""
    planner: Callable[[Request], VectorForecast] | None = field(default=None, compare=False)
    """The function that made this plan, to compare it with other requests; None for a plan from a file."""

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
        """Noise of the sums, divided by n for means; None for a mean without n."""
        ellipsoid, std = self.noise_base
        if self.statistic in SUMS:
            return Noise(ellipsoid, std, None if self.count_std is None else self.ellipsoid.center * self.count_std)
        return None if self.n is None else Noise(ellipsoid, std / self.n)

    @cached_property
    def noise_std(self) -> Floats | None:
        """Noise std of each column's sum, divided by n for means. `expected_error` adds the noise of counts."""
        return None if self.noise is None else self.noise.stds

    @property
    def noise_cov(self) -> Floats | None:
        """(d, d) covariance of the noise of the sums, divided by n^2 for means."""
        return None if self.noise is None else self.noise.covariance

    @property
    def _noise_errors(self) -> Floats | None:
        """Root mean square error of each column without clipping [U2][U6]."""
        expected = expect(self)
        return None if expected is None else widen(self, noise_of(self, expected).stds, expected.counts)

    @property
    def _clipping_errors(self) -> Floats | None:
        """Root mean square error of each column due to clipping."""
        if self.statistic in SUMS:
            return self.sum_clipping_errors
        return None if self.n is None else self.sum_clipping_errors / self.n

    @cached_property
    def expected_error(self) -> Floats | None:
        """Root mean square error of each column: the expected standard error of the release for data as described."""
        if self._noise_errors is None or self._clipping_errors is None:
            return None
        return np.hypot(self._noise_errors, self._clipping_errors)

    @cached_property
    def noise_error(self) -> float | None:
        """Expected squared norm of the noise."""
        return _squared_norm(self._noise_errors)

    @property
    def clipping_error(self) -> float | None:
        """Expected squared norm of the error due to clipping (0 if the bounds contain every row)."""
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
        if not self.clamped:  # All columns together, since nothing is known of single columns.
            errors, open_range = (np.full(1, float(np.linalg.norm(part))) for part in (errors, open_range))
        useless = (open_range > 0) & (errors >= open_range / 2)
        if not useless.any():
            return None
        columns = "" if useless[open_range > 0].all() else f" of {list_columns(self, useless)}"
        return (
            f"The expected error{columns} is as large as {self.rows.open_range}, so the result would carry no "
            "information. Use more rows, tighter bounds or a larger budget."
        )

    def document(self, most: int | None = None) -> Document:
        """A line for each column."""
        return Document(plan_title(self), [columns_table(self, most or SHOWN)], _plan_facts(self), plan_warnings(self))


class ForecastOfPart(StatisticPlan[Released]):
    """A plan whose expected errors are those of its part `one`, with the same names."""

    size: ClassVar[int | None] = of_part("one", "n")
    """The expected number of rows, or people, in a group."""
    mechanism: ClassVar[str] = of_part("one", "mechanism")
    noise_std: ClassVar[Floats | None] = of_part("one", "noise_std")
    noise_cov: ClassVar[Floats | None] = of_part("one", "noise_cov")
    clip_radius: ClassVar[float | None] = of_part("one", "clip_radius")
    noise_error: ClassVar[float | None] = of_part("one", "noise_error")
    clipping_error: ClassVar[float | None] = of_part("one", "clipping_error")
    expected_error: ClassVar[Floats | None] = of_part("one", "expected_error")
    expected_squared_error: ClassVar[float | None] = of_part("one", "expected_squared_error")
    budget_error: ClassVar[tuple[float | None, str]] = of_part("one", "budget_error")
    std_errors: ClassVar[Floats | None] = of_part("one", "std_errors")
    unserved: ClassVar[NDArray[np.bool_]] = of_part("one", "unserved")


def square_levers(rows: Rows) -> Floats:
    """Derivative of a standard deviation with respect to its mean square, for uniform columns."""
    lower, upper = rows.bounds()
    return (upper - lower) / 2 / (2 * math.sqrt(_EVEN))


def _squared_norm(errors: Floats | None) -> float | None:
    if errors is None:
        return None
    with np.errstate(over="ignore", under="ignore"):
        return float(errors @ errors)


# Documents ----------------------------------------------------------------------------------------------


def plan_title(plan: PublicNumbers) -> str:
    return f"Plan for a differentially private {describe_statistic(plan)} ({describe_size(plan)}; no data read)"


def plan_facts(plan: PublicNumbers, mechanism: str, more: str = "") -> Facts:
    """Facts about the guarantee and the compared mechanisms. more: a remark about the noise."""
    considered = plan.considered
    own = considered.get(plan.mechanism, 0.0)
    others = {name: error / own for name, error in considered.items() if name != plan.mechanism} if own else {}
    listed = ", ".join(f"{MECHANISMS[name]} {ratio:.3g}x" for name, ratio in others.items() if ratio >= _DIFFERENT)
    chosen = f"{mechanism}, smallest expected error; others: {listed}" if listed else mechanism
    return [("Privacy", describe_guarantee(plan.privacy, plan.stated)), ("Mechanism", chosen + more)]


def _plan_facts(plan: VectorForecast) -> Facts:
    facts = plan_facts(plan, describe_mechanism(plan))
    if plan.mechanism != "gaussian" and plan.stated.get("delta"):
        facts.append(("Repeated", _describe_repeated(plan)))
    facts += [
        *people_facts(plan.people, plan.statistic),
        *missing_facts(plan),
        *clamping_facts(plan),
        *_count_facts(plan),
    ]
    if plan.rows.kind in ("box", "normal") and plan.statistic != "count":
        facts.append(("Weights", describe_weights(plan.request.error_weights)))
    facts += _clip_facts(plan)
    if plan.expected_error is None:
        facts.append(("Error", _NEEDS_N))
    elif plan.rows_each is not None and plan.statistic not in SUMS:
        facts.append(("Error", "errors are for one row of each person; more rows make them smaller"))
    if plan.statistic == "describe":
        facts.append(("Forecast", "errors are for columns that are spread evenly over their bounds"))
        if plan.correlation_error is not None:
            error = f"error of a correlation {plan.correlation_error:.3g}"
            facts.append(("Covariance", f"{error}; all other noise is up to {_CORRELATED} times as large"))
    return facts


def _count_facts(plan: VectorForecast) -> Facts:
    """The additional error due to counts of missing and clipped values, and how to avoid it."""
    costs: list[tuple[str, str, dict[str, Any]]] = []
    if plan.auxiliary.absences.any():
        avoided = f'missing="{COMPLETE}" avoids it if no value is missing'
        costs.append(("missing values", avoided, {"missing": COMPLETE}))
    if plan.auxiliary.counts_clipped:
        what = "clamped values" if plan.clamped else "clipped rows"
        costs.append((what, "count_clipped=False avoids it", {"count_clipped": False}))
    ratios = [(what, _cost(plan, changes), avoided) for what, avoided, changes in costs]
    texts = [
        f"counting {what} multiplies the error by {ratio:.3g} ({avoided})"
        for what, ratio, avoided in ratios
        if ratio >= _DIFFERENT
    ]
    return [("Counts", "; ".join(texts))] if texts else []


def _cost(plan: VectorForecast, changes: Mapping[str, Any]) -> float:
    """The ratio of a plan's errors to those of a changed request; 1 if it is not known."""
    if plan.planner is None or not plan.stated:
        return 1.0
    errors, others = plan.expected_error, plan.planner(replace(plan.request, **changes)).expected_error
    if errors is None or others is None or not (others > 0).any():
        return 1.0
    return float(np.median(errors[others > 0] / others[others > 0]))


def columns_table(plan: VectorForecast, most: int) -> TextTable:
    """The bounds of each column, and its expected errors."""
    lines = [
        [
            shown(name),
            describe_bounds(plan.rows, j),
            _error_cell(plan.expected_error, j),
            _error_cell(plan.std_errors, j),
        ]
        for j, name in enumerate(column_names(plan.columns, plan.d, most))
    ]
    heads = ["column", BOUNDS[plan.rows.kind], "expected error (RMS)", "expected error of std"]
    return make_table(heads, lines, plan.d)


def _error_cell(errors: Floats | None, j: int) -> str:
    return "" if errors is None else format_error(float(errors[j]))


def _describe_repeated(plan: VectorForecast) -> str:
    """Compare the composition with Gaussian noise: the mechanism with the smallest error may compose worse."""
    delta = plan.stated["delta"]
    ours = compose([plan.privacy] * 10).epsilon(delta)
    gaussian = compose([Privacy(Budget(**plan.stated).mu, 0.0, plan.neighbors)] * 10).epsilon(delta)
    return (
        f'10 such releases compose to epsilon = {format_up(ours)}; with noise="gaussian", to {format_up(gaussian)} '
        f"(delta = {delta:g})"
    )


def _clip_facts(plan: VectorForecast) -> Facts:
    """The clipping radius, and its share of the expected squared error."""
    if plan.clip_radius is None:
        return []
    far = f"rows beyond {plan.clip_radius:.3g} times their root mean square distance from the center"
    expected, clipping = plan.expected_squared_error, plan.clipping_error
    share = clipping / expected if expected and clipping is not None else 0.0
    return [("Clipping", f"{far}; {share:.0%} of the expected squared error" if share >= 0.005 else far)]
