"""[L20] to [L26]: the published methods are sequences of rounds with their papers' shares, and find the mean."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import ellipsum as es
from ellipsum.kernels.accumulate import accumulate
from ellipsum.learning import published
from ellipsum.learning.published import _clip_radius, _normal_length, rotation
from ellipsum.regions.ellipsoid import Ellipsoid
from ellipsum.row_maps.histograms import Sides
from ellipsum.session import Session

METHODS = ["coinpress", "instance_optimal", "variance_aware", "friendly_core"]
NORMAL = np.random.default_rng(0).normal(size=(4000, 5)) * 2 + [1, -2, 0, 3, 1]


def released(data, method, magnitude=20.0, seed=1, epsilon=8, delta=1e-6, **words):
    own = {name: words.pop(name) for name in ("steps", "std", "clip_share") if name in words}
    bounds, rng = es.Unknown(magnitude, method=method, **own), np.random.default_rng(seed)
    return es.mean(data, bounds, epsilon=epsilon, delta=delta, error_weights="equal", rng=rng, **words)


def shares(release):
    """What part of mu^2 each step was charged, as far as doubles tell."""
    whole = release.privacy.mu**2
    return [(step.name, step.privacy.mu**2 / whole) for step in release.learned.steps]


# [L21] quantiles


def sides(measure, fraction):
    region = Ellipsoid(np.array([0.5, 0.0]), np.array([1.0, 2.0]))
    return Sides(region, [1.0] if measure == "norm" else [0.5, 1.0], fraction, measure)


ROWS = np.array(list(itertools.product([-9.0, -1.0, 0.0, 0.5, 1.0, np.nan, np.inf, 1e300], repeat=2)))


@pytest.mark.parametrize("measure", ["values", "sizes", "norm"])
@pytest.mark.parametrize("fraction", [0.5, 0.9, 0.1])
def test_sides_have_the_stated_norm_and_diameter_and_no_smaller_ones(measure, fraction):
    row_map = sides(measure, fraction)
    found = [accumulate(row_map, [row[None]], threads=1).sums.to_ints() for row in ROWS]
    longest = max(sum(entry**2 for entry in one) for one in found)
    apart = max(sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) for one in found for other in found)
    assert longest <= row_map.body.norm**2 <= longest * (1 + Fraction(1, 10**6))
    assert apart <= row_map.body.diameter**2 <= apart * (1 + Fraction(1, 10**6))


def test_sides_count_rows_at_most_the_middle():
    row_map = sides("values", 0.25)
    data = np.array([[1.0, 0.4], [1.01, 0.5], [0.9, 0.6], [np.nan, -3.0]])  # y = x - 0.5 and 2 x
    total = np.ldexp(accumulate(row_map, [data], threads=1).sums.to_float(), -row_map.grid_bits)
    assert total == pytest.approx([3 - 0.25 * 4, 3 - 0.25 * 4], abs=1e-5)


def test_rows_do_not_change_sides_with_their_neighbors():
    for measure in ("values", "norm"):
        row_map = sides(measure, 0.5)
        one_by_one = sum(accumulate(row_map, [row[None]], threads=1).sums[0] for row in ROWS)
        assert accumulate(row_map, [ROWS], threads=1).sums[0] == one_by_one


# [L20] the rotation


@pytest.mark.parametrize("d", [1, 3, 8, 13])
def test_a_rotation_keeps_lengths_and_turns_back(d):
    turned = rotation(d, bytes(32))
    x = np.random.default_rng(d).normal(size=d)
    y = turned.scaled(x)
    assert np.linalg.norm(y) == pytest.approx(np.linalg.norm(x))
    assert turned.restore(y) == pytest.approx(x)
    flat = turned.scaled(np.eye(d)[0])
    assert np.abs(flat) == pytest.approx(np.full(turned.width, 1 / math.sqrt(turned.width)))


def test_too_many_columns_are_not_turned():
    with pytest.raises(es.UsageError, match="at most 4096"):
        rotation(5000, bytes(32))


# shares, and what is found


def test_coinpress_spends_its_shares():
    steps = dict(shares(released(NORMAL, "coinpress", std=2.0)))
    assert list(steps) == ["mean 1", "mean 2", "mean 3", "release"]
    assert list(steps.values()) == pytest.approx([1 / 12] * 3 + [3 / 4], rel=1e-9)
    found = shares(released(NORMAL, "coinpress", steps=2))
    names = ["coarse center", "covariance 1", "covariance 2", "mean 1", "release"]
    assert [name for name, _ in found] == names
    assert [share for _, share in found] == pytest.approx([1 / 16, 3 / 32, 3 / 32, 3 / 16, 9 / 16], rel=1e-9)


def test_coinpress_measures_no_covariance_that_could_not_show():
    with pytest.warns(es.AccuracyWarning, match="too few rows"):
        found = shares(released(NORMAL[:50], "coinpress", epsilon=0.5, steps=2))
    assert [name for name, _ in found] == ["coarse center", "mean 1", "release"]
    assert [share for _, share in found] == pytest.approx([1 / 16, 15 / 64, 45 / 64], rel=1e-9)


def test_instance_optimal_and_plan_spend_their_shares():
    def total(found, name):
        return sum(share for step, share in found if step.startswith(name))

    found = shares(released(NORMAL, "instance_optimal", clip_share=0.5))
    assert total(found, "median") == pytest.approx(1 / 4)
    assert total(found, "radius") == pytest.approx(3 / 8)
    assert found[-1][1] == pytest.approx(3 / 8)
    assert len(found) == 21
    found = shares(released(NORMAL, "variance_aware", steps=15))
    parts = [total(found, name) for name in ("center", "spread", "radius", "release")]
    assert parts == pytest.approx([1 / 16, 3 / 16, 3 / 16, 9 / 16])
    assert len(found) == 46


def test_friendly_core_charges_its_failure_probability_once(monkeypatch):
    used, average = [], published.friendly_center
    monkeypatch.setattr(
        published, "friendly_center", lambda *parts, **words: used.append(words) or average(*parts, **words)
    )
    release = released(NORMAL, "friendly_core")
    charged = release.learned.steps[0].privacy
    assert [(words["mu"], words["slack"]) for words in used] == [(charged.mu, charged.slack)]
    assert release.privacy.slack == pytest.approx(1e-7)
    assert [step.privacy.slack for step in release.learned.steps if step.privacy.slack] == [release.privacy.slack]
    assert release.learned.steps[0].name == "friendly center"


def test_friendly_core_without_a_center_searches_as_usual(monkeypatch):
    monkeypatch.setattr(published, "friendly_center", lambda *_, **__: None)
    release = released(NORMAL, "friendly_core")
    assert "shrink" in [step.name for step in release.learned.steps]
    assert np.abs(release.value - NORMAL.mean(0)).max() < 0.2


@pytest.mark.parametrize(("method", "most"), list(zip(METHODS, [1.0, 0.1, 0.1, 0.1], strict=True)))
def test_each_method_finds_the_mean_of_normal_rows(method, most):
    words = {"std": 2.0} if method == "coinpress" else {}
    release = released(NORMAL, method, **words)
    assert np.abs(release.value - NORMAL.mean(0)).max() < most * 2
    low, high = np.asarray(release.confidence_interval(0.999)).T
    assert ((low <= NORMAL.mean(0)) & (NORMAL.mean(0) <= high)).all()
    assert es.from_json(release.to_json()) == release


@pytest.mark.parametrize("method", METHODS[:3])
def test_each_method_serves_private_numbers_of_rows_and_missing_entries(method):
    words = {"std": 2.0} if method == "coinpress" else {}
    data = NORMAL.copy()
    data[::10, 1] = np.nan
    release = released(data, method, neighbors="add_remove", **words)
    assert np.abs(release.value - np.nanmean(data, 0)).max() < 0.5
    assert release.row_count == pytest.approx(4000, abs=50)


def test_friendly_core_needs_a_public_number_of_rows():
    with pytest.raises(es.UsageError, match="replace"):
        released(NORMAL, "friendly_core", neighbors="add_remove")


@pytest.mark.parametrize("statistic", ["mean", "learn"])
def test_friendly_core_needs_one_row_of_each_person(statistic):
    """[L26] Its weights are proved for one replaced row; how many rows people have is private."""
    people = es.People("who", "rows", 3)
    with pytest.raises(es.UsageError, match="per_person='rows'"):
        es.plan(
            statistic, es.Unknown(20.0, method="friendly_core"), n=1000, d=5, privacy_id=people, epsilon=8, delta=1e-6
        )


def test_clipped_rows_are_counted_where_a_method_measures_nothing_of_them():
    heavy = np.random.default_rng(2).standard_t(2, size=(4000, 5))
    with pytest.warns(es.AccuracyWarning, match="were clipped"):
        release = released(heavy, "coinpress", std=0.2, magnitude=1e3)
    assert release.counts.clipped is not None
    assert release.counts.clipped[0] > 100


def test_the_paper_s_radii():
    gamma = _normal_length(10, 0.01)
    assert gamma**2 == pytest.approx(10 + 2 * math.sqrt(10 * math.log(100)) + 2 * math.log(100))
    assert _clip_radius(1e9, 10) == pytest.approx(math.sqrt(1e18 + 6e9 + gamma**2))
    assert _clip_radius(1e-9, 10) == pytest.approx(gamma, rel=1e-6)


@pytest.mark.parametrize(("method", "options"), [(one, {}) for one in METHODS] + [("coinpress", {"std": 2.0})])
def test_a_plan_states_no_fewer_passes_than_there_are(method, options, monkeypatch):
    read = []
    total = Session.total
    monkeypatch.setattr(Session, "total", lambda *words, **more: read.append(1) or total(*words, **more))
    plan = es.plan("sum", es.Unknown(20.0, method=method, **options), n=len(NORMAL), d=5, epsilon=8, delta=1e-6)
    plan.release(NORMAL, rng=np.random.default_rng(1))
    assert 0 < len(read) + (method == "friendly_core") <= plan.passes


def test_options_of_other_methods_are_refused():
    with pytest.raises(es.UsageError, match="clip_share"):
        released(NORMAL, "coinpress", clip_share=0.5)
    with pytest.raises(es.UsageError, match="std"):
        released(NORMAL, "coinpress", std=-1.0)
    with pytest.raises(es.UsageError, match="delta"):
        es.mean(NORMAL, es.Unknown(20.0, method="friendly_core"), budget=es.Budget(mu=1))


def test_a_friendly_start_serves_columns_with_units_of_their_own():
    """Units 10^5 apart: the columns' own histograms tell them."""
    rng = np.random.default_rng(11)
    data = np.stack([rng.normal(41, 12, 20_000), rng.lognormal(10.4, 0.7, 20_000), rng.exponential(3, 20_000)], axis=1)
    unknown = es.Unknown(1e7, columns=("age", "income", "visits"), method="friendly_core")
    release = es.mean(data, unknown, epsilon=1, delta=1e-6, rng=rng)
    assert (np.abs(release.value - data.mean(axis=0)) < 0.03 * data.std(axis=0)).all()
    low, high = release.confidence_interval().T
    assert ((low <= data.mean(axis=0)) & (data.mean(axis=0) <= high)).all()
