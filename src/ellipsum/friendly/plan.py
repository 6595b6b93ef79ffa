"""Every public number of a FriendlyCore mean: budget shares, stability test, noise, forecast.

With n rows, W the sum of their weights and r the radius (docs/proofs/friendly.md):
    test:  G = W + noise of scale 3 / mu1,   L = min(n, G - margin) <= W except with probability `slack`   [F5]
    mean:  sum w_i x_i / W + N(0, (r k(L - 3) / (L mu2))^2 I)  if L >= floor, otherwise no mean            [F4]
For few columns the test's noise is Laplace and the mean's spherical, each with a part of epsilon: less noise [F12].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ..display.document import Document
from ..display.result import Printed
from ..display.wording import MECHANISMS, describe_guarantee, many, people_facts
from ..errors import MOST_COLUMNS, Floats, UsageError, choice, columns_of, names, open_unit, positive, shown, whole
from ..noise.law import GaussianLaw, NoiseLaw, SphericalLaw, ball_std
from ..numerics.rounding import round_down, sqrt_down
from ..privacy.budget import Budget, stated_from_dict
from ..privacy.guarantee import Privacy, fits
from ..regions.ellipsoid import Ellipsoid
from ..releases.noise_covariance import Noise
from ..request.people import People, people_from_dict, unit_of
from ..request.request import COUNT
from ..row_maps.maps import noise_units
from ..util import json_codec
from ..util.atomic_files import Saved
from ..util.structural_equality import ValueEquality
from ..version import VERSION
from .core import RADIUS, RADIUS_BITS
from .forecast import FEWEST_ROWS, WEIGHT_SENSITIVITY, Steps, gate_margin, mean_sensitivity, pure_epsilon

FORMAT = "ellipsum.friendly_plan/2"
_WRONG = "Invalid plan file: a field is missing, unknown or wrong. Create a new plan."
GATES = ("gaussian", "laplace")
NOISE = ("auto", "gaussian", "knorm")
_SLACK_SHARE = 0.25
_LEAST_NOISE = 2.0**-13  # Grid units: keeps the noisy integers within two limbs, at 2^-35 of the radius.
_SMALLEST_RADIUS, _LARGEST_RADIUS = 2.0**-900, 2.0**900
FINE_BITS = 20
"""Spherical noise is added to the mean on a grid this much finer than that of the rows [F12]."""
_LEAST_SCALE = 2.0**7  # On that grid.


@dataclass(frozen=True)
class FriendlyGate:
    """Options of the stability test of a FriendlyCore mean, and of the search for its radius.

    The test adds noise to the sum of the rows' weights and compares it with a floor. It decides whether a mean is
    released, and how little noise the mean needs.

    Parameters
    ----------
    law : {"gaussian", "laplace"}, optional
        Noise of the test. By default it goes with the noise of the mean.
    slack : float, optional
        Failure probability of the test, a part of delta. By default a quarter of delta, or all of it beside K-norm
        noise. Required where the budget is in mu or rho.
    share : float, optional
        The test's share of the budget, of mu squared or of epsilon. By default the share with the least noise.
    search_share : float, default 0.2
        The share that a search for the radius takes of the budget.
    target : float, default 0.75
        The noisy core fraction at which a search accepts a radius.
    floor : float, default 0.25
        The least core fraction at which a mean is released.

    Raises
    ------
    UsageError
        If an option is outside its range.

    Notes
    -----
    Privacy proof: [F5], [F6], [F8].

    Examples
    --------
    >>> import numpy as np
    >>> import ellipsum as es
    >>> gate = es.FriendlyGate(floor=0.5)
    >>> bool(es.friendly_mean(np.zeros((300, 2)), 1.0, epsilon=2, delta=1e-6, gate=gate))
    True
    """

    law: str | None = None
    slack: float | None = None
    share: float | None = None
    search_share: float = 0.2
    target: float = 0.75
    floor: float = 0.25

    def __post_init__(self) -> None:
        if self.law is not None:
            choice("law", self.law, GATES)
        if self.slack is not None:
            open_unit("slack", self.slack, "Pass a failure probability below delta.")
        if self.share is not None:
            open_unit("share", self.share, "Pass the test's share of the budget, between 0 and 1.")
        open_unit("search_share", self.search_share)
        open_unit("target", self.target)
        open_unit("floor", self.floor, "Pass the least core fraction for a release, between 0 and 1.")


_USUAL_GATE = FriendlyGate()


@dataclass(frozen=True)
class VectorSource:
    """What the core is found among: rows or people, all or a random subset, or a function's results on blocks of them.

    function: the name of the function; empty where the vectors are the rows themselves.
    """

    used: int
    total: int
    unit: str = "rows"
    function: str = ""

    def describe(self) -> str:
        """How many rows or people are used."""
        if self.used == self.total:
            return f"{self.total:,} {self.unit}"
        return f"a random subset of {self.used:,} of {self.total:,} {self.unit}"

    @staticmethod
    def from_dict(saved: object) -> VectorSource:
        with json_codec.Fields(saved, _WRONG) as fields:
            return VectorSource(
                fields.take("used", COUNT),
                fields.take("total", COUNT),
                fields.take("unit", json_codec.word("rows", "people")),
                fields.take("function", json_codec.text),
            )


@dataclass(frozen=True, repr=False)
class FriendlyPlan(Printed, ValueEquality, Saved):
    """One FriendlyCore mean, before the data.

    Guarantee: `privacy`, for one replaced row (or person, where `people` is set) [F5], [F7], [F8].
    """

    n: int
    """The number of vectors: rows, or blocks."""
    d: int
    radius: float | None
    """None until a search has found it."""
    privacy: Privacy
    gate: str
    shares: tuple[float, float, float]
    """What test, mean and search take: of Gaussian noise mu each, of pure noise a part of epsilon each [F12]."""
    vectors: VectorSource
    radii: tuple[float, ...] = ()
    """What a search chooses from."""
    target: float = _USUAL_GATE.target
    floor: float = _USUAL_GATE.floor
    columns: tuple[str, ...] | None = None
    stated: Mapping[str, float] = field(default_factory=dict)
    """The requested budget."""
    people: People | None = None

    statistic: ClassVar[str] = "mean"
    neighbors: ClassVar[str] = "replace"
    rows: ClassVar[None] = None  # Only the radius is known about a row,
    auxiliary: ClassVar[None] = None  # and nothing is counted beside it.
    clamped: ClassVar[bool] = False
    warning: ClassVar[None] = None

    def __post_init__(self) -> None:
        # A plan may come from a file, so its shares are checked against its guarantee each time.
        choice("gate", self.gate, GATES)
        self.privacy.check_unit(self.people is not None)
        self.privacy.check_stated(self.stated)
        if self.privacy.neighbors != "replace" or self.privacy.slack <= 0:
            raise UsageError("A FriendlyCore mean needs neighbors='replace' and a failure probability above 0.")
        self._check_shares()
        in_range = self.n >= FEWEST_ROWS and 0 < self.floor < 1 and 0 < self.target < 1
        sizes_fit = self.vectors.used <= self.vectors.total and self.n <= self.vectors.used
        if not in_range or not sizes_fit or (not self.vectors.function and self.n != self.vectors.used):
            raise UsageError("Invalid plan: n, floor or target is out of range. Create a new plan.")
        names("columns", self.columns, self.d)
        for radius in self.radii if self.radius is None else (self.radius, *self.radii):
            checked_radius(radius)
        if self.radii and self.radius is not None and self.radius not in self.radii:
            raise UsageError("Invalid plan: the radius is not one of those of the search. Create a new plan.")

    def _check_shares(self) -> None:
        """Every step spends something, and all together no more than the guarantee [P4]."""
        gate, mean, search = self.shares
        valid = gate > 0 and mean > 0 and search >= 0 and not (self.pure and self.gate != "laplace")
        if not valid or not all(map(math.isfinite, self.shares)):
            raise UsageError("Invalid plan: a share of the budget is out of range. Create a new plan.")
        steps = [Privacy.of_pure(part) if self.pure else Privacy(part) for part in self.shares if part]
        if not fits(replace(self.privacy, unit="row"), steps):
            raise UsageError("Invalid plan: it spends more than its guarantee allows. Create a new plan.")
        if bool(self.radii) != (search > 0) or (self.radius is None and not self.radii):
            raise UsageError("Invalid plan: a search needs both radii and a share of the budget. Create a new plan.")

    @property
    def slack(self) -> float:
        return self.privacy.slack

    @property
    def pure(self) -> bool:
        """Whether all noise is pure, so that delta is only the failure probability of the test [F12]."""
        return bool(self.privacy.pure)

    @property
    def gate_units(self) -> float:
        """Scale of the test's noise, in units of 1/(n - 1): scale * (mu1 or epsilon1) >= 3 (n - 1) [F2]."""
        needs_epsilon = self.gate == "laplace" and not self.pure
        cost = pure_epsilon(self.shares[0]) if needs_epsilon else self.shares[0]
        return noise_units(Fraction(WEIGHT_SENSITIVITY * (self.n - 1)), cost)

    @property
    def search_units(self) -> float:
        """Noise scale of each step of the search, which takes at most log2(radii) steps, rounded up [F8][F12]."""
        steps = max(1, (len(self.radii) - 1).bit_length())
        search = Fraction(self.shares[2])
        cost = round_down(search / steps) if self.pure else sqrt_down(search**2 / steps)
        return noise_units(Fraction(WEIGHT_SENSITIVITY * (self.n - 1)), cost)

    @property
    def least_weight(self) -> Fraction:
        """The floor as a sum of weights; above 3, so that a neighbor's weights cannot vanish."""
        return max(Fraction(self.floor) * self.n, Fraction(FEWEST_ROWS))

    def weight_lower(self, noisy: Fraction) -> Fraction:
        """L of the test, from a lower bound on the noisy sum of integer weights [F5]."""
        margin = Fraction(self.gate_units) * Fraction(gate_margin(self.gate, self.slack))
        return min(Fraction(self.n), (noisy - margin) / (self.n - 1))

    def mean_scale(self, lower: Fraction) -> float:
        """Scale of spherical noise on the finer grid, to whose points the mean is rounded [F12]."""
        moved = RADIUS * mean_sensitivity(lower, self.n) * (1 << FINE_BITS) + self.d
        return max(noise_units(moved, self.shares[1]), _LEAST_SCALE)

    def mean_units(self, lower: Fraction) -> float:
        """Noise std of the mean in grid units: std * mu2 >= its sensitivity in exact arithmetic [F4]."""
        if self.pure:
            return math.ldexp(self.mean_scale(lower) * ball_std(self.d), -FINE_BITS)
        return max(noise_units(RADIUS * mean_sensitivity(lower, self.n), self.shares[1]), _LEAST_NOISE)

    def noise_at(self, lower: Fraction) -> Noise:
        """The noise of a mean that passed the test with this lower bound on the weights."""
        return Noise(self.ellipsoid, math.ldexp(self.mean_units(lower), -RADIUS_BITS))

    @property
    def noise_law(self) -> NoiseLaw:
        """The distribution of the mean's noise, of scale 1."""
        return SphericalLaw(1.0, self.d) if self.pure else GaussianLaw(1.0)

    @property
    def mechanism(self) -> str:
        return self.noise_law.kind

    @property
    def noise_base(self) -> tuple[Ellipsoid, float]:
        return self.ellipsoid, 1.0

    def multiples(self, level: float) -> Floats:
        """Half-widths of intervals, in standard deviations of the noise."""
        return self.noise_law.multiples(self.d, level)

    @property
    def ellipsoid(self) -> Ellipsoid:
        assert self.radius is not None
        return Ellipsoid(np.zeros(self.d), np.full(self.d, 1 / self.radius))

    def pass_probability(self, core_fraction: float = 1.0) -> float:
        """The probability that the test passes when the weights sum to core_fraction * n."""
        from scipy.special import ndtr

        scale = self.gate_units / (self.n - 1)
        margin = (core_fraction * self.n - float(self.least_weight)) / scale - gate_margin(self.gate, self.slack)
        if self.gate == "laplace":
            return 1 - math.exp(-margin) / 2 if margin > 0 else math.exp(margin) / 2
        return float(ndtr(margin))

    @cached_property
    def noise_std(self) -> Floats | None:
        """Forecast if all rows lie close together (nine releases in ten have less); None before a search."""
        return None if self.radius is None else np.full(self.d, self.radius * self.forecast())

    def forecast(self, core_fraction: float = 1.0) -> float:
        """Noise std of each coordinate of the mean in radii; nine releases in ten have less."""
        std = (ball_std(self.d) if self.pure else 1.0) / self.shares[1]
        steps = Steps(self.gate, self.n, self.slack, self.floor, 1.0)
        return steps.expected_noise(self.gate_units / (self.n - 1), std, core_fraction)

    def to_dict(self) -> dict[str, Any]:
        fields = {entry.name: getattr(self, entry.name) for entry in dataclass_fields(self)}
        return {
            "format": FORMAT,
            "version": VERSION,
            **fields,
            "privacy": self.privacy.to_dict(),
            "vectors": vars(self.vectors),
            "stated": dict(self.stated),
            "people": {} if self.people is None else self.people.to_dict(),
        }

    def to_json(self) -> str:
        return json_codec.dump(self.to_dict())

    @staticmethod
    def from_dict(saved: object) -> FriendlyPlan:
        """Inverse of `to_dict`."""
        number, numbers = json_codec.number, json_codec.list_of(json_codec.number)
        with json_codec.Fields(saved, _WRONG) as fields:
            fields.check_format(FORMAT, f"Not a plan of format {FORMAT}. It may come from another version of ellipsum.")
            return FriendlyPlan(
                n=fields.take("n", COUNT),
                d=fields.take("d", json_codec.integer(1, MOST_COLUMNS)),
                radius=fields.maybe("radius", number),
                privacy=fields.take("privacy", Privacy.from_dict),
                gate=fields.take("gate", json_codec.word(*GATES)),
                shares=fields.take("shares", _read_shares),
                vectors=fields.take("vectors", VectorSource.from_dict),
                radii=fields.take("radii", numbers),
                target=fields.take("target", number),
                floor=fields.take("floor", number),
                columns=fields.maybe("columns", json_codec.names),
                stated=fields.take("stated", stated_from_dict),
                people=fields.take("people", people_from_dict),
            )

    @staticmethod
    def from_json(text: str) -> FriendlyPlan:
        return FriendlyPlan.from_dict(json_codec.parse(text))

    def forecast_svg(self, prefix: str) -> str | None:
        """None: this plan has no figure."""
        return None

    @property
    def function(self) -> str:
        """The name of the function whose results are averaged; empty for a mean of rows."""
        return self.vectors.function

    @property
    def what(self) -> str:
        """What the core is made of."""
        return "blocks" if self.function else self.vectors.unit

    def describe(self) -> str:
        """What is released: a mean of columns, or the result of a function on blocks."""
        rows = self.vectors.describe()
        if self.function:
            return f"result of {shown(self.function)} ({many(self.d, 'value')}; {self.n:,} blocks of {rows})"
        return f"FriendlyCore mean of {many(self.d, 'column')} ({rows})"

    def document(self, most: int | None = None) -> Document:
        passes = f"passes with probability {self.pass_probability():.4g} if all {self.what} lie close together"
        noise = f"standard error of {self.forecast():.4g} radii in each column if all {self.what} lie close together"
        facts = [
            ("Privacy", describe_guarantee(self.privacy, self.stated)),
            ("Mechanism", MECHANISMS[self.mechanism]),
            *people_facts(self.people),
            ("Radius", "found privately" if self.radius is None else f"{self.radius:.6g}"),
            ("Stability test", f"{self.gate.capitalize()} noise; {passes}"),
            ("Noise", noise),
        ]
        return Document(f"Plan for a differentially private {self.describe()}; no data read", [], facts)


