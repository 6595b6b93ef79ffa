"""Audits find what is there, and nothing where nothing is."""

import json
import os
import time

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import binom

import ellipsum as es
from ellipsum.apps.audit.bounds import _looks
from ellipsum.apps.audit.cases import CASES, case_of
from ellipsum.apps.audit.events import at_least, at_most, epsilon_bound, learn_scores, pair_mu, pooled_mu

GAUSSIAN = [
    name for name in CASES if name.startswith(("sum", "mean", "describe", "people")) and not name.endswith("-norm")
]
TIGHT = [*(name for name in GAUSSIAN if name != "people-rows"), "groups-listed", "count-groups", "histogram-gaussian"]


class Many:
    """A mechanism that draws many outputs in one call."""

    def __init__(self, draw):
        self.draw = draw

    def many(self, data, runs, rng):
        return self.draw(data, runs, rng)


def normal(mu):
    return Many(lambda data, runs, rng: data * mu + rng.normal(size=runs))


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("hits", [0, 1, 7, 50])
def test_bounds_on_probabilities_are_those_of_clopper_and_pearson(hits):
    low, high = float(at_least(hits, 50, 0.005)), float(at_most(hits, 50, 0.005))
    assert low == 0 if hits == 0 else binom.sf(hits - 1, 50, low) == pytest.approx(0.005)
    assert high == 1 if hits == 50 else binom.cdf(hits, 50, high) == pytest.approx(0.005)


@pytest.mark.parametrize("bound", [pair_mu, pooled_mu])
@pytest.mark.parametrize("mu", [0.0, 0.5, 2.0])
def test_bounds_on_mu_are_wrong_as_rarely_as_they_say(bound, mu):
    """20 000 audits of the true law: at a level of 10% fewer than 11% exceed it, and not all stay far below."""
    from scipy.special import ndtr

    draws = rng(1)
    hits, alarms = (draws.binomial(400, ndtr(place), 20_000) for place in (mu / 2, -mu / 2))
    bounds = bound(hits, alarms, 400, 0.1)
    assert np.mean(bounds > mu) < 0.11
    assert np.mean(bounds > mu - 0.4) > 0.5


def test_a_bound_on_epsilon_needs_more_than_delta():
    assert epsilon_bound(1000, 0, 1000, 0.01, 0.999) == 0
    assert epsilon_bound(1000, 0, 1000, 0.01, 0.0) > 4


def test_equal_data_sets_give_nothing():
    for seed in range(10):
        found = es.audit(normal(1.0), (0.7, 0.7), runs=20_000, rng=rng(seed))
        assert found.mu_lower == 0
        assert found.epsilon_lower(0.0) == 0
        assert not found.contradicts(es.Privacy(1e-3))


def test_a_mechanism_that_keeps_its_word_is_not_contradicted():
    for seed in range(20):
        found = es.audit(normal(2.0), (0.0, 1.0), runs=5_000, rng=rng(seed), confidence=0.999)
        assert 1.7 < found.mu_lower < 2
        assert not found.contradicts(es.Privacy(2.0))
        assert found.epsilon_lower(1e-3) < es.Privacy(2.0).epsilon(1e-3)


def test_runs_end_as_soon_as_they_contradict_a_claim():
    found = es.audit(normal(2.0), (0.0, 1.0), runs=100_000, claim=es.Privacy(1.0), rng=rng())
    assert found.contradicts(es.Privacy(1.0))
    assert found.runs < 100_000 / 4
    assert found.runs == found.counted + 20_000
    assert 1.8 < found.mu_lower < 2
    kept = es.audit(normal(1.0), (0.0, 1.0), runs=100_000, claim=es.Privacy(1.0), rng=rng())
    assert kept.runs == 100_000
    assert kept.miss == pytest.approx(0.01 / 6)
    assert not kept.contradicts(es.Privacy(1.0))


def test_six_looks_together_contradict_a_true_claim_as_rarely_as_they_say():
    """Of 3000 audits at a level of 10% no more are wrong than the binomial law allows at 1e-9; with that level at each
    look more are."""
    wrong = naive = 0
    for seed in range(3000):
        generator = rng(seed)
        first, second = generator.normal(size=1600), 1 + generator.normal(size=1600)
        right = np.cumsum((second > 0.5).astype(int) + (first <= 0.5))
        looks = [50, 100, 200, 400, 800, 1600]
        bounds = [[float(at_least(right[n - 1], 2 * n, miss)) for n in looks] for miss in (0.1 / 6, 0.1)]
        wrong += max(bounds[0]) > ndtr(0.5)
        naive += max(bounds[1]) > ndtr(0.5)
    most = binom.isf(1e-9, 3000, 0.1)
    assert wrong < most < naive


