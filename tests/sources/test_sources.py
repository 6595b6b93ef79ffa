"""Data sets, queries, embeddings: the same release from every source, and failures that say nothing."""

import os
import sqlite3
import subprocess
import sys
import threading
import traceback
import warnings
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from opening import open_table

import ellipsum as es
from ellipsum.errors import DataError, EllipsumError, UsageError
from ellipsum.projection.parquet import _add_marks
from ellipsum.releases.learning_record import METHODS
from ellipsum.sources.paths import check_apart
from ellipsum.sources.sql import Query, sql

# It is the reading that is tried here, on fewer rows than learned bounds need.
pytestmark = pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")

SENTINEL = "Xq7secret"
NAN = float("nan")
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def rows_of(data, columns=None):
    table = open_table(data, columns)
    blocks = list(table.batches())
    rows = np.vstack([np.empty((0, table.width)), *blocks]).astype(np.float64)
    assert table.rows() == len(rows)
    assert open_table(data, columns).rows() == len(rows)  # counted without a pass before
    return rows


def equal(left, right):
    return np.array_equal(np.asarray(left, float), np.asarray(right, float), equal_nan=True)


def assert_silent(caught):
    error = caught.value
    assert isinstance(error, EllipsumError)
    assert SENTINEL not in "".join(traceback.format_exception(error, chain=True))
    assert error.__cause__ is None
    assert error.__context__ is None or isinstance(error.__context__, EllipsumError)


# --- every source, one release ------------------------------------------------------------------


def numbers():
    """Rows (id, year, a, b, c) with gaps, in the order of years, as in a folder of years; identities of equal length
    have the same order as numbers and as text."""
    rng = np.random.default_rng(0)
    n = 1200
    values = rng.normal(size=(n, 3))
    values[rng.random((n, 3)) < 0.05] = NAN
    return np.column_stack([rng.integers(1000, 1300, n), np.sort(rng.integers(2020, 2024, n)), values])


def everything(folder):
    """The same rows as every kind of source."""
    array = numbers()
    table = pa.table(
        {
            "id": array[:, 0].astype(int),
            "year": array[:, 1].astype(int),
            **{c: pa.array(array[:, 2 + j], from_pandas=True) for j, c in enumerate("abc")},
        }
    )
    pq.write_table(table, folder / "t.parquet", row_group_size=500)
    feather.write_feather(table, folder / "t.feather")
    pa_csv.write_csv(table, folder / "t.csv")
    ds.write_dataset(
        table,
        folder / "lake",
        format="parquet",
        partitioning=ds.partitioning(pa.schema([("year", pa.int64())]), flavor="hive"),
        use_threads=False,
    )
    (folder / "csvs").mkdir()
    for part in range(3):
        pa_csv.write_csv(table.slice(400 * part, 400), folder / "csvs" / f"{part}.csv")
    con = duckdb.connect(folder / "t.db")
    con.register("given", table)
    con.execute("create table t as select * from given")
    con.close()
    lite = sqlite3.connect(folder / "t.sqlite")
    lite.execute("create table t(id integer, year integer, a real, b real, c real)")
    cells = list(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))
    lite.executemany("insert into t values (?, ?, ?, ?, ?)", cells)
    lite.commit()
    memory = duckdb.connect()
    memory.register("given", table)
    extra = table.set_column(1, "year", pa.array(np.full(len(table), 1900)))
    pq.write_table(pa.concat_tables([extra, table]), folder / "more.parquet", row_group_size=300)
    return {
        "arrow": table,
        "batches": table.to_batches(max_chunksize=777),
        "pandas": table.to_pandas(),
        "polars": pl.from_arrow(table),
        "duckdb relation": memory.sql("select * from given"),
        "parquet": folder / "t.parquet",
        "feather": folder / "t.feather",
        "csv": folder / "t.csv",
        "csv folder": folder / "csvs",
        "glob": str(folder / "lake" / "year=*" / "*.parquet"),
        "folder": folder / "lake",
        "data set": ds.dataset(folder / "lake", partitioning="hive"),
        "data set with filter": ds.dataset(folder / "more.parquet").filter(ds.field("year") > 1900),
        "data set in memory": ds.dataset(table),
        "union": ds.dataset([ds.dataset(table.slice(0, 500)), ds.dataset(table.slice(500))]),
        "duckdb file": sql("select * from t", f"duckdb:///{folder}/t.db"),
        "duckdb connection": sql("select * from given", memory),
        "duckdb over files": sql(f"select * from '{folder}/t.parquet'", "duckdb://"),
        "sqlite file": sql("select * from t;", f"sqlite:///{folder}/t.sqlite"),
        "sqlite connection": sql("select * from t -- all of it", lite),
    }


SOURCES = (
    "arrow",
    "batches",
    "pandas",
    "polars",
    "duckdb relation",
    "parquet",
    "feather",
    "csv",
    "csv folder",
    "glob",
    "folder",
    "data set",
    "data set with filter",
    "data set in memory",
    "union",
    "duckdb file",
    "duckdb connection",
    "duckdb over files",
    "sqlite file",
    "sqlite connection",
)
WITH_PLACES = ("arrow", "batches", "pandas", "polars", "parquet", "feather", "csv", "csv folder")
ROWS_PROJECTED = -6  # which of the results of `every_call` is the projection of rows
WIDE = {"epsilon": 8.0, "delta": 1e-6}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    return everything(tmp_path_factory.mktemp("sources"))


