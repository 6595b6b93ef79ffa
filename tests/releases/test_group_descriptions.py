"""Count, mean and std of each group: as if each were alone, with intervals that cover and noise of the stated size."""

import json

import numpy as np
import pytest

import ellipsum as es
from ellipsum.noise.block_law import BlockLaw
from ellipsum.noise.law import GaussianLaw
from ellipsum.releases.description import STATED

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
BOX = es.Box([0.0, -1.0, 2.0], [1.0, 4.0, 2.0])
GROUPS, SIZE = 600, 400


def describe(*data, **how):
    """Without quantiles, which stand beside and have tests of their own."""
    return es.describe(*data, quantiles=None, **how)


def make_plan(statistic, *bounds, **how):
    return es.plan(statistic, *bounds, **({"quantiles": None} if statistic == "describe" else {}), **how)


def table(seed=0, gaps=0.2):
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(GROUPS), SIZE)
    middle = rng.uniform(0.3, 0.7, (GROUPS, 2))[codes]
    data = np.clip(middle + rng.uniform(-0.3, 0.3, (len(codes), 2)), 0, 1) * [1.0, 5.0] - [0.0, 1.0]
    data[rng.random(data.shape) < gaps] = np.nan
    return data, codes


def by_group(fold, data, codes):
    return np.stack([fold(data[codes == g], axis=0) for g in range(GROUPS)])


@pytest.mark.parametrize("words", [{}, {"noise": "gaussian"}, {"missing": "drop_row"}, {"neighbors": "add_remove"}])
def test_each_group_is_what_its_plan_makes_of_its_sums(words):
    rng = np.random.default_rng(7)
    data = rng.normal([0.5, 1.0, 2.5], 0.5, (6000, 3))
    data[rng.random(data.shape) < 0.05] = np.nan
    codes = np.minimum(rng.geometric(0.3, 6000), 20)  # some groups are tiny, some are not there
    with pytest.warns(es.AccuracyWarning, match="hardly more rows"):
        release = describe(data, BOX, by=es.Groups(codes, keys=list(range(25))), rng=rng, **words, **BUDGET)
    for g in range(25):
        alone = release.plan.one.publish(release.noisy[g], False)
        for name in ("count", "mean", "std", "std_error"):
            assert getattr(release, name)[g] == pytest.approx(getattr(alone, name), rel=1e-9, abs=1e-12)
        for name in ("count", "std"):
            wanted = alone.confidence_interval(0.9, name)
            assert release.confidence_interval(0.9, name)[g] == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("noise", ["gaussian", "knorm"])
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_intervals_cover(noise, neighbors):
    data, codes = table()
    box = es.Box([0.0, -1.0], [1.0, 4.0])
    words = {"noise": noise, "neighbors": neighbors, "n": len(data)}
    release = describe(data, box, by=codes, rng=np.random.default_rng(3), **words, **BUDGET)
    assert len(release.keys) == GROUPS
    truth = {
        "count": by_group(lambda part, axis: np.isfinite(part).sum(axis=axis), data, codes),
        "mean": by_group(np.nanmean, data, codes),
        "std": by_group(np.nanstd, data, codes),
    }
    for name in STATED:
        for level in (0.5, 0.95):
            low, high = np.moveaxis(release.confidence_interval(level, name), 2, 0)
            covered = np.mean((low <= truth[name]) & (truth[name] <= high))
            assert covered >= level - 0.04
            assert level == 0.95 or covered <= (0.85 if name == "std" else 0.65)  # a std's also holds the mean's error


