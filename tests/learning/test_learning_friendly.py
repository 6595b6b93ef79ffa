"""method="friendly_core": the charge, the fallback, the refusals, and that it finds a far center."""

import warnings

import numpy as np
import pytest

import ellipsum as es

TERMS = {"epsilon": 3.0, "delta": 1e-6, "method": "friendly_core"}


def test_a_far_center_is_found_and_everything_is_charged():
    rng = np.random.default_rng(0)
    x = 1000 + rng.standard_normal((3000, 5))
    found = es.mean(x, es.Unknown(1e9), rng=rng, **TERMS)
    # Ball noise over the magnitude would be about 1e6; ten claimed stds are far below one.
    assert np.abs(found.value - x.mean(axis=0)).max() < 10 * found.noise_std.max() < 1
    assert found.privacy.slack == pytest.approx(1e-7)
    assert found.privacy.delta(3.0) <= 1e-6
    assert found.privacy.mu < es.Budget(epsilon=3.0, delta=1e-6).mu
    learned = es.learn(x, es.Unknown(1e9), rng=rng, **TERMS)
    assert learned.rounds[0].name == "friendly center"
    assert learned.rounds[0].privacy.slack == pytest.approx(1e-7)
    total = es.compose([step.privacy for step in learned.rounds])
    assert total.mu <= learned.privacy.mu * (1 + 1e-12)
    assert total.slack <= learned.privacy.slack


def test_without_agreement_the_usual_search_takes_over():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (2000, 3)) * 1000
    x[::2] += 1e5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", es.AccuracyWarning)  # two clusters: a release may rightly doubt its radius
        found = es.mean(x, es.Unknown(1e7), rng=rng, **TERMS)
    assert np.isfinite(found.value).all()
    assert found.learned["rounds"][0]["name"] == "friendly center"


def test_refusals_come_before_anything_is_read():
    x = np.zeros((500, 3))
    for change, word in (
        ({"neighbors": "add_remove"}, "replace"),
        ({"epsilon": None, "delta": None, "budget": es.Budget(mu=1.0)}, "failure probability"),
    ):
        with pytest.raises(es.UsageError, match=word):
            es.mean(x, es.Unknown(1.0), **{**TERMS, **change})
    with pytest.raises(es.UsageError, match="vectors|rows"):
        es.mean(x[:10], es.Unknown(1.0), **TERMS)


def test_the_plan_tells_the_slack():
    plan = es.plan(es.Unknown(1e6), n=1000, d=10, **TERMS)
    assert plan.privacy.slack == pytest.approx(1e-7)
