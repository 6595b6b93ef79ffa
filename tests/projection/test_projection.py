"""Projections: the noise meets its guarantee, the estimates are unbiased, the files come back."""

import json
import math
import pickle
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from scipy.stats import kstest

import ellipsum.projection.parquet
from ellipsum.errors import DataError, UsageError
from ellipsum.kernels.accumulate import kernel_for
from ellipsum.privacy.budget import Budget
from ellipsum.privacy.gaussian_curve import gaussian_delta
from ellipsum.privacy.guarantee import Privacy, compose
from ellipsum.projection import Projection, project
from ellipsum.projection.forecast import ProjectionWarning, choose_k, projection_forecast
from ellipsum.projection.matrix import MATRIX_STD, draw_matrix, matrix_excess, row_grid_bits, spectral_norm_upper
from ellipsum.projection.parquet import OwnOrder
from ellipsum.projection.products import ExactProduct, Products, integer_rows
from ellipsum.request.people import People
from ellipsum.rows import Ball, Box, Normal, Unknown

pytestmark = pytest.mark.filterwarnings("ignore::ellipsum.projection.forecast.ProjectionWarning")
BUDGET = {"epsilon": 20.0, "delta": 1e-6}


def generator(seed=0):
    return np.random.default_rng(seed)


def some_rows(n=40, d=6, seed=1, size=0.2):
    return generator(seed).normal(size=(n, d)) * size


def clipped(rows, radius):
    return rows / np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True) / radius)


# The noise meets its guarantee -------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3, 20])
def test_oblivious_noise_covers_the_longest_change(k):
    """s scale >= D std sqrt(k) in exact arithmetic, and not by much."""
    made = project(some_rows(), k, Ball(1.0), **BUDGET, adversary="oblivious", rng=generator())
    needed = made.region.row_map.body.diameter * Fraction(MATRIX_STD)
    have = Fraction(made.noise_units) * Fraction(made.privacy.scale)
    assert have**2 >= needed**2 * k
    assert have**2 <= needed**2 * k * Fraction(1 + 1e-12)
    assert made.privacy.delta(20.0) <= 1e-6
    assert Fraction(made.privacy.excess) ** 2 >= Fraction(6) / (4 * Fraction(MATRIX_STD) ** 2)


def test_adaptive_noise_covers_the_matrix():
    made = project(some_rows(), 4, Ball(1.0), **BUDGET, adversary="adaptive", rng=generator())
    integers = np.rint(made.matrix * MATRIX_STD * 2.0)
    top = np.linalg.svd(integers, compute_uv=False)[0]
    ratio = made.noise_units * made.privacy.mu / (float(made.region.row_map.body.diameter) * top)
    assert 1 - 1e-14 < ratio < 1 + 1e-9
    assert made.privacy == Privacy(Budget(**BUDGET).mu, 0.0, "replace")


def test_two_opposite_rows_come_close_to_the_bound():
    """The bound on a change is met within 1e-5 by rows far outside: half of it, or no clip, would fail."""
    row_map = project(some_rows(), 2, Ball(3.0, center=5.0), **BUDGET, rng=generator()).region.row_map
    far = np.ones((1, 6)) * 1e9
    gap = np.linalg.norm(integer_rows(row_map, far) - integer_rows(row_map, -far))
    bound = float(row_map.body.diameter)
    assert bound * (1 - 1e-5) < gap <= bound


@pytest.mark.parametrize("k", [1, 4])
def test_curve_over_fresh_matrices(k):
    """The mean over drawn matrices of the Gaussian curve at the realised shift is the promised delta.

    2,000 matrices, accepted within 6 standard errors; noise smaller by a tenth is rejected.
    """
    epsilon, delta, d = 1.0, 0.05, 5
    change = np.zeros((1, d))
    change[0, 2] = 1.0
    rng = generator(5)
    first = project(change, k, Ball(1.0), epsilon=epsilon, delta=delta, adversary="oblivious", rng=rng)
    difference = (integer_rows(first.region.row_map, change) - integer_rows(first.region.row_map, -change))[0]
    shifts = np.array([np.linalg.norm(difference @ draw_matrix(rng.bytes(32), d, k)) for _ in range(2000)])

    def realised(noise):
        terms = gaussian_delta(shifts / noise, epsilon)
        return terms.mean(), terms.std() / math.sqrt(terms.size)

    mean, error = realised(first.noise_units)
    assert abs(mean - delta) < 6 * error
    mean, error = realised(0.9 * first.noise_units)
    assert mean - delta > 6 * error


