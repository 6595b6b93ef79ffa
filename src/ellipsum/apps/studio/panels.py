"""The panels beside a form, as JSON for the script of the page: the forecast of a plan, and the balance of a ledger.

They have public numbers only.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from ... import Ledger, UsageError
from ...api import AnyPlan, make_plan, plan_request
from ...display.wording import MECHANISMS, describe_guarantee
from ...errors import Floats
from ...learning.plan import LearningPlan
from ...ledger import AccountState
from ...ledger.charging import describe_remaining, describe_spent
from ...request.request import Request
from .orders import check_address

_MOST_SHOWN = 200
_ANY_ERROR = 1e300  # A target that every column meets.
_UNITS = {"quantiles": "rows of rank", "histogram": "rows in each bin", "count": "rows"}
_NO_GROUPS = "For a forecast, type the expected number of groups, or list the groups."
_NO_N = "For a forecast, type your guess of the number of rows or people."


# The forecast -------------------------------------------------------------------------------------------


def plan_of(request: Request, n: int | None) -> AnyPlan:
    """Plan a request for n rows."""
    return make_plan(request.sized(n, request.d, request.columns))


def plan_for_error(request: Request, n: int | None, delta: float, error: float, place: int) -> AnyPlan:
    """Plan with the least epsilon at which the error of one column is at most this."""
    if request.statistic not in ("sum", "mean", "describe"):
        raise UsageError("This statistic has no target error. Enter epsilon instead.")
    target: float | list[float] = error
    if not request.learns and request.d != 1:
        target = [error if place == j else _ANY_ERROR for j in range(request.d or 1)]
    return plan_request(replace(request, budget=None), n, request.d, delta=delta, error=target)


def forecast(plan: AnyPlan, place: int) -> dict[str, object]:
    """The forecast of a plan; its `error` is the error of the column at this position."""
    request, errors = plan.request, _column_errors(plan)
    if not np.isfinite(errors).all():
        raise UsageError("The expected error exceeds the range of numbers. Check the bounds.")
    names = ["all columns together"] if request.learns else request.bounds.columns or request.columns or ["rows"]
    unit = "standard deviations of the data" if request.learns else _UNITS.get(request.statistic, "")
    has_unsized_groups = request.groups is not None and request.groups.size is None
    return {
        "epsilon": request.stated["epsilon"],
        "delta": request.stated["delta"],
        "error": float(errors[min(place, errors.size - 1)]) if errors.size else None,
        "unit": f"{unit}{' in each group' if request.groups else ''}".strip(),
        "columns": list(zip(map(str, names), errors.tolist(), strict=False))[:_MOST_SHOWN],
        "more": errors.size,
        "mechanism": "" if isinstance(plan, LearningPlan) else MECHANISMS[plan.mechanism],
        "guarantee": describe_guarantee(plan.privacy, plan.stated),
        "warning": plan.warning,
        "advice": _NO_GROUPS if has_unsized_groups else _NO_N,
    }


def _column_errors(plan: AnyPlan) -> Floats:
    """The expected error of each column; one number for unknown bounds; empty if n is missing."""
    if isinstance(plan, LearningPlan):
        return np.array([] if plan.relative_error is None else [plan.relative_error])
    return np.empty(0) if plan.expected_error is None else plan.expected_error


# The ledger ---------------------------------------------------------------------------------------------


def balance(address: str, dataset: str) -> dict[str, object]:
    """The balance of a data set."""
    return _describe_account(_open_ledger(address).account(dataset.partition("@")[0]))


def data_sets(address: str) -> list[str]:
    """The data sets whose budgets a ledger has."""
    return [account.dataset for account in _open_ledger(address).accounts()]


def open_budget(address: str, dataset: str, epsilon: str, delta: str) -> dict[str, object]:
    """Open the budget of a data set; create the ledger where there is none."""
    if not dataset:
        raise UsageError("dataset is missing. Type its name.")
    for name, text in (("epsilon", epsilon), ("delta", delta)):
        if not text:
            raise UsageError(f"The {name} of the whole budget is missing.")
    return _describe_account(_open_ledger(address).init(dataset, epsilon=epsilon, delta=delta))


def _open_ledger(address: str) -> Ledger:
    check_address(address)
    return Ledger(address)


def _describe_account(account: AccountState) -> dict[str, object]:
    caps = account.caps
    budget = ", ".join(f"{name} {float(value):g}" for name, value in account.budget.items())
    return {
        "budget": budget + (" (closed)" if account.closed else ""),
        "spent": "nothing yet" if caps is None else describe_spent(caps),
        "left": "all of it" if caps is None else describe_remaining(caps),
        "share": _spent_share(account),
        "protects": str(account.privacy_unit),
        "releases": f"{account.released} completed, {account.reserved - account.released} charged but not completed",
    }


def _spent_share(account: AccountState) -> float:
    """The spent share, from 0 to 1, of the limit that is used up most."""
    caps = account.caps
    if caps is None:
        return 0.0
    pairs = [(spent, Fraction(cap)) for spent, cap in zip(caps.pure_spent, caps.pure, strict=True)]
    pairs += [(caps.squares_spent, Fraction(caps.mu) ** 2), (caps.slack_spent, Fraction(caps.slack))]
    return max((float(spent / cap) for spent, cap in pairs if cap), default=0.0)
