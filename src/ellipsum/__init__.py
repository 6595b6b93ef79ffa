"""Differentially private statistics of numeric tables.

Describe the values with bounds (a dict, `Box`, `Ball`, `Normal` or `Unknown`), pass a privacy budget, and get a
`Release` from `sum`, `mean`, `describe`, `quantiles`, `histogram` or `count`. `plan` computes the expected error of the
same release without data.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .suggestions import unknown_attribute
from .version import VERSION as __version__

if TYPE_CHECKING:
    from .api import count, describe, histogram, learn, mean, plan, prepare, quantiles, replan, sum
    from .apps.audit import Audit, BitsAudit, audit, audit_bits
    from .apps.suggest_max_rows import RowsPerPerson, suggest_max_rows
    from .errors import AccuracyWarning, BudgetRefused, DataError, EllipsumError, UsageError
    from .formats import from_json, load
    from .friendly import FriendlyGate, NoCenter, friendly_mean, subsample_and_aggregate
    from .ledger import Ledger, LedgerWarning
    from .numerics.weighted_chisquare import WeightedChiSquare, tail_bound
    from .plans.description_plan import DescriptionPlan
    from .plans.group_plan import GroupPlan
    from .plans.histogram_plan import HistogramPlan
    from .plans.plan import Plan
    from .plans.quantile_plan import QuantilePlan
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
    from .releases.description import Description
    from .releases.description_with_quantiles import DescriptionWithQuantiles
    from .releases.group_release import GroupDescription, GroupRelease
    from .releases.histogram_release import HistogramRelease
    from .releases.learned_bounds import Learned
    from .releases.quantile_release import QuantileRelease
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
    "DescriptionPlan": "plans.description_plan",
    "HistogramPlan": "plans.histogram_plan",
    "QuantilePlan": "plans.quantile_plan",
    "Groups": "request.groups",
    "People": "request.people",
    **dict.fromkeys(("from_json", "load"), "formats"),
    **dict.fromkeys(("Audit", "BitsAudit", "audit", "audit_bits"), "apps.audit"),
    **dict.fromkeys(("sum", "mean", "describe", "count", "histogram", "quantiles"), "api"),
    **dict.fromkeys(("learn", "plan", "prepare", "replan"), "api"),
    "csv": "sources.selection",
    "sql": "sources.sql",
    **dict.fromkeys(("RowsPerPerson", "suggest_max_rows"), "apps.suggest_max_rows"),
    "Release": "releases.release",
    "Description": "releases.description",
    "DescriptionWithQuantiles": "releases.description_with_quantiles",
    "HistogramRelease": "releases.histogram_release",
    "QuantileRelease": "releases.quantile_release",
    "Learned": "releases.learned_bounds",
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
    "Description",
    "DescriptionPlan",
    "DescriptionWithQuantiles",
    "EllipsumError",
    "FriendlyGate",
    "GroupDescription",
    "GroupPlan",
    "GroupRelease",
    "Groups",
    "HistogramPlan",
    "HistogramRelease",
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
    "QuantilePlan",
    "QuantileRelease",
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
    "count",
    "csv",
    "describe",
    "friendly_mean",
    "from_json",
    "histogram",
    "learn",
    "load",
    "mean",
    "plan",
    "prepare",
    "project",
    "projection_forecast",
    "quantiles",
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
        raise unknown_attribute("module 'ellipsum'", name)
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