def every_call(data, columns, person):
    """What every call of the library publishes under one generator, from these columns of this source."""
    box, chosen = es.Box(-3, 3), {"columns": columns}
    people = {"columns": columns, "privacy_id": person}
    terms = lambda seed: {"rng": np.random.default_rng(seed), **WIDE}  # noqa: E731
    mean = lambda block: np.nanmean(block, axis=0)  # noqa: E731
    # names, or errors of an array would count in other units
    unknown = lambda method="auto": es.Unknown(1e4, columns=["c", "a"], method=method)  # noqa: E731
    yield es.sum(data, box, **chosen, **terms(1)).value
    yield es.mean(data, box, neighbors="add_remove", **chosen, **terms(2)).value
    for seed, method in enumerate(METHODS, 3):
        yield es.mean(data, unknown(method), **chosen, **terms(seed)).value
    yield np.concatenate(es.learn(data, unknown(), **chosen, **terms(20)).ends)
    yield es.friendly_mean(data, 9.0, max_rows=500, **chosen, **terms(21)).value
    yield es.subsample_and_aggregate(mean, data, blocks=60, radius=4.0, dimension=2, **chosen, **terms(22)).value
    yield es.project(data, 2, box, **chosen, **terms(23)).value
    yield es.mean(data, box, **people, **terms(24)).value
    yield es.sum(data, box, columns=columns, privacy_id=es.People(person, "sum", 2), **terms(25)).value
    yield es.mean(data, unknown(), **people, **terms(26)).value
    yield es.friendly_mean(data, 9.0, **people, **terms(27)).value
    yield es.project(data, 2, box, **people, **terms(28)).value


def in_this_process(function, blocks, dimension, **_):
    """Blocks without processes of their own: it is the reading that is tried here."""
    return np.array([function(block) for block in blocks])


@pytest.fixture(scope="module")
def expected():
    warnings.simplefilter("ignore")  # until this setup ends
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ellipsum.friendly.calls.run_blocks", in_this_process)
        return list(every_call(numbers(), [4, 2], 0))


def test_every_source_is_tried(sources):
    assert tuple(sources) == SOURCES


@pytest.mark.one_in(10)
@pytest.mark.filterwarnings("ignore::ellipsum.ProjectionWarning")
@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
@pytest.mark.parametrize("kind", SOURCES)
def test_every_call_publishes_the_same_bits_from_every_source_as_from_an_array(sources, expected, kind, monkeypatch):
    monkeypatch.setattr("ellipsum.friendly.calls.run_blocks", in_this_process)
    ordered = open_table(sources[kind], columns=["c", "a"]).ordered
    assert ordered == (kind in WITH_PLACES)
    for place, got in enumerate(every_call(sources[kind], ["c", "a"], "id")):
        moved = place == len(expected) + ROWS_PROJECTED and not ordered
        want = in_own_order(expected[place]) if moved else expected[place]
        assert got.tobytes() == want.tobytes(), place


def in_own_order(rows):
    """[J9] The order in which a projection publishes rows that have no places."""
    marked = _add_marks(rows)
    return rows[np.lexsort(marked.T[::-1])]


@pytest.mark.parametrize("kind", SOURCES)
def test_progress_of_every_source_ends_at_one(sources, kind):
    for how in ({}, {"privacy_id": "id"}):
        seen = []
        es.sum(sources[kind], es.Box(-3, 3), columns=["a"], progress=seen.append, **how, **BUDGET)
        assert seen == sorted(seen)
        assert seen[-1] == pytest.approx(1.0)


# --- memory and files that change ---------------------------------------------------------------


def refilled(kind, batches=6, rows=40):
    """Batches that a producer fills one after the other into the same memory."""
    buffer, ids = np.empty((rows, 2)), np.empty(rows, np.int64)
    columns = np.empty((2, rows))
    for i in range(batches):
        buffer[:], ids[:], columns[:] = i, i, i
        if kind == "array":
            yield buffer
        elif kind == "single":
            yield buffer[:, ::-1]
        elif kind == "pandas":
            yield pd.DataFrame({"id": ids, "a": columns[0], "b": columns[1]}, copy=False)
        else:
            arrays = [pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(ids)])]
            arrays += [pa.Array.from_buffers(pa.float64(), rows, [None, pa.py_buffer(column)]) for column in columns]
            yield pa.record_batch(arrays, names=["id", "a", "b"])


class Refilled:
    def __init__(self, kind):
        self.kind = kind

    def __iter__(self):
        return refilled(self.kind)


def producers(kind):
    found = [refilled(kind), Refilled(kind)]
    if kind == "arrow":
        schema = next(refilled(kind)).schema
        found.append(pa.RecordBatchReader.from_batches(schema, refilled(kind)))
    return found


@pytest.mark.parametrize("kind", ["array", "single", "pandas", "arrow"])
def test_rows_stay_what_they_were_when_a_producer_fills_its_memory_again(kind):
    named = kind in ("pandas", "arrow")
    for data in producers(kind):
        blocks = list(open_table(data, columns=["a", "b"] if named else None).batches())
        assert equal(np.vstack(blocks), np.repeat(np.arange(6.0), 40)[:, None] * [1, 1])
    for data in producers(kind):
        pieces = list(open_table(data, key="id" if named else 0).pieces())
        whose = [name for keys, _ in pieces for name in keys.to_pylist()]
        assert whose == np.repeat(np.arange(6), 40).tolist()
        assert equal(np.vstack([block for _, block in pieces])[:, 0], whose)


