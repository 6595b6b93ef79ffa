"""Early rounds on rows drawn by coins: what is drawn, what it costs, how often all rows are read."""

import math

import numpy as np
import pytest
from opening import session_on
from scipy import stats

import ellipsum as es
from ellipsum.learning import schedule
from ellipsum.learning.auto import _leave_sample
from ellipsum.learning.maps import NormHistogram
from ellipsum.learning.measure import Measure
from ellipsum.learning.rounds import Rounds
from ellipsum.learning.state import Shape, State
from ellipsum.noise import public_coins
from ellipsum.regions.ellipsoid import Ellipsoid
from ellipsum.rows import NormLaw
from ellipsum.sources import LocalSource

RELATIONS = ["replace", "add_remove"]
MU = es.Budget(mu=1.0)
SEED = bytes(range(32))


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture
def small(monkeypatch):
    """Samples of two thousand rows of four columns."""
    monkeypatch.setattr(schedule, "_CELLS", 8000)
    monkeypatch.setattr(schedule, "_LEAST_ROWS", 2000)
    monkeypatch.setattr(schedule, "_LEAST_NOISE_ROWS", 1000.0)
    monkeypatch.setattr(schedule, "_LEAST_PER_COLUMN", 300.0)


class Lake:
    """Batches that can be read again, and how often they were read to the end."""

    def __init__(self, rows, step=5000):
        self.parts = [rows[start : start + step] for start in range(0, len(rows), step)]
        self.passes = 0

    def __iter__(self):
        yield from self.parts
        self.passes += 1


def drawn(rows, rate=0.3, seed=SEED):
    source, seen = session_on(Lake(rows)).source.sampled(rate, seed)
    assert seen == len(rows)
    return source.every()


# --- what is drawn [T10] --------------------------------------------------------------------------------


def test_coins_have_their_rate_and_a_rate_a_tenth_off_is_rejected():
    n, rate = 2_000_000, 0.05
    kept = int(public_coins(SEED, 0, n, rate).sum())
    low, high = stats.binom.ppf([1e-10, 1 - 1e-10], n, rate)
    assert low <= kept <= high
    assert not low <= stats.binom.ppf(1e-10, n, 1.1 * rate) <= high


def test_coins_belong_to_places_and_are_fresh_for_every_seed():
    whole = public_coins(SEED, 0, 1000, 0.5)
    assert np.array_equal(whole[300:700], public_coins(SEED, 300, 400, 0.5))
    others = public_coins(bytes(32), 0, 1000, 0.5)
    assert 400 < (whole == others).sum() < 600


def test_values_have_no_say_in_which_rows_are_drawn(monkeypatch):
    rows = rng(1).normal(size=(12_000, 3))
    odd = rows.copy()
    odd[7000] = np.nan
    odd[7001] = np.inf
    kept, others = drawn(rows), drawn(odd)
    assert kept.shape == others.shape
    assert np.array_equal(kept, rows[public_coins(SEED, 0, len(rows), 0.3)])
    assert (kept != others).any(axis=1).sum() <= 2
    more = drawn(np.vstack([rows, np.zeros((1, 3))]))
    assert len(kept) <= len(more) <= len(kept) + 1
    assert np.array_equal(more[: len(kept)], kept)


def test_each_call_draws_anew():
    session = session_on(rng(1).normal(size=(5000, 2)))
    first, second = (session.drawn(0.5, public=True)[0].every() for _ in range(2))
    assert len(first) != len(second) or not np.array_equal(first, second)


@pytest.mark.parametrize("make", [Lake, np.asarray, lambda x: x.astype(np.float32)], ids=["batches", "array", "single"])
def test_at_rate_one_all_rows_are_there(make):
    rows = rng(1).normal(size=(6000, 3)).astype(np.float32).astype(float)
    source, seen = session_on(make(rows)).source.sampled(1.0, b"")
    assert seen == source.count() == 6000
    assert np.array_equal(source.every(), rows)


