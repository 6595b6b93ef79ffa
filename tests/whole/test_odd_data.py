"""Odd things handed in as data: each is the right answer, or one of our own errors that does not quote it."""

import io
import secrets
import tempfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from opening import open_table

import ellipsum as es
from ellipsum.errors import DataError, UsageError
from ellipsum.kernels.accumulate import accumulate
from ellipsum.sources import open_source
from ellipsum.sources.arrow import Layout
from ellipsum.sources.engine import SubsetFold
from ellipsum.sources.identities import canonicalize
from ellipsum.sources.selection import Selection

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
NAN = np.nan
X = np.array([[0.0, 1.0], [0.0, 3.0], [2.0, 5.0], [4.0, 7.0]])
MASK = np.array([[False, True], [False, False], [True, False], [False, False]])

# data -> its rows, and the number of people by its first column (a row that names nobody is left out)
RIGHT = {
    "matrix": (np.matrix(X), X, 3),
    "matrix of integers": (np.matrix(X.astype(np.int16)), X, 3),
    "masked": (np.ma.masked_array(X, MASK), np.where(MASK, NAN, X), 2),
    "masked integers": (np.ma.masked_array(X.astype(int), MASK), np.where(MASK, NAN, X), 2),
    "masked by nothing": (np.ma.masked_array(X), X, 3),
    "list of matrices": ([np.matrix(X), np.matrix(X)], np.vstack([X, X]), 3),
    "list of masked": ([np.ma.masked_array(X, MASK), X], np.vstack([np.where(MASK, NAN, X), X]), 3),
    "booleans": (X > 1, (X > 1).astype(float), 2),
    "halves": (X.astype(np.float16), X, 3),
    "other byte order": (X.astype(">f8"), X, 3),
    "rows of no step": (np.lib.stride_tricks.as_strided(X[0], (3, 2), (0, 8)), X[[0, 0, 0]], 1),
    "strides": (X[::-1, ::-1].T[::-1].T, X[::-1], 3),
    "nullable": (
        pd.DataFrame({"a": pd.array([1, None, 2], "Int64"), "b": pd.array([None, 0.5, 1], "Float64")}),
        [[1, NAN], [NAN, 0.5], [2, 1]],
        2,
    ),
    "nullable booleans": (pd.DataFrame({"a": pd.array([True, None], "boolean"), "b": [1, 2]}), [[1, 1], [NAN, 2]], 1),
    "of arrow": (pd.DataFrame({"a": pd.array([1, None], "int64[pyarrow]"), "b": [1.0, 2]}), [[1, 1], [NAN, 2]], 1),
    "categories of numbers": (pd.DataFrame({"a": pd.Categorical([5, 3, 5]), "b": 1.0}), [[5, 1], [3, 1], [5, 1]], 2),
    "an index of tuples": (
        pd.DataFrame(X, columns=["a", "b"], index=pd.MultiIndex.from_product([[0, 1], ["x", "y"]])),
        X,
        3,
    ),
    "columns of lists": ({"a": [1, None, 1.0], "b": [2, "x", np.nan]}, [[1, 2], [NAN, NAN], [1, NAN]], 1),
    "columns of arrays": ({"a": np.arange(2), "b": np.ma.masked_array([1, 2], [False, True])}, [[0, 1], [1, NAN]], 2),
    "columns of frames": ({"a": pd.Series([1, 1]), "b": pl.Series([None, 2])}, [[1, NAN], [1, 2]], 1),
    "rows of lists": (X.tolist(), X, 3),
    "tuples": (((1, 2), [3, None], None, (4,), (5, "x")), [[1, 2], [3, NAN], [NAN] * 2, [NAN] * 2, [5, NAN]], 4),
    "a lazy frame": (pl.LazyFrame({"a": [1.0, None], "b": [1, 2]}), [[1, 1], [NAN, 2]], 1),
    "decimals": (pl.DataFrame({"a": [Decimal("1.5"), None], "b": [1, 2]}), [[1.5, 1], [NAN, 2]], 1),
    "struct": (pa.array([{"a": 1.0, "b": 2.0}, {"a": None, "b": 3.0}]), [[1, 2], [NAN, 3]], 1),
    "dictionary": (
        pa.table({"a": pa.array([1.0, 2.0, 1.0]).dictionary_encode(), "b": [1, 2, 3]}),
        [[1, 1], [2, 2], [1, 3]],
        2,
    ),
}


