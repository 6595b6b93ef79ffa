"""Listed groups that lie apart have centers of their own: smaller errors, the same guarantee."""

import json
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ellipsum as es
from ellipsum.learning import grouped
from ellipsum.noise.law import GaussianLaw
from ellipsum.plans.group_plan import group_sensitivity
from ellipsum.releases.round_record import Round
from ellipsum.request.groups import Listed
from ellipsum.row_maps.maps import EllipsoidMap
from ellipsum.sources import Selection, open_source

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
UNKNOWN = es.Unknown(1e6)
GROUPS, SIZE, WIDTH = 20, 1000, 8


def table(between, groups=GROUPS, size=SIZE, width=WIDTH, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(groups), size)
    middles = between * rng.normal(size=(groups, width))
    return (rng.normal(size=(len(codes), width)) + middles[codes]) * 10 + 50, codes


def means(data, codes, seed=1, **words):
    keys = list(range(int(codes.max()) + 1))
    return es.mean(data, UNKNOWN, by=codes, keys=keys, rng=np.random.default_rng(seed), **{**BUDGET, **words})


def true_means(data, codes):
    return np.stack([np.nanmean(data[codes == g], axis=0) for g in range(codes.max() + 1)])


def error(release, truth):
    return math.sqrt(np.mean((release.value - truth) ** 2))


def coverage(release, truth):
    low, high = np.moveaxis(release.confidence_interval(), 2, 0)
    return np.mean((low <= truth) & (truth <= high))


@pytest.fixture(scope="module")
def apart():
    data, codes = table(2.0)
    return data, codes, means(data, codes)


@pytest.fixture
def one_center(monkeypatch):
    monkeypatch.setattr(grouped, "recentered", lambda *arguments: None)


def test_groups_that_lie_apart_err_half_as_much(apart, one_center):
    data, codes, release = apart
    truth = true_means(data, codes)
    assert release.centers is not None
    assert error(release, truth) < 0.5 * error(means(data, codes), truth)
    assert coverage(release, truth) > 0.95
    assert np.mean(np.diff(release.confidence_interval(), axis=2)) < 0.5 * np.mean(
        np.diff(means(data, codes).confidence_interval(), axis=2)
    )


def test_groups_that_are_alike_cost_what_their_rough_means_cost(one_center, monkeypatch):
    data, codes = table(0.0)
    alone = means(data, codes)
    monkeypatch.undo()
    release = means(data, codes)
    assert release.centers is None
    names = [step["name"] for step in release.learned["rounds"]]
    assert names.count("groups") == 1
    assert names[-2:] == ["groups", "final"]
    spent = [made.plan.one.noise_std.mean() for made in (release, alone)]
    assert 1 < spent[0] / spent[1] < 1.05


@pytest.mark.parametrize(("neighbors", "between"), [("replace", 3.0), ("add_remove", 0.7), ("replace", 10.0)])
def test_intervals_cover_groups_of_skewed_rows_and_many_sizes(neighbors, between):
    rng = np.random.default_rng(4)
    sizes = np.tile([800, 2000, 4000], 10)
    codes = np.repeat(np.arange(30), sizes)
    rows = rng.lognormal(0, 1, (len(codes), 4)) / 2.16
    data = (rows + between * rng.normal(size=(30, 4))[codes]) * 10 + 50
    data[rng.random(data.shape) < 0.1] = np.nan
    release = means(data, codes, neighbors=neighbors, n=len(data))
    assert release.centers is not None
    assert coverage(release, true_means(data, codes)) >= 0.93


def test_rounds_have_one_guarantee(apart):
    release = apart[2]
    rounds = [Round.from_dict(step) for step in release.learned["rounds"]]
    assert [step.name for step in rounds][-3:] == ["groups", "norms", "final"]
    assert sum(Fraction(step.privacy.mu) ** 2 for step in rounds) <= Fraction(release.privacy.mu) ** 2
    assert rounds[-1].privacy == release.plan.privacy
    assert release.privacy.delta(1.0) <= 1e-6


