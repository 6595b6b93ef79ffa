"""Every public number of a friendly mean: budget shares, gate, sensitivity of the mean, noise, forecast.

With n rows, W the sum of their weights and r the radius (docs/proofs/friendly.md):
    gate:  G = W + noise of scale 3 / mu1,   L = min(n, G - margin) <= W but for probability `slack`   [F5]
    mean:  sum w_i x_i / W + N(0, (r k(L - 3) / (L mu2))^2 I)  if L >= floor, else no center            [F4]
For few columns the gate's noise is Laplace and the mean's spherical, each at a part of epsilon: less noise [F12].
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ..display.document import Document
from ..display.result import Printed
from ..errors import (
    MOST_COLUMNS,
    Floats,
    UsageError,
    choice,
    columns_of,
    names,
    non_negative,
    open_unit,
    positive,
    whole,
)
from ..noise.law import GaussianLaw, Law
from ..noise.spherical_law import BallLaw, ball_std
from ..numerics.rounding import round_down, sqrt_down
from ..privacy.budget import Budget, stated_from_dict
from ..privacy.guarantee import Privacy, fits
from ..regions.ellipsoid import Ellipsoid
from ..releases.noise_covariance import Noise
from ..request.people import People, people_from_dict, unit_of
from ..request.request import COUNT
from ..row_maps.grid import noise_units
from ..util import json_codec
from ..util.atomic_files import Saved
from ..util.structural_equality import Alike
from ..version import VERSION
from .core import RADIUS, RADIUS_BITS
from .forecast import FEWEST_ROWS, WEIGHT_SENSITIVITY, Steps, forecast, gate_margin, mean_sensitivity, pure_epsilon

_WRONG_PLAN = "the plan has missing, unknown or wrong fields. Make it anew."
_SOURCE = re.compile(
    r"(rows|people) \(a random subset of [0-9]{1,16}\)|blocks \(of a random subset of [0-9]{1,16} (rows|people)\)"
)
FORMAT = "ellipsum.friendly_plan/1"
GATES = ("gaussian", "laplace")
NOISE = ("auto", "gaussian", "norm")
SLACK_SHARE = 0.25
FLOOR = 0.25
TARGET = 0.75
_LEAST_NOISE = 2.0**-13  # grid units: keeps the noisy integers within two limbs, at 2^-35 of the radius
_SMALLEST_RADIUS, _LARGEST_RADIUS = 2.0**-900, 2.0**900
FINE_BITS = 20
"""Spherical noise is added to the mean on a grid this much finer than that of the rows [F12]."""
_LEAST_SCALE = 2.0**7  # on that grid


@dataclass(frozen=True, repr=False)
class FriendlyPlan(Printed, Alike, Saved):
    """One friendly mean, before the data.

    Guarantee: `privacy`, for one replaced row (or person, where its options name a privacy_id) [F5], [F7], [F8].
    """

    n: int
    """Vectors that the core is sought among: rows, or blocks."""
    d: int
    radius: float | None
    """None until a search has found it."""
    privacy: Privacy
    gate: str
    gate_mu: float
    mean_mu: float
    search_mu: float = 0.0
    radii: tuple[float, ...] = ()
    """What a search chooses from."""
    target: float = TARGET
    """The noisy agreement at which a search is content with a radius."""
    floor: float = FLOOR
    source: str = "rows"
    """What the vectors are: "rows", a public subset ("rows, a random n of 1000000"), or "blocks"."""
    columns: tuple[str, ...] | None = None
    stated: Mapping[str, float] = field(default_factory=dict)
    """The budget as the caller worded it."""
    people: People | None = None
    """Where rows are people: by which column, and what became of a person's rows."""
    epsilons: tuple[float, ...] = ()
    """Of pure noise: what gate, mean and search take of epsilon; their mu is 0 then [F12]."""

    statistic: ClassVar[str] = "mean"
    rows: ClassVar[None] = None  # nothing is known about a row but the radius
    riders: ClassVar[None] = None  # and nothing is counted beside it
    clamped: ClassVar[bool] = False
    doubt: ClassVar[None] = None

    def __post_init__(self) -> None:
        # A plan may come from a file: its shares are checked against its claim every time it is made.
        choice("gate", self.gate, GATES)
        self.privacy.check_unit(self.people is not None)
        self.privacy.check_stated(self.stated)
        if self.privacy.neighbors != "replace" or self.privacy.slack <= 0:
            raise UsageError("a friendly mean is private for neighbors='replace', with some slack.")
        self._check_shares()
        if self.n < FEWEST_ROWS or not 0 < self.floor < 1 or not 0 < self.target < 1:
            raise UsageError("this plan's n, floor or target is out of range. Make the plan anew.")
        names("columns", self.columns, self.d)
        for radius in self.radii if self.radius is None else (self.radius, *self.radii):
            checked_radius(radius)
        if self.radii and self.radius is not None and self.radius not in self.radii:
            raise UsageError("this plan's radius is not among those of its search. Make the plan anew.")

    def _check_shares(self) -> None:
        """Every step pays something, and all together no more than the guarantee has [P4]."""
        mus = self.gate_mu, self.mean_mu, self.search_mu
        if self.pure:
            valid = self.gate == "laplace" and not any(mus) and len(self.epsilons) == 3 and not self.privacy.mu
            if not valid:
                raise UsageError("this plan is neither pure nor Gaussian. Make the plan anew.")
        gate, mean, search = self.epsilons if self.pure else mus
        positive("gate_mu", gate)
        positive("mean_mu", mean)
        non_negative("search_mu", search)
        steps = [Privacy.of_pure(part) if self.pure else Privacy(part) for part in (gate, mean, search) if part]
        if not fits(replace(self.privacy, unit="row"), steps):
            raise UsageError("this plan spends more than its guarantee allows. Make the plan anew.")
        if bool(self.radii) != (search > 0) or (self.radius is None and not self.radii):
            raise UsageError("this plan's search has no radii, or its radii no search. Make the plan anew.")

    @property
    def neighbors(self) -> str:
        return self.privacy.neighbors

    @property
    def slack(self) -> float:
        return self.privacy.slack

    @property
    def pure(self) -> bool:
        """Whether gate and mean have pure noise, but for the slack of the gate [F12]."""
        return bool(self.epsilons)

    @property
    def gate_units(self) -> float:
        """Scale of the gate's noise, in units of 1/(n - 1): scale * (mu1 or epsilon1) >= 3 (n - 1) [F2]."""
        if self.pure:
            cost = self.epsilons[0]
        else:
            cost = pure_epsilon(self.gate_mu) if self.gate == "laplace" else self.gate_mu
        return noise_units(Fraction(WEIGHT_SENSITIVITY * (self.n - 1)), cost)

    @property
    def search_units(self) -> float:
        """Noise scale of each step of the search, which takes at most log2(radii) steps, rounded up [F8][F12]."""
        steps = max(1, (len(self.radii) - 1).bit_length())
        each = Fraction(self.epsilons[2]) / steps if self.pure else Fraction(0)
        cost = round_down(each) if self.pure else sqrt_down(Fraction(self.search_mu) ** 2 / steps)
        return noise_units(Fraction(WEIGHT_SENSITIVITY * (self.n - 1)), cost)

    @property
    def least_weight(self) -> Fraction:
        """The floor as a sum of weights; above 3, so that a neighbor's weights cannot vanish."""
        return max(Fraction(self.floor) * self.n, Fraction(FEWEST_ROWS))

    def weight_lower(self, noisy: Fraction) -> Fraction:
        """L of the gate, from a lower bound on the noisy sum of integer weights [F5]."""
        margin = Fraction(self.gate_units) * Fraction(gate_margin(self.gate, self.slack))
        return min(Fraction(self.n), (noisy - margin) / (self.n - 1))

    def mean_scale(self, lower: Fraction) -> float:
        """Scale of spherical noise on the finer grid, to whose points the mean is rounded [F12]."""
        moved = RADIUS * mean_sensitivity(lower, self.n) * (1 << FINE_BITS) + self.d
        return max(noise_units(moved, self.epsilons[1]), _LEAST_SCALE)

    def mean_units(self, lower: Fraction) -> float:
        """Noise std of the mean in grid units: std * mu2 >= its sensitivity in exact arithmetic [F4]."""
        if self.pure:
            return math.ldexp(self.mean_scale(lower) * ball_std(self.d), -FINE_BITS)
        return max(noise_units(RADIUS * mean_sensitivity(lower, self.n), self.mean_mu), _LEAST_NOISE)

    def noise_at(self, lower: Fraction) -> Noise:
        """The noise of a mean that passed the gate with this lower bound on the weights."""
        assert self.radius is not None
        return Noise(self.ellipsoid, math.ldexp(self.mean_units(lower), -RADIUS_BITS))

    @property
    def noise_law(self) -> Law:
        """The law of the mean's noise, of scale 1."""
        return BallLaw(1.0, self.d) if self.pure else GaussianLaw(1.0)

    @property
    def mechanism(self) -> str:
        return self.noise_law.kind

    @property
    def noise_base(self) -> tuple[Ellipsoid, float]:
        return self.ellipsoid, 1.0

    def multiples(self, level: float) -> Floats:
        """Half-widths of intervals, in stds of the noise."""
        return self.noise_law.multiples(self.d, level)

    @property
    def ellipsoid(self) -> Ellipsoid:
        assert self.radius is not None
        return Ellipsoid(np.zeros(self.d), np.full(self.d, 1 / self.radius))

    def pass_probability(self, agreement: float = 1.0) -> float:
        """How likely the gate passes when the weights sum to agreement * n."""
        from scipy.special import ndtr

        scale = self.gate_units / (self.n - 1)
        room = (agreement * self.n - float(self.least_weight)) / scale - gate_margin(self.gate, self.slack)
        if self.gate == "laplace":
            return 1 - math.exp(-room) / 2 if room > 0 else math.exp(room) / 2
        return float(ndtr(room))

    @cached_property
    def noise_std(self) -> Floats | None:
        """Forecast for rows that all agree (nine releases in ten have less); None before a search."""
        return None if self.radius is None else np.full(self.d, self.radius * self.forecast())

    def forecast(self, agreement: float = 1.0) -> float:
        """Noise std of each coordinate of the mean in radii; nine releases in ten have less."""
        scale = np.array([self.gate_units / (self.n - 1)])
        mean_mu = np.array([self.epsilons[1] / ball_std(self.d) if self.pure else self.mean_mu])
        return float(forecast(self.gate, agreement, self.n, self.slack, self.floor, scale, mean_mu)[0])

    @property
    def noise_error(self) -> float | None:
        std = self.noise_std
        return None if std is None else float(std @ std)

    def to_dict(self) -> dict[str, Any]:
        fields = {entry.name: getattr(self, entry.name) for entry in dataclass_fields(self) if entry.name != "people"}
        fields["privacy"] = self.privacy.to_dict()
        fields["columns"] = None if self.columns is None else list(self.columns)
        return {
            "format": FORMAT,
            "version": VERSION,
            **fields,
            "radii": list(self.radii),
            "epsilons": list(self.epsilons),
            "stated": dict(self.stated),
            "options": {} if self.people is None else self.people.to_dict(),
        }

    def to_json(self) -> str:
        return json_codec.dump(self.to_dict())

    @staticmethod
    def from_json(text: str) -> FriendlyPlan:
        return friendly_plan_from_dict(json_codec.parse(text))

    def forecast_svg(self, prefix: str) -> str | None:
        """Nothing is drawn of this plan."""
        return None

    def document(self, most: int | None = None) -> Document:
        from .documents import plan_document

        return plan_document(self, most)


