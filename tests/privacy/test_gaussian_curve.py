"""The Gaussian curve and its certified inverses against mpmath, over the whole promised range."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from ellipsum.errors import UsageError
from ellipsum.numerics.rounding import round_down, round_up, sqrt_down, sqrt_up
from ellipsum.privacy import gaussian_curve
from ellipsum.privacy.gaussian_curve import (
    certified_mu,
    gaussian_delta,
    gaussian_delta_upper,
    gaussian_epsilon_upper,
    laplace_mu,
)

EPSILONS = [1e-8, 1e-5, 1e-3, 0.1, 0.999, 1.0, 2.5, 10.0, 100.0, 709.0, 710.0, 1e4]
DELTAS = [1e-300, 1e-200, 1e-100, 1e-30, 1e-12, 1e-6, 1e-3, 0.1, 0.4999, 0.5]
CORNERS = [(e, d) for e in EPSILONS for d in DELTAS]


def random_pairs(count: int, seed: int) -> list[tuple[float, float]]:
    rng = random.Random(seed)
    return [(10 ** rng.uniform(-8, 4), 10 ** rng.uniform(-300, math.log10(0.5))) for _ in range(count)]


def true_delta(mu: float | mpmath.mpf, epsilon: float | mpmath.mpf) -> mpmath.mpf:
    """delta from its definition, 60 digits after the cancellation of at most 40."""
    with mpmath.workdps(100):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        lower, upper = (e / m - m / 2) / mpmath.sqrt(2), (e / m + m / 2) / mpmath.sqrt(2)
        return (mpmath.erfc(lower) - mpmath.exp(e) * mpmath.erfc(upper)) / 2


@pytest.mark.parametrize("pairs", [CORNERS, random_pairs(400, 1)], ids=["corners", "random"])
def test_certified_mu_is_safe_and_within_1e_12_of_the_largest(pairs: list[tuple[float, float]]) -> None:
    for epsilon, delta in pairs:
        mu = certified_mu(epsilon, delta)
        assert true_delta(mu, epsilon) <= delta, (epsilon, delta)
        assert true_delta(mu * (1 + 1e-12), epsilon) > delta, (epsilon, delta)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-300, 1e-300), (1e-12, 5e-324), (1.0, 0.99), (1e8, 1e-6)])
def test_outside_the_promised_range_the_result_is_still_safe(epsilon: float, delta: float) -> None:
    mu = certified_mu(epsilon, delta)
    with mpmath.workdps(900):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        root = mpmath.sqrt(2)
        value = (mpmath.erfc((e / m - m / 2) / root) - mpmath.exp(e) * mpmath.erfc((e / m + m / 2) / root)) / 2
        assert value <= delta


def test_out_of_reach_is_refused() -> None:
    with pytest.raises(UsageError, match="outside the supported range"):
        certified_mu(1e200, 1e-6)


@pytest.mark.parametrize("factor", [1.1, 1 + 1e-6, 0.9, 3.0])
def test_a_wrong_root_finder_cannot_weaken_the_result(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    honest = gaussian_curve._mu_estimate
    monkeypatch.setattr(gaussian_curve, "_mu_estimate", lambda e, d: factor * honest(e, d))
    for epsilon, delta in [(1.0, 1e-6), (1e-8, 1e-100), (1e4, 0.5)]:
        try:
            mu = certified_mu(epsilon, delta)
        except UsageError:
            assert factor == 3.0  # too far off to repair: refused, not weakened
        else:
            assert true_delta(mu, epsilon) <= delta


def test_the_certificate_rejects_ten_percent_too_much() -> None:
    for epsilon, delta in [(1.0, 1e-6), (1e-8, 1e-100), (0.1, 0.5), (1e4, 1e-300)]:
        mu = certified_mu(epsilon, delta)
        assert gaussian_curve._delta_is_safe(mu, epsilon, delta)
        assert not gaussian_curve._delta_is_safe(1.1 * mu, epsilon, delta)


def test_certified_mu_grows_with_epsilon_and_delta() -> None:
    table = np.array([[certified_mu(e, d) for d in DELTAS] for e in EPSILONS])
    assert (np.diff(table, axis=0) > 0).all()
    assert (np.diff(table, axis=1) > 0).all()


def test_double_curve_agrees_with_the_oracle() -> None:
    # log delta carries rounding of about a^2/2 + (epsilon/mu + mu) a units of 2^-53, a <= 37.1, mu <= 150
    pairs = CORNERS + random_pairs(150, 2)
    for epsilon, delta in pairs:
        mu = certified_mu(epsilon, delta)
        exact = true_delta(mu, epsilon)
        assert abs(gaussian_delta(mu, epsilon) / exact - 1) < 2e-12, (epsilon, delta)


def test_double_curve_on_both_sides_of_its_branches() -> None:
    for mu in [1e-12, 1e-3, 0.0299999, 0.0300001, 1.0, 15.9, 16.1, 60.0]:
        for epsilon in [0.0, 1e-3 * mu, mu * mu / 3, mu * mu, 5 * mu]:
            assert abs(gaussian_delta(mu, epsilon) / true_delta(mu, epsilon) - 1) < 2e-12


def test_double_curve_takes_arrays_and_extremes() -> None:
    mu = np.array([0.0, 1e-300, 0.5, 1e9])
    values = gaussian_delta(mu, 1.0)
    assert values.shape == (4,)
    assert values[0] == values[1] == 0.0
    assert values[2] == gaussian_delta(0.5, 1.0)
    assert values[3] == 1.0
    assert gaussian_delta(0.5, np.array([1.0, math.inf])).tolist() == [values[2], 0.0]
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(UsageError):
            gaussian_delta(bad, 1.0)


def test_upper_delta_is_an_upper_bound_and_tight() -> None:
    rng = random.Random(3)
    pairs = [(10 ** rng.uniform(-10, 2.2), 10 ** rng.uniform(-8, 4)) for _ in range(400)]
    seen = 0
    for mu, epsilon in [*pairs, *((m, 0.0) for m, _ in pairs[:50])]:
        exact = true_delta(mu, epsilon)
        upper = gaussian_delta_upper(mu, epsilon)
        assert exact <= upper <= 1
        if exact > 1e-300:
            seen += 1
            assert upper <= exact * (1 + 2**-52)
    assert seen > 100


def test_upper_delta_at_the_edges() -> None:
    assert gaussian_delta_upper(0.0, 0.0) == 0.0
    assert gaussian_delta_upper(1e-3, 1e4) == math.ulp(0.0)  # positive, below every normal double
    assert gaussian_delta_upper(1e6, 1.0) == 1.0
    assert 0 < gaussian_delta_upper(1e-300, 0.0) < 4.1e-301  # mu phi(0) = 3.99e-301
    assert gaussian_delta_upper(1.0, 1e300) <= 1


def test_upper_epsilon_is_an_upper_bound_and_tight() -> None:
    rng = random.Random(4)
    for _ in range(300):
        mu, delta = 10 ** rng.uniform(-10, 2.3), 10 ** rng.uniform(-300, math.log10(0.5))
        epsilon = gaussian_epsilon_upper(mu, delta)
        assert true_delta(mu, epsilon) <= delta
        less = epsilon - 1e-12 * (mu + mu * mu + epsilon)
        if epsilon > 0 and less > 0:
            assert true_delta(mu, less) > delta, (mu, delta)


def test_upper_epsilon_at_the_edges() -> None:
    assert gaussian_epsilon_upper(0.0, 0.0) == 0.0
    assert gaussian_epsilon_upper(1.0, 0.0) == math.inf
    assert gaussian_epsilon_upper(1.0, 0.3829) > 0  # 2 Phi(1/2) - 1 = 0.382924...
    assert gaussian_epsilon_upper(1.0, 0.3830) == 0.0
    assert gaussian_epsilon_upper(1e200, 1e-6) == math.inf
    assert gaussian_epsilon_upper(1e-300, 1e-6) == 0.0


def test_epsilon_and_mu_are_mutual_inverses() -> None:
    for epsilon, delta in CORNERS + random_pairs(200, 5):
        mu = certified_mu(epsilon, delta)
        # mu is within 1e-12 of its root, d epsilon/d mu = 1/M(b) <= b + 1, and epsilon errs by 1e-12 too
        allowance = 2e-12 * (epsilon + mu + mu * mu)
        assert abs(gaussian_epsilon_upper(mu, delta) - epsilon) <= allowance, (epsilon, delta)
        assert gaussian_delta_upper(mu, epsilon) <= delta


def test_laplace_mu_is_rounded_up_and_tight() -> None:
    for epsilon in [1e-12, 1e-8, 1e-3, 0.1, 0.999, 1.0, 3.0, 36.0, 37.0, 700.0, 710.0, 1e4]:
        mu = laplace_mu(epsilon)
        with mpmath.workdps(60):
            chance = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon)))

            def tail(m: float) -> mpmath.mpf:
                return mpmath.erfc(mpmath.mpf(m) / mpmath.sqrt(8)) / 2

            assert tail(mu) <= chance
            assert tail(mu * (1 - 1e-12)) > chance
    assert laplace_mu(0.0) == 0.0


def test_laplace_curve_covers_every_pure_step() -> None:
    # randomized response is the least private epsilon-DP pair: delta(t) = (e^epsilon - e^t)/(1 + e^epsilon)
    for epsilon in [1e-6, 0.1, 1.0, 5.0, 50.0]:
        mu = laplace_mu(epsilon)
        for share in np.linspace(0, 1, 21):
            t = float(share) * epsilon
            with mpmath.workdps(60):
                worst = (mpmath.exp(epsilon) - mpmath.exp(t)) / (1 + mpmath.exp(epsilon))
            assert true_delta(mu, t) >= worst
        with mpmath.workdps(60):
            assert true_delta(0.9 * mu, 0.0) < mpmath.tanh(mpmath.mpf(epsilon) / 2)


def test_directed_rounding_is_exact() -> None:
    rng = random.Random(6)
    for _ in range(2000):
        value = Fraction(rng.getrandbits(200) + 1, rng.getrandbits(rng.choice([5, 150, 400])) + 1)
        low, high = round_down(value), round_up(value)
        assert Fraction(low) <= value <= Fraction(high)
        assert high in (low, math.nextafter(low, math.inf))
        root_low, root_high = sqrt_down(value), sqrt_up(value)
        assert Fraction(root_low) ** 2 <= value <= Fraction(root_high) ** 2
        assert Fraction(math.nextafter(root_low, math.inf)) ** 2 > value
        assert root_high in (root_low, math.nextafter(root_low, math.inf))
    assert round_up(Fraction(10) ** 400) == math.inf
    assert round_down(Fraction(10) ** 400) == sys.float_info.max
    assert sqrt_down(Fraction(0)) == sqrt_up(Fraction(0)) == 0.0
    assert sqrt_down(Fraction(9, 4)) == sqrt_up(Fraction(9, 4)) == 1.5


def test_threads_agree_and_leave_the_precision_alone() -> None:
    from flint import ctx

    before, pairs = ctx.prec, random_pairs(40, 7)
    alone = [certified_mu(*pair) for pair in pairs]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda pair: certified_mu(*pair), pairs)) == alone
    assert ctx.prec == before


def test_importing_the_curves_does_not_load_ball_arithmetic() -> None:
    script = "import sys, ellipsum.privacy.guarantee; sys.exit('flint' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", script], check=False, env=env).returncode == 0
