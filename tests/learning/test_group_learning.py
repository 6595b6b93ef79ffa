"""Unknown rows in groups: one shape learned from all rows, one guarantee, errors and intervals as said."""

import json
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import ellipsum as es
from ellipsum.learning.plan import LearningPlan
from ellipsum.noise.law import GaussianLaw

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
GROUPS, SIZE = 100, 400
UNKNOWN = es.Unknown(1e6)
SCALES = np.array([10.0, 5.0, 2.0])


def table(groups=GROUPS, size=SIZE, between=0.5, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(groups), size)
    middles = between * rng.normal(size=(groups, 3))
    return (rng.normal(size=(len(codes), 3)) + middles[codes]) * SCALES + 50, codes


def true_means(data, codes):
    return np.stack([data[codes == g].mean(axis=0) for g in range(codes.max() + 1)])


def plan(keys=None, groups=GROUPS, max_groups=1, statistic="mean", bounds=UNKNOWN, **words):
    by = es.Groups("g", keys, max_groups, groups)
    return es.plan(statistic, bounds, by=by, **{"d": 3, "n": GROUPS * SIZE, **BUDGET, **words})


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("listed", [True, False])
def test_means_err_as_forecast_and_intervals_cover(neighbors, listed):
    data, codes = table()
    keys = list(range(GROUPS)) if listed else None
    words = {"by": es.Groups(codes, keys=keys), "neighbors": neighbors, "n": len(data), "rng": np.random.default_rng(3)}
    release = es.mean(data, UNKNOWN, **words, **BUDGET)
    assert len(release.keys) == GROUPS
    truth = true_means(data, codes)
    relative = (release.value - truth) / data.std(axis=0)
    made = plan(neighbors=neighbors, keys=keys, groups=None if listed else GROUPS)
    assert isinstance(made, LearningPlan)
    assert 0.5 * made.relative_error < math.sqrt(np.mean(relative**2)) < 2 * made.relative_error
    low, high = np.moveaxis(release.confidence_interval(), 2, 0)
    assert np.mean((low <= truth) & (truth <= high)) >= 0.95


