"""Texts for numbers, guarantees and rules, for documents of all kinds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal
from typing import Protocol

import numpy as np

from ..errors import Floats, named
from ..privacy.guarantee import Privacy, PrivacyGuarantee
from ..privacy.spherical_curve import SphericalPrivacy
from ..request.missing import Missing
from ..request.people import People
from ..rows import Ball, LearnedRows, Normal, Rows
from ..rows.base import ErrorWeights

SHOWN = 12
"""The number of columns that fit on a screen."""
LEVEL = 0.95
INSECURE = "NOT PRIVATE: generated with rng=..., for testing only. Do not publish."
STATISTICS = {
    "sum": "sum",
    "mean": "mean",
    "describe": "count, mean and standard deviation",
    "count": "count",
    "histogram": "histogram",
    "quantiles": "quantiles",
}
MECHANISMS = {
    "gaussian": "Gaussian",
    "knorm_l2": "K-norm (L2)",
    "knorm_linf": "K-norm (L-infinity)",
    "laplace": "Laplace",
}
QUANTILE_MECHANISMS = {
    "gaussian": "Gaussian noise on a distribution function",
    "laplace": "Laplace noise on a tree of counts",
    "exponential": "exponential mechanism, a choice for each quantile",
}
BOUNDS = {
    "box": "bounds",
    "ball": "center",
    "normal": "center ± std",
    "learned": "learned center ± spread",
    "learned_box": "learned bounds",
}
"""The title of the bounds of a column, by the kind of bounds."""
_FOUR_DIGITS = Context(prec=4, rounding=ROUND_CEILING)


class SizedPlan(Protocol):
    """The statistic and the size of a plan. Friendly means have plans without a request."""

    @property
    def statistic(self) -> str: ...
    @property
    def d(self) -> int: ...
    @property
    def neighbors(self) -> str: ...
    @property
    def n(self) -> int | None: ...
    @property
    def people(self) -> People | None: ...


# Numbers ------------------------------------------------------------------------------------------------


def format_number(value: float, std: float) -> str:
    """Format a value with its meaningful digits: down to the second digit of the noise std."""
    if not (std > 0 and abs(value) < 1e15 and 1e-12 < std < 1e15):
        return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:.6g}"
    places = max(0, 1 - math.floor(math.log10(std)))
    text = f"{value:,.{places}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text


def format_interval(ends: Floats, std: float) -> str:
    """Format both ends of an interval, with more digits if the interval is narrower than its noise."""
    width = float(ends[1]) - float(ends[0])
    digits_of = min(float(std), width) if width > 0 else float(std)
    low, high = (format_number(float(end), digits_of) for end in ends)
    return f"[{low}, {high}]"


def format_error(error: float) -> str:
    """Format a standard error with three digits."""
    return f"{error:,.3g}" if abs(error) < 1e6 else f"{error:.3g}"


def format_up(value: float) -> str:
    """Format a number with four digits, rounded up, so that no guarantee looks stronger than it is."""
    return f"{float(_FOUR_DIGITS.create_decimal(Decimal(repr(float(value))))):g}"


def percent(share: float) -> str:
    """Format a share as a percentage of two digits, at most 100%."""
    hundredths = 100 * min(share, 1.0)
    return f"{hundredths:.0f}%" if hundredths >= 9.95 else f"{hundredths:.2g}%"


def many(count: int, what: str) -> str:
    """Format a number with its noun: 1 column, 2 columns."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def first_upper(text: str) -> str:
    """Make the first letter of a text a capital."""
    return text[:1].upper() + text[1:]


def column_names(names: tuple[str, ...] | None, d: int, most: int | None = None) -> tuple[str, ...]:
    """The names of the first columns, or of all; x1, x2, ... if columns have no names."""
    return (names or tuple(f"x{j + 1}" for j in range(d)[:most]))[:most]


# Guarantees ---------------------------------------------------------------------------------------------


def describe_guarantee(privacy: PrivacyGuarantee, stated: Mapping[str, float] | None = None) -> str:
    """Describe the privacy loss and the neighboring relation. stated: the requested budget."""
    return f"{_describe_loss(privacy, stated or {})}; {describe_neighbors(privacy)}"


def describe_neighbors(privacy: PrivacyGuarantee) -> str:
    """Describe the neighboring relation."""
    change = "replace" if privacy.neighbors == "replace" else "add or remove"
    return f"neighbors: {change} one {privacy.unit}"


