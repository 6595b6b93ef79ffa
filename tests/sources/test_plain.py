"""Plain Python as data: dicts of columns, lists of records and of rows, single columns, lazy frames."""

import datetime as dt
import math
import traceback
import uuid
from collections import ChainMap, OrderedDict, defaultdict, namedtuple
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from opening import open_table

import ellipsum as es
from ellipsum.errors import DataError, UsageError
from ellipsum.sources.identities import encode_identity
from ellipsum.sources.python_objects import to_number

NAN = math.nan
SENTINEL = "Xq7secret"
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
NAMED = es.Box({"age": (0, 120), "income": (0, 100)})


def read(data, columns=None, key=None):
    table = open_table(data, columns, key)
    rows = np.vstack([np.empty((0, table.width)), *table.batches()])
    assert table.rows() == len(rows)
    return rows


def equal(left, right):
    return np.array_equal(left, np.asarray(right, float), equal_nan=True)


# --- values ---------------------------------------------------------------------------------------


class Odd(int):
    def __float__(self):
        raise ZeroDivisionError(SENTINEL)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3.0),
        (2.5, 2.5),
        (True, 1.0),
        (-0.0, -0.0),
        (np.int8(-3), -3.0),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.bool_(True), 1.0),
        (Decimal("0.1"), 0.1),
        (Fraction(1, 3), 1 / 3),
        (2**53 + 1, 2.0**53),
        (math.inf, math.inf),
        (10**400, NAN),
        (Fraction(10**400), NAN),
        (Decimal("sNaN"), NAN),
        (Odd(3), NAN),
        (None, NAN),
        ("5", NAN),
        (b"5", NAN),
        (1j, NAN),
        ([1.0], NAN),
        (np.array(1.0), NAN),
        (pd.NA, NAN),
        (pd.NaT, NAN),
        (dt.date(2020, 1, 1), NAN),
        (object(), NAN),
    ],
)
def test_what_is_no_number_is_missing(value, expected):
    found = to_number(value)
    assert type(found) is float
    assert found == expected or (math.isnan(found) and math.isnan(expected))


def test_people_are_told_apart_by_what_names_them():
    when = dt.datetime(2020, 1, 1)
    groups = [
        [1, 1.0, True, np.int64(1), np.float32(1), np.bool_(True)],
        [0, -0.0, False],
        ["1"],
        [b"1"],
        [0.1],
        [math.nextafter(0.1, 1)],
        [2**53],
        [2**53 + 1],
        [10**400],
        [math.inf],
        [-math.inf],
        ["inf"],
        ["\ud800"],
        [dt.date(2020, 1, 1)],
        [when],
        [dt.timedelta(1)],
        [uuid.UUID(int=1)],
        [Decimal("0.5")],
    ]
    found = [{encode_identity(value) for value in group} for group in groups]
    assert all(len(names) == 1 for names in found)
    assert len(set.union(*found)) == len(groups)
    assert None not in set.union(*found)


@pytest.mark.parametrize(
    "value", [None, NAN, np.float32("nan"), pd.NA, pd.NaT, Decimal("nan"), Decimal("snan"), [1], {}]
)
def test_what_names_nobody(value):
    assert encode_identity(value) is None


# --- records --------------------------------------------------------------------------------------

RECORDS = [{"age": 30, "income": 1.5}, {"income": None}, {"age": "x", "income": True, "more": SENTINEL}, {}]
SAME = [[30, 1.5], [NAN, NAN], [NAN, 1], [NAN, NAN]]


def test_records_have_the_entries_that_are_named():
    assert equal(read(RECORDS, ["age", "income"]), SAME)
    assert equal(read(RECORDS, ["income"]), [[row[1]] for row in SAME])
    assert equal(read(tuple(RECORDS), ("age", "income")), SAME)
    table = open_table(RECORDS, ["age", "income"])
    assert table.columns == ("age", "income")
    assert table.ordered
    assert table.reopenable


def test_names_of_rows_are_those_of_records():
    release = es.mean(RECORDS, NAMED, rng=np.random.default_rng(0), **BUDGET)
    array = es.mean(np.array(SAME), NAMED, rng=np.random.default_rng(0), **BUDGET)
    assert release == array
    assert release.columns == ("age", "income")
    plan = es.plan("mean", NAMED, n=4, **BUDGET)
    assert plan.release(RECORDS, np.random.default_rng(0)).value.tolist() == release.value.tolist()


