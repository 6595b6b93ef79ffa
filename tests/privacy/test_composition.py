"""Gaussian steps, pure steps and slack together: against enumeration, closed forms and the best adaptive strategy."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from ellipsum.errors import BudgetRefused, UsageError
from ellipsum.privacy import composition
from ellipsum.privacy.composition import Filter, composed, composed_delta, composed_epsilon
from ellipsum.privacy.gaussian_curve import certified_mu, gaussian_delta_upper, gaussian_epsilon_upper, laplace_mu


def gaussian_at(mu: float, x: mpmath.mpf) -> mpmath.mpf:
    if mu == 0:
        return max(-mpmath.expm1(x), mpmath.mpf(0))
    lower, upper = (x / mu - mpmath.mpf(mu) / 2) / mpmath.sqrt(2), (x / mu + mpmath.mpf(mu) / 2) / mpmath.sqrt(2)
    return (mpmath.erfc(lower) - mpmath.exp(x) * mpmath.erfc(upper)) / 2


def enumerated(mu: float, pure: list[float], slack: float, epsilon: float) -> mpmath.mpf:
    """The sum over all signs, as stated."""
    with mpmath.workdps(60):
        total = mpmath.mpf(slack)
        for signs in itertools.product((1, -1), repeat=len(pure)):
            loss = mpmath.fsum(s * mpmath.mpf(e) for s, e in zip(signs, pure, strict=True))
            chance = mpmath.fprod(1 / (1 + mpmath.exp(-s * mpmath.mpf(e))) for s, e in zip(signs, pure, strict=True))
            total += chance * gaussian_at(mu, mpmath.mpf(epsilon) - loss)
        return total


CASES = [
    (0.0, [1.0], 0.0),
    (0.0, [1.0, 1.0], 1e-9),
    (0.5, [], 1e-9),
    (0.5, [1.2], 0.0),
    (1.3, [0.1, 0.2, 0.3, 0.3], 1e-7),
    (0.01, [2.0] * 5, 0.0),
    (0.0, [0.3, 0.31, 0.7, 1e-3, 1e-3], 0.0),
]


@pytest.mark.parametrize(("mu", "pure", "slack"), CASES)
def test_the_bound_is_the_sum_over_signs_rounded_up(mu: float, pure: list[float], slack: float) -> None:
    for epsilon in (-3.0, -0.5, 0.0, 0.1, 0.9, 1.0, 2.5):
        exact = enumerated(mu, pure, slack, epsilon)
        upper = composed_delta(mu, pure, slack, epsilon)
        assert exact <= upper <= exact * (1 + 1e-9) + 1e-300, epsilon


@pytest.mark.parametrize("mu", [0.0, 0.4])
def test_the_lattice_is_above_the_sum_and_close(mu: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    pure = (rng.random(8) * 0.5).tolist()
    monkeypatch.setattr(composition, "_EXACT_ATOMS", 1)
    composition._loss_law.cache_clear()
    for epsilon in (-1.0, 0.0, 0.5, 1.0, 1.5):
        exact = enumerated(mu, pure, 0.0, epsilon)
        upper = composed_delta(mu, pure, 0.0, epsilon)
        assert exact <= upper <= exact * (1 + 1e-3) + 1e-12, epsilon
    composition._loss_law.cache_clear()


def test_the_lattice_keeps_both_masses() -> None:
    """Splitting an atom keeps its probability under both neighbors, so merging the parts gives the atom back [P9]."""
    rng = np.random.default_rng(2)
    groups = [(float(e), 3) for e in rng.random(7)]
    law = composition._on_lattice(groups)
    chances = [float(chance.mid()) for _, chance in law]
    assert 1 <= math.fsum(chances) < 1 + 1e-9
    other = math.fsum(p * math.exp(-float(loss)) for p, (loss, _) in zip(chances, law, strict=True))
    assert 1 <= other < 1 + 1e-9


def test_many_different_epsilons() -> None:
    rng = np.random.default_rng(3)
    pure = (rng.random(40) * 0.3).tolist()
    both = composed_epsilon(0.5, pure, 1e-9, 1e-6)
    on_curves = math.sqrt(0.25 + sum(laplace_mu(e) ** 2 for e in pure))
    assert both < gaussian_epsilon_upper(on_curves, 1e-6 - 1e-9)
    assert both < sum(pure) + gaussian_epsilon_upper(0.5, 1e-6 - 1e-9)
    assert composed_delta(0.5, pure, 1e-9, both) <= 1e-6
    assert composed_delta(0.5, pure, 1e-9, both - 1e-4) > 1e-6


def test_epsilon_is_the_least_up_to_rounding() -> None:
    for (mu, pure, slack), delta in itertools.product(CASES, (1e-6, 1e-3)):
        epsilon = composed_epsilon(mu, pure, slack, delta)
        assert enumerated(mu, pure, slack, epsilon) <= delta
        if epsilon > 1e-6:
            assert enumerated(mu, pure, slack, epsilon - 1e-8) > delta


def test_the_ends_of_the_curve() -> None:
    assert composed_epsilon(0.0, [0.25, 0.5], 0.0, 0.0) == 0.75
    assert composed_delta(0.0, [0.25, 0.5], 0.0, 0.75) == 0.0
    assert composed_epsilon(0.0, [], 0.0, 0.0) == 0.0
    assert composed_epsilon(0.1, [0.5], 0.0, 0.0) == math.inf
    assert composed_epsilon(0.0, [0.5], 1e-9, 0.0) == math.inf
    assert composed_epsilon(0.0, [0.5], 1e-9, 1e-10) == math.inf
    assert composed_epsilon(0.0, [0.1] * 3, 0.0, 0.0) >= Fraction(0.1) * 3
    assert composed_epsilon(0.7, [], 0.0, 1e-6) == gaussian_epsilon_upper(0.7, 1e-6)
    assert composed_delta(3.0, [5.0], 0.9, -5.0) == 1.0
    assert composed_epsilon(0.0, [0.0, 0.4], 0.0, 0.0) == 0.4
    for bad in ((-1.0, [], 0.0), (0.0, [-0.1], 0.0), (0.0, [math.inf], 0.0), (0.0, [], -0.1)):
        with pytest.raises(UsageError):
            composed_delta(*bad, 1.0)
    with pytest.raises(UsageError):
        composed_delta(0.0, [1.0], 0.0, math.nan)


def test_known_numbers() -> None:
    mu = math.sqrt(0.75)
    assert composed_delta(mu, [1.2], 0.0, 1.0) == pytest.approx(0.311, abs=5e-4)
    with mpmath.workdps(30):
        assert float(gaussian_at(mu, mpmath.mpf(1.0) - mpmath.mpf(1.2))) == pytest.approx(0.403, abs=5e-4)
    # caps may not be traded
    assert composed_delta(0.0, [1.0, 1.0], 0.0, 1.6) > composed_delta(0.0, [1.5, 0.5], 0.0, 1.6)
    # nor is one pure step covered by two halves, while two halves are covered by the whole
    for epsilon in np.linspace(-2.0, 2.0, 17):
        assert composed_delta(0.3, [0.6, 0.6], 0.0, epsilon) <= composed_delta(0.3, [1.2], 0.0, epsilon)
    assert composed_delta(0.0, [1.2], 0.0, 0.5) > composed_delta(0.0, [0.6, 0.6], 0.0, 0.5)


def test_many_releases_of_equal_size_favor_the_gaussian() -> None:
    """One column, (1, 1e-6) in all: 8 Laplace releases have 12% less variance than 8 Gaussians, 10 have 11% more."""
    mu = certified_mu(1.0, 1e-6)
    gains = {}
    for count in (8, 10):
        low, high = 0.01, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if composed_delta(0.0, [middle] * count, 0.0, 1.0) <= 1e-6 else (low, middle)
        gains[count] = (count / mu**2) / (2 / low**2)
    assert gains[8] == pytest.approx(1.12, abs=0.02)
    assert gains[10] == pytest.approx(1 / 1.11, abs=0.02)


def best_adaptive(squares: int, cap: int, epsilon: float) -> float:
    """The largest delta of a first step that takes any shares of the caps, and a second that takes what is left."""
    mu2, total = 0.75, 1.2
    best = 0.0
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    for i in range(squares + 1):
        first = math.sqrt(mu2 * i / squares)
        rest = math.sqrt(mu2 * (1 - i / squares))
        for j in range(cap + 1):
            share = total * j / cap
            up = 1 / (1 + math.exp(-share))
            value = 0.0
            for sign, chance in ((1, up), (-1, 1 - up)):
                losses = sign * share + first * nodes + first**2 / 2
                tails = [composed_delta(rest, [total - share], 0.0, epsilon - loss) for loss in losses]
                value += chance * float(weights @ tails)
            best = max(best, value)
    return best


def test_no_two_step_strategy_exceeds_the_caps() -> None:
    bound = composed_delta(math.sqrt(0.75), [1.2], 0.0, 1.0)
    found = best_adaptive(3, 3, 1.0)
    assert found <= bound * (1 + 1e-6)
    assert found > bound * (1 - 1e-6)  # attained


# ---- The filter ----


def test_the_filter_charges_exactly_and_refuses_what_does_not_fit() -> None:
    caps = Filter(1.0, (0.5, 0.25), 1e-6)
    after = caps.charge(mu=0.6).charge(mu=0.6, slack=5e-7).charge(epsilon=0.5).charge(epsilon=0.25)
    assert after.pure_spent == (Fraction(1, 2), Fraction(1, 4))
    with pytest.raises(BudgetRefused):
        after.charge(mu=0.6)
    with pytest.raises(BudgetRefused):
        after.charge(slack=6e-7)
    with pytest.raises(BudgetRefused):
        Filter(1.0).charge(mu=1.0).charge(mu=1e-150)  # squares are exact: nothing is had for nothing
    # the guarantee is the cap, whatever was spent
    assert caps.delta(1.0) == after.delta(1.0) == composed_delta(1.0, [0.5, 0.25], 1e-6, 1.0)
    assert caps.epsilon(1e-5) == composed_epsilon(1.0, [0.5, 0.25], 1e-6, 1e-5)


def test_a_pure_step_is_never_spread_over_caps() -> None:
    caps = Filter(0.0, (0.5, 0.5))
    with pytest.raises(BudgetRefused):
        caps.charge(epsilon=0.6)
    third = Fraction(0.3)
    after = caps.charge(epsilon=0.3).charge(epsilon=0.3)
    assert after.pure_spent == (third, third)
    with pytest.raises(BudgetRefused):
        after.charge(epsilon=0.3)
    # with room in mu it goes there, as the Gaussian curve that covers it
    rich = Filter(2.0, (0.5,)).charge(epsilon=0.6)
    assert rich.pure_spent == (0,)
    assert rich.squares_spent == Fraction(laplace_mu(0.6)) ** 2


def test_a_filter_cannot_be_made_wrong() -> None:
    for bad in ((-1.0, ()), (1.0, (0.0,)), (1.0, (math.inf,))):
        with pytest.raises(UsageError):
            Filter(*bad)
    with pytest.raises(UsageError):
        Filter(1.0, (0.5,), 0.0, Fraction(0), (Fraction(0), Fraction(0)))
    with pytest.raises(UsageError):
        Filter(1.0).charge(mu=-0.1)


def test_fixed_steps_add_up() -> None:
    mu, pure, slack = composed([(0.3, [0.1], 1e-9), (0.4, [], 0.0), (0.0, [0.2], 2e-9)])
    assert Fraction(mu) ** 2 >= Fraction(0.3) ** 2 + Fraction(0.4) ** 2
    assert mu == pytest.approx(0.5, rel=1e-15)
    assert pure == (0.1, 0.2)
    assert Fraction(slack) >= Fraction(1e-9) + Fraction(2e-9)
    assert composed_delta(mu, pure, slack, 0.5) >= gaussian_delta_upper(mu, 0.5)