def _read_shares(saved: object) -> tuple[float, float, float]:
    shares = json_codec.list_of(json_codec.number)(saved)
    if len(shares) != 3:
        raise json_codec.Wrong
    return shares[0], shares[1], shares[2]


def friendly_plan(
    n: int,
    d: int,
    radius: float | tuple[float, ...],
    budget: Budget,
    gate: FriendlyGate | None = None,
    *,
    noise: str = "gaussian",
    vectors: VectorSource | None = None,
    columns: tuple[str, ...] | None = None,
    people: People | None = None,
) -> FriendlyPlan:
    """Every public number of a FriendlyCore mean, without data.

    radius is a number, or the candidates of a private search, smallest first.
    noise: "gaussian"; "knorm", pure except for the failure probability of the test; "auto", the one with less noise.
    """
    gate = _USUAL_GATE if gate is None else gate
    if not isinstance(gate, FriendlyGate):
        raise UsageError(f"gate must be a FriendlyGate, got {type(gate).__name__}.")
    whole("n", n, FEWEST_ROWS, f"A FriendlyCore mean needs at least {FEWEST_ROWS} rows.")
    fields = {
        "n": n,
        "d": columns_of("d", d),
        "radius": checked_radius(radius) if not isinstance(radius, tuple) else None,
        "radii": tuple(map(checked_radius, radius)) if isinstance(radius, tuple) else (),
        "target": gate.target,
        "floor": gate.floor,
        "vectors": VectorSource(n, n) if vectors is None else vectors,
        "columns": columns,
        "stated": dict(budget.stated),
        "people": people,
    }
    plans, refused = [], []
    for plan_steps in _ways_to_plan(choice("noise", noise, NOISE), gate, budget):
        try:
            plans.append(plan_steps(fields, budget, gate))
        except UsageError as error:
            refused.append(error)
    if not plans:
        raise refused[0]
    return min(plans, key=FriendlyPlan.forecast)


