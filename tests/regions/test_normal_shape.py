"""Shapes and radii for normal rows: published figures, optimality, forecasts against simulation."""

import math

import numpy as np
import pytest

from ellipsum import Normal
from ellipsum.errors import UsageError
from ellipsum.numerics.clipped_normal import Offsets, error_and_slope, removal
from ellipsum.numerics.weighted_chisquare import WeightedChiSquare, tail_bound
from ellipsum.privacy.budget import Budget
from ellipsum.regions import normal_shape as shape_normal
from ellipsum.regions.normal_shape import (
    ball_scale,
    closed_form_scale,
    lay_normal,
    normal_shape,
    optimal_radius,
    optimal_shape,
    quantile_optimal_scale,
    quantile_radius,
)

MULTIPLIER = 2 / Budget(epsilon=1.0, delta=1e-6).mu


def zipf(d, alpha):
    return np.arange(1.0, d + 1) ** -alpha


def source_rule(stds, n, center_error=0.0):
    """Closed-form scale, clipped with probability 1/n."""
    scale = closed_form_scale(stds)
    return normal_shape(stds, scale, quantile_radius(stds, scale, 1 / n), n, MULTIPLIER, center_error)


@pytest.mark.parametrize("scale", [closed_form_scale, ball_scale, lambda s: quantile_optimal_scale(s, 1e-3)])
def test_scales_are_normalized(scale):
    for stds in (zipf(7, 1.0), 1e-200 * zipf(7, 1.0), zipf(100, 70.0), np.ones(1)):
        assert np.sum((scale(stds) * stds) ** 2) == pytest.approx(1.0, rel=1e-12)


def test_closed_form_is_the_least_noise():
    stds, rng = zipf(12, 1.0), np.random.default_rng(1)
    best = np.sum(closed_form_scale(stds) ** -2.0)
    assert best == pytest.approx(stds.sum() ** 2, rel=1e-12)
    for _ in range(50):
        other = closed_form_scale(stds) * np.exp(0.1 * rng.standard_normal(12))
        other /= np.linalg.norm(other * stds)
        assert np.sum(other**-2.0) > best
    # with importances: sum w_j / b_j^2 = (sum s_j sqrt(w_j))^2
    weights = rng.uniform(0.1, 5.0, 12)
    found = closed_form_scale(stds, weights)
    assert np.sum(weights / found**2) == pytest.approx(np.sum(stds * np.sqrt(weights)) ** 2, rel=1e-12)


@pytest.mark.parametrize(
    ("d", "n", "alpha", "closed", "optimized"),
    [
        (10, 10**3, 1, 2.958, 3.443),
        (10, 10**6, 1, 3.190, 4.215),
        (100, 10**2, 1, 12.44, 13.94),
        (100, 10**2, 2, 56.1, 62.48),
        (100, 10**6, 1, 16.61, 24.70),
        (1000, 10**6, 1, 106.6, 163.0),
        (1000, 10**6, 2, 593.2, 750.3),
    ],
)
def test_ratios_of_noise_at_the_exact_quantile(d, n, alpha, closed, optimized):
    stds = zipf(d, alpha)

    def noise(scale):
        return quantile_radius(stds, scale, 1 / n) ** 2 * np.sum(scale**-2.0)

    flat = noise(ball_scale(stds))
    digits = 0.5 * 10.0 ** -(3 - math.floor(math.log10(closed))) * (10 if closed == 56.1 else 1)
    assert flat / noise(closed_form_scale(stds)) == pytest.approx(closed, abs=digits)
    # the last printed digit of the published figure may have been rounded up
    assert flat / noise(quantile_optimal_scale(stds, 1 / n)) >= optimized * (1 - 1e-4)


def test_quantile_optimum_is_stationary():
    stds, p = zipf(40, 1.3), 1e-5
    scale = quantile_optimal_scale(stds, p)
    law = WeightedChiSquare((scale * stds) ** 2)
    moments = law.conditional_moments(law.isf(p))
    constant = scale**2 * stds * np.sqrt(moments)  # [E12]
    assert constant == pytest.approx(np.full(40, constant.mean()), rel=1e-2)
    noisy = np.sum(scale**-2.0) * law.isf(p)
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = scale * np.exp(0.05 * rng.standard_normal(40))
        assert np.sum(other**-2.0) * WeightedChiSquare((other * stds) ** 2).isf(p) > noisy


