"""Histograms: sensitivity by brute force, noise, intervals, bins of every kind, data of every kind."""

import dataclasses
import itertools
import json

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from scipy.stats import binom

import ellipsum as es
from ellipsum.api import make_plan
from ellipsum.errors import UsageError
from ellipsum.noise.law import GaussianLaw, LaplaceLaw, normal_multiple
from ellipsum.privacy.budget import Budget
from ellipsum.releases.histogram_release import on_simplex
from ellipsum.request.bins import Bins
from ellipsum.request.groups import Groups
from ellipsum.request.people import People
from ellipsum.request.request import Request

PURE, CURVED = Budget(epsilon=1, delta=0).as_typed(), Budget(mu=0.5).as_typed()
AGES = Bins({"age": [0, 18, 65, 100]})
BOTH = Bins({"age": [0, 18, 65, 100], "size": [-np.inf, 0, np.inf]}, {"sex": ["f", "m", None]})


def planned(bins=AGES, budget=PURE, neighbors="replace", people=None, groups=None, n=1000, **words):
    request = Request("histogram", bins, budget, neighbors, n, people=people, groups=groups, **words)
    return make_plan(request.sized(n, None))


def frame(n=1000):
    rng = np.random.default_rng(0)
    age = rng.integers(0, 120, n).astype(float)
    age[:50] = np.nan
    sex, city = rng.choice(["f", "m", "x", None], n), rng.choice(["ulm", "bern", None], n)
    return pd.DataFrame({"age": age, "size": rng.normal(size=n), "sex": sex, "city": city, "id": np.arange(n) // 3})


def exact(plan, data, **words):
    """The counts of a plan without its noise."""
    quiet = dataclasses.replace(plan.request, budget=Budget(epsilon=1e6, delta=0))
    return make_plan(quiet).release(data, np.random.default_rng(0), **words)


# Sensitivity and noise ------------------------------------------------------------------------------------

CELLS = [(age, sex) for age in (1.0, 30.0, 200.0, np.nan) for sex in ("f", "x")]
SMALL = Bins({"age": [0, 18, 65, 100]}, {"sex": ["f", "m"]})


def counts_of(rows, groups=None):
    """The cells of rows (age, sex, city), by hand."""
    cities = [None] if groups is None else groups
    table = []
    for city in cities:
        ages = [0] * 4
        sexes = [0] * 3
        for age, sex, where in rows:
            if city is None or where == city:
                ages[0 if 0 <= age < 18 else 1 if 18 <= age < 65 else 2 if 65 <= age <= 100 else 3] += 1
                sexes[{"f": 0, "m": 1}.get(sex, 2)] += 1
        table += ages + sexes
    return np.array(table)


@pytest.mark.parametrize("groups", [None, ["a", "b"]])
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_counts_move_as_far_as_is_charged_and_no_further(neighbors, most, groups):
    """[H3] All persons with up to so many rows, or one in each of so many groups, against all others."""
    rows = [(*cell, city) for cell in CELLS for city in (["a"] if groups is None else ["a", "b", "c"])]
    sizes = range(most + 1) if most > 1 or neighbors == "add_remove" else [1]
    some = [person for size in sizes for person in itertools.combinations_with_replacement(rows, size)]
    if groups is not None:
        some = [person for person in some if len({city for *_, city in person}) == len(person)]
    persons = np.unique([counts_of(person, groups) for person in some], axis=0)
    others = persons if neighbors == "replace" else np.zeros((1, persons.shape[1]), int)
    steps = (persons[:, None] - others[None]).reshape(-1, persons.shape[1])
    l1, l2 = np.abs(steps).sum(axis=1).max(), np.sqrt((steps**2).sum(axis=1).max())
    people = None if most == 1 else People("id", "rows", most) if groups is None else People("id")
    grouping = None if groups is None else Groups("city", groups, most)
    bins = Bins({"age": [0, 18, 65, 100], "sex": [0, 1, 2]})
    pure = planned(bins, PURE, neighbors, people, grouping)
    curved = planned(bins, CURVED, neighbors, people, grouping)
    assert pure.count_std == pytest.approx(np.sqrt(2) * l1, rel=1e-12)
    assert curved.count_std == pytest.approx(l2 / 0.5, rel=1e-12)
    for plan in (pure, curved):
        least = plan.law.scale if plan is pure else plan.law.units
        less = (LaplaceLaw if plan is pure else GaussianLaw)(0.9 * least)
        with pytest.raises(UsageError):
            dataclasses.replace(plan, law=less)


def test_the_kernel_counts_what_is_counted_by_hand():
    rows = [(*cell, city) for cell in CELLS for city in ("a", "b", "c")] * 3
    data = pd.DataFrame(rows, columns=["age", "sex", "city"])
    for groups in (None, ["b", "a"]):
        grouping = None if groups is None else Groups("city", groups)
        release = exact(planned(SMALL, groups=grouping, n=len(data)), data)
        assert np.allclose(release.noisy.ravel(), counts_of(rows, groups), atol=0.01)


@pytest.mark.parametrize("budget", [PURE, CURVED])
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_noise_has_its_std_and_intervals_cover(budget, neighbors):
    """3000 noisy counts, within four standard deviations of what is promised."""
    bins, rng = Bins({"x": list(range(1001))}), np.random.default_rng(1)
    data = np.repeat(np.arange(1000) + 0.5, 60)[:, None]
    plan = planned(bins, budget, neighbors, n=60_000)
    value, shares, count_ends, share_ends = [], [], [], []
    for _ in range(3):
        release = plan.release(data, rng)
        value.append(release.value)
        shares.append(release.shares)
        count_ends.append(release.confidence_interval(0.9))
        share_ends.append(release.confidence_interval(0.9, of="share"))
    errors = np.concatenate(value) - 60
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(plan.count_std, rel=4 * np.sqrt(5 / 4 / 3000))
    assert abs(errors.mean()) < 4 * plan.count_std / np.sqrt(3000)
    for ends, truth in ((count_ends, 60), (share_ends, 1 / 1000)):
        low, high = np.concatenate(ends).T
        assert abs(np.mean((low <= truth) & (truth <= high)) - 0.9) < 4 * np.sqrt(0.09 / 3000)
    assert np.allclose(np.concatenate(shares).mean(), 1 / 1000, atol=1e-5)


def test_the_law_of_least_error_is_taken():
    budget = Budget(epsilon=1, delta=1e-6).as_typed()
    wide = Bins({f"x{j}": [0, 1, 2] for j in range(6)})
    assert planned(AGES, budget).mechanism == "laplace"
    assert planned(wide, budget).mechanism == "gaussian"
    assert planned(wide, budget, noise="knorm").mechanism == "laplace"
    assert planned(AGES, budget, noise="gaussian").mechanism == "gaussian"
    assert planned(wide, budget).count_std < planned(wide, budget, noise="knorm").count_std
    with pytest.raises(UsageError):
        planned(AGES, CURVED, noise="knorm")
    with pytest.raises(UsageError):
        planned(AGES, PURE, noise="gaussian")


# Intervals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
def test_sums_of_laplace_variables_keep_within_the_multiple(level):
    """[H5] P[|sum| > multiple] by inverting its characteristic function, for equal and unequal weights."""
    multiple = max(float(LaplaceLaw(1.0).multiples(1, level)[0]), normal_multiple(level))
    steps = (np.arange(400_000) + 0.5) * 0.005
    for weights in (
        *(np.ones(k) for k in (1, 2, 3, 5, 10, 100)),
        *(np.array([1, *[share] * k]) for share in (0.1, 0.3, 0.6) for k in (1, 2, 8, 40)),
    ):
        scales = weights / np.sqrt(2 * weights @ weights)
        transform = np.prod([1 / (1 + (scale * steps) ** 2) for scale in scales], axis=0)
        inside = 2 / np.pi * np.sum(np.sin(multiple * steps) / steps * transform) * 0.005
        assert inside >= level - 2e-5


@pytest.mark.parametrize("budget", [PURE, CURVED])
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_intervals_of_small_shares_cover(budget, neighbors):
    """Where the noise is as large as counts: never less often than they say, but for chance."""
    data = np.repeat([0.5, 1.5, 2.5, 9.0], [3, 10, 40, 20])[:, None]
    plan, rng = planned(Bins([0, 1, 2, 3]), budget, neighbors, n=73), np.random.default_rng(2)
    truth, covered = np.array([3, 10, 40]) / 73, np.zeros(3)
    for _ in range(1500):
        low, high = plan.release(data, rng, threads=1).confidence_interval(0.9, "share").T
        covered += (low <= truth) & (truth <= high)
    assert (covered / 1500 > 0.9 - 4 * np.sqrt(0.09 / 1500)).all()


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_population_intervals_cover(neighbors):
    """[H6] Tables drawn anew each time: intervals of the data miss the population, these do not."""
    plan, rng = planned(Bins([0, 1, 2]), PURE, neighbors, n=400), np.random.default_rng(3)
    shares = np.array([0.05, 0.6])
    missed = {"data": np.zeros(2), "population": np.zeros(2)}
    for _ in range(600):
        data = rng.choice([0.5, 1.5, 9.0], (400, 1), p=[*shares, 0.35])
        release = plan.release(data, rng, threads=1)
        for target, misses in missed.items():
            low, high = release.confidence_interval(0.9, "share", target=target).T
            misses += (shares < low) | (shares > high)
    assert (missed["population"] / 600 < 0.1).all()
    assert (missed["data"] / 600 > 0.1).all()


def test_population_intervals_are_clopper_and_pearsons_where_noise_is_nothing():
    plan = planned(Bins([0, 1, 2]), Budget(epsilon=1e5, delta=0).as_typed(), n=50)
    data = np.repeat([0.5, 1.5], [10, 40])[:, None]
    low, high = plan.release(data, np.random.default_rng(0)).confidence_interval(0.9, "share", target="population").T
    for count, start, end in zip((10, 40), low, high, strict=True):
        assert binom.sf(count - 1, 50, start) == pytest.approx(0.025, rel=1e-6)
        assert binom.cdf(count, 50, end) == pytest.approx(0.025, rel=1e-6)


def test_what_a_population_does_not_have():
    data = frame()
    release = planned().release(data, np.random.default_rng(0))
    with pytest.raises(UsageError, match="not for counts"):
        release.confidence_interval(target="population")


def test_consistent_counts_are_nearer():
    data = np.repeat(np.arange(1000) + 0.5, np.arange(1000) % 10 == 0)[:, None]
    release = planned(Bins({"x": list(range(1001))}), n=100).release(data, np.random.default_rng(4))
    truth, fitted = (np.arange(1000) % 10 == 0).astype(float), release.consistent()
    assert (fitted >= 0).all()
    assert fitted.sum() <= 100 + 1e-9
    assert np.mean((fitted - truth) ** 2) < 0.5 * np.mean((release.value - truth) ** 2)
    assert on_simplex(np.array([-1.0, -2.0]), 0.0).tolist() == [0, 0]


# Bins -------------------------------------------------------------------------------------------------------


def test_bins_are_those_of_numpy():
    rng = np.random.default_rng(5)
    x = np.round(rng.uniform(-1, 11, 2000), 1)
    edges = [0, 1, 2.5, 3, 7, 10]
    release = exact(planned(Bins(edges), n=2000), x[:, None])
    assert np.allclose(release.value, np.histogram(x, edges)[0], atol=0.01)
    assert release.other == pytest.approx(np.sum((x < 0) | (x > 10)), abs=0.01)
    open_ended = [-np.inf, 0, 5, np.inf]
    release = exact(planned(Bins(open_ended), n=2000), x[:, None])
    assert np.allclose(release.value, np.histogram(x, open_ended)[0], atol=0.01)
    assert release.plan.bins.labels(0) == ["(-inf, 0)", "[0, 5)", "[5, inf)"]


def test_missing_and_infinite_values_are_in_no_bin():
    x = np.array([np.nan, np.inf, -np.inf, 1.0, 1e308])
    release = exact(planned(Bins([-np.inf, 0, np.inf]), n=5), x[:, None])
    assert np.allclose([*release.value, release.other], [0, 2, 3], atol=0.01)


@pytest.mark.parametrize(
    ("bins", "categories"),
    [
        ([1], None),
        ([1, 1], None),
        ([2, 1], None),
        ([1, np.nan, 2], None),
        ([-np.inf, np.inf], None),
        ([0, np.inf, 3], None),
        (None, None),
        (None, ["a", "b"]),
        ({"a": [0, 1]}, {"a": ["x"]}),
        ({"a": [0, 1]}, {"b": []}),
        ({"a": [0, 1]}, {"b": ["x", "x"]}),
        ({1.5: [0, 1]}, None),
        ({"a": "text"}, None),
    ],
)
def test_wrong_bins_are_refused(bins, categories):
    with pytest.raises(UsageError):
        Bins(bins, categories)


@pytest.mark.parametrize(
    "words",
    [
        {"bins": es.Box(0, 1)},
        {"groups": Groups("city")},
        {"bins": BOTH, "people": People("id")},
        {"groups": Groups("city", ["ulm"]), "people": People("id", "rows", 2)},
        {"bins": BOTH, "groups": Groups("sex", ["f", "m"])},
        {"people": People("age", "rows", 2)},
    ],
)
def test_wrong_requests_are_refused(words):
    with pytest.raises(UsageError):
        planned(**words)
    with pytest.raises(UsageError):
        Request("mean", AGES, PURE)


# Data -------------------------------------------------------------------------------------------------------


def kinds(tmp_path):
    data = frame()
    data.to_csv(tmp_path / "data.csv", index=False)
    data.to_parquet(tmp_path / "data.parquet")
    return {
        "pandas": data,
        "polars": polars.from_pandas(data),
        "arrow": pa.Table.from_pandas(data),
        "csv": tmp_path / "data.csv",
        "parquet": tmp_path / "data.parquet",
        "batches": [data.iloc[:600], data.iloc[600:]],
        "records": data.to_dict("records"),
        "columns": {name: data[name].tolist() for name in data},
        "query": es.sql(f"select * from '{tmp_path}/data.parquet'", "duckdb://"),
    }


GROUPINGS = [None, Groups("city", ["ulm", None]), Groups(["city", "id"], [("ulm", 0), ("bern", 1)])]


@pytest.mark.parametrize("groups", GROUPINGS)
@pytest.mark.parametrize("people", [None, People("id")])
def test_data_of_every_kind_gives_the_same_release(tmp_path, groups, people):
    bins = BOTH
    if people is not None and groups is None:
        people = People("id", "rows", 2)
    elif people is not None:  # no group of a person is left out: which one would be, the type of id decides
        keys = {"city": ["ulm", "bern", None], "sex": ["f", "m", "x", None]}
        bins = AGES
        groups = Groups("city", groups.keys, 3) if len(groups.by) == 1 else Groups(list(keys), keys, 12)
    plan = planned(bins, groups=groups, people=people, n=1000 if people is None else 334)
    made = {name: plan.release(data, np.random.default_rng(1)).noisy for name, data in kinds(tmp_path).items()}
    assert all(np.array_equal(noisy, made["pandas"]) for noisy in made.values())
    if people is None and groups is None:
        data = frame()
        sexes = data.sex.value_counts(dropna=False)
        release = exact(plan, data)
        wanted = [sexes["f"], sexes["m"], sexes[sexes.index.isna()].iloc[0]]
        assert np.allclose(release.value["sex"], wanted, atol=0.1)
        assert release.other["age"] == pytest.approx((~data.age.between(0, 100)).sum(), abs=0.1)


def test_columns_of_arrays_go_by_their_place():
    data = np.array([[0.5, 3.0], [1.5, 4.0], [0.5, 4.0]])
    release = exact(planned(Bins({0: [0, 1, 2]}, {1: [3, 4]}), n=3), data)
    assert np.allclose(release.noisy, [[2, 1, 0, 1, 2, 0]], atol=0.01)


def test_data_of_other_columns_is_refused():
    with pytest.raises(UsageError, match="columns"):
        planned(Bins([0, 1])).release(np.zeros((1000, 2)), np.random.default_rng(0))
    with pytest.raises(UsageError, match="1,000"):
        planned().release(frame(10), np.random.default_rng(0))


# Shown and saved ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [None, Groups("city", ["ulm", "bern"])])
@pytest.mark.parametrize("budget", [PURE, CURVED])
def test_everything_is_shown_and_read_back(tmp_path, groups, budget):
    plan = planned(BOTH, budget, "add_remove", groups=groups)
    assert type(plan).from_json(plan.to_json()) == plan
    release = plan.release(frame(), np.random.default_rng(1))
    release.save(tmp_path / "release.json")
    assert es.load(tmp_path / "release.json") == release
    changed = json.loads(release.to_json())
    changed["value"][0][0][0] += 1
    with pytest.raises(UsageError):
        plan.read_release(json.dumps(changed))
    table = release.to_pandas()
    assert len(table) == (1 if groups is None else 2) * (4 + 3 + 4)
    assert (table.count_low <= table.count_high).all()
    assert "histogram of 3 columns" in str(plan)
    assert "(other)" in str(release)
    release.plot(tmp_path / "release.svg")
    plan.plot(tmp_path / "plan.svg")
    release.report(tmp_path / "release.html")
    text = release.background().recipe.python
    assert "categories={'sex': ['f', 'm', None]}" in text
    assert "float('inf')" in text


def test_a_plan_from_a_file_is_proved():
    saved = json.loads(planned().to_json())
    for change in (
        {"scale": 0.9 * saved["scale"]},
        {"law": "gaussian"},
        {"privacy": {**saved["privacy"], "pure": [2.0]}},
    ):
        with pytest.raises(UsageError):
            type(planned()).from_json(json.dumps({**saved, **change}))


def test_bins_of_a_table_of_one_column_keep_its_name():
    release = es.histogram({"age": np.arange(100.0)}, bins=[0, 50, 100], epsilon=1, delta=0)
    assert release.columns == ("age",)
    assert es.from_json(release.to_json()) == release