PlanSteps = Callable[[dict[str, Any], Budget, FriendlyGate], FriendlyPlan]


def _ways_to_plan(noise: str, gate: FriendlyGate, budget: Budget) -> list[PlanSteps]:
    """The ways to plan that may be chosen from, the Gaussian one first."""
    if noise == "knorm" and gate.law == "gaussian":
        raise UsageError("noise='knorm' needs a Laplace test. Leave the gate's law out, or use noise='gaussian'.")
    if noise == "knorm" and budget.pair is None:
        raise UsageError("noise='knorm' needs a budget in epsilon= and delta=, since its noise is not Gaussian.")
    if budget.pair is not None and not budget.pair[1]:
        raise UsageError("delta must be above 0: the stability test may fail with a small probability.")
    if noise == "gaussian" or gate.law == "gaussian" or budget.pair is None:
        return [_plan_gaussian]
    return [_plan_pure] if noise == "knorm" else [_plan_gaussian, _plan_pure]


def _plan_gaussian(fields: dict[str, Any], budget: Budget, gate: FriendlyGate) -> FriendlyPlan:
    """Gaussian steps, each with a share of mu^2; the test may have Laplace noise."""
    law = gate.law or "gaussian"
    mu, slack = _mu_and_slack(budget, gate.slack)
    search, rest = 0.0, mu
    if fields["radii"]:
        search, rest = (part.mu for part in Budget(mu=mu).split(gate.search_share, 1 - gate.search_share))
    share = _gate_share(Steps(law, fields["n"], slack, gate.floor, rest), gate)
    first, mean = (part.mu for part in Budget(mu=rest).split(share, 1 - share))
    privacy = Privacy(mu, slack, "replace", unit_of(fields["people"]))
    return FriendlyPlan(**fields, privacy=privacy, gate=law, shares=(first, mean, search))