def test_noise_of_the_source_theorem_holds_without_a_condition():
    # (2/mu)^2 S1 (S1 + 2 sqrt(L S2) + 2 smax L) bounds the noise at the exact quantile
    for alpha in (0.0, 1.0, 3.0):
        stds, n = zipf(50, alpha), 10**4
        bound = MULTIPLIER**2 * stds.sum() * tail_bound(stds, 1 / n, "laurent_massart")
        assert source_rule(stds, n).noise_error <= bound


@pytest.mark.parametrize(
    ("alpha", "n", "gain"), [(0.01, 10**3, 6.0), (1.0, 10**3, 5.0), (1.0, 10**4, 3.0), (1.0, 10**6, 1.8)]
)
def test_optimum_beats_the_source_rule(alpha, n, gain):
    stds = zipf(100, alpha)
    assert source_rule(stds, n).error >= gain * optimal_shape(stds, n, MULTIPLIER, 0.0).error


def simulated_error(stds, shape, n, center_error, repeats, seed):
    """Squared errors of simulated sums: rows N(c + e, stds^2), clipped, with noise."""
    rng = np.random.default_rng(seed)
    folded = shape.scale / shape.radius
    errors = np.empty(repeats)
    for k in range(repeats):
        rows = stds * (rng.standard_normal((n, stds.size)) + center_error * rng.standard_normal(stds.size))
        shrink = np.maximum(0.0, 1 - 1 / np.linalg.norm(rows * folded, axis=1))
        removed = shrink @ rows
        errors[k] = np.sum((MULTIPLIER / folded * rng.standard_normal(stds.size) - removed) ** 2)
    return errors


@pytest.mark.parametrize(("d", "alpha", "n"), [(1, 1.0, 300), (5, 1.0, 1000), (30, 1.0, 1000), (30, 0.01, 1000)])
def test_forecast_matches_simulation_for_an_exact_center(d, alpha, n):
    stds = zipf(d, alpha)
    shape = optimal_shape(stds, n, MULTIPLIER, 0.0)
    errors = simulated_error(stds, shape, n, 0.0, 1500, 7)
    spread = errors.std() / math.sqrt(errors.size)
    assert abs(errors.mean() - shape.error) < 6 * spread
    # the same test rejects a forecast that forgets the clipping, or takes the noise 20% too small
    assert abs(errors.mean() - shape.noise_error) > 6 * spread
    assert abs(errors.mean() - shape.clipping_error) > 6 * spread


@pytest.mark.one_in(3)
@pytest.mark.parametrize("center_error", [0.1, 0.5, 2.0])
@pytest.mark.parametrize(("d", "n"), [(1, 400), (8, 400), (60, 400)])
def test_forecast_matches_simulation_for_an_uncertain_center(d, n, center_error):
    stds = zipf(d, 1.0)
    shape = optimal_shape(stds, n, MULTIPLIER, center_error)
    offsets = Offsets.about(stds, np.full(d, center_error))
    found = removal(offsets, (shape.scale / shape.radius * offsets.stds) ** 2)
    row = n * offsets.stds**2 @ found.second
    low, high = (
        shape.noise_error + row + n * (n - 1) * (offsets.stds**2 * offsets.shared) @ part
        for part in (found.first**2, found.second)
    )
    errors = simulated_error(stds, shape, n, center_error, 2000, 11)
    spread = errors.std() / math.sqrt(errors.size)
    assert low - 6 * spread < errors.mean() < high + 6 * spread  # the bounds of [E14]
    assert low <= shape.error <= high
    # the estimate between them is within 10% and errs upwards
    assert errors.mean() - 6 * spread < shape.error < 1.1 * (errors.mean() + 6 * spread)


@pytest.mark.parametrize("d", [300, 1000, 2000])
@pytest.mark.parametrize(("n", "multiplier"), [(100, 1000.0), (100, 100.0), (10, 1e4)])
def test_one_wide_column_beside_many_where_noise_is_large(d, n, multiplier):
    stds = np.append(1.0, np.full(d - 1, 1e-4))
    shape = optimal_shape(stds, n, multiplier, 0.1)
    ball = normal_shape(stds, ball_scale(stds), optimal_radius(stds, ball_scale(stds), n, multiplier), n, multiplier)
    assert shape.error <= ball.error * (1 + 1e-9)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("center_error", [0.0, 0.1, 3.0])