@dataclass(frozen=True)
class FriendlyGate:
    """How a friendly average decides whether there is a core, and what the decision costs.

    law: of the gate's noise, "gaussian" or "laplace"; unless stated, the one that goes with the noise of the mean.
    slack: the gate's failure probability. A quarter of delta unless stated, or all of it beside pure noise; beside a
        budget stated as mu or rho it must be stated.
    share, search_share: what gate and search take of the budget, as shares of mu^2, or of epsilon. The gate's share is
        chosen for the least noise unless stated.
    target: the noisy agreement at which a search is content with a radius.
    floor: the least agreement worth a release.
    """

    law: str | None = None
    slack: float | None = None
    share: float | None = None
    search_share: float = 0.2
    target: float = TARGET
    floor: float = FLOOR

    def __post_init__(self) -> None:
        if self.law is not None:
            choice("law", self.law, GATES)
        if self.slack is not None:
            open_unit("slack", self.slack, "Pass a failure probability below delta.")
        if self.share is not None:
            open_unit("share", self.share, "Pass the gate's share of the budget, between 0 and 1.")
        open_unit("search_share", self.search_share)
        open_unit("target", self.target)
        open_unit("floor", self.floor, "Pass the least agreement worth a release, between 0 and 1.")


def friendly_plan(
    n: int,
    d: int,
    radius: float | tuple[float, ...],
    budget: Budget,
    gate: FriendlyGate | None = None,
    *,
    noise: str = "gaussian",
    source: str = "rows",
    columns: tuple[str, ...] | None = None,
    people: People | None = None,
) -> FriendlyPlan:
    """Every public number of a friendly mean, made without data.

    radius is a number, or the candidates of a private search, smallest first.
    noise: "gaussian"; "norm", pure but for the gate's failure; "auto", the one of less noise if all rows agree.
    """
    gate = gate or FriendlyGate()
    if not isinstance(gate, FriendlyGate):
        raise UsageError(f"gate must be a FriendlyGate, got {type(gate).__name__}.")
    radii = tuple(map(checked_radius, radius)) if isinstance(radius, tuple) else ()
    whole("n", n, FEWEST_ROWS, f"A friendly mean needs {FEWEST_ROWS} rows at the very least.")
    fields = {
        "n": n,
        "d": columns_of("d", d),
        "radius": checked_radius(radius) if not isinstance(radius, tuple) else None,
        "radii": radii,
        "target": gate.target,
        "floor": gate.floor,
        "source": source,
        "columns": columns,
        "stated": dict(budget.stated),
        "people": people,
    }
    plans, refused = [], None
    for make in _makers(choice("noise", noise, NOISE), gate, budget):
        try:
            plans.append(make(fields, budget, gate))
        except UsageError as error:
            refused = refused or error
    if not plans:
        assert refused is not None
        raise refused
    return min(plans, key=lambda plan: plan.forecast())


