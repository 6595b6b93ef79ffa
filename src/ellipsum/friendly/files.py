"""Friendly plans and results from files: what they show is checked against what follows from their own numbers."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

from .. import codec
from ..errors import MOST_COLUMNS, UsageError
from ..plan_files import COUNT, options_from_dict
from ..plans import Noise
from ..privacy import Privacy, stated_from_dict
from ..release import DENOISED, DOCTORED, WRONG, check_shown
from .plan import FORMAT, GATES, FriendlyPlan
from .release import NO_CENTRE_FORMAT, RELEASE_FORMAT, FriendlyRelease, NoCentre

_WRONG_PLAN = "the plan has missing, unknown or wrong fields. Make it anew."
_SOURCE = re.compile(
    r"(rows|people) \(a random subset of [0-9]{1,16}\)|blocks \(of a random subset of [0-9]{1,16} (rows|people)\)"
)
_NEAR = 1e-6


def friendly_plan_from_dict(found: Any) -> FriendlyPlan:
    """Inverse of `FriendlyPlan.to_dict`."""
    with codec.Fields(found, _WRONG_PLAN) as fields:
        fields.check_format(FORMAT, f"not a plan of format {FORMAT}. It may come from another version of ellipsum.")
        plan = FriendlyPlan(
            n=fields.take("n", COUNT),
            d=fields.take("d", codec.integer(1, MOST_COLUMNS)),
            radius=fields.maybe("radius", codec.number),
            privacy=fields.take("privacy", Privacy.from_dict),
            gate=fields.take("gate", codec.word(*GATES)),
            gate_mu=fields.take("gate_mu", codec.number),
            mean_mu=fields.take("mean_mu", codec.number),
            search_mu=fields.take("search_mu", codec.number),
            radii=fields.take("radii", codec.list_of(codec.number)),
            target=fields.take("target", codec.number),
            floor=fields.take("floor", codec.number),
            source=fields.take("source", _source),
            columns=fields.maybe("columns", codec.names),
            stated=fields.take("stated", stated_from_dict),
            options=fields.take("options", options_from_dict, {}),
        )
    return plan


def _source(value: Any) -> str:
    """What the vectors are: it is shown, so that it must be one of the library's own wordings."""
    found = codec.text(value)
    if found not in ("rows", "people", "blocks") and not _SOURCE.fullmatch(found):
        raise codec.Wrong
    return found


def friendly_release_from_dict(found: Any) -> FriendlyRelease:
    """Inverse of `FriendlyRelease.to_dict`."""
    other = f"not a release of format {RELEASE_FORMAT}. It may come from another version of ellipsum."
    with codec.Fields(found, WRONG) as fields:
        fields.check_format(RELEASE_FORMAT, other)
        plan, spent = fields.take("plan", friendly_plan_from_dict), fields.take("privacy", Privacy.from_dict)
        if plan.radius is None or spent != plan.privacy:
            raise UsageError(DOCTORED)
        lower = fields.take("weight_lower", codec.number)
        release = FriendlyRelease(
            value=fields.take("value", codec.numbers),
            plan=plan,  # type: ignore[arg-type]
            noise=Noise(plan.ellipsoid, fields.take("noise", _std)),
            secure=fields.take("secure", codec.flag),
            denoised=fields.maybe("denoised", codec.word(*DENOISED)),
            agreement=fields.take("agreement", codec.number),
            weight_lower=lower,
        )
        check_shown(release, fields)
    if not float(plan.least_weight) <= lower <= plan.n:
        raise UsageError(DOCTORED)
    if not math.isclose(release.noise.std, plan.noise_at(Fraction(lower)).std, rel_tol=_NEAR):
        raise UsageError(DOCTORED)
    return release


def _std(found: Any) -> float:
    with codec.Fields(found, WRONG) as fields:
        return fields.take("scaled_std", codec.number)


def no_centre_from_dict(found: Any) -> NoCentre:
    """Inverse of `NoCentre.to_json`."""
    with codec.Fields(found, "the result has missing, unknown or wrong fields.") as fields:
        fields.check_format(NO_CENTRE_FORMAT, f"not a result of format {NO_CENTRE_FORMAT}.")
        plan, spent = fields.take("plan", friendly_plan_from_dict), fields.take("privacy", Privacy.from_dict)
        if plan.radius is None or spent != plan.privacy:
            raise UsageError(DOCTORED)
        return NoCentre(plan, fields.take("agreement", codec.number), fields.take("secure", codec.flag))