def test_stds_err_as_forecast():
    rng = np.random.default_rng(1)
    codes = np.repeat(np.arange(GROUPS), SIZE)
    data = rng.random((len(codes), 3))  # spread evenly
    words = {"missing": "none", "noise": "gaussian", "by": es.Groups("g", keys=list(range(GROUPS)))}
    plan = make_plan("describe", es.Box(0, 1), d=3, n=len(data), **words, **BUDGET)
    release = plan.release(data, np.random.default_rng(2), by=codes)
    found = np.sqrt(np.mean((release.std - by_group(np.std, data, codes)) ** 2, axis=0))
    assert found == pytest.approx(plan.std_errors, rel=0.08)
    assert "expected error of std" in repr(plan)
    means = es.plan("mean", es.Box(0, 1), d=3, n=len(data), **words, **BUDGET)
    assert plan.noise_std == pytest.approx(means.noise_std, rel=1e-4)  # squares cost nothing [S11]


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")  # groups of two
@pytest.mark.parametrize("law", [GaussianLaw, BlockLaw])
def test_a_tenth_less_noise_would_be_caught(law, monkeypatch):
    """Squares too have the noise that is said."""
    many = 6000
    data = np.random.default_rng(0).random((2 * many, 2))
    codes = np.repeat(np.arange(many), 2)
    noise = "gaussian" if law is GaussianLaw else "knorm"
    words = {"by": es.Groups("g", keys=list(range(many))), "noise": noise, "missing": "none"}
    plan = make_plan("describe", es.Box(0, 1), d=2, n=len(data), **words, **BUDGET)
    exact = (1 - (2 * data - 1) ** 2).reshape(many, 2, 2).sum(axis=1)

    def spread():
        release = plan.release(data, np.random.default_rng(5), by=codes)
        sums = np.ldexp(release.noisy[:, 2:4], plan.one.grid_bits) / plan.one.auxiliary.squares
        return np.std((sums - exact) / plan.one.square_stds)

    assert spread() == pytest.approx(1, abs=0.045)
    add = law.add

    def weak(self, sums, last, stream, start=0):
        return sums.to_float() + 0.9 * (add(self, sums, last, stream, start) - sums.to_float())

    monkeypatch.setattr(law, "add", weak)
    assert spread() != pytest.approx(1, abs=0.045)


def test_frames_files_and_words(tmp_path):
    data, codes = table()
    release = describe(
        data, es.Box([0, -1], [1, 4], columns=["a", "b"]), by=codes, rng=np.random.default_rng(1), **BUDGET
    )
    assert isinstance(release, es.GroupDescription)
    frame = release.to_pandas()
    said = [f"{name}_{what}{end}" for name in "ab" for what in STATED for end in ("", "_low", "_high")]
    assert list(frame) == ["key", "noisy_count", *said, "secure"]
    assert frame["b_std"].tolist() == release.std[:, 1].tolist()
    assert release.to_polars().columns == list(frame)
    release.save(tmp_path / "r.json")
    assert es.load(tmp_path / "r.json") == release
    assert es.GroupPlan.from_json(release.plan.to_json()) == release.plan
    assert "a mean" in repr(release)
    assert "of the population" in repr(release)
    assert "b std" in release._repr_html_()
    release.plot(tmp_path / "r.svg")
    release.report(tmp_path / "r.html")
    assert "count, mean and standard deviation" in (tmp_path / "r.html").read_text()


def test_doctored_descriptions_are_refused():
    data, codes = table()
    words = {"by": es.Groups(codes, keys=[1, 2, 3]), "rng": np.random.default_rng(1)}
    release = describe(data, es.Box([0, -1], [1, 4]), **words, **BUDGET)
    saved = json.loads(release.to_json())
    assert es.from_json(json.dumps(saved)) == release
    for name in ("std", "count", "std_error"):
        wrong = np.array(saved["describe"][name]) * 1.01
        with pytest.raises(es.UsageError):
            es.from_json(json.dumps({**saved, "describe": {**saved["describe"], name: wrong.tolist()}}))
    with pytest.raises(es.UsageError):
        es.from_json(json.dumps({name: part for name, part in saved.items() if name != "describe"}))
    with pytest.raises(es.UsageError, match="means"):
        release.shrink()


def test_covariances_are_refused_in_words():
    with pytest.raises(es.UsageError, match="not supported in groups"):
        describe(np.zeros((9, 2)), es.Box(0, 1), by=np.arange(9), covariance=True, missing="drop_row", **BUDGET)