@pytest.mark.parametrize("between", [pytest.param(0.0, marks=pytest.mark.slow), 1.0])
@pytest.mark.parametrize("skewed", [False, True])
def test_intervals_hold_what_clipping_moves_a_group_by(between, skewed):
    """[G9] Large groups, so that noise is small; lognormal rows are clipped on one side."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(40), 1000)
    rows = rng.lognormal(0, 1, (len(codes), 3)) / 2.16 if skewed else rng.normal(size=(len(codes), 3))
    data = (rows + between * rng.normal(size=(40, 3))[codes]) * SCALES + 50
    release = es.mean(data, UNKNOWN, by=codes, rng=np.random.default_rng(1), **BUDGET)
    assert len(release.keys) == 40
    truth = true_means(data, codes)
    low, high = np.moveaxis(release.confidence_interval(), 2, 0)
    assert np.mean((low <= truth) & (truth <= high)) >= 0.92
    assert np.mean((high - low) / 2 / release.noise_std) < 8


def test_rounds_and_release_have_one_guarantee():
    data, codes = table()
    release = es.mean(data, UNKNOWN, by=codes, rng=np.random.default_rng(3), **BUDGET)
    steps = release.learned.steps
    assert release.stated == BUDGET
    assert release.privacy.delta(1.0) <= 1e-6
    assert sum(Fraction(step.privacy.mu) ** 2 for step in steps) <= Fraction(release.privacy.mu) ** 2
    assert steps[-1].name == "release"
    assert steps[-1].privacy == release.plan.privacy
    assert release.plan.privacy.slack == release.privacy.slack == pytest.approx(1e-7)
    assert release.plan.privacy.mu > 0.8 * release.privacy.mu
    assert sum(step.privacy.slack for step in steps) <= release.privacy.slack


def test_a_tenth_less_noise_would_be_caught(monkeypatch):
    """Sums of groups without rows are nothing but noise, and have the std that is said."""
    data, codes = table()
    keys = list(range(GROUPS, GROUPS + 4000))
    words = {"by": es.Groups(codes, keys=keys), "missing": "none"}

    def spread():
        release = es.sum(data, UNKNOWN, rng=np.random.default_rng(5), **words, **BUDGET)
        one = release.plan.one
        return np.std(release.noisy[:, :-1]) / one.scaled_std, np.std(release.counts) / release.count_std

    for found in spread():
        assert found == pytest.approx(1, abs=0.04)
    add = GaussianLaw.add

    def weak(self, sums, last, stream, start=0):
        return sums.to_float() + 0.9 * (add(self, sums, last, stream, start) - sums.to_float())

    monkeypatch.setattr(GaussianLaw, "add", weak)
    for found in spread():
        assert found != pytest.approx(1, abs=0.04)


def test_people_are_learned_from_once_each():
    """A person of many rows in many groups is one row of every round; the rounds have the noise of one."""
    data, codes = table(groups=20, size=1500)
    rng = np.random.default_rng(1)
    who = rng.integers(0, 6000, len(data))
    frame = pa.table({**{f"x{j}": data[:, j] for j in range(3)}, "g": codes, "who": who})
    words = {"by": es.Groups("g", max_per_person=3), "privacy_id": "who", "columns": ["x0", "x1", "x2"]}
    release = es.mean(frame, UNKNOWN, rng=np.random.default_rng(2), **words, **BUDGET)
    assert len(release.keys) == 20
    assert release.privacy.unit == "person"
    people = len(np.unique(who))
    assert release.plan.n == people
    low, high = release.plan.rows.bounds()
    each = np.array([data[who == person].mean(axis=0) for person in np.unique(who)])
    assert (low < each.mean(axis=0)).all()
    assert (each.mean(axis=0) < high).all()
    alone = es.mean(frame, UNKNOWN, rng=np.random.default_rng(2), **{**words, "by": "g"}, **BUDGET)
    units = [made.plan.one.noise_units * made.plan.privacy.mu for made in (release, alone)]
    assert units[0] / units[1] == pytest.approx(math.sqrt(3), rel=1e-3)


def test_plans_say_what_groups_there_are():
    made = plan()
    assert "2 listed" in repr(plan(keys=["a", "b"], groups=None))
    assert "not listed: published where" in repr(plan(n=None, neighbors="add_remove"))
    assert "each column is clamped" in repr(made)
    again = es.replan(made, n=2 * made.n)
    assert isinstance(again, LearningPlan)
    assert again.relative_error == pytest.approx(made.relative_error / 2, rel=0.05)
    assert "hardly be published" in plan(groups=4000).warning
    assert made.warning is None


@pytest.mark.parametrize("words", [{}, {"keys": ["b", None], "groups": None}, {"privacy_id": "who", "max_groups": 2}])
def test_plans_come_back_from_files(words, tmp_path):
    made = plan(**words)
    made.save(tmp_path / "plan.json")
    assert es.load(tmp_path / "plan.json") == made
    saved = json.loads(made.to_json())
    for change in ({"groups": None} if words.get("keys") else {"by": []}, {"max_groups": 3, "learning": {}}):
        with pytest.raises(es.UsageError):
            LearningPlan.from_json(json.dumps({**saved, **change}))


def test_a_saved_plan_is_run(tmp_path):
    data, codes = table(groups=20)
    made = plan(n=len(data), groups=20)
    one = made.release(data, np.random.default_rng(1), by=codes)
    other = es.mean(data, UNKNOWN, by=codes, rng=np.random.default_rng(1), **BUDGET)
    assert one.keys.tolist() == other.keys.tolist()
    one.save(tmp_path / "r.json")
    assert es.load(tmp_path / "r.json") == one
    saved = json.loads(one.to_json())
    saved["learned"]["steps"][0]["privacy"]["mu"] = 1.0
    with pytest.raises(es.UsageError):
        es.from_json(json.dumps(saved))
    one.report(tmp_path / "r.html")
    assert "learned privately" in (tmp_path / "r.html").read_text()
    assert "es.Unknown" in (tmp_path / "r.html").read_text()


def test_a_ledger_is_charged_once(tmp_path):
    book = es.Ledger(str(tmp_path / "ledger.db"))
    book.init("people", epsilon=1.1, delta=1.1e-6)
    data, codes = table(groups=20)
    words = {"by": codes, "ledger": book.dataset("people"), **BUDGET}
    first = es.mean(data, UNKNOWN, request_id="once", **words)
    assert es.mean(data, UNKNOWN, request_id="once", **words) == first  # stored under its key, and free
    with pytest.raises(es.BudgetRefused):
        es.mean(data, UNKNOWN, **words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"delta": 0, "keys": ["a"], "groups": None}, "Gaussian noise"),
        ({"noise": "knorm"}, "Gaussian noise"),
        ({"delta": 0}, "delta > 0"),
        ({"bounds": es.Unknown(1e4, method="friendly_core")}, "not supported in groups"),
        ({"privacy_id": es.People("who", per_person="rows", max_rows=2)}, "per_person"),
        ({"statistic": "describe"}, "describe needs bounds"),
        ({"max_groups": 2}, "privacy_id"),
        ({"groups": 0}, "expected"),
    ],
)
def test_wrong_words_are_refused(words, message):
    with pytest.raises(es.UsageError, match=message):
        plan(**words)


def test_sources_that_are_read_once_are_refused():
    data, codes = table(groups=4)
    batches = pa.table({"a": data[:, 0], "g": codes, "who": codes // 2}).to_batches()
    for people in ({}, {"privacy_id": "who"}):
        reader = pa.RecordBatchReader.from_batches(batches[0].schema, iter(batches))
        with pytest.raises(es.UsageError, match="read only once"):
            es.mean(reader, UNKNOWN, by="g", columns=["a"], neighbors="add_remove", n=1600, **people, **BUDGET)


def test_a_plan_by_group_prints_if_a_number_replaces_missing_values():
    terms = {"n": 20_000, "d": 1, "epsilon": 5.0, "delta": 1e-6}
    plan = es.plan("mean", es.Unknown(1e3), by=es.Groups("city", expected=400), missing=50.0, **terms)
    assert "Groups" in str(plan)