def test_published_noise_has_the_stated_std():
    """240,000 residuals against the exact product: normal with the stated std; a tenth less is rejected."""
    rows = some_rows(12_000, 30, size=0.1)
    made = project(rows, 20, Ball(1.0), **BUDGET, rng=generator(2))
    residual = (made.value - clipped(rows, 1.0) @ made.matrix).ravel() / made.noise_std
    error = 1 / math.sqrt(2 * residual.size)
    assert abs(residual.std() - 1) < 6 * error
    assert abs(residual.std() / 0.9 - 1) > 60 * error
    assert kstest(residual, "norm").pvalue > 1e-6
    assert kstest(residual / 0.9, "norm").pvalue < 1e-12
    # independent across rows and columns
    table = residual.reshape(-1, 20)
    assert abs(np.corrcoef(table, rowvar=False) - np.eye(20)).max() < 6 / math.sqrt(len(table))


# The matrix and the product ----------------------------------------------------------------------------


def test_matrix_is_gaussian_and_follows_its_seed():
    matrix = draw_matrix(bytes(range(32)), 300, 100)
    assert np.array_equal(matrix, draw_matrix(bytes(range(32)), 300, 100))
    assert not np.array_equal(matrix, draw_matrix(bytes(32), 300, 100))
    scaled = matrix.ravel() / MATRIX_STD
    assert kstest(scaled, "norm").pvalue > 1e-6
    assert kstest(scaled * 0.9, "norm").pvalue < 1e-6


def test_every_release_draws_its_own_matrix():
    one, other = (project(some_rows(), 3, Ball(1.0), **BUDGET) for _ in range(2))
    assert one.secure
    assert one.matrix_seed != other.matrix_seed
    assert not np.array_equal(one.matrix, other.matrix)
    assert not np.array_equal(one.value, other.value)


@pytest.mark.parametrize("d", [1, 100, 10_000, 1_000_000])
def test_grid_leaves_room_for_exact_products(d):
    """Longest row times a long column (20 stds above sqrt(d)) stays below 2^53; the grid costs little noise."""
    bits = row_grid_bits(d)
    row = 2.0**bits * (1 + 1e-9) + math.sqrt(d) / 2
    assert row * (MATRIX_STD * (math.sqrt(d) + 20) + math.sqrt(d) / 2) < 2.0**53
    assert math.sqrt(d) / 2 / 2.0**bits < 5e-4
    assert matrix_excess(d) < 5e-4


def test_products_are_exact_on_both_ways():
    rng = generator(3)
    rows = np.rint(rng.normal(size=(50, 7)) * 2.0**24)
    matrix = draw_matrix(bytes(32), 7, 5)
    bound = Fraction(float(np.linalg.norm(rows, axis=1).max()) * (1 + 1e-12))
    exact = rows.astype(np.int64).astype(object) @ matrix.astype(object)
    fast, slow = ExactProduct(matrix, bound), ExactProduct(matrix, bound * 2**40)
    assert fast.fast
    assert not slow.fast
    for product in (fast, slow):
        wide = product(rows)
        assert (wide.high.astype(object) * 2**48 + wide.low.astype(object) == exact).all()


def test_spectral_norm_is_an_upper_bound():
    rng = generator(4)
    a, b = rng.integers(-(2**20), 2**20, 40), rng.integers(-(2**10), 2**10, 9)
    square = int((a.astype(object) ** 2).sum()) * int((b.astype(object) ** 2).sum())
    bound = spectral_norm_upper(np.outer(a, b))
    assert Fraction(square) <= bound**2 <= Fraction(square) * Fraction(1 + 1e-9)
    for shape in ((100, 20), (20, 100), (1, 1), (3, 1)):
        matrix = rng.integers(-(2**22), 2**22, shape)
        top = np.linalg.svd(matrix.astype(float), compute_uv=False)[0]
        assert top * (1 - 1e-14) < float(spectral_norm_upper(matrix)) < top * (1 + 1e-9)
    assert spectral_norm_upper(np.zeros((3, 2), np.int64)) == 0


# One function of the rows ------------------------------------------------------------------------------


def test_values_do_not_depend_on_layout_or_blocks(tmp_path):
    rows = some_rows(3000, 5).astype(np.float32)
    table = pyarrow.table({f"x{j}": rows[:, j].copy() for j in range(5)})
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=700)
    sources = [
        rows,
        rows.astype(np.float64),
        np.asfortranarray(rows),
        [rows[:1], rows[:0], rows[1:1300], rows[1300:]],
        table,
        str(tmp_path / "rows.parquet"),
    ]
    first, *others = (project(source, 4, Ball(1.0), **BUDGET, rng=generator(7)).value for source in sources)
    assert first.shape == (3000, 4)
    for other in others:
        assert np.array_equal(first, other)


