"""Which entries can be missing: types decide, never values."""

import sqlite3
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import ellipsum as es
from ellipsum.request.people import People
from ellipsum.session import Session
from ellipsum.sources import open_source
from ellipsum.sources.engine import EngineSource
from ellipsum.sources.selection import Selection

WHOLE = np.arange(6).reshape(3, 2)


def gaps(data, columns=None):
    source = open_source(data, Selection(columns))
    assert len(source.nullable) == source.width
    return source.nullable


def table(*fields):
    """Three rows of each (type, nullable); nothing is missing in any."""
    values = {"decimal": [Decimal(1), Decimal(2), Decimal(3)], "bool": [True, False, True]}
    arrays = [pa.array(values.get(str(kind).split("128")[0], [1, 2, 3])).cast(kind) for kind, _ in fields]
    return pa.table(arrays, pa.schema([pa.field("abcdefg"[j], *field) for j, field in enumerate(fields)]))


REQUIRED = (pa.int64(), False), (pa.bool_(), False), (pa.uint8(), False), (pa.decimal128(5, 2), False)
OPTIONAL = (pa.int64(), True), (pa.bool_(), True), (pa.float64(), True)
REAL = (pa.float64(), False), (pa.float32(), False)
NEVER, ALWAYS = (False, False), (True, True)


@pytest.mark.parametrize("dtype", ["i1", "i8", "u4", ">i4", "?"])
def test_whole_numbers_of_numpy_are_always_there(dtype):
    assert gaps(WHOLE.astype(dtype)) == NEVER
    assert gaps(WHOLE.astype(dtype), [1]) == (False,)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g"])
def test_reals_of_numpy_may_be_missing(dtype):
    assert gaps(WHOLE.astype(dtype)) == ALWAYS


def test_masked_numbers_may_be_missing():
    assert gaps(np.ma.masked_array(WHOLE, np.zeros(WHOLE.shape, bool))) == ALWAYS
    assert gaps(np.ma.masked_array(WHOLE)) == ALWAYS


def test_arrow_fields_say_whether_they_have_nulls():
    assert gaps(table(*REQUIRED)) == (False,) * 4
    assert gaps(table(*OPTIONAL)) == (True,) * 3
    assert gaps(table(*REAL)) == ALWAYS
    assert gaps(table(REQUIRED[0], OPTIONAL[0]), ["b", "a"]) == (True, False)
    assert gaps(table(*REQUIRED).to_reader()) == (False,) * 4
    assert gaps(pa.table([pa.nulls(3)], ["a"])) == (True,)


def test_a_dictionary_may_hold_a_null():
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array([1, None]))
    data = pa.table([coded], pa.schema([pa.field("a", coded.type, False)]))
    assert gaps(data) == (True,)
    assert np.isnan(open_source(data, Selection()).every()[1, 0])


def test_a_list_may_be_of_another_length():
    lists = pa.table(
        [pa.array([[1, 2], [3, 4]], pa.list_(pa.int64()))], pa.schema([("v", pa.list_(pa.int64()), False)])
    )
    assert gaps(lists, "v[2]") == ALWAYS


def test_parquet_and_feather_keep_what_their_schema_says(tmp_path):
    for kind, expected in ((REQUIRED, (False,) * 4), (OPTIONAL, (True,) * 3), (REAL, ALWAYS)):
        pq.write_table(table(*kind), tmp_path / "t.parquet")
        feather.write_feather(table(*kind), tmp_path / "t.feather")
        assert gaps(tmp_path / "t.parquet") == expected
        assert gaps(tmp_path / "t.feather") == expected


def test_of_several_files_and_batches_any_may_have_gaps(tmp_path):
    pq.write_table(table(REQUIRED[0]), tmp_path / "1.parquet")
    pq.write_table(table(REQUIRED[0]), tmp_path / "2.parquet")
    assert gaps(str(tmp_path / "*.parquet")) == (False,)
    pq.write_table(table(OPTIONAL[0]), tmp_path / "3.parquet")
    assert gaps(str(tmp_path / "*.parquet")) == (True,)
    assert gaps([WHOLE, WHOLE]) == NEVER
    assert gaps([WHOLE, WHOLE.astype(float)]) == ALWAYS
    assert gaps([WHOLE, np.ma.masked_array(WHOLE)]) == ALWAYS


def lite(folder):
    with sqlite3.connect(folder / "t.sqlite") as connection:
        connection.execute("create table t(a integer not null, b integer not null)")
        connection.execute("insert into t values (1, 2)")
    connection.close()
    return es.sql("select * from t", f"sqlite:///{folder}/t.sqlite")


def csv(folder):
    (folder / "t.csv").write_text("a,b\n1,2\n")
    return folder / "t.csv"


LOOSE = {
    "csv": csv,
    "sqlite": lite,
    "duckdb": lambda folder: es.sql("select 1 as a, 2 as b", "duckdb://"),
    "relation": lambda folder: duckdb.connect().sql("select 1 as a, 2 as b"),
    "data set": lambda folder: ds.dataset(table(REQUIRED[0], REQUIRED[0])),
    "scanner": lambda folder: ds.dataset(table(REQUIRED[0], REQUIRED[0])).scanner(),
    "iterable": lambda folder: iter([WHOLE]),
    "pandas": lambda folder: pd.DataFrame(WHOLE, columns=["a", "b"]),
    "polars": lambda folder: pl.DataFrame({"a": [1], "b": [2]}),
    "lazy frame": lambda folder: pl.LazyFrame({"a": [1], "b": [2]}),
    "dict of lists": lambda folder: {"a": [1], "b": [2]},
    "list of rows": lambda folder: [[1, 2]],
}


@pytest.mark.parametrize("kind", LOOSE)
def test_sources_whose_types_do_not_tell_may_have_gaps(kind, tmp_path):
    assert gaps(LOOSE[kind](tmp_path)) == ALWAYS


def test_records_and_columns():
    assert gaps([{"a": 1, "b": 2}], ["a", "b"]) == ALWAYS
    mixed = {"a": np.arange(3), "b": [1, 2, 3], "c": np.ones(3), "d": np.ones(3, bool), "e": np.ma.arange(3)}
    assert gaps(mixed) == (False, True, True, False, True)


class Frame(EngineSource):
    """A frame of an engine: its schema alone."""

    def __init__(self, *kinds):
        super().__init__("ab", lambda i: kinds[i])

    def fold(self, fold, progress=None):
        raise NotImplementedError


def test_frames_of_engines_may_have_gaps():
    assert gaps(Frame(pa.int64(), pa.float64())) == ALWAYS
    assert gaps(Frame(pa.int64(), pa.bool_())) == ALWAYS


@pytest.mark.parametrize("people", [People("who"), People("who", "sum", 2)], ids=["mean", "sum"])
def test_people_have_the_gaps_of_their_rows(people):
    data = table(REQUIRED[0], OPTIONAL[0], REAL[0]).append_column("who", [[1, 1, 2]])
    with Session.open(data, Selection(), people) as session:
        assert session.source.nullable == (False, True, True)


def test_what_is_always_there_is_not_counted():
    """A release of whole numbers spends nothing on counts of absences; one of reals has them."""
    box = {"epsilon": 1.0, "delta": 1e-6}
    assert not any(es.mean(WHOLE, es.Box(0, 9), **box).plan.auxiliary.absences)
    assert all(es.mean(WHOLE.astype(float), es.Box(0, 9), **box).plan.auxiliary.absences)
