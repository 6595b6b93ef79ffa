"""FriendlyCore means: the mean of the rows that lie close to most other rows, for data with no known center.

A row's weight grows with the number of rows within `radius` of it. A stability test on the noisy sum of the weights
decides whether there is a mean, and how little noise it needs. Proofs: docs/proofs/friendly.md, [F1] to [F8], [F12].
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from ..display.checklist import BEFOREHAND
from ..display.document import Background, Document, Facts, Recipe
from ..display.recipe import call, people_arguments, script
from ..display.result import Shown
from ..display.wording import MECHANISMS, describe_guarantee, insecure_facts, people_facts
from ..errors import Floats, UsageError
from ..noise import Stream, add_laplace, add_noise_exact, ball_shift, shift_for
from ..numerics.wide_integers import Wide
from ..privacy.budget import Budget
from ..privacy.guarantee import Privacy
from ..releases.base import DOCTORED, read_release
from ..releases.decode import Counts, Noise
from ..releases.release import Release
from ..rows import Normal
from ..sources.protocol import Progress
from ..util import json_codec
from ..util.atomic_files import Kept, Saved
from ..util.structural_equality import ValueEquality
from ..version import VERSION
from .core import RADIUS_BITS, find_core
from .forecast import FriendlyGate, Radius, candidate_radii
from .plan import FINE_BITS, FriendlyPlan, friendly_plan

NO_CENTER_FORMAT = "ellipsum.no_center/2"
_WEIGHTED = (
    "Every row is weighted by the number of rows near it. A stability test on the noisy sum of the weights decides "
    "whether there is a mean, and how much noise it needs."
)
_TEST = "The noisy core fraction decided whether a mean is released, and is released itself."


@dataclass(frozen=True, repr=False)
class FriendlyRelease(Release):
    """A released FriendlyCore mean; `core_fraction` is the noisy sum of weights over n, 1 where all rows are close."""

    plan: FriendlyPlan  # type: ignore[assignment]
    core_fraction: float = math.nan
    weight_lower: float = math.nan
    """The test's lower bound on the sum of weights, which set the noise."""

    @property
    def raw_value(self) -> Floats:
        return self.noisy

    @cached_property
    def noise(self) -> Noise:
        return self.plan.noise_at(Fraction(self.weight_lower))

    @cached_property
    def counts(self) -> Counts | None:
        return None

    @property
    def row_count(self) -> float | None:
        return None

    @property
    def _widened_stds(self) -> Floats:
        return self.noise_std

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "core_fraction": self.core_fraction, "weight_lower": self.weight_lower}

    @classmethod
    def own_fields(cls, fields: json_codec.Fields, plan: Any) -> dict[str, Any]:
        own = {name: fields.take(name, json_codec.number) for name in ("core_fraction", "weight_lower")}
        return {**super().own_fields(fields, plan), **own}

    def check(self) -> None:
        """Raise an error if the noise does not follow from the test's bound on the weights."""
        plan = self.plan
        within = float(plan.least_weight) <= self.weight_lower <= plan.n
        if plan.radius is None or not within or self.noisy.shape != (plan.d,):
            raise UsageError(DOCTORED)

    def document(self, most: int | None = None) -> Document:
        base = super().document(most)
        title = f"Differentially private {self.plan.describe()}"
        return replace(base, title=title, facts=[*base.facts, *_core_facts(self)])

    def background(self) -> Background:
        cleaned = f"values were denoised by {self.denoised}" if self.denoised else ""
        return replace(_background(self), intervals=self.coverage, post_processing=cleaned, sheet=self.sheet())

    @staticmethod
    def from_json(text: str) -> FriendlyRelease:
        parsed = json_codec.parse(text)
        release: FriendlyRelease = read_release(parsed, FriendlyPlan.from_dict, lambda _: FriendlyRelease)
        return release


