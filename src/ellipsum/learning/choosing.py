"""Which noise the rounds of Unknown rows have: Gaussian, or pure where asked for or forecast to err less [L8]."""

from __future__ import annotations

from ..errors import UsageError
from ..privacy.budget import Budget
from ..request.people import People

_ENOUGH_ROWS = (900.0, 5000.0, 20_000.0, 40_000.0)
"""Times epsilon, for one column, two, three and four: from here on pure rounds and a box err less, far rows or not."""
_SMALL_MU = 0.4  # of epsilon: a larger delta makes Gaussian noise as good


def check_pure(method: str) -> None:
    if method != "auto":
        raise UsageError(f"method={method!r} has Gaussian rounds. Use method='auto' with delta=0 or noise='norm'.")


def is_pure(
    method: str,
    budget: Budget,
    noise: str,
    n: int | None,
    d: int,
    neighbors: str,
    people: People | None,
    later: bool = False,
) -> bool:
    """Whether rounds have pure noise: where delta is 0, or it was asked for, or is forecast to err less [L8]."""
    asked = noise == "norm" or (budget.largest_mu is None and noise != "gaussian")
    if asked:
        check_pure(method)
    if asked and budget.pair is None:
        raise UsageError("noise='norm' needs a budget stated as epsilon= and delta=: its law is not Gaussian.")
    return asked or (noise == "auto" and method == "auto" and pure_errs_less(budget, n, d, neighbors, people, later))


def pure_errs_less(
    budget: Budget, n: int | None, d: int, neighbors: str, people: People | None, later: bool = False
) -> bool:
    """By public numbers: few columns, enough rows for histograms under Laplace noise, and a delta that brings little.

    later: whether rows are learned for releases to come, which are served so for one column alone.
    """
    if d > (1 if later else len(_ENOUGH_ROWS)) or n is None or budget.pair is None or budget.largest_mu is None:
        return False
    epsilon = budget.pair[0]
    enough = rows_in_epsilons(n, epsilon, neighbors, people) >= _ENOUGH_ROWS[d - 1]
    return enough and budget.mu < _SMALL_MU * epsilon


def rows_in_epsilons(n: float, epsilon: float, neighbors: str, people: People | None) -> float:
    """Rows times epsilon, twice that where rows come and go; rows of people, as many fewer as they may have."""
    return n * epsilon * (1 if neighbors == "replace" else 2) / ((people and people.rows_each) or 1)
