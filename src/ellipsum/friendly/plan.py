"""Every public number of a friendly mean: budget shares, gate, sensitivity of the mean, noise, forecast.

With n rows, W the sum of their weights and r the radius (docs/proofs/friendly.md):
    gate:  G = W + noise of scale 3 / mu1,   L = min(n, G - margin) <= W but for probability `slack`   [F5]
    mean:  sum w_i x_i / W + N(0, (r k(L - 3) / (L mu2))^2 I)  if L >= floor, else no centre            [F4]
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from .. import codec
from ..alike import Alike
from ..curves import _certainly_positive, _nudged, round_down, sqrt_down
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
from ..files import Saved
from ..grid import noise_units
from ..noise_laws import GaussianLaw
from ..people import People, unit_of
from ..plan_files import COUNT, people_from_dict
from ..privacy import Budget, Privacy, laplace_mu, stated_from_dict
from ..shape import Ellipsoid
from ..texts import guarantee, people_lines
from ..vector_noise import Noise
from ..version import VERSION
from .core import RADIUS, RADIUS_BITS

_WRONG_PLAN = "the plan has missing, unknown or wrong fields. Make it anew."
_SOURCE = re.compile(
    r"(rows|people) \(a random subset of [0-9]{1,16}\)|blocks \(of a random subset of [0-9]{1,16} (rows|people)\)"
)
FORMAT = "ellipsum.friendly_plan/1"
GATES = ("gaussian", "laplace")
WEIGHT_SENSITIVITY = 3
"""[F2] One replaced row moves the sum of weights by at most 3."""
FEWEST_ROWS = 4
SLACK_SHARE = 0.25
FLOOR = 0.25
TARGET = 0.75
_LEAST_NOISE = 2.0**-13  # grid units: keeps the noisy integers within two limbs, at 2^-35 of the radius
_SMALLEST_RADIUS, _LARGEST_RADIUS = 2.0**-900, 2.0**900
_USUAL = 1.2816  # the gate's forecast is its lower decile: 9 releases in 10 do better


def mean_constant(weight: Fraction, n: int) -> Fraction:
    """[F4] k(W'): |m - m'| <= r k(W') / W for neighbouring data sets with sums of weights W and W'."""
    moved = 3 - (weight - 1) / (n - 1)
    far = (2 * (n + 1 - weight) + Fraction(n - 1, 4) + 1) / weight
    return moved + min(moved, far)


def mean_sensitivity(lower: Fraction, n: int) -> Fraction:
    """[F4] How far the mean moves, in radii, if the larger of the two sums of weights is at least `lower`."""
    return mean_constant(lower - WEIGHT_SENSITIVITY, n) / lower


@lru_cache(maxsize=256)
def gate_margin(gate: str, slack: float) -> float:
    """z with P[noise > z] <= slack for the gate's noise of scale 1, proved in ball arithmetic [F5]."""
    from flint import arb
    from scipy.special import ndtri

    if gate == "laplace":
        start = max(-math.log(2 * slack), 0.0)

        def room(z: float) -> Any:
            return 2 * arb(slack) - (-arb(z)).exp()
    else:
        start = max(-float(ndtri(slack)), 0.0)

        def room(z: float) -> Any:
            return 2 * arb(slack) - (arb(z) / arb(2).sqrt()).erfc()

    margin = _nudged(start, start + 1, lambda z: _certainly_positive(lambda: room(z)))
    if margin is None:
        raise UsageError(f"slack={slack} is out of reach of certified arithmetic. State between 1e-300 and 0.5.")
    return margin


@lru_cache(maxsize=256)
def pure_epsilon(mu: float) -> float:
    """The largest epsilon (nearly) whose Laplace step costs at most mu [P6]."""
    from scipy.special import log_ndtr

    start = float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))
    epsilon = _nudged(start, -start, lambda e: e > 0 and laplace_mu(e) <= mu)
    if epsilon is None:
        raise UsageError("this budget is too small for a Laplace gate. Use gate='gaussian'.")
    return epsilon