def frame(column):
    return pd.DataFrame({"a": column, "b": np.arange(float(len(column)))})


class Broken:
    def __array__(self, dtype=None, copy=None):
        raise ZeroDivisionError("Xq7secret")


class BrokenStream:
    def __arrow_c_stream__(self, requested_schema=None):
        raise ZeroDivisionError("Xq7secret")


class BrokenIterable:
    def __iter__(self):
        raise ZeroDivisionError("Xq7secret")


REFUSED = {
    "objects": X.astype(object),
    "a scalar": np.array(3.0),
    "a line": X[:, 0],
    "a cube": X.reshape(2, 2, 2),
    "a structure": np.zeros(5, [("a", float), ("b", float)]),
    "records": np.rec.array(np.zeros(5, [("a", float), ("b", float)])),
    "a table of structures": np.zeros((5, 2), [("a", float)]),
    "complex": X.astype(complex),
    "dates": X.astype("datetime64[s]"),
    "spans": X.astype("timedelta64[s]"),
    "texts": X.astype(str),
    "bytes of numpy": X.astype("S8"),
    "void": np.zeros((3, 2), "V8"),
    "no columns": np.zeros((5, 0)),
    "no rows": np.zeros((0, 2)),
    "masked texts": np.ma.masked_array(X.astype(str), MASK),
    **{f"sparse {kind}": getattr(scipy.sparse, f"{kind}_matrix")(X) for kind in ("csr", "coo", "lil", "dok", "bsr")},
    **{f"sparse array {kind}": getattr(scipy.sparse, f"{kind}_array")(X) for kind in ("csr", "coo", "dia")},
    "a dictionary of numbers": {"a": 1.0, "b": 2.0},
    "a dictionary of texts": {"a": "12", "b": "34"},
    "a dictionary of sets": {"a": {1, 2}, "b": {1, 2}},
    "a dictionary of tables": {"a": X, "b": X},
    "a dictionary of text arrays": {"a": np.array(["x", "y"]), "b": np.array(["x", "y"])},
    "a dictionary of uneven columns": {"a": [1.0, 2.0], "b": [1.0], "c": [1.0, 2.0]},
    "an empty dictionary": {},
    "a list of numbers": [1.0, 2.0],
    "a list of lines": [X[0], X[1]],
    "a list of nothing": [None],
    "a list of dictionaries": [{"a": 1}],
    "arrays and paths": [X, "a.csv"],
    "an empty list": [],
    "lists in a list": [[]],
    "an empty text": "",
    "empty texts": ["", ""],
    "bytes": b"1,2",
    "a set": {1, 2},
    "nothing": None,
    "a number": 5,
    "a range": range(5),
    "a function": len,
    "a type": int,
    "a file of text": io.StringIO("a,b\n1,2\n"),
    "a file of bytes": io.BytesIO(b"a,b\n1,2\n"),
    "a series of texts": pd.Series(["x", "y"]),
    "a series of objects": pd.Series([1, "x"], dtype=object),
    "an index": pd.Index([1, 2]),
    "an empty frame": pd.DataFrame(),
    "a frame of no rows": pd.DataFrame({"a": pd.Series([], dtype=float), "b": pd.Series([], dtype=float)}),
    "a frame of no columns": pd.DataFrame(index=range(5)),
    "a frame of objects": frame([Decimal(1), 2]),
    "a frame of dates": frame(pd.to_datetime(["2020-01-01", "2021-01-01"])),
    "a frame of spans": frame(pd.to_timedelta([1, 2])),
    "a frame of months": frame(pd.period_range("2020", periods=2, freq="M")),
    "a frame of intervals": frame(pd.interval_range(0, 2)),
    "a frame of complex": frame([1j, 2]),
    "a sparse frame": frame(pd.arrays.SparseArray([1.0, 0.0])),
    "a frame of long doubles": frame(np.array([1, 2], np.longdouble)),
    "a frame of texts": frame(["x", "y"]),
    "a frame of categories": frame(pd.Categorical(["x", "y"])),
    "a frame with a name twice": pd.DataFrame(X, columns=["a", "a"]),
    "polars series of texts": pl.Series(["x"]),
    "an empty polars frame": pl.DataFrame(),
    "a lazy frame of texts": pl.LazyFrame({"a": ["x"]}),
    "polars objects": pl.DataFrame({"a": pl.Series([object(), object()], dtype=pl.Object), "b": [1, 2]}),
    "polars huge integers": pl.DataFrame({"a": pl.Series([1, 2], dtype=pl.Int128), "b": [1, 2]}),
    "an empty table": pa.table({}),
    "a column": pa.array([1.0, 2.0]),
    "a schema": pa.schema([("a", pa.int8())]),
    "a scalar of arrow": pa.scalar(1.0),
    "dates of arrow": pa.table({"a": pa.array([1, 2], pa.timestamp("s")), "b": [1, 2]}),
    "maps": pa.table({"a": pa.array([[("k", 1.0)]], pa.map_(pa.string(), pa.float64())), "b": [1]}),
    "run ends": pa.table({"a": pa.RunEndEncodedArray.from_arrays([1, 2], [1.0, 2.0]), "b": [1, 2]}),
    "a name twice": pa.table([pa.array([1.0]), pa.array([2.0])], names=["a", "a"]),
}  # fmt: skip
UNREADABLE = {
    "a broken array": Broken(),
    "a broken stream": BrokenStream(),
    "a broken iterable": BrokenIterable(),
    "no file": Path("/nowhere/x.csv"),
    "text for a path": "1,2\n3,4",
    "a path with a zero": "a\0b.csv",
    "text for paths": ["1", "2"],
    "nobody's files": "/proc",
}
# By their identities some of these are people, of whom a column is left.
NAMED = {f"a frame of {kind}" for kind in ("objects", "dates", "spans", "texts", "categories")} | {"dates of arrow"}


