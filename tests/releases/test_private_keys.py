"""Groups that are not listed: how often a group of one is published, and what neighbors can tell."""

import math
import warnings

import numpy as np
import pyarrow as pa
import pytest

import ellipsum as es
from ellipsum.noise import Stream
from ellipsum.numerics.wide_integers import Wide

BOX = es.Box(0, 1)
LOOSE = {"epsilon": 1.0, "delta": 0.02}  # so that failures are seen


def stream(seed):
    return Stream.open(np.random.default_rng(seed))


def published(made, groups, people, seed):
    """How many of so many groups of one size are published, by the law of their noise."""
    units, shift = made._threshold_units()
    counts = Wide.from_ints([people * made.one.count_units] * groups)
    zeros = np.zeros((groups, made.width - 1), np.int64)
    sums = Wide(np.hstack([zeros, counts.high[:, None]]), np.hstack([zeros, counts.low[:, None]]))
    return int((made.one.noise_law.add(sums, [], stream(seed))[:, -1] >= math.ldexp(units, shift)).sum())


def least(made, trials, wanted):
    """A bound on the number of successes that is exceeded with probability below 1e-9."""
    return trials * wanted + 7 * math.sqrt(trials * wanted) + 20


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("noise", ["gaussian", "knorm"])
def test_a_group_of_one_is_published_as_seldom_as_promised(neighbors, noise):
    made = es.plan("sum", BOX, n=1000, d=2, by="g", neighbors=neighbors, noise=noise, **LOOSE)
    trials = 200_000
    found = published(made, trials, 1, 3)
    assert found <= least(made, trials, made.failure)
    assert found >= trials * made.failure * 0.9 - 100  # the threshold is no higher than it must be
    assert published(made, trials, 0, 4) < found


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["gaussian", "knorm"])
def test_false_keys_in_ten_million_trials(noise):
    made = es.plan("sum", BOX, n=1000, d=1, by="g", noise=noise, epsilon=1.0, delta=1e-5)
    found = sum(published(made, 1_000_000, 1, seed) for seed in range(10))
    wanted = made.failure * 1e7
    assert found <= wanted + 7 * math.sqrt(wanted)
    assert found >= wanted - 7 * math.sqrt(wanted)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["gaussian", "knorm"])
def test_false_keys_end_to_end(noise):
    """A hundred thousand groups of one person each, in runs of a thousand."""
    found = 0
    for seed in range(100):
        words = {"by": np.arange(1000), "noise": noise, "neighbors": "add_remove", "rng": np.random.default_rng(seed)}
        found += len(es.sum(np.ones((1000, 1)), BOX, **words, **LOOSE).keys)
    made = es.plan("sum", BOX, d=1, by="g", noise=noise, neighbors="add_remove", **LOOSE)
    assert found <= least(made, 100_000, made.failure)
    assert found >= 100_000 * made.failure * 0.8


def test_ten_percent_less_noise_would_be_seen():
    made = es.plan("sum", BOX, n=1000, d=2, by="g", noise="gaussian", **LOOSE)
    trials = 200_000
    far = made.threshold - 1
    rng = np.random.default_rng(0)
    weak = int((rng.normal(0, 1.1 * made.one.count_std, trials) >= far).sum())
    assert weak > least(made, trials, made.failure)


def test_large_groups_are_published_and_small_ones_not():
    codes = np.concatenate([np.repeat(np.arange(50), 400), 1000 + np.arange(300)])
    release = es.mean(np.ones((codes.size, 2)), BOX, by=codes, epsilon=1, delta=1e-6, rng=np.random.default_rng(0))
    assert [key for (key,) in release.keys.tolist()] == list(range(50))


@pytest.mark.parametrize("noise", ["gaussian", "knorm"])
def test_groups_near_the_threshold_are_published_as_noise_has_it(noise):
    """Not by their exact numbers of rows: about half of them."""
    words = {"neighbors": "add_remove", "noise": noise, "epsilon": 1.0, "delta": 1e-6}
    size = round(es.plan("sum", BOX, d=1, by="g", **words).threshold)
    codes = np.repeat(np.arange(60), size)
    release = es.sum(np.ones((codes.size, 1)), BOX, by=codes, rng=np.random.default_rng(0), **words)
    assert 10 < len(release.keys) < 50


# Neighbors ---------------------------------------------------------------------------------------------


