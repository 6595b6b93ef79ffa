"""Releases of groups: measured errors, intervals, each group as if it were alone, frames and files."""

import datetime
import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import ellipsum as es
from ellipsum.noise.block_law import BlockLaw
from ellipsum.noise.law import GaussianLaw
from ellipsum.releases.postprocess import shrink_means

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
BOX = es.Box(0, 1)


def table(groups=300, size=200, d=8, seed=0, near=0.5):
    """Groups of one size, whose means lie so near the middle of the box."""
    rng = np.random.default_rng(seed)
    middles = 0.5 + near * rng.uniform(-1, 1, (groups, d))
    codes = np.repeat(np.arange(groups), size)
    spread = np.minimum(middles, 1 - middles)[codes]
    return middles[codes] + spread * rng.uniform(-1, 1, (groups * size, d)), codes


def true_means(data, codes):
    return np.stack([data[codes == g].mean(axis=0) for g in range(codes.max() + 1)])


# What is promised: errors of eight complete columns, in units of a column's width over the size --------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("neighbors", "noise", "most"),
    [
        ("add_remove", "gaussian", 7.5),
        ("add_remove", "knorm", 3.5),
        ("replace", "gaussian", 12),
        ("replace", "knorm", 6.5),
    ],
)
@pytest.mark.parametrize("listed", [True, False])
def test_measured_errors(neighbors, noise, most, listed):
    """Of means within a sixth of the middle, where the noise of the counts adds little; elsewhere as forecast."""
    errors = []
    for near in (1 / 6, 1 / 2):
        data, codes = table(groups=600, size=400, near=near)
        keys = list(range(600)) if listed else None
        words = {"neighbors": neighbors, "noise": noise, "missing": "none", "n": len(data)}
        release = es.mean(data, BOX, by=es.Groups(codes, keys=keys), rng=np.random.default_rng(3), **words, **BUDGET)
        assert len(release.keys) == 600
        errors.append(math.sqrt(np.mean((release.value - true_means(data, codes)) ** 2)) * 400)
    assert 0.8 * most < errors[0] <= most
    if listed:
        forecast = math.sqrt(release.plan.expected_squared_error / 8) * 400
        assert errors[1] == pytest.approx(forecast, rel=0.03)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("noise", ["gaussian", "knorm"])
@pytest.mark.parametrize("statistic", ["mean", "sum"])
@pytest.mark.parametrize("missing", ["skip", "none"])
def test_intervals_cover(noise, statistic, missing):
    data, codes = table(groups=800, size=300, d=3)
    gone = np.random.default_rng(1).random(data.shape) < 0.25
    data[gone] = np.nan
    filled = np.where(gone, 0.5, data) if missing == "none" else data
    call = getattr(es, statistic)
    release = call(data, BOX, by=codes, noise=noise, missing=missing, rng=np.random.default_rng(2), **BUDGET)
    assert len(release.keys) == 800
    fold = np.nanmean if statistic == "mean" else np.nansum
    truth = np.stack([fold(filled[codes == g], axis=0) for g in range(800)])
    for level in (0.5, 0.95):
        low, high = np.moveaxis(release.confidence_interval(level), 2, 0)
        covered = np.mean((low <= truth) & (truth <= high))
        assert covered >= level - 0.03
        assert covered <= level + (0.1 if level == 0.5 else 0.05)
    counted = np.abs(release.counts - 300)
    assert np.std(release.counts) == pytest.approx(release.count_std, rel=0.1)
    assert counted.max() < 8 * release.count_std


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_intervals_cover_sums_of_values_and_counts_that_share_a_radius(level):
    words = {"by": es.Groups("g", keys=list(range(20_000))), "noise": "knorm", "neighbors": "add_remove"}
    plan = es.plan("sum", es.Box([0, 0, 0], 1), d=3, n=1, **words, **BUDGET)
    bounds = plan.release(np.ones((1, 3)), by=np.array([-1])).confidence_interval(level)
    covered = ((bounds[:, :, 0] <= 0) & (bounds[:, :, 1] >= 0)).mean(axis=0)
    assert (covered > level - 5 * np.sqrt(level * (1 - level) / 20_000)).all()