def test_a_row_changes_its_own_numbers_alone():
    rows = some_rows()
    changed = rows.copy()
    changed[5] = 1e300
    one, other = (project(r, 3, Ball(1.0), **BUDGET, rng=generator(8)).value for r in (rows, changed))
    different = (one != other).any(axis=1)
    assert different[5]
    assert different.sum() == 1


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf])
def test_odd_entries_count_as_the_center(entry):
    rows = some_rows() + 2.0
    odd, plain = rows.copy(), rows.copy()
    odd[3, 1], plain[3, 1] = entry, 2.0
    known = Ball(1.0, center=2.0)
    one, other = (project(r, 3, known, **BUDGET, rng=generator(9)).value for r in (odd, plain))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("metric", ["original", "scaled"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rows_are_those_of_the_sum_kernel(metric, kind):
    """One row at a time, diagonal and matrix maps, odd and far entries included."""
    cov = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, 0.2], [0.0, 0.2, 0.5]])
    rows = some_rows(9, 3, size=2.0).astype(kind)
    rows[1, 2], rows[4, 0], rows[5] = np.nan, np.inf, 1e38
    row_map = project(rows, 2, Normal(0.5, cov=cov), metric=metric, **BUDGET, rng=generator()).region.row_map
    for i, row in enumerate(integer_rows(row_map, rows)):
        total = np.zeros(3, np.int64)
        kernel_for(row_map)(rows[i : i + 1], total)
        assert np.array_equal(row, total)


# Estimates ---------------------------------------------------------------------------------------------

COV = np.array([[4.0, 1.0], [1.0, 0.5]])
KNOWN = {
    "ball": (Ball(2.0, center=[1.0, -1.0]), "original", lambda x: x),
    "box": (Box([0.0, -3.0], [2.0, 1.0]), "original", lambda x: x),
    "box scaled": (Box([0.0, -3.0], [2.0, 1.0]), "scaled", lambda x: x / [1.0, 2.0]),
    "normal": (Normal([1.0, -1.0], std=[0.4, 0.8]), "original", lambda x: x),
    "normal scaled": (Normal([1.0, -1.0], std=[0.4, 0.8]), "scaled", lambda x: x / [0.4, 0.8]),
    "cov": (Normal([1.0, -1.0], cov=COV), "original", lambda x: x),
    "cov scaled": (Normal([1.0, -1.0], cov=COV), "scaled", lambda x: np.linalg.solve(np.linalg.cholesky(COV), x.T).T),
}
POINTS = np.array([[0.5, -1.5], [1.6, -0.7], [0.9, -1.2]])


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.slow
def test_estimates_are_unbiased_over_matrix_and_noise(name):
    """400 releases of three rows inside the bounds; means within 6 standard errors of the truth."""
    known, metric, measure = KNOWN[name]
    pairs, rng, k = [(0, 1), (1, 2), (0, 0)], generator(11), 3
    found = []
    for _ in range(400):
        made = project(POINTS, k, known, metric=metric, epsilon=60.0, delta=1e-3, rng=rng)
        found.append(
            [
                *made.squared_distances(pairs[:2]).value,
                *made.inner_products(pairs).value,
                *made.inner_products(pairs[:2], about="origin").value,
                *made.squared_norms([2]).value,
            ]
        )
    points = measure(POINTS)
    offsets = measure(POINTS - made.region.center)
    truth = (
        [float(np.sum((points[i] - points[j]) ** 2)) for i, j in pairs[:2]]
        + [float(offsets[i] @ offsets[j]) for i, j in pairs]
        + [float(points[i] @ points[j]) for i, j in pairs[:2]]
        + [float(offsets[2] @ offsets[2])]
    )
    error = np.std(found, axis=0) / math.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - truth) < 6 * error).all()
    assert made.squared_distances([(0, 0)]).value == 0.0