def _makers(noise: str, gate: FriendlyGate, budget: Budget) -> list[Callable[..., FriendlyPlan]]:
    """The ways to plan that may be chosen from, the Gaussian one first."""
    if noise == "norm" and gate.law == "gaussian":
        raise UsageError("noise='norm' has a Laplace gate. Leave the gate's law out, or use noise='gaussian'.")
    if noise == "norm" and budget.pair is None:
        raise UsageError("noise='norm' needs a budget stated as epsilon= and delta=: its law is not Gaussian.")
    both = budget.pair is not None and budget.largest_mu is not None
    if noise == "gaussian" or gate.law == "gaussian" or not both:
        return [_plan_gaussian]
    return [_plan_pure] if noise == "norm" else [_plan_gaussian, _plan_pure]


def _plan_gaussian(fields: dict[str, Any], budget: Budget, gate: FriendlyGate) -> FriendlyPlan:
    """Gaussian steps, each with a share of mu^2; the gate may be Laplace."""
    law = gate.law or "gaussian"
    mu, slack = _mu_and_slack(budget, gate.slack)
    search_mu, mean_mu = 0.0, mu
    if fields["radii"]:
        search_mu, mean_mu = (part.mu for part in Budget(mu=mu).split(gate.search_share, 1 - gate.search_share))
    share = _gate_share(Steps(law, fields["n"], slack, gate.floor, mean_mu), gate)
    gate_mu, mean_mu = (part.mu for part in Budget(mu=mean_mu).split(share, 1 - share))
    privacy = Privacy(mu, slack, "replace", unit_of(fields["people"]))
    return FriendlyPlan(**fields, privacy=privacy, gate=law, gate_mu=gate_mu, mean_mu=mean_mu, search_mu=search_mu)