CUT = """
import os, sys
import numpy as np
from ellipsum import DataError
from ellipsum.sources.open import open_table

table = open_table(sys.argv[1])
batches = table.batches()
first = next(batches)
os.truncate(sys.argv[1], 4096)
print(float(np.asarray(first).sum()))
try:
    list(batches)
except DataError as error:
    print(error)
"""


@pytest.mark.parametrize("suffix", ["feather", "arrow"])
def test_a_feather_file_that_is_cut_short_while_it_is_read_is_an_error(tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    table = pa.table({name: np.ones(400_000) for name in "abcd"})
    kind = pa.ipc.new_file if suffix == "feather" else pa.ipc.new_stream
    with kind(str(path), table.schema) as sink:
        sink.write_table(table, max_chunksize=50_000)
    environment = os.environ | {"PYTHONPATH": str(Path(es.__file__).parents[1])}
    words = [sys.executable, "-c", CUT, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=100)
    assert done.returncode == 0, done
    first, error = done.stdout.splitlines()
    assert float(first) == 4 * 50_000
    assert "could not be read" in error or "changed" in error


# --- data sets ----------------------------------------------------------------------------------


def small_lake(folder):
    table = pa.table({"x": np.arange(10.0), "y": np.arange(10.0) * 2, "year": [2020] * 5 + [2021] * 5, "s": ["t"] * 10})
    schema = pa.schema([("year", pa.int64())])
    ds.write_dataset(table, folder, format="parquet", partitioning=ds.partitioning(schema, flavor="hive"))
    return ds.dataset(folder, partitioning="hive")


def test_filters_columns_and_partitions_of_a_data_set(tmp_path):
    data = small_lake(tmp_path / "lake")
    assert equal(rows_of(data, ["y", "x"]), np.c_[np.arange(10) * 2, np.arange(10)])
    assert equal(rows_of(data.filter(ds.field("x") > 6), ["x", "year"]), [[7, 2021], [8, 2021], [9, 2021]])
    assert equal(rows_of(data.filter(ds.field("year") == 2020), ["x"]), np.arange(5)[:, None])
    scanner = data.scanner(columns={"double": ds.field("x") * 2.0}, filter=ds.field("x") < 2)
    assert equal(np.vstack(list(open_table(scanner).batches())), [[0], [2]])
    with pytest.raises(UsageError, match="'s' of the data set is of type string"):
        open_table(data)
    with pytest.raises(UsageError, match="the data set has no column 'z'"):
        open_table(data, ["z"])


def test_names_of_folders_are_columns_when_asked_for(tmp_path):
    small_lake(tmp_path / "lake")
    assert equal(rows_of(tmp_path / "lake", ["year", "x"])[::5], [[2020, 0], [2021, 5]])
    assert equal(rows_of(tmp_path / "lake", ["x"])[:2], [[0], [1]])
    assert open_table(tmp_path / "lake", ["x", "y"]).columns == ("x", "y")
    by_year = es.mean(tmp_path / "lake", es.Box(0, 20), privacy_id="year", columns=["x"], **BUDGET)
    assert by_year.plan.n == 2
    keyed = open_table(tmp_path / "lake", ["x", "y"], key="year")
    assert keyed.columns == ("x", "y")


def test_files_of_a_data_set_that_differ_are_refused(tmp_path):
    small_lake(tmp_path / "lake")
    pq.write_table(pa.table({"x": [1], "y": [2.0]}), tmp_path / "lake" / "year=2021" / "z.parquet")
    data = ds.dataset(tmp_path / "lake", partitioning="hive")
    assert len(rows_of(data, ["y"])) == 11
    with pytest.raises(UsageError, match=r"'x' is of type int64 in .*z\.parquet and of type double"):
        open_table(data, ["x"])
    with pytest.raises(UsageError, match=r"z\.parquet has no column 's'"):
        open_table(data, ["y"], key="s")
    with pytest.raises(UsageError, match=r"z\.parquet"):
        open_table(data.filter(ds.field("y") > 0), ["x"])


def test_a_data_set_of_text_files_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text(f"x\n1\n{SENTINEL}\n")
    with pytest.raises(UsageError, match="Pass the CSV files"):
        open_table(ds.dataset(tmp_path, format="csv"))


ONE_SHOT = {
    "generator": lambda table: (batch for batch in table.to_batches(max_chunksize=100)),
    "reader": lambda table: table.to_reader(max_chunksize=100),
    "scanner": lambda table: ds.dataset(table).scanner(),
    "scanner of batches": lambda table: ds.Scanner.from_batches(table.to_reader(max_chunksize=100)),
    "list": lambda table: [table.slice(0, 100).to_reader(), table.slice(100).to_reader()],
}


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
@pytest.mark.parametrize("kind", ONE_SHOT)
def test_one_pass_of_a_one_shot_source_gives_what_a_table_gives(kind):
    rng = np.random.default_rng(0)
    table = pa.table({"id": rng.integers(0, 250, 900), "a": rng.normal(size=900)})
    plan = es.plan("sum", es.Box(-3, 3), n=900, d=1, **BUDGET)
    for call in (
        lambda data: plan.release(data, columns=["a"], rng=np.random.default_rng(1)),
        lambda data: es.sum(
            data, es.Box(-3, 3), columns=["a"], neighbors="add_remove", rng=np.random.default_rng(2), **BUDGET
        ),
        lambda data: es.mean(data, es.Unknown(1e3), privacy_id="id", rng=np.random.default_rng(3), **BUDGET),
        lambda data: es.friendly_mean(data, 9.0, columns=["a"], rng=np.random.default_rng(4), **BUDGET),
    ):
        assert call(ONE_SHOT[kind](table)).value.tobytes() == call(table).value.tobytes()


@pytest.mark.parametrize("kind", ONE_SHOT)
def test_a_one_shot_source_is_refused_unread_where_several_passes_are_needed(kind):
    table = pa.table({"a": np.linspace(0, 1, 900)})
    for call in (
        lambda data: es.sum(data, es.Box(0, 3), **BUDGET),
        lambda data: es.mean(data, es.Unknown(9.0), **BUDGET),
        lambda data: es.learn(data, es.Unknown(9.0), neighbors="add_remove", **BUDGET),
        lambda data: es.plan("sum", es.Unknown(9.0), n=900, d=1, **BUDGET).release(data),
    ):
        with pytest.raises(UsageError, match="one-shot|single pass|read only once") as caught:
            call(ONE_SHOT[kind](table))
        assert_silent(caught)
    table = open_table(ONE_SHOT[kind](table))
    assert not table.reopenable
    assert sum(map(len, table.batches())) == table.rows() == 900
    with pytest.raises(UsageError, match="read only once"):
        list(table.batches())


def test_a_failing_filter_does_not_speak():
    table = pa.table({"a": [1.0, 2.0], "s": ["1", SENTINEL]})
    data = ds.dataset(table).filter(ds.field("s").cast(pa.int64()) > 0)
    for call in (open_table(data, ["a"]).rows, lambda: list(open_table(data, ["a"]).batches())):
        with pytest.raises(DataError) as caught:
            call()
        assert_silent(caught)


# --- files that change --------------------------------------------------------------------------


def changing(path, kind, rows):
    table = pa.table({"a": np.arange(float(rows)), "b": np.ones(rows)})
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=5000)
    elif kind == "feather":
        feather.write_feather(table, path, chunksize=5000)
    else:
        pa_csv.write_csv(table, path)


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv", "data set", "data set of feather"])
@pytest.mark.parametrize("change", ["same size", "same time"])
def test_a_file_that_changed_gives_no_row(tmp_path, kind, change):
    """Its size, or its time, is enough to tell."""
    name = {"data set": "parquet", "data set of feather": "feather"}.get(kind, kind)
    path = tmp_path / f"t.{name}"
    changing(path, name, 1000)
    before = path.stat()
    table = open_table(ds.dataset(path, format=name) if "data set" in kind else path)
    assert table.rows() == sum(map(len, table.batches())) == 1000
    if change == "same size":
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))
    else:
        changing(path, name, 2000)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(DataError, match=r"changed|could not be read"):
        next(table.batches())


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv", "data set"])
@pytest.mark.parametrize("change", ["grows", "gone"])
def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path, kind, change):
    name = "parquet" if kind == "data set" else kind
    path = tmp_path / f"t.{name}"
    changing(path, name, 400_000)
    table = open_table(ds.dataset(path) if kind == "data set" else path)
    batches = table.batches()
    next(batches)
    if change == "gone":
        path.unlink()
    else:
        changing(tmp_path / "other", name, 500_000)
        os.replace(tmp_path / "other", path)
    with pytest.raises(DataError, match=r"changed|could not be read"):
        list(batches)
    with pytest.raises(DataError, match=r"changed|could not be read"):
        list(table.batches())