def clipped_sums(release, data, codes):
    """The sums of rows about their groups' centers, clipped, without noise."""
    ellipsoid = release.plan.one.ellipsoid
    offset = data - release.centers.places[codes]
    along = offset if ellipsoid.axes is None else offset @ ellipsoid.axes
    y = along * ellipsoid.scale
    y /= np.maximum(np.linalg.norm(y, axis=1), 1.0)[:, None]
    return np.stack([np.bincount(codes, weights=y[:, j]) for j in range(y.shape[1])], axis=1)


def test_a_tenth_less_noise_would_be_caught(monkeypatch):
    data, codes = table(2.0, groups=600, size=500, width=3)

    def spread():
        release = means(data, codes, missing="center")
        assert release.centers is not None
        noise = release.noisy[:, :-1] - clipped_sums(release, data, codes)
        return np.std(noise) / release.plan.one.scaled_std, np.std(release.counts - 500) / release.count_std

    for found, near in zip(spread(), (0.05, 0.1), strict=True):  # of 1800 and of 600 numbers
        assert found == pytest.approx(1, abs=near)
    add = GaussianLaw.add

    def weak(self, sums, last, stream):
        return sums.to_float() + 0.9 * (add(self, sums, last, stream) - sums.to_float())

    monkeypatch.setattr(GaussianLaw, "add", weak)
    assert spread()[0] != pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_one_row_moves_the_sums_of_recentered_groups_by_no_more_than_it_may(neighbors):
    """[G10] Rows at their farthest, in their own group or in another, against the sums of the rest."""
    rng = np.random.default_rng(0)
    offsets = 5 * rng.normal(size=(3, 2))
    row_map = EllipsoidMap(np.zeros(2), np.ones(2), grid_bits=10)
    listed = Listed(((0, 1, 2),))

    def sums(rows, codes):
        source = open_source(rows, Selection(by=("g",), labels=(codes,))).recentered(listed, offsets)
        made = source.total_by(row_map, listed)
        counts = np.array(made.rows)[:, None] * 500
        return np.concatenate([made.sums.to_float(), counts], axis=1)

    bound = float(group_sensitivity(row_map.body, 500, neighbors, 1))
    rest, rest_codes = rng.normal(size=(20, 2)), rng.integers(0, 4, 20)
    farthest = 0.0
    for _ in range(150):
        rows, codes = 100 * rng.normal(size=(2, 2)), rng.integers(0, 4, 2)  # group 3 is not listed
        if neighbors == "add_remove":
            pair = [(rest, rest_codes), (np.vstack([rest, rows[:1]]), np.append(rest_codes, codes[0]))]
        else:
            pair = [(np.vstack([rest, row]), np.append(rest_codes, g)) for row, g in zip(rows, codes, strict=True)]
        farthest = max(farthest, float(np.linalg.norm(sums(*pair[0]) - sums(*pair[1]))))
    assert 0.95 * bound < farthest <= bound


def test_rows_of_no_listed_group_and_missing_entries_stay():
    rows = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0], [np.inf, 8.0]])
    labels = pa.array(["a", "b", None, "c"])
    offsets = np.array([[10.0, 20.0], [100.0, 200.0]])
    source = open_source(rows, Selection(by=("g",), labels=(labels,)))
    moved = source.recentered(Listed((("b", "a"),)), offsets).every()
    wanted = np.array([[-99.0, -198.0], [-7.0, np.nan], [5.0, 6.0], [np.inf, 8.0]])
    assert np.array_equal(moved, wanted, equal_nan=True)
    assert rows[0, 0] == 1  # the caller's own rows are as they were