def _describe_loss(privacy: PrivacyGuarantee, stated: Mapping[str, float]) -> str:
    delta = stated.get("delta", 0.0)
    if isinstance(privacy, SphericalPrivacy) and delta:
        return (
            f"epsilon = {stated['epsilon']:g}, delta = {delta:g} (or epsilon = {format_up(privacy.ratio)}, delta = 0)"
        )
    pair = privacy.as_pair()
    if pair.pure and not (pair.mu or pair.slack):
        unused = f"; the requested delta of {delta:g} was not needed" if delta else ""
        return f"epsilon = {format_up(pair.epsilon(0.0))}, delta = 0 (pure DP{unused})"
    pure_alone = len(pair.pure) == 1 and not pair.mu
    parts = f"pure DP except with probability {format_up(pair.slack)}" if pure_alone else _describe_parts(pair)
    requested = ", ".join(f"{name} = {value:g}" for name, value in stated.items() if name != "mu")
    return f"{requested} ({parts})" if requested else parts


def _describe_parts(privacy: Privacy) -> str:
    parts = [f"mu = {format_up(privacy.mu)} Gaussian DP"] if privacy.mu or not privacy.pure else []
    parts += [f"epsilon = {format_up(epsilon)} pure DP" for epsilon in privacy.pure]
    parts += [f"delta = {format_up(privacy.slack)}"] if privacy.slack else []
    return " plus ".join(parts)


# Rules --------------------------------------------------------------------------------------------------


def describe_size(plan: SizedPlan) -> str:
    """Describe the number of rows: public, or private with a guess."""
    if plan.neighbors == "replace":
        return f"n = {plan.n:,}" + ("" if plan.people is None else " people")
    return "n is private" + (f", guess: {plan.n:,}" if plan.n is not None else "")


def people_facts(people: People | None, statistic: str = "") -> list[tuple[str, str]]:
    """Facts about the column that identifies people, and how a person's rows are combined."""
    if people is None:
        return []
    rows = "all rows" if people.max_rows is None else f"at most {many(people.max_rows, 'row')}"
    how = f"{rows} of a person, each by itself"
    if people.per_person != "rows" and statistic == "count":
        how = "each person counts once"
    elif people.per_person != "rows":
        how = f"the {people.per_person} of {rows} of a person"
    return [("People", f"{how}; identified by {named(people.privacy_id)}")]


def describe_statistic(plan: SizedPlan) -> str:
    """Describe the statistic: mean of 3 columns, count of rows."""
    if plan.statistic == "count":
        return "count of " + ("rows" if plan.people is None or plan.people.rows_each is not None else "people")
    return f"{STATISTICS[plan.statistic]} of {many(plan.d, 'column')}"


def describe_missing(rule: Missing, statistic: str) -> str:
    """Describe the treatment of missing values. rule: the argument `missing` of a call."""
    if not isinstance(rule, str):
        return f"missing values count as {_join_numbers(rule)}"
    if rule == "drop_row":
        return "rows with a missing value are left out; the number of complete rows is noisy"
    if rule == "none":
        return "none, as the caller states; a missing value would count as the center"
    return ("missing values add nothing" if statistic == "sum" else "skipped in each column") + "; counts are noisy"


def describe_weights(weights: ErrorWeights) -> str:
    """Describe the weights of errors. weights: the argument `error_weights` of a call."""
    if weights is not None and not isinstance(weights, str):
        return f"as given: {_join_numbers(weights)}"
    if weights == "relative":
        return "relative to the range or standard deviation of each column"
    return "equal: errors in original units"


def _join_numbers(numbers: object) -> str:
    flat = np.asarray(numbers).ravel().tolist()
    return ", ".join(f"{value:g}" for value in flat[:SHOWN]) + (", ..." if len(flat) > SHOWN else "")


def describe_bounds(rows: Rows, j: int) -> str:
    """Describe the bounds of a column, in its own units."""
    if rows.clamps:
        lower, upper = rows.bounds()
        return f"[{lower[j]:,g}, {upper[j]:,g}]"
    if isinstance(rows, (Normal, LearnedRows)):
        return f"{np.ravel(rows.center)[j]:g} ± {rows.spread()[j]:.4g}"
    return f"{np.ravel(rows.center)[j]:g}" if isinstance(rows, Ball) and np.any(rows.center) else ""


def insecure_facts(secure: bool) -> list[tuple[str, str]]:
    """A warning if the noise came from the caller's generator."""
    return [] if secure else [("Security", INSECURE)]