def _plan_pure(fields: dict[str, Any], budget: Budget, gate: FriendlyGate) -> FriendlyPlan:
    """[F12] Pure steps, each with a part of epsilon; all of delta is the gate's, unless less was stated."""
    assert budget.pair is not None
    epsilon, delta = budget.pair
    slack = open_unit("slack", delta if gate.slack is None else gate.slack, "Pass a failure probability below delta.")
    if slack > delta:
        raise UsageError("slack must not exceed delta. Pass a smaller one, or leave it out.")
    search = round_down(Fraction(gate.search_share) * Fraction(epsilon)) if fields["radii"] else 0.0
    rest = Fraction(epsilon) - Fraction(search)
    steps = Steps("laplace", fields["n"], slack, gate.floor, float(rest), fields["d"])
    first = round_down(Fraction(_gate_share(steps, gate)) * rest)
    parts = first, round_down(rest - Fraction(first)), search
    privacy = Privacy(0.0, slack, "replace", unit_of(fields["people"]), (epsilon,))
    return FriendlyPlan(
        **fields, privacy=privacy, gate="laplace", gate_mu=0.0, mean_mu=0.0, search_mu=0.0, epsilons=parts
    )


def _gate_share(steps: Steps, gate: FriendlyGate) -> float:
    """The gate's share, as stated or as is best, where there are rows enough for it."""
    share = steps.best_share() if gate.share is None else gate.share
    steps.require_rows(share)
    return share