def test_looks_are_fixed_beforehand():
    assert _looks(80_000, None) == [80_000]
    assert _looks(80_000, es.Privacy(1.0)) == [2500, 2500, 5000, 10_000, 20_000, 40_000]
    assert _looks(150, es.Privacy(1.0)) == [150]
    assert sum(_looks(12_345, es.Privacy(1.0))) == 12_345


def test_five_percent_too_little_noise_is_caught():
    found = es.audit(normal(2 / 0.95), (0.0, 1.0), runs=100_000, rng=rng())
    assert found.mu_lower > 2
    assert found.contradicts(es.Privacy(2.0))
    honest = es.audit(normal(2.0), (0.0, 1.0), runs=100_000, rng=rng())
    assert 1.95 < honest.mu_lower < 2


@pytest.mark.parametrize("mu", [0.5, 1.0, 4.0])
def test_a_million_runs_find_98_percent(mu):
    found = es.audit(normal(mu), (0.0, 1.0), runs=1_000_000, rng=rng())
    assert 0.98 * mu < found.mu_lower < mu


@pytest.mark.slow
@pytest.mark.parametrize("name", TIGHT)
def test_98_percent_of_every_gaussian_claim_is_found(name):
    case = case_of(name)
    found = es.audit(case.mechanism, case.pair, runs=1_000_000, rng=rng(2))
    assert 0.98 * case.claim.mu < found.mu_lower < case.claim.mu
    assert not found.contradicts(case.claim)


@pytest.mark.parametrize(
    "name",
    ["sum-ball", "sum-box-add-remove", "mean-ball-add-remove", "describe-box", "sum-ball-norm", "histogram-gaussian"],
)
def test_batched_noise_is_nearly_the_claim(name):
    case = case_of(name)
    claimed = 2 * ndtri((1 + case.claim.delta(0.0)) / 2)
    found = es.audit(case.mechanism, case.pair, runs=100_000, rng=rng(2))
    assert 0.95 * claimed < found.mu_lower < claimed


@pytest.mark.parametrize("name", ["sum-box-norm", "count"])
def test_pure_noise_shows_nearly_its_epsilon(name):
    case = case_of(name)
    found = es.audit(case.mechanism, case.pair, runs=200_000, rng=rng(2))
    assert 0.95 < found.epsilon_lower(0.0) < 1
    assert not found.contradicts(case.claim)
    assert found.contradicts(es.Privacy.of_pure(0.8))


@pytest.mark.parametrize(
    "name", ["mean-box", "people-mean", "histogram-gaussian", pytest.param("groups-listed", marks=pytest.mark.slow)]
)
def test_whole_releases_have_the_law_of_batches(name):
    case = case_of(name)
    found = es.audit(case.whole, case.pair, runs=1_000, rng=rng(3), processes=1)
    assert 0.6 < found.mu_lower < case.claim.mu


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name not in TIGHT and name != "learning-auto"])
def test_the_other_claims_are_not_contradicted(name):
    case = case_of(name)
    found = es.audit(case.mechanism, case.pair, runs=600, rng=rng(4), confidence=0.999, processes=1)
    assert not found.contradicts(case.claim)


@pytest.mark.slow
def test_every_case_can_be_made_and_run():
    """Pairs are neighbors of one shape, and mechanisms give finite numbers on both."""
    quick = [name for name in CASES if not name.startswith(("learning-auto", "sum", "mean", "describe"))]
    for name in quick:
        case = case_of(name)
        for data in case.pair:
            call = case.mechanism
            output = call.many(data, 2, rng()) if hasattr(call, "many") else call(data, rng())
            assert np.isfinite(output).all(), name
        assert case.whole or not hasattr(call, "many"), name  # --whole ran batches where there was nothing else
    with pytest.raises(es.UsageError, match="sum-ball"):
        case_of("nonsense")


def test_made_up_data_is_charged_to_nobody(tmp_path, monkeypatch):
    """Where the environment names a ledger, every release needs the name of a data set; an audit's have none."""
    ledger = es.Ledger(tmp_path / "budget.db")
    ledger.init("survey", epsilon=1, delta=1e-6)
    monkeypatch.setenv("ELLIPSUM_LEDGER", str(tmp_path / "budget.db"))
    for name in ("friendly-mean", "projection", "learning-coinpress", "mean-box", "groups-listed"):
        case = case_of(name)
        assert np.isfinite((case.whole or case.mechanism)(case.pair[0], rng())).all(), name
    with pytest.raises(es.UsageError, match="Missing argument ledger"):
        es.mean(np.zeros((100, 1)), es.Box(0, 1), epsilon=1, delta=1e-6)
    assert len(ledger.history()) == 1


