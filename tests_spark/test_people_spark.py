"""privacy_id on a frame: people's rows meet in the cluster, and the release is that of a local grouping."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import kept_frames, part_sizes, source

import ellipsum as es
from ellipsum.request.people import People
from ellipsum.sources import group_by_person
from ellipsum.sources.spark.people import check_order

BUDGET = {"epsilon": 1, "delta": 1e-6}
ROWS, PEOPLE = 2500, 300
BOX = es.Box({"a": (-3, 3), "b": (0, 1000)})


def fixed():
    return np.random.default_rng(11)


def identities(who, nobody):
    """A column for each type that can name people, all of the same people."""
    start = datetime.datetime(2001, 2, 3, 4, 5, 6)
    stamp = [start + datetime.timedelta(seconds=int(i), microseconds=7) for i in who]
    real = who / 3
    zeros = np.where(who == 0, np.where(np.arange(len(who)) % 2, 0.0, -0.0), real)
    hidden = np.where(nobody, np.nan, zeros)  # a NaN names nobody, as a null does
    return {
        "text": pa.array([f"Smith é {i}" for i in who], mask=nobody),
        "bytes": pa.array([b"\x00\xff" + int(i).to_bytes(2, "little") for i in who], pa.binary(), mask=nobody),
        "byte": pa.array(who % 100 - 50, pa.int8(), mask=nobody),
        "short": pa.array(who, pa.int16(), mask=nobody),
        "whole": pa.array(who - 7, pa.int32(), mask=nobody),
        "long": pa.array((who.astype(np.int64) << 40) - 2**45, mask=nobody),
        "real": pa.array(hidden),
        "single": pa.array(hidden.astype(np.float32)),
        "day": pa.array(
            [s.date().replace(year=1900) + datetime.timedelta(int(i)) for s, i in zip(stamp, who, strict=True)],
            mask=nobody,
        ),
        "moment": pa.array(stamp, pa.timestamp("us", "UTC"), mask=nobody),
        "clock": pa.array(stamp, pa.timestamp("us"), mask=nobody),
        "price": pa.array([decimal.Decimal(int(i)) / 8 for i in who], pa.decimal128(20, 3), mask=nobody),
        "flag": pa.array(who % 2 == 0, mask=nobody),
    }


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    """Rows of people of very different numbers of rows, some of nobody, with missing cells and repeated rows."""
    rng = np.random.default_rng(3)
    who = np.minimum(rng.geometric(0.01, ROWS), PEOPLE) - 1
    nobody = rng.random(ROWS) < 0.1
    a = np.round(rng.normal(size=ROWS), 1)
    a[::17], a[::19], a[::23] = np.nan, np.inf, -0.0
    b = rng.integers(0, 1000, ROWS)
    columns = {"a": pa.array(a), "b": pa.array(b, mask=rng.random(ROWS) < 0.05), **identities(who, nobody)}
    path = tmp_path_factory.mktemp("data") / "visits.parquet"
    pq.write_table(pa.table({**columns, "tags": pa.array([["x"]] * ROWS)}), path, row_group_size=400)
    return str(path)


@pytest.mark.parametrize(
    ("who", "how", "partitions"),
    [
        *((People("text"), {}, partitions) for partitions in (1, 7, 50)),
        *((People("long", "sum", 3), {}, partitions) for partitions in (1, 7, 50)),
        (People("text", max_rows=2), {"neighbors": "add_remove", "n": 400}, 7),
    ],
)
def test_releases_equal_local_ones(spark, visits, who, how, partitions):
    frame = spark.read.parquet(visits).repartition(partitions)
    local = es.mean(visits, BOX, privacy_id=who, rng=fixed(), **how, **BUDGET)
    remote = es.mean(frame, BOX, privacy_id=who, rng=fixed(), **how, **BUDGET)
    assert remote.to_json() == local.to_json()


def same_people(frame, path, who, people):
    """The exact sum of the people's rows, and their number, are those of a local grouping."""
    row_map = es.plan("sum", es.Box([-9, 0], [9, 3000]), n=9, **BUDGET).row_map
    remote, local = (group_by_person(source(data, ["a", "b"], key=who), people) for data in (frame, path))
    try:
        there, here = remote.total(row_map), local.total(row_map)
        assert remote.count() == local.count() == there.rows == here.rows
        assert there.sums.equals(here.sums)
    finally:
        remote.close()
        local.close()
    return here.rows