@pytest.mark.parametrize("law", [GaussianLaw, BlockLaw])
def test_a_tenth_less_noise_would_be_caught(law, monkeypatch):
    """The measure of the tests above tells a tenth: what is drawn has the std that is said."""
    data, codes = table(groups=2000, size=100, d=2)
    noise = "gaussian" if law is GaussianLaw else "knorm"
    words = {"by": es.Groups(codes, keys=list(range(2000))), "noise": noise, "missing": "none", "count_clipped": False}

    def spread():
        release = es.sum(data, BOX, rng=np.random.default_rng(5), **words, **BUDGET)
        truth = np.stack([data[codes == g].sum(axis=0) for g in range(2000)])
        return np.std((release.value - truth) / release.noise_std), np.std((release.counts - 100) / release.count_std)

    for found in spread():
        assert found == pytest.approx(1, abs=0.045)
    add = law.add
    exact = {}

    def weak(self, sums, last, stream, start=0):
        noisy = add(self, sums, last, stream, start)
        exact["sums"] = sums.to_float()
        return exact["sums"] + 0.9 * (noisy - exact["sums"])

    monkeypatch.setattr(law, "add", weak)
    for found in spread():
        assert found != pytest.approx(1, abs=0.045)


# One group is what a plan by itself makes of it -----------------------------------------------------------


@pytest.mark.parametrize("statistic", ["mean", "sum"])
@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (es.Box([0.0, -1.0, 2.0], [1.0, 4.0, 2.0]), {}),
        (es.Box([0.0, -1.0, 2.0], [1.0, 4.0, 5.0]), {"missing": "drop_row"}),
        (es.Box([0.0, -1.0, 2.0], [1.0, 4.0, 5.0]), {"missing": [0.5, 0.0, 3.0], "noise": "knorm"}),
        (es.Ball(3.0, [0.5, 1.0, 2.5]), {}),
        (es.Normal([0.5, 1.0, 2.0], std=[0.3, 1.0, 0.2]), {}),
        (es.Normal([0.5, 1.0, 2.0], cov=np.diag([0.1, 1.0, 0.2]) + 0.05), {"missing": "drop_row"}),
    ],
)
def test_each_group_is_what_its_plan_makes_of_its_sums(statistic, rows, words):
    rng = np.random.default_rng(7)
    data = rng.normal([0.5, 1.0, 2.5], 0.5, (6000, 3))
    data[rng.random(data.shape) < 0.05] = np.nan
    codes = np.minimum(rng.geometric(0.3, 6000), 20)  # some groups are tiny, some are not there
    words = {**words, **BUDGET, "by": es.Groups(codes, keys=list(range(25))), "rng": np.random.default_rng(0)}
    if statistic == "mean":
        with pytest.warns(es.AccuracyWarning, match="hardly more rows"):
            release = es.mean(data, rows, **words)
    else:
        release = es.sum(data, rows, **words)
    one = release.plan.one
    for g in range(25):
        alone = one.publish(release.noisy[g], False)
        assert release.value[g] == pytest.approx(alone.value, rel=1e-9, abs=1e-12)
        assert release.noise_std[g] == pytest.approx(alone.noise_std, rel=1e-9)
        assert release.counts[g] == pytest.approx(alone.row_count)
        wanted = alone.confidence_interval(0.9)
        assert release.confidence_interval(0.9)[g] == pytest.approx(wanted, rel=1e-9, abs=1e-9)


# Shrinking ------------------------------------------------------------------------------------------------


def test_shrinking_helps_taken_together_and_keeps_intervals():
    rng = np.random.default_rng(11)
    codes = np.repeat(np.arange(400), 150)
    middles = rng.normal(0.5, 0.02, (400, 4))
    data = np.clip(middles[codes] + rng.normal(0, 0.1, (60_000, 4)), 0, 1)
    release = es.mean(data, BOX, by=es.Groups(codes, keys=list(range(400))), rng=np.random.default_rng(0), **BUDGET)
    small = release.shrink()
    truth = true_means(data, codes)
    before, after = (np.mean((made.value - truth) ** 2) for made in (release, small))
    assert after < 0.6 * before
    assert (small.confidence_interval() == release.confidence_interval()).all()
    assert small.privacy == release.privacy
    assert "shrunk towards" in repr(small)
    assert es.from_json(small.to_json()) == small
    assert not release.shrinks


