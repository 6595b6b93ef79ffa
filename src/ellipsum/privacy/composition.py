"""Gaussian steps, pure steps and slack together: one exact curve, certified [P8], [P9].

A guarantee (mu, pure, slack) says that for every real epsilon

    delta(epsilon) <= E[delta_mu(epsilon - L)] + slack,

L the privacy loss of randomized response with the epsilons in `pure`, each ± epsilon_i with odds e^epsilon_i : 1, and
delta_mu the Gaussian curve. It is attained where slack = 0.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..errors import BudgetRefused, Floats, UsageError, non_negative
from ..numerics.roots import root
from ..numerics.rounding import FLINT, enclose_ever_tighter, round_ball_up, round_down, round_up, sqrt_up
from .gaussian_curve import gaussian_delta, gaussian_epsilon_upper, laplace_mu

if TYPE_CHECKING:
    from flint import arb

_EXACT_ATOMS = 600  # losses are enumerated up to here, and put on a lattice beyond
_LATTICE_BITS = 11  # at least 2^10 lattice points between the least and the greatest loss
_ATOM_BITS = 128
_NUDGES = range(40, 3, -3)
_SMALLEST = math.ulp(0.0)
_FULL = "This step needs more than the remaining budget; nothing was spent."
Exact = float | Fraction
NoiseLaw = tuple[tuple[Fraction, "arb"], ...]  # (loss, its probability, a ball)


@lru_cache(maxsize=256)
def _loss_law(pure: tuple[float, ...]) -> NoiseLaw:
    """The law of L: exact where few sums differ, else on a lattice that is no better for privacy [P9]."""
    groups = sorted(Counter(pure).items())
    atoms = math.prod(count + 1 for _, count in groups)
    return _enumerate_pure_steps(groups) if atoms <= _EXACT_ATOMS else _on_lattice(groups)


def _binomial(epsilon: float, count: int) -> list[tuple[Fraction, arb]]:
    """The loss of `count` equal steps: epsilon (2 i - count), i of them binomial with odds e^epsilon : 1."""
    from flint import arb, ctx

    step = Fraction(epsilon)
    with FLINT, ctx.workprec(_ATOM_BITS + 2 * count.bit_length()):
        up = 1 / (1 + (-arb(epsilon)).exp())
        down = 1 / (1 + arb(epsilon).exp())
        return [
            (step * (2 * i - count), arb(math.comb(count, i)) * up**i * down ** (count - i)) for i in range(count + 1)
        ]


def _enumerate_pure_steps(groups: Sequence[tuple[float, int]]) -> NoiseLaw:
    from flint import arb, ctx

    law: dict[Fraction, arb] = {Fraction(0): arb(1)}
    with FLINT, ctx.workprec(_ATOM_BITS):
        for epsilon, count in groups:
            wider: dict[Fraction, arb] = {}
            for (loss, chance), (more, factor) in itertools.product(law.items(), _binomial(epsilon, count)):
                wider[loss + more] = wider.get(loss + more, arb(0)) + chance * factor
            law = wider
    return tuple(law.items())


def _on_lattice(groups: Sequence[tuple[float, int]]) -> NoiseLaw:
    """Every loss is split between its two lattice neighbors so that E[1] and E[e^-L] stay: no better for privacy [P9].

    The masses are rounded up, and so are their sums; the lattice's unit is a power of two, so its points are doubles.
    """
    from flint import arb

    total = math.fsum(epsilon * count for epsilon, count in groups)
    unit = Fraction(2) ** (math.frexp(total)[1] - _LATTICE_BITS)
    law, first = np.ones(1), 0
    for epsilon, count in groups:
        masses, lowest = _split(_binomial(epsilon, count), unit)
        law = np.convolve(law, masses) * (1 + 2.0**-36)  # far above the rounding of sums of positive terms
        first += lowest
    masses = np.maximum(law, 2.0**-1000)  # far above what underflowed
    return tuple((unit * (first + i), arb(mass)) for i, mass in enumerate(masses.tolist()))


def _split(atoms: Sequence[tuple[Fraction, arb]], unit: Fraction) -> tuple[Floats, int]:
    """(masses on the lattice, index of the first of its points)."""
    from flint import ctx

    places = [math.floor(loss / unit) for loss, _ in atoms]
    lowest = min(places)
    masses = np.zeros(max(places) - lowest + 2)
    with FLINT, ctx.workprec(_ATOM_BITS):
        whole = _arb(unit).expm1()
        for (loss, chance), place in zip(atoms, places, strict=True):
            # weight of the lower neighbor: linear in e^-loss between the two
            gap = unit * (place + 1) - loss
            lower = _arb(gap).expm1() / whole
            masses[place - lowest] += round_ball_up(chance * lower) * (1 + 2.0**-40)
            masses[place + 1 - lowest] += max(round_ball_up(chance * (1 - lower)), 0.0) * (1 + 2.0**-40)
    return masses, lowest


def _arb(value: Fraction) -> arb:
    from flint import arb, fmpq

    return arb(fmpq(value.numerator, value.denominator))


def _gaussian_at(mu: arb, x: arb) -> arb:
    """delta_mu at any real x, a ball."""
    ratio, half = x / mu, mu / 2
    root = type(mu)(2).sqrt()
    return (((ratio - half) / root).erfc() - x.exp() * ((ratio + half) / root).erfc()) / 2


def _delta_ball(mu: float, law: NoiseLaw, epsilon: float) -> arb:
    from flint import arb

    total = arb(0)
    for loss, chance in law:
        x = Fraction(epsilon) - loss
        if mu > 0:
            total += chance * _gaussian_at(arb(mu), _arb(x))
        elif x < 0:
            total -= chance * _arb(x).expm1()
    return total


def composed_delta(mu: float, pure: Iterable[float], slack: float, epsilon: float) -> float:
    """delta(epsilon) of (mu, pure, slack) at any real epsilon, rounded up and proved to be no less, at most 1 [P8]."""
    mu, slack, steps = _check_cap(mu, pure, slack)
    if not math.isfinite(epsilon):
        raise UsageError(f"epsilon must be finite, got {epsilon}.")
    return min(1.0, round_up(Fraction(_delta_upper(mu, steps, float(epsilon))) + Fraction(slack)))


def _delta_upper(mu: float, pure: tuple[float, ...], epsilon: float) -> float:
    if mu == 0 and Fraction(epsilon) >= sum(map(Fraction, pure)):
        return 0.0
    law = _loss_law(pure)
    upper = 1.0
    for ball in enclose_ever_tighter(lambda: _delta_ball(mu, law, epsilon)):
        upper = min(upper, round_ball_up(ball))
        # chances are known to about 120 bits, so more precision stops helping
        if ball.is_finite() and (ball.rel_accuracy_bits() >= 40 or upper <= _SMALLEST or ball.rad() < 1e-320):
            break
    return max(upper, 0.0)


def composed_epsilon(mu: float, pure: Iterable[float], slack: float, delta: float) -> float:
    """The least epsilon >= 0 with delta(epsilon) <= delta, rounded up and proved; infinite where there is none [P8].

    At delta = 0 it is the sum of the pure epsilons where mu = slack = 0, and infinite otherwise.
    """
    mu, slack, steps = _check_cap(mu, pure, slack)
    left = round_down(Fraction(non_negative("delta", delta)) - Fraction(slack))
    if left < 0:
        return math.inf
    most = round_up(sum(map(Fraction, steps), Fraction(0)))
    if left == 0 or not steps:
        return gaussian_epsilon_upper(mu, left) if not steps else (most if mu == 0 else math.inf)
    if _delta_upper(mu, steps, 0.0) <= left:
        return 0.0
    most = round_up(Fraction(most) + Fraction(gaussian_epsilon_upper(mu, left))) if mu else most
    if most == math.inf:
        return math.inf
    start = _epsilon_estimate(mu, _loss_law(steps), left, most)
    for shift in _NUDGES:
        candidate = min(start + math.ldexp(most, -shift), most)
        if _delta_upper(mu, steps, candidate) <= left:
            return candidate
    return most


def _epsilon_estimate(mu: float, law: NoiseLaw, delta: float, most: float) -> float:
    losses = np.array([float(loss) for loss, _ in law])
    chances = np.array([float(chance.mid()) for _, chance in law])

    def excess(epsilon: float) -> float:
        total = float(chances @ _curve(mu, epsilon - losses))
        return math.log(max(total, 1e-320) / delta)

    return root(excess, 0.0, most, 1e-13 * most) if excess(0.0) > 0 > excess(most) else most


def _curve(mu: float, x: Floats) -> Floats:
    """delta_mu at real x, in double precision: delta(x) = 1 - e^x + e^x delta(-x)."""
    below = -np.expm1(np.minimum(x, 0.0))
    if mu == 0:
        value: Floats = below
    else:
        value = below + np.exp(np.minimum(x, 0.0)) * gaussian_delta(mu, np.abs(x))
    return value


def _check_cap(mu: float, pure: Iterable[float], slack: float) -> tuple[float, float, tuple[float, ...]]:
    steps = (non_negative("epsilon", epsilon) for epsilon in pure)
    return non_negative("mu", mu), non_negative("slack", slack), tuple(sorted(e for e in steps if e > 0))


@dataclass(frozen=True)
class Filter:
    """Caps fixed beforehand, (mu, [E_1 .. E_m], slack), and what has been charged to each [P10].

    A step's parameters may depend on earlier results; it runs only if `charge` accepts it. The guarantee is that of the
    caps, not of the spend: `delta`, `epsilon`. Caps and charges are doubles or exact rationals.
    """

    mu: Exact
    pure: tuple[Exact, ...] = ()
    slack: Exact = 0.0
    squares_spent: Fraction = Fraction(0)
    pure_spent: tuple[Fraction, ...] = ()
    slack_spent: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        _exact("mu", self.mu)
        _exact("slack", self.slack)
        if not all(_exact("cap", cap) > 0 for cap in self.pure):
            raise UsageError("Every cap must be a finite number > 0.")
        object.__setattr__(self, "pure_spent", self.pure_spent or tuple(Fraction(0) for _ in self.pure))
        if len(self.pure_spent) != len(self.pure):
            raise UsageError("pure_spent must have one number for each cap of pure.")

    def charge(self, *, mu: Exact = 0.0, epsilon: Exact = 0.0, slack: Exact = 0.0) -> Filter:
        """The filter after a step, or `BudgetRefused` with nothing spent.

        A pure epsilon goes to the first cap it fits, whole; else to mu, as the Gaussian curve that covers it. It is
        never spread over caps [P10].
        """
        loss = _exact("epsilon", epsilon)
        squares = self.squares_spent + _exact("mu", mu) ** 2
        failures = self.slack_spent + _exact("slack", slack)
        spent = self._with(loss)
        if spent is None and not self.mu:
            raise BudgetRefused(_FULL)
        if spent is None:
            spent, squares = self.pure_spent, squares + Fraction(laplace_mu(round_up(loss))) ** 2
        if squares > Fraction(self.mu) ** 2 or failures > Fraction(self.slack):
            raise BudgetRefused(_FULL)
        return replace(self, squares_spent=squares, pure_spent=spent, slack_spent=failures)

    def _with(self, epsilon: Fraction) -> tuple[Fraction, ...] | None:
        """What is spent of each pure cap after the first that it fits has taken epsilon."""
        if epsilon == 0:
            return self.pure_spent
        for j, (cap, spent) in enumerate(zip(self.pure, self.pure_spent, strict=True)):
            if spent + epsilon <= Fraction(cap):
                return (*self.pure_spent[:j], spent + epsilon, *self.pure_spent[j + 1 :])
        return None

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at this epsilon for the whole interaction."""
        return composed_delta(*self._doubles, epsilon)

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon at this delta for the whole interaction."""
        return composed_epsilon(*self._doubles, delta)

    @property
    def _doubles(self) -> tuple[float, tuple[float, ...], float]:
        """The caps as doubles, rounded up."""
        mu, slack = (round_up(Fraction(cap)) for cap in (self.mu, self.slack))
        return mu, tuple(round_up(Fraction(cap)) for cap in self.pure), slack


def _exact(name: str, value: Exact) -> Fraction:
    """A number >= 0, as it is."""
    if isinstance(value, Fraction) and value >= 0:
        return value
    return Fraction(non_negative(name, float(value) if isinstance(value, Fraction) else value))


def composed(parts: Iterable[tuple[float, Sequence[float], float]]) -> tuple[float, tuple[float, ...], float]:
    """(mu, pure, slack) of all parts together, each fixed beforehand: squares, lists and slacks add [P8]."""
    squares, slack = Fraction(0), Fraction(0)
    pure: list[float] = []
    for mu, epsilons, failure in parts:
        checked = _check_cap(mu, epsilons, failure)
        squares += Fraction(checked[0]) ** 2
        slack += Fraction(checked[1])
        pure += checked[2]
    return sqrt_up(squares), tuple(sorted(pure)), round_up(slack)