PUBLISH = {
    "sum": lambda data, **how: es.sum(data, es.Box(0, 1), columns=["a", "b"], count_clipped=False, **how, **BUDGET),
    "unknown": lambda data, **how: es.mean(data, es.Unknown(10.0), columns=["a", "b"], **how, **BUDGET),
    "people": lambda data, **how: es.mean(data, es.Box(0, 1), columns=["a"], privacy_id="b", **how, **BUDGET),
    "friendly": lambda data, **how: es.friendly_mean(data, 9.0, columns=["a", "b"], **how, **BUDGET),
    "project": lambda data, **how: es.project(data, 1, es.Box(0, 1), columns=["a", "b"], **how, **BUDGET),
}


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        *((kind, call) for kind in ("parquet", "feather", "csv", "data set", "folder") for call in ("sum", "unknown")),
        *((kind, "people") for kind in ("parquet", "feather", "csv", "data set", "folder")),
    ],
)
@pytest.mark.parametrize("change", ["grows", "gone"])
def test_a_release_of_a_file_that_changes_publishes_nothing(tmp_path, kind, change, call):
    name = {"data set": "parquet", "folder": "parquet"}.get(kind, kind)
    (tmp_path / "lake").mkdir()
    path = tmp_path / "lake" / f"z.{name}"
    changing(path, name, 300_000)
    if kind == "folder":
        changing(tmp_path / "lake" / "a.parquet", name, 10)
    done = []

    def change_it(fraction):
        if not done and (fraction > 0 or call != "unknown"):  # before the only pass, or between two
            done.append(change)
            changing(tmp_path / "other", name, 300_001)
            os.replace(tmp_path / "other", path)
            if change == "gone":
                path.unlink()

    data = {"data set": lambda: ds.dataset(path), "folder": lambda: path.parent}.get(kind, lambda: path)()
    with pytest.raises(DataError, match=r"changed|could not be read") as caught:
        PUBLISH[call](data, progress=change_it)
    assert done
    assert_silent(caught)


