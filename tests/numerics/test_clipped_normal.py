"""What clipping removes: against quadrature, high precision, finite differences and exact one-dimensional laws."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, optimize, stats

from ellipsum.numerics.clipped_normal import Offsets, clipped, error_and_slope, removal, scaled_transforms
from ellipsum.regions.normal_shape import optimal_shape

WEIGHTS = np.array([0.4, 0.25, 0.1, 0.02])


@pytest.mark.parametrize("w", [1e-6, 0.01, 1.0, 10.0, 39.9, 40.1, 1e4, 1e-3j, 1 + 20j, 30j, 41j, -5 + 10j, -20 + 30j])
def test_transforms_of_the_clip_functions(w):
    first, second = scaled_transforms(np.array([w + 0j]))
    with mp.workdps(40):
        point = mp.mpmathify(w)
        half = mp.sqrt(mp.pi / point) * mp.exp(point) * mp.erfc(mp.sqrt(point))
        want_first = complex(1 / point - half)
        want_second = complex(1 / point - 2 * half + mp.exp(point) * mp.e1(point))
    # 1/w cancels down to 1/(2 w^2) and 1/(2 w^3), a loss of 2 |w| = 80 and 2 |w|^2 = 3200 at most, from parts
    # good to 10 roundings (1e-15), 10 times worse left of the imaginary axis where e^w E1(w) itself cancels
    assert abs(first[0] - want_first) < 1e-12 * abs(want_first)
    assert abs(second[0] - want_second) < 4e-11 * abs(want_second)


def by_quadrature(d, limit, power):
    """E[(1 - sqrt(limit/Y))_+^power] for Y chi-square with d degrees of freedom."""
    spread = math.sqrt(2 * d)
    marks = [m for m in (d - 8 * spread, d - 3 * spread, d, d + 3 * spread, d + 8 * spread) if m > limit]
    low = max(limit, d - 40 * spread)
    edges = [low, *(m for m in marks if m > low), max(limit, d) + 60 * spread + 60]
    parts = [
        integrate.quad(
            lambda y: (1 - math.sqrt(limit / y)) ** power * stats.chi2.pdf(y, d),
            a,
            b,
            epsabs=0,
            epsrel=1e-11,
            limit=200,
        )[0]
        for a, b in itertools.pairwise(edges)
    ]
    return sum(parts)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("d", [1, 2, 3, 10, 100, 1000])
@pytest.mark.parametrize("share", [1e-3, 0.1, 0.5, 0.9, 1.0, 1.2, 2.0])
def test_equal_weights_by_quadrature(d, share):
    limit = share * d
    found = clipped(np.full(d, 1 / limit))
    for power, values in ((1, found.first), (2, found.second)):
        assert values.imag.sum() == pytest.approx(by_quadrature(d, limit, power), rel=1e-9)
        # Z_j^2 f(Y) is the law with two more degrees of freedom
        three = found.moments(np.full(1, 1 / limit))[power - 1][0]
        assert three == pytest.approx(by_quadrature(d + 2, limit, power), rel=1e-9)


@pytest.mark.parametrize("scale", [50.0, 1e3, 1e6, 1e12])
def test_one_wide_weight_beside_many_narrow_ones(scale):
    """Every row is clipped, although 1 is within few standard deviations of the mean."""
    weights, counts = scale * np.array([1.0, 1e-4]), np.array([1.0, 999.0])
    found = clipped(weights, counts).moments(weights)
    nodes, shares = np.polynomial.legendre.leggauss(400)
    z, z_shares = 6 * (nodes + 1), 6 * shares

    def expected(power, degrees, of_z):
        low, high = stats.chi2.ppf(1e-30, degrees), stats.chi2.isf(1e-30, degrees)
        narrow, density = low + (high - low) * (nodes + 1) / 2, (high - low) / 2 * shares
        total = weights[0] * z[:, None] ** 2 + weights[1] * narrow
        values = (1 - total**-0.5) ** power * stats.chi2.pdf(narrow, degrees) * density
        return 2 * (of_z * stats.norm.pdf(z) * z_shares) @ values.sum(axis=1)

    for power in (1, 2):
        want = expected(power, 999, z**2), expected(power, 1001, 1.0)
        np.testing.assert_allclose(found[power - 1], want, rtol=1e-9)


@pytest.mark.parametrize("scale", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("small", [0.3, 1e-3])
def test_two_weights_in_polar_coordinates(scale, small):
    weights = scale * np.array([1.0, small])
    found = clipped(weights).moments(weights)
    for power in (1, 2):
        for j, part in enumerate((math.cos, math.sin)):

            def ring(angle, power=power, part=part):
                stretch = weights[0] * math.cos(angle) ** 2 + weights[1] * math.sin(angle) ** 2
                edge = 1 / math.sqrt(stretch)

                def ray(r):
                    return r**3 * math.exp(-r * r / 2) * (1 - edge / r) ** power

                return part(angle) ** 2 * integrate.quad(ray, edge, edge + 15, epsabs=0, epsrel=1e-11)[0]

            want = 2 / math.pi * integrate.quad(ring, 0, math.pi / 2, epsabs=0, epsrel=1e-10, limit=400)[0]
            assert found[power - 1][j] == pytest.approx(want, rel=1e-8)


@pytest.mark.parametrize("share", [1e-3, 0.1, 0.5, 0.9])
def test_all_rows_clipped_in_many_dimensions(share):
    # Y is so concentrated that P[Y < 1] vanishes and E(1 - Y^-1/2)^2 has a closed form
    d = 100_000
    weights = np.full(d, 1 / (share * d))
    found = clipped(weights)
    half = math.exp(math.lgamma((d - 1) / 2) - math.lgamma(d / 2)) / math.sqrt(2 * weights[0])
    inverse = 1 / ((d - 2) * weights[0])
    # lgamma of 5e4 is rounded to 6e-11; what is left of 1 after the cancellation is (1 - sqrt(share))^power
    rest = 1 - math.sqrt(share)
    assert found.first.imag.sum() == pytest.approx(1 - half, rel=2e-10 / rest)
    assert found.second.imag.sum() == pytest.approx(1 - 2 * half + inverse, rel=4e-10 / rest**2)


@pytest.mark.parametrize("n", [1, 50, 10**6])
@pytest.mark.parametrize("center_error", [0.0, 0.1, 1.0])
def test_slope_is_the_derivative_of_the_error(n, center_error):
    offsets = Offsets.about(np.sqrt(WEIGHTS), np.full(4, center_error), np.array([1.0, 2.0, 0.5, 1.0]))
    weights = WEIGHTS * 0.8
    total, slope, noise = error_and_slope(offsets, weights, n, 3.0)
    assert noise.sum() + removal(offsets, weights).error(offsets, n) == pytest.approx(total, rel=1e-10)
    for j in range(4):
        step = np.where(np.arange(4) == j, 1e-4, 0.0)
        up, down = (error_and_slope(offsets, weights * np.exp(s), n, 3.0)[0] for s in (step, -step))
        # central difference: truncation 1e-8 relative, rounding 1e-11 / 1e-4
        assert slope[j] == pytest.approx((up - down) / 2e-4, abs=1e-6 * total)


def test_counts_stand_for_repeated_coordinates():
    stds, counts = np.array([1.0, 0.3]), np.array([3.0, 5.0])
    few = Offsets(stds, np.full(2, 0.01), np.ones(2), counts)
    many = Offsets.about(np.repeat(stds, [3, 5]) / np.sqrt(1 + 0.01 / 0.99), np.full(8, math.sqrt(0.01 / 0.99)))
    weights = np.array([0.2, 0.07])
    few_total, few_slope, _ = error_and_slope(few, weights, 1000, 5.0)
    many_total, many_slope, _ = error_and_slope(many, np.repeat(weights, [3, 5]), 1000, 5.0)
    assert few_total == pytest.approx(many_total, rel=1e-10)
    assert few_slope / counts == pytest.approx(many_slope[[0, 3]], rel=1e-8)


def exact_common(center_error, radius):
    """E_e (E[r | e])^2 for one coordinate of std 1: E[r | e] = h(e - C) - h(-e - C), h(m) = m Phi(m) + phi(m)."""

    def hinge(m):
        return m * stats.norm.cdf(m) + stats.norm.pdf(m)

    places, shares = np.polynomial.hermite_e.hermegauss(180)
    e = center_error * places
    return float(shares @ (hinge(e - radius) - hinge(-e - radius)) ** 2 / shares.sum())


@pytest.mark.parametrize("center_error", [0.03, 0.1, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("radius", [0.01, 1.0, 3.0, 5.0])
def test_bias_of_an_uncertain_center_in_one_dimension(center_error, radius):
    offsets = Offsets.about(np.ones(1), np.full(1, center_error))
    found = removal(offsets, (offsets.stds / radius) ** 2)
    square, share = float(offsets.stds[0] ** 2), float(offsets.shared[0])
    exact = exact_common(center_error, radius) / square
    first, second = float(found.first[0]), float(found.second[0])
    # the bounds of [E14], up to the accuracy of the reference quadrature (differences of size 1e-16)
    assert share * first**2 <= exact * (1 + 1e-9) + 1e-16
    assert exact <= share * second * (1 + 1e-9) + 1e-16
    # and the estimate: never below in this family, and exact where clipping takes all or nothing of the center
    assert exact <= found.common[0] * (1 + 1e-9) + 1e-16
    if radius == 0.01 or center_error <= 0.03:
        assert found.common[0] == pytest.approx(exact, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("center_error", [0.03, 0.1, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("n", [10, 10**3, 10**6, 10**9, 10**12])
def test_what_the_estimate_of_the_bias_costs(center_error, n):
    # the figures that [E14] states, at epsilon = 1, delta = 1e-6
    multiplier = 2 / 0.2367
    offsets = Offsets.about(np.ones(1), np.full(1, center_error))

    def exact(log_radius):
        radius = math.exp(log_radius)
        second = removal(offsets, (offsets.stds / radius) ** 2).second[0]
        each = n * offsets.stds[0] ** 2 * second + n * (n - 1) * exact_common(center_error, radius)
        return float(math.log((multiplier * radius) ** 2 + each))

    chosen = optimal_shape(np.ones(1), n, multiplier, center_error)
    best = optimize.minimize_scalar(exact, bounds=(-4, 4), method="bounded", options={"xatol": 1e-7})
    actual = exact(math.log(chosen.radius))
    assert actual - best.fun <= math.log(1.027)
    assert -1e-9 <= math.log(chosen.error) - actual <= math.log(1.073)
