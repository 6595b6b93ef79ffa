"""From rows to a release: values, noise, edge cases, refusals, data-independence."""

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import ellipsum as es

BUDGET = es.Budget(mu=1.0)
HUGE = es.Budget(mu=1e9)  # noise far below what the assertions resolve


def rng(seed=0):
    return np.random.default_rng(seed)


def data(n=50, d=3, seed=1):
    return np.random.default_rng(seed).uniform(-1, 1, (n, d))


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize(("release", "truth"), [(es.sum, np.sum), (es.mean, np.mean)])
@pytest.mark.parametrize("rows", [es.Box(-1, 1), es.Box(-1, 3), es.Ball(4.0), es.Ball(4.0, center=1.0)])
def test_with_a_huge_budget_the_statistic_comes_out(relation, release, truth, rows):
    x = data()
    found = release(x, rows, budget=HUGE, neighbors=relation)
    assert found.value == pytest.approx(truth(x, axis=0), abs=1e-5)
    assert found.secure
    assert found.privacy.neighbors == relation


def test_rows_outside_the_region_are_clipped_along_their_direction():
    x = np.array([[30.0, 40.0], [0.0, 0.0]])
    with pytest.warns(es.AccuracyWarning, match="50% of the rows were clipped") as told:
        found = es.sum(x, es.Ball(5.0), budget=HUGE)
    assert found.value == pytest.approx([3.0, 4.0], abs=1e-5)
    assert [str(each.message) for each in told] == list(found.warnings)
    assert (np.abs(found.value - x.sum(axis=0)) < found.confidence_interval()[:, 1] - found.value).all()
    quiet = es.sum(x, es.Ball(5.0), count_clipped=False, budget=HUGE)
    assert quiet.value == pytest.approx([3.0, 4.0], abs=1e-5)
    assert quiet.counts.clipped is None
    assert quiet.warnings == ()


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_entries_outside_their_bounds_are_clamped_one_by_one(relation):
    """An outlier stays in its column: no other entry of its row moves."""
    x = np.tile([0.5, 3.0, 0.25], (20, 1))
    x[3] = [1e300, 1.0, 0.25]
    x[4] = [-7.0, 9.0, 0.25]
    with pytest.warns(es.AccuracyWarning, match="of the values of 'x[12]'") as told:
        found = es.sum(x, es.Box([0, 0, 0], [1, 5, 1]), budget=HUGE, neighbors=relation)
    assert found.value == pytest.approx([18 * 0.5 + 1.0, 18 * 3.0 + 1.0 + 5.0, 5.0], abs=1e-5)
    assert found.counts.outside == pytest.approx([2.0, 1.0, 0.0], abs=1e-5)
    assert len(told) == 2


@pytest.mark.one_in(4)
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("release", [es.sum, es.mean])
def test_noise_has_the_stated_covariance_and_not_a_tenth_less(relation, release):
    """Whitened errors of 4000 releases are chi-square; a noise of 0.9 std is rejected at 1e-9."""
    n, d, repeats = 400, 3, 4000
    x = np.random.default_rng(2).uniform(0, 1, (n, d)) * [1, 5, 20]
    plan = es.plan(
        release.__name__,
        es.Box(0, [1, 5, 20]),
        n=n,
        d=d,
        budget=es.Budget(mu=2.0),
        neighbors=relation,
        missing="none",
        count_clipped=False,
    )
    generator = rng(3)
    errors = np.stack(
        [plan.release(x, rng=generator).value - getattr(x, release.__name__)(axis=0) for _ in range(repeats)]
    )
    covariance = plan.noise_cov
    if relation == "add_remove" and release is es.mean:
        lever = (x.mean(axis=0) - plan.ellipsoid.center) * plan.count_std / n
        covariance = covariance + np.outer(lever, lever)
    squares = np.einsum("ij,jk,ik->", errors, np.linalg.inv(covariance), errors)
    low, high = stats.chi2.ppf([1e-10, 1 - 1e-10], repeats * d)
    assert low < squares < high
    assert squares * 0.81 < low
    assert squares / 0.81 > high
    assert abs(errors.mean(axis=0) / np.sqrt(np.diag(covariance) / repeats)).max() < 6.5


def test_each_neighboring_pair_stays_within_the_stated_distance():
    """The shift that one row can cause, in noise stds, is at most mu: halving the noise would break it."""
    x = data(20, 4)
    plan = es.plan("sum", es.Box(-1, 1), n=20, d=4, budget=BUDGET, count_clipped=False)
    corner = np.ones(4)
    a = np.vstack([x[:-1], corner])
    b = np.vstack([x[:-1], -corner])
    shift = plan.release(a, rng=rng()).value - plan.release(b, rng=rng()).value
    distance = np.linalg.norm(shift / plan.noise_std)
    assert distance <= 1.0
    assert distance > 0.999