def first_column(data):
    one = data[0] if isinstance(data, list) else data
    return 0 if isinstance(one, (np.ndarray, list, tuple)) else "a"


@pytest.mark.parametrize("name", RIGHT)
def test_odd_rows_that_are_read_are_the_right_ones(name):
    data, rows, people = RIGHT[name]
    found = np.vstack(list(open_table(data).batches()))
    assert type(found) is np.ndarray
    assert np.array_equal(found, np.asarray(rows, float), equal_nan=True)
    assert es.mean(data, es.Box(0, 9), **BUDGET).plan.n == len(found)
    assert es.mean(data, es.Box(0, 9), privacy_id=first_column(data), **BUDGET).plan.n == people


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_table_of_numbers_is_wrong_usage(name):
    data = REFUSED[name]
    calls = [{}, {"privacy_id": 0}, *([] if name in NAMED else [{"privacy_id": "a"}])]
    for how in calls:
        with pytest.raises(UsageError) as caught:
            es.mean(data, es.Box(0, 9), **how, **BUDGET)
        assert caught.value.__context__ is None


@pytest.mark.parametrize("name", sorted(NAMED))
def test_dates_and_texts_are_identities(name):
    assert es.mean(REFUSED[name], es.Box(0, 9), privacy_id="a", **BUDGET).plan.n == 2


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_is_an_error_of_ours(name):
    for how in ({}, {"privacy_id": 0}, {"privacy_id": "a"}):
        with pytest.raises(DataError) as caught:
            es.mean(UNREADABLE[name], es.Box(0, 9), **how, **BUDGET)
        assert "Xq7secret" not in str(caught.value)
        assert caught.value.__context__ is None


