"""How a budget is split between learning and the release, by public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import UsageError
from ..friendly.plan import require_replace
from ..noise.block_law import box_std
from ..plans.group_plan import gaussian_slack
from ..privacy.budget_split import mu_beside
from ..privacy.guarantee import Privacy
from ..request.people import unit_of
from ..request.request import Request
from ..rows import Unknown
from .constants import LEARNING_COST, MEDIAN_NORM, PURE_PENALTY, WIDTH

_FRIENDLY_SLACK = 0.1  # of delta, for the stability test of friendly_core


@dataclass(frozen=True)
class Split:
    """How a budget is split for n rows [L8][L12].

    privacy: the guarantee of everything. With mu, rounds are Gaussian and a pure epsilon beside it is for the release.
    share: of mu^2, or of epsilon where all is pure, for finding columns. is_box: whether columns are clamped, and not
    rows clipped by their norm. unit: noise std of the released sum for each unit of a column's width or a row's norm.
    clear_rows: rows per standard deviation of the noise of a histogram of all columns, for the whole budget.
    """

    privacy: Privacy
    share: float
    is_box: bool
    unit: float
    clear_rows: float


def learning_share(clear_rows: float) -> float:
    """The share lam that minimizes (1 + a / lam) / (1 - lam), a = LEARNING_COST / clear_rows [L12]."""
    cost = LEARNING_COST / max(clear_rows, 1e-300)
    return math.sqrt(cost * cost + cost) - cost


def split_budget(request: Request, n: float) -> Split:
    """The split with the smallest expected noise for n rows: Gaussian or pure rounds, Gaussian or pure release [L8]."""
    budget, d, later = request.budget, request.d, request.statistic == "learn"
    assert budget is not None
    assert d is not None
    slack = required_slack(request)
    each = (request.people and request.people.rows_each) or 1
    sides = 2 if request.neighbors == "replace" else 1

    def split(mu: float, pure: float, share: float, unit: float, clear_rows: float, is_box: bool = True) -> Split:
        pures = (pure,) if pure else ()
        privacy = Privacy(mu, slack, request.neighbors, unit_of(request.people), pures)
        return Split(privacy, share, is_box, unit * each * sides / 2, clear_rows)

    epsilon = budget.pair[0] if budget.pair else 0.0
    if budget.largest_mu is None or request.noise == "knorm":
        clear_rows = n * epsilon / (math.sqrt(2) * sides * d * each)
        share = learning_share(clear_rows)
        left = epsilon if later else (1 - share) * epsilon
        return split(0.0, epsilon, 1.0 if later else share, box_std(d) / left, clear_rows / PURE_PENALTY)
    mu = budget.after_slack(slack).mu
    clear_rows = n * mu / (math.sqrt(sides * d) * each)
    if not uses_box(request):
        share = learning_share(2 * clear_rows)  # a row's norm is divided among its columns: centers and units do
        return split(mu, 0.0, share, 1 / (mu * math.sqrt(1 - share)), clear_rows, is_box=False)
    share = learning_share(clear_rows)
    left = epsilon if later else (1 - share) * epsilon
    gaussian_unit = math.sqrt(d) / (mu if later else mu * math.sqrt(1 - share))
    pure_unit = box_std(d) / left if left and request.noise == "auto" and request.groups is None else math.inf
    if later:
        return split(mu, 0.0, 1.0, min(gaussian_unit, pure_unit), clear_rows)
    beside = mu_beside(left, *budget.pair) if budget.pair and pure_unit < gaussian_unit else None
    if beside is not None:
        return split(beside, left, 1.0, pure_unit, clear_rows)
    return split(mu, 0.0, share, gaussian_unit, clear_rows)


def uses_box(request: Request) -> bool:
    """Whether columns get bounds of their own [L8].

    The rule is public: it compares pure noise of a box of 5 spreads with Gaussian noise of a ball about most rows.
    """
    budget, d = request.budget, request.d
    assert isinstance(request.bounds, Unknown)
    assert budget is not None
    assert d is not None
    if request.bounds.method != "auto":
        return False
    if d == 1 or request.groups is not None or request.noise == "knorm" or budget.largest_mu is None:
        return True
    if request.noise == "gaussian" or budget.pair is None:
        return False
    return WIDTH * box_std(d) / budget.pair[0] < 2 * MEDIAN_NORM * math.sqrt(d) / budget.mu


def required_slack(request: Request) -> float:
    """The failure probability that is needed beside mu: for groups that are not listed, and for friendly_core."""
    budget, bounds = request.budget, request.bounds
    assert isinstance(bounds, Unknown)
    assert budget is not None
    if bounds.method != "friendly_core":
        return 0.0 if request.groups is None else gaussian_slack(request.groups, budget)
    require_replace(request.neighbors)
    delta = dict(budget.stated).get("delta")
    if not delta:
        raise UsageError("method='friendly_core' needs a failure probability. Pass the budget as epsilon= and delta=.")
    return _FRIENDLY_SLACK * delta