def test_groups_that_differ_are_hardly_moved():
    value = np.array([[0.0], [100.0], [200.0], [300.0], [400.0]])
    assert shrink_means(value, np.ones((5, 1))) == pytest.approx(value, abs=0.1)
    alike = np.array([[0.0], [0.1], [-0.1], [0.05], [0.0]])
    assert np.ptp(shrink_means(alike, np.ones((5, 1)))) < np.ptp(alike) * 0.51
    few = value[:3]
    assert (shrink_means(few, np.ones((3, 1))) == few).all()


def test_sums_do_not_shrink():
    release = es.sum(np.ones((50, 1)), BOX, by=es.Groups(np.zeros(50), keys=[0.0]), **BUDGET)
    with pytest.raises(es.UsageError, match="means"):
        release.shrink()


# Frames and files -----------------------------------------------------------------------------------------


def made(**words):
    days = [datetime.date(2026, 1, 1 + i % 3) for i in range(3000)]
    cities = [["b", 'a"x', "ü\n"][i // 3 % 3] for i in range(3000)]
    data = pa.table({"day": days, "city": cities, "age": np.linspace(0, 100, 3000)})
    given = {"by": ["day", "city"], "rng": np.random.default_rng(1), **BUDGET, **words}
    return es.mean(data, es.Box({"age": (0, 100)}), **given)


def test_frames():
    release = made()
    arrow = release.to_arrow()
    assert arrow.column_names == ["day", "city", "noisy_count", "age", "age_low", "age_high", "secure"]
    assert arrow.schema.field("day").type == pa.date32()
    assert arrow.column("day").to_pylist() == sorted(arrow.column("day").to_pylist())
    frame = release.to_pandas()
    assert frame.attrs["secure"] is False
    assert not frame["secure"].any()
    assert release.to_polars().columns == arrow.column_names
    assert release.to_csv().splitlines()[0] == '"day","city","noisy_count","age","age_low","age_high","secure"'
    assert made(rng=None).to_csv().splitlines()[0] == '"day","city","noisy_count","age","age_low","age_high"'
    assert (frame["age_low"] < frame["age"]).all()
    assert (release.value[:, 0] == arrow.column("age").to_numpy()).all()


def test_names_that_clash_are_told_apart():
    data = pa.table({"noisy_count": ["a"] * 200, "noisy_count_": np.ones(200)})
    release = es.mean(data, es.Box({"noisy_count_": (0, 2)}), by="noisy_count", **BUDGET)
    names = release.to_arrow().column_names
    assert len(set(names)) == len(names) == 5


def test_a_screen_is_enough():
    codes = np.repeat(np.arange(5000), 60)
    data = np.ones((codes.size, 12))
    release = es.sum(data, BOX, by=es.Groups(codes, keys=list(range(5000))), **BUDGET)
    assert len(repr(release).splitlines()) <= 40
    assert "4,975 more groups" in repr(release)
    assert "6 more columns" in repr(release)
    assert release._repr_html_().count("<tr>") == 26


@pytest.mark.parametrize(
    "words", [{}, {"by": es.Groups("day", keys=["2026-01-02", "2026-01-01"])}, {"noise": "gaussian"}]
)
def test_releases_come_back_from_files(words, tmp_path):
    release = made(**words)
    for read in (es.from_json, es.from_json):
        assert read(release.to_json()) == release
    release.save(tmp_path / "groups.json")
    assert es.load(tmp_path / "groups.json") == release
    release.save(tmp_path / "groups.csv")
    assert (tmp_path / "groups.csv").read_text() == release.to_csv()


def _swap(saved, name, value):
    saved[name] = value


CHANGES = {
    "value": lambda s: s["value"][0].__setitem__(0, 3.0),
    "count": lambda s: s["count"].__setitem__(1, 1e6),
    "noise_std": lambda s: s["noise_std"][0].__setitem__(0, 1e-9),
    "low": lambda s: s["interval"]["bounds"][0][0].__setitem__(0, 49.0),
    "level": lambda s: s["interval"].__setitem__("level", 0.99),
    "noisy": lambda s: s["noisy"][0].__setitem__(0, 0.1),
    "order": lambda s: s["keys"].reverse(),
    "twice": lambda s: s["keys"].__setitem__(1, s["keys"][0]),
    "fewer": lambda s: s["keys"].pop(),
    "kind": lambda s: s["kinds"].__setitem__(0, "integer"),
    "no kind": lambda s: s["kinds"].__setitem__(0, "nonsense"),
    "secure": lambda s: _swap(s, "secure", 1),
    "privacy": lambda s: s["privacy"].__setitem__("slack", 0.0),
    "statistic": lambda s: _swap(s, "statistic", "sum"),
    "columns": lambda s: _swap(s, "columns", ["x"]),
    "by": lambda s: _swap(s, "by", ["day", "town"]),
    "shrunk": lambda s: _swap(s, "shrunk", True),
    "more": lambda s: _swap(s, "more", 1),
    "threshold": lambda s: s["plan"]["privacy"].__setitem__("slack", 1e-30),
}


@pytest.mark.parametrize("name", CHANGES)
def test_doctored_releases_are_refused(name):
    saved = json.loads(made().to_json())
    CHANGES[name](saved)
    with pytest.raises(es.UsageError):
        es.from_json(json.dumps(saved))


def test_a_group_below_the_threshold_is_no_release():
    saved = json.loads(made(rng=np.random.default_rng(1)).to_json())
    release = es.from_json(json.dumps(saved))
    one, least = release.plan.one, release.plan.threshold
    saved["noisy"][0][-1] = (least - 1) * one.count_weight
    changed = replace(release, noisy=np.array(saved["noisy"]))
    with pytest.raises(es.UsageError, match="Integrity check"):
        es.from_json(changed.to_json())


def test_listed_groups_must_all_be_there():
    release = made(by=es.Groups("city", keys=["b", 'a"x', "ü\n"]))
    fewer = replace(release, keys=release.keys[:2], noisy=release.noisy[:2])
    with pytest.raises(es.UsageError, match="Integrity check"):
        es.from_json(fewer.to_json())


def test_one_group_alone_and_none_at_all():
    alone = es.mean(np.ones((500, 2)), es.Box(0, 2), by=np.zeros(500, int), **BUDGET)
    assert alone.keys.tolist() == [[0]]
    assert alone.value == pytest.approx(1, abs=0.1)
    assert alone.shrink().value == pytest.approx(alone.value)
    none = es.mean(np.ones((500, 2)), es.Box(0, 2), by=np.arange(500), **BUDGET)
    assert none.keys.shape == (0, 1)
    assert none.value.shape == (0, 2)
    assert none.confidence_interval().shape == (0, 2, 2)
    assert es.from_json(none.to_json()) == none
    assert "in 0 groups" in repr(none)
    empty = es.sum(np.ones((0, 2)), es.Box(0, 2), by=np.zeros(0, int), neighbors="add_remove", **BUDGET)
    assert len(empty.keys) == 0


@pytest.mark.parametrize("noise", ["gaussian", "knorm"])
def test_groups_are_charged_to_a_ledger(noise, tmp_path):
    book = es.Ledger(str(tmp_path / "ledger.db"))
    book.init("people", epsilon=1.1, delta=1.1e-6)
    data, codes = np.ones((900, 1)), np.repeat(["a", "b", "c"], 300)
    words = {"by": codes, "noise": noise, "ledger": book.dataset("people"), **BUDGET}
    first = es.sum(data, BOX, request_id="once", **words)
    assert es.sum(data, BOX, request_id="once", **words) == first  # stored under its key, and free
    with pytest.raises(es.BudgetRefused):
        es.sum(data, BOX, **words)
    with pytest.raises(es.BudgetRefused):
        first.plan.release(data, by=codes, ledger=book.dataset("people"))