def test_no_rows_are_an_answer_where_their_number_is_private():
    for data in (np.zeros((0, 2)), REFUSED["a frame of no rows"], [np.zeros((0, 2))] * 2):
        for how in ({}, {"privacy_id": first_column(data)}):
            release = es.mean(data, es.Box(0, 9), neighbors="add_remove", n=10, **how, **BUDGET)
            assert np.isfinite(release.value).all()


def test_an_iterable_of_no_batches_is_no_rows_where_names_tell_its_columns():
    """Under "add_remove" the release of no batch is that of one empty batch, and of one row."""
    empty = pa.table({"a": pa.array([], pa.float64()), "b": [], "id": pa.array([], pa.int64())})
    one = pa.table({"a": [1.0], "b": [2.0], "id": [7]})
    for how in ({}, {"privacy_id": "id"}):
        for batches in ([], [empty], [one]):
            release = es.mean(
                iter(batches), es.Box(0, 9), columns=["a", "b"], neighbors="add_remove", n=5, **how, **BUDGET
            )
            assert release.columns == ("a", "b")
            assert np.isfinite(release.value).all()
    named = es.Box(0, 9, columns=["a", "b"])
    assert es.sum(iter([]), named, neighbors="add_remove", n=5, **BUDGET).columns == ("a", "b")
    for columns in (None, ["a"], "a[3]", [0, 1]):  # a release of one row could have another width, or names
        with pytest.raises(DataError, match="iterable of batches is empty"):
            es.mean(iter([]), es.Box(0, 9), columns=columns, neighbors="add_remove", n=5, **BUDGET)
    with pytest.raises(UsageError, match="one-shot"):
        es.mean(iter([]), es.Box(0, 9), columns=["a", "b"], **BUDGET)


def test_categories_of_any_object_are_no_numbers_but_name_people_whatever_they_are():
    for cells in ([1, 2, 3], [1, "a", 3], [1, 2**70, 3]):
        data = frame(pd.Categorical(pd.Series(cells, dtype=object)))
        with pytest.raises(UsageError, match="Column 'a' of data is of type object"):
            es.mean(data, es.Box(0, 9), **BUDGET)
        assert es.mean(data, es.Box(0, 9), privacy_id="a", **BUDGET).plan.n == 3


SIGNALLING = {"f2": 0x7C01, "f4": 0x7F800001, "f8": 0x7FF0000000000001}


def signalling(dtype, rows=400, columns=3, cell=0):
    """Rows, one entry of which is a NaN that raises the processor's flag wherever it is cast or computed with."""
    x = np.random.default_rng(1).normal(size=(rows, columns)).astype(dtype)
    x.view(f"u{x.itemsize}")[7, cell] = SIGNALLING[dtype]
    return x


def in_arrow(x, **more):
    return pa.table({**{"abc"[j]: np.ascontiguousarray(x[:, j]) for j in range(x.shape[1])}, **more})


def beside_doubles(x):
    return in_arrow(x, other=np.ones(len(x)))


FOLDER = tempfile.TemporaryDirectory()  # gone with the module


def in_parquet(x):
    sink = Path(FOLDER.name) / f"{secrets.token_hex(8)}.parquet"
    pq.write_table(beside_doubles(x), sink)
    return sink


def as_lists(x):
    return pa.table({"e": pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), x.shape[1])})