@pytest.mark.parametrize("n", [1, 100, 10**4, 10**8, 10**12])
@pytest.mark.parametrize(("d", "alpha"), [(1, 0.0), (20, 1.0), (100, 1.0), (60, 100.0)])
def test_optimum_is_stationary(d, alpha, n, center_error):
    stds = zipf(d, alpha)
    shape = optimal_shape(stds, n, MULTIPLIER, center_error)
    offsets = Offsets.about(stds, np.full(d, center_error))
    weights = (shape.scale / shape.radius * offsets.stds) ** 2
    total, slope, _ = error_and_slope(offsets, weights, n, MULTIPLIER)
    assert total == pytest.approx(shape.error, rel=1e-9)
    assert np.abs(slope).max() < 1e-3 * total
    # no other shape of the power family does better at its own best radius
    for power in (0.5, 0.7, 1.0):
        scale = stds ** (-power)
        scale = scale / np.linalg.norm(scale * stds)
        radius = optimal_radius(stds, scale, n, MULTIPLIER, center_error)
        assert normal_shape(stds, scale, radius, n, MULTIPLIER, center_error).error >= total * (1 - 1e-6)
    # returning the stated center is never better
    square = float(offsets.stds**2 @ (1 + (n - 1) * offsets.shared)) * n
    assert total < square
    assert 0 < shape.clip_probability <= 1


def test_optimal_radius_is_the_least_along_its_ray():
    stds = zipf(30, 1.0)
    scale = closed_form_scale(stds)
    radius = optimal_radius(stds, scale, 5000, MULTIPLIER, 0.1)
    errors = [normal_shape(stds, scale, radius * f, 5000, MULTIPLIER, 0.1).error for f in (0.99, 1.0, 1.01)]
    assert errors[1] < min(errors[0], errors[2])


def test_grouping_loses_nothing_that_matters(monkeypatch):
    stds, errors = zipf(800, 0.8), np.linspace(0.0, 0.3, 800)
    importance = np.where(np.arange(800) % 2, 1.0, 3.0)
    whole = optimal_shape(stds, 10**5, MULTIPLIER, errors, importance)
    monkeypatch.setattr(shape_normal, "GROUPED", 400)
    grouped = optimal_shape(stds, 10**5, MULTIPLIER, errors, importance)
    offsets = Offsets.about(stds, errors, importance)

    def weighted(shape):
        weights = (shape.scale / shape.radius * offsets.stds) ** 2
        return error_and_slope(offsets, weights, 10**5, MULTIPLIER)[0]

    # spreads within 1/96 octave of their group's: second order in 0.7%
    assert weighted(grouped) == pytest.approx(weighted(whole), rel=1e-4)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("d", "alpha", "n"), [(10_000, 1.0, 10**5), (100_000, 0.01, 10**4), (100_000, 2.0, 10**9)])
def test_many_dimensions(d, alpha, n):
    stds = zipf(d, alpha)
    shape = optimal_shape(stds, n, MULTIPLIER, 0.1)
    assert np.isfinite(shape.scale).all()
    closed = closed_form_scale(stds)
    radius = optimal_radius(stds, closed, n, MULTIPLIER, 0.1)
    assert shape.error <= normal_shape(stds, closed, radius, n, MULTIPLIER, 0.1).error * (1 + 1e-4)


def test_importance_moves_the_noise():
    stds, weights = np.ones(4), np.array([1.0, 1.0, 1.0, 100.0])
    plain, weighted = (optimal_shape(stds, 10**6, MULTIPLIER, 0.1, w) for w in (None, weights))
    noise = [(s.radius / s.scale) ** 2 for s in (plain, weighted)]
    assert noise[1][3] < noise[0][3] < noise[1][0]
    # nearly all the weight is on one column, so its noise comes near what that column has alone
    alone = optimal_shape(np.ones(1), 10**6, MULTIPLIER, 0.1)
    assert noise[1][3] == pytest.approx((alone.radius / alone.scale[0]) ** 2, rel=0.15)
    assert noise[0][3] > 1.3 * (alone.radius / alone.scale[0]) ** 2


