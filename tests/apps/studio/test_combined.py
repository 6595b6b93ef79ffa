"""[O5] Several releases as one: the least variance, intervals that hold, and nothing combined that differs."""

import warnings

import numpy as np
import pytest

import ellipsum as es
from ellipsum.apps.studio.combined import _weights, can_combine, combine, combines

BOX = es.Box({"x": (0, 1), "y": (0, 100)})


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", es.AccuracyWarning)
        yield


def releases(rows, epsilons, seed, **words):
    rng = np.random.default_rng(seed)
    return [es.mean(rows, BOX, epsilon=e, delta=1e-6, rng=rng, **words) for e in epsilons]


def test_weights_are_those_of_least_variance():
    stds = [np.array([1.0, 2.0]), np.array([3.0, 2.0])]
    weights = _weights(stds)
    best = (weights**2 * np.stack(stds) ** 2).sum(axis=0)
    np.testing.assert_allclose(best, 1 / (1 / np.stack(stds) ** 2).sum(axis=0))
    for shift in (0.01, -0.01):
        other = weights + np.array([[shift], [-shift]])
        assert ((other**2 * np.stack(stds) ** 2).sum(axis=0) > best).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("noise", ["gaussian", "knorm"])
def test_intervals_of_three_releases_cover_the_statistic_and_are_narrower(noise):
    """400 intervals at 95%: 355 hits are over five stds below the 380 expected, and 0.7 of the width falls short."""
    rows = np.random.default_rng(0).uniform([0, 0], [1, 100], (400, 2))
    truth, hits, narrow, widths = rows.mean(axis=0), 0, 0, []
    for seed in range(200):
        some = releases(rows, (0.5, 1.0, 2.0), seed, noise=noise, missing="none", count_clipped=False)
        for j, (_, value, span) in enumerate(combine(some).lines):
            low, high = (float(end) for end in span[1:-1].split(", "))
            middle, half = (low + high) / 2, (high - low) / 2
            hits += abs(middle - truth[j]) <= half
            narrow += abs(middle - truth[j]) <= 0.7 * half
            widths.append(2 * half / np.diff(some[2].confidence_interval(0.95)[j])[0])
            assert float(value) == pytest.approx(middle, abs=0.2 * half)
    assert hits >= 355
    assert narrow < 355
    assert np.mean(widths) < 0.95  # less than the best of them alone


def test_only_what_is_alike_is_combined():
    rows = np.random.default_rng(0).uniform([0, 0], [1, 100], (400, 2))
    one, other = releases(rows, (1.0, 1.0), 3)
    assert not can_combine([one])
    assert can_combine([one, other])
    learned = [es.mean(rows, es.Unknown(1e3), epsilon=5, delta=1e-6, rng=np.random.default_rng(s)) for s in (1, 2)]
    assert not can_combine(learned)
    assert combines(one)
    assert not combines(learned[0])
    with pytest.raises(es.UsageError):
        combine(learned)


def test_all_together_cost_what_they_compose_to():
    rows = np.random.default_rng(0).uniform([0, 0], [1, 100], (400, 2))
    some = releases(rows, (1.0, 0.5), 3, noise="gaussian")
    spent = es.compose([release.privacy for release in some]).epsilon(1e-6)
    assert f"epsilon {spent:.4g} at delta 1e-06" in combine(some).guarantee
    assert 1 < spent < 1.5