@pytest.mark.parametrize("width", [1, 2, 7, 1000])
def test_one_row_and_one_column(width):
    x = np.full((1, width), 0.5)
    assert es.sum(x, es.Box(0, 1), budget=HUGE).value == pytest.approx(x[0], abs=1e-4)


def test_a_million_columns():
    x = np.zeros((2, 1_000_000))
    found = es.sum(x, es.Ball(1.0), budget=BUDGET)
    assert found.value.shape == (1_000_000,)
    z = found.value / found.noise_std
    assert abs(z.mean()) < 6.5e-3
    assert abs(z.std() - 1) < 5e-3


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, np.int64, np.uint16, np.bool_])
def test_numeric_types_agree(dtype):
    x = (np.arange(60).reshape(20, 3) % 2).astype(dtype)
    a = es.sum(x, es.Box(0, 1), budget=BUDGET, rng=rng())
    b = es.sum(x.astype(np.float64), es.Box(0, 1), budget=BUDGET, rng=rng())
    assert np.array_equal(a.value, b.value)


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
@pytest.mark.parametrize("rows", [es.Ball(1.0), es.Box(-0.5, 0.5), es.Normal(0.0, 0.5)])
def test_memory_layout_order_and_threads_do_not_matter(rows):
    """Nor for what is counted: rows are clipped, cells clamped, and some are missing."""
    x = data(5000, 7)
    x[np.random.default_rng(6).random(x.shape) < 0.01] = np.nan
    wanted = es.mean(x, rows, budget=BUDGET, rng=rng()).to_json()
    padded = np.zeros((10000, 14))
    padded[::2, ::2] = x
    for other in (np.asfortranarray(x), padded[::2, ::2], x[::-1], np.random.default_rng(4).permutation(x)):
        assert es.mean(other, rows, budget=BUDGET, rng=rng()).to_json() == wanted
    for threads in (1, 2, 5):
        assert es.mean(x, rows, budget=BUDGET, rng=rng(), threads=threads).to_json() == wanted


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
def test_inputs_are_never_modified():
    x = data()
    x[3, 1], x[4, 2] = np.nan, np.inf
    before = x.copy()
    x.flags.writeable = False
    es.mean(x, es.Box(-0.5, 0.5), budget=BUDGET)
    assert np.array_equal(x, before, equal_nan=True)


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_missing_entries_are_handled_as_the_call_says(bad, relation):
    """At the center, filled, left out with their rows, or left out of their column; never an error, and finite."""
    x = data(30, 3)
    x[5, 1] = bad
    box = es.Box([-1, 0, -1], [1, 2, 1])
    how = {"budget": BUDGET, "neighbors": relation, "count_clipped": False}
    for missing, fill in (("none", 1.0), (0.25, 0.25), ([0.0, 0.75, 0.0], 0.75)):
        filled = x.copy()
        filled[5, 1] = fill
        a = es.mean(x, box, rng=rng(), missing=missing, **how)
        b = es.mean(filled, box, rng=rng(), missing=missing, **how)
        assert np.array_equal(a.value, b.value), missing
    how["budget"] = HUGE
    inside = np.clip(x, [-1, 0, -1], [1, 2, 1])
    column = [inside[:, 0].mean(), np.delete(inside[:, 1], 5).mean(), inside[:, 2].mean()]
    assert es.mean(x, box, missing="skip", **how).value == pytest.approx(column, abs=1e-6)
    assert es.mean(x, box, **how).value == pytest.approx(column, abs=1e-6)
    assert es.mean(x, box, missing="drop_row", **how).value == pytest.approx(
        np.delete(inside, 5, 0).mean(axis=0), abs=1e-6
    )
    everything = np.full((30, 3), bad)
    for missing in ("skip", "drop_row", "none", 0.5):
        how["budget"] = BUDGET
        assert np.isfinite(es.mean(everything, box, missing=missing, **how).value).all()


def test_rows_at_the_end_of_the_number_range_are_clipped():
    x = np.array([[1e308, -1e308], [1e308, 1e308]])
    found = es.sum(x, es.Ball(1.0), count_clipped=False, budget=HUGE)
    assert found.value == pytest.approx([math.sqrt(2), 0.0], abs=1e-6)
    with pytest.warns(es.AccuracyWarning) as told:
        counted = es.sum(x, es.Ball(1.0), budget=HUGE)
    assert counted.value == pytest.approx([math.sqrt(2), 0.0], abs=1e-6)
    assert "cannot be bounded" in " ".join(str(each.message) for each in told)


