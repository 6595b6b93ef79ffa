"""Bugs that are planted on purpose in the library's own mechanisms, each found by an audit of its outputs."""

import copy
from fractions import Fraction

import numpy as np
import pytest

import ellipsum as es
from ellipsum.apps.audit.cases import CASES, NoisySums, case_of, friendly_numbers
from ellipsum.noise.law import GaussianLaw
from ellipsum.plans import histogram_plan, noise_selection
from ellipsum.plans.group_plan import GroupPlan
from ellipsum.plans.plan import Plan
from ellipsum.releases import distribution_estimates
from ellipsum.row_maps.maps import Body

RUNS = 10_000


def rng(seed=0):
    return np.random.default_rng(seed)


def audited(mechanism, pair, runs=RUNS):
    return es.audit(mechanism, pair, runs=runs, rng=rng(), processes=1)


def caught(mechanism, pair, claim, runs=RUNS):
    found = audited(mechanism, pair, runs)
    return found.contradicts(claim) and found.mu_lower > getattr(claim, "mu", 0)


def honest(name, runs=RUNS):
    """The case as it is, which the same audit does not contradict."""
    case = case_of(name)
    assert not audited(case.mechanism, case.pair, runs).contradicts(case.claim)
    return case


@pytest.fixture
def forgetful(monkeypatch):
    """No plan that was made before or here is remembered."""
    monkeypatch.setattr(noise_selection, "_remember", noise_selection._remember.__wrapped__)


@pytest.mark.parametrize(
    "name", ["sum-ball", "sum-box", "sum-ball-add-remove", "people-mean", "quantiles-cdf", "describe-quantiles"]
)
def test_half_the_sensitivity(name, monkeypatch, forgetful):
    claim = honest(name).claim
    whole = Body.sensitivity
    monkeypatch.setattr(Body, "sensitivity", lambda *arguments, **words: whole(*arguments, **words) / 2)
    broken = case_of(name)
    assert broken.claim == claim
    assert caught(broken.mechanism, broken.pair, claim)


def test_choices_at_twice_their_rate(monkeypatch):
    """As if a row moved half as many ranks; and as if one choice were all."""
    case = honest("quantiles-exponential")
    assert audited(case.mechanism, case.pair).epsilon_lower(0.0) < 1
    whole = distribution_estimates.exponential_rate
    monkeypatch.setattr(distribution_estimates, "exponential_rate", lambda *arguments: 2 * whole(*arguments))
    broken = case_of("quantiles-exponential")
    assert audited(broken.mechanism, broken.pair).epsilon_lower(0.0) > 1


@pytest.mark.parametrize("less", [0.9, 0.95])
def test_a_little_too_little_noise(less, monkeypatch):
    """The noise of every coordinate, by a tenth or a twentieth."""
    case = honest("sum-ball")
    units = case.mechanism.plan.noise_law.units * less
    monkeypatch.setattr(Plan, "noise_law", GaussianLaw(units))
    assert caught(case.mechanism, case.pair, case.claim, 100_000)


@pytest.mark.parametrize("name", ["histogram", "histogram-gaussian"])
def test_half_the_sensitivity_of_a_histogram(name, monkeypatch):
    claim, whole = honest(name).claim, histogram_plan.sensitivities
    monkeypatch.setattr(histogram_plan, "sensitivities", lambda request: tuple(part / 2 for part in whole(request)))
    broken = case_of(name)
    assert broken.claim == claim
    found = audited(broken.mechanism, broken.pair, 100_000)
    assert found.epsilon_lower(0.0) > 1.2 if claim.pure else found.mu_lower > claim.mu


def test_a_little_too_little_noise_on_counts():
    case = honest("histogram-gaussian")
    plan = copy.copy(case.mechanism.plan)
    object.__setattr__(plan, "law", GaussianLaw(0.9 * plan.law.units))
    assert caught(NoisySums(plan), case.pair, case.claim, 100_000)


def test_the_wrong_relation():
    """Noise for a row that is added, where a row may be replaced: half of what is needed."""
    made = es.plan("sum", es.Ball(1.0), n=5, d=2, neighbors="add_remove", budget=es.Budget(mu=1.0), count_clipped=False)
    case = honest("sum-ball")
    assert caught(NoisySums(made), case.pair, case.claim)
    added = CASES["sum-ball-add-remove"]()
    assert not audited(NoisySums(made), added.pair).contradicts(added.claim)


class Repeated:
    """Coordinates that share one draw of noise."""

    def __init__(self, plan):
        self.plan = plan

    def many(self, data, runs, generator):
        noisy = NoisySums(self.plan).many(data, runs, generator)
        exact = data.sum(axis=0) * 2.0**self.plan.grid_bits
        return exact + (noisy[:, :1] - exact[0])


def test_noise_that_is_used_again():
    case = honest("sum-ball")
    assert caught(Repeated(case.mechanism.plan), case.pair, case.claim)


