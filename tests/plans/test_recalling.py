"""The same words again: what is kept of a call changes nothing that a call gives."""

import numpy as np
import pytest

import ellipsum as es
from ellipsum.plans import recalling

X = np.random.default_rng(0).random((200, 3))
SPEND = {"epsilon": 1.0, "delta": 1e-6}


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch):
    monkeypatch.setattr(recalling, "_CALLS", {})


def seeded():
    return np.random.default_rng(7)


@pytest.mark.parametrize("call", [es.sum, es.mean, es.describe])
@pytest.mark.parametrize("words", [{}, {"neighbors": "add_remove"}, {"noise": "gaussian"}, {"missing": 0.5}])
def test_a_call_that_is_recalled_gives_what_the_first_gave(call, words):
    first = call(X, es.Box(0, 1), **SPEND, **words, rng=seeded())
    assert len(recalling._CALLS) == 1
    again = call(X, es.Box(0, 1), **SPEND, **words, rng=seeded())
    assert len(recalling._CALLS) == 1
    assert again == first
    assert again.to_json() == first.to_json()


@pytest.mark.parametrize(
    "words", [{"check": 1}, {"epsilon": True}, {"max_groups": True}, {"n": 200.5}, {"covariance": 0}, {"noise": "none"}]
)
def test_words_that_only_look_the_same_are_refused_all_the_same(words):
    es.describe(X, es.Box(0, 1), **SPEND, n=200, check=True, covariance=False)
    with pytest.raises(es.UsageError):
        es.describe(X, es.Box(0, 1), **{**SPEND, "n": 200, **words})


def test_other_rows_and_other_data_have_plans_of_their_own():
    first = es.sum(X, es.Box(0, 1), **SPEND)
    assert es.sum(X, es.Box(0, 2), **SPEND).plan != first.plan
    assert es.sum(X[:100], es.Box(0, 1), **SPEND).plan.n == 100
    assert es.sum(X[:, :2], es.Box(0, 1), **SPEND).plan.d == 2
    whole = es.mean(np.ones((200, 3), int), es.Box(0, 1), **SPEND).plan
    assert whole.riders != es.mean(X, es.Box(0, 1), **SPEND).plan.riders  # integers have no gaps
    with pytest.raises(es.UsageError, match="n is 100"):
        es.sum(X, es.Box(0, 1), **SPEND, n=100)


def test_what_somebody_does_to_their_rows_or_plan_reaches_nobody_else():
    mine = es.Box([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    plan = es.sum(X, mine, **SPEND).plan
    mine.upper[0] = 100.0
    plan.ellipsoid.scale[:] = 0.0
    plan.stated["epsilon"] = 9.0
    with pytest.raises(ValueError, match="read-only"):
        plan.stds[:] = 0.0
    for rows in (X, X[:50]):
        fresh = es.sum(rows, es.Box([0.0, 0.0, 0.0], [1.0, 1.0, 1.0]), **SPEND).plan
        assert fresh.rows.upper.tolist() == [1.0, 1.0, 1.0]
        assert fresh.stated["epsilon"] == 1.0
        assert fresh.ellipsoid.scale.all()


def test_few_calls_and_few_sizes_are_kept():
    for count in range(2, 20):
        es.sum(X[:count], es.Box(0, 1), **SPEND, noise="gaussian", check=False)
    (kept,) = recalling._CALLS.values()
    assert len(kept._asked) <= recalling._MOST_SIZES
    for epsilon in np.linspace(1, 2, 70).tolist():
        es.sum(X, es.Box(0, 1), epsilon=epsilon, delta=1e-6, noise="gaussian")
    assert len(recalling._CALLS) <= recalling._MOST_CALLS


def test_rows_that_are_learned_or_in_groups_or_wide_are_not_kept():
    wide = recalling.MOST_REMEMBERED + 1
    es.sum(np.zeros((3, wide)), es.Box(np.zeros(wide), np.ones(wide)), **SPEND, noise="gaussian")
    es.mean(X, es.Unknown(10.0), **SPEND)
    es.sum(X, es.Box(0, 1), **SPEND, by=np.arange(200) % 2, keys=[0, 1])
    assert not recalling._CALLS
