"""Every public number of a FriendlyCore mean: shares of the budget, stability test, noise, forecast.

With n rows, W the sum of their weights and r the radius (docs/proofs/friendly.md):
    test:  G = W + noise of scale 3 / mu1,   L = min(n, G - margin) <= W except with probability `slack`   [F5]
    mean:  sum w_i x_i / W + N(0, (r k(L - 3) / (L mu2))^2 I)  if L >= floor, otherwise no mean            [F4]
For few columns, Laplace noise of the test and K-norm (L2) noise of the mean may be smaller [F12].
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
from ..errors import MOST_COLUMNS, Floats, UsageError, choice, columns_of, names, shown, whole
from ..noise.law import GaussianLaw, NoiseLaw, SphericalLaw, ball_std
from ..numerics.rounding import round_down, sqrt_down
from ..privacy.budget import Budget, stated_from_dict
from ..privacy.guarantee import NEIGHBORS, Privacy, fits
from ..regions.ellipsoid import Ellipsoid
from ..releases.decode import Noise
from ..request.people import People, people_from_dict, unit_of
from ..request.request import COUNT
from ..row_maps.maps import noise_units
from ..util import json_codec
from ..util.atomic_files import Saved
from ..util.structural_equality import ValueEquality
from ..version import VERSION
from .core import RADIUS, RADIUS_BITS
from .forecast import (
    FEWEST_ROWS,
    GATES,
    WEIGHT_SENSITIVITY,
    FriendlyGate,
    Steps,
    check_radius,
    gate_margin,
    mean_sensitivity,
    pure_epsilon,
)

FORMAT = "ellipsum.friendly_plan/2"
_WRONG = "Invalid plan file: a field is missing, unknown or wrong. Create a new plan."
NOISE = ("auto", "gaussian", "knorm")
_SLACK_SHARE = 0.25
_LEAST_NOISE = 2.0**-13  # Grid units: keeps the noisy integers within two limbs, at 2^-35 of the radius.
FINE_BITS = 20
"""K-norm noise is added to the mean on a grid that is 2^20 times as fine as that of the rows [F12]."""
_LEAST_SCALE = 2.0**7  # On that grid.


@dataclass(frozen=True)
class VectorSource:
    """The rows or people that are used: all of them, or a random subset."""

    used: int
    total: int
    unit: str = "rows"
    function: str = ""
    """The name of the function that is evaluated on blocks of them; empty for a mean of rows."""

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
    shares: tuple[float, ...]
    """What the test, the mean and the search spend: a mu each, or under pure DP a part of epsilon each [F12]."""
    vectors: VectorSource
    radii: tuple[float, ...] = ()
    """The candidates of a search."""
    target: float = FriendlyGate.target
    floor: float = FriendlyGate.floor
    columns: tuple[str, ...] | None = None
    stated: Mapping[str, float] = field(default_factory=dict)
    """The requested budget."""
    people: People | None = None

    statistic: ClassVar[str] = "mean"
    neighbors: ClassVar[str] = "replace"
    rows: ClassVar[None] = None  # Only the radius is known about a row.
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
            check_radius(radius)
        if self.radii and self.radius is not None and self.radius not in self.radii:
            raise UsageError("Invalid plan: the radius is not one of those of the search. Create a new plan.")

    def _check_shares(self) -> None:
        """Check that each step has a share, and that all shares together are within the guarantee [P4]."""
        is_valid = len(self.shares) == 3 and all(map(math.isfinite, self.shares)) and min(self.shares[:2]) > 0
        if not is_valid or self.shares[2] < 0 or (self.pure and self.gate != "laplace"):
            raise UsageError("Invalid plan: a share of the budget is out of range. Create a new plan.")
        steps = [Privacy.of_pure(part) if self.pure else Privacy(part) for part in self.shares if part]
        if not fits(replace(self.privacy, unit="row"), steps):
            raise UsageError("Invalid plan: it spends more than its guarantee allows. Create a new plan.")
        if bool(self.radii) != (self.shares[2] > 0) or (self.radius is None and not self.radii):
            raise UsageError("Invalid plan: a search needs both radii and a share of the budget. Create a new plan.")

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
    def margin(self) -> float:
        """The test's noise exceeds this many scales with probability `slack` at most [F5]."""
        return gate_margin(self.gate, self.privacy.slack)

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
        margin = Fraction(self.gate_units) * Fraction(self.margin)
        return min(Fraction(self.n), (noisy - margin) / (self.n - 1))

    def mean_scale(self, lower: Fraction) -> float:
        """Scale of K-norm noise on the finer grid, to which the mean is rounded [F12]."""
        change = RADIUS * mean_sensitivity(lower, self.n) * (1 << FINE_BITS) + self.d
        return max(noise_units(change, self.shares[1]), _LEAST_SCALE)

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
        margin = (core_fraction * self.n - float(self.least_weight)) / scale - self.margin
        if self.gate == "laplace":
            return 1 - math.exp(-margin) / 2 if margin > 0 else math.exp(margin) / 2
        return float(ndtr(margin))

    @cached_property
    def noise_std(self) -> Floats | None:
        """Forecast if all rows lie close together (nine releases in ten have less); None before a search."""
        return None if self.radius is None else np.full(self.d, self.radius * self.forecast())

    def forecast(self) -> float:
        """Noise std of the mean in radii, if all rows lie close together; nine releases in ten have less."""
        std = (ball_std(self.d) if self.pure else 1.0) / self.shares[1]
        steps = Steps(self.gate, self.n, self.privacy.slack, self.floor, 1.0)
        return steps.expected_noise(self.gate_units / (self.n - 1), std)

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
                shares=fields.take("shares", json_codec.list_of(number)),
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
    def what(self) -> str:
        """What is averaged, in words."""
        return "blocks" if self.vectors.function else self.vectors.unit

    def describe(self) -> str:
        """What is released, in words."""
        used, total, unit = self.vectors.used, self.vectors.total, self.vectors.unit
        rows = f"{total:,} {unit}" if used == total else f"a random subset of {used:,} of {total:,} {unit}"
        if self.vectors.function:
            return f"result of {shown(self.vectors.function)} ({many(self.d, 'value')}; {self.n:,} blocks of {rows})"
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
    gate = FriendlyGate() if gate is None else gate
    if not isinstance(gate, FriendlyGate):
        raise UsageError(f"gate must be a FriendlyGate, got {type(gate).__name__}.")
    whole("n", n, FEWEST_ROWS, f"A FriendlyCore mean needs at least {FEWEST_ROWS} rows.")
    radii = radius if isinstance(radius, tuple) else ()
    plans, refused = [], []
    for divide in _ways_to_divide(choice("noise", noise, NOISE), gate, budget):
        try:
            privacy, law, shares = divide(n, columns_of("d", d), bool(radii), budget, gate)
            plan = FriendlyPlan(
                n=n,
                d=d,
                radius=None if isinstance(radius, tuple) else radius,
                privacy=replace(privacy, unit=unit_of(people)),
                gate=law,
                shares=shares,
                vectors=VectorSource(n, n) if vectors is None else vectors,
                radii=radii,
                target=gate.target,
                floor=gate.floor,
                columns=columns,
                stated=dict(budget.stated),
                people=people,
            )
            plans.append(plan)
        except UsageError as error:
            refused.append(error)
    if not plans:
        raise refused[0]
    return min(plans, key=FriendlyPlan.forecast)