@pytest.mark.parametrize(
    "who",
    ["bytes", "byte", "short", "whole", "real", "single", "day", "moment", "clock", "price", "flag"],
)
def test_every_type_that_can_name_people(spark, visits, who):
    frame = spark.read.parquet(visits).repartition(3)
    named = {cell for cell in pq.read_table(visits)[who].to_pylist() if cell is not None and cell == cell}
    assert same_people(frame, visits, who, People(who, "mean", 5)) == len(named)


def test_types_that_cannot_are_refused_before_anything_runs(spark, visits):
    frame = spark.read.parquet(visits).selectExpr("*", "raise_error(text) as failing")
    with pytest.raises(es.UsageError, match="'tags' of data, which is of type array<string>"):
        es.sum(frame, BOX, privacy_id="tags", **BUDGET)
    with pytest.raises(es.UsageError, match="data has no column 'nonsense'"):
        es.sum(frame, BOX, privacy_id="nonsense", **BUDGET)
    with pytest.raises(es.UsageError, match="among columns"):
        es.sum(frame, es.Box(0, 1), columns=["a"], privacy_id="a", **BUDGET)


SPLITTING = {
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "0.01",
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1b",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "2k",
    "spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled": "true",
}
COALESCING = {"spark.sql.adaptive.coalescePartitions.minPartitionSize": "1m"}


@pytest.mark.parametrize(
    ("adaptive", "how", "sign"),
    [("false", {}, "Sort [who"), ("true", COALESCING, "AQEShuffleRead coalesced"), ("true", SPLITTING, "Sort [who")],
)
def test_adaptive_execution_neither_splits_a_person_nor_loses_the_order(spark, visits, settings, adaptive, how, sign):
    settings({"spark.sql.adaptive.enabled": adaptive, "spark.sql.shuffle.partitions": "16", **how})
    one_heavy = spark.read.parquet(visits).selectExpr("a", "b", "if(long % 3 = 0, 'Smith', text) as text")
    people = People("text", "mean", 4)
    remote = group_by_person(source(one_heavy, ["a", "b"], key="text"), people)
    try:
        plan = remote._frame._jdf.queryExecution().executedPlan().toString()
        assert sign in plan
        assert "skew" not in plan
        seen = np.sort(remote.sample(ROWS, bytes(32))[0], axis=0)
    finally:
        remote.close()
    local = group_by_person(source(one_heavy.toArrow(), ["a", "b"], key="text"), people)
    assert np.array_equal(seen, np.sort(local.every(), axis=0), equal_nan=True)
    local.close()


def test_rows_of_nobody_are_left_out(spark):
    frame = spark.range(4000).selectExpr("cast(id as double) a", "if(id % 10 = 0, cast(id as string), null) who")
    people = group_by_person(source(frame, ["a"], key="who"), People("who"))
    people.close()
    assert people.count() == 400


def test_nothing_reaches_the_driver_and_nothing_is_left_behind(spark, visits, monkeypatch):
    frame = spark.read.parquet(visits).repartition(5)
    sizes = part_sizes(monkeypatch, type(frame))
    es.sum(frame, BOX, privacy_id="text", count_clipped=False, **BUDGET)
    assert sizes
    assert set(sizes) == {8 * (2 * 2 + 1)}
    assert kept_frames(spark) == 0


def test_a_query_that_fails_leaves_nothing_behind_and_quotes_nothing(spark, visits):
    frame = spark.read.parquet(visits).selectExpr("a", "b", "raise_error(text) as text")
    with pytest.raises(es.DataError) as caught:
        es.sum(frame, BOX, privacy_id="text", **BUDGET)
    assert "Smith" not in str(caught.value)
    assert caught.value.__context__ is None
    assert kept_frames(spark) == 0


def test_a_platform_that_keeps_no_frames_gives_the_same_release(spark, visits, monkeypatch):
    frame = spark.read.parquet(visits)

    def refused(*_):
        raise RuntimeError("not on this platform")

    kept = es.sum(frame, BOX, privacy_id="text", rng=fixed(), **BUDGET)
    monkeypatch.setattr(type(frame), "persist", refused)
    assert es.sum(frame, BOX, privacy_id="text", rng=fixed(), **BUDGET).to_json() == kept.to_json()


def test_identities_that_fall_are_refused():
    """The second lock: a task that sees people out of order stops, whatever the engine promised."""
    batches = [
        pa.record_batch({"who": pa.array(who, pa.binary())}) for who in ([None, b"a", b"b"], [], [b"b", b"c"], [b"a"])
    ]
    assert len(list(check_order(iter(batches[:3])))) == 3
    with pytest.raises(es.DataError, match="arrived separately"):
        list(check_order(iter(batches)))
