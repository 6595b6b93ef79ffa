"""The weighted chi-square law against closed forms, high precision, an oscillatory integral and simulation."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from ellipsum.errors import UsageError
from ellipsum.numerics import contour
from ellipsum.numerics.weighted_chisquare import WeightedChiSquare, tail_bound

ACCURACY = 1e-10  # what the class promises
TAILS = [1e-300, 1e-100, 1e-30, 1e-10, 1e-3, 0.05, 0.3, 0.5, 0.7, 0.99]
KINDS = ("chernoff", "laurent_massart", "chebyshev")


def zipf(d, alpha):
    return np.arange(1.0, d + 1) ** -alpha


@pytest.mark.parametrize("d", [1, 2, 3, 4, 7, 10, 30, 100, 1000, 10_000])
def test_equal_weights_are_chi_square(d):
    law = WeightedChiSquare(np.full(d, 0.7))
    x = 0.7 * stats.chi2.isf(TAILS, d)
    assert law.logsf(x) == pytest.approx(stats.chi2.logsf(x / 0.7, d), abs=ACCURACY)
    assert law.isf(TAILS) == pytest.approx(x, rel=ACCURACY)
    assert np.log(law.pdf(x)) == pytest.approx(stats.chi2.logpdf(x / 0.7, d) - math.log(0.7), abs=ACCURACY)


@pytest.mark.parametrize("d", [1, 2, 3, 10, 100, 1000, 10_000])
def test_lower_tail_of_equal_weights(d):
    law = WeightedChiSquare(np.full(d, 0.7))
    x = law.ppf(TAILS)
    seen = x > 1e-290
    with mp.workdps(40):
        want = [float(mp.log(mp.gammainc(mp.mpf(d) / 2, 0, mp.mpf(v) / 1.4, regularized=True))) for v in x[seen]]
    assert np.log(TAILS)[seen] == pytest.approx(want, abs=ACCURACY)
    assert law.logcdf(x[seen]) == pytest.approx(want, abs=ACCURACY)


@pytest.mark.parametrize("x", [1e6 - 5e4, 1e6 - 3e3, 1e6 + 4e3, 1e6 + 5e4])
def test_a_million_equal_weights(x):
    # scipy's own error here is near 1e-9, so the reference is 40 digits of the incomplete gamma function
    law = WeightedChiSquare(np.ones(10**6))
    with mp.workdps(40):
        half, at = mp.mpf(500_000), mp.mpf(x) / 2
        log_density = half * mp.log(at) - at - mp.loggamma(half) - mp.log(x)
        # P[Y > x] (upper) or P[Y <= x] (lower) over the density, by the continued fraction or the series
        if x > 1e6:
            fraction = mp.mpf(0)
            for k in range(40_000, 0, -1):
                fraction = k * (half - k) / (at + 2 * k + 1 - half + fraction)
            ratio = 2 * at / (at + 1 - half + fraction)
        else:
            ratio, term, k = mp.mpf(0), 2 * at / half, 0
            while term > mp.mpf(10) ** -30:
                ratio, k = ratio + term, k + 1
                term *= at / (half + k)
        want = float(log_density + mp.log(ratio))
    got = law.logsf(x) if x > 1e6 else law.logcdf(x)
    assert got == pytest.approx(want, abs=ACCURACY)
    assert math.log(law.pdf(x)) == pytest.approx(float(log_density), abs=ACCURACY)


@pytest.mark.parametrize("small", [1.0, 0.3, 1e-3, 1e-12])
@pytest.mark.parametrize("x", [1e-8, 1e-3, 0.4, 3.0, 60.0, 1300.0])
def test_two_weights_in_polar_coordinates(small, x):
    # P[Y > x] = mean over a quarter circle of exp(-x / (2 (cos^2 + small sin^2)))
    with mp.workdps(25):

        def exponent(angle):
            return -mp.mpf(x) / (2 * (mp.cos(angle) ** 2 + mp.mpf(small) * mp.sin(angle) ** 2))

        def raised(angle):  # quad works to absolute accuracy, so the largest value is made 1
            return mp.exp(exponent(angle) + mp.mpf(x) / 2)

        near = [mp.mpf(10) ** -k for k in range(10, 0, -2)]
        quarter = [0, *near, mp.pi / 4, *(mp.pi / 2 - v for v in reversed(near)), mp.pi / 2]
        log_sf = mp.log(2 / mp.pi * mp.quad(raised, quarter)) - mp.mpf(x) / 2
        log_cdf = mp.log(2 / mp.pi * mp.quad(lambda v: -mp.expm1(exponent(v)), quarter))
    law = WeightedChiSquare([1.0, small])
    assert law.logsf(x) == pytest.approx(float(log_sf), abs=ACCURACY)
    assert law.logcdf(x) == pytest.approx(float(log_cdf), abs=ACCURACY)


def paired(weights, x):
    """(sf, cdf) for weights that each occur twice: a sum of exponentials with means 2 a, by partial fractions."""
    with mp.workdps(600):
        means = [2 * mp.mpf(float(a)) for a in weights]
        sf = mp.mpf(0)
        for i, mean in enumerate(means):
            factor = mp.exp(-mp.mpf(float(x)) / mean)
            for k, other in enumerate(means):
                factor *= mean / (mean - other) if k != i else 1
            sf += factor
        return mp.log(sf), mp.log(1 - sf)


@pytest.mark.parametrize("half", [1, 2, 3, 10, 25])
@pytest.mark.parametrize("span", [0.05, 1.0, 12.0])
def test_paired_weights_by_partial_fractions(half, span):
    weights = 10.0 ** -np.linspace(0.0, span, half)
    law = WeightedChiSquare(np.repeat(weights, 2))
    for p in (1e-250, 1e-12, 0.2, 0.9):
        x = law.isf(p)
        log_sf, log_cdf = paired(weights, x)
        assert law.logsf(x) == pytest.approx(float(log_sf), abs=ACCURACY)
        assert law.logcdf(x) == pytest.approx(float(log_cdf), abs=ACCURACY)
        low = law.ppf(max(p, 1e-100))
        log_sf, log_cdf = paired(weights, low)
        assert law.logcdf(low) == pytest.approx(float(log_cdf), abs=ACCURACY)


@pytest.mark.parametrize("x", [0.01, 0.5, 2.0, 30.0])
def test_three_weights_by_one_integral(x):
    # weights (a, b, b): given Z_1 the other two are exponential
    a, b = 0.8, 0.15
    with mp.workdps(30):
        edge = mp.sqrt(mp.mpf(x) / a)

        def inside(z):
            return mp.npdf(z) * mp.exp(-(x - a * z * z) / (2 * b))

        want = 2 * mp.quad(inside, mp.linspace(0, edge, 12)) + mp.erfc(edge / mp.sqrt(2))
    assert WeightedChiSquare([b, a, b]).sf(x) == pytest.approx(float(want), rel=ACCURACY)


def imhof(weights, x):
    """P[Y > x] by an oscillatory integral (Imhof 1961), and a bound on what the cut tail holds."""
    end = 3000.0 / weights.max()
    places, shares = np.polynomial.legendre.leggauss(20)
    edges = np.concatenate([[0.0], np.geomspace(1e-3 / weights.max(), 1.0 / x, 20), np.arange(2.0 / x, end, 1.0 / x)])
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    u = (middle[:, None] + half[:, None] * places).ravel()
    turned = np.multiply.outer(u, weights)
    decay = np.exp(-0.25 * np.log1p(turned**2).sum(axis=1))
    values = np.sin(0.5 * np.arctan(turned).sum(axis=1) - 0.5 * x * u) * decay / u
    left_out = 2 / (math.pi * weights.size) * np.exp(-0.5 * np.log(end * weights).sum())
    return 0.5 + values @ (half[:, None] * shares).ravel() / math.pi, left_out


@pytest.mark.one_in(9)
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("share", [0.5, 1.0, 2.0])
def test_body_agrees_with_an_oscillatory_integral(alpha, share):
    weights = zipf(20, alpha) / zipf(20, alpha).sum()
    want, left_out = imhof(weights, share)
    assert left_out < 1e-11
    assert WeightedChiSquare(weights).sf(share) == pytest.approx(want, abs=1e-11)


def test_simulation():
    rng = np.random.default_rng(20240501)
    weights, draws = zipf(30, 1.0), 400_000
    values = rng.standard_normal((draws, 30)) ** 2 @ weights
    law = WeightedChiSquare(weights)
    for p in (0.9, 0.5, 0.1, 0.01, 1e-3):
        spread = math.sqrt(p * (1 - p) / draws)
        found = np.mean(values > law.isf(p))
        assert abs(found - p) < 6 * spread
        # and the same test rejects a quantile that is 10% off
        assert abs(np.mean(values > 1.1 * law.isf(p)) - p) > 6 * spread
    assert abs(values.mean() - law.mean()) < 6 * math.sqrt(law.var() / draws)
    assert law.var() == pytest.approx(2 * np.sum(weights**2), rel=1e-14)


@pytest.mark.parametrize("name", ["uniform", "log_uniform", "zipf", "two_levels", "close"])
def test_compression_changes_nothing(name, monkeypatch):
    rng = np.random.default_rng(3)
    weights = {
        "uniform": rng.random(6000),
        "log_uniform": 10.0 ** rng.uniform(-12, 0, 6000),
        "zipf": zipf(6000, 1.0),
        "two_levels": np.repeat([1.0, 1e-4], 3000),
        "close": 1 + 1e-3 * rng.random(6000),
    }[name]
    compressed = WeightedChiSquare(weights)
    assert compressed._spectrum.nodes.size < 6000 or name == "log_uniform"
    monkeypatch.setattr(contour, "KEPT_WHOLE", 10**9)
    whole = WeightedChiSquare(weights)
    for p in (1e-300, 1e-20, 1e-3, 0.5, 0.99):
        x, low = whole.isf(p), whole.ppf(p)
        assert compressed.logsf(x) == pytest.approx(math.log(p), abs=ACCURACY)
        assert whole.logsf(x) == pytest.approx(math.log(p), abs=ACCURACY)
        assert compressed.logcdf(low) == pytest.approx(whole.logcdf(low), abs=ACCURACY)


def test_beyond_the_reach_of_compression():
    # a tail of e^-30000 pulls the saddle point into the compressed weights: the exact ones take over
    weights = np.full(5000, 0.5)
    law = WeightedChiSquare(weights)
    x = 40_000.0
    with mp.workdps(40):
        half, at = mp.mpf(2500), mp.mpf(x)
        fraction = mp.mpf(0)
        for k in range(400, 0, -1):
            fraction = k * (half - k) / (at + 2 * k + 1 - half + fraction)
        want = half * mp.log(at) - at - mp.loggamma(half) - mp.log(at + 1 - half + fraction)
    assert law.logsf(x) == pytest.approx(float(want), abs=ACCURACY)


@pytest.mark.parametrize("d", [1, 2, 5, 50, 3000])
@pytest.mark.parametrize("span", [0.0, 3.0, 12.0])
def test_quantile_inverts_the_tail(d, span):
    rng = np.random.default_rng(d)
    law = WeightedChiSquare(10.0 ** rng.uniform(-span, 0, d) if span else np.ones(d))
    logs = -np.array([690.0, 100.0, 10.0, 1.0, 0.1, 1e-3])
    assert law.logsf(law.isf(logs, log=True)) == pytest.approx(logs, rel=ACCURACY)
    lower = law.ppf(logs, log=True)
    seen = lower > 1e-270
    assert law.logcdf(lower[seen]) == pytest.approx(logs[seen], rel=ACCURACY)


def test_vectors_shapes_and_edges():
    law = WeightedChiSquare([0.0, 1.0, 0.5])
    x = np.array([[-1.0, 0.0, 0.5], [np.inf, np.nan, 4.0]])
    assert law.sf(x).shape == (2, 3)
    assert law.sf(x)[0, :2].tolist() == [1.0, 1.0]
    assert law.cdf(x)[0, :2].tolist() == [0.0, 0.0]
    assert law.sf(np.inf) == 0.0
    assert law.cdf(np.inf) == 1.0
    assert np.isnan(law.sf(x)[1, 1])
    assert isinstance(law.sf(1.0), float)
    assert law.sf(x)[1, 2] == pytest.approx(law.sf(4.0), rel=1e-12)
    assert law.isf(0.0) == math.inf
    assert law.isf(1.0) == 0.0
    assert law.ppf(1.0) == math.inf
    assert law.sf(np.array([])).size == 0
    assert law.pdf([-1.0, 0.0]) == pytest.approx([0.0, 0.5 / math.sqrt(0.5)], rel=1e-14)
    assert WeightedChiSquare([3.0]).pdf(0.0) == math.inf
    assert WeightedChiSquare([1.0, 1.0, 1.0]).pdf(0.0) == 0.0
    dense = np.linspace(0.01, 30, 400)
    assert (np.diff(law.sf(dense)) < 0).all()
    assert law.sf(dense) == pytest.approx([law.sf(v) for v in dense], rel=ACCURACY)
    assert law.sf(dense) + law.cdf(dense) == pytest.approx(np.ones(400), abs=1e-14)


def test_density_is_the_slope_of_the_tail():
    law = WeightedChiSquare(zipf(8, 1.0))
    x, h = np.array([0.2, 1.0, 5.0, 40.0]), 1e-4
    slope = (law.sf(x * (1 - h)) - law.sf(x * (1 + h))) / (2 * h * x)
    # central difference: error h^2 times a third derivative of order 1 (in log x up to (20)^2)
    assert law.pdf(x) == pytest.approx(slope, rel=1e-5)


def test_conditional_moments_are_the_slope_of_the_quantile():
    weights, p, h = zipf(6, 1.5), 1e-4, 1e-5
    law = WeightedChiSquare(weights)
    moments = law.conditional_moments(law.isf(p))
    for j in range(6):
        step = np.where(np.arange(6) == j, h * weights[j], 0.0)
        change = WeightedChiSquare(weights + step).isf(p) - WeightedChiSquare(weights - step).isf(p)
        # a central difference: rounding 1e-14 x / (2 h a_j), truncation h^2
        assert moments[j] == pytest.approx(change / (2 * h * weights[j]), rel=1e-6)


@pytest.mark.parametrize("d", [1, 3, 40, 5000])
def test_conditional_moments_add_up(d):
    rng = np.random.default_rng(d)
    weights = 10.0 ** rng.uniform(-6, 0, d)
    law = WeightedChiSquare(weights)
    for p in (1e-100, 1e-3, 0.5, 0.999):
        x = law.isf(p)
        moments = law.conditional_moments(x)
        assert weights @ moments == pytest.approx(x, rel=ACCURACY)
        assert (moments > 0).all()
    assert WeightedChiSquare(np.ones(d)).conditional_moments(7.0) == pytest.approx(np.full(d, 7.0 / d), rel=ACCURACY)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("d", [1, 2, 30, 3000])
def test_bounds_lie_above_the_quantile(kind, alpha, d):
    weights = zipf(d, alpha)
    law = WeightedChiSquare(weights)
    for p in (1e-12, 1e-6, 1e-3, 0.02, 0.3):
        assert tail_bound(weights, p, kind) >= law.isf(p) * (1 - 1e-12)


def test_chernoff_is_the_tightest_exponential_bound():
    for alpha in (0.0, 1.0, 3.0):
        for p in (1e-9, 1e-3, 0.3):
            weights = zipf(50, alpha)
            chernoff = tail_bound(weights, p)
            assert chernoff <= tail_bound(weights, p, "laurent_massart")
            # a brute-force minimum over s cannot be lower
            s = np.linspace(0.001, 0.999, 999) / 2
            values = (-0.5 * np.log1p(-2 * np.outer(s, weights)).sum(axis=1) - math.log(p)) / s
            assert chernoff <= values.min() * (1 + 1e-12)
            assert chernoff >= values.min() * (1 - 1e-2)
    # for large p the variance alone does better
    assert tail_bound(np.ones(5), 0.3, "chebyshev") < tail_bound(np.ones(5), 0.3)


def test_bernstein_refuses_outside_its_condition():
    flat = np.ones(400)
    assert tail_bound(flat, 1e-6, "bernstein") >= WeightedChiSquare(flat).isf(1e-6)
    weights = zipf(100, 2.0) / zipf(100, 2.0).sum()
    formula = 1 + math.sqrt(8 * math.log(1000) * np.sum(weights**2))
    assert formula < WeightedChiSquare(weights).isf(1e-3)  # why it must refuse here: it is no bound
    with pytest.raises(UsageError, match=r"bernstein.*holds only"):
        tail_bound(weights, 1e-3, "bernstein")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: WeightedChiSquare([]), "non-empty"),
        (lambda: WeightedChiSquare([0.0, 0.0]), "At least one"),
        (lambda: WeightedChiSquare([1.0, -1.0]), ">= 0"),
        (lambda: WeightedChiSquare([1.0, math.nan]), "finite"),
        (lambda: WeightedChiSquare([1.0]).isf(-0.1), "between 0 and 1"),
        (lambda: WeightedChiSquare([1.0]).isf(math.nan), "between 0 and 1"),
        (lambda: WeightedChiSquare([1.0]).isf(0.5, log=True), "<= 0"),
        (lambda: WeightedChiSquare([1.0]).conditional_moments(0.0), "> 0"),
        (lambda: tail_bound([1.0], 0.0), "between 0 and 1"),
        (lambda: tail_bound([1.0], 0.1, "markov"), "one of"),
    ],
)
def test_refusals_in_one_line(make, words):
    with pytest.raises(UsageError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)