@pytest.mark.filterwarnings("ignore::ellipsum.ProjectionWarning")
@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
@pytest.mark.parametrize("call", PUBLISH)
@pytest.mark.parametrize("kind", ["parquet", "feather", "csv"])
def test_a_file_that_is_damaged_among_others_publishes_nothing(tmp_path, kind, call):
    for name in "xyz":
        changing(tmp_path / f"{name}.{kind}", kind, 1000)
    PUBLISH[call](tmp_path)
    whole = (tmp_path / f"y.{kind}").read_bytes()
    for damage, said in (
        (b"", "empty"),
        (b"\x00" * 64 + SENTINEL.encode() * 99, "could not be read|has no column|lines"),
    ):
        (tmp_path / f"y.{kind}").write_bytes(damage)
        with pytest.raises((DataError, UsageError), match=rf"y\.{kind}.*({said})") as caught:
            PUBLISH[call](tmp_path)
        if damage == b"":
            assert_silent(caught)
    if kind != "csv":  # a shorter text is a text
        (tmp_path / f"y.{kind}").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(DataError, match=rf"y\.{kind} could not be read") as caught:
            PUBLISH[call](tmp_path)
        assert_silent(caught)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"a": [1.0]}, "2.parquet has no column 'b'"),
        ({"a": [1.0], "b": [SENTINEL]}, "'b' of .*2.parquet is of type string"),
        ({"a": [1.0], "b": [[1.0]]}, "'b' of .*2.parquet is of type list"),
        ({"a": [1.0], "c": [1.0]}, "2.parquet has no column 'b'"),
    ],
    ids=str,
)
@pytest.mark.parametrize("call", PUBLISH)
def test_files_of_other_columns_are_refused(tmp_path, call, second, said):
    pq.write_table(pa.table({"a": [1.0] * 300, "b": np.arange(300)}), tmp_path / "1.parquet")
    pq.write_table(pa.table(second), tmp_path / "2.parquet")
    said = said.replace("is of type list", "is of type list|Use a column of whole") if call == "people" else said
    said = "one person could count as two" if call == "people" and second.get("b") == [SENTINEL] else said
    with pytest.raises(UsageError, match=said) as caught:
        PUBLISH[call](tmp_path)
    assert_silent(caught)


def test_files_may_differ_in_order_types_and_format(tmp_path):
    pq.write_table(pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": [6], "a": [5]}), tmp_path / "2.parquet")
    (tmp_path / "3.csv").write_text("b,a\n8,7\n")
    pq.write_table(pa.table({"a": pa.array([], pa.float32()), "b": pa.array([], pa.int8())}), tmp_path / "4.parquet")
    (tmp_path / "5.csv").write_text("a,b\n")
    assert equal(rows_of(tmp_path), [[1, 3], [2, 4], [5, 6], [7, 8]])
    with pytest.raises(UsageError, match="no rows"):
        es.sum([tmp_path / "4.parquet", tmp_path / "5.csv"], es.Box(0, 1), **BUDGET)
    empty = es.sum([tmp_path / "4.parquet", tmp_path / "5.csv"], es.Box(0, 1), neighbors="add_remove", **BUDGET)
    assert np.isfinite(empty.value).all()


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "csv", "pandas", "data set"])
def test_rows_that_name_nobody_are_left_out(tmp_path, kind):
    ids = ["ann", None, "bob", None, "ann"]
    table = pa.table({"id": ids, "a": [1.0, 2.0, 3.0, 4.0, 5.0]})
    if kind == "sqlite":
        con = sqlite3.connect(":memory:")
        con.execute("create table t(id text, a real)")
        con.executemany("insert into t values (?, ?)", zip(ids, table["a"].to_pylist(), strict=True))
    else:
        con = duckdb.connect()
        con.register("t", table)
    pa_csv.write_csv(table, tmp_path / "t.csv")
    data = {"csv": tmp_path / "t.csv", "pandas": table.to_pandas(), "data set": ds.dataset(table)}
    asked = data.get(kind, sql("select * from t", con))
    found = es.sum(asked, es.Box(0, 9), privacy_id="id", rng=np.random.default_rng(0), **BUDGET)
    assert found.plan.n == 2
    plain = es.sum(np.array([[3.0], [3.0]]), es.Box(0, 9), rng=np.random.default_rng(0), **BUDGET)
    assert found.value.tolist() == plain.value.tolist()


def test_batches_that_differ_publish_nothing():
    good = pa.table({"a": np.linspace(0, 1, 50), "b": np.arange(50)})
    text = good.set_column(1, "b", pa.array([SENTINEL] * 50))
    for bad in (good.select(["a"]), good.rename_columns(["a", "c"]), text):
        for data in ([good, bad], (batch for batch in (good, bad))):
            with pytest.raises(UsageError) as caught:
                es.mean(data, es.Box(0, 1), neighbors="add_remove", **BUDGET)
            assert_silent(caught)