def test_processes_do_not_change_the_result():
    def mechanism(data, generator):
        return data + generator.normal()

    one = es.audit(mechanism, (0.0, 2.0), runs=2_000, rng=rng(5), processes=1)
    two = es.audit(mechanism, (0.0, 2.0), runs=2_000, rng=rng(5), processes=2)
    assert one == two
    assert 1.5 < one.mu_lower < 2


def test_slow_runs_are_shared_and_fast_ones_are_not():
    from ellipsum.apps.audit.runs import Trial, trial_of

    assert Trial(1, seconds=0.3).processes(1_000, None) == (os.cpu_count() or 1)
    assert Trial(1, seconds=1e-6).processes(20_000, None) == 1
    assert Trial(1, seconds=0.3).processes(1_000, 3) == 3
    slow = trial_of(lambda data: time.sleep(0.01) or np.zeros(data), (2, 3), b"s" * 32)
    assert slow.width == 2
    assert slow.seconds >= 0.01


def test_global_generators_are_seeded_apart_in_processes():
    """ValueEquality in two processes, the same noise would come again."""
    from ellipsum.apps.audit.runs import Runner, parts_of, run_parts

    runner = Runner(lambda data: np.random.normal(), (0.0, 0.0), 1)
    parts = list(parts_of(0, 1024, b"s" * 32, False))
    values = np.concatenate(list(run_parts(runner, parts, 2)))
    assert np.unique(values).size == 1024


def test_a_process_that_dies_is_an_error():
    here = os.getpid()
    with pytest.raises(es.UsageError, match="processes=1"):
        es.audit(lambda data: 0.0 if os.getpid() == here else os._exit(3), (0, 1), runs=100, processes=2)


def test_an_output_that_fails_on_one_data_set_is_found():
    def mechanism(data, generator):
        if data and generator.random() < 0.5:
            raise ValueError("a cell")
        return generator.normal()

    found = es.audit(mechanism, (0, 1), runs=2_000, rng=rng(6), processes=1)
    assert found.failures[0] == 0
    assert found.failures[1] > 700
    assert found.mu_lower > 1
    assert found.epsilon_lower(1e-3) > 3


def test_noise_that_depends_on_the_data_is_found():
    found = es.audit(Many(lambda data, runs, g: data * g.normal(size=runs)), (1.0, 3.0), runs=20_000, rng=rng(7))
    assert found.score == "distance from the center"
    assert found.mu_lower > 1


def test_noise_that_coordinates_share_is_seen_through():
    shared = Many(lambda data, runs, g: np.array(data) + g.normal(size=(runs, 1)))
    found = es.audit(shared, ([0.0, 0.0], [0.1, 0.0]), runs=5_000, rng=rng(8))
    assert found.mu_lower > 4
    apart = Many(lambda data, runs, g: np.array(data) + g.normal(size=(runs, 2)))
    assert es.audit(apart, ([0.0, 0.0], [0.1, 0.0]), runs=5_000, rng=rng(8)).mu_lower < 0.2


def test_failures_everywhere_have_a_score():
    lost = np.full((5, 1), np.nan)
    (score,) = learn_scores(lost, lost)
    assert np.isinf(score(lost)).all()


def test_progress_and_shapes(tmp_path):
    heard = []
    found = es.audit(normal(1.0), (0.0, 1.0), runs=20_000, rng=rng(), progress=heard.append)
    assert heard[0] == 0
    assert heard[-1] == 1
    assert heard == sorted(heard)
    saved = json.loads(found.to_json())
    assert saved["mu_lower"] == found.mu_lower
    assert saved["epsilon_lower"][0] == {"delta": 0.0, "epsilon": found.epsilon_lower(0.0)}
    assert "mu >= " in repr(found)
    found.plot(tmp_path / "audit.png", es.Privacy(1.0))
    assert (tmp_path / "audit.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    "words",
    [
        {"runs": 99},
        {"claim": 1.0},
        {"confidence": 0.5},
        {"confidence": 1},
        {"pair": (0,)},
        {"pair": "ab"},
        {"mechanism": 3},
        {"processes": 0},
        {"mechanism": lambda data: 1 / 0},
    ],
)
def test_odd_arguments_are_refused(words):
    usual = {"mechanism": lambda data: 0.0, "pair": (0, 1), "runs": 100, "processes": 1}
    with pytest.raises(es.UsageError):
        es.audit(**{**usual, **words})
    with pytest.raises(es.UsageError, match="runs"):
        es.audit(usual["mechanism"], usual["pair"], rums=3)
