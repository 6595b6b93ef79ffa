"""Descriptions with quantiles: two parts of one release, their guarantee, intervals for a population, and files."""

import dataclasses
import json
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm, poisson

import ellipsum as es
from ellipsum.api import make_plan
from ellipsum.noise.law import normal_multiple
from ellipsum.session import Account, Session

BOX = {"age": (0, 100), "size": (-4, 4)}
BUDGETS = {
    "pair": {"epsilon": 1, "delta": 1e-6},
    "gaussian": {"epsilon": 1, "delta": 1e-6, "noise": "gaussian"},
    "knorm": {"epsilon": 1, "delta": 1e-6, "noise": "knorm"},
    "pure": {"epsilon": 1, "delta": 0},
    "mu": {"budget": es.Budget(mu=0.3)},
    "rho": {"budget": es.Budget(rho=0.1)},
}


def rng(seed=0):
    return np.random.default_rng(seed)


def table(n=2000, seed=0):
    draw = rng(seed)
    frame = pd.DataFrame({"age": draw.normal(50, 15, n).clip(0, 100), "size": draw.normal(0, 1, n).clip(-4, 4)})
    frame.loc[: n // 10, "age"] = np.nan
    return frame.assign(g=draw.choice(["a", "b"], n), id=np.arange(n) // 2)


def plan(n=2000, bounds=BOX, **how):
    return es.plan("describe", bounds, n=n, **{**BUDGETS["pair"], **how})


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_with_hardly_any_noise_it_is_what_pandas_describes(neighbors):
    data = table()[["age", "size"]]
    release = es.describe(data, BOX, epsilon=2000, delta=1e-6, neighbors=neighbors, n=2000)
    frame, wanted = release.to_pandas(), data.describe().drop(index=["min", "max"])
    assert list(frame.index) == list(wanted.index)
    assert list(frame.columns) == list(wanted.columns)
    assert np.abs(frame - wanted).to_numpy().max(axis=1) == pytest.approx(0, abs=0.5)
    assert release.quantiles == pytest.approx(wanted.loc["25%":].to_numpy().T, rel=0.05, abs=0.02)
    assert release.moments.mean.tolist() == release.mean.tolist()
    assert release.quantile_release.quantile(0.5)[:, 0].tolist() == release.quantiles[:, 1].tolist()


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("budget", BUDGETS)
def test_both_parts_are_within_the_budget(budget, neighbors):
    """[Q16] And they use most of it: with a tenth more of the budget each would have less noise."""
    made = plan(neighbors=neighbors, **{"epsilon": None, "delta": None, **BUDGETS[budget]})
    stated = made.stated
    total = es.compose([made.moments, made.quantile_plan])
    if "delta" in stated:
        assert made.privacy.delta(stated["epsilon"]) <= stated["delta"]
        assert total.delta(stated["epsilon"] * (1 + 1e-9)) <= stated["delta"]
        assert total.delta(stated["epsilon"] * 0.8) > stated["delta"]
    else:
        assert 0.999 * es.Budget(**stated).mu < made.privacy.mu <= es.Budget(**stated).mu
    assert es.from_json(made.to_json()) == made


@pytest.mark.parametrize("noise", ["gaussian", "knorm"])
def test_each_part_has_the_noise_of_half_of_the_budget(noise):
    made, factor = plan(noise=noise), np.sqrt(2) if noise == "gaussian" else 2
    alone = es.plan("describe", BOX, n=2000, noise=noise, quantiles=None, **BUDGETS["pair"])
    quantiles = es.plan(
        "quantiles", BOX, n=2000, noise=noise, bins=made.quantile_plan.quantiles.bins, **BUDGETS["pair"]
    )
    assert made.rank_error == pytest.approx(factor * quantiles.rank_error, rel=1e-3)
    assert made.expected_error == pytest.approx(factor * alone.expected_error, rel=0.1)


@pytest.mark.parametrize("groups", [None, "g"])
def test_everything_is_charged_before_a_value_is_read(groups, monkeypatch):
    steps = []

    def record(kind, name):
        whole = getattr(kind, name)

        def call(self, *arguments, **keywords):
            steps.append((name, arguments[0] if name == "charge" else None))
            return whole(self, *arguments, **keywords)

        monkeypatch.setattr(kind, name, call)

    reads = "total" if groups is None else "total_by"
    for kind, name in ((Account, "charge"), (Session, reads), (Account, "stream")):
        record(kind, name)
    made = plan(by=None if groups is None else es.Groups("g", keys=["a", "b"]))
    made.release(table()[["age", "size", *([groups] if groups else [])]], rng=rng())
    charged = [made.moments.privacy.as_pair(), made.quantile_plan.privacy]
    assert steps == [("charge", charged[0]), ("charge", charged[1]), (reads, None), ("stream", None), ("stream", None)]


def test_plans_with_less_noise_or_less_privacy_are_refused():
    made = plan(noise="gaussian")
    moments, quantiles = made.moments, made.quantile_plan
    for wrong in (
        {"privacy": dataclasses.replace(made.privacy, mu=moments.privacy.mu)},
        {"privacy": dataclasses.replace(made.privacy, mu=made.privacy.mu * 1.01)},
        {"quantile_plan": plan(noise="gaussian", epsilon=2).quantile_plan},
        {"moments": plan(noise="gaussian", epsilon=2).moments},
        {"moments": plan(noise="gaussian", bounds={"age": (0, 90), "size": (-4, 4)}).moments},
        {"request": dataclasses.replace(made.request, n=3000)},
        {"request": dataclasses.replace(made.request, quantiles=None)},
    ):
        with pytest.raises(es.UsageError):
            dataclasses.replace(made, **wrong)
    for less in ({"noise_units": 0.9 * moments.noise_units}, {"count_units": 7}):
        with pytest.raises(es.UsageError):
            dataclasses.replace(moments, **less)
    with pytest.raises(es.UsageError):
        dataclasses.replace(quantiles, noise_scale=0.9 * quantiles.noise_scale)


def test_pure_parts_stay_within_epsilon_and_delta():
    """Both epsilons together, and the slack of groups that are not listed."""
    made = plan(noise="knorm", by="g", delta=1e-6)
    assert not made.privacy.mu
    assert made.privacy.slack > 0
    for budget in (es.Budget(epsilon=0.999, delta=1e-6), es.Budget(epsilon=1, delta=0.999e-6)):
        with pytest.raises(es.UsageError, match="budget"):
            dataclasses.replace(made, request=dataclasses.replace(made.request, budget=budget))


HOWS = {
    "plain": {},
    "pure": {"delta": 0},
    "private n": {"neighbors": "add_remove", "n": 2000},
    "people": {"privacy_id": "id"},
    "rows of people": {"privacy_id": es.People("id", "rows", 2)},
    "complete rows": {"missing": "drop_row", "covariance": True},
    "filled": {"missing": [3.0, 0.0]},
    "listed groups": {"by": es.Groups("g", keys=["a", "b", "c"])},
    "groups": {"by": "g"},
    "groups of people": {"by": es.Groups("g", max_per_person=2), "privacy_id": "id"},
    "other quantiles": {"quantiles": 0.9},
}


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
@pytest.mark.parametrize("name", HOWS)
def test_releases_of_every_kind_are_printed_saved_and_read_again(name, tmp_path):
    how = HOWS[name]
    columns = ["age", "size", *(["g"] if "by" in how else []), *(["id"] if "privacy_id" in how else [])]
    release = es.describe(table()[columns], BOX, rng=rng(), **{**BUDGETS["pair"], **how})
    release.save(tmp_path / "release.json")
    assert es.load(tmp_path / "release.json") == release
    release.plan.save(tmp_path / "plan.json")
    assert es.load(tmp_path / "plan.json") == release.plan
    assert es.replan(release.plan, budget=es.Budget(epsilon=2, delta=1e-6)).stated["epsilon"] == 2
    for text in (repr(release), repr(release.plan), release._repr_html_()):
        assert "Quantiles" in text
        assert "half of the budget" in text
    assert release.quantiles.shape == (*release.mean.shape, release.q.size)
    intervals = release.confidence_interval(0.9, "quantiles")
    assert (intervals[..., 0] <= intervals[..., 1]).all()
    assert len(release.to_pandas().columns) > 1
    if "covariance" in how:
        assert release.correlation.shape == release.covariance.shape == (2, 2)
    release.report(tmp_path / "release.html")
    assert "half of the budget" in (tmp_path / "release.html").read_text()
    if "by" in how:
        release.save(tmp_path / "release.csv")
        assert "age_50%_low" in (tmp_path / "release.csv").read_text()


def test_edited_files_are_refused():
    release = es.describe(table()[["age", "size"]], BOX, rng=rng(), **BUDGETS["pair"])
    saved = json.loads(release.to_json())
    edits = {
        "quantile_sums": np.array(saved["quantile_sums"])[:, ::-1].tolist(),
        "noisy": (np.array(saved["noisy"]) * 1.01).tolist(),
        "quantiles": {**saved["quantiles"], "value": [[1.0] * 3] * 2},
        "privacy": {**saved["privacy"], "mu": saved["privacy"]["mu"] / 2},
        "value": [1.0, 2.0],
    }
    for name, value in edits.items():
        with pytest.raises(es.UsageError):
            es.from_json(json.dumps({**saved, name: value}))
    for name in saved:
        with pytest.raises(es.UsageError):
            es.from_json(json.dumps({other: saved[other] for other in saved if other != name}))
    plan_edits = {
        "privacy": {**saved["plan"]["privacy"], "mu": 0.1},
        "moments": {**saved["plan"]["moments"], "noise_units": 1.0},
        "quantiles": {**saved["plan"]["quantiles"], "noise_scale": 1.0},
    }
    for name, value in plan_edits.items():
        with pytest.raises(es.UsageError):
            es.from_json(json.dumps({**saved["plan"], name: value}))


def test_groups_of_a_single_person_are_not_published():
    data = pd.DataFrame({"g": ["big"] * 900 + ["one"], "age": 50.0, "size": 0.5})
    for seed in range(10):
        release = es.describe(data, BOX, by="g", rng=rng(seed), **BUDGETS["pair"])
        assert release.keys.tolist() == [["big"]]
        assert release.quantile_sums.shape == (1, release.plan.quantile_plan.width)
    with pytest.raises(es.UsageError, match="part of a larger release"):
        release.plan.quantile_plan.release(data)


def test_quantiles_can_be_left_out():
    data = table()[["age", "size"]]
    for quantiles in (None, (), []):
        release = es.describe(data, BOX, quantiles=quantiles, **BUDGETS["pair"])
        assert type(release) is es.Description
        assert type(es.plan("describe", BOX, n=9, quantiles=quantiles, **BUDGETS["pair"])) is es.Plan
    with pytest.raises(es.UsageError, match="between 0 and 1"):
        es.describe(data, BOX, quantiles=[2.0], **BUDGETS["pair"])


def test_one_pass_is_enough():
    blocks = (block for block in np.split(table()[["age", "size"]].to_numpy(), 20))
    how = {"neighbors": "add_remove", "n": 2000, **BUDGETS["pair"]}
    bounds = es.Box([0, -4], [100, 4])
    once = es.describe(blocks, bounds, rng=rng(), **how)
    assert once.to_json() == es.describe(table()[["age", "size"]].to_numpy(), bounds, rng=rng(), **how).to_json()


# Intervals for a population ------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("n", [30, 400, 5000])
def test_intervals_for_a_population_cover(n, neighbors):
    """[D3][Q17] 200 samples; 0.88 has odds of about 1e-5 at a coverage of 0.95, and 0.95 or more is measured."""
    made = plan(n, es.Box([0, 0], [1, 1]), d=2, quantiles=(0.1, 0.5), neighbors=neighbors, epsilon=4)
    hits = []
    for seed in range(200):
        draw = rng(seed)
        sample = np.stack([draw.beta(2, 5, n), draw.binomial(1, 0.3, n)], axis=1)
        release = made.release(sample, rng=draw)
        low, high = release.confidence_interval(0.95, target="population").T
        means = (low <= [2 / 7, 0.3]) & ([2 / 7, 0.3] <= high)
        low, high = np.moveaxis(release.confidence_interval(0.95, "quantiles", target="population"), -1, 0)
        wanted = np.array([[0.0926, 0.2645], [0.0, 0.0]])  # scipy.stats.beta(2, 5).ppf
        hits.append([*means, *((low <= wanted + 1e-4) & (wanted <= high)).ravel()])
    assert np.mean(hits, axis=0).min() >= 0.93


def test_the_correction_of_small_counts_is_enough():
    """[Q17] Without noise a count is further off, on one side, with probability at most half of what is left."""
    for level in (0.8, 0.9, 0.95, 0.99, 0.999):
        z, half = normal_multiple(level), (1 - level) / 2
        more = 1 + max(z * z - 1, 0) / 6
        assert z == pytest.approx(norm.isf(half))
        means = np.exp(np.linspace(np.log(0.01), np.log(300), 1000))
        far = z * np.sqrt(means) + more
        assert poisson.sf(np.floor(means + far), means).max() <= half
        assert poisson.cdf(np.ceil(means - far) - 1, means).max() <= half
        for n in (1, 2, 5, 20, 200):
            q = np.linspace(0.005, 0.995, 100)
            far = z * np.sqrt(n * q * (1 - q)) + more
            assert binom.sf(np.floor(n * q + far), n, q).max() <= half
            assert binom.cdf(np.ceil(n * q - far) - 1, n, q).max() <= half


def test_the_ends_of_a_population_are_unknown():
    release = es.quantiles(rng().random((500, 1)), es.Box(0, 1), [0, 1], **BUDGETS["pair"])
    assert release.confidence_interval(target="population").tolist() == [[[0.0, 1.0], [0.0, 1.0]]]


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
@pytest.mark.parametrize("statistic", ["describe", "quantiles", "histogram"])
def test_rows_of_one_person_are_no_sample_of_a_population(statistic):
    """Ten rows of each person count as one draw: with 95% intervals for independent rows every second one misses."""
    table = {"id": np.repeat(np.arange(50), 10), "x": np.repeat(rng().random(50), 10)}
    what = {"bins": {"x": [0, 0.5, 1]}} if statistic == "histogram" else {"bounds": {"x": (0, 1)}, "columns": ["x"]}
    own = {"of": "share"} if statistic == "histogram" else {}
    for most in (1, 10):
        people = es.People("id", "rows", most)
        release = getattr(es, statistic)(table, **what, privacy_id=people, **BUDGETS["pair"])
        if most == 1:
            assert release.confidence_interval(**own, target="population").shape[-1] == 2
            continue
        for of in ("mean", "quantiles") if statistic == "describe" else (None,):
            with pytest.raises(es.UsageError, match="independent rows"):
                release.confidence_interval(**(own if of is None else {"of": of}), target="population")


def test_other_statistics_say_what_to_use_for_a_population():
    data = rng().random((500, 2))
    for call, advice in (
        (lambda: es.mean(data, es.Box(0, 1), **BUDGETS["pair"]), "Use es.describe"),
        (lambda: es.sum(data, es.Box(0, 1), **BUDGETS["pair"]), "Use es.describe"),
        (lambda: es.count(data, neighbors="add_remove", **BUDGETS["pair"]), "Use es.histogram"),
        (lambda: es.describe(data, es.Box(0, 1), quantiles=None, **BUDGETS["pair"]), None),
    ):
        release = call()
        if advice is None:
            assert (release.confidence_interval(target="population")[:, 0] < release.confidence_interval()[:, 0]).all()
            with pytest.raises(es.UsageError, match="not for std"):
                release.confidence_interval(of="std", target="population")
            continue
        with pytest.raises(es.UsageError, match=advice):
            release.confidence_interval(target="population")


def test_a_plan_for_one_budget_is_chosen_by_the_product_of_both_errors():
    """[Q16] No way to divide the budget that the plan considers has a smaller one."""
    request = plan(n=500, bounds={"age": (0, 100)}).request
    made = {noise: make_plan(dataclasses.replace(request, noise=noise)) for noise in ("auto", "gaussian", "knorm")}
    errors = {noise: one.expected_error[0] * one.rank_error.max() for noise, one in made.items()}
    assert errors["auto"] <= min(errors.values()) * (1 + 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(es.UsageError, match="delta"):
            plan(by=es.Groups("g"), delta=0)