@pytest.mark.parametrize("k", [1, 2, 30])
def test_standard_errors_and_intervals_cover(k):
    """3,000 pairs of rows, each pair with a matrix of its own: spread and coverage as stated."""
    rng, count = generator(12), 3000
    rows = np.array([[0.6, 0.0, 0.3], [-0.2, 0.5, 0.1]])
    made = project(rows, k, Ball(1.0), epsilon=40.0, delta=1e-3, rng=rng)
    matrices = rng.normal(size=(count, 3, k)) / math.sqrt(k)
    noisy = rows @ matrices + made.noise_std * rng.normal(size=(count, 2, k))
    stand_in = _with_values(made, noisy.reshape(-1, k))
    pairs = np.arange(2 * count).reshape(-1, 2)
    own, other = (float(row @ row) / k + made.noise_std**2 for row in rows)
    apart, shared = rows[0] - rows[1], float(rows[0] @ rows[1]) / k
    excess = shared**2 if k == 1 else 0.0  # at k = 1 no unbiased estimate of the variance exists
    for estimates, true, variance, too_large in (
        (
            stand_in.squared_distances(pairs),
            apart @ apart,
            2 * k * (apart @ apart / k + 2 * made.noise_std**2) ** 2,
            0.0,
        ),
        (stand_in.inner_products(pairs), k * shared, k * (own * other + shared**2), excess),
        (stand_in.squared_norms(pairs[:, 0]), rows[0] @ rows[0], 2 * k * own**2, 0.0),
    ):
        _mean_is((estimates.value - true) ** 2, variance)
        _mean_is(estimates.standard_error**2, variance + too_large)
        low, high = estimates.confidence_interval(0.9).T
        coverage = np.mean((low <= true) & (true <= high))
        if estimates.raw is not None:  # exact; those of inner products are approximate, within 2% at k = 30
            assert abs(coverage - 0.9) < 6 * math.sqrt(0.09 / count)
        elif k == 30:
            assert abs(coverage - 0.9) < 0.02 + 6 * math.sqrt(0.09 / count)


def _mean_is(terms, expected):
    assert abs(terms.mean() - expected) < 6 * terms.std() / math.sqrt(terms.size)


def _with_values(made, values):
    fields = {name: getattr(made, name) for name in Projection.__dataclass_fields__}
    return Projection(**{**fields, "n": len(values), "_values": values})


def test_pairs_out_of_range_are_refused():
    made = project(some_rows(10), 3, Ball(1.0), **BUDGET, rng=generator())
    for pairs in ([(0, 10)], [(-1, 0)], [(0.5, 1.0)], [(0, 1, 2)], "ab"):
        with pytest.raises(UsageError, match="pairs"):
            made.squared_distances(pairs)
    with pytest.raises(UsageError, match="rows"):
        made.squared_norms([10])
    assert made.squared_distances((3, 4)).value.shape == (1,)
    assert made.squared_norms().value.shape == (10,)


# Which guarantee ---------------------------------------------------------------------------------------


def test_a_matrix_used_again_forces_the_adaptive_guarantee():
    rows = some_rows(d=60)
    first = project(rows, 3, Ball(1.0), **BUDGET, rng=generator())
    assert first.adversary == "oblivious"
    by_seed = project(rows, 3, Ball(1.0), **BUDGET, matrix_seed=first.matrix_seed, rng=generator(1))
    by_matrix = project(rows, 3, Ball(1.0), **BUDGET, matrix=first.matrix, rng=generator(1))
    for again in (by_seed, by_matrix):
        assert again.adversary == "adaptive"
        assert isinstance(again.privacy, Privacy)
        assert np.array_equal(again.matrix, first.matrix)
        assert again.noise_std > first.noise_std
    assert by_matrix.matrix_seed is None
    with pytest.raises(UsageError, match="adversary=.adaptive"):
        project(rows, 3, Ball(1.0), **BUDGET, matrix_seed=first.matrix_seed, adversary="oblivious")


def test_the_default_adversary_is_the_one_that_needs_less_noise():
    for d, better in ((2, "adaptive"), (200, "oblivious")):
        found = {
            a: projection_forecast(9, d, 3, Ball(1.0), **BUDGET, adversary=a).noise_std
            for a in ("oblivious", "adaptive")
        }
        assert min(found, key=found.get) == better
        assert projection_forecast(9, d, 3, Ball(1.0), **BUDGET).adversary == better
        assert project(some_rows(d=d), 3, Ball(1.0), **BUDGET, rng=generator()).adversary == better
    assert projection_forecast(9, 200, 3, Ball(1.0), Budget(mu=1.0)).adversary == "adaptive"


def test_calibrations_order():
    exact, tail, composition = (
        project(some_rows(d=60), 3, Ball(1.0), epsilon=0.5, delta=1e-6, calibration=c, rng=generator()).noise_std
        for c in ("exact", "tail", "composition")
    )
    assert exact < tail < composition