def watched(data, codes, keys=None, **words):
    """Everything that a call shows: result or error, warnings and progress."""
    told = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            rows = es.Box([0.0, 0.0], [1.0, 1.0])
            rng = np.random.default_rng(9)
            groups = es.Groups(codes, keys=keys)
            shown = es.mean(data, rows, by=groups, rng=rng, progress=told.append, epsilon=1, delta=1e-6, **words)
        except es.EllipsumError as error:
            shown = f"{type(error).__name__}: {error}"
    return shown, [str(warning.message) for warning in caught], told


ODD = [(np.nan, np.nan), (np.inf, -np.inf), (1e308, -1e308), (0.0, 0.0), (1.0, 1.0)]
KEYS = ["g1", None, "", "x" * 5000, "never seen", "\ud800", "g2\n\x00", "0"]


@pytest.mark.parametrize("keys", [None, ["g0", "g1", "g2"]])
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_one_row_decides_nothing_that_shows(keys, neighbors):
    rng = np.random.default_rng(1)
    data = rng.random((600, 2))
    codes = np.array([f"g{i % 3}" for i in range(600)], object)
    words = {"keys": keys, "neighbors": neighbors, "n": 600}
    release, said, told = watched(data, codes, **words)
    assert isinstance(release, es.GroupRelease)
    for entries in ODD:
        for key in KEYS:
            other, others = data.copy(), codes.copy()
            other[5], others[5] = entries, key
            found, words_said, steps = watched(other, others, **words)
            assert isinstance(found, es.GroupRelease)
            assert steps == told
            assert words_said == said
            assert found.keys.tolist() == release.keys.tolist()
            assert found.kinds == release.kinds
            assert len(found.to_json()) > 0
            if keys is not None or key in ("g1", None, "x" * 5000):  # as many groups have the same noise
                moved = np.linalg.norm(found.noisy - release.noisy)
                assert moved <= 2 * math.sqrt(1 + release.plan.one.count_weight**2) + 1e-6
    if neighbors == "add_remove":
        found, words_said, steps = watched(data[:-1], codes[:-1], **words)
        assert (words_said, steps) == (said, told)
        assert found.keys.tolist() == release.keys.tolist()


def test_suppressed_and_absent_groups_look_the_same():
    data, codes = np.ones((900, 1)), np.repeat(["a", "b", "c"], 300)
    small = np.append(codes, "d")
    words = {"neighbors": "add_remove", "noise": "gaussian", "epsilon": 1, "delta": 1e-6}
    without = es.sum(data, BOX, by=codes, rng=np.random.default_rng(0), **words)
    having = es.sum(np.ones((901, 1)), BOX, by=small, rng=np.random.default_rng(0), **words)
    assert having == without  # the last key in order: the others have the noise that they had
    assert having.to_json() == without.to_json()


def test_order_of_rows_shows_nowhere():
    rng = np.random.default_rng(2)
    data, codes = rng.random((3000, 2)), np.repeat(["x", "a", "m"], 1000)
    order = rng.permutation(3000)
    first = es.mean(data, BOX, by=codes, rng=np.random.default_rng(1), epsilon=1, delta=1e-6)
    second = es.mean(data[order], BOX, by=codes[order], rng=np.random.default_rng(1), epsilon=1, delta=1e-6)
    assert first == second
    assert first.keys.tolist() == [["a"], ["m"], ["x"]]


def test_categories_of_a_column_are_no_list():
    """Categories that no row has are not published, whatever a dictionary says."""
    cells = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 300), pa.array(["a", "b", "secret"]))
    release = es.sum(pa.table({"v": np.ones(600), "k": cells}), es.Box({"v": (0, 1)}), by="k", epsilon=1, delta=1e-6)
    assert release.keys.tolist() == [["a"], ["b"]]


@pytest.mark.slow
def test_a_million_groups():
    rng = np.random.default_rng(0)
    codes = np.concatenate([np.arange(1_000_000), rng.integers(0, 100, 500_000)])
    data = rng.random((codes.size, 8))
    release = es.mean(data, BOX, by=codes, neighbors="add_remove", epsilon=1, delta=1e-9)
    assert [key for (key,) in release.keys.tolist()] == list(range(100))
    with pytest.warns(es.AccuracyWarning):
        listed = es.mean(
            data, BOX, by=es.Groups(codes, keys=list(range(1_000_000))), neighbors="add_remove", epsilon=1, delta=1e-6
        )
    assert listed.value.shape == (1_000_000, 8)
    assert listed.to_arrow().num_rows == 1_000_000
