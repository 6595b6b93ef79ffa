"""Rows with a clamped value: how many are noticed, what that costs, and that nothing of it is free by mistake."""

import math
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import ellipsum as es
from ellipsum.kernels.accumulate import accumulate
from ellipsum.noise.block_law import Block, Blocks, box_std, choose_blocks, with_count
from ellipsum.plans.noise_selection import plan_statistic
from ellipsum.request.people import People
from ellipsum.request.request import Request

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.accuracy.clamping import FALSE_ALARM, MOST_COST, NOTICED, clamped, plan_of, warned

N = 2000
pytestmark = pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")


def planned(d, noise="gaussian", statistic="mean", n=N, delta=1e-6, widths=None, **words):
    budget = es.Budget(epsilon=1, delta=delta).as_typed()
    bounds = es.Box([0.0] * d, [1.0] * d if widths is None else widths)
    return plan_statistic(Request(statistic, bounds, budget, noise=noise, **words).sized(n, d))


def only(plan, data):
    """The rows of one kind that a release of the data counts, without noise."""
    sums = accumulate(plan.row_map, [data]).sums.to_ints()
    return sums[plan.ellipsoid.width + plan.auxiliary.counted - 1] / plan.auxiliary.outside_rows


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("d", [1, 3, 6, 20])
@pytest.mark.parametrize("noise", ["gaussian", "knorm"])
def test_clamping_is_noticed(noise, d, everywhere):
    runs, plan = 1500, plan_of(d, noise, N)
    found = warned(plan, clamped(N, d, NOTICED[noise], everywhere), runs, 5) / runs
    assert found >= 0.95
    limit = plan.clamping_test.undetected_rows
    at_limit = warned(plan, clamped(N, d, limit, everywhere), runs, 6) / runs
    assert 0.95 - 4 * math.sqrt(0.95 * 0.05 / runs) <= at_limit
    assert warned(plan, clamped(N, d, limit // 2, everywhere), runs, 7) / runs < 0.5


@pytest.mark.parametrize("d", [1, 3, 20])
@pytest.mark.parametrize("noise", ["gaussian", "knorm"])
def test_false_alarms_are_one_in_ten_thousand(noise, d):
    runs = 20_000
    wrong = warned(plan_of(d, noise, N), clamped(N, d, 0, True), runs, 8)
    assert wrong <= FALSE_ALARM * runs + 5 * math.sqrt(FALSE_ALARM * runs)


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("d", [1, 2, 6, 11, 12, 20, 60])
@pytest.mark.parametrize("noise", ["gaussian", "knorm"])
def test_what_counting_costs(noise, d, neighbors):
    for missing in ("none", "skip", "drop_row"):
        words = {"noise": noise, "neighbors": neighbors, "missing": missing}
        cost = planned(d, **words).expected_error / planned(d, count_clipped=False, **words).expected_error
        assert (cost <= MOST_COST[noise]).all()
        assert (cost > 1.005).all()


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("noise", ["gaussian", "knorm"])
@pytest.mark.parametrize("statistic", ["sum", "mean", "describe"])
def test_noise_is_that_of_the_count_and_not_a_tenth_less(statistic, noise, neighbors):
    """The published count's errors, over many releases, have the std that its test assumes."""
    plan = planned(4, noise, statistic, neighbors=neighbors, widths=[1.0, 2.0, 3.0, 9.0])
    data = np.full((N, 4), 0.5)
    data[:300, 1:] = 50.0
    assert only(plan, data) == 300
    place = plan.ellipsoid.width + plan.auxiliary.counted - 1
    std = plan.stds[place] / plan.auxiliary.outside_rows
    counts = [plan.release(data, np.random.default_rng(seed)).counts.outside_rows for seed in range(1500)]
    assert abs(np.mean(counts) - 300) < 5 * std / math.sqrt(1500)
    assert 0.93 < np.std(counts) / std < 1.07


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("d", [1, 3, 12])
def test_the_sensitivity_is_attained_by_a_row_that_becomes_clamped(d, neighbors):
    """[S9] A halved entry of the body would be less than how far these two rows are apart."""
    plan = planned(d, neighbors=neighbors, missing="none")
    row_map = plan.row_map
    inside, outside = np.ones((1, d)), np.full((1, d), -9.0)
    first, second = (np.array(accumulate(row_map, [row]).sums.to_ints(), object) for row in (inside, outside))
    distance = Fraction(int(sum((first - second) ** 2)))
    norm = Fraction(int(sum(second**2)))
    assert distance <= row_map.body.diameter**2 <= distance * (1 + Fraction(1, 10**8))
    assert norm <= row_map.body.norm**2 <= norm * (1 + Fraction(1, 10**8))


@pytest.mark.parametrize("noise", ["gaussian", "knorm"])
@pytest.mark.parametrize("d", [1, 3, 20])
def test_more_units_need_more_noise(d, noise):
    plan = planned(d, noise)
    more = replace(plan.auxiliary, outside_rows=int(plan.auxiliary.outside_rows * 1.1) + 1)
    with pytest.raises(es.UsageError):
        replace(plan, auxiliary=more)


def test_blocks_with_a_count_spend_no_more_than_before():
    for d in (1, 2, 5, 11, 12, 30, 44, 100, 700):
        for widths in (np.ones(d), 1 / np.arange(1, d + 1), 1 / np.arange(1, d + 1) ** 2):
            before = choose_blocks(widths, np.ones(d), 0.7)
            after = with_count(before, d, 0.074)
            assert sum(Fraction(block.epsilon) for block in after.blocks) <= Fraction(0.7)
            assert sorted(after.columns) == list(range(d + 1))
            mine = next(block for block in after.blocks if d in block.columns)
            assert box_std(mine.size) / mine.epsilon <= box_std(1) / (0.074 * 0.7) * (1 + 1e-9)
            errors = {}
            for blocks in (before, after):
                parts = [
                    (box_std(b.size) / b.epsilon) ** 2 * sum(widths[j] ** 2 for j in b.columns if j < d)
                    for b in blocks.blocks
                ]
                errors[len(blocks.columns)] = sum(parts)
                assert blocks.error == pytest.approx(sum(parts), rel=1e-9)
            assert errors[d + 1] <= errors[d] / 0.926**2 * (1 + 1e-9)
            assert errors[d + 1] > errors[d]


def test_the_count_joins_a_block_from_twelve_columns_on():
    for d in (11, 12):
        blocks = with_count(Blocks(1.0, (Block(tuple(range(d)), 1.0),), 1.0), d, 0.074)
        assert len(blocks.blocks) == (2 if d == 11 else 1)


def test_warnings_name_the_column_where_counts_tell_it():
    data = np.random.default_rng(3).random((N, 3))
    data[:800, 1] = 9.0

    def told(rows, **words):
        return planned(rows.shape[1], **words).release(rows, np.random.default_rng(1)).warnings

    (gaussian,) = told(data)
    assert gaussian.startswith("About ")
    assert "% of the values of 'x2' are outside the bounds [0, 1]" in gaussian
    (norm,) = told(data, noise="knorm")
    assert "some column" in norm
    assert "%" in norm
    (alone,) = told(data[:, 1:2], noise="knorm")
    assert "of the values of 'x1' are outside" in alone
    assert told(data, count_clipped=False) == ()


def test_plan_and_release_print_the_limit():
    plan = planned(3)
    words = "clamping in fewer than 97 rows could go unnoticed"
    assert words in str(plan)
    release = plan.release(np.full((N, 3), 0.5))
    assert words in str(release)
    assert words in str(es.from_json(release.to_json()))
    assert release.clipping_bias.undetected_rows == 97
    assert "could go unnoticed in all 50 rows" in str(planned(3, n=50))
    assert "not counted" in str(planned(3, count_clipped=False))
    people = planned(3, people=People("id"))
    assert "fewer than 97 people" in str(people)


def test_a_column_without_width_is_never_clamped():
    """Nor are columns beside it named for it."""
    data = np.column_stack([np.full(N, 77.0), np.full(N, 0.5)])
    for noise in ("gaussian", "knorm"):
        plan = planned(2, noise, widths=[0.0, 1.0])
        assert only(plan, data) == 0
        data[:, 1] = 5.0
        (text,) = plan.release(data, np.random.default_rng(0)).warnings
        assert "'x2'" in text
        data[:, 1] = 0.5
    still = planned(2, widths=[0.0, 0.0])
    assert still.clamping_test is None


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("d", range(1, 9))
def test_complete_columns_err_no_more_than_by_laplace(d, delta):
    """Each column's squared error of Laplace noise at a share of epsilon is 2 d^2."""
    laplace = 2 * d**2
    bare = planned(d, "auto", delta=delta, missing="none", count_clipped=False).expected_error * N
    assert (bare**2 <= laplace * (1 + 1e-9)).all()
    usual = planned(d, "auto", delta=delta, missing="skip").expected_error * N
    assert (usual**2 <= (1.56 if d == 1 else 1) * laplace).all()
