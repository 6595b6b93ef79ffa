"""The ball method: its decisions as functions of noisy results, and what it finds in every setting."""

import math
import warnings

import numpy as np
import pytest

import ellipsum as es
from ellipsum.learning import ball as module
from ellipsum.learning.ball import Shape, norm_edges, remove_noise, shrink_spreads
from ellipsum.learning.constants import MOST_PASSES
from ellipsum.learning.histograms import Histogram, thresholds
from ellipsum.learning.rounds import Region
from ellipsum.regions.ellipsoid import Ellipsoid
from ellipsum.session import Session

G = np.random.default_rng(0)
FAR = G.normal(size=(5000, 20)) + 50 * np.linspace(-1, 1, 20)
UNITS = 10.0 ** np.arange(-4, 8)
UNEVEN = (G.normal(size=(6000, 12)) + G.choice([-1, 1], 12) * 10.0 ** np.linspace(-1, 3, 12)) * UNITS
STRETCHED = (G.normal(size=(6000, 30)) * np.logspace(0, -2, 30)) @ np.linalg.qr(G.normal(size=(30, 30)))[0] + 3


def released(data, magnitude, seed=1, epsilon=2, delta=1e-6, **words):
    return es.mean(data, es.Unknown(magnitude), epsilon=epsilon, delta=delta, rng=np.random.default_rng(seed), **words)


def error(release, data, relative=True):
    off = release.value - np.nanmean(data, 0)
    spread = np.nanstd(data, 0) if relative else math.sqrt(np.nanvar(data, 0).mean())
    return float(np.sqrt(np.mean((off / spread) ** 2)))


def names(release):
    return [step.name for step in release.learned.steps]


# Decisions


def norms(rows, std=1.0, top=1024.0):
    one, sides = np.ones(1), np.full(1, top / 2)
    edges = norm_edges(Region(0 * one, one, -sides, sides, one > 0, np.zeros((2, 1))), Ellipsoid(0 * one, one))
    counts = np.histogram(rows, edges)[0].astype(float)
    return Histogram(edges, counts, std, float(len(rows)), thresholds(counts.size))


def test_norms_have_the_quantiles_of_their_rows():
    rows = np.random.default_rng(3).lognormal(1.0, 0.3, 20_000)
    histogram = norms(rows)
    assert histogram.hull.sure
    assert histogram.quantile(0.5) == pytest.approx(np.median(rows), rel=0.01)
    assert histogram.quantile(0.16) == pytest.approx(np.quantile(rows, 0.16), rel=0.01)
    assert not norms(rows[:3], std=10.0).hull.sure


def test_clipping_is_forecast_from_the_rows_beyond_a_radius():
    rows = np.random.default_rng(5).exponential(1.0, 20_000)
    one, cuts = np.ones(1), np.array([0.5, 1.0, 3.0])
    totals = np.array([[np.sum((low <= rows) & (rows < high))] for low, high in zip(cuts, [1, 3, 99], strict=True)])
    shape = Shape(Ellipsoid(0 * one, one), one, norms(rows), cuts, totals.astype(float), 1.0)
    radii = np.array([0.5, 1.0, 3.0])
    exact = [np.maximum(rows - radius, 0).sum() for radius in radii]
    assert shape.excess(radii).sum(1) == pytest.approx(exact, rel=0.05)
    assert shape.pull(radii[1:], one) == pytest.approx(exact[1:], rel=0.05)  # all rows lie to one side
    for radius, true in zip(radii[1:], exact[1:], strict=True):
        assert shape.bias(radius, one)[1, 0] > 0.95 * true


def test_edges_of_norms_reach_thirty_octaves_down():
    edges = norms(np.ones(10), top=100.0).edges
    assert (edges[0], edges[-1]) == (0, 100)
    assert edges[1] < 100 * 2.0**-29
    assert (np.diff(edges) > 0).all()