def test_records_without_names_are_refused_whatever_their_keys_are():
    for records in (RECORDS, [{}], [{SENTINEL: 1}]):
        with pytest.raises(UsageError, match="columns is missing") as caught:
            es.mean(records, es.Ball(1.0), **BUDGET)
        assert SENTINEL not in str(caught.value)


def test_what_is_no_record_is_a_row_without_entries():
    odd = [RECORDS[0], None, 7, SENTINEL, [1, 2], pd.NA, RECORDS[0]]
    assert equal(read(odd, ["age", "income"]), [SAME[0], *[[NAN, NAN]] * 5, SAME[0]])


def test_any_mapping_is_a_record_and_none_is_changed():
    lazy = defaultdict(lambda: 5.0, age=30)
    records = [OrderedDict(age=30, income=1.5), lazy, ChainMap({"age": 1}, {"income": 2})]
    assert equal(read(records, ["age", "income"]), [[30, 1.5], [30, NAN], [1, 2]])
    assert list(lazy) == ["age"]


def test_vectors_in_records():
    records = [{"v": [1, 2]}, {"v": (3, None)}, {"v": np.array([5, 6])}, {"v": [1, 2, 3]}, {"v": 4}, {}, None]
    expected = [[1, 2], [3, NAN], [5, 6], *[[NAN, NAN]] * 4]
    assert equal(read(records, "v[2]"), expected)
    assert open_table(records, "v[2]").columns == ("v[0]", "v[1]")


def test_people_of_records():
    records = [{"who": who, "x": x} for who, x in (("a", 1), ("b", 5), ("a", 3), (None, 100), (3, 7), (3.0, 9))]
    records += [{"x": 100}, None]
    release = es.mean(records, es.Box(0, 10), columns=["x"], privacy_id="who", **BUDGET)
    assert release.plan.n == 3
    keys = open_table(records, ["x"], "who")
    assert keys.key == "binary"
    with pytest.raises(UsageError, match="among columns"):
        open_table(records, ["x", "who"], "who")
    with pytest.raises(UsageError, match="more than once"):
        open_table(records, ["x", "x"], "who")


class Failing(dict):
    def get(self, name, default=None):
        raise ZeroDivisionError(SENTINEL)


def test_an_error_of_a_record_does_not_speak():
    with pytest.raises(DataError) as caught:
        read([{"x": 1}, Failing()], ["x"])
    assert SENTINEL not in "".join(traceback.format_exception(caught.value, chain=True))
    assert caught.value.__context__ is None


def test_many_records_come_in_blocks():
    records = [{"x": j, "y": -j} for j in range(200_000)]
    table = open_table(records, ["x", "y"])
    blocks = list(table.batches())
    assert len(blocks) > 1
    assert equal(np.vstack(blocks)[:, 0], np.arange(200_000))


# --- lists of rows --------------------------------------------------------------------------------

Point = namedtuple("Point", ["x", "y"])


def test_rows_of_lists_and_tuples():
    rows = [[1, 2], (3, None), Point(5, "x"), np.array([7, 8]), [9], [1, 2, 3], None, SENTINEL, {"x": 1}]
    expected = [[1, 2], [3, NAN], [5, NAN], [7, 8], *[[NAN, NAN]] * 5]
    assert equal(read(rows), expected)
    assert equal(read(tuple(rows)), expected)
    assert open_table(rows).columns is None
    assert equal(read([[1, 2, 3], [4, 5, 6]], [2, 0]), [[3, 1], [6, 4]])


def test_names_tell_how_long_a_row_is():
    """Else the first row would decide whether there is an answer."""
    for rows in ([[1, 2]], [[1], [1, 2]], [[1, 2, 3], [1, 2]]):
        release = es.sum(rows, NAMED, **BUDGET)
        assert release.columns == ("age", "income")
    owned = [["a", 1, 2], ["b", 3, 4], ["a", 5, 6]]
    assert es.mean(owned, NAMED, privacy_id=0, **BUDGET).plan.n == 2


def test_a_row_of_another_length_keeps_its_owner():
    rows = [["a", 1.0], ["b"], [], ["c", 1, 2]]
    keys = [key for keys, _ in open_table(rows, key=0).pieces() for key in keys.to_pylist()]
    assert keys == [b"ta", b"tb", None, b"tc"]