@pytest.mark.parametrize(
    ("mark", "below"),
    [
        ("_delta_log/00000000000000000000.json", "part-0.parquet"),
        ("_delta_log/00000000000000000000.json", "year=2020/part-0.parquet"),
        ("_delta_log/00000000000000000000.json", "aB/part-0.parquet"),
        (".hoodie/hoodie.properties", "2020/part-0.parquet"),
        ("metadata/v1.metadata.json", "data/year=2020/part-0.parquet"),
    ],
)
def test_files_of_a_table_format_are_not_its_rows(tmp_path, mark, below):
    home = tmp_path / "home"
    for path in (home / mark, home / below):
        path.parent.mkdir(parents=True, exist_ok=True)
    (home / mark).write_text("{}")
    pq.write_table(pa.table({"a": [1.0, 2.0]}), home / below)
    (tmp_path / "link").symlink_to(home)
    for data in (home, home / below, str(home / "**" / "*.parquet"), [str(home / below)], tmp_path, tmp_path / "link"):
        with pytest.raises(UsageError, match="is a Delta, Hudi or Iceberg table"):
            open_table(data)
    for columns in (["year", "a"], ["a"]):
        with pytest.raises(UsageError, match="Iceberg"):
            open_table(home, columns)


def test_folders_called_data_and_metadata_are_ordinary(tmp_path):
    for name in ("data/t.parquet", "metadata/notes.parquet"):
        (tmp_path / name).parent.mkdir()
        pq.write_table(pa.table({"a": [1.0]}), tmp_path / name)
    assert open_table(tmp_path).rows() == 2


# --- queries ------------------------------------------------------------------------------------


def test_queries_choose_order_and_take_parameters(tmp_path):
    con = duckdb.connect(tmp_path / "t.db")
    con.execute("create table t as select i as \"a b\", i * 2.5 as c, 'x' as s from range(6) r(i)")
    con.close()
    where = f"duckdb:///{tmp_path}/t.db"
    assert equal(rows_of(sql("select * from t", where), ["c", "a b"])[:2], [[0, 0], [2.5, 1]])
    assert equal(rows_of(sql('select * from t where "a b" > ?', where, [3]), ["c"]), [[10], [12.5]])
    with pytest.raises(UsageError, match="'s' of the query is of type string"):
        open_table(sql("select * from t", where))
    with pytest.raises(UsageError, match="the query has no column"):
        open_table(sql("select c from t", where), ["s"])


def test_decimals_huge_integers_and_lists_of_duckdb():
    text = (
        "select 1.25::decimal(9,2) a, (2::hugeint ** 126)::hugeint b, [1, 2]::float[2] v, [1.0, 2.0, 3.0]::double[] w"
    )
    query = sql(
        f"{text} union all select null, -170141183460469231731687303715884105727::hugeint, null, [9.0]", "duckdb://"
    )
    assert equal(rows_of(query, ["a", "b"]), [[1.25, 2.0**126], [NAN, -(2.0**127)]])
    largest = sql("select 340282366920938463463374607431768211455::uhugeint as a", "duckdb://")
    assert equal(rows_of(largest), [[2.0**128]])  # as a decimal of 128 bits it would be -1
    assert equal(rows_of(query, ["v"]), [[1, 2], [NAN, NAN]])
    assert equal(rows_of(query, "w[3]"), [[1, 2, 3], [NAN] * 3])
    table = open_table(query, ["a"], key="b")
    assert len({key for keys, _ in table.pieces() for key in keys.to_pylist()}) == 2


def test_huge_integers_of_a_relation_or_in_lists_are_their_nearest_doubles():
    """DuckDB hands them to Arrow as decimals of 128 bits: the largest would be -1."""
    duck = duckdb.connect()
    text = "select 340282366920938463463374607431768211455::uhugeint as a, 3::hugeint as b, "
    text += "[a, null] as v, [a, 1]::uhugeint[2] as w, sum(5) over () as c"
    for data in (sql(text, duck), duck.sql(text)):
        assert equal(rows_of(data, ["a", "b", "c"]), [[2.0**128, 3, 5]])
        assert equal(rows_of(data, "v[2]"), [[2.0**128, NAN]])
        assert equal(rows_of(data, ["w"]), [[2.0**128, 1]])


def test_folders_of_text_files_name_no_columns(tmp_path):
    for year in (2020, 2021):
        (tmp_path / f"year={year}").mkdir()
        (tmp_path / f"year={year}" / "t.csv").write_text("a,b\n1,2\n")
    for how in ({"columns": ["a", "year"]}, {"columns": ["a"], "key": "year"}):
        with pytest.raises(UsageError, match="text files, whose folders name no columns, but 'year'"):
            open_table(tmp_path, **how)
    assert equal(rows_of(tmp_path, ["a"]), [[1], [1]])