def test_guarantee_composes():
    made = project(some_rows(), 3, Ball(1.0), **BUDGET, adversary="oblivious", rng=generator())
    total = compose([made.privacy, Privacy(1.0)])
    assert total.mu > made.privacy.as_pair().mu
    assert 0 < total.slack < 1e-6


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"k": 0}, "k must"),
        ({"k": 2.5}, "k must"),
        ({"bounds": Unknown(10.0)}, "bound"),
        ({"bounds": 3}, "bounds must be"),
        ({"bounds": Box(1.0, 1.0)}, "lower = upper"),
        ({"neighbors": "add_remove"}, "replace"),
        ({"adversary": "friendly"}, "adversary"),
        ({"calibration": "guess"}, "calibration"),
        ({"calibration": "composition"}, "epsilon < 1"),
        ({"calibration": "tail", "adversary": "adaptive"}, "fresh matrix"),
        ({"metric": "taxicab"}, "metric"),
        ({"matrix_seed": "abc"}, "matrix_seed"),
        ({"matrix": np.ones((2, 2))}, "shape"),
        ({"matrix": [["a", "b"]]}, "numbers"),
        ({"matrix": np.zeros((6, 3))}, "zero"),
        ({"matrix": np.ones((6, 3)), "matrix_seed": bytes(32)}, "both"),
        ({"matrix": np.full((6, 3), np.nan)}, "matrix"),
        ({"epsilon": None, "delta": None, "budget": Budget(mu=1.0), "adversary": "oblivious"}, "epsilon= and delta="),
        ({"epsilon": None}, "epsilon"),
    ],
)
def test_wrong_use_is_refused(change, word):
    arguments = {"k": 3, "bounds": Ball(1.0), **BUDGET, **change}
    with pytest.raises(UsageError, match=word):
        project(some_rows(), **arguments)


def test_a_mu_budget_serves_the_adaptive_guarantee():
    made = project(some_rows(), 3, Ball(1.0), budget=Budget(mu=2.0), adversary="adaptive", rng=generator())
    assert made.privacy == Privacy(2.0, 0.0, "replace")


def test_no_rows_are_refused():
    with pytest.raises(UsageError, match="no rows"):
        project(np.empty((0, 4)), 2, Ball(1.0), **BUDGET)


def test_one_shot_sources_need_a_stated_clip_probability():
    source = iter([some_rows()])
    with pytest.raises(UsageError, match="clip_probability"):
        project(source, 2, Normal(0.0, std=1.0), **BUDGET)
    made = project(iter([some_rows()]), 2, Normal(0.0, std=1.0, clip_probability=0.01), **BUDGET, rng=generator())
    assert made.n == 40


def test_normal_rows_leave_the_region_with_the_stated_probability():
    rng = generator(6)
    std = np.array([1.0, 3.0, 0.2])
    for metric in ("original", "scaled"):
        made = project(
            np.zeros((2, 3)),
            1,
            Normal(0.0, std=std, center_error=0.0, clip_probability=0.05),
            metric=metric,
            **BUDGET,
            rng=rng,
        )
        rows = rng.normal(size=(200_000, 3)) * (std if metric == "original" else 1.0)
        share = np.mean(np.linalg.norm(rows, axis=1) > made.region.radius)
        assert abs(share - 0.05) < 6 * math.sqrt(0.05 / 200_000)


# Forecast and advice -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
def test_advice_before_anything_is_spent():
    with pytest.warns(ProjectionWarning, match="exceeds the 6 columns"):
        project(some_rows(), 7, Ball(1.0), epsilon=5000.0, delta=1e-3, rng=generator())
    with pytest.warns(ProjectionWarning, match="useless"):
        project(some_rows(), 3, Ball(1.0), epsilon=1.0, delta=1e-6, rng=generator())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        project(some_rows(), 3, Ball(1.0), epsilon=500.0, delta=1e-6, rng=generator())


def test_forecast_is_the_releases():
    for rows in (Ball(2.0), Box(-1.0, 3.0), Normal(0.0, std=2.0)):
        forecast = projection_forecast(40, 60, 3, rows, Budget(**BUDGET))
        made = project(some_rows(d=60), 3, rows, **BUDGET, rng=generator())
        assert made.noise_std == forecast.noise_std
        assert made.forecast() == replace(forecast, direct_noise_std=None)
    adaptive = projection_forecast(None, 400, 100, Ball(1.0), **BUDGET, adversary="adaptive")
    made = project(some_rows(5, 400), 100, Ball(1.0), **BUDGET, adversary="adaptive", rng=generator())
    assert made.noise_std == pytest.approx(adaptive.noise_std, rel=0.05)