def test_lists_that_are_refused():
    for data, columns, words in (
        ([[]], None, "no column to use"),
        ([[1, 2]], ["a"], "no column names"),
        ([[1, 2]], [2], "from 0 to 1"),
        ([[1, 2]], [1, 1], "more than once"),
        ([1.0, 2.0], None, "A batch must be"),
        ([None, [1, 2]], None, "A batch must be"),
        ([], None, "empty list"),
    ):
        with pytest.raises(UsageError, match=words):
            open_table(data, columns)


def test_no_rows_are_an_answer_where_their_number_is_private():
    how = {"neighbors": "add_remove", "n": 10, **BUDGET}
    for rows in ([], RECORDS[:1], [[1, 2]]):
        assert es.mean(rows, NAMED, **how).columns == ("age", "income")
    for rows in ([], RECORDS[:1]):
        assert es.mean(rows, es.Box(0, 9), columns=["age", "income"], **how).columns == ("age", "income")
    for rows in ([], [[1, 2]]):
        assert es.mean(rows, es.Box(0, 9), columns=[0, 1], **how).columns is None


def test_batches_are_batches_still():
    parts = [np.ones((2, 2)), np.zeros((1, 2))]
    table = pa.table({"a": [1.0], "b": [2.0]})
    assert equal(read(parts), [[1, 1], [1, 1], [0, 0]])
    assert equal(read(table.to_batches()), [[1, 2]])
    assert equal(read([table, table]), [[1, 2]] * 2)
    assert equal(read([pd.DataFrame({"a": [1.0]}), pd.DataFrame({"a": [2.0]})]), [[1], [2]])


# --- columns --------------------------------------------------------------------------------------


def test_a_dict_is_a_table_of_its_columns():
    data = {
        "list": [1, None, "x"],
        "tuple": (1.5, NAN, True),
        "range": range(3),
        "array": np.arange(3, dtype=">i2"),
        "half": np.ones(3, np.float16),
        "objects": np.array([1, None, "x"], object),
        "masked": np.ma.masked_array([1, 2, 3], [True, False, False]),
        "pandas": pd.Series([1, None, 3], index=[7, 7, 9]),
        "polars": pl.Series([1, None, 3]),
        "arrow": pa.array([1, None, 3]),
        "chunks": pa.chunked_array([[1, None], [3]]),
    }
    expected = [
        [1, 1.5, 0, 0, 1, 1, NAN, 1, 1, 1, 1],
        [NAN, NAN, 1, 1, 1, NAN, 2, NAN, NAN, NAN, NAN],
        [NAN, 1, 2, 2, 1, NAN, 3, 3, 3, 3, 3],
    ]
    assert equal(read(data), expected)
    assert open_table(data).columns == tuple(data)
    assert open_table(data).ordered
    assert equal(read(data, ["polars", "list"]), [[row[8], row[0]] for row in expected])


def test_columns_that_are_not_chosen_are_not_looked_at():
    data = {"a": [1, 2], "text": np.array([SENTINEL] * 2), "odd": object(), "short": [1], "b": [3, 4]}
    assert equal(read(data, ["b", "a"]), [[3, 1], [4, 2]])


def test_people_of_columns():
    owners = {
        "list": ["a", "b", "a", None],
        "mixed": [1, "1", 1.0, None],
        "array": np.array(["a", "b", "a", "c"]),
        "whole": np.array([1, 2, 1, 3]),
        "dates": np.array(["2020-01-01", "2020-01-02", "2020-01-01", "2021-01-01"], "M8[D]"),
        "polars": pl.Series(["a", "b", "a", None]),
        "pandas": pd.Series(["a", "b", "a", None]),
    }
    people = {"array": 3, "whole": 3, "dates": 3}
    for kind, who in owners.items():
        release = es.mean({"who": who, "x": [1, 2, 3, 4]}, es.Box(0, 9), privacy_id="who", **BUDGET)
        assert release.plan.n == people.get(kind, 2), kind


def test_vectors_in_columns():
    assert equal(read({"v": [[1, 2], None, (3,), np.array([4, 5])]}, "v[2]"), [[1, 2], [NAN] * 2, [NAN] * 2, [4, 5]])


