"""Releases: intervals, regions, JSON, tables, words."""

import json

import numpy as np
import pytest

import ellipsum as es

X = np.random.default_rng(0).uniform(0, 1, (200, 3)) * [1, 2, 10]
BOX = es.Box({"a": (0, 1), "b": (0, 2), "c": (0, 10)})


def release(seed=0, **more):
    return es.mean(X, BOX, **{"epsilon": 1.0, "delta": 1e-6, "rng": np.random.default_rng(seed), **more})


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_intervals_and_ellipsoids_cover_at_their_level(relation):
    """1000 releases: the count of covered truths is binomial; 1e-9 two-sided bounds, and 0.9 std fails."""
    from scipy import stats

    level, repeats = 0.8, 1000
    plan = es.plan("sum", BOX, n=200, epsilon=3.0, delta=1e-6, noise="gaussian", neighbors=relation)
    rng, truth = np.random.default_rng(1), X.sum(axis=0)
    releases = [plan.release(X, rng=rng) for _ in range(repeats)]
    inside = np.stack([(lo < truth) & (truth < hi) for lo, hi in (r.confidence_interval(level).T for r in releases)])
    low, high = stats.binom.ppf([1e-10, 1 - 1e-10], repeats, level)
    assert ((low <= inside.sum(axis=0)) & (inside.sum(axis=0) <= high)).all()
    joint = sum(r.confidence_region(level).contains(truth) for r in releases)
    assert low <= joint <= high


def test_json_round_trip(tmp_path):
    made = release()
    again = es.from_json(made.to_json())
    assert again.to_json() == made.to_json()
    assert np.array_equal(again.value, made.value)
    assert np.array_equal(again.noise_std, made.noise_std)
    path = tmp_path / "mean.json"
    made.save(path)
    assert es.from_json(path.read_text()).privacy == made.privacy
    assert [p.name for p in tmp_path.iterdir()] == ["mean.json"]
    for text in ("{}", "3", *(json.dumps({"format": f"ellipsum.release/{k}"}) for k in (1, 2, 3))):
        with pytest.raises(es.UsageError):
            es.from_json(text)
    with pytest.raises(es.DataError, match="Could not write"):
        made.save(tmp_path / "nowhere" / "mean.json")


def test_only_publishable_fields_are_in_the_json():
    """Two data sets with the same noisy integers publish the same bytes: nothing else leaks in."""
    x = np.full((200, 3), 0.5)
    y = x[::-1] + 0.0
    a = es.mean(x, BOX, epsilon=1, delta=1e-6, rng=np.random.default_rng(0))
    b = es.mean(y, BOX, epsilon=1, delta=1e-6, rng=np.random.default_rng(0))
    assert a.to_json() == b.to_json()
    assert set(json.loads(a.to_json())) == {
        "format", "version", "statistic", "columns", "value", "noise_std", "privacy", "secure", "count",
        "denoised", "denoise_options", "noisy", "plan", "counts", "standard_error", "interval", "warnings",
    }  # fmt: skip


def test_words_and_tables():
    made = release()
    text = repr(made)
    assert "mean of 3 columns" in text
    assert "epsilon = 1, delta = " in text
    html = made._repr_html_()
    assert "<table>" in html
    assert ">b<" in html
    frame = made.to_pandas()
    assert list(frame.index) == ["a", "b", "c"]
    assert list(frame.columns) == [
        "value",
        "noise_std",
        "standard_error",
        "lower",
        "upper",
        "secure",
    ]  # made with a caller's generator
    wide = es.sum(np.zeros((5, 40)), es.Ball(1.0), epsilon=1, delta=1e-6)
    assert "28 more" in repr(wide)
    assert wide.names()[1] == "x2"


def test_html_escapes_column_names():
    made = es.mean(X, es.Box({"<script>": (0, 1), "b": (0, 2), "c": (0, 10)}), epsilon=1, delta=1e-6)
    assert "<script>" not in made._repr_html_()


def test_levels_are_checked():
    for level in (0, 1, -0.1, 2):
        with pytest.raises(es.UsageError, match="level"):
            release().confidence_interval(level)