@dataclass(frozen=True, repr=False)
class NoCenter(ValueEquality, Kept, Saved, Shown):
    """Returned instead of a release when too few rows lie close together for a mean to be released.

    It evaluates to False, may be published, and costs as much privacy budget as a release.

    Parameters
    ----------
    plan : FriendlyPlan
        The plan that was run.
    core_fraction : float
        The noisy sum of weights over n; 1 where all rows lie close together.
    secure : bool
        Whether the noise was secret. False for releases with ``rng=``, for testing only.

    Notes
    -----
    Privacy proof: [F5]. The result satisfies ``result.privacy``.

    Examples
    --------
    >>> import numpy as np
    >>> import ellipsum as es
    >>> two_clusters = np.repeat([[0.0], [100.0]], 200, axis=0)
    >>> bool(es.friendly_mean(two_clusters, 1.0, epsilon=2, delta=1e-6))
    False
    """

    plan: FriendlyPlan
    core_fraction: float
    secure: bool

    @property
    def privacy(self) -> Privacy:
        """The spent guarantee, the same as for a release."""
        return self.plan.privacy

    @property
    def advice(self) -> str:
        return (
            "Use a larger radius, more rows or a larger budget. If no cluster of the rows holds well over half of "
            "them, no radius that separates the clusters has a center."
        )

    def __bool__(self) -> bool:
        return False

    def document(self, most: int | None = None) -> Document:
        plan = self.plan
        facts = [
            ("Privacy", describe_guarantee(plan.privacy, plan.stated)),
            *people_facts(plan.people),
            *_core_facts(self),
            *insecure_facts(self.secure),
        ]
        reason = f"too few {plan.what} lie within radius {plan.radius:.6g} of most others"
        return Document(f"NoCenter: no {plan.describe()}, since {reason}", [], facts, [self.advice])

    def background(self) -> Background:
        return _background(self)

    def to_json(self) -> str:
        fields = {"core_fraction": self.core_fraction, "secure": self.secure, "plan": self.plan.to_dict()}
        return json_codec.dump(
            {"format": NO_CENTER_FORMAT, "version": VERSION, "privacy": self.privacy.to_dict(), **fields}
        )

    @staticmethod
    def from_json(text: str) -> NoCenter:
        with json_codec.Fields(json_codec.parse(text), DOCTORED) as fields:
            fields.check_format(NO_CENTER_FORMAT, f"Not a result of format {NO_CENTER_FORMAT}.")
            plan, spent = fields.take("plan", FriendlyPlan.from_dict), fields.take("privacy", Privacy.from_dict)
            if plan.radius is None or spent != plan.privacy:
                raise UsageError(DOCTORED)
            core_fraction = fields.take("core_fraction", json_codec.number)
            return NoCenter(plan, core_fraction, fields.take("secure", json_codec.flag))


def _core_facts(result: FriendlyRelease | NoCenter) -> Facts:
    noisy = f"{result.core_fraction:.4g} (noisy; 1 if all {result.plan.what} lie close together)"
    return [("Core fraction", noisy), ("Radius", f"{result.plan.radius:.6g}")]


def _background(result: FriendlyRelease | NoCenter) -> Background:
    plan = result.plan
    origin = f"The caller chose it. {BEFOREHAND}"
    if plan.radii:
        origin = f"It was found privately among {len(plan.radii)} candidates, within the guarantee."
    return Background(
        privacy=result.privacy,
        stated=plan.stated,
        secure=result.secure,
        people=plan.people,
        origin=[f"No bounds are needed: the mean is of the rows within a radius of most others. {origin}"],
        mechanism=[_WEIGHTED, f"The mechanism is {MECHANISMS[plan.mechanism]}."],
        recipe=_recipe(plan),
        side_releases=[_TEST],
    )


def _recipe(plan: FriendlyPlan) -> Recipe:
    """The call that makes a friendly mean again, or evaluates a function on blocks again."""
    radius = repr((plan.radii[0], plan.radii[-1]) if plan.radii else plan.radius)
    noise = "gaussian" if plan.mechanism == "gaussian" else "knorm"
    gate = ["gate=es.FriendlyGate(law='laplace')"] if (plan.gate, noise) == ("laplace", "gaussian") else []
    stated = {name: repr(value) for name, value in plan.stated.items()} | {"noise": repr(noise)}
    stated |= {argument.name: argument.code for argument in people_arguments(plan.people)}
    if plan.vectors.function:
        own = {"blocks": repr(plan.n), "radius": radius}
        code = call("subsample_and_aggregate", ["function", "data", *gate], own | stated)
    else:
        code = call("friendly_mean", ["data", radius, *gate], stated)
    return Recipe(script([f"release = {code}"]))


