"""Means, standard deviations and intervals end where the bounds do, and what was cut stays available."""

import numpy as np
import pytest

import ellipsum as es
from ellipsum.plans.noise_selection import plan_statistic
from ellipsum.request.groups import Groups
from ellipsum.request.request import Request

pytestmark = pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")


def planned(statistic, n=6, **words):
    request = Request(statistic, es.Box([0.0, -3.0], [1.0, 5.0]), es.Budget(epsilon=0.5, delta=1e-6), **words)
    return plan_statistic(request.sized(n, 2))


@pytest.mark.parametrize("noise", ["gaussian", "knorm"])
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("statistic", ["mean", "describe"])
def test_means_and_their_intervals_stay_within_the_bounds(statistic, neighbors, noise):
    """[U10] Six rows, far too few: most raw values are impossible, and every interval still covers as it says."""
    data = np.tile([1.0, -3.0], (6, 1))
    plan = planned(statistic, neighbors=neighbors, noise=noise, missing="none")
    held, cut, nearer = [], 0, []
    for seed in range(300):
        release = plan.release(data, np.random.default_rng(seed))
        low, high = release.confidence_interval(0.9).T
        for part in (release.value, low, high):
            assert ((part >= [0.0, -3.0]) & (part <= [1.0, 5.0])).all()
        assert (low <= high).all()
        held.append((low <= data[0]) & (data[0] <= high))
        cut += int((release.value != release.raw_value).any())
        nearer.append(np.abs(release.raw_value - data[0]) - np.abs(release.value - data[0]))
        if statistic == "describe":
            assert ((release.std >= 0) & (release.std <= [0.5, 4.0])).all()
    assert np.mean(held) >= 0.9 - 4 * np.sqrt(0.09 / 300)
    if neighbors == "replace":  # under add_remove a count in doubt holds means to the bounds already
        assert cut > 100
    assert np.min(nearer) >= -1e-9


def test_sums_are_not_cut_since_they_are_added_up():
    plan = planned("sum", missing="none")
    values = [plan.release(np.zeros((6, 2)), np.random.default_rng(seed)).value for seed in range(300)]
    assert np.abs(np.mean(values, axis=0) / np.std(values, axis=0) * np.sqrt(300)).max() < 4.5
    assert (np.array(values) < 0)[:, 0].any()


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_intervals_of_sums_end_where_the_rows_and_bounds_do(neighbors):
    """[U10] Six rows in [0, 1] and [-3, 5]: as far as the number of rows is public, and always at a bound of 0."""
    data = np.tile([1.0, -3.0], (6, 1))
    plan = planned("sum", neighbors=neighbors, noise="gaussian")
    held, cut = [], 0
    for seed in range(300):
        release = plan.release(data, np.random.default_rng(seed))
        low, high = release.confidence_interval(0.9).T
        assert low[0] >= 0
        if neighbors == "replace":
            assert ((low >= [0, -18]) & (high <= [6, 30])).all()
            beyond = (release.value < [0, -18]) | (release.value > [6, 30])
            assert ("beyond what the bounds allow" in str(release)) == beyond.any()
        assert (low <= high).all()
        held.append((low <= data.sum(axis=0)) & (data.sum(axis=0) <= high))
        half = release.half_widths(0.9)
        cut += int((release.value - half < low).any())
    assert cut > 100
    assert np.mean(held) >= 0.9 - 4 * np.sqrt(0.09 / 300)


def test_raw_means_have_no_bias():
    plan = planned("mean", missing="none", noise="gaussian")
    data = np.tile([1.0, -3.0], (6, 1))
    raw = [plan.release(data, np.random.default_rng(seed)).raw_value - data[0] for seed in range(300)]
    assert np.abs(np.mean(raw, axis=0) / np.std(raw, axis=0) * np.sqrt(300)).max() < 4.5


def test_groups_stay_within_the_bounds_too():
    data = np.tile([1.0, -3.0], (12, 1))
    frame = {"a": data[:, 0], "b": data[:, 1], "g": np.repeat(["x", "y", "z"], 4)}
    table = __import__("pyarrow").table(frame)
    bounds = es.Box({"a": (0, 1), "b": (-3, 5)})
    from ellipsum.plans.group_plan import plan_groups

    request = Request(
        "mean", bounds, es.Budget(epsilon=0.5, delta=1e-6).as_typed(), groups=Groups("g", ["x", "y", "z"])
    )
    plan = plan_groups(request.sized(12, 2))
    for seed in range(50):
        release = plan.release(table, np.random.default_rng(seed))
        spans = release.confidence_interval(0.9)
        for part in (release.value, spans[..., 0], spans[..., 1]):
            assert ((part >= [0.0, -3.0]) & (part <= [1.0, 5.0])).all()