def test_cells_of_sqlite_are_numbers_or_missing(tmp_path):
    con = sqlite3.connect(tmp_path / "t.sqlite")
    con.execute("create table t(a, k)")
    cells = [(1, 7), (2.5, "7"), ("3", None), (None, None), (SENTINEL, "x"), (b"4", b"x"), (2**62 + 1, 7)]
    con.executemany("insert into t values (?, ?)", cells)
    con.commit()
    query = sql("select * from t", f"sqlite:///{tmp_path}/t.sqlite")
    assert equal(rows_of(query, ["a"])[:, 0], [1, 2.5, NAN, NAN, NAN, NAN, 2.0**62])
    ((keys, _),) = open_table(query, ["a"], key="k").pieces()
    assert keys.to_pylist() == [b"7", b"7", None, None, b"x", b"x", b"7"]


def test_a_query_is_run_again_in_one_transaction(tmp_path):
    path = tmp_path / "t.sqlite"
    con = sqlite3.connect(path)
    con.execute("pragma journal_mode = wal")
    con.execute("create table t(a real)")
    con.executemany("insert into t values (?)", [(float(i),) for i in range(10)])
    con.commit()
    table = open_table(sql("select * from t", f"sqlite:///{path}"))
    assert table.rows() == 10
    con.execute("insert into t values (99)")
    con.commit()
    assert len(np.vstack(list(table.batches()))) == 10


def test_a_database_that_changed_between_count_and_pass_publishes_nothing():
    con = duckdb.connect()
    con.execute("create table t as select i::double a from range(1000) r(i)")
    plan = es.plan("sum", es.Box(0, 1000), n=1000, d=1, **BUDGET)
    con.execute("insert into t values (1)")
    with pytest.raises(UsageError, match="made for 1,000 rows, but the data has 1,001"):
        plan.release(sql("select a from t", con))


def failing():
    lite = sqlite3.connect(":memory:", check_same_thread=False)

    def cell(value):
        raise ValueError(SENTINEL)

    lite.create_function("cell", 1, cell)
    closed = duckdb.connect()
    closed.close()
    return {
        "cast": sql(f"select cast(x as double) as x from (values ('1'), ('{SENTINEL}')) t(x)", "duckdb://"),
        "function": sql("select cell(1) as x", lite),
        "syntax": sql(f"selekt '{SENTINEL}'", "duckdb://"),
        "no table": sql(f"select * from {SENTINEL}", "sqlite:////dev/null"),
        "write": sql("create table u(x integer)", "sqlite:////dev/null"),
        "closed": sql("select 1 as x", closed),
        "no file": sql("select 1", "duckdb:////nowhere/t.db"),
        "no file either": sql("select 1", "sqlite:////nowhere/t.db"),
    }


@pytest.mark.parametrize(
    "kind", ["cast", "function", "syntax", "no table", "write", "closed", "no file", "no file either"]
)
def test_a_database_that_fails_does_not_speak(kind):
    with pytest.raises(DataError, match=r"query failed|could not be opened") as caught:
        es.sum(failing()[kind], es.Box(0, 1), **BUDGET)
    assert_silent(caught)


STACKED = (
    "select a from t; drop table t",
    "select a from t; select a from t",
    "select a from t) as q; drop table t; select * from (select 1 as a",
    "select a from t) as q, (select 1 as b",
    "drop table t",
    "insert into t values (2.0)",
    "delete from t",
)


@pytest.mark.parametrize("text", STACKED)
def test_a_query_is_one_select_and_nothing_else(tmp_path, text):
    duck, lite = duckdb.connect(), sqlite3.connect(":memory:", isolation_level=None)
    named = duckdb.connect(str(tmp_path / "t.db"))
    for connection in (duck, lite, named):
        connection.execute("create table t(a double)")
        connection.execute("insert into t values (1.0)")
    named.close()
    for place in (duck, lite, f"duckdb:///{tmp_path / 't.db'}"):
        with pytest.raises((UsageError, DataError), match=r"one SELECT statement|query failed") as caught:
            es.sum(sql(text, place), es.Box(0, 1), **BUDGET)
        assert_silent(caught)
    for connection in (duck, lite, duckdb.connect(str(tmp_path / "t.db"), read_only=True)):
        assert connection.execute("select a from t").fetchall() == [(1.0,)]


def test_selects_of_every_form_are_queries():
    duck, lite = duckdb.connect(), sqlite3.connect(":memory:")
    both = (
        "with q as (select 1.0 as a) select * from q",
        "values (1.0)",
        "select 1.0 as a -- ;",
        "select ';' < 'a' as a;;",
    )
    for text in (*both, "from (select 1.0 as a)"):
        assert rows_of(sql(text, duck)).tolist() == [[1.0]]
    for text in both:
        assert rows_of(sql(text, lite)).tolist() == [[1.0]]
    assert rows_of(sql("select ? as a, ? as b", lite, [1, 2])).tolist() == [[1.0, 2.0]]


def test_a_password_in_an_address_is_warned_of_and_not_repeated(capsys):
    from ellipsum.apps.cli.requests import warn_of_password

    for address in ("postgresql://me:hunter2@host/db", "postgresql://host/db?user=me&password=hunter2"):
        warn_of_password(address)
        told = capsys.readouterr().err
        assert "hunter2" not in told
        assert all(word in told for word in ("warning: ", "PGPASSWORD", "~/.pgpass", "service"))
    for address in ("postgresql://me@host/db", "postgresql://?service=mine", "sqlite:///t.db", "duckdb://"):
        warn_of_password(address)
        assert capsys.readouterr().err == ""