@dataclass(frozen=True, repr=False)
class FriendlyPlan(Alike, Saved):
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

    saved_as: ClassVar[str] = "plan"
    statistic: ClassVar[str] = "mean"
    rows: ClassVar[None] = None  # nothing is known about a row but the radius
    riders: ClassVar[None] = None  # and nothing is counted beside it

    def __post_init__(self) -> None:
        # A plan may come from a file: its shares are checked against its claim every time it is made.
        choice("gate", self.gate, GATES)
        self.privacy.check_unit(self.people is not None)
        self.privacy.check_stated(self.stated)
        if self.privacy.neighbours != "replace" or self.privacy.slack <= 0:
            raise UsageError("a friendly mean is private for neighbours='replace', with some slack.")
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
        shares = (positive("gate_mu", self.gate_mu), positive("mean_mu", self.mean_mu))
        search = non_negative("search_mu", self.search_mu)
        if sum(Fraction(mu) ** 2 for mu in (*shares, search)) > Fraction(self.privacy.mu) ** 2:
            raise UsageError("this plan spends more than its guarantee allows. Make the plan anew.")
        if bool(self.radii) != (search > 0) or (self.radius is None and not self.radii):
            raise UsageError("this plan's search has no radii, or its radii no search. Make the plan anew.")

    @property
    def neighbours(self) -> str:
        return self.privacy.neighbours

    @property
    def slack(self) -> float:
        return self.privacy.slack

    @property
    def gate_units(self) -> float:
        """Scale of the gate's noise, in units of 1/(n - 1): scale * (mu1 or epsilon1) >= 3 (n - 1) [F2]."""
        cost = pure_epsilon(self.gate_mu) if self.gate == "laplace" else self.gate_mu
        return noise_units(Fraction(WEIGHT_SENSITIVITY * (self.n - 1)), cost)

    @property
    def search_units(self) -> float:
        """Noise std of each step of the search, which takes at most log2(radii) steps, rounded up [F8]."""
        steps = max(1, (len(self.radii) - 1).bit_length())
        return noise_units(
            Fraction(WEIGHT_SENSITIVITY * (self.n - 1)), sqrt_down(Fraction(self.search_mu) ** 2 / steps)
        )

    @property
    def least_weight(self) -> Fraction:
        """The floor as a sum of weights; above 3, so that a neighbour's weights cannot vanish."""
        return max(Fraction(self.floor) * self.n, Fraction(FEWEST_ROWS))

    def weight_lower(self, noisy: Fraction) -> Fraction:
        """L of the gate, from a lower bound on the noisy sum of integer weights [F5]."""
        margin = Fraction(self.gate_units) * Fraction(gate_margin(self.gate, self.slack))
        return min(Fraction(self.n), (noisy - margin) / (self.n - 1))

    def mean_units(self, lower: Fraction) -> float:
        """Noise std of the mean in grid units: std * mu2 >= its sensitivity in exact arithmetic [F4]."""
        return max(noise_units(RADIUS * mean_sensitivity(lower, self.n), self.mean_mu), _LEAST_NOISE)

    def noise_at(self, lower: Fraction) -> Noise:
        """The noise of a mean that passed the gate with this lower bound on the weights."""
        assert self.radius is not None
        return Noise(self.ellipsoid, math.ldexp(self.mean_units(lower), -RADIUS_BITS))

    law_name = "gaussian"
    noise_law = GaussianLaw(1.0)

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
        return _forecast(self.gate, agreement, self.n, self.slack, self.gate_mu, self.mean_mu, self.floor)

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
            "stated": dict(self.stated),
            "options": {} if self.people is None else self.people.to_dict(),
        }

    def to_json(self) -> str:
        return codec.dump(self.to_dict())

    @staticmethod
    def from_json(text: str) -> FriendlyPlan:
        return friendly_plan_from_dict(codec.parse(text))

    def __repr__(self) -> str:
        radius = "found privately" if self.radius is None else f"{self.radius:.6g}"
        lines = [
            f"FriendlyPlan: mean of the core of {self.n} {self.source}, {self.d} columns",
            f"  guarantee       {guarantee(self.privacy, self.stated)}",
            *people_lines(self.people),
            f"  radius          {radius}",
            f"  gate            {self.gate}; if all agree, passes {self.pass_probability():.4g} of the time",
            f"  noise std       {self.forecast():.4g} radii a coordinate if all agree",
        ]
        return "\n".join(lines)


