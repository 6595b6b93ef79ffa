"""Unknown columns: means and sums that err little, intervals that hold, and no silent failure."""

import json
import math

import numpy as np
import pytest

import ellipsum as es
from ellipsum.learning.histograms import TINY, Histogram, grid, thresholds
from ellipsum.learning.plan import LearningPlan, learning_share
from ellipsum.learning.tails import choose_ends
from ellipsum.releases.histogram_release import on_simplex
from ellipsum.rows import Box

pytestmark = pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
SPEND = {"epsilon": 1.0, "delta": 1e-6}
NAMES = ("a", "b", "c")
BUDGETS = {
    "pair": SPEND,
    "pure": {"epsilon": 1.0, "delta": 0},
    "mu": {"budget": es.Budget(mu=0.5)},
    "rho": {"budget": es.Budget(rho=0.1)},
    "gaussian": {**SPEND, "noise": "gaussian"},
    "norm": {**SPEND, "noise": "knorm"},
}
LAWS = {
    "normal": lambda g, n, d: g.normal(size=(n, d)) * 10.0 ** np.arange(d) + 3,
    "lognormal": lambda g, n, d: g.lognormal(size=(n, d)),
    "heavy": lambda g, n, d: g.standard_t(3, size=(n, d)),
    "far": lambda g, n, d: g.normal(size=(n, d)) + 1e4,
    "zeros": lambda g, n, d: np.where(g.random((n, d)) < 0.7, 0, g.exponential(1000, size=(n, d))),
    "two values": lambda g, n, d: (g.random((n, d)) < 0.3) * 1.0,
}


def released(call, data, magnitude=1e6, seed=1, **words):
    given = {**SPEND, **words} if "budget" not in words else words
    names = NAMES[: data.shape[1]]
    return call(data, es.Unknown(magnitude, columns=names), rng=np.random.default_rng(seed), **given)


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("law", LAWS)
def test_means_err_little_and_intervals_hold(law, d):
    """12 tables of 5,000 rows: errors below a tenth of the spread, and 95% intervals with a tenth of misses at most."""
    held, errors = [], []
    for seed in range(12):
        data = LAWS[law](np.random.default_rng(seed), 5000, d)
        release = released(es.mean, data, seed=seed)
        low, high = release.confidence_interval().T
        held += ((low <= data.mean(axis=0)) & (data.mean(axis=0) <= high)).tolist()
        errors.append((release.value - data.mean(axis=0)) / data.std(axis=0))
    assert np.sqrt(np.mean(np.square(errors))) < 0.06
    assert np.abs(errors).max() < 0.2
    assert np.mean(held) >= 0.9


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("budget", BUDGETS)
def test_every_budget_and_relation(budget, relation):
    data = np.random.default_rng(0).normal([40.0], [12.0], (8000, 1))
    release = released(es.mean, data, neighbors=relation, **BUDGETS[budget])
    assert release.value[0] == pytest.approx(data.mean(), abs=1.0)
    stated = BUDGETS[budget]
    if "delta" in stated:
        assert release.privacy.delta(1.0) <= stated["delta"]
    else:
        assert release.privacy.mu <= stated["budget"].mu
    assert es.from_json(release.to_json()).to_json() == release.to_json()
    total = released(es.sum, data, neighbors=relation, **BUDGETS[budget])
    assert total.value[0] == pytest.approx(data.sum(), rel=0.05)


def test_all_steps_fit_the_guarantee_and_the_release_is_an_ordinary_one():
    data = LAWS["normal"](np.random.default_rng(0), 5000, 3)
    release = released(es.mean, data)
    steps = [step.privacy for step in release.learned.steps]
    assert release.learned.steps[-1].name == "release"
    assert es.compose(steps).mu <= release.privacy.mu
    assert sum(step.pure[0] for step in steps if step.pure) <= release.privacy.pure[0]
    assert release.privacy.delta(1.0) <= 1e-6
    assert release.privacy.delta(1.0) > 0.99e-6  # and it is spent
    assert isinstance(release.plan.rows, Box)
    assert release.plan.privacy.as_pair() == steps[-1]
    again = es.mean(data, release.plan.rows, epsilon=release.plan.privacy.pure[0], delta=0)
    assert again.plan.mechanism == release.plan.mechanism