def test_a_connection_that_is_lost_midway_is_an_error():
    con = sqlite3.connect(":memory:")
    con.execute("create table t(a real)")
    con.executemany("insert into t values (?)", [(float(i),) for i in range(200_000)])
    table = open_table(sql("select a from t", con))
    batches = table.batches()
    next(batches)
    con.close()
    with pytest.raises(DataError) as caught:
        list(batches)
    assert_silent(caught)


def test_addresses_that_are_refused_are_not_repeated():
    for address in ("mysql://me:hunter2@host/db", "people.db", 3, None):
        with pytest.raises(UsageError, match="database must be") as caught:
            sql("select 1", address)
        assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(sql("select 1", "postgresql://me:hunter2@host/db"))
    with pytest.raises(UsageError, match="text of a query"):
        sql(" ; ", "duckdb://")
    assert isinstance(sql("select 1", "duckdb://"), Query)


def test_postgresql_without_its_driver_says_what_to_install():
    try:
        import adbc_driver_postgresql  # noqa: F401
    except ImportError:
        with pytest.raises(UsageError, match=r"pip install 'ellipsum\[postgresql\]'"):
            open_table(sql("select 1", "postgresql://localhost/x"))


# --- embeddings ---------------------------------------------------------------------------------


def embeddings():
    cells = [[1, 2, 3], None, [4, None, 6], [7, 8], [7, 8, 9, 10], [], [NAN, 1, 2]]
    expected = [[1, 2, 3], [NAN] * 3, [4, NAN, 6], [NAN] * 3, [NAN] * 3, [NAN] * 3, [NAN, 1, 2]]
    return cells, np.array(expected)


@pytest.mark.parametrize("value", [pa.float32(), pa.float64(), pa.int16()], ids=str)
@pytest.mark.parametrize("lists", [pa.list_, pa.large_list], ids=lambda f: f.__name__)
def test_lists_that_are_declared_to_be_rows(tmp_path, lists, value):
    cells, expected = embeddings()
    if value == pa.int16():
        cells, expected = cells[:-1], expected[:-1]
    table = pa.table({"v": pa.array(cells, lists(value)), "s": ["t"] * len(cells)})
    assert equal(rows_of(table, "v[3]"), expected)
    assert equal(rows_of(table.slice(2, 3), ["v[3]"]), expected[2:5])
    assert open_table(table, "v[3]").columns == ("v[0]", "v[1]", "v[2]")
    with pytest.raises(UsageError, match=r"columns='v\[384\]'"):
        open_table(table, "v")
    with pytest.raises(UsageError, match="not a number"):
        open_table(table, "s[3]")


def test_declared_lists_of_every_source(tmp_path):
    cells, expected = embeddings()
    table = pa.table({"v": pa.array(cells, pa.list_(pa.float64())), "id": list("aabbccd")})
    pq.write_table(table, tmp_path / "a.parquet", store_schema=False)
    pq.write_table(table, tmp_path / "b.parquet")
    feather.write_feather(table, tmp_path / "t.feather")
    con = duckdb.connect()
    con.register("given", table)
    for data in (
        tmp_path / "a.parquet",
        tmp_path / "t.feather",
        ds.dataset(tmp_path / "a.parquet"),
        pl.from_arrow(table),
        table.to_pandas(types_mapper=pd.ArrowDtype),
        con.sql("select * from given"),
        sql("select * from given", con),
        [table.slice(0, 3), table.slice(3)],
    ):
        assert equal(rows_of(data, "v[3]"), expected), data
        release = es.mean(data, es.Ball(9), columns="v[3]", privacy_id="id", **BUDGET)
        assert release.columns == ("v[0]", "v[1]", "v[2]")
    assert equal(rows_of(tmp_path / "*.parquet", "v[3]"), np.vstack([expected, expected]))


def test_a_fixed_length_and_a_declared_one_must_agree():
    table = pa.table({"v": pa.array([[1, 2]], pa.list_(pa.float32(), 2)), "w[9]": [1.0]})
    assert equal(rows_of(table, "v[2]"), rows_of(table, "v"))
    assert equal(rows_of(table, "w[9]"), [[1]])  # a column of that very name
    with pytest.raises(UsageError, match="declares lists of 3"):
        open_table(table, "v[3]")
    with pytest.raises(UsageError, match=r"'v\[2\]'"):
        open_table(table, ["v[2]", "w[9]"])  # only one list can be the row


# --- many files at once -------------------------------------------------------------------------


def test_small_files_are_decoded_side_by_side_in_their_order(tmp_path):
    for i in range(40):
        pq.write_table(pa.table({"a": np.full(1000, float(i)), "b": np.arange(1000.0)}), tmp_path / f"{i:02}.parquet")
    rows = rows_of(tmp_path)
    assert equal(rows[:, 0], np.repeat(np.arange(40.0), 1000))
    batches = open_table(tmp_path).batches()
    next(batches)
    names = {thread.name for thread in threading.enumerate()}
    assert "ellipsum-read" in names
    batches.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "ellipsum-read"]


def test_an_output_is_none_of_the_inputs(tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("a\n1\n")
    link = tmp_path / "link.parquet"
    link.symlink_to(rows)
    for data in (rows, str(tmp_path), [rows], es.csv(rows, header=True), sql(f"from '{rows}'", "duckdb://")):
        with pytest.raises(UsageError, match="is an input"):
            check_apart(link, data)
    check_apart(tmp_path / "new.parquet", rows)
