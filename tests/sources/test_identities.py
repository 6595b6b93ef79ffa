"""Identities are compared exactly, whatever the source and however long they are. [T6]"""

import hashlib
import math
import sqlite3

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from opening import open_table

import ellipsum as es
from ellipsum.errors import UsageError
from ellipsum.request.people import People
from ellipsum.sources.identities import canonicalize
from ellipsum.sources.people import gather

CLOSE = [1.0, math.nextafter(1.0, 2), 1e22, math.nextafter(1e22, 0), 0.1, 0.1 + 2**-56, -5e-324, 123456789.12345678]
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def people(data, key="id", columns=None):
    table = gather(open_table(data, columns, key=key), People(key))
    rows = table.rows()
    table.close()
    return rows


def lite(cells, encoding="UTF-8", declared=""):
    connection = sqlite3.connect(":memory:")
    connection.execute(f"pragma encoding = '{encoding}'")
    connection.execute(f"create table t(id {declared}, a real)")
    connection.executemany("insert into t values (?, 1)", [(cell,) for cell in cells])
    return es.sql("select id, a from t", connection)


def close_reals(folder):
    """The same real identities, every one twice, from every kind of source."""
    cells = CLOSE * 2
    frame = pd.DataFrame({"id": cells, "a": 1.0})
    arrow = pa.Table.from_pandas(frame)
    pq.write_table(arrow, folder / "t.parquet")
    feather.write_feather(arrow, folder / "t.feather")
    (folder / "t.csv").write_text("id,a\n" + "".join(f"{cell!r},1\n" for cell in cells))
    duck = duckdb.connect()
    duck.execute("create table t as select unnest(?::double[]) as id, 1.0 as a", [cells])
    return {
        "array": np.array([cells, np.ones(len(cells))]).T,
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "arrow": arrow,
        "dictionary": pa.table({"id": arrow["id"].dictionary_encode(), "a": arrow["a"]}),
        "parquet": folder / "t.parquet",
        "feather": folder / "t.feather",
        "csv": folder / "t.csv",
        "duckdb": es.sql("select * from t", duck),
        "relation": duck.table("t"),
        "sqlite": lite(cells),
        "sqlite of reals": lite(cells, declared="real"),
        "sqlite of UTF-16": lite(cells, "UTF-16le"),
    }


def test_reals_that_differ_in_their_last_bit_are_two_people_in_every_source(tmp_path):
    for kind, data in close_reals(tmp_path).items():
        assert people(data, 0 if kind == "array" else "id") == len(CLOSE), kind


def test_two_reals_of_sqlite_are_two_people_in_a_release():
    """One person's rows must not join another's: 15 digits would put both into one mean."""
    data = lite([1.0, math.nextafter(1.0, 2)])
    assert es.mean(data, es.Box(0, 2), columns=["a"], privacy_id="id", **BUDGET).plan.n == 2


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le", "UTF-16be"])
def test_a_number_of_sqlite_is_its_shortest_decimal(encoding):
    for cells in (
        [7, 7.0, "7"],
        [0, -0.0, 0.0, "0"],
        [0.1, "0.1"],
        [2**62, 2.0**62],
        [-(2**63) + 1024, -(2.0**63) + 1024],
    ):
        assert people(lite(cells, encoding)) == 1, cells
    apart = [7, 7.5, "7.0", "07", " 7", 2**53, 2**53 + 1, 2.0**63, math.inf, -math.inf, "x", ""]
    assert people(lite(apart, encoding)) == len(apart)
    assert people(lite([None, None, 1], encoding)) == 1  # nobody is left out


def test_long_doubles_are_no_identities():
    if np.dtype(np.longdouble).itemsize == 8:
        pytest.skip("long doubles are doubles here")
    data = np.array([[1, 1], [np.nextafter(np.longdouble(1), 2), 1]], np.longdouble)
    with pytest.raises(UsageError, match=r"privacy_id names '0' of data, which is of type (longdouble|float)"):
        es.mean(data, es.Box(0, 1), privacy_id=0, **BUDGET)


def test_times_of_two_zones_and_huge_integers_of_duckdb_are_told_apart():
    """Arrow drops the zone of a time of day, and reads an unsigned integer of 128 bits as a signed one."""
    duck = duckdb.connect()
    times = "select unnest(['12:00:00+01', '12:00:00+02', '12:00:00+01'])::timetz as id, 1.0 as a"
    huge = (
        "select unnest([0::uhugeint, 340282366920938463463374607431768211455, 170141183460469231731687303715884105728])"
    )
    for text, expected in ((times, 2), (f"{huge} as id, 1.0 as a", 3)):
        for data in (es.sql(text, duck), duck.sql(text)):
            assert people(data, columns=["a"]) == expected, text


def test_the_text_of_a_categorical_is_the_identity():
    names = ["ann", "bob", None, "ann"]
    for ids in (pl.Series(names, dtype=pl.Categorical), pl.Series(names, dtype=pl.Enum(["ann", "bob"]))):
        assert people(pl.DataFrame({"id": ids, "a": [1.0] * 4})) == 2  # nobody is left out
    views = pa.array(names, pa.string_view()).dictionary_encode()
    assert canonicalize(views, "text").to_pylist() == [b"ann", b"bob", None, b"ann"]


def long_ids(size):
    """Identities around the length from which digests stand for them: six people, one of whom comes twice."""
    one = "x" * size
    return ["x" * 64, "x" * 65, one, one, one[:-1] + "y", "z" + one[1:], hashlib.sha512(one.encode()).hexdigest()]


def test_long_identities_are_told_apart_in_every_source(tmp_path):
    ids = long_ids(100_000)
    arrow = pa.table({"id": ids, "a": [1.0] * 7})
    pq.write_table(arrow, tmp_path / "t.parquet")
    pa_csv.write_csv(arrow, tmp_path / "t.csv")
    blobs = pa.array([name.encode() for name in ids], pa.binary())
    sources = [arrow, pa.table({"id": blobs, "a": [1.0] * 7}), pl.from_arrow(arrow), lite(ids), lite(blobs.to_pylist())]
    for data in (*sources, tmp_path / "t.parquet", tmp_path / "t.csv"):
        assert people(data) == 6


def test_no_identity_is_longer_than_a_digest_or_taken_for_one():
    long = b"x" * 65
    digest = canonicalize(pa.array([long]), "binary")[0].as_py()
    assert digest == b"#" + hashlib.sha512(long).digest()
    assert canonicalize(pa.array([digest]), "binary")[0].as_py() != digest
    mixed = pa.array([b"short", None, long, b"", long + b"y", b"x" * 64], pa.binary()).slice(1)
    found = canonicalize(mixed, "binary").to_pylist()
    assert found[0] is None
    assert found[1] == digest
    assert found[2] == b""
    assert found[4] == b"x" * 64
    assert len(set(found)) == 5
    assert {len(cell) for cell in found if cell is not None} == {0, 64, 65}


def test_an_identity_beyond_duckdbs_memory_is_one_like_any_other(monkeypatch):
    monkeypatch.setattr("ellipsum.sources.people.MEMORY", "16MB")
    huge = pa.array(["x" * 20_000_000, "ann", "ann"], pa.large_string())
    assert people(pa.table({"id": huge, "a": [1.0, 2.0, 3.0]})) == 2
