"""Groups of a Spark frame: added up in the cluster, the same bits as here."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import kept_frames

import ellipsum as es
from ellipsum.request.people import People
from ellipsum.sources import group_by_person, open_source
from ellipsum.sources.selection import Selection

BUDGET = {"epsilon": 1, "delta": 1e-6}
ROWS = es.Box({"a": (0, 1), "b": (-5, 5)})


def table_of(n=5000):
    rng = np.random.default_rng(1)
    cities = rng.choice(["Oslo", "Tromsø", "日本", None], n)
    return pa.table(
        {"a": rng.random(n), "b": rng.normal(0, 3, n), "city": pa.array(cities), "year": rng.integers(2020, 2022, n)}
    )


@pytest.mark.parametrize("keys", [None, {"city": ["Oslo", None], "year": [2020, 2021]}])
def test_groups_are_the_local_ones(spark, keys):
    table = table_of()
    frame = spark.createDataFrame(table.to_pandas()).repartition(5)
    words = {"by": es.Groups(["city", "year"], keys=keys), "columns": ["a", "b"], "noise": "gaussian", **BUDGET}
    here = es.sum(table, ROWS, rng=np.random.default_rng(2), **words)
    there = es.sum(frame, ROWS, rng=np.random.default_rng(2), **words)
    assert there.keys.tolist() == here.keys.tolist()
    assert (there.noisy == here.noisy).all()


def visits(n=4000):
    """Rows of people, some of nobody, in groups of every kind of cell, some missing."""
    rng = np.random.default_rng(3)
    table = table_of(n)
    who = rng.integers(0, 600, n)
    start = datetime.datetime(2001, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
    day = [start.date() + datetime.timedelta(int(i)) for i in who % 4]
    moment = [start + datetime.timedelta(seconds=int(i)) for i in who % 3]
    gone = rng.random(n) < 0.1
    columns = {
        "who": pa.array([f"Smith é {i}" for i in who], mask=rng.random(n) < 0.1),
        "number": pa.array(who.astype(np.int64) << 40, mask=gone),
        "real": pa.array(np.where(who % 5 == 0, -0.0, who % 5 / 3), mask=gone),
        "flag": pa.array(who % 2 == 0, mask=gone),
        "day": pa.array(day, mask=gone),
        "moment": pa.array(moment, pa.timestamp("us", "UTC"), mask=gone),
    }
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "visits.parquet"
    pq.write_table(visits(), path, row_group_size=700)
    return str(path)


@pytest.mark.parametrize(
    ("groups", "people", "how"),
    [
        (es.Groups(["city", "year"], max_per_person=2), es.People("who"), {}),
        (es.Groups(["city", "year"], {"city": ["Oslo", None], "year": [2020, 2021]}), es.People("who"), {}),
        (es.Groups(["real", "flag"], max_per_person=3), es.People("who", "sum", 2), {}),
        (es.Groups(["day"], max_per_person=2), es.People("who"), {"neighbors": "add_remove", "n": 700}),
        (es.Groups(["moment", "city"]), es.People("who"), {}),
    ],
)
@pytest.mark.parametrize("partitions", [1, 7])
def test_people_in_groups_are_the_local_ones(spark, file, groups, people, how, partitions):
    frame = spark.read.parquet(file).repartition(partitions)
    words = {
        "by": groups,
        "privacy_id": people,
        "columns": ["a", "b"],
        "epsilon": 6,
        "delta": 1e-3,
        **how,
    }
    here = es.mean(file, ROWS, rng=np.random.default_rng(2), **words)
    there = es.mean(frame, ROWS, rng=np.random.default_rng(2), **words)
    assert len(here.keys) > 1
    assert there.to_json() == here.to_json()
    assert kept_frames(spark) == 0


@pytest.mark.parametrize("who", ["number", "who"])
def test_groups_that_a_person_keeps_are_the_local_ones(spark, file, who):
    """Exact sums, of people with more groups than count."""
    frame = spark.read.parquet(file).repartition(5)
    row_map = es.plan("sum", es.Box([-9, -9], [9, 9]), n=9, **BUDGET).row_map
    people = People(who, "mean", None)
    found = []
    for data in (file, frame):
        made = group_by_person(open_source(data, Selection(["a", "b"], who, by=("city", "year"))), people, 2)
        sums = made.total_by(row_map, None)
        order = np.lexsort([np.array(cells.to_pylist()) for cells in sums.labels])
        sums = sums.chosen(order)
        exact = sums.sums.high.tolist(), sums.sums.low.tolist()
        found.append((made.count(), sums.rows.tolist(), exact, [cells.to_pylist() for cells in sums.labels]))
        made.close()
    assert found[0] == found[1]
    assert sum(found[0][1]) > found[0][0]


def test_descriptions_and_learned_rows_are_the_local_ones(spark, file):
    frame = spark.read.parquet(file).repartition(4)
    words = {"by": "city", "privacy_id": "who", "columns": ["a", "b"], "epsilon": 6, "delta": 1e-3}
    for call, rows in ((es.describe, ROWS), (es.mean, es.Unknown(1000.0))):
        here = call(file, rows, rng=np.random.default_rng(2), **words)
        there = call(frame, rows, rng=np.random.default_rng(2), **words)
        assert len(here.keys) == 3
        if call is es.describe:
            assert there.to_json() == here.to_json()
        else:  # rounds read all rows in the cluster, and a copy in memory here: other noise, the same groups
            assert there.keys.tolist() == here.keys.tolist()