class TestLay:
    def lay(self, rows, shape="optimal", clip="optimal", probability=None, weights=None, n=1000):
        return lay_normal(rows.resolve(rows.d), shape, clip, probability, weights, n, MULTIPLIER)

    def test_units_do_not_matter(self):
        for unit in (1e-100, 1e-3, 1e100):
            laid = self.lay(Normal(np.zeros(3), std=unit * np.array([1.0, 2.0, 5.0])))
            base = self.lay(Normal(np.zeros(3), std=np.array([1.0, 2.0, 5.0])))
            assert laid.ellipsoid.scale * unit == pytest.approx(base.ellipsoid.scale, rel=1e-9)
            assert laid.clipping_error == pytest.approx(base.clipping_error * unit**2, rel=1e-9)
            assert laid.radius == pytest.approx(base.radius, rel=1e-9)

    def test_covariance_is_the_same_problem_along_its_axes(self):
        rng = np.random.default_rng(5)
        axes, _ = np.linalg.qr(rng.standard_normal((4, 4)))
        stds = np.array([3.0, 1.0, 0.5, 0.1])
        full = self.lay(Normal(np.zeros(4), cov=(axes * stds**2) @ axes.T))
        plain = self.lay(Normal(np.zeros(4), std=stds))
        assert full.clipping_error == pytest.approx(plain.clipping_error, rel=1e-6)
        assert full.ellipsoid.trace == pytest.approx(plain.ellipsoid.trace, rel=1e-6)
        noise = full.ellipsoid.axes * full.ellipsoid.unscale**2 @ full.ellipsoid.axes.T
        want = (axes * plain.ellipsoid.unscale**2) @ axes.T
        assert noise == pytest.approx(want, abs=1e-6 * np.abs(want).max())

    def test_columns_without_spread_are_left_out(self):
        laid = self.lay(Normal(np.zeros(3), std=[1.0, 0.0, 2.0]))
        assert laid.ellipsoid.scale[1] == 0
        assert laid.ellipsoid.scale[[0, 2]] == pytest.approx(
            self.lay(Normal(np.zeros(2), std=[1.0, 2.0])).ellipsoid.scale, rel=1e-9
        )

    def test_rules(self):
        rows = Normal(np.zeros(10), std=zipf(10, 1.0), center_error=0.0)
        law = WeightedChiSquare(zipf(10, 1.0) / zipf(10, 1.0).sum())
        closed = self.lay(rows, "closed_form", "quantile")
        assert closed.radius == pytest.approx(math.sqrt(law.isf(1e-3)), rel=1e-10)
        assert self.lay(rows, "closed_form", "quantile", 0.2).radius == pytest.approx(
            math.sqrt(law.isf(0.2)), rel=1e-10
        )
        assert self.lay(rows, "closed_form", 1.25).radius == 1.25
        ball = self.lay(rows, "ball", "quantile")
        assert np.ptp(ball.ellipsoid.scale) == 0
        totals = {
            (shape, clip): laid.clipping_error + MULTIPLIER**2 * laid.ellipsoid.trace
            for shape in ("optimal", "closed_form", "ball")
            for clip in ("optimal", "quantile")
            for laid in [self.lay(rows, shape, clip)]
        }
        assert min(totals, key=totals.get) == ("optimal", "optimal")
        for shape in ("optimal", "closed_form", "ball"):
            assert totals[shape, "optimal"] < totals[shape, "quantile"]
        assert self.lay(rows, n=None).radius > 0

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"shape": "cube"}, "shape"),
            ({"clip": "never"}, "clip"),
            ({"clip": -1.0}, "clip"),
            ({"clip": "quantile", "probability": 2.0}, "clip_probability"),
            ({"probability": 0.1}, "clip_probability"),
        ],
    )
    def test_refusals(self, options, words):
        with pytest.raises(UsageError, match=words):
            self.lay(Normal(np.zeros(2), std=[1.0, 2.0]), **options)


def test_wiener_gains_are_the_regression_of_truth_on_release():
    from ellipsum.api import plan

    stds, n, center_error = zipf(6, 1.0), 200, 0.3
    made = plan("mean", Normal(np.zeros(6), std=stds, center_error=center_error), n=n, epsilon=1.0, delta=1e-6)
    gains = shape_normal.wiener_gains(made.rows, made.ellipsoid, made.scaled_std, made.n)
    rng = np.random.default_rng(3)
    truth, seen = np.empty((3000, 6)), np.empty((3000, 6))
    folded, noise = made.ellipsoid.scale, made.scaled_std / made.ellipsoid.scale
    for k in range(3000):
        rows = stds * (rng.standard_normal((n, 6)) + center_error * rng.standard_normal(6))
        kept = np.minimum(1.0, 1 / np.linalg.norm(rows * folded, axis=1))
        truth[k], seen[k] = rows.sum(axis=0), kept @ rows + noise * rng.standard_normal(6)
    joint, square = truth * seen, seen**2
    found = joint.mean(axis=0) / square.mean(axis=0)
    spread = np.std(joint - found * square, axis=0) / math.sqrt(3000) / square.mean(axis=0)
    assert (np.abs(gains - found) < 6 * spread).all()