def test_forecast_error_is_the_spread_of_distances():
    """Standard errors at distance 0 and at a stated distance, from 4,000 draws, within 15%."""
    forecast = projection_forecast(2, 3, 30, Ball(1.0), epsilon=300.0, delta=1e-3)
    rng = generator(13)
    for squared in (0.0, 1.0):
        lengths = (squared / 30 + 2 * forecast.noise_std**2) * rng.chisquare(30, 4000)
        assert forecast.distance_error(squared) == pytest.approx(lengths.std(), rel=0.15)
    assert forecast.rows_to_average(0.1) >= 30 * (forecast.noise_std / 0.1) ** 2


def test_forecast_knows_when_no_projection_is_needed():
    """Rows published as they are: forecast std and distance errors hold, and the advice follows them."""
    forecast = projection_forecast(2, 6, 6, Ball(1.0), epsilon=200.0, delta=1e-6)
    assert "Releasing the rows themselves" in forecast.verdict
    rows = clipped(some_rows(6000, 6), 1.0)
    made = project(rows, 6, Ball(1.0), epsilon=200.0, delta=1e-6, matrix=np.eye(6), rng=generator(4))
    assert made.noise_std == pytest.approx(forecast.direct_noise_std, rel=1e-5)
    pairs = np.arange(6000).reshape(-1, 2)
    true = np.sum((rows[::2] - rows[1::2]) ** 2, axis=1)
    found = made.squared_distances(pairs).value
    expected = np.array([forecast.direct_error(float(t)) for t in true])
    assert abs(np.mean((found - true) / expected)) < 6 / math.sqrt(3000)
    assert np.std((found - true) / expected) == pytest.approx(1, abs=6 / math.sqrt(3000))
    many = projection_forecast(2, 5000, 1, Ball(1.0), epsilon=1.0, delta=1e-6)
    assert "Publishing" not in many.verdict


def test_uselessness_is_said_plainly():
    poor = projection_forecast(1000, 50, 10, Ball(1.0), epsilon=1.0, delta=1e-6)
    rich = projection_forecast(1000, 50, 10, Ball(1.0), epsilon=1000.0, delta=1e-6)
    assert poor.useless
    assert "useless" in repr(poor)
    assert not rich.useless
    assert "useless" not in repr(rich)


@pytest.mark.parametrize("epsilon", [5.0, 200.0, 3000.0])
def test_chosen_k_is_the_best(epsilon):
    best = choose_k(100, 12, Ball(1.0), epsilon=epsilon, delta=1e-6)
    errors = [
        projection_forecast(100, 12, k, Ball(1.0), epsilon=epsilon, delta=1e-6).distance_error(2.0)
        for k in range(1, 13)
    ]
    assert best.k == 1 + int(np.argmin(errors))


# Files -------------------------------------------------------------------------------------------------


