"""Plans as JSON, and what a plan from a file must prove before it is one.

The noise, the count and the budget are checked by `Plan` itself; here, that the region and the forecast are those of
the rows that the plan names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from . import codec
from .errors import MOST_WHOLE, UsageError
from .plans import STATISTICS, WIDE_GRID_BITS, Plan
from .privacy import Privacy, stated_from_dict
from .rows import Ball, Box, Normal, rows_from_dict
from .shape import THIN, Ellipsoid, ball_distance, box_distance
from .version import VERSION

FORMAT = "ellipsum.plan/1"
_WRONG = "the plan has missing, unknown or wrong fields. Make it anew with es.plan."
_NEAR = 1e-6  # what rounding on another machine may change

COUNT = codec.integer(1, MOST_WHOLE)
PEOPLE: dict[str, codec.Kind[Any]] = {
    "privacy_id": codec.any_of(codec.text, codec.integer(-MOST_WHOLE, MOST_WHOLE)),
    "per_person": codec.word("mean", "sum"),
    "max_rows": COUNT,
}
_OPTIONS: dict[str, codec.Kind[Any]] = {
    "shape": codec.word("optimal", "closed_form", "ball"),
    "clip": codec.any_of(codec.word("optimal", "quantile"), codec.number),
    "clip_probability": codec.number,
    "weights": codec.any_of(codec.word("relative"), codec.list_of(codec.number)),
    "method": codec.text,
    **PEOPLE,
}


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    ellipsoid = plan.ellipsoid
    return {
        "format": FORMAT,
        "version": VERSION,
        "rows": plan.rows.to_dict(),
        "statistic": plan.statistic,
        "n": plan.n,
        "privacy": plan.privacy.to_dict(),
        "center": ellipsoid.center.tolist(),
        "scale": ellipsoid.scale.tolist(),
        "axes": None if ellipsoid.axes is None else ellipsoid.axes.tolist(),
        "grid_bits": plan.grid_bits,
        "count_units": plan.count_units,
        "noise_units": plan.noise_units,
        "clip_radius": plan.clip_radius,
        "sum_clipping_error": plan.sum_clipping_error,
        "center_spread": plan.center_spread,
        "columns": None if plan.columns is None else list(plan.columns),
        "stated": dict(plan.stated),
        "options": dict(plan.options),
    }


def plan_from_dict(found: Any) -> Plan:
    with codec.Fields(found, _WRONG) as fields:
        fields.check_format(FORMAT, f"not a plan of format {FORMAT}. It may come from another version of ellipsum.")
        plan = Plan(
            rows=fields.take("rows", rows_from_dict),
            statistic=fields.take("statistic", codec.word(*STATISTICS)),
            n=fields.maybe("n", COUNT),
            privacy=fields.take("privacy", Privacy.from_dict),
            ellipsoid=Ellipsoid(
                fields.take("center", codec.numbers),
                fields.take("scale", codec.numbers),
                fields.maybe("axes", codec.matrix),
            ),
            grid_bits=fields.take("grid_bits", codec.integer(1, WIDE_GRID_BITS)),
            count_units=fields.take("count_units", codec.integer(0, 1 << 80)),
            noise_units=fields.take("noise_units", codec.number),
            clip_radius=fields.maybe("clip_radius", codec.number),
            sum_clipping_error=fields.take("sum_clipping_error", codec.number),
            center_spread=fields.take("center_spread", codec.number),
            columns=fields.maybe("columns", codec.names),
            stated=fields.take("stated", stated_from_dict),
            options=fields.take("options", lambda found: options_from_dict(found, _OPTIONS)),
        )
    return _checked(plan)


def options_from_dict(found: Any, kinds: Mapping[str, codec.Kind[Any]] = PEOPLE) -> dict[str, Any]:
    """A plan's options: those of people, unless others are named."""
    with codec.Fields(found, _WRONG) as fields:
        taken = {name: fields.take(name, kinds[name]) for name in found if name in kinds}
    if taken.get("privacy_id") is None and set(taken) & set(PEOPLE):
        raise UsageError(_WRONG)
    return taken


def _checked(plan: Plan) -> Plan:
    """The plan, whose region and forecast are those of its rows."""
    if min(plan.sum_clipping_error, plan.center_spread, plan.clip_radius or 0.0) < 0:
        raise UsageError(_WRONG)
    if not plan.stated:  # the last round of learning: region and forecast follow from what was learned
        return plan
    rows = plan.rows.resolve(plan.d)
    if isinstance(rows, Ball):
        fits = _is_ball(plan, rows)
        spread = ball_distance(rows, plan.d)
    elif isinstance(rows, Box):
        fits = _holds_box(plan, rows)
        spread = box_distance(rows)
    elif isinstance(rows, Normal):
        from .shape_normal import normal_distance

        fits = _is_normal(plan, rows)
        spread = normal_distance(rows, plan.n)
    else:
        raise UsageError(_WRONG)
    if not fits:
        raise UsageError("the region or the forecast of this plan is not that of its rows. Make the plan anew.")
    return replace(plan, center_spread=spread)


def _is_ball(plan: Plan, rows: Ball) -> bool:
    ellipsoid = plan.ellipsoid
    return _unclipped(plan) and _close(ellipsoid.center, rows.center) and _close(ellipsoid.scale, 1 / rows.radius)


def _holds_box(plan: Plan, rows: Box) -> bool:
    """Whether the box lies in the ellipsoid, so that nothing of a stated row is clipped [E2]."""
    lower, upper = np.asarray(rows.lower, float), np.asarray(rows.upper, float)
    half, scale = (upper - lower) / 2, plan.ellipsoid.scale
    with np.errstate(over="ignore"):
        inside = float(np.sum((scale * half) ** 2)) <= 1 + _NEAR
    inside &= bool((scale[half > THIN * half.max()] > 0).all())
    return _unclipped(plan) and inside and _close(plan.ellipsoid.center, lower + half)


def _unclipped(plan: Plan) -> bool:
    return plan.clip_radius is None and plan.sum_clipping_error == 0 and plan.ellipsoid.axes is None


def _is_normal(plan: Plan, rows: Normal) -> bool:
    from .shape_normal import forecast_of

    ellipsoid = plan.ellipsoid
    if not _close(ellipsoid.center, rows.center) or not _are_axes(ellipsoid.axes, rows):
        return False
    found = forecast_of(rows, ellipsoid.scale, plan.n)
    if found is None or not _close(found.radius, plan.clip_radius or 0.0):
        return False
    noise = plan.scaled_std * plan.scaled_std * ellipsoid.trace
    return math.isclose(found.clipping_error, plan.sum_clipping_error, rel_tol=_NEAR, abs_tol=_NEAR * noise)


def _are_axes(axes: Any, rows: Normal) -> bool:
    """Whether the rows are uncorrelated along the axes, with the spreads that the covariance has."""
    if rows.cov is None or axes is None:
        return rows.cov is None and axes is None
    stds = rows.axes[0]
    if axes.shape != rows.cov.shape or not _close(axes.T @ axes, np.eye(len(axes)), _NEAR):
        return False
    largest = float(stds.max())
    cov = axes.T @ (rows.cov / largest) @ axes / largest
    return bool(np.abs(cov - np.diag((stds / largest) ** 2)).max() < _NEAR)


def _close(found: Any, wanted: Any, beside: float = 0.0) -> bool:
    return bool(np.allclose(found, wanted, rtol=_NEAR, atol=beside))
