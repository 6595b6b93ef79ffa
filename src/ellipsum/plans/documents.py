"""The documents of plans: what a release will be, what it costs, and the error to expect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

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
from ..releases.documents import (
    Facts,
    clamping_facts,
    describe_groups,
    describe_mechanism,
    missing_facts,
    plan_warnings,
)
from ..request.missing import COMPLETE
from ..request.request import SUMS
from .base import StatisticPlan
from .forecast import VectorForecast

_NEEDS_N = "known once n is: pass n= for the expected error of a mean"
_CORRELATED = 1.42  # times the noise of everything else, where covariances are released too
_DIFFERENT = 1.005  # A ratio that is printed as 1 is left out.


def plan_document(plan: VectorForecast, most: int | None = None) -> Document:
    """The plan of one vector: a line for each column."""
    return Document(plan_title(plan), [columns_table(plan, most or SHOWN)], _plan_facts(plan), plan_warnings(plan))


def plan_title(plan: StatisticPlan[Any]) -> str:
    return f"Plan for a differentially private {describe_statistic(plan)} ({describe_size(plan)}; no data read)"


def plan_facts(plan: StatisticPlan[Any], mechanism: str, considered: Mapping[str, float], more: str = "") -> Facts:
    """Lines about the guarantee and the compared mechanisms; more: a remark about the noise."""
    own = considered.get(plan.mechanism, 0.0)
    others = {name: error / own for name, error in considered.items() if name != plan.mechanism} if own else {}
    listed = ", ".join(f"{MECHANISMS[name]} {ratio:.3g}x" for name, ratio in others.items() if ratio >= _DIFFERENT)
    chosen = f"{mechanism}, smallest expected error; others: {listed}" if listed else mechanism
    return [("Privacy", describe_guarantee(plan.privacy, plan.stated)), ("Mechanism", chosen + more)]


def _plan_facts(plan: VectorForecast) -> Facts:
    facts = plan_facts(plan, describe_mechanism(plan), plan.considered)
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
    """What counting missing and clipped values costs, and how to avoid it."""
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
    """The ratio of a plan's errors and those of another request; 1 where that is not known."""
    if plan.planner is None or not plan.stated:
        return 1.0
    errors, others = plan.expected_error, plan.planner(replace(plan.request, **changes)).expected_error
    if errors is None or others is None or not (others > 0).any():
        return 1.0
    return float(np.median(errors[others > 0] / others[others > 0]))


def columns_table(plan: VectorForecast, most: int) -> TextTable:
    """What is known of each column, and its expected errors."""
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
    """A mechanism that composes well may not be the one with the smallest error alone."""
    delta = plan.stated["delta"]
    ours = compose([plan.privacy] * 10).epsilon(delta)
    gaussian = compose([Privacy(Budget(**plan.stated).mu, 0.0, plan.neighbors)] * 10).epsilon(delta)
    return (
        f'10 such releases compose to epsilon = {format_up(ours)}; with noise="gaussian", to {format_up(gaussian)} '
        f"(delta = {delta:g})"
    )


def _clip_facts(plan: VectorForecast) -> Facts:
    """How far out rows are clipped, and what that is expected to cost."""
    if plan.clip_radius is None:
        return []
    far = f"rows beyond {plan.clip_radius:.3g} times their root mean square distance from the center"
    expected, clipping = plan.expected_squared_error, plan.clipping_error
    share = clipping / expected if expected and clipping is not None else 0.0
    return [("Clipping", f"{far}; {share:.0%} of the expected squared error" if share >= 0.005 else far)]


def bins_document(
    plan: StatisticPlan[Any], considered: Mapping[str, float], bins: Sequence[int], error: float, most: int | None
) -> Document:
    """The plan of a histogram: a line for each column."""
    names = column_names(plan.columns, plan.d, most or SHOWN)
    lines = [[shown(name), f"{bins[j]:,}", format_error(error)] for j, name in enumerate(names)]
    table = make_table(["column", "bins", "expected error of a count (RMS)"], lines, plan.d)
    facts = [*plan_facts(plan, MECHANISMS[plan.mechanism], considered), *people_facts(plan.people, plan.statistic)]
    facts += [] if plan.grouping is None else [("Groups", describe_groups(plan.grouping, 0.0))]
    return Document(plan_title(plan), [table], facts, plan_warnings(plan))
