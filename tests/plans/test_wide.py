"""Plans and releases of very many columns work on arrays: nothing is made per column in Python."""

import cProfile
import pstats
import tracemalloc
import warnings

import numpy as np
import pytest

import ellipsum as es

COLUMNS = 200_000
MOST_CALLS = COLUMNS // 10  # work per column would make at least as many calls as there are columns
MOST_VECTORS = 45  # of doubles, 42 when written: one more list of Python's numbers is five
ROWS = {
    "box": lambda d: es.Box(np.full(d, -1.0), np.full(d, 1.0)),
    "uneven": lambda d: es.Box(-np.linspace(1, 3, d), np.full(d, 1.0)),
    "ball": lambda d: es.Ball(d**0.5 / 2),
}


def plan_and_release(kind, d, data):
    bounds = ROWS[kind](d)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = es.mean(data[:, :d], bounds, epsilon=1, delta=1e-6)
        assert np.isfinite(release.standard_error).all()
        return len(release.warnings)


@pytest.fixture(scope="module")
def data():
    return np.random.default_rng(1).uniform(-1, 1, (4, COLUMNS))


@pytest.mark.parametrize("kind", ROWS)
def test_nothing_is_made_per_column(kind, data):
    plan_and_release(kind, 2000, data)  # compiled, and imported
    profile = cProfile.Profile()
    tracemalloc.start()
    try:
        profile.enable()
        told = plan_and_release(kind, COLUMNS, data)
        profile.disable()
        peak = tracemalloc.get_traced_memory()[1] / (8 * COLUMNS)
    finally:
        tracemalloc.stop()
    assert pstats.Stats(profile).total_calls < MOST_CALLS
    assert peak < MOST_VECTORS
    assert told <= 22


def test_only_some_columns_have_a_warning_of_their_own():
    data = np.full((5000, 300), 10.0)
    with pytest.warns(es.AccuracyWarning):
        release = es.mean(data, es.Box(np.zeros(300), np.ones(300)), noise="gaussian", epsilon=100, delta=1e-6)
    assert len(release.warnings) == 21
    assert release.warnings[-1].startswith("Values of 280 more columns")