def test_columns_of_arrow_are_drawn_as_rows_of_arrays_are():
    pa = pytest.importorskip("pyarrow")
    rows = rng(1).normal(size=(4000, 3))
    table = pa.table({name: rows[:, j] for j, name in enumerate("abc")})
    found = session_on(table).source.sampled(0.3, SEED)[0].every()
    assert np.array_equal(found, rows[public_coins(SEED, 0, len(rows), 0.3)])


# --- what it costs [L9] ---------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS)
def test_noise_on_a_sample_is_that_of_a_round_on_all_rows(small, relation):
    """No amplification: whitened errors are chi-square, and a tenth less noise is rejected at 1e-9."""
    rows = rng(2).normal(size=(20_000, 4))
    rounds = Rounds(session_on(rows, rng(3)), es.Budget(mu=10.0), relation, 20_000)
    rounds.draw()
    assert rounds.rate == pytest.approx(0.1)
    edges = np.linspace(0.01, 4, 3000)
    histogram = NormHistogram([(Ellipsoid(np.zeros(4), np.ones(4)), edges)])
    found = rounds.sum("norms", histogram, 1e-4)
    wanted = (math.sqrt(2) if relation == "replace" else 1.0) / (10 * 0.01)
    assert found.std == pytest.approx(wanted, rel=1e-6)
    exact = rounds._drawn.total(histogram).sums.to_float()
    assert 1600 < exact.sum() < 2400
    squares = float(((found.values - exact) ** 2).sum()) / wanted**2
    low, high = stats.chi2.ppf([1e-10, 1 - 1e-10], found.values.size)
    assert low < squares < high
    assert squares * 0.81 < low


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_release_from_a_sample_costs_the_stated_budget(small, relation):
    rows = rng(2).normal(size=(30_000, 4))
    budget = es.Budget(epsilon=1, delta=1e-6)
    found = es.mean(rows, es.Unknown(100.0), budget=budget, neighbors=relation, rng=rng(), noise="gaussian")
    assert found.privacy == es.Privacy(budget.mu, 0.0, relation)
    assert sum(step["privacy"]["mu"] ** 2 for step in found.learned["rounds"]) <= budget.mu**2 * (1 + 1e-12)


def test_another_number_of_rows_is_refused_by_the_pass_that_draws(small):
    class Grown(LocalSource):
        def count(self):
            return 30_000

    session = session_on(rng(2).normal(size=(30_001, 4)))
    session.source = Grown(session.source._table)
    with pytest.raises(es.UsageError, match="30001"):
        es.plan(es.Unknown(100.0), n=30_000, d=4, budget=MU, statistic="mean").run(session)


# --- how often all rows are read ------------------------------------------------------------------------


def awkward(n, d=4):
    """Correlated columns with tails: rows for which every kind of round runs."""
    return rng(4).standard_t(2.5, size=(n, d)) @ rng(5).normal(size=(d, d)) + 40


CASES = [
    ("replace", "equal", 40_000, None),
    ("replace", "relative", 3000, None),
    ("add_remove", "relative", 40_000, None),
    ("add_remove", "equal", 40_000, 30_000),
]


@pytest.mark.parametrize(("relation", "weights", "n", "stated"), CASES)
def test_all_rows_are_read_six_times_at_most(small, relation, weights, n, stated):
    lake = Lake(awkward(n))
    asked = {"budget": MU, "neighbors": relation, "weights": weights, "n": stated}
    found = es.mean(lake, es.Unknown(1e4), **asked, rng=rng(6))
    assert len(found.learned["rounds"]) > 7
    assert 3 <= lake.passes <= schedule.MOST_PASSES


def test_a_plan_says_how_often_all_rows_are_read():
    budget = {"epsilon": 1, "delta": 1e-6, "statistic": "mean"}
    large = es.plan(es.Unknown(1e6), n=50_000_000, d=20, **budget)
    assert large.passes == 6
    assert "at most 6 over all rows; early rounds read about 838,861 of them" in repr(large)
    assert "a copy in memory" in repr(es.plan(es.Unknown(1e6), n=1000, d=20, **budget))
    private = es.plan(es.Unknown(1e6), d=20, neighbors="add_remove", **budget)
    assert "or up to twice as many" in repr(private)