SHAPES = {
    "array": lambda x: x,
    "columns": np.asfortranarray,
    "strides": lambda x: x[:, ::-1],
    "other byte order": lambda x: x.byteswap().view(x.dtype.newbyteorder()),
    "masked": lambda x: np.ma.masked_array(x, np.zeros(x.shape, bool)),
    "batches": lambda x: [x[:20], x[20:]],
    "arrow": in_arrow,
    "arrow, mixed": beside_doubles,
    "parquet, mixed": in_parquet,
    "lists": as_lists,
}
BALL = es.Ball(3.0)
CALLS = {
    "mean": lambda x: es.mean(x, BALL, **BUDGET),
    "add_remove": lambda x: es.mean(x, BALL, neighbors="add_remove", n=400, **BUDGET),
    "people": lambda x: es.mean(x, BALL, privacy_id=first_column(x), neighbors="add_remove", n=400, **BUDGET),
    "unknown": lambda x: es.mean(x, es.Unknown(50.0), epsilon=20, delta=1e-6),
    "friendly": lambda x: es.friendly_mean(x, 8.0, **BUDGET),
    "project": lambda x: es.project(x, 2, BALL, **BUDGET),
}


@pytest.mark.one_in(4)
@pytest.mark.filterwarnings("ignore::ellipsum.projection.forecast.ProjectionWarning")  # of the public plan
@pytest.mark.parametrize("arithmetic", ["warn", "raise"])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("dtype", SIGNALLING)
def test_a_signalling_nan_is_missing_without_a_word(dtype, call, arithmetic):
    """A warning, or an error where the caller's numpy raises, would tell of one cell. Warnings are errors here."""
    for shape in SHAPES:
        if call == "people" and shape == "lists":
            continue
        data = SHAPES[shape](signalling(dtype))
        with np.errstate(all=arithmetic):
            CALLS[call](data)


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")  # rows of 40 columns leave the ball
@pytest.mark.parametrize("dtype", SIGNALLING)
def test_a_signalling_nan_is_silent_in_many_columns_with_axes_and_in_threads(dtype):
    wide = signalling(dtype, columns=40)
    long = signalling(dtype, rows=100_000)
    mixed = np.eye(3) + 0.5
    with np.errstate(all="raise"):
        es.mean(wide, BALL, **BUDGET)
        es.mean(wide[:, ::-1], es.Unknown(50.0), **BUDGET)
        es.mean(signalling(dtype), es.Normal([0.0] * 3, cov=mixed @ mixed), **BUDGET)
        es.learn(signalling(dtype), es.Unknown(50.0), **BUDGET)
        for method in ("coinpress", "instance_optimal", "variance_aware"):
            es.mean(signalling(dtype), es.Unknown(50.0, method=method), **BUDGET)
        es.mean(np.asfortranarray(long), BALL, threads=2, **BUDGET)
        es.mean(long[:, ::-1], es.Unknown(50.0), threads=2, **BUDGET)


@pytest.mark.parametrize("arithmetic", ["warn", "raise"])
@pytest.mark.parametrize("dtype", SIGNALLING)
def test_every_reader_casts_without_a_word(dtype, arithmetic):
    """Threads and workers do not inherit what a call sets: each cast is silent by itself."""
    row_map = es.plan("sum", BALL, n=400, d=3, **BUDGET).row_map
    layout = Layout(("e",), ("a", "b", "c"), True, dtype != "f8")
    for shape, make in SHAPES.items():
        data = make(signalling(dtype))
        with np.errstate(all=arithmetic):
            source = open_source(data, Selection())
            assert np.isnan(source.every()[7, -1 if shape == "strides" else 0]), shape
            source.sample(100, bytes(32))
            if source.width == 3:
                source.total(row_map, threads=2)
    with np.errstate(all=arithmetic):
        accumulate(row_map, [signalling(dtype), signalling(dtype)[:, ::-1]])
        SubsetFold(layout, bytes(32), 100, (1 << 64) - 1).map(0, as_lists(signalling(dtype)).to_batches())
        keys = canonicalize(pa.array(signalling(dtype)[:, 0]), "real")
    assert keys.null_count == 1
    assert canonicalize(pa.array(np.array([0.0, -0.0])), "real").to_numpy().tobytes() == bytes(16)
