"""Joint confidence regions of every law of noise: they cover at their level, and smaller ones do not."""

import numpy as np
import pytest
from scipy import integrate, special, stats

import ellipsum as es
from ellipsum.noise import Stream
from ellipsum.noise.block_law import Block, BlockLaw, Blocks, box_largest_isf, box_largest_sf, box_sf
from ellipsum.noise.law import GaussianLaw, SphericalLaw
from ellipsum.numerics.wide_integers import Wide
from ellipsum.releases.decode import ConfidenceBox, ConfidenceEllipsoid

LEVEL, RUNS = 0.8, 10_000
X = np.random.default_rng(0).uniform(0, 1, (300, 3)) * [1, 2, 10]
BOX = es.Box({"a": (0, 1), "b": (0, 2), "c": (0, 10)})
BUDGET = {"epsilon": 3.0, "delta": 1e-6}


def drawn(law, width, seed):
    """Noise vectors, one in each row."""
    return law.add(Wide.from_int64(np.zeros((RUNS, width), np.int64)), [], Stream.open(np.random.default_rng(seed)))


def holds(covered, runs=RUNS, level=LEVEL):
    """Whether so many covered truths are what the level has, but for one alarm in 10^9."""
    low, high = stats.binom.ppf([5e-10, 1 - 5e-10], runs, level)
    return low <= covered <= high


@pytest.mark.parametrize("law", [GaussianLaw(1e6), SphericalLaw(1e6, 6)], ids=["gaussian", "ball"])
def test_ellipsoids_of_some_directions_cover_at_their_level(law):
    """Three columns made of six noisy coordinates, as where counts of their own join them; 10% less noise is found."""
    parts = np.random.default_rng(3).normal(size=(3, 6))
    noise = drawn(law, 6, seed=4) @ parts.T
    covariance = parts @ np.diag(law.stds(6) ** 2) @ parts.T
    squares = np.sum(noise * np.linalg.solve(covariance, noise.T).T, axis=1)
    most = law.squared_radius(3, LEVEL)
    assert holds(np.sum(squares <= most))
    assert not holds(np.sum(squares * 0.9**2 <= most))
    assert not holds(np.sum(squares / 0.9**2 <= most))


def test_boxes_of_blocks_cover_at_their_level():
    """Blocks of two, five and one, of which the last column but one of the five is of no interest."""
    shares = (Block((3, 0), 0.5), Block((1, 2, 5, 6, 7), 0.25), Block((4,), 0.25))
    law = BlockLaw(Blocks(1.0, shares, 0.0), (2e6, 3e6, 1e7))
    wanted = np.ones(8, bool)
    wanted[6] = False
    noise = np.abs(drawn(law, 8, seed=5)) / law.stds(8)
    half = law.joint_multiples(wanted, LEVEL)
    assert half[6] == 0
    inside = [np.sum((noise[:, wanted] * factor <= half[wanted]).all(axis=1)) for factor in (1, 0.9, 1 / 0.9)]
    assert [holds(count) for count in inside] == [True, False, False]


@pytest.mark.parametrize("size", [1, 2, 7, 300])
def test_the_largest_of_a_blocks_coordinates(size):
    """[K4] All of them: Gamma(size); one: a coordinate's tail; some: the mean over the radius."""
    for p in (1e-9, 0.01, 0.3, 0.95):
        x = float(special.gammainccinv(size, p))
        assert box_largest_sf(x, size, size) == pytest.approx(p, rel=1e-8)
        assert box_largest_isf(p, size, size) == pytest.approx(x, rel=1e-8)
        assert box_largest_sf(x, 1, size) == pytest.approx(2 * box_sf(x, size), rel=1e-8)
    part, x = (size + 1) // 2, float(size)
    far = float(special.gammainccinv(size + 1, 1e-14))
    tail, _ = integrate.quad(
        lambda r: (1 - (x / r) ** part) * stats.gamma.pdf(r, size + 1), x, far, epsabs=1e-13, limit=300
    )
    assert box_largest_sf(x, part, size) == pytest.approx(tail, rel=1e-8)


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("statistic", ["sum", "mean"])
@pytest.mark.parametrize("rows", [BOX, es.Ball(12.0, columns=("a", "b", "c"))], ids=["box", "ball"])
def test_regions_of_releases_cover_the_truth(rows, statistic, relation):
    """Counts of absences and rows join in: a box is then wider than need be, an ellipsoid is not."""
    repeats = 150
    plan = es.plan(statistic, rows, n=300, neighbors=relation, noise="knorm", **BUDGET)
    rng, truth = np.random.default_rng(1), getattr(X, statistic)(axis=0)
    regions = [plan.release(X, rng=rng).confidence_region(LEVEL) for _ in range(repeats)]
    covered = sum(region.contains(truth) for region in regions)
    low, high = stats.binom.ppf([5e-10, 1 - 5e-10], repeats, LEVEL)
    assert plan.mechanism == ("knorm_linf" if rows is BOX else "knorm_l2")
    assert low <= covered <= (repeats if rows is BOX else high)
    assert type(regions[0]) is (ConfidenceBox if rows is BOX else ConfidenceEllipsoid)


@pytest.mark.parametrize("missing", ["none", "drop_row", "skip"])
def test_what_is_done_about_absent_cells_is_in_the_box(missing):
    plan = es.plan("mean", BOX, n=300, missing=missing, epsilon=3.0, delta=0, neighbors="add_remove")
    data = np.where(np.random.default_rng(2).random(X.shape) < 0.1, np.nan, X)
    whole = ~np.isnan(data).any(axis=1)
    truths = {"none": np.where(np.isnan(data), [0.5, 1, 5], data).mean(0), "drop_row": data[whole].mean(0)}
    truth = truths.get(missing, np.nanmean(data, axis=0))
    rng = np.random.default_rng(3)
    covered = sum(plan.release(data, rng=rng).confidence_region(LEVEL).contains(truth) for _ in range(120))
    assert covered >= stats.binom.ppf(5e-10, 120, LEVEL)


def test_blocks_have_a_box():
    release = es.mean(X, BOX, epsilon=1.0, delta=0, rng=np.random.default_rng(0))
    box = release.confidence_region(0.95)
    assert box.contains(release.value)
    assert (box.half >= np.diff(release.confidence_interval(0.95)).ravel() / 2).all()
    assert not box.contains(release.value + [0, 0, 1.01] * box.half)
    for level in (0, 1, 1.5, np.nan, "high"):
        with pytest.raises(es.UsageError, match="level"):
            release.confidence_region(level)


@pytest.mark.parametrize("noise", ["gaussian", "knorm"])
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_columns_without_width_have_the_noise_of_their_counts_alone(noise, relation):
    """Their sums are the column's value times noisy counts, which other columns share; no such point was inside."""
    rows = es.Box({"a": (0, 1), "fixed": (7, 7), "still": (2, 2), "b": (0, 2)})
    data = np.stack([X[:, 0], np.full(300, 7.0), np.full(300, 2.0), X[:, 1]], axis=1)
    plan = es.plan("sum", rows, n=300, neighbors=relation, noise=noise, missing="none", **BUDGET)
    rng, truth = np.random.default_rng(6), data.sum(axis=0)
    regions = [plan.release(data, rng=rng).confidence_region(LEVEL) for _ in range(120)]
    covered = sum(region.contains(truth) for region in regions)
    low, high = stats.binom.ppf([5e-10, 1 - 5e-10], 120, LEVEL)
    assert low <= covered <= (120 if noise == "knorm" else high)
    assert not any(region.contains(truth + np.array([0, 0, 1e3, 0])) for region in regions)