def _plan_pure(fields: dict[str, Any], budget: Budget, gate: FriendlyGate) -> FriendlyPlan:
    """[F12] Pure steps, each with a part of epsilon; by default the test may fail with probability delta."""
    assert budget.pair is not None
    epsilon, delta = budget.pair
    slack = delta if gate.slack is None else gate.slack
    if slack > delta:
        raise UsageError(f"slack must be at most delta = {delta:g}, got {slack:g}. Pass a smaller one.")
    search = round_down(Fraction(gate.search_share) * Fraction(epsilon)) if fields["radii"] else 0.0
    rest = Fraction(epsilon) - Fraction(search)
    share = _gate_share(Steps("laplace", fields["n"], slack, gate.floor, float(rest), fields["d"]), gate)
    first = round_down(Fraction(share) * rest)
    privacy = Privacy(0.0, slack, "replace", unit_of(fields["people"]), (epsilon,))
    shares = first, round_down(rest - Fraction(first)), search
    return FriendlyPlan(**fields, privacy=privacy, gate="laplace", shares=shares)


def _gate_share(steps: Steps, gate: FriendlyGate) -> float:
    """The test's share, as requested or the best one, if there are enough rows for it."""
    share = steps.best_share() if gate.share is None else gate.share
    steps.require_rows(share)
    return share


def checked_radius(radius: object) -> float:
    """A radius whose grid doubles can hold."""
    number = positive("radius", radius, "Pass the largest distance of two typical rows.")
    if not _SMALLEST_RADIUS <= number <= _LARGEST_RADIUS:
        raise UsageError(f"radius must be between 1e-270 and 1e270, got {number}. Rescale the columns.")
    return number


def _mu_and_slack(budget: Budget, slack: float | None) -> tuple[float, float]:
    if budget.pair is not None:
        slack = round_down(Fraction(_SLACK_SHARE) * Fraction(budget.pair[1])) if slack is None else slack
        return budget.after_slack(slack).mu, slack
    if slack is None:
        raise UsageError("The stability test may fail. Pass its probability: gate=FriendlyGate(slack=...).")
    return budget.mu, slack


def require_replace(neighbors: str) -> None:
    choice("neighbors", neighbors, ("replace", "add_remove"))
    if neighbors != "replace":
        raise UsageError(
            "FriendlyCore means support only neighbors='replace', since every weight depends on n. "
            "For a private n use es.mean with neighbors='add_remove'."
        )