def test_streamed_and_saved_values_come_back(tmp_path):
    rows = some_rows(5000, 8)
    kept = project(rows, 4, Ball(1.0), **BUDGET, rng=generator(3))
    streamed = project(
        [rows[:3000], rows[3000:]], 4, Ball(1.0), **BUDGET, rng=generator(3), output=tmp_path / "out.parquet"
    )
    kept.save(tmp_path / "saved.parquet")
    pairs = [(0, 4999), (17, 2500), (3, 3)]
    for made in (streamed, Projection.load(tmp_path / "out.parquet"), Projection.load(tmp_path / "saved.parquet")):
        assert made.n == 5000
        assert made.path is not None
        assert np.array_equal(made.value, kept.value)
        assert np.array_equal(made.rows([4999, 0, 2]), kept.value[[4999, 0, 2]])
        assert np.array_equal(made.squared_distances(pairs).value, kept.squared_distances(pairs).value)
        assert np.array_equal(made.matrix, kept.matrix)
        assert made.privacy == kept.privacy
        assert not made.secure
        assert made.to_json() == kept.to_json()
    assert parquet.read_schema(tmp_path / "out.parquet").names == ["p1", "p2", "p3", "p4"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.parquet", "saved.parquet"]


def test_a_given_matrix_comes_back(tmp_path):
    made = project(some_rows(), 2, Ball(1.0), **BUDGET, matrix=np.arange(12.0).reshape(6, 2), rng=generator())
    made.save(tmp_path / "own.parquet")
    assert np.array_equal(Projection.load(tmp_path / "own.parquet").matrix, made.matrix)


def test_an_unwritable_target_is_refused_before_rows_are_read(tmp_path):
    source = iter([some_rows(5), some_rows(5)])
    with pytest.raises(DataError):
        project(source, 2, Ball(1.0), **BUDGET, output=tmp_path / "missing" / "out.parquet")
    assert len(next(source)) == 5


def test_a_failing_source_leaves_nothing_behind(tmp_path):
    def batches():
        yield some_rows(5)
        raise RuntimeError("a cell of value 42")

    with pytest.raises(DataError) as caught:
        project(batches(), 2, Ball(1.0), **BUDGET, output=tmp_path / "out.parquet")
    assert "42" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_other_files_are_refused(tmp_path):
    parquet.write_table(pyarrow.table({"a": [1.0]}), tmp_path / "plain.parquet")
    with pytest.raises(UsageError, match="no projection"):
        Projection.load(tmp_path / "plain.parquet")
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(DataError, match="Parquet"):
        Projection.load(tmp_path / "text.parquet")


def test_only_public_fields_are_published():
    made = project(some_rows(), 3, Ball(1.0), **BUDGET, columns=[0, 2, 4], rng=generator())
    fields = json.loads(made.to_json())
    assert set(fields) == {
        *("format", "version", "n", "k", "columns", "region", "matrix_seed", "matrix_integers"),
        *("noise_std", "noise_units", "privacy", "adversary", "calibration", "secure", "ordered", "options"),
    }
    other = project(some_rows(seed=2), 3, Ball(1.0), **BUDGET, columns=[0, 2, 4], rng=generator())
    assert other.to_json() == made.to_json()
    assert "NOT PRIVATE" in repr(made)
    assert "useless" in repr(made)


def test_progress_reaches_the_end():
    seen = []
    project(some_rows(500), 3, Ball(1.0), **BUDGET, rng=generator(), progress=seen.append)
    assert seen[-1] == 1.0
    assert seen == sorted(seen)


# People, and rows without places -----------------------------------------------------------------------


def visits(seed=3):
    """Several rows a person, and two that name nobody."""
    rng = generator(seed)
    who = [f"p{i}" for i in rng.integers(0, 30, 200)] + [None, None]
    values = rng.uniform(size=(202, 3))
    return pyarrow.table({"who": pyarrow.array(who), **dict(zip("abc", values.T, strict=True))})


@pytest.mark.parametrize("file", [False, True])
def test_people_are_projected_once_each(tmp_path, file):
    """The numbers are those of a projection of the people's means; noise is small enough to see that."""
    table = visits()
    target = tmp_path / "people.parquet" if file else None
    how = {"epsilon": 1e12, "delta": 1e-6, "matrix": np.eye(3)}
    made = project(table, 3, Box(0, 1), privacy_id="who", output=target, **how)
    means = table.to_pandas().groupby("who").mean().to_numpy()  # without rows of nobody
    assert made.n == len(means) == 30
    by_first = [rows[np.argsort(rows[:, 0])] for rows in (made.value + made.region.center, means)]
    assert np.abs(by_first[0] - by_first[1]).max() < 6 * made.noise_std < 1e-4
    assert made.columns == ("a", "b", "c")
    assert "30 people of 3 columns" in repr(made)
    assert "by 'who'" in repr(made)


def test_a_projection_of_people_says_so_and_keeps_saying_so(tmp_path):
    made = project(visits(), 2, Ball(2), privacy_id=People("who", "sum", 4), output=tmp_path / "p.parquet", **BUDGET)
    noted = {"privacy_id": "who", "per_person": "sum", "max_rows": 4}
    for one in (made, Projection.load(tmp_path / "p.parquet")):
        assert one.people.to_dict() == noted
        assert not one.ordered
        assert one.to_dict()["options"] == noted


def groups_of(path):
    """Rows in each row group of a file."""
    found = parquet.ParquetFile(path).metadata
    return [found.row_group(g).num_rows for g in range(found.num_row_groups)]


def test_a_file_is_a_function_of_its_numbers_whatever_blocks_they_came_in(tmp_path):
    """[J10] Cuts of the source, and the digits of one cell, leave no trace: the file is the same byte for byte."""
    rows = abs(some_rows(50_000, 3)).round(6)
    lines = [",".join(map(repr, row)) for row in rows.tolist()]
    for name, zeros in (("short", 0), ("long", 5000)):
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,c", "0" * zeros + lines[0], *lines[1:]]) + "\n")
    table = pyarrow.table(dict(zip("abc", rows.T, strict=True)))
    sources = [table, [table[:7], table[7:]], tmp_path / "short.csv", tmp_path / "long.csv"]
    files = []
    for number, source in enumerate(sources):
        path = tmp_path / f"{number}.parquet"
        project(source, 2, Ball(1.0), **BUDGET, rng=generator(7), output=path)
        files.append((Projection.load(path).value.tobytes(), groups_of(path), path.read_bytes()))
    assert all(file == files[0] for file in files[1:])


def test_row_groups_depend_on_k_alone(tmp_path, monkeypatch):
    """[J10] Blocks of any size, and ranges of hashes of rows in an order of their own, end in groups of one size."""
    monkeypatch.setattr(ellipsum.projection.parquet, "_GROUP_CELLS", 300)
    rows = some_rows(1050, 6)
    cuts = [rows[:1], rows[1:333], rows[333:340], rows[340:]]
    for name, source in (("listed", cuts), ("iterated", iter(cuts))):
        made = project(source, 3, Ball(1.0), **BUDGET, output=tmp_path / name, rng=generator(7))
        assert groups_of(tmp_path / name) == [100] * 10 + [50]
        assert made.ordered == (name == "listed")
        made.save(tmp_path / "saved")
        assert (tmp_path / "saved").read_bytes() == (tmp_path / name).read_bytes()
    monkeypatch.setattr(ellipsum.projection.parquet, "_CHUNK_BYTES", 5000)
    project(iter(cuts), 3, Ball(1.0), **BUDGET, output=tmp_path / "merged", rng=generator(7))
    assert groups_of(tmp_path / "merged") == [100] * 10 + [50]


def test_plain_rows_keep_their_places():
    made = project(some_rows(), 3, Ball(1.0), epsilon=1e12, delta=1e-6, matrix=np.eye(6)[:, :3])
    assert made.ordered
    assert np.abs(made.value - clipped(some_rows(), 1.0)[:, :3]).max() < 6 * made.noise_std


class Kept:
    """Takes the place of a writer."""

    def __init__(self, k):
        self.k, self.blocks = k, []

    def write(self, values):
        self.blocks.append(values.copy())

    def finish(self, metadata):
        return np.concatenate(self.blocks)


def in_own_order(rows, cuts, chunk_bytes):
    with OwnOrder(Kept(rows.shape[1]), chunk_bytes) as order:
        for part in np.split(rows, cuts):
            order.write(part)
        return order.finish("")


@pytest.mark.parametrize("chunk_bytes", [1, 5000, 1 << 25])
def test_the_order_of_rows_is_a_function_of_their_set(chunk_bytes):
    """[J9] Arrival, blocks and memory make no difference, repeated rows included; every row is there once."""
    rows = generator(4).normal(size=(2000, 3))
    rows[::7] = rows[0]
    want = in_own_order(rows, [], 1 << 25)
    shuffled = generator(5).permutation(rows)
    found = in_own_order(shuffled, [1, 70, 71, 1500], chunk_bytes)
    assert np.array_equal(found, want)
    assert np.array_equal(found[np.lexsort(found.T)], rows[np.lexsort(rows.T)])
    assert not np.array_equal(want, rows)


def test_equal_hashes_are_told_apart_by_bits(monkeypatch):
    monkeypatch.setattr(ellipsum.projection.parquet, "_add_marks", _one_hash)
    rows = generator(4).normal(size=(300, 2))
    want = in_own_order(rows, [], 1 << 25)
    assert np.array_equal(in_own_order(rows[::-1], [40, 200], 1000), want)


def _one_hash(values):
    bits = np.ascontiguousarray(values).view(np.int64)
    return np.column_stack([np.full(len(bits), 5), bits])


def test_people_come_out_in_the_order_of_their_noisy_numbers():
    """Not in that of identities, which would tell where in the alphabet a replaced person stood."""
    made = project(visits(), 2, Ball(2), privacy_id="who", rng=generator(), **BUDGET)
    assert np.array_equal(made.value, in_own_order(made.value, [], 1 << 25))


def test_products_survive_the_journey_to_a_worker():
    made = project(some_rows(), 3, Ball(1.0), **BUDGET)
    for matrix in (made._integers(), made._integers() << 12):  # short products, and ones of two limbs
        there = pickle.loads(pickle.dumps(Products(made.region.row_map, matrix)))
        here = Products(made.region.row_map, matrix)
        found, want = here.unpack(there.packed(some_rows())), here(some_rows())
        assert np.array_equal(found.high, want.high)
        assert np.array_equal(found.low, want.low)
        with pytest.raises(DataError, match="width"):
            here.unpack(bytes(8))
    assert not Products(made.region.row_map, made._integers() << 12)._product.fast