def test_columns_that_are_refused_by_their_types():
    for data, words in (
        ({"a": [1, 2], "b": [1]}, "differ in length"),
        ({"a": SENTINEL}, "'a' of data must be a list or an array, got str"),
        ({"a": 3}, "got int"),
        ({"a": iter([1])}, "got list_iterator"),
        ({"a": {"b": [1]}}, "got dict"),
        ({"a": np.ones((2, 2))}, "one-dimensional"),
        ({"a": np.array([SENTINEL])}, "not a number"),
        ({"a": pd.Series([1, SENTINEL], dtype=object)}, "is of type object"),
        ({"a": pl.Series([SENTINEL])}, "not a number"),
        ({}, "No column"),
        ({1: [1], "1": [2]}, "2 columns called '1'"),
    ):
        with pytest.raises(UsageError, match=words) as caught:
            open_table(data)
        assert SENTINEL not in str(caught.value)
    with pytest.raises(UsageError, match="has no column"):
        open_table({"a": [1]}, ["b"])


def test_nothing_that_is_read_is_changed():
    column, record = [1, None, "x"], {"a": None}
    read({"a": column})
    read([record], ["a", "b"])
    assert column == [1, None, "x"]
    assert record == {"a": None}


# --- single columns and lazy frames ---------------------------------------------------------------


@pytest.mark.parametrize("make", [pd.Series, pl.Series], ids=["pandas", "polars"])
def test_a_single_column_is_a_table_of_one(make):
    named = make([1.0, None, 3.0]).rename("x")
    assert equal(read(named), [[1], [NAN], [3]])
    assert open_table(named).columns == ("x",)
    assert equal(read(named, ["x"]), [[1], [NAN], [3]])
    nameless = make([1.0, None, 3.0])
    assert equal(read(nameless), [[1], [NAN], [3]])
    assert open_table(nameless).columns is None
    assert equal(read(nameless, [0]), [[1], [NAN], [3]])
    assert open_table(nameless).ordered
    assert es.mean(nameless, es.Box({"age": (0, 9)}), **BUDGET).columns == ("age",)
    with pytest.raises(UsageError, match="data has no column 'age'"):
        es.mean(named, es.Box({"age": (0, 9)}), **BUDGET)
    with pytest.raises(UsageError, match="no column names"):
        open_table(nameless, ["x"])
    for key in (0, "x"):
        with pytest.raises(UsageError, match="single column"):
            open_table(nameless, key=key)
    with pytest.raises(UsageError, match="not a number"):
        open_table(make(["x"]))


def test_an_index_is_no_column():
    series = pd.Series([1.0, 2.0], index=pd.Index([5, 6], name="who"), name="x")
    assert equal(read(series), [[1], [2]])


def test_a_lazy_frame_is_run_once_and_for_the_chosen_columns_alone():
    runs = []

    def count(frame):
        runs.append(frame.columns)
        return frame

    frame = pl.DataFrame({"a": [1, None, 3], "b": [4.0, 5.0, 6.0], "who": ["x", "y", "x"]})
    lazy = frame.lazy().map_batches(count, schema=frame.schema)
    table = open_table(lazy, ["b", "a"])
    assert (table.columns, table.ordered, table.reopenable) == (("b", "a"), False, True)
    assert not runs
    assert equal(np.vstack(list(table.batches())), [[4, 1], [5, NAN], [6, 3]])
    assert table.rows() == 3
    assert equal(np.vstack(list(table.batches())), [[4, 1], [5, NAN], [6, 3]])
    assert len(runs) == 1
    release = es.mean(lazy, es.Box(0, 9), privacy_id="who", **BUDGET)
    assert (release.columns, release.plan.n) == (("a", "b"), 2)


def test_a_lazy_frame_gives_the_release_of_its_rows():
    frame = pl.DataFrame({"age": [30.0, 40.0, None], "income": [1, 2, 3]})
    first, second = (es.mean(data, NAMED, rng=np.random.default_rng(1), **BUDGET) for data in (frame, frame.lazy()))
    assert first == second


def test_a_failing_lazy_frame_does_not_speak():
    lazy = pl.LazyFrame({"a": ["1", SENTINEL]}).select(pl.col("a").cast(pl.Float64))
    missing = pl.LazyFrame({"a": [1.0]}).select("b")
    for call in (lambda: read(lazy), lambda: open_table(lazy).rows(), lambda: open_table(missing)):
        with pytest.raises(DataError, match="could not be collected") as caught:
            call()
        assert SENTINEL not in "".join(traceback.format_exception(caught.value, chain=True))
        assert caught.value.__context__ is None
    with pytest.raises(UsageError, match="not a number"):
        open_table(pl.LazyFrame({"a": [SENTINEL]}))
