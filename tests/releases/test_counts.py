"""Counts of rows, people and groups: their noise, their intervals, and data of every kind."""

import dataclasses
import itertools
import json

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest

import ellipsum as es
from ellipsum.api import make_plan
from ellipsum.errors import UsageError
from ellipsum.noise.block_law import BlockLaw
from ellipsum.privacy.budget import Budget
from ellipsum.request.groups import Groups
from ellipsum.request.people import People
from ellipsum.request.request import Request

PURE = Budget(epsilon=1, delta=0).as_typed()
BUDGETS = [PURE, Budget(mu=0.5).as_typed()]


def planned(budget=PURE, neighbors="add_remove", people=None, groups=None, n=1000, **words):
    """The plan of a count of so many rows, or people."""
    request = Request("count", None, budget, neighbors, n, people=people, groups=groups, **words)
    return make_plan(request.sized(n, 1))


def frame(n=1000):
    rng = np.random.default_rng(0)
    sex, city = rng.choice(["f", "m"], n), rng.choice(["ulm", "bern", None], n)
    return pd.DataFrame({"name": [f"p{i}" for i in range(n)], "sex": sex, "city": city, "id": np.arange(n) // 3})


# Noise --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "neighbors", "people", "groups", "std"),
    [
        (PURE, "add_remove", None, None, np.sqrt(2)),
        (PURE, "add_remove", People("id"), None, np.sqrt(2)),
        (PURE, "add_remove", People("id", "rows", 3), None, 3 * np.sqrt(2)),
        (PURE, "replace", People("id", "rows", 3), None, 3 * np.sqrt(2)),
        (PURE, "add_remove", None, Groups("sex", ["f", "m"]), np.sqrt(2)),
        (PURE, "replace", None, Groups("sex", ["f", "m"]), 2 * np.sqrt(2)),
        (PURE, "replace", People("id"), Groups("sex", ["f", "m"], 2), 4 * np.sqrt(2)),
        (BUDGETS[1], "add_remove", None, None, 2.0),
        (BUDGETS[1], "add_remove", People("id", "rows", 3), None, 6.0),
        (BUDGETS[1], "add_remove", None, Groups("sex", ["f", "m"]), 2.0),
        (BUDGETS[1], "replace", None, Groups("sex", ["f", "m"]), 2 * np.sqrt(2)),
        (BUDGETS[1], "replace", People("id"), Groups("sex", ["f", "m"], 2), 4.0),
    ],
)
def test_noise_is_that_of_the_sensitivity(budget, neighbors, people, groups, std):
    """[H1] l1 and l2 sensitivities of one count, and of the counts of groups, by hand."""
    plan = planned(budget, neighbors, people, groups)
    assert plan.expected_error[0] == pytest.approx(std, rel=1e-9)
    one = plan.one
    for smaller in ({"count_units": 2 * one.count_units}, _quieter(one, 0.9)):
        with pytest.raises(UsageError):
            dataclasses.replace(one, **smaller)


def _quieter(one, factor):
    """A plan's noise, times less than its guarantee needs."""
    if isinstance(one.law, BlockLaw):
        return {"law": BlockLaw(one.law.blocks, tuple(factor * scale for scale in one.law.scales))}
    return {"noise_units": factor * one.noise_units}


def test_counts_of_groups_move_as_far_as_is_charged():
    """[H1] By brute force: all tables of three rows in three groups, or in none of them."""
    tables = np.array([[rows.count(g) for g in range(3)] for rows in itertools.product(range(4), repeat=3)])
    rows = list(itertools.product(range(4), repeat=3))
    l1 = l2 = 0
    for a, b in itertools.combinations(range(len(rows)), 2):
        if sum(x != y for x, y in zip(rows[a], rows[b], strict=True)) == 1:
            step = tables[a] - tables[b]
            l1, l2 = max(l1, np.abs(step).sum()), max(l2, step @ step)
    groups = Groups("sex", ["a", "b", "c"])
    assert planned(PURE, "replace", None, groups, n=3).expected_error[0] == pytest.approx(l1 * np.sqrt(2))
    assert planned(BUDGETS[1], "replace", None, groups, n=3).expected_error[0] == pytest.approx(np.sqrt(l2) / 0.5)


@pytest.mark.parametrize("budget", BUDGETS)
def test_intervals_cover_as_often_as_they_say(budget):
    """2000 releases: three standard deviations of the share that is covered, and of the error itself."""
    plan, rng = planned(budget), np.random.default_rng(5)
    data = np.zeros((1000, 1))
    made = [plan.release(data, rng, threads=1) for _ in range(2000)]
    errors = np.array([release.value[0] - 1000 for release in made])
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(plan.expected_error[0], rel=0.1)
    spans = np.array([release.confidence_interval(0.9)[0] for release in made])
    covered = np.mean((spans[:, 0] <= 1000) & (spans[:, 1] >= 1000))
    assert abs(covered - 0.9) < 3 * np.sqrt(0.09 / 2000)


# Data ---------------------------------------------------------------------------------------------------


def kinds(tmp_path):
    data = frame()
    data.to_csv(tmp_path / "data.csv", index=False)
    data.to_parquet(tmp_path / "data.parquet")
    return {
        "pandas": data,
        "polars": polars.from_pandas(data),
        "lazy": polars.from_pandas(data).lazy(),
        "arrow": pa.Table.from_pandas(data),
        "csv": tmp_path / "data.csv",
        "parquet": tmp_path / "data.parquet",
        "batches": [data.iloc[:600], data.iloc[600:]],
        "records": data.to_dict("records"),
        "columns": {name: data[name].tolist() for name in data},
        "stream": pa.Table.from_pandas(data).to_reader(),
    }


GROUPINGS = [
    None,
    Groups("sex", ["f", "m", "x"]),
    Groups(["sex", "city"], {"sex": ["f", "m"], "city": ["ulm", "bern", None]}),
]


@pytest.mark.parametrize("groups", GROUPINGS, ids=["all", "one", "two"])
def test_text_columns_are_counted_wherever_they_are(tmp_path, groups):
    """Nothing of a row is read but its group: no column has to hold numbers."""
    plan, data = planned(groups=groups), frame()
    seen = [plan.release(kind, np.random.default_rng(1)) for kind in kinds(tmp_path).values()]
    assert all(np.array_equal(other.value, seen[0].value) for other in seen)
    if groups is None:
        assert abs(seen[0].value[0] - 1000) < 30
        return
    by = [str(name) for name in groups.by]
    truth = data.groupby(by, dropna=False).size()
    truth.index = [tuple(None if pd.isna(c) else c for c in (key if len(by) > 1 else (key,))) for key in truth.index]
    for key, value in zip(seen[0].keys.tolist(), seen[0].value[:, 0], strict=True):
        assert abs(value - truth.get(tuple(key), 0)) < 30


@pytest.mark.parametrize("per_person", ["mean", "rows"])
def test_people_are_counted(tmp_path, per_person):
    people = People("id", per_person, 2 if per_person == "rows" else None)
    plan = planned(people=people, n=334)
    truth = 334 if per_person == "mean" else 667
    for name, data in kinds(tmp_path).items():
        assert abs(plan.release(data, np.random.default_rng(1)).value[0] - truth) < 60, name


def test_arrays_and_groups_beside_them():
    data = frame()
    plan = planned(groups=Groups("city", expected=2), budget=Budget(epsilon=1, delta=1e-6).as_typed())
    release = plan.release(np.zeros((1000, 2)), np.random.default_rng(1), by=data.city)
    assert [key[0] for key in release.keys] == ["bern", "ulm"]
    for rows in (np.zeros((1000, 2)), [[0, "a"]] * 1000, [[]] * 1000):
        assert abs(planned().release(rows, np.random.default_rng(1)).value[0] - 1000) < 30


# What is refused, and what is kept ------------------------------------------------------------------------


@pytest.mark.parametrize("people", [None, People("id")])
def test_a_public_number_is_not_sold(people):
    with pytest.raises(UsageError, match="is public under neighbors='replace'"):
        planned(neighbors="replace", people=people)


@pytest.mark.parametrize("groups", GROUPINGS, ids=["all", "one", "two"])
@pytest.mark.parametrize("budget", BUDGETS)
def test_releases_and_plans_are_shown_and_read_back(tmp_path, groups, budget):
    plan = planned(budget, groups=groups)
    assert type(plan).from_json(plan.to_json()) == plan
    release = plan.release(frame(), np.random.default_rng(1))
    assert plan.read_release(release.to_json()) == release
    changed = json.loads(release.to_json())
    changed["value"] = (release.value + 1).tolist()
    with pytest.raises(UsageError):
        plan.read_release(json.dumps(changed))
    assert "count of rows" in str(plan)
    assert "count of rows" in str(release)
    plan.plot(tmp_path / "plan.svg")
    release.plot(tmp_path / "release.svg")
    release.report(tmp_path / "release.html")
    assert "noisy_count" not in release.to_pandas().columns
    assert "es.count(" in release.background().recipe.python


def test_a_count_of_people_says_that_each_counts_once():
    release = es.count({"who": [1, 1, 2]}, privacy_id="who", neighbors="add_remove", epsilon=1, delta=0)
    assert "each person counts once; identified by 'who'" in str(release)


def test_a_count_alone_is_never_negative():
    """[U10] Its interval and its noise without bias stay available."""
    releases = [
        es.count([[1.0]], neighbors="add_remove", epsilon=0.1, delta=0, rng=np.random.default_rng(seed))
        for seed in range(20)
    ]
    assert min(release.raw_value[0] for release in releases) < 0
    assert all(release.value[0] == max(release.raw_value[0], 0) for release in releases)
    few = {"rng": np.random.default_rng(1), "missing": "skip", "quantiles": None}
    described = es.describe(np.full((2, 30), np.nan), es.Box(0, 1), epsilon=1, delta=1e-6, **few)
    assert described.count.min() == 0