@pytest.mark.parametrize(
    "asked", [{"method": "coinpress", "budget": MU}, {"budget": es.Budget(mu=1e-6)}], ids=["coinpress", "tiny"]
)
def test_where_every_round_reads_all_rows_no_number_is_promised(asked):
    plan = es.plan(es.Unknown(1e6), n=50_000_000, d=20, statistic="mean", **asked)
    assert plan.passes is None
    assert "passes" not in repr(plan)


# --- what comes of it -----------------------------------------------------------------------------------


def uneven():
    return rng(7).normal(size=(40_000, 4)) * [1, 2, 3, 4] + 5


def errors(rows, seeds):
    truth = rows.mean(axis=0)
    found = [es.mean(rows, es.Unknown(1e3), budget=es.Budget(mu=0.5), rng=rng(seed)) for seed in seeds]
    whitened = [(release.value - truth) / release.noise_std for release in found]
    return float(np.mean([((release.value - truth) ** 2).sum() for release in found])), np.array(whitened)


@pytest.mark.slow
def test_a_sample_errs_no_more_than_all_rows(small, monkeypatch):
    rows = uneven()
    sampled, _ = errors(rows, range(20))
    monkeypatch.setattr(schedule, "_CELLS", 1 << 24)
    whole, _ = errors(rows, range(20))
    assert sampled < 1.4 * whole


def test_errors_from_a_sample_are_as_stated(small):
    """The center of a sample of a twentieth is off by more than the last round's noise: it must not be held to."""
    _, whitened = errors(uneven(), range(6))
    low, high = stats.chi2.ppf([1e-9, 1 - 1e-9], whitened.size)
    assert low < (whitened**2).sum() < high


def test_what_a_sample_is_off_by_enters_the_error_of_the_center(small):
    """Squared distances of 60 samples' means from the mean: half the variance is rejected at 1e-9."""
    rows, std = uneven(), np.array([1.0, 2, 3, 4])
    rounds = Rounds(session_on(rows, rng(9)), MU, "replace", len(rows))
    rounds.draw()
    assert rounds.rate == pytest.approx(0.05)
    shape = Shape(std)
    typical = float(np.median(np.linalg.norm(shape.b * (rows - 5), axis=1)))
    state = State(np.zeros(4), np.zeros(4), shape, NormLaw(np.array([math.log2(typical)]), np.ones(1)))
    _leave_sample(Measure(rounds, 1.0), state)
    assert rounds.rate == 1.0
    means = [session_on(rows, rng(seed)).drawn(0.05, public=True)[0].every().mean(axis=0) for seed in range(60)]
    squares = float((((np.array(means) - rows.mean(axis=0)) ** 2) / state.variance).sum())
    low, high = stats.chi2.ppf([1e-10, 1 - 1e-10], 240)
    assert low < squares < high
    assert stats.chi2.sf(squares / 0.5, 240) < 1e-9


def test_progress_runs_from_zero_to_one_with_a_sample(small):
    seen = []
    rows = rng(2).normal(size=(30_000, 4))
    es.mean(Lake(rows), es.Unknown(100.0), budget=MU, rng=rng(), progress=seen.append)
    assert seen == sorted(seen)
    assert seen[0] == 0.0
    assert seen[-1] == pytest.approx(1.0)
    private = []
    es.mean(Lake(rows), es.Unknown(100.0), budget=MU, neighbors="add_remove", rng=rng(), progress=private.append)
    assert private == sorted(private)
    assert len(private) <= 2 * 40  # the beginning and the end of each pass


def test_people_are_drawn_as_people(small):
    """A row of the grouped source is a person: a coin each."""
    rows = rng(8).normal(size=(30_000, 4)) + 5
    who = np.repeat(np.arange(15_000.0), 2)
    found = es.mean(
        np.column_stack([who, rows]),
        es.Unknown(100.0),
        budget=MU,
        privacy_id=0,
        max_rows=2,
        rng=rng(),
        per_person="mean",
    )
    assert found.privacy.unit == "person"
    assert np.abs(found.value - 5).max() < 0.1