def test_noise_alone_draws_spreads_to_their_mean():
    spreads, found = 1 + 0.1 * np.random.default_rng(6).normal(size=1000), np.ones(1000, np.bool_)
    assert shrink_spreads(spreads, 0.1, found).std() < 0.03
    apart = np.concatenate([spreads, 10 * spreads])
    assert shrink_spreads(apart, 0.1, np.ones(2000, np.bool_)) == pytest.approx(apart, rel=0.05)
    assert shrink_spreads(np.array([-1.0, 2.0]), 0.5, np.ones(2, np.bool_)).min() == 0.5
    some = shrink_spreads(np.array([1.0, 3.0, 1e9]), 1e-6, np.array([True, True, False]))
    assert some[:2] == pytest.approx([1.0, 3.0])


def test_noise_in_second_moments_is_taken_out():
    d, std = 60, 0.02
    noise = np.triu(np.random.default_rng(7).normal(size=(d, d)), 1) * std / math.sqrt(2)
    noise = noise + noise.T + np.diag(np.random.default_rng(8).normal(size=d) * std)
    matrix = np.diag([1.0, 0.5] + [0.0] * (d - 2)) + noise
    values = np.linalg.eigvalsh(remove_noise(matrix, std))
    assert values[-2:] == pytest.approx([0.5, 1.0], abs=0.07)
    assert 0 < values[:-2].min()
    assert values[:-2].max() < 0.02


def test_axes_make_the_noise_as_long_as_the_root_of_the_spread():
    """Noise in proportion to Sigma^(1/2), so that its deviation along an axis is that of the rows to the power 1/2."""
    release = released(STRETCHED, 100.0, epsilon=8, error_weights="equal")
    assert "axes" in names(release)
    axes = np.linalg.svd(STRETCHED - STRETCHED.mean(0), full_matrices=False)[2]
    spread = (STRETCHED @ axes.T).std(0)
    noise = np.sqrt(np.diag(axes @ release.noise.covariance @ axes.T))
    ratio = noise / np.sqrt(spread)
    seen = (ratio / np.median(ratio))[spread > 0.05]
    assert 0.7 < seen.min()
    assert seen.max() < 1.4


# What it finds


@pytest.mark.parametrize(
    ("data", "magnitude", "relative", "most"),
    [(FAR, 1e4, False, 0.01), (STRETCHED, 1e3, False, 0.012), (UNEVEN, 1e6 * UNITS, True, 0.01)],
)
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_rows_are_found_wherever_they_lie(data, magnitude, relative, most, neighbors):
    release = released(data, magnitude, error_weights="relative" if relative else "equal", neighbors=neighbors)
    assert error(release, data, relative) < most
    assert release.warnings == ()
    assert es.from_json(release.to_json()) == release
    low, high = np.asarray(release.confidence_interval(0.999)).T
    assert ((low <= data.mean(0)) & (data.mean(0) <= high)).all()


def test_intervals_cover_as_often_as_they_say():
    hits = []
    for seed in range(40):
        low, high = np.asarray(released(FAR[:2000], 1e3, seed, error_weights="equal").confidence_interval(0.95)).T
        hits.append(((low <= FAR[:2000].mean(0)) & (FAR[:2000].mean(0) <= high)).mean())
    assert np.mean(hits) > 0.92


def test_missing_entries_neither_move_a_mean_nor_count():
    data = FAR.copy()
    data[np.random.default_rng(9).random(data.shape) < 0.2] = np.nan
    assert error(released(data, 1e4, error_weights="equal"), data, relative=False) < 0.02
    uneven = UNEVEN.copy()
    uneven[::3, 4] = np.nan
    release = released(uneven, 1e6 * UNITS, error_weights="relative")
    assert error(release, uneven) < 0.02
    assert release.learned.absent.rows[4] == pytest.approx(2000, abs=300)


def test_heavy_tails_widen_the_interval_and_do_not_break_it():
    data = np.random.default_rng(10).standard_t(2.5, size=(8000, 12)) + 7
    for weights in ("equal", "relative"):
        hits = []
        for seed in range(10):
            release = released(data, 1e6, seed, error_weights=weights)
            assert error(release, data) < 0.02
            low, high = np.asarray(release.confidence_interval(0.95)).T
            hits.append(((low <= data.mean(0)) & (data.mean(0) <= high)).mean())
        assert np.mean(hits) > 0.9


