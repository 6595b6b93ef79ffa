"""Plans as JSON, and what a plan from a file must prove before it is one.

The noise, the count and the budget are checked by `Plan` itself; here, that the region and the forecast are those of
the rows that the plan names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import MOST_WHOLE, UsageError
from ..noise.block_law import BoxLaw
from ..noise.law import Law
from ..noise.spherical_law import BallLaw
from ..privacy.budget import stated_from_dict
from ..privacy.spherical_curve import guarantee_from_dict
from ..regions.ellipsoid import Clip, Ellipsoid
from ..request.missing import WORDS
from ..request.people import WAYS, People
from ..row_maps.auxiliary_counts import PLAIN, riders_from_dict
from ..row_maps.grid import WIDE_GRID_BITS
from ..rows import rows_from_dict
from ..util import json_codec
from ..version import VERSION

FORMAT, FORMAT_1 = "ellipsum.plan/2", "ellipsum.plan/1"
STATISTICS = ("sum", "mean", "describe")
_WRONG_LAW = "the law of this plan's noise has missing, unknown or wrong fields. Make the plan anew."
_WRONG = "the plan has missing, unknown or wrong fields. Make it anew with es.plan."

MISSING = json_codec.any_of(json_codec.word(*WORDS), json_codec.number, json_codec.list_of(json_codec.number))
COUNT = json_codec.integer(1, MOST_WHOLE)
PEOPLE: dict[str, json_codec.Kind[Any]] = {
    "privacy_id": json_codec.any_of(json_codec.text, json_codec.integer(-MOST_WHOLE, MOST_WHOLE)),
    "per_person": json_codec.word(*WAYS),
    "max_rows": COUNT,
}
_OPTIONS: dict[str, json_codec.Kind[Any]] = {
    "shape": json_codec.word("optimal", "closed_form", "ball"),
    "clip": json_codec.any_of(json_codec.word("optimal", "quantile"), json_codec.number),
    "clip_probability": json_codec.number,
    "weights": json_codec.any_of(json_codec.word("relative", "equal"), json_codec.list_of(json_codec.number)),
    "missing": MISSING,
    "check": json_codec.flag,
    "noise": json_codec.word("auto", "gaussian", "norm"),
    "method": json_codec.text,
    **PEOPLE,
}


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
        "options": {**plan.options, **({} if plan.people is None else plan.people.to_dict())},
        "riders": plan.riders.to_dict(),
        "clamped": plan.clamped,
        "law": None if plan.law is None else plan.law.to_dict(),
    }


def plan_fields(saved: Any) -> dict[str, Any]:
    """The fields of a plan from a file, each of its own kind.

    A plan of format 1 runs by its own rules: rows are clipped by their norm, and a missing entry is the center's.
    """
    with json_codec.Fields(saved, _WRONG) as fields:
        first = isinstance(saved, Mapping) and saved.get("format") == FORMAT_1
        other = f"not a plan of format {FORMAT}. It may come from another version of ellipsum."
        fields.check_format(FORMAT_1 if first else FORMAT, other)
        options = fields.take("options", lambda taken: options_from_dict(taken, _OPTIONS))
        return {
            "rows": fields.take("rows", rows_from_dict),
            "statistic": fields.take("statistic", json_codec.word(*STATISTICS)),
            "n": fields.maybe("n", COUNT),
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
            "columns": fields.maybe("columns", json_codec.names),
            "stated": fields.take("stated", stated_from_dict),
            "options": {**({"missing": "center"} if first else {}), **_without_people(options)},
            "people": People.of_options(options),
            "riders": PLAIN if first else fields.take("riders", riders_from_dict),
            "clamped": False if first else fields.take("clamped", json_codec.flag),
            "law": None if first else fields.maybe("law", _law_from_dict),
        }


def _without_people(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in PEOPLE}


def people_from_dict(saved: Any) -> People | None:
    """The people that a plan's options speak of; other options are refused."""
    return People.of_options(options_from_dict(saved))


def options_from_dict(saved: Any, kinds: Mapping[str, json_codec.Kind[Any]] = PEOPLE) -> dict[str, Any]:
    """A plan's options: those of people, unless others are named."""
    with json_codec.Fields(saved, _WRONG) as fields:
        taken = {name: fields.take(name, kinds[name]) for name in saved if name in kinds}
    if taken.get("privacy_id") is None and set(taken) & set(PEOPLE):
        raise UsageError(_WRONG)
    return taken


def checked_spread(plan: Any) -> float:
    """The spread of a plan's center, whose region and forecast must be those of its rows."""
    if min(plan.sum_clipping_error, plan.center_spread, plan.clip_radius or 0.0) < 0:
        raise UsageError(_WRONG)
    if not plan.stated:  # the last round of learning: region and forecast follow from what was learned
        return float(plan.center_spread)
    if plan.rows.kind == "unknown":
        raise UsageError(_WRONG)
    rows = plan.rows.resolve(plan.d)
    if plan.clamped and not rows.clamps:
        raise UsageError(_WRONG)
    region = Clip(plan.ellipsoid, plan.clip_radius, plan.sum_clipping_error, plan.center_spread, plan.riders.pull)
    if not rows.fits(region, plan.n, plan.noise_base[1] ** 2 * plan.noise_base[0].trace):
        raise UsageError("the region or the forecast of this plan is not that of its rows. Make the plan anew.")
    return float(rows.distance(plan.d, plan.n))