def friendly_plan(
    n: int,
    d: int,
    radius: float | tuple[float, ...],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    slack: float | None = None,
    gate: str = "gaussian",
    gate_share: float | None = None,
    search_share: float = 0.2,
    target: float = TARGET,
    floor: float = FLOOR,
    source: str = "rows",
    columns: tuple[str, ...] | None = None,
    people: People | None = None,
) -> FriendlyPlan:
    """Every public number of a friendly mean, made without data.

    radius is a number, or the candidates of a private search, smallest first. slack is the gate's failure
    probability (a quarter of delta unless stated; with a budget stated as mu or rho it must be).
    gate_share and search_share are shares of mu^2; the gate's is chosen for the least noise.
    """
    choice("gate", gate, GATES)
    spend = Budget.of(epsilon, delta, budget)
    mu, slack = _spend(spend, slack)
    floor = open_unit("floor", floor, "State the least agreement worth a release, between 0 and 1.")
    radii = tuple(map(checked_radius, radius)) if isinstance(radius, tuple) else ()
    privacy = Privacy(mu, slack, "replace", unit_of(people))
    search_mu, mean_mu = 0.0, mu
    if radii:
        share = open_unit("search_share", search_share)
        search_mu, mean_mu = (part.mu for part in Budget(mu=mu).split(share, 1 - share))
    whole("n", n, FEWEST_ROWS, f"A friendly mean needs {FEWEST_ROWS} rows at the very least.")
    if gate_share is None:
        gate_share = best_gate_share(gate, n, slack, mean_mu, floor)
    open_unit("gate_share", gate_share, "State the gate's share of mu^2, between 0 and 1.")
    _require_rows(gate, n, slack, mean_mu, floor, gate_share)
    gate_mu, mean_mu = (part.mu for part in Budget(mu=mean_mu).split(gate_share, 1 - gate_share))
    return FriendlyPlan(
        n=n,
        d=columns_of("d", d),
        radius=checked_radius(radius) if not isinstance(radius, tuple) else None,
        privacy=privacy,
        gate=gate,
        gate_mu=gate_mu,
        mean_mu=mean_mu,
        search_mu=search_mu,
        radii=radii,
        target=open_unit("target", target),
        floor=floor,
        source=source,
        columns=columns,
        stated=dict(spend.stated),
        people=people,
    )


def checked_radius(radius: Any) -> float:
    """A radius whose grid doubles can hold."""
    number = positive("radius", radius, "State how far apart two typical rows are at most.")
    if not _SMALLEST_RADIUS <= number <= _LARGEST_RADIUS:
        raise UsageError(f"radius must lie between 1e-270 and 1e270, got {number}. Rescale the columns.")
    return number


def _spend(budget: Budget, slack: float | None) -> tuple[float, float]:
    stated = dict(budget.stated)
    if "delta" in stated:
        slack = round_down(Fraction(SLACK_SHARE) * Fraction(stated["delta"])) if slack is None else slack
        slack = open_unit("slack", slack, "State a failure probability below delta.")
        return budget.after_slack(slack).mu, slack
    if slack is None:
        raise UsageError("slack is missing: the gate may fail with some probability. State slack= beside this budget.")
    return budget.mu, open_unit("slack", slack)