def test_people_with_several_rows_each():
    table = {f"c{j}": FAR[:, j] for j in range(12)} | {"id": np.arange(len(FAR)) // 2}
    pandas = pytest.importorskip("pandas")
    words = {"columns": [f"c{j}" for j in range(12)], "epsilon": 4}
    rows = released(pandas.DataFrame(table), 1e3, privacy_id=es.People("id", "rows", 2), **words)
    means = released(pandas.DataFrame(table), 1e3, privacy_id="id", **words)
    for release in (rows, means):
        assert error(release, FAR[:, :12]) < 0.05


def test_a_column_that_is_lost_has_no_value_and_the_whole_range_for_an_interval():
    """A few rows of thirty columns, spread over twenty octaves each: noise hides them all."""
    data = np.exp2(np.random.default_rng(11).uniform(-20, 0, size=(300, 30)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = released(data, 1.0, epsilon=1, error_weights="relative")
    lost = ~release.learned.found
    assert any("Not found among the noise" in text for text in release.warnings)
    assert lost.any()
    assert (np.isnan(release.value) == lost).all()
    low, high = np.asarray(release.confidence_interval(0.95)).T
    assert (low[lost] <= -1).all()
    assert (high[lost] >= 1).all()


def test_rare_values_far_beyond_the_ends_warn():
    data = np.random.default_rng(12).normal(size=(6000, 12))
    data[np.random.default_rng(13).random(data.shape) < 0.03] = 1e4
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        release = released(data, 1e6, epsilon=1, error_weights="relative")
    low, high = np.asarray(release.confidence_interval(0.95)).T
    covered = ((low <= data.mean(0)) & (data.mean(0) <= high)).all()
    assert covered or "beyond the learned ends" in str([one.message for one in told])


@pytest.mark.parametrize(
    ("data", "magnitude", "weights"),
    [(FAR, 1e8, "equal"), (STRETCHED, 1e3, "equal"), (UNEVEN, 1e6 * UNITS, "relative")],
)
def test_ten_passes_are_enough(data, magnitude, weights, monkeypatch):
    read = []
    total = Session.total
    monkeypatch.setattr(Session, "total", lambda *words, **more: read.append(1) or total(*words, **more))
    released(data, magnitude, error_weights=weights)
    assert len(read) <= MOST_PASSES


def test_the_rounds_leave_most_of_the_budget_to_the_release():
    for data, magnitude, weights in ((FAR, 1e4, "equal"), (UNEVEN, 1e6 * UNITS, "relative")):
        release = released(data, magnitude, error_weights=weights)
        steps = release.learned.steps
        spent = sum(step.privacy.mu**2 for step in steps)
        assert spent <= release.privacy.mu**2 * (1 + 1e-12)
        assert steps[-1].privacy.mu ** 2 > 0.5 * release.privacy.mu**2


def test_any_magnitude_serves():
    for magnitude in (1e-139, 1e139):
        data = FAR[:2000, :10] * (magnitude / 1e3)
        for weights in ("equal", "relative"):
            release = released(data, magnitude, error_weights=weights)
            assert release.value / magnitude == pytest.approx(data.mean(0) / magnitude, abs=1e-4)


def test_a_thousand_columns():
    data = np.random.default_rng(14).normal(size=(3000, 1000)) / np.arange(1, 1001)
    release = released(data, 100.0, epsilon=4, error_weights="equal")
    assert error(release, data, relative=False) < 0.01 * math.sqrt(1000)


def test_the_module_has_no_randomness_of_its_own():
    """Noise comes through the rounds alone: the same rng gives the same release."""
    assert not hasattr(module, "random")
    first, second = (released(FAR, 1e4, error_weights="equal") for _ in range(2))
    assert (first.value == second.value).all()
