"""The documents of plans: what a release will be, what it costs, and the error to expect."""

from __future__ import annotations

import math
from typing import Any

from ..display.document import Document, Facts, TextTable, make_table
from ..display.wording import (
    BOUNDS,
    MECHANISMS,
    SHOWN,
    STATISTICS,
    describe_bounds,
    describe_guarantee,
    describe_size,
    describe_weights,
    format_error,
    format_up,
    many,
    people_facts,
)
from ..errors import Floats, shown
from ..privacy.budget import Budget
from ..privacy.guarantee import Privacy, compose
from ..releases.documents import describe_groups, missing_rule, plan_warnings

_NEEDS_N = "known once n is: pass n= to forecast a mean"
_CORRELATED = 1.42  # by the noise of everything else, where covariances are released too
_DIFFERENT = 1.005  # a ratio that is printed as 1 says nothing


def plan_document(plan: Any, most: int | None = None) -> Document:
    """The plan of one vector: a line for each column."""
    columns = many(plan.d, "column")
    size = f"{describe_size(plan)}; no data read"
    title = f"Plan for a differentially private {STATISTICS[plan.statistic]} of {columns} ({size})"
    return Document(title, [_columns_table(plan, most or SHOWN)], _plan_facts(plan), plan_warnings(plan))


def _plan_facts(plan: Any) -> Facts:
    facts = [("Privacy", describe_guarantee(plan.privacy, plan.stated)), ("Mechanism", _describe_choice(plan))]
    if plan.mechanism != "gaussian" and plan.stated.get("delta"):
        facts.append(("Repeated", _describe_repeated(plan)))
    facts += [*people_facts(plan.people), ("Missing", missing_rule(plan)), *_weights_facts(plan), *_clip_facts(plan)]
    if plan.expected_squared_error is None:
        facts.append(("Error", _NEEDS_N))
    if plan.statistic == "describe":
        facts.append(("Forecast", "errors are for columns that are spread evenly over their bounds"))
        if plan.correlation_error is not None:
            error = f"error of a correlation {plan.correlation_error:.3g}"
            facts.append(("Covariance", f"{error}; all other noise is up to {_CORRELATED} times as large"))
    return facts


def _columns_table(plan: Any, most: int) -> TextTable:
    names = plan.columns or tuple(f"x{j + 1}" for j in range(min(plan.d, most)))
    errors = None if plan.expected_squared_error is None else plan.column_errors()
    lines = [
        [shown(name), describe_bounds(plan.rows, j), *(_error_cell(part, j) for part in (errors, plan.std_errors))]
        for j, name in enumerate(names[:most])
    ]
    heads = ["column", BOUNDS[plan.rows.kind], "expected error (RMS)", "expected error of std"]
    return make_table(heads, lines, plan.d)


def _error_cell(errors: Floats | None, j: int) -> str:
    return "" if errors is None else format_error(float(errors[j]))


def _describe_choice(plan: Any) -> str:
    """The mechanism, and what the others would give."""
    own = plan.considered.get(plan.mechanism, 0.0)
    others = {name: error / own for name, error in plan.considered.items() if name != plan.mechanism} if own else {}
    others = {name: ratio for name, ratio in others.items() if ratio >= _DIFFERENT}
    if not others:
        return MECHANISMS[plan.mechanism]
    listed = ", ".join(f"{MECHANISMS[name]} {ratio:.3g}x" for name, ratio in others.items())
    return f"{MECHANISMS[plan.mechanism]}, smallest expected error; others: {listed}"


def _describe_repeated(plan: Any) -> str:
    """What composes well is not what errs least alone."""
    delta = plan.stated["delta"]
    ours = compose([plan.privacy] * 10).epsilon(delta)
    gaussian = compose([Privacy(Budget(**plan.stated).mu, 0.0, plan.neighbors)] * 10).epsilon(delta)
    return (
        f'10 such releases compose to epsilon = {format_up(ours)}; with noise="gaussian", to {format_up(gaussian)} '
        f"(delta = {delta:g})"
    )


def _weights_facts(plan: Any) -> Facts:
    """In which units errors are weighed; nothing where there is no choice."""
    if plan.rows.kind not in ("box", "normal"):
        return []
    return [("Weights", describe_weights(plan.request.error_weights))]


def _clip_facts(plan: Any) -> Facts:
    """How far out rows are clipped, and what that is expected to cost."""
    if plan.clip_radius is None:
        return []
    far = f"rows beyond {plan.clip_radius:.3g} times their root mean square distance from the center"
    expected, clipping = plan.expected_squared_error, plan.clipping_error
    share = clipping / expected if expected and clipping is not None else 0.0
    return [("Clipping", f"{far}; {share:.0%} of the expected squared error" if share >= 0.005 else far)]


def group_plan_document(plan: Any, most: int | None = None) -> Document:
    """The plan of many groups: a line for each column of a group."""
    one, unit = plan.one, "rows" if plan.people is None else "people"
    title = f"Plan for a differentially private {STATISTICS[plan.statistic]} of {many(plan.d, 'column')} by group"
    group = "a group" if plan.size is None else f"a group of {plan.size:,} {unit}"
    facts = [
        ("Privacy", describe_guarantee(plan.privacy, plan.stated)),
        ("Mechanism", f"{_describe_choice(plan)}; independent noise in every group"),
        ("Groups", describe_groups(plan)),
    ]
    if plan.grouping.keys is None:
        chance = f"with probability at most {plan.failure:.2g}"
        facts.append(("", f"a group of one {plan.privacy.unit} is published {chance}"))
    facts += people_facts(plan.people)
    if plan.people is not None:
        most_groups = plan.grouping.max_per_person
        facts.append(("", "each person is in at most " + many(most_groups, "group")))
    facts += [("Missing", missing_rule(one)), ("Counts", f"standard error {one.count_std or 0:.4g} {unit}")]
    error = one.expected_squared_error
    needs = "known once the size of a group is: pass n= and the expected number of groups to forecast a mean"
    overall = "" if error is None or plan.d == 1 else f"; all columns together {math.sqrt(error):.4g}"
    facts.append(("Error", needs if error is None else f"errors are for {group}{overall}"))
    return Document(f"{title} (no data read)", [_columns_table(one, most or SHOWN)], facts, plan_warnings(plan))
