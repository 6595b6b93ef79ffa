"""Sums and means of vectors under differential privacy.

Everything published is a noisy sum of clipped rows: say what is known about a row (`Ball`, `Box`,
`Normal`, `Unknown`), state a budget, and get a `Release` from `sum`, `mean` or `describe`; `plan` makes the same
release's public numbers, and its forecast, without data.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import VERSION as __version__

if TYPE_CHECKING:
    from .api import describe, learn, mean, plan, replan, sum
    from .apps.audit import Audit, BitsAudit, audit, audit_bits
    from .apps.suggest_max_rows import RowsPerPerson, suggest_max_rows
    from .errors import AccuracyWarning, BudgetRefused, DataError, EllipsumError, UsageError
    from .formats import from_json, load
    from .friendly import FriendlyGate, NoCenter, friendly_mean, subsample_and_aggregate
    from .learning.result import Learned
    from .ledger import Ledger, LedgerWarning
    from .numerics.weighted_chisquare import WeightedChiSquare, tail_bound
    from .plans.group_plan import GroupPlan
    from .plans.plan import Plan
    from .privacy.budget import Budget, calibrate
    from .privacy.guarantee import Privacy, compose
    from .projection import (
        Projection,
        ProjectionPrivacy,
        ProjectionWarning,
        choose_k,
        project,
        projection_forecast,
    )
    from .releases.group_release import GroupDescription, GroupRelease
    from .releases.release import Release
    from .request.groups import Groups
    from .request.people import People
    from .rows import Ball, Box, Normal, Unknown
    from .sources.selection import csv
    from .sources.sql import sql

# Public name -> module: each is imported when first used, so that importing the package costs little.
_HOMES = {
    **dict.fromkeys(("Ball", "Box", "Normal", "Unknown"), "rows"),
    **dict.fromkeys(("Budget", "calibrate"), "privacy.budget"),
    **dict.fromkeys(("Privacy", "compose"), "privacy.guarantee"),
    **dict.fromkeys(("WeightedChiSquare", "tail_bound"), "numerics.weighted_chisquare"),
    "Plan": "plans.plan",
    "Groups": "request.groups",
    "People": "request.people",
    **dict.fromkeys(("from_json", "load"), "formats"),
    **dict.fromkeys(("Audit", "BitsAudit", "audit", "audit_bits"), "apps.audit"),
    **dict.fromkeys(("sum", "mean", "describe", "learn", "plan", "replan"), "api"),
    "csv": "sources.selection",
    "sql": "sources.sql",
    **dict.fromkeys(("RowsPerPerson", "suggest_max_rows"), "apps.suggest_max_rows"),
    "Release": "releases.release",
    "Learned": "learning.result",
    **dict.fromkeys(("Ledger", "LedgerWarning"), "ledger"),
    "GroupDescription": "releases.group_release",
    "GroupPlan": "plans.group_plan",
    "GroupRelease": "releases.group_release",
    **dict.fromkeys(("FriendlyGate", "NoCenter", "friendly_mean", "subsample_and_aggregate"), "friendly"),
    **dict.fromkeys(("Projection", "ProjectionPrivacy", "ProjectionWarning"), "projection"),
    **dict.fromkeys(("choose_k", "project", "projection_forecast"), "projection"),
    **dict.fromkeys(("AccuracyWarning", "BudgetRefused", "DataError", "EllipsumError", "UsageError"), "errors"),
}

__all__ = [
    "AccuracyWarning",
    "Audit",
    "Ball",
    "BitsAudit",
    "Box",
    "Budget",
    "BudgetRefused",
    "DataError",
    "EllipsumError",
    "FriendlyGate",
    "GroupDescription",
    "GroupPlan",
    "GroupRelease",
    "Groups",
    "Learned",
    "Ledger",
    "LedgerWarning",
    "NoCenter",
    "Normal",
    "People",
    "Plan",
    "Privacy",
    "Projection",
    "ProjectionPrivacy",
    "ProjectionWarning",
    "Release",
    "RowsPerPerson",
    "Unknown",
    "UsageError",
    "WeightedChiSquare",
    "__version__",
    "audit",
    "audit_bits",
    "calibrate",
    "choose_k",
    "compose",
    "csv",
    "describe",
    "friendly_mean",
    "from_json",
    "learn",
    "load",
    "mean",
    "plan",
    "project",
    "projection_forecast",
    "replan",
    "sql",
    "subsample_and_aggregate",
    "suggest_max_rows",
    "sum",
    "tail_bound",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ellipsum' has no attribute {name!r}")
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