def test_empty_data_under_add_remove_gives_an_answer():
    x = np.zeros((0, 3))
    total = es.sum(x, es.Box(0, 1), budget=BUDGET, neighbors="add_remove")
    assert np.isfinite(total.value).all()
    for seed in range(20):
        mean = es.mean(x, es.Box(0, 1), budget=es.Budget(mu=0.01), neighbors="add_remove", rng=rng(seed))
        assert np.isfinite(mean.value).all()
        if mean.row_count < 1:
            assert np.linalg.norm((mean.value - 0.5) * mean.plan.ellipsoid.scale) <= 1 + 1e-9
    with pytest.raises(es.UsageError, match="no rows"):
        es.sum(x, es.Box(0, 1), budget=BUDGET)


def test_the_true_count_is_not_used_under_add_remove():
    """Noise and plan are the same whatever the number of rows; only the sums differ."""
    plan = es.plan("sum", es.Box(0, 1), n=10, d=2, budget=BUDGET, neighbors="add_remove")
    a = plan.release(np.full((10, 2), 0.5), rng=rng())
    b = plan.release(np.full((1000, 2), 0.5), rng=rng())
    assert b.row_count - a.row_count == pytest.approx(990, abs=1e-6)
    assert np.array_equal(a.plan.noise_std, b.plan.noise_std)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda x: es.sum(x, es.Ball(1.0)), "budget"),
        (lambda x: es.sum(x, es.Ball(1.0), epsilon=1.0), "delta"),
        (lambda x: es.sum(x, es.Ball(1.0), epsilon=1.0, delta=2.0), "delta"),
        (lambda x: es.sum(x, es.Ball(1.0), epsilon=-1.0, delta=1e-6), "epsilon"),
        (lambda x: es.sum(x, es.Box([0], [1]), budget=BUDGET), "columns"),
        (lambda x: es.sum(x, es.Ball(1.0, center=[1, 2]), budget=BUDGET), "columns"),
        (lambda x: es.sum(x.astype(str), es.Ball(1.0), budget=BUDGET), "real numbers"),
        (lambda x: es.sum(x.astype(object), es.Ball(1.0), budget=BUDGET), "real numbers"),
        (lambda x: es.sum(x, es.Ball(1.0), budget=BUDGET, n=7), "50 rows"),
        (lambda x: es.sum(x, 3.0, budget=BUDGET), "bounds must be"),
        (lambda x: es.sum(x, es.Ball(1.0), budget=BUDGET, rng=7), "rng"),
        (lambda x: es.plan("sum", es.Ball(1.0), n=51, d=3, budget=BUDGET).release(x), "made for 51 rows"),
        (lambda x: es.plan("sum", es.Ball(1.0), n=50, d=4, budget=BUDGET).release(x), "4 columns"),
    ],
)
def test_wrong_calls_are_refused_in_one_line(call, word):
    x = data()
    x[:] = 0.123454321
    with pytest.raises(es.UsageError, match=word) as caught:
        call(x)
    assert "\n" not in str(caught.value)
    assert "0.12345" not in str(caught.value)


def test_a_test_generator_is_marked_and_repeats():
    x = data()
    a = es.sum(x, es.Ball(2.0), budget=BUDGET, rng=rng(9))
    b = es.sum(x, es.Ball(2.0), budget=BUDGET, rng=rng(9))
    assert np.array_equal(a.value, b.value)
    assert not a.secure
    assert "NOT PRIVATE" in repr(a)
    assert "NOT PRIVATE" in a._repr_html_()
    assert '"secure": false' in a.to_json()
    c, d = (es.sum(x, es.Ball(2.0), budget=BUDGET) for _ in range(2))
    assert not np.array_equal(c.value, d.value)


def test_a_saved_plan_gives_the_same_release():
    x = data()
    plan = es.plan("sum", es.Box(-1, 1), n=50, d=3, budget=BUDGET)
    again = es.Plan.from_json(plan.to_json())
    assert np.array_equal(plan.release(x, rng=rng()).value, again.release(x, rng=rng()).value)


@pytest.mark.slow
@pytest.mark.parametrize(("module", "bounds"), [("ellipsoid", "es.Ball(1)"), ("clamp", "es.Box(0, 1)")])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_person_who_waits_reads_once_that_kernels_compile(module, bounds, order, tmp_path):
    """On a terminal; silence elsewhere."""
    code = f"import pty, sys; pty.spawn([sys.executable, '-c', 'import ellipsum.kernels.{module}'])"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path(es.__file__).parents[1])}

    def said(*command):
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment, timeout=120)
        return done.stdout + done.stderr

    assert "compiles for some seconds, only this time." in said("-c", code)
    assert said("-c", f"import ellipsum.kernels.{module}") == ""
    assert "compiles" in said("-c", code)  # nothing was compiled yet
    rows = f"numpy.zeros((9, 2), order={order!r})"
    said("-c", f"import numpy, ellipsum as es; es.sum({rows}, {bounds}, epsilon=1, delta=1e-6)")
    assert "compiles" not in said("-c", code)