Divided = tuple[Privacy, str, tuple[float, ...]]
"""The guarantee, the distribution of the test's noise, and the shares of the test, the mean and the search."""


def _ways_to_divide(
    noise: str, gate: FriendlyGate, budget: Budget
) -> list[Callable[[int, int, bool, Budget, FriendlyGate], Divided]]:
    """The ways to divide the budget that may be chosen from, the Gaussian one first."""
    if noise == "knorm" and gate.law == "gaussian":
        raise UsageError("noise='knorm' needs a Laplace test. Leave the gate's law out, or use noise='gaussian'.")
    if noise == "knorm" and budget.pair is None:
        raise UsageError("noise='knorm' needs a budget in epsilon= and delta=, since its noise is not Gaussian.")
    if budget.pair is not None and not budget.pair[1]:
        raise UsageError("delta must be above 0: the stability test may fail with a small probability.")
    if noise == "gaussian" or gate.law == "gaussian" or budget.pair is None:
        return [_divide_mu]
    return [_divide_epsilon] if noise == "knorm" else [_divide_mu, _divide_epsilon]


def _divide_mu(n: int, d: int, has_search: bool, budget: Budget, gate: FriendlyGate) -> Divided:
    """Gaussian steps, each with a share of mu^2; the test may have Laplace noise."""
    law, slack, rest = gate.law or "gaussian", gate.slack, budget
    if budget.pair is not None:
        slack = round_down(Fraction(_SLACK_SHARE) * Fraction(budget.pair[1])) if slack is None else slack
        rest = budget.after_slack(slack)
    if slack is None:
        raise UsageError("The stability test may fail. Pass its probability: gate=FriendlyGate(slack=...).")
    guarantee, search = Privacy(rest.mu, slack), 0.0
    if has_search:
        first, rest = rest.split(gate.search_share, 1 - gate.search_share)
        search = first.mu
    share = Steps(law, n, slack, gate.floor, rest.mu).choose_share(gate.share)
    test, mean = rest.split(share, 1 - share)
    return guarantee, law, (test.mu, mean.mu, search)


def _divide_epsilon(n: int, d: int, has_search: bool, budget: Budget, gate: FriendlyGate) -> Divided:
    """[F12] Pure steps, each with a part of epsilon; by default the test may fail with probability delta."""
    assert budget.pair is not None
    epsilon, delta = budget.pair
    slack = delta if gate.slack is None else gate.slack
    if slack > delta:
        raise UsageError(f"slack must be at most delta = {delta:g}, got {slack:g}. Pass a smaller one.")
    search = round_down(Fraction(gate.search_share) * Fraction(epsilon)) if has_search else 0.0
    rest = Fraction(epsilon) - Fraction(search)
    share = Steps("laplace", n, slack, gate.floor, float(rest), d).choose_share(gate.share)
    test = round_down(Fraction(share) * rest)
    return Privacy(0.0, slack, pure=(epsilon,)), "laplace", (test, round_down(rest - Fraction(test)), search)


def require_replace(neighbors: str) -> None:
    if choice("neighbors", neighbors, NEIGHBORS) != "replace":
        raise UsageError(
            "FriendlyCore means support only neighbors='replace', since every weight depends on n. "
            "For a private n use es.mean with neighbors='add_remove'."
        )