@pytest.mark.parametrize("statistic", ["mean", "sum"])
@pytest.mark.parametrize("words", [{}, {"delta": 0}, {"neighbors": "add_remove"}, {"noise": "gaussian", "d": 1}])
def test_missing_entries(words, statistic):
    """A third of one column is missing where it is large: its mean is that of the entries that are there."""
    words = dict(words)
    data = np.random.default_rng(0).normal([10.0, -500.0], [2.0, 50.0], (9000, 2))[:, : words.pop("d", 2)]
    data[::3, 0] = np.nan
    release = released(getattr(es, statistic), data, **words)
    truth = np.nanmean(data, axis=0) if statistic == "mean" else np.nansum(data, axis=0)
    low, high = release.confidence_interval().T
    assert ((low <= truth) & (truth <= high)).all()
    assert release.value == pytest.approx(truth, rel=0.05)
    assert release.counts.rows[0] == pytest.approx(6000, abs=400)
    assert es.from_json(release.to_json()).to_json() == release.to_json()


@pytest.mark.parametrize(("missing", "truth"), [("drop_row", 10.0), ("none", None), (0.0, 10.0 * 2 / 3)])
def test_other_rules_for_missing_entries(missing, truth):
    data = np.random.default_rng(0).normal(10.0, 2.0, (9000, 2))
    data[::3, 0] = np.nan
    release = released(es.mean, data, missing=missing)
    assert np.isfinite(release.value).all()
    if truth is not None:
        assert release.value[0] == pytest.approx(truth, abs=0.3)


def test_a_column_that_was_not_found_has_no_value():
    """Evenly spread over the whole magnitude, with few rows: no bin stands out."""
    data = np.column_stack([np.random.default_rng(0).uniform(-1e6, 1e6, 600), np.ones(600)])
    found = (released(es.mean, data, 1e9, seed, epsilon=0.4) for seed in range(20))
    lost = next(one for one in found if not one.learned.found[0])
    assert math.isnan(lost.value[0])
    assert lost.confidence_interval()[0].tolist() == [-1e9, 1e9]
    assert "Not found among the noise" in " ".join(lost.warnings)
    assert "not found" in repr(lost)
    assert "null" in lost.to_json()
    again = es.from_json(lost.to_json())
    assert again.to_json() == lost.to_json()
    with pytest.raises(es.UsageError, match="not found"):
        lost.denoise("clamp")
    assert np.isnan(lost.to_pandas()["value"].iloc[0])


def test_too_few_rows_are_said_before_and_after():
    plan = es.plan("mean", es.Unknown(1e6), n=100, d=4, **SPEND)
    assert "too few rows" in plan.warning
    data = np.random.default_rng(0).normal(size=(100, 3))
    release = released(es.mean, data)
    assert any("too few rows" in text for text in release.warnings)
    with pytest.raises(es.UsageError, match="too few rows"):  # refused before anything is spent
        released(es.mean, data, epsilon=0.5, delta=0)