def test_noise_of_an_earlier_release_that_is_used_again():
    """One key for two releases: their difference has no noise."""
    plan = case_of("sum-ball").mechanism.plan

    def twice(data, generator):
        key = int(generator.integers(1 << 62))
        first, second = (plan.release(rows, rng(key)).value for rows in (data, np.zeros_like(data)))
        return np.concatenate([first, second])

    def fresh(data, generator):
        first, second = (plan.release(rows, generator).value for rows in (data, np.zeros_like(data)))
        return np.concatenate([first, second])

    pair = case_of("sum-ball").pair
    assert audited(twice, pair, 300).mu_lower > 2
    assert not audited(fresh, pair, 300).contradicts(es.Privacy(1.0))


def test_a_row_that_is_not_a_number():
    """A sum that lets NaN through shows who had it; the library's does not."""
    rows = np.zeros((5, 2)), np.vstack([np.zeros((4, 2)), [[np.nan, 0.0]]])
    case = case_of("sum-ball")

    def naive(data, generator):
        return data.sum(axis=0) + generator.normal(0, 2, 2)

    found = audited(naive, rows, 1_000)
    assert found.failures == (0, found.counted)
    assert found.mu_lower > 4
    held = audited(case.mechanism, rows)
    assert held.failures == (0, 0)
    assert not held.contradicts(case.claim)


FRIENDS, RADIUS, LOOSE = 40, 1.0, {"epsilon": 4.0, "delta": 1e-3}


def at_the_edge():
    """Rows half of which lie apart from the others, one of them on either side."""
    rows = np.concatenate([np.zeros(30), np.full(10, 50.0)])[:, None]
    moved = rows.copy()
    moved[30] = 0.0
    return rows, moved


def friendly(data, generator):
    return friendly_numbers(es.friendly_mean(data, RADIUS, rng=generator, threads=1, noise="gaussian", **LOOSE))


def test_a_gate_without_noise(monkeypatch):
    from ellipsum.friendly import release

    case = case_of("friendly-mean")
    assert not audited(friendly, at_the_edge(), 300).contradicts(case.claim)
    monkeypatch.setattr(release, "_add_noise", lambda weight, *_: (Fraction(weight), Fraction(weight)))
    found = audited(friendly, at_the_edge(), 300)
    assert found.contradicts(case.claim)
    assert found.mu_lower > 2


def agreeing(place=0.0):
    """Rows that all agree, far from the origin or not; in the second set one of them is elsewhere."""
    rows = np.full((FRIENDS, 1), place)
    moved = rows.copy()
    moved[0] += 100 * RADIUS
    return rows, moved


def jumping_weights(counts, n):
    """As lecture notes have them: (c - n/2)/n where some row is not near, and 1 where all are."""
    slope = np.clip((2 * counts - n) * (n - 1) // (2 * n), 0, None)
    return np.where(counts == n, n - 1, slope)


def test_friendly_weights_that_jump(monkeypatch):
    """One row that leaves halves the weights of all others."""
    from ellipsum.friendly import core

    case = case_of("friendly-mean")
    assert not audited(friendly, agreeing(), 300).contradicts(case.claim)
    monkeypatch.setattr(core, "row_weights", jumping_weights)
    found = audited(friendly, agreeing(), 300)
    assert found.contradicts(case.claim)
    assert found.mu_lower > 2


def test_a_friendly_sum_that_is_divided_by_n(monkeypatch):
    """Without the sum of weights below it, a weight that changes moves the sum by as much as rows are far out."""
    from ellipsum.friendly.core import Core

    case, far = case_of("friendly-mean"), agreeing(1e6)
    assert not audited(friendly, far, 300).contradicts(case.claim)
    monkeypatch.setattr(Core, "mean", lambda core: [Fraction(total, core.n * (core.n - 1)) for total in core.sums])
    found = audited(friendly, far, 300)
    assert found.contradicts(case.claim)
    assert found.mu_lower > 2


def test_a_person_counted_twice():
    """Each row taken for a person of its own, where a person has two."""
    case = honest("people-sum")
    by_row = es.plan("sum", es.Box(-1.0, 1.0), n=10, d=1, noise="gaussian", budget=es.Budget(mu=1.0))
    rows = tuple(data["x"][:, None] for data in case.pair)
    assert caught(NoisySums(by_row), rows, case.claim)
    one_each = rows[0].copy(), rows[0].copy()
    one_each[1][-1] *= -1
    assert not audited(NoisySums(by_row), one_each).contradicts(case.claim)


def test_a_threshold_one_too_low(monkeypatch):
    """A group of one person is published oftener than the slack allows."""
    case = honest("groups-private", 200_000)
    units, shift = case.mechanism.plan._threshold_units()
    one = case.mechanism.plan.one.count_units / 2**shift
    monkeypatch.setattr(GroupPlan, "_threshold_units", lambda plan: (units - int(one), shift))
    assert caught(case.mechanism, case.pair, case.claim, 200_000)
