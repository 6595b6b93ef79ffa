"""The projection's privacy curve against mpmath, its closed forms, its pairs."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import chi2

from ellipsum.errors import UsageError
from ellipsum.privacy.gaussian_curve import certified_mu, gaussian_delta
from ellipsum.privacy.guarantee import Privacy, compose
from ellipsum.projection.curve import (
    ProjectionPrivacy,
    _log_delta,
    certified_scale,
    chi_reach_upper,
    projection_delta_upper,
    projection_epsilon_upper,
)


def oracle_delta(scale, k, epsilon, excess=0.0, near=1e-6):
    """The mixture integrated by mpmath in log w, on a window whose outside is below 1e-16 of `near`."""
    with mpmath.workdps(30):
        scale, excess, epsilon = map(mpmath.mpf, (scale, excess, epsilon))
        log_constant = mpmath.mpf(k) / 2 * mpmath.log(mpmath.mpf(k) / 2) - mpmath.loggamma(mpmath.mpf(k) / 2)

        def integrand(x):
            w = mpmath.exp(x)
            mu = scale * (w + excess)
            a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
            curve = (mpmath.erfc(a / mpmath.sqrt(2)) - mpmath.exp(epsilon) * mpmath.erfc(b / mpmath.sqrt(2))) / 2
            return 2 * mpmath.exp(log_constant + k * x - k * w * w / 2) * curve

        floor = math.log(near) - 38

        def edge(sign):
            step = 1e-3 / math.sqrt(k)
            while k / 2 * (1 + 2 * sign * step - math.exp(2 * sign * step)) > floor:
                step *= 1.1
            return sign * step

        low, high = max(edge(-1.0), -60.0), edge(1.0)
        grid = [low + (high - low) * i / 64 for i in range(65)]
        tall = [i for i, x in enumerate(grid) if integrand(x) > near * mpmath.mpf(10) ** -20]
        low, high = grid[max(tall[0] - 1, 0)], grid[min(tall[-1] + 1, 64)]
        return _trapezoid(integrand, low, high)


def _trapezoid(integrand, low, high, parts=100):
    """Doubles the nodes until two sums agree to 1e-15: on an analytic peak the error squares every time."""
    before, step = mpmath.mpf(0), mpmath.mpf(high - low) / parts
    total = mpmath.fsum(integrand(low + i * step) for i in range(parts + 1))
    while abs(total * step - before) > total * step * mpmath.mpf(10) ** -15:
        before = total * step
        step, parts = step / 2, parts * 2
        total += mpmath.fsum(integrand(low + i * step) for i in range(1, parts, 2))
        assert parts < 10_000
    return total * step


CASES = [
    (k, epsilon, delta) for k in (1, 2, 7, 100, 10_000) for epsilon in (0.01, 1.0, 100.0) for delta in (1e-3, 1e-15)
] + [(3, 0.1, 1e-6), (1000, 5.0, 1e-9), (30, 0.5, 0.2)]


@pytest.mark.parametrize(("k", "epsilon", "delta"), CASES)
@pytest.mark.one_in(3)
def test_exact_scale_is_safe_and_tight(k, epsilon, delta):
    """delta at the returned scale is at most the request; a scale larger by 2e-9 would break it."""
    scale = certified_scale(epsilon, delta, k)
    assert oracle_delta(scale, k, epsilon, near=delta) <= delta
    assert oracle_delta(scale * (1 + 2e-9), k, epsilon, near=delta) > delta


@pytest.mark.parametrize(
    ("k", "epsilon", "scale", "excess"), [(1, 0.5, 0.4, 0.0), (20, 1.0, 0.2, 1e-3), (1000, 3.0, 1.1, 0.02)]
)
def test_delta_upper_encloses_mpmath(k, epsilon, scale, excess):
    true = oracle_delta(scale, k, epsilon, excess, near=1e-9)
    upper = projection_delta_upper(scale, k, epsilon, excess)
    assert true <= upper <= true * (1 + mpmath.mpf(10) ** -9)
    assert math.exp(_log_delta(scale, k, epsilon, excess)) == pytest.approx(float(true), rel=1e-9)


def test_curve_is_the_average_of_gaussian_curves():
    """Simulated over the law of w; the mean of 400,000 terms, accepted within 6 standard errors."""
    rng = np.random.default_rng(3)
    for k, scale, epsilon in [(1, 0.8, 0.5), (5, 2.0, 1.0)]:
        terms = gaussian_delta(scale * np.sqrt(rng.chisquare(k, 400_000) / k), epsilon)
        error = terms.std() / math.sqrt(terms.size)
        assert abs(math.exp(_log_delta(scale, k, epsilon, 0.0)) - terms.mean()) < 6 * error
        assert abs(math.exp(_log_delta(scale / 0.9, k, epsilon, 0.0)) - terms.mean()) > 20 * error


@pytest.mark.parametrize("k", [1, 20, 1000])
def test_epsilon_and_delta_are_inverse(k):
    scale = certified_scale(2.0, 1e-6, k)
    assert projection_epsilon_upper(scale, k, 1e-6) == pytest.approx(2.0, rel=1e-8)
    for delta in (1e-3, 1e-9):
        epsilon = projection_epsilon_upper(scale, k, delta)
        assert projection_delta_upper(scale, k, epsilon) <= delta * (1 + 1e-12)
        assert projection_delta_upper(scale, k, epsilon * (1 - 1e-7)) > delta
    assert projection_epsilon_upper(scale, k, 1.0) == 0.0
    assert projection_epsilon_upper(scale, k, 0.0) == math.inf


def test_many_columns_approach_the_gaussian_curve():
    limit = certified_mu(1.0, 1e-6)
    gaps = [1 - certified_scale(1.0, 1e-6, k) / limit for k in (10, 100, 1000, 10_000)]
    assert all(gap > 0 for gap in gaps)
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-3


def test_excess_costs_what_it_adds():
    """Shifts longer by a share t of the typical one need between 0 and t more noise when w >= 1 carries delta."""
    plain = certified_scale(1.0, 1e-6, 20)
    for excess in (1e-6, 1e-2, 0.3):
        ratio = plain / certified_scale(1.0, 1e-6, 20, excess)
        assert 1 < ratio < 1 + excess


# The published theorems --------------------------------------------------------------------------------


def gauss_noise(epsilon, delta):
    return math.sqrt(2 * (math.log(1 / (2 * delta)) + epsilon)) / epsilon


@pytest.mark.parametrize("k", [1, 20, 1000])
def test_tail_calibration_is_theorem_one_repaired(k):
    epsilon, delta = 0.7, 1e-5
    log = math.log(2 / delta)
    noise = math.sqrt(k + 2 * math.sqrt(k * log) + 2 * log) * gauss_noise(epsilon, delta / 2)
    scale = certified_scale(epsilon, delta, k, calibration="tail")
    assert scale == pytest.approx(math.sqrt(k) / noise, rel=1e-14)
    assert projection_delta_upper(scale, k, epsilon) <= delta


@pytest.mark.parametrize("k", [1, 20, 1000])
def test_composition_calibration_is_theorem_two_repaired(k):
    epsilon, delta = 0.7, 1e-5
    linear = math.sqrt(2 * k * math.log(2 / delta))
    each = (math.sqrt(linear**2 + 8 * k * epsilon) - linear) / (4 * k)
    # the k columns compose to epsilon by the advanced theorem
    assert linear * each + k * each * math.expm1(each) <= epsilon
    noise = math.sqrt(2 * math.log(4 * k / delta)) * gauss_noise(each, delta / (4 * k))
    scale = certified_scale(epsilon, delta, k, calibration="composition")
    assert scale == pytest.approx(math.sqrt(k) / noise, rel=1e-12)
    assert projection_delta_upper(scale, k, epsilon) <= delta


@pytest.mark.parametrize(
    ("calibration", "k", "epsilon", "low", "high"),
    [
        ("tail", 1, 0.1, 18, 19),
        ("tail", 1, 1.0, 11, 12),
        ("tail", 1000, 1.0, 2.0, 2.2),
        ("composition", 1, 0.99, 300, 306),
        ("composition", 1000, 0.1, 4100, 4300),
    ],
)
def test_noise_variance_saved_against_the_theorems(calibration, k, epsilon, low, high):
    """At delta = 1e-6 the exact curve needs so many times less noise variance."""
    exact, published = (certified_scale(epsilon, 1e-6, k, calibration=c) for c in ("exact", calibration))
    assert low < (exact / published) ** 2 < high


# Pairs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 20, 1000])
def test_reach_holds_its_tail(k):
    for slack in (0.3, 1e-6, 1e-15):
        w = chi_reach_upper(k, slack)
        assert chi2.sf(k * w * w, k) == pytest.approx(slack, rel=1e-9)
        with mpmath.workdps(40):
            half = mpmath.mpf(k) / 2
            assert mpmath.gammainc(half, half * mpmath.mpf(w) ** 2, regularized=True) <= slack


@pytest.mark.parametrize("k", [1, 20, 1000])
def test_pair_lies_above_the_curve(k):
    privacy = ProjectionPrivacy(k, certified_scale(1.0, 1e-6, k, 1e-5), 1e-5, 1e-6)
    for pair in (privacy.as_pair(), privacy.as_pair(1e-4), privacy.as_pair(1e-12)):
        for epsilon in (0.0, 0.1, 1.0, 3.0, 10.0):
            assert privacy.delta(epsilon) <= pair.delta(epsilon)
    best = privacy.as_pair().epsilon(1e-6)
    assert best < min(privacy.as_pair(1e-6 * share).epsilon(1e-6) for share in (0.99, 1e-3))
    assert best > 1.0


def test_composes_with_other_releases():
    privacy = ProjectionPrivacy(50, certified_scale(1.0, 1e-6, 50), 0.0, 1e-6)
    pair, total = privacy.as_pair(), compose([privacy, Privacy(0.3)])
    assert total.mu == pytest.approx(math.hypot(pair.mu, 0.3))
    assert total.slack == pair.slack
    with pytest.raises(UsageError):
        compose([privacy, Privacy(0.3, 0.0, "add_remove")])


def test_round_trip():
    privacy = ProjectionPrivacy(50, 0.2, 1e-6, 1e-6)
    assert ProjectionPrivacy.from_dict(privacy.to_dict()) == privacy
    with pytest.raises(UsageError):
        ProjectionPrivacy.from_dict({"k": 50})


@pytest.mark.parametrize(
    "arguments",
    [
        {"epsilon": 0.0, "delta": 1e-6, "k": 5},
        {"epsilon": 1.0, "delta": 0.0, "k": 5},
        {"epsilon": 1.0, "delta": 1e-6, "k": 0},
        {"epsilon": 1.0, "delta": 1e-6, "k": 2.5},
        {"epsilon": 1.0, "delta": 1e-6, "k": 5, "excess": -1.0},
        {"epsilon": 1.0, "delta": 1e-6, "k": 5, "calibration": "guess"},
        {"epsilon": 1.0, "delta": 1e-6, "k": 5, "calibration": "composition"},
        {"epsilon": 0.5, "delta": 0.5, "k": 5, "calibration": "tail"},
    ],
)
def test_wrong_arguments_are_refused(arguments):
    with pytest.raises(UsageError):
        certified_scale(**arguments)
