"""Budgets, guarantees, calibration and composition."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
import random
from dataclasses import FrozenInstanceError, dataclass
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

import ellipsum as es
from ellipsum.errors import UsageError
from ellipsum.privacy.budget import Budget, calibrate, mu_cap_of, mu_for, rho_of
from ellipsum.privacy.gaussian_curve import certified_mu, gaussian_delta, laplace_mu
from ellipsum.privacy.guarantee import Privacy, compose, fits


def true_delta(mu: mpmath.mpf | Fraction, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(100):
        m = mpmath.mpf(mu.numerator) / mu.denominator if isinstance(mu, Fraction) else mpmath.mpf(mu)
        e, root = mpmath.mpf(epsilon), mpmath.sqrt(2)
        return (mpmath.erfc((e / m - m / 2) / root) - mpmath.exp(e) * mpmath.erfc((e / m + m / 2) / root)) / 2


# Calibration -------------------------------------------------------------------------------------------


def test_multiplier_is_safe_as_a_double_and_through_its_reciprocal() -> None:
    rng = random.Random(11)
    for _ in range(120):
        epsilon, delta = 10 ** rng.uniform(-8, 4), 10 ** rng.uniform(-300, math.log10(0.5))
        multiplier = calibrate(epsilon, delta)
        exact = 1 / Fraction(multiplier)
        assert true_delta(exact, epsilon) <= delta
        assert true_delta(Fraction(1 / multiplier), epsilon) <= delta
        assert true_delta(exact * (1 + Fraction(1, 10**9)), epsilon) > delta  # within 1 + 1e-9 of the least


def test_published_value_of_the_analytic_calibration() -> None:
    # 2 Phi(mu/2) - 1 at epsilon = 0 gives mu = 2 Phi^-1(3/4) for delta = 1/2; a tiny epsilon is close to it
    assert 1 / calibrate(1e-8, 0.5) == pytest.approx(2 * 0.6744897501960817, rel=2e-8)


def test_classic_is_safe_looser_and_refused_from_one_on() -> None:
    for epsilon in [1e-8, 1e-3, 0.1, 0.5, 0.999]:
        for delta in [1e-300, 1e-50, 1e-6, 1e-2, 0.5]:
            classic = calibrate(epsilon, delta, method="classic")
            assert classic > calibrate(epsilon, delta)
            assert true_delta(1 / Fraction(classic), epsilon) <= delta
            assert classic == pytest.approx(math.sqrt(2 * math.log(1.25 / delta)) / epsilon, rel=1e-13)
    with pytest.raises(UsageError, match="epsilon < 1"):
        calibrate(1.0, 1e-6, method="classic")
    with pytest.raises(UsageError, match="method must be one of"):
        calibrate(1.0, 1e-6, method="gaussian")


def test_mu_for_leaves_room_for_the_slack() -> None:
    mu = mu_for(1.0, 1e-6, 4e-7)
    assert true_delta(Fraction(mu), 1.0) + 4e-7 <= 1e-6
    assert true_delta(Fraction(mu) * Fraction(11, 10), 1.0) + 4e-7 > 1e-6
    assert mu_for(1.0, 1e-6, 0.0) == certified_mu(1.0, 1e-6)
    with pytest.raises(UsageError, match="slack must be below delta"):
        mu_for(1.0, 1e-6, 1e-6)


# Budgets -----------------------------------------------------------------------------------------------

WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "missing"),
    ({"epsilon": 1.0}, "delta is missing"),
    ({"delta": 1e-6}, "epsilon is missing"),
    ({"epsilon": 0, "delta": 1e-6}, "epsilon must be > 0"),
    ({"epsilon": -1.0, "delta": 1e-6}, r"epsilon must be > 0 and finite, got -1\.0"),
    ({"epsilon": math.nan, "delta": 1e-6}, "epsilon must be > 0"),
    ({"epsilon": math.inf, "delta": 1e-6}, "epsilon must be > 0"),
    ({"epsilon": "1", "delta": 1e-6}, "epsilon must be a number"),
    ({"epsilon": True, "delta": 1e-6}, "epsilon must be a number"),
    ({"epsilon": 1.0, "delta": "0"}, "delta must be"),
    ({"epsilon": 1.0, "delta": 1.0}, "delta must be between 0 and 1"),
    ({"epsilon": 1.0, "delta": -1e-6}, "delta must be between 0 and 1"),
    ({"epsilon": 1.0, "delta": math.nan}, "delta must be between 0 and 1"),
    ({"epsilon": 1.0, "budget": Budget(mu=1.0)}, "got both"),
    ({"delta": 1e-6, "budget": Budget(mu=1.0)}, "got both"),
    ({"budget": 1.0}, "budget must be a Budget"),
]


@pytest.mark.parametrize(("keywords", "message"), WRONG)
def test_wrong_keywords_are_refused_in_one_line(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        Budget.of(**keywords)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "keywords",
    [
        {},
        {"mu": 1.0, "rho": 0.5},
        {"epsilon": 1.0, "delta": 1e-6, "mu": 1.0},
        {"mu": 0.0},
        {"rho": -1.0},
        {"mu": math.nan},
    ],
)
def test_wrong_budgets_are_refused(keywords: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        Budget(**keywords)


def test_the_three_ways_to_state_a_budget() -> None:
    budget = Budget.of(epsilon=1, delta=1e-6)
    assert budget.mu == certified_mu(1.0, 1e-6)
    assert budget.delta(1.0) <= 1e-6
    assert 1.0 - 1e-11 <= budget.epsilon(1e-6) <= 1.0 + 1e-11
    assert Budget.of(budget=budget) is budget
    for rho in [0.5, 0.3, 1e-9, 7.7]:
        zcdp = Budget(rho=rho)
        assert zcdp.rho == rho
        assert Fraction(zcdp.mu) ** 2 <= 2 * Fraction(rho) < Fraction(math.nextafter(zcdp.mu, math.inf)) ** 2
    assert Budget(rho=0.5).mu == 1.0 == Budget(mu=1.0).mu
    assert Budget(mu=3.0).rho == 4.5


def test_a_budget_is_a_frozen_readable_value() -> None:
    budget = Budget(epsilon=1.0, delta=1e-6)
    assert repr(budget) == "Budget(epsilon=1.0, delta=1e-06)"
    assert str(budget) == f"epsilon = 1, delta = 1e-06 (mu = {budget.mu:.6g} Gaussian DP)"
    assert eval(repr(Budget(rho=0.3))) == Budget(rho=0.3)
    assert budget == Budget(epsilon=1.0, delta=1e-6) == pickle.loads(pickle.dumps(budget)) == copy.copy(budget)
    assert len({budget, Budget(epsilon=1.0, delta=1e-6)}) == 1
    with pytest.raises(FrozenInstanceError):
        budget.mu = 2.0  # type: ignore[misc]


def test_splits_never_exceed_the_whole_and_waste_nothing() -> None:
    rng = random.Random(12)
    for _ in range(300):
        whole = Budget(mu=10 ** rng.uniform(-12, 3))
        weights = [10 ** rng.uniform(-6, 3) for _ in range(rng.randint(1, 30))]
        parts = whole.split(*weights)
        total = sum(Fraction(part.mu) ** 2 for part in parts)
        assert total <= Fraction(whole.mu) ** 2
        assert total >= Fraction(whole.mu) ** 2 * (1 - Fraction(1, 2**50))
        assert parts[0].mu ** 2 / whole.mu**2 == pytest.approx(weights[0] / math.fsum(weights), rel=1e-12)
        assert fits(Privacy(whole.mu), [Privacy(part.mu) for part in parts])
    assert Budget(mu=1.7).split(5) == [Budget(mu=1.7)]
    for bad in [(), (1, 0), (1, -1), (math.nan,)]:
        with pytest.raises(UsageError):
            Budget(mu=1.0).split(*bad)


def test_after_slack() -> None:
    budget = Budget(epsilon=1.0, delta=1e-6)
    assert budget.after_slack(0.0) is budget
    rest = budget.after_slack(1e-7)
    assert Privacy(rest.mu, 1e-7).delta(1.0) <= 1e-6
    assert rest.mu < budget.mu
    with pytest.raises(UsageError, match="needs a part of delta"):
        Budget(mu=1.0).after_slack(1e-7)


# Guarantees --------------------------------------------------------------------------------------------


def test_a_guarantee_reads_its_curve_safely() -> None:
    spent = Privacy(0.7, 1e-7, "add_remove")
    for epsilon in [0.0, 0.5, 1.0, 4.0]:
        bound = spent.delta(epsilon)
        assert true_delta(Fraction(0.7), epsilon) + mpmath.mpf(1e-7) <= bound
        assert bound == pytest.approx(gaussian_delta(0.7, epsilon) + 1e-7, rel=1e-12)
        assert spent.epsilon(bound) <= epsilon * (1 + 1e-9)
        assert spent.delta(spent.epsilon(bound)) <= bound
    assert spent.epsilon(1e-7) == spent.epsilon(1e-8) == math.inf
    assert Privacy(0.0).epsilon(0.0) == 0.0
    assert Privacy(0.0).delta(0.0) == 0.0
    assert Privacy(50.0, 0.9).delta(0.0) == 1.0


def test_a_guarantee_round_trips_through_json() -> None:
    spent = Privacy(0.1 + 0.2, 1e-300, "add_remove")
    assert Privacy.from_dict(json.loads(json.dumps(spent.to_dict()))) == spent
    assert eval(repr(spent)) == spent
    assert str(spent) == "mu = 0.3 Gaussian DP plus delta = 1e-300 (one row added or removed)"
    assert str(Privacy(1.0)) == "mu = 1 Gaussian DP (one row replaced)"
    with pytest.raises(UsageError, match="mu, slack, neighbors"):
        Privacy.from_dict({"mu": 1.0, "slack": 0.0})


@pytest.mark.parametrize("fields", [(-1.0,), (math.nan,), (math.inf,), (1.0, -0.1), (1.0, 1.0), (1.0, 0.0, "swap")])
def test_wrong_guarantees_are_refused(fields: tuple[Any, ...]) -> None:
    with pytest.raises(UsageError):
        Privacy(*fields)


# Composition -------------------------------------------------------------------------------------------


def composed_delta(first: Any, mu: float, epsilon: float) -> float:
    """Exact delta of a step with curve `first` and a Gaussian one of mu: the first's value, averaged over z.

    first(t) is the step's hockey-stick value at order e^t, any real t. The trapezoid rule errs by at most
    width^2/8 times each kink's change of slope (below 1): under 1e-8 at width 1.2e-4.
    """
    z, width = np.linspace(mu - 12, mu + 12, 200_001, retstep=True)
    density = np.exp(-0.5 * (z - mu) ** 2) / math.sqrt(2 * math.pi)
    return float(np.sum(density * first(epsilon - mu * z + 0.5 * mu * mu)) * width)


def gaussian_step(mu: float) -> Any:
    def curve(t: Any) -> Any:  # below order 1 by duality: H(e^t) = 1 - e^t + e^t H(e^-t)
        above = gaussian_delta(mu, np.abs(t))
        return np.where(t >= 0, above, 1 - np.exp(np.minimum(t, 0)) * (1 - above))

    return curve


def pure_step(epsilon: float) -> Any:
    def curve(t: Any) -> Any:
        inside = (math.exp(epsilon) - np.exp(np.clip(t, -epsilon, epsilon))) / (1 + math.exp(epsilon))
        return np.where(t >= epsilon, 0.0, np.where(t <= -epsilon, 1 - np.exp(np.minimum(t, 0)), inside))

    return curve


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_composition_of_two_gaussian_steps_is_exact(epsilon: float) -> None:
    whole = compose([Privacy(0.6), Privacy(0.8)])
    assert 1 <= whole.mu <= 1 + 2**-50
    assert whole.delta(epsilon) == pytest.approx(composed_delta(gaussian_step(0.6), 0.8, epsilon), abs=1e-8)
    assert Privacy(0.9 * whole.mu).delta(epsilon) < composed_delta(gaussian_step(0.6), 0.8, epsilon) - 1e-3


@pytest.mark.parametrize("pure", [0.1, 1.0, 3.0])
def test_composition_with_a_pure_step_covers_the_exact_value(pure: float) -> None:
    whole = compose([Privacy.of_pure(pure), Privacy(0.5)])
    for epsilon in [0.0, 0.3, 1.0, 2.0]:
        assert composed_delta(pure_step(pure), 0.5, epsilon) <= whole.delta(epsilon) + 1e-8


def test_composition_with_slack_covers_a_step_that_confesses() -> None:
    # with probability slack the row is shown outright, otherwise Gaussian noise: k of these, exactly
    k, slack, mu = 5, 0.01, 0.3
    whole = compose([Privacy(mu, slack)] * k)
    for epsilon in [0.0, 0.5, 1.5]:
        clean = (1 - slack) ** k
        exact = 1 - clean + clean * gaussian_delta(math.sqrt(k) * mu, epsilon)
        assert exact <= whole.delta(epsilon)
    assert whole.slack < 1 - (1 - slack) ** k + k * k * slack * slack
    assert Privacy(whole.mu, slack).delta(1.5) < 1 - (1 - slack) ** k  # one slack for five would be too little


def test_compose_rounds_up() -> None:
    rng = random.Random(13)
    for _ in range(200):
        parts = [Privacy(10 ** rng.uniform(-9, 2), 10 ** rng.uniform(-30, -3)) for _ in range(rng.randint(1, 40))]
        whole = compose(parts)
        assert Fraction(whole.mu) ** 2 >= sum(Fraction(p.mu) ** 2 for p in parts)
        assert Fraction(whole.slack) >= sum(Fraction(p.slack) for p in parts)
        assert whole.mu == pytest.approx(math.hypot(*(p.mu for p in parts)), rel=1e-14)


@dataclass(frozen=True)
class _OwnCurve:
    pair: Privacy

    def as_pair(self) -> Privacy:
        return self.pair


def test_compose_takes_anything_with_a_pair_and_refuses_mixtures() -> None:
    own = _OwnCurve(Privacy(3.0, 1e-9))
    assert compose([own, Privacy(4.0)]) == Privacy(5.0, 1e-9)
    assert compose([own]) == own.pair
    with pytest.raises(UsageError, match="do not compose"):
        compose([Privacy(1.0), Privacy(1.0, 0.0, "add_remove")])
    with pytest.raises(UsageError, match="nothing to compose"):
        compose([])
    with pytest.raises(UsageError, match="add up to 1"):
        compose([Privacy(1.0, 0.5), Privacy(1.0, 0.5)])


def test_the_filter_compares_exactly() -> None:
    cap = Privacy(1.0, 1e-9)
    assert fits(cap, [])
    assert fits(cap, [Privacy(0.6 - 2**-52), Privacy(0.8)])
    assert fits(cap, [Privacy(1.0, 1e-9)])
    assert not fits(cap, [Privacy(math.nextafter(1.0, 2.0))])
    assert not fits(cap, [Privacy(1.0), Privacy(1e-150)])  # lost in floating point: 1 + 1e-300 == 1
    assert not fits(cap, [Privacy(0.5, 1e-9), Privacy(0.5, 1e-30)])
    with pytest.raises(UsageError, match="do not compose"):
        fits(cap, [Privacy(0.1, 0.0, "add_remove")])


def test_of_several_pure_caps_each_holds_one_step() -> None:
    cap = Privacy(0.0, pure=(0.3, 0.5))
    assert fits(cap, [Privacy.of_pure(0.5), Privacy.of_pure(0.3)])
    assert fits(cap, [Privacy.of_pure(0.4)])
    assert not fits(cap, [Privacy.of_pure(0.4), Privacy.of_pure(0.4)])
    assert not fits(cap, [Privacy.of_pure(0.5), Privacy.of_pure(0.3), Privacy.of_pure(1e-9)])


def test_a_pure_step_spends_no_more_than_is_stated() -> None:
    stated = {"epsilon": 1.0, "delta": 1e-6}
    Privacy(0.0, 1e-6, pure=(1.0,)).check_stated(stated)
    for more in (
        Privacy(0.0, 1.1e-6, pure=(1.0,)),
        Privacy.of_pure(math.nextafter(1.0, 2.0)),
        Privacy(1e-9, pure=(1.0,)),
    ):
        with pytest.raises(UsageError, match="Create a new plan"):
            more.check_stated(stated)


# By name, for comparison -------------------------------------------------------------------------------


def test_rho_reads_one_way_only() -> None:
    for mu in [0.1, 1.0, 3.3]:
        assert Fraction(rho_of(mu)) >= Fraction(mu) ** 2 / 2
        assert mu_cap_of(rho_of(mu)) == pytest.approx(mu, rel=1e-15)
    # randomized response at epsilon is epsilon^2/2-zCDP, yet it is not on the curve mu = epsilon
    epsilon = 1.0
    assert math.tanh(epsilon / 2) > Privacy(mu_cap_of(epsilon**2 / 2)).delta(0.0)
    assert math.tanh(epsilon / 2) <= Privacy.of_pure(epsilon).delta(0.0)
    assert laplace_mu(epsilon) > epsilon


def test_rows_and_people_do_not_compose():
    row = Privacy(0.5)
    person = dataclasses.replace(row, unit="person")
    assert str(person) == "mu = 0.5 Gaussian DP (one person replaced)"
    assert compose([person, person]).unit == "person"
    assert Privacy.from_dict(person.to_dict()) == person
    assert Privacy.from_dict(row.to_dict()) == row
    with pytest.raises(UsageError, match="for rows and for people"):
        compose([row, person])
    with pytest.raises(UsageError, match="unit must be one of"):
        Privacy(0.5, unit="house")


@pytest.mark.filterwarnings("ignore::ellipsum.ProjectionWarning")
def test_releases_plans_and_the_like_compose_as_they_are() -> None:
    rows = np.random.default_rng(0).normal(5.0, 1.0, (500, 2))
    spend = {"epsilon": 10.0, "delta": 1e-6}
    plan = es.plan("sum", es.Box([0, 0], [9, 9]), n=500, noise="gaussian", **spend)
    made = [
        plan,
        plan.release(rows),
        es.learn(rows, es.Unknown(100.0), **spend),
        es.friendly_mean(rows, 8.0, **spend),
        es.friendly_mean(rows, 0.01, **spend),
        es.project(rows, 2, es.Box(0, 9), **spend),
    ]
    whole = compose(made)
    assert whole == compose([one.privacy for one in made])
    assert whole.mu > compose(made[1:]).mu > 0
    with pytest.raises(UsageError, match="do not compose"):
        compose([made[1], es.plan("sum", es.Ball(1.0), n=500, d=2, neighbors="add_remove", **spend)])
    for odd in (made[1], [es.Release], ["privacy"], [None], 3):
        with pytest.raises(UsageError, match="must be a list of releases"):
            compose(odd)
