"""Friendly means under a Laplace gate and spherical noise: as private as stated, drawn so, chosen where less."""

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import ellipsum as es
from ellipsum.friendly import friendly_mean
from ellipsum.friendly.core import RADIUS, find_core
from ellipsum.friendly.forecast import mean_sensitivity
from ellipsum.friendly.plan import FINE_BITS, FriendlyPlan, friendly_plan
from ellipsum.friendly.release import _noisy_mean
from ellipsum.noise import Stream

SPEND = {"epsilon": 1.0, "delta": 1e-6}


def rows(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) + 1000


def test_every_step_has_the_noise_that_its_part_of_epsilon_needs():
    plan = friendly_plan(3000, 3, (1.0, 2.0, 4.0, 8.0), noise="knorm", budget=es.Budget(**SPEND))
    gate, mean, search = map(Fraction, plan.shares)
    assert gate + mean + search <= 1
    assert float(gate + mean + search) == pytest.approx(1, rel=1e-12)
    assert plan.privacy == es.Privacy(0.0, 1e-6, pure=(1.0,))
    assert Fraction(plan.gate_units) * gate >= 3 * 2999
    assert Fraction(plan.search_units) * search >= 2 * 3 * 2999  # two steps
    for lower in (Fraction(800), Fraction(2999), Fraction(3000)):
        moved = RADIUS * mean_sensitivity(lower, 3000) * 2**FINE_BITS + 3
        assert moved <= Fraction(plan.mean_scale(lower)) * mean <= moved * Fraction(1 + 2**-40)


def test_the_mean_on_its_grid_moves_no_further_than_its_noise_is_for():
    """[F12] Random neighbors, rounding included."""
    rng = np.random.default_rng(1)
    for trial in range(40):
        n, d = int(rng.integers(5, 12)), int(rng.integers(1, 4))
        first = rng.normal(size=(n, d)) * rng.choice([0.1, 0.4, 0.8])
        second = first.copy()
        second[0] = rng.normal(size=d) * rng.choice([0.1, 1.0, 5.0])
        cores = [find_core(part, 1.0) for part in (first, second)]
        if min(core.weight for core in cores) == 0:
            continue
        weights = [Fraction(core.weight, n - 1) for core in cores]
        if max(weights) <= 4:
            continue
        fine = [[round(value * 2**FINE_BITS) for value in core.mean()] for core in cores]
        square = sum((a - b) ** 2 for a, b in zip(*fine, strict=True))
        moved = RADIUS * mean_sensitivity(max(weights), n) * 2**FINE_BITS + d
        assert square <= moved**2, trial


def test_the_noise_of_the_mean_is_spherical_and_a_tenth_less_is_found():
    plan = friendly_plan(200, 3, 1.0, noise="knorm", budget=es.Budget(epsilon=4.0, delta=1e-6))
    lower, stream = Fraction(150), Stream.open(np.random.default_rng(2))
    mean = [Fraction(5, 3), Fraction(-(10**9), 7), Fraction(0)]
    drawn = np.array([_noisy_mean(plan, mean, lower, stream) for _ in range(6000)])
    unit = math.ldexp(plan.mean_scale(lower), -FINE_BITS)
    lengths = np.linalg.norm(drawn - [float(value) for value in mean], axis=1) / unit
    assert stats.kstest(lengths, stats.gamma(3).cdf).pvalue > 1e-9
    assert stats.kstest(0.9 * lengths, stats.gamma(3).cdf).pvalue < 1e-9
    assert plan.noise_at(lower).std == pytest.approx(2 * unit / RADIUS)  # sqrt(3 + 1) scales


def test_few_columns_have_less_noise_and_many_stay_gaussian():
    for n, d, gain in ((1000, 1, 2.4), (1000, 2, 2.0), (1000, 8, 1.15), (10_000, 1, 2.6)):
        budget = es.Budget(**SPEND)
        gaussian, best = (friendly_plan(n, d, 1.0, budget, noise=noise) for noise in ("gaussian", "auto"))
        assert best.pure
        assert gaussian.forecast() > gain * best.forecast()
    for d in (20, 300):
        assert not friendly_plan(1000, d, 1.0, noise="auto", budget=es.Budget(**SPEND)).pure
    assert not friendly_plan(
        1000, 1, 1.0, noise="auto", budget=es.Budget(mu=0.3), gate=es.FriendlyGate(slack=1e-7)
    ).pure
    assert not friendly_plan(
        1000, 1, 1.0, noise="auto", gate=es.FriendlyGate("gaussian"), budget=es.Budget(**SPEND)
    ).pure
    with pytest.raises(es.UsageError, match="n = 100 is too few"):
        friendly_plan(100, 1, 1.0, budget=es.Budget(**SPEND))
    assert friendly_plan(100, 1, 1.0, noise="auto", budget=es.Budget(**SPEND)).pure


def test_releases_have_the_noise_of_the_forecast():
    data = rows(1000, 2)
    releases = [friendly_mean(data, 8.0, rng=np.random.default_rng(seed), **SPEND) for seed in range(60)]
    assert all(release.plan.pure for release in releases)
    stds = np.array([release.noise_std[0] for release in releases])
    assert np.mean(stds <= releases[0].plan.noise_std[0]) >= 0.75  # nine in ten
    errors = np.array([(release.value - data.mean(axis=0)) / release.noise_std for release in releases])
    assert 0.6 < np.sqrt(np.mean(errors**2)) < 1.5
    inside = sum(release.confidence_region(0.9).contains(data.mean(axis=0)) for release in releases)
    assert inside >= stats.binom.ppf(1e-9, 60, 0.9)


def test_files_are_read_back_and_doctored_ones_refused():
    release = friendly_mean(rows(1000, 2), (1.0, 20.0), rng=np.random.default_rng(3), **SPEND)
    again = es.from_json(release.to_json())
    assert again.to_json() == release.to_json()
    assert again.plan.mechanism == "knorm_l2"
    assert "K-norm (L2)" in repr(release.plan)
    saved = json.loads(release.plan.to_json())
    assert FriendlyPlan.from_json(json.dumps(saved)) == release.plan
    for change in (
        {"shares": [1.1 * part for part in saved["shares"]]},
        {"shares": saved["shares"][:2]},
        {"shares": []},
        {"gate": "gaussian"},
        {"vectors": {**saved["vectors"], "used": 999}},
    ):
        with pytest.raises(es.UsageError):
            FriendlyPlan.from_json(json.dumps({**saved, **change}))
    whole = json.loads(release.to_json())
    for change in ({"weight_lower": whole["weight_lower"] / 2}, {"privacy": {**whole["privacy"], "pure": [0.5]}}):
        with pytest.raises(es.UsageError):
            es.from_json(json.dumps({**whole, **change}))
    with pytest.raises(es.UsageError, match="spends more"):
        dataclasses.replace(release.plan, shares=(0.5, 0.5, 0.5))