def read_friendly(text: str) -> FriendlyRelease | NoCenter:
    """The result of a FriendlyCore mean, from its JSON."""
    is_none = json_codec.parse(text).get("format") == NO_CENTER_FORMAT
    return NoCenter.from_json(text) if is_none else FriendlyRelease.from_json(text)


def run_friendly(
    plan: FriendlyPlan,
    rows: Floats,
    stream: Stream,
    threads: int | None = None,
    progress: Progress | None = None,
) -> FriendlyRelease | NoCenter:
    """Run a plan on vectors in memory: search (if planned), weights, stability test, mean, noise.

    Guarantee: `plan.privacy`, for one replaced vector [F5], [F8].
    """
    if rows.shape != (plan.n, plan.d):
        raise UsageError(f"The plan is for {plan.n} vectors of length {plan.d}, got shape {rows.shape}.")
    if plan.radius is None:
        plan = replace(plan, radius=_search(plan, rows, stream, threads))
    assert plan.radius is not None
    core = find_core(rows, plan.radius, threads, progress)
    value, lowest = _add_noise(core.weight, plan.gate_units, plan.gate, stream)
    lower = plan.weight_lower(lowest)
    core_fraction = float(value / (plan.n * (plan.n - 1)))
    # [F5] A weight of 0 passes only with the failure probability, and has no mean.
    if lower < plan.least_weight or core.weight == 0:
        return NoCenter(plan, core_fraction, stream.secure)
    mean = np.ldexp(_noisy_mean(plan, core.mean(), lower, stream), -RADIUS_BITS) * plan.radius
    return FriendlyRelease(plan, mean, stream.secure, core_fraction=core_fraction, weight_lower=float(lower))


def _noisy_mean(plan: FriendlyPlan, mean: list[Fraction], lower: Fraction, stream: Stream) -> Floats:
    """The mean in grid units, with the noise for this lower bound on the weights [F5][F12]."""
    if not plan.pure:
        std = plan.mean_units(lower)
        shift = shift_for(std)
        return np.asarray(np.ldexp(add_noise_exact(mean, std, shift, stream, stream.next).to_float(), shift))
    from ..noise.vectors import add_ball_noise  # It compiles when imported.

    fine = Wide.from_ints(round(value * (1 << FINE_BITS)) for value in mean)
    scale = plan.mean_scale(lower)
    noisy = add_ball_noise(fine, scale, stream, stream.next).to_float()
    return np.asarray(np.ldexp(noisy, ball_shift(scale, plan.d) - FINE_BITS))


def _add_noise(weight: int, scale: float, law: str, stream: Stream) -> tuple[Fraction, Fraction]:
    """The noisy sum of integer weights, correctly rounded, and a lower bound on it before rounding."""
    shift = shift_for(scale)
    if law == "laplace":
        rounded = add_laplace(weight, scale, shift, stream)
    else:
        rounded = add_noise_exact([weight], scale, shift, stream, stream.next)[0]
    unit = Fraction(2) ** shift
    return rounded * unit, (rounded - Fraction(1, 2)) * unit


def _search(plan: FriendlyPlan, rows: Floats, stream: Stream, threads: int | None) -> float:
    """Binary search for the smallest radius whose noisy sum of weights reaches the target [F8]."""

    def reaches_target(index: int) -> bool:
        core = find_core(rows, plan.radii[index], threads)
        value, _ = _add_noise(core.weight, plan.search_units, "laplace" if plan.pure else "gaussian", stream)
        return value >= Fraction(plan.target) * plan.n * (plan.n - 1)

    return plan.radii[bisect_left(range(len(plan.radii) - 1), True, key=reaches_target)]


def friendly_center(
    rows: Floats,
    radius: Radius | Normal,
    *,
    mu: float,
    slack: float,
    stream: Stream,
) -> FriendlyRelease | NoCenter:
    """A coarse center of rows in memory, as one step of a longer schedule that is charged (mu, slack).

    Guarantee: Privacy(mu, slack, "replace") [F5]; noise is taken from the next positions of the stream.
    """
    radii = candidate_radii(radius, rows.shape[1])
    plan = friendly_plan(len(rows), rows.shape[1], radii, Budget(mu=mu), FriendlyGate(slack=slack))
    return run_friendly(plan, rows, stream)