_SHARES = np.concatenate([np.geomspace(1e-4, 0.1, 40), np.linspace(0.1, 0.95, 86)[1:]])


def _gate_scale(gate: str, gate_mu: Floats) -> Floats:
    """Scale of the gate's noise in weights, 3 / mu1 or 3 / epsilon1: an estimate for forecasts."""
    from scipy.special import log_ndtr

    cost = log_ndtr(gate_mu / 2) - log_ndtr(-gate_mu / 2) if gate == "laplace" else gate_mu
    return WEIGHT_SENSITIVITY / cost


def _usual_lower(gate: str, agreement: float, n: int, slack: float, gate_mu: Floats) -> Floats:
    """Lower decile of the gate's L when the weights sum to agreement * n."""
    decile = math.log(5) if gate == "laplace" else _USUAL
    return agreement * n - (gate_margin(gate, slack) + decile) * _gate_scale(gate, gate_mu)


def _noise_in_radii(lower: Floats, n: int, mean_mu: Floats) -> Floats:
    weight = np.maximum(lower - WEIGHT_SENSITIVITY, 1e-9)
    moved = 3 - (weight - 1) / (n - 1)
    far = (2 * (n + 1 - weight) + (n - 1) / 4 + 1) / weight
    return (moved + np.minimum(moved, far)) / (np.maximum(lower, 1e-9) * mean_mu)


def _forecast(gate: str, agreement: float, n: int, slack: float, gate_mu: float, mean_mu: float, floor: float) -> float:
    lower = _usual_lower(gate, agreement, n, slack, np.array([gate_mu]))
    if lower[0] < max(floor * n, FEWEST_ROWS):
        return math.inf
    return float(_noise_in_radii(lower, n, np.array([mean_mu]))[0])


def best_gate_share(gate: str, n: int, slack: float, mu: float, floor: float) -> float:
    """The gate's share of mu^2 with the least noise of the mean when all rows agree: a public choice."""
    lower = _usual_lower(gate, 1.0, n, slack, mu * np.sqrt(_SHARES))
    noise = _noise_in_radii(lower, n, mu * np.sqrt(1 - _SHARES))
    noise[lower < max(floor * n, FEWEST_ROWS)] = np.inf
    return float(_SHARES[np.argmin(noise)]) if np.isfinite(noise).any() else float(_SHARES[-1])


def _require_rows(gate: str, n: int, slack: float, mu: float, floor: float, share: float) -> None:
    """Refuse an n for which even full agreement would mostly fail: a fact of public numbers alone."""

    def enough(rows: int) -> bool:
        lower = _usual_lower(gate, 1.0, rows, slack, np.array([mu * math.sqrt(share)]))[0]
        return bool(lower >= max(floor * rows, FEWEST_ROWS))

    if enough(n):
        return
    low, high = n, 2 * n
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    raise UsageError(
        f"n = {n} is too few: at this budget the gate passes 9 times in 10 from n = {high} on, if all agree. "
        "Use more rows or blocks, or state a larger budget."
    )


def require_replace(neighbours: str) -> None:
    choice("neighbours", neighbours, ("replace", "add_remove"))
    if neighbours != "replace":
        raise UsageError(
            "friendly averages are private for neighbours='replace' only: every weight depends on n. "
            "For a private n use es.mean with neighbours='add_remove'."
        )


def friendly_plan_from_dict(saved: Any) -> FriendlyPlan:
    """Inverse of `FriendlyPlan.to_dict`."""
    with codec.Fields(saved, _WRONG_PLAN) as fields:
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
            people=fields.take("options", people_from_dict, None),
        )
    return plan


def _source(value: Any) -> str:
    """What the vectors are: it is shown, so that it must be one of the library's own wordings."""
    source = codec.text(value)
    if source not in ("rows", "people", "blocks") and not _SOURCE.fullmatch(source):
        raise codec.Wrong
    return source