def test_files_and_frames_give_the_same_bits(apart, tmp_path):
    data, codes, _ = apart
    frame = pa.table({**{f"x{j}": data[:, j] for j in range(WIDTH)}, "g": codes})
    pq.write_table(frame, tmp_path / "t.parquet")
    names = [f"x{j}" for j in range(WIDTH)]
    words = {"by": "g", "keys": list(range(GROUPS)), "columns": names, "missing": "center", **BUDGET}
    made = [
        es.mean(source, UNKNOWN, rng=np.random.default_rng(1), **words)
        for source in (frame, str(tmp_path / "t.parquet"))
    ]
    assert made[0].centers is not None
    assert np.array_equal(made[0].value, made[1].value)
    assert made[0].centers == made[1].centers


def test_keys_in_any_order_have_their_own_centers(apart):
    data, codes, _ = apart
    truth = true_means(data, codes)
    names = np.array([f"g{(7 * g) % GROUPS:02}" for g in range(GROUPS)])
    release = es.mean(data, UNKNOWN, by=names[codes], keys=names.tolist(), rng=np.random.default_rng(1), **BUDGET)
    assert release.keys[:, 0].tolist() == sorted(names)
    assert np.abs(release.value - truth[np.argsort(names)]).max() < 5
    assert np.abs(release.centers.places - truth[np.argsort(names)]).max() < 20


def test_releases_come_back_from_files(apart, tmp_path):
    release = apart[2]
    release.save(tmp_path / "r.json")
    assert es.load(tmp_path / "r.json") == release
    saved = json.loads(release.to_json())
    for change in (
        {"centers": {**saved["centers"], "places": saved["centers"]["places"][1:]}},
        {"centers": {**saved["centers"], "places": [[0.0] * WIDTH] * GROUPS}},
        {"centers": {**saved["centers"], "reach": -1.0}},
        {"learned": None},
    ):
        with pytest.raises(es.UsageError):
            es.from_json(json.dumps({**saved, **change}))
    del saved["centers"]
    with pytest.raises(es.UsageError):
        es.from_json(json.dumps(saved))
    release.report(tmp_path / "r.html")


@pytest.mark.parametrize("words", [{"missing": 50.0}, {"privacy_id": "who"}, {"keys": None}, {"statistic": "sum"}])
def test_other_releases_keep_the_one_center(words):
    data, codes = table(2.0, groups=10, width=2)
    frame = pa.table({"a": data[:, 0], "b": data[:, 1], "g": codes, "who": np.arange(len(data))})
    call = es.sum if words.pop("statistic", "mean") == "sum" else es.mean
    given = {"by": "g", "keys": list(range(10)), "columns": ["a", "b"], **BUDGET, **words}
    release = call(frame, UNKNOWN, rng=np.random.default_rng(1), **given)
    assert release.centers is None
    assert "groups" not in [step["name"] for step in release.learned["rounds"]]


def test_plans_say_what_the_rough_means_cost():
    words = {"d": 8, "by": "g", "keys": list(range(GROUPS)), "statistic": "mean", **BUDGET}
    made = es.plan(UNKNOWN, n=GROUPS * SIZE, **words)
    assert [step.name for step in made.rounds][-2:] == ["groups", "final"]
    assert sum(step.share * step.times for step in made.rounds) == pytest.approx(1)
    assert "centers of their own" in repr(made)
    small = es.plan(UNKNOWN, n=GROUPS * 100, **words)
    assert "groups" not in [step.name for step in small.rounds]
    assert "centers of their own" not in repr(small)


def test_a_plan_counts_the_passes_that_centers_may_take():
    """Rough means and norms, up to three times; groups that are not listed have one center."""
    words = {"n": 20_000, "d": WIDTH, "by": "city", "statistic": "mean", **BUDGET}
    listed = es.plan(UNKNOWN, keys=list(range(GROUPS)), **words)
    assert listed.passes == 12
    assert "at most 12 over all rows" in repr(listed)
    assert es.plan(UNKNOWN, groups=GROUPS, **words).passes == 6
