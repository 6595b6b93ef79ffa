"""Plans as JSON, and what a plan from a file must prove before it is one.

The noise, the count and the budget are checked by `Plan` itself; here, that the region and the forecast are those of
the rows that the plan names.
"""

from __future__ import annotations

from typing import Any

from ..errors import UsageError
from ..noise.block_law import BoxLaw
from ..noise.law import Law
from ..noise.spherical_law import BallLaw
from ..privacy.spherical_curve import guarantee_from_dict
from ..regions.ellipsoid import Clip, Ellipsoid
from ..request.request import request_from_dict
from ..row_maps.auxiliary_counts import riders_from_dict
from ..row_maps.grid import WIDE_GRID_BITS
from ..util import json_codec
from ..version import VERSION

FORMAT = "ellipsum.plan/3"
_WRONG = "the plan has missing, unknown or wrong fields. Create a new plan with es.plan."
_WRONG_LAW = "the law of this plan's noise has missing, unknown or wrong fields. Create a new plan."


def _law_from_dict(saved: Any) -> Law:
    """`Plan` checks whether the law gives its guarantee. Gaussian noise is a plan's `noise_units`."""
    with json_codec.Fields(saved, _WRONG_LAW) as fields:
        if fields.take("kind", json_codec.word(BallLaw.kind, BoxLaw.kind)) == BallLaw.kind:
            return BallLaw.from_fields(fields)
        return BoxLaw.from_fields(fields)


def plan_to_dict(plan: Any) -> dict[str, Any]:
    ellipsoid = plan.ellipsoid
    return {
        "format": FORMAT,
        "version": VERSION,
        "request": plan.request.to_dict(),
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
        "riders": plan.riders.to_dict(),
        "law": None if plan.law is None else plan.law.to_dict(),
    }


def plan_fields(saved: Any) -> dict[str, Any]:
    """The fields of a plan from a file, each of its own kind."""
    with json_codec.Fields(saved, _WRONG) as fields:
        other = f"not a plan of format {FORMAT}. It may come from another version of ellipsum."
        fields.check_format(FORMAT, other)
        return {
            "request": fields.take("request", request_from_dict),
            "privacy": fields.take("privacy", guarantee_from_dict),
            "ellipsoid": Ellipsoid(
                fields.take("center", json_codec.numbers),
                fields.take("scale", json_codec.numbers),
                fields.maybe("axes", json_codec.matrix),
            ),
            "grid_bits": fields.take("grid_bits", json_codec.integer(1, WIDE_GRID_BITS)),
            "count_units": fields.take("count_units", json_codec.integer(0, 1 << 80)),
            "noise_units": fields.take("noise_units", json_codec.number),
            "clip_radius": fields.maybe("clip_radius", json_codec.number),
            "sum_clipping_error": fields.take("sum_clipping_error", json_codec.number),
            "center_spread": fields.take("center_spread", json_codec.number),
            "riders": fields.take("riders", riders_from_dict),
            "law": fields.maybe("law", _law_from_dict),
        }


def checked_spread(plan: Any) -> float:
    """The spread of a plan's center, whose region and forecast must be those of its rows."""
    if min(plan.sum_clipping_error, plan.center_spread, plan.clip_radius or 0.0) < 0:
        raise UsageError(_WRONG)
    if not plan.stated:  # the plan of one group, which is checked with its groups
        return float(plan.center_spread)
    if plan.rows.kind == "unknown":
        raise UsageError(_WRONG)
    rows = plan.rows.resolve(plan.d)
    region = Clip(plan.ellipsoid, plan.clip_radius, plan.sum_clipping_error, plan.center_spread, plan.riders.pull)
    if not rows.fits(region, plan.n, plan.noise_base[1] ** 2 * plan.noise_base[0].trace):
        raise UsageError("the region or the forecast of this plan is not that of its rows. Make the plan anew.")
    return float(rows.distance(plan.d, plan.n))