def test_no_failure_is_silent_where_rows_are_enough():
    """n mu / sqrt(2 d) = 116: no error above one spread without a warning, in 60 releases of ugly columns."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        data = np.column_stack([LAWS[law](rng, 1200, 1)[:, 0] for law in ("heavy", "lognormal", "normal")])
        release = released(es.mean, data, seed=seed)
        error = np.abs(release.value - data.mean(axis=0)) / data.std(axis=0)
        assert release.warnings or (error < 1).all()


def test_learned_bounds_are_used_again():
    data = np.random.default_rng(0).normal([40.0, 1500.0], [12.0, 400.0], (6000, 2))
    for words in ({}, {"delta": 0}, {"neighbors": "add_remove"}):
        learned = released(es.learn, data, **words)
        assert isinstance(learned.bounds, Box)
        assert learned.bounds.columns == NAMES[:2]
        low, high = learned.bounds.bounds()
        assert (low < data.mean(axis=0) - data.std(axis=0)).all()
        assert (high > data.mean(axis=0) + data.std(axis=0)).all()
        assert (high - low < 20 * data.std(axis=0)).all()
        assert es.Learned.from_json(learned.to_json()) == learned
        assert learned.privacy.delta(1.0) <= SPEND["delta"] if "delta" not in words else learned.privacy.pure == (1.0,)
        later = es.mean(data, learned.bounds, rng=np.random.default_rng(2), **SPEND)
        assert later.value == pytest.approx(data.mean(axis=0), rel=0.02)
        assert repr(learned).count("\n") >= len(learned.steps)


def test_a_plan_comes_back_and_runs():
    data = np.random.default_rng(0).normal(size=(3000, 2))
    plan = es.plan("mean", es.Unknown(100.0), n=3000, d=2, **SPEND)
    again = LearningPlan.from_json(plan.to_json())
    assert again == plan
    one, other = (made.release(data, rng=np.random.default_rng(5)) for made in (plan, again))
    assert one.value.tolist() == other.value.tolist()
    assert plan.passes <= 8
    assert plan.relative_error < 0.1
    assert f"at most {plan.passes} over all rows" in repr(plan)


def test_passes_are_no_more_than_planned(monkeypatch):
    from ellipsum.session import Session

    reads, total = [], Session.total
    monkeypatch.setattr(Session, "total", lambda *parts: (reads.append(1), total(*parts))[1])
    far = np.random.default_rng(0).normal(1e5, 1, (20_000, 2))
    for relation in ("replace", "add_remove"):
        reads.clear()
        release = released(es.mean, far, 1e7, neighbors=relation)
        plan = es.plan("mean", es.Unknown(1e7), n=20_000, d=2, neighbors=relation, **SPEND)
        assert len(reads) <= plan.passes
        assert release.value == pytest.approx(1e5, abs=5)


def test_progress_goes_from_zero_to_one():
    told = []
    released(es.mean, np.random.default_rng(0).normal(size=(3000, 2)), progress=told.append)
    assert told[0] == 0
    assert told[-1] == 1
    assert told == sorted(told)


def test_people_and_groups():
    rng = np.random.default_rng(0)
    who, group = rng.integers(0, 4000, 12_000), rng.integers(0, 3, 12_000)
    data = rng.normal([40.0, 1500.0], [12.0, 400.0], (12_000, 2)) + group[:, None]
    table = np.column_stack([data, who])
    means = es.mean(
        table,
        es.Unknown(1e6),
        privacy_id=2,
        columns=[0, 1],
        rng=np.random.default_rng(1),
        error_weights="relative",
        **SPEND,
    )
    assert means.privacy.unit == "person"
    assert means.value == pytest.approx(data.mean(axis=0), rel=0.03)
    words = {"privacy_id": es.People(2, per_person="rows", max_rows=3), "columns": [0, 1], "error_weights": "relative"}
    rows = es.mean(table, es.Unknown(1e6), rng=np.random.default_rng(1), **words, **SPEND)
    assert rows.value == pytest.approx(data.mean(axis=0), rel=0.05)
    groups = released(es.mean, data, by=group)
    truth = np.array([data[group == g].mean(axis=0) for g in range(3)])
    low, high = np.moveaxis(groups.confidence_interval(), 2, 0)
    assert ((low <= truth) & (truth <= high)).mean() >= 5 / 6
    assert np.abs((groups.value - truth) / data.std(axis=0)).max() < 0.2
    assert es.from_json(groups.to_json()).to_json() == groups.to_json()


# The parts ------------------------------------------------------------------------------------------------------


def test_the_forecast_share_is_the_least():
    for clear in (10.0, 100.0, 1e4):
        lam = learning_share(clear)
        shares = np.linspace(0.01, 0.99, 999)
        cost = (1 + 250 / clear / shares) / (1 - shares)
        assert (1 + 250 / clear / lam) / (1 - lam) <= cost.min() * (1 + 1e-6)


def test_a_split_budget_is_within_the_stated_one():
    for d in (1, 2, 5, 9):
        plan = es.plan("mean", es.Unknown(1e6), n=10_000, d=d, **SPEND)
        split = plan.split
        assert plan.privacy == split.privacy
        assert split.is_box
        assert 0 < split.privacy.delta(1.0) <= 1e-6
        assert 0 < split.privacy.pure[0] < 1


def test_grids_reach_from_end_to_end():
    for center, scale in ((0.0, 2.0**-30), (0.3, 0.01), (-0.999, 2.0**-20), (1.0, 0.5)):
        edges = grid(center, scale, 4, 1.5)
        assert edges[0] == -1
        assert edges[-1] == 1
        assert (np.diff(edges) > 0).all()


def test_noise_alone_is_hardly_ever_taken_for_rows():
    rng, edges = np.random.default_rng(0), np.linspace(-1, 1, 101)
    for laplace, draw in ((False, rng.normal), (True, lambda size: rng.laplace(scale=math.sqrt(0.5), size=size))):
        limits = thresholds(100, laplace)
        marked = sum(Histogram(edges, draw(size=100), 1.0, 1.0, limits).hull.sure for _ in range(2000))
        assert marked <= 4  # 0.2 are expected


@pytest.mark.parametrize("bins", range(1, 9))
def test_a_histogram_may_have_fewer_bins_than_the_widest_window(bins):
    histogram = Histogram(np.linspace(-1, 1, bins + 1), np.zeros(bins), 1.0, 1000.0, thresholds(bins))
    assert not histogram.hull.sure


def test_counts_on_the_simplex_and_the_bulk():
    counts = np.array([3.0, -2.0, 5.0, 0.5])
    nearest = on_simplex(counts, 6.0)
    assert nearest.sum() == pytest.approx(6)
    assert (nearest >= 0).all()
    counts = np.array([0, 0, 0, 10, 80, 10, 0, 0, 0, 0.0])
    histogram = Histogram(np.linspace(-1, 1, 11), counts, 1.0, 100.0, thresholds(10))
    assert histogram.center == pytest.approx(-0.1, abs=0.01)
    assert histogram.in_one_bin
    assert histogram.span == pytest.approx((-0.2, 0.0))
    assert histogram.hull.sure
    assert histogram.spread(-1, 1) == pytest.approx(0.106, abs=0.01)


def test_rows_that_are_missing_from_the_hull_widen_it():
    """Rows that lie thin beside a full bin are taken in, as long as more are missing than noise explains."""
    counts = np.zeros(40)
    counts[20], counts[21:29] = 6000.0, 40.0
    edges, limits = np.linspace(-1, 1, 41), thresholds(40)
    thin = Histogram(edges, counts, 30.0, counts.sum(), limits)
    assert thin.hull.last >= 24
    assert Histogram(edges, counts, 30.0, 6000.0, limits).hull.last == 21


def test_rows_that_are_missing_do_not_widen_the_hull_by_noise_alone():
    """The neighbor that stands out most is taken in, and none below two standard deviations."""
    rng, edges, limits = np.random.default_rng(0), np.linspace(-1, 1, 201), thresholds(200)
    wide = 0
    for _ in range(200):
        counts = 20 * rng.normal(size=200)
        counts[95:105] += 600.0
        hull = Histogram(edges, counts, 20.0, 6300.0, limits).hull
        wide += hull.last - hull.first > 16
    assert wide <= 12  # with the first neighbor above 1 standard deviation there are 26


def test_noise_in_the_number_of_rows_does_not_widen_the_hull():
    """Where the number of rows is private, a count of it that is too high says nothing of rows outside."""
    rng, edges, limits = np.random.default_rng(0), np.linspace(-1, 1, 201), thresholds(200)
    wide = 0
    for _ in range(200):
        counts = 20 * rng.normal(size=200)
        counts[95:105] += 600.0
        n = 6000.0 + 220 * rng.normal()
        hull = Histogram(edges, counts, 20.0, n, limits, n_std=220.0).hull
        assert hull.sure
        wide += hull.last - hull.first > 13
    assert wide <= 4  # without n_std there are 15


def test_ends_widen_with_the_tail_and_narrow_with_the_noise():
    rng = np.random.default_rng(0)
    edges = grid(0.0, 0.01, 4, 1.5)

    def ends(rows, unit, beyond=(0.0, 0.0)):
        noisy = np.histogram(rows, edges)[0] + rng.normal(size=edges.size - 1)
        return choose_ends(Histogram(edges, noisy, 1.0, 1e5, thresholds(60)), 0.0, unit, beyond, 1.0)

    normal, heavy = rng.normal(size=100_000) * 0.01, np.clip(rng.standard_t(2.5, 100_000) * 0.01, -1, 1)
    assert ends(heavy, 10.0)[1].distance > 1.5 * ends(normal, 10.0)[1].distance
    assert ends(normal, 1000.0)[1].distance < ends(normal, 1.0)[1].distance
    below, above = ends(normal, 10.0)
    assert np.maximum(normal - above.distance, 0).sum() <= above.bias
    assert max(below.surprise, above.surprise) < 3
    assert ends(normal, 10.0, (0.0, 500.0))[1].surprise > 3


def test_an_interval_allows_for_the_rows_seen_beyond_an_end():
    """Rows in the bins that were seen are cut off by an end within them, whatever the tail beyond is like."""
    edges, limits = np.linspace(-1, 1, 21), thresholds(20)
    counts = np.where(np.abs(edges[:-1] - 0.1) < 0.11, 5000.0, 0.0)  # bins from 0 to 0.2
    _, above = choose_ends(Histogram(edges, counts, 30.0, 1e4, limits), 0.0, 1e4, (0.0, 0.0), 30.0)
    assert above.distance < 0.2
    assert above.bias >= 5000 * max(0.15 - above.distance, 0)


def test_values_beyond_a_column_that_looks_constant_are_a_surprise():
    """Nothing was seen that tells how far they lie, so that no law of the tail may explain them next to the end."""
    edges, limits = grid(0.0, TINY, 4, 1.5), thresholds(60)
    noise = 30 * np.random.default_rng(0).normal(size=edges.size - 1)
    counts = np.where(np.abs((edges[1:] + edges[:-1]) / 2) < TINY / 4, 1200.0, 0.0) + noise
    histogram = Histogram(edges, counts, 30.0, 1388.0, limits)
    for rows in (208.0, 20.0):
        ends = choose_ends(histogram, 0.0, 10.0, (0.0, rows), 30.0)
        assert ends[1].distance < TINY
        assert (max(end.surprise for end in ends) > 3) == (rows > 90)


def test_values_that_look_alike_warn_and_names_of_two_values_do_not():
    """A column with 2% of ones, as far as noise tells, is all zeros; one with 40% of ones is located well."""
    for share, alike in ((0.02, True), (0.4, False)):
        data = (np.random.default_rng(0).random((1500, 3)) < share) * 1.0
        for seed in range(5):
            release = released(es.mean, data, 100.0, seed=seed)
            low, high = release.confidence_interval().T
            covered = ((low <= data.mean(axis=0)) & (data.mean(axis=0) <= high)).all()
            assert covered or any("alike" in text or "more values" in text for text in release.warnings)
            if not alike:
                assert release.warnings == ()


def test_locating_never_asks_for_more_than_is_left():
    """Shares of many zooms are rounded, and the last round takes what is left and no more."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        data = rng.normal(rng.uniform(-1e5, 1e5, 3), 10.0 ** rng.uniform(-2, 4, 3), (3000, 3))
        released(es.mean, data, seed=seed)


def test_a_saved_release_cannot_claim_less_noise_of_its_missing_values():
    data = LAWS["normal"](np.random.default_rng(0), 4000, 2)
    data[:800, 0] = np.nan
    text = released(es.mean, data).to_json()
    saved = json.loads(text)
    stds = saved["learned"]["absent"]["stds"]
    assert stds[0] > 0
    assert es.from_json(text).to_json() == text
    saved["learned"]["absent"]["stds"] = [0.5 * std for std in stds]
    with pytest.raises(es.UsageError, match="modified after it was written"):
        es.from_json(json.dumps(saved))