def checked_radius(radius: Any) -> float:
    """A radius whose grid doubles can hold."""
    number = positive("radius", radius, "State how far apart two typical rows are at most.")
    if not _SMALLEST_RADIUS <= number <= _LARGEST_RADIUS:
        raise UsageError(f"radius must lie between 1e-270 and 1e270, got {number}. Rescale the columns.")
    return number


def _mu_and_slack(budget: Budget, slack: float | None) -> tuple[float, float]:
    whole_mu, stated = budget.mu, dict(budget.stated)
    if "delta" in stated:
        slack = round_down(Fraction(SLACK_SHARE) * Fraction(stated["delta"])) if slack is None else slack
        slack = open_unit("slack", slack, "Pass a failure probability below delta.")
        return budget.after_slack(slack).mu, slack
    if slack is None:
        raise UsageError(
            "the gate may fail with some probability. Pass gate=FriendlyGate(slack=...) beside this budget."
        )
    return whole_mu, open_unit("slack", slack)


def require_replace(neighbors: str) -> None:
    choice("neighbors", neighbors, ("replace", "add_remove"))
    if neighbors != "replace":
        raise UsageError(
            "friendly averages are private for neighbors='replace' only: every weight depends on n. "
            "For a private n use es.mean with neighbors='add_remove'."
        )


def friendly_plan_from_dict(saved: Any) -> FriendlyPlan:
    """Inverse of `FriendlyPlan.to_dict`."""
    with json_codec.Fields(saved, _WRONG_PLAN) as fields:
        fields.check_format(FORMAT, f"not a plan of format {FORMAT}. It may come from another version of ellipsum.")
        plan = FriendlyPlan(
            n=fields.take("n", COUNT),
            d=fields.take("d", json_codec.integer(1, MOST_COLUMNS)),
            radius=fields.maybe("radius", json_codec.number),
            privacy=fields.take("privacy", Privacy.from_dict),
            gate=fields.take("gate", json_codec.word(*GATES)),
            gate_mu=fields.take("gate_mu", json_codec.number),
            mean_mu=fields.take("mean_mu", json_codec.number),
            search_mu=fields.take("search_mu", json_codec.number),
            radii=fields.take("radii", json_codec.list_of(json_codec.number)),
            target=fields.take("target", json_codec.number),
            floor=fields.take("floor", json_codec.number),
            source=fields.take("source", _source),
            columns=fields.maybe("columns", json_codec.names),
            stated=fields.take("stated", stated_from_dict),
            people=fields.take("options", people_from_dict, None),
            epsilons=fields.take("epsilons", json_codec.list_of(json_codec.number), ()),
        )
    return plan


def _source(value: Any) -> str:
    """What the vectors are: it is shown, so that it must be one of the library's own wordings."""
    source = json_codec.text(value)
    if source not in ("rows", "people", "blocks") and not _SOURCE.fullmatch(source):
        raise json_codec.Wrong
    return source
