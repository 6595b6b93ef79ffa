"""[T9] Which sources have places, and what may be done with rows that have none."""

import sqlite3

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from opening import open_table, session_on
from pyarrow import feather

import ellipsum as es
from ellipsum.friendly.calls import some_rows, subsample_and_aggregate
from ellipsum.projection.parquet import _add_marks
from ellipsum.request.people import People
from ellipsum.sources.people import gather

N = 600
BUDGET = {"epsilon": 200, "delta": 1e-6}


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    who = pa.array([f"p{i:04}" for i in range(n)])
    return pa.table({"a": rng.uniform(size=n), "b": rng.uniform(size=n), "who": who})


def connected(rows):
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (a real, b real)")
    connection.executemany("insert into t values (?, ?)", rows.tolist())
    return connection


def file(folder, name, rows):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        rows.to_pandas().to_csv(path, index=False)
    elif path.suffix == ".parquet":
        pq.write_table(rows, path, row_group_size=50)
    else:
        feather.write_feather(rows, path)
    return path


def marked(folder, mark):
    file(folder, "part-0.parquet", numbers()[:200])
    file(folder, "part-1.parquet", numbers()[200:])
    (folder / mark).write_text("")
    return folder


def lake(folder, parts=2):
    edges = np.linspace(0, N, parts + 1).astype(int)
    for year in range(parts):
        file(folder, f"year={year}/part-0.parquet", numbers()[edges[year] : edges[year + 1]])
    return folder


def numbers():
    return table().select(["a", "b"])


def array():
    return np.stack([numbers()["a"].to_numpy(), numbers()["b"].to_numpy()], axis=1)


def relation():
    rows = numbers()
    return duckdb.connect().from_arrow(rows)


def data_set(folder):
    return ds.dataset(file(folder, "t.parquet", numbers()))


PLACED = {
    "array": lambda _: array(),
    "float32 array": lambda _: array().astype(np.float32),
    "list of arrays": lambda _: [array()[:100], array()[100:]],
    "Arrow table": lambda _: numbers(),
    "record batch": lambda _: numbers().to_batches()[0],
    "pandas": lambda _: numbers().to_pandas(),
    "polars": lambda _: pl.from_arrow(numbers()),
    "list of tables": lambda _: [numbers()[:100], numbers()[100:]],
    "csv": lambda folder: file(folder, "t.csv", numbers()),
    "parquet": lambda folder: file(folder, "t.parquet", numbers()),
    "feather": lambda folder: file(folder, "t.feather", numbers()),
    "files": lambda folder: [file(folder, f"{i}.csv", numbers()[i * 300 : i * 300 + 300]) for i in range(2)],
    "folder": lambda folder: file(folder, "0.parquet", numbers()).parent,
}
UNPLACED = {
    "SQLite": lambda _: es.sql("select a, b from t", connected(array())),
    "DuckDB relation": lambda _: relation(),
    "DuckDB query": lambda _: es.sql("select a, b from r", relation_home()),
    "data set": data_set,
    "filtered data set": lambda folder: data_set(folder).filter(ds.field("a") < 2),
    "scanner": lambda folder: data_set(folder).scanner(),
    "reader": lambda _: numbers().to_reader(),
    "iterator": lambda _: iter([array()[:100], array()[100:]]),
    "iterable": lambda _: dict.fromkeys(range(1), array()).values(),
    "lake": lake,
    "lake of one file": lambda folder: lake(folder, 1),
    "column of a lake": lambda folder: lake(folder),
    "file of a lake": lambda folder: lake(folder) / "year=0" / "part-0.parquet",
    "Spark's folder": lambda folder: marked(folder, "_SUCCESS"),
    "files of Dask": lambda folder: sorted(marked(folder, "_metadata").glob("*.parquet")),
    "list with a relation": lambda _: [numbers(), relation()],
}


def relation_home():
    connection = duckdb.connect()
    connection.execute("create table r (a double, b double)")
    connection.executemany("insert into r values (?, ?)", array().tolist())
    return connection


@pytest.mark.parametrize("kind", PLACED)
def test_sources_with_places(kind, tmp_path):
    assert open_table(PLACED[kind](tmp_path)).ordered is True


@pytest.mark.parametrize("kind", UNPLACED)
def test_sources_without_places(kind, tmp_path):
    columns = ["a", "year"] if kind == "column of a lake" else None
    assert open_table(UNPLACED[kind](tmp_path), columns=columns).ordered is False


def test_people_have_no_places():
    grouped = gather(open_table(table(), key="who"), People("who"))
    assert grouped.ordered is False
    grouped.close()


def own_order(rows):
    """[J9] Sorted by hash, then bits."""
    bits = _add_marks(rows)
    return np.array_equal(bits, bits[np.lexsort(bits.T[::-1])])


@pytest.mark.parametrize("kind", ["array", "csv", "folder", "pandas"])
def test_projections_keep_places(kind, tmp_path):
    how = {"matrix": np.eye(2), "epsilon": 1e12, "delta": 1e-6}
    made = es.project(PLACED[kind](tmp_path), 2, es.Ball(2.0), columns=[0, 1] if kind == "array" else None, **how)
    assert made.ordered
    assert np.abs(made.value - array()).max() < 6 * made.noise_std + 1e-6


@pytest.mark.parametrize(
    "kind", ["SQLite", "DuckDB relation", "filtered data set", "iterator", "lake", "Spark's folder"]
)
def test_projections_of_rows_without_places_come_in_an_order_of_their_own(kind, tmp_path):
    """One row's value may move all others where they are read; where they are published it does not."""
    how = {"matrix": np.eye(2), "epsilon": 1e12, "delta": 1e-6}
    made = es.project(UNPLACED[kind](tmp_path), 2, es.Ball(2.0), output=tmp_path / "made.parquet", **how)
    assert not made.ordered
    assert not es.Projection.load(tmp_path / "made.parquet").ordered
    assert own_order(made.value)
    for j in range(2):
        assert np.abs(np.sort(made.value[:, j]) - np.sort(array()[:, j])).max() < 6 * made.noise_std + 1e-6


def first(block):
    return block[0]


@pytest.mark.parametrize("kind", UNPLACED)
def test_blocks_in_the_order_of_the_source_are_refused(kind, tmp_path):
    with pytest.raises(es.UsageError, match="no stable order for shuffle=False"):
        subsample_and_aggregate(first, UNPLACED[kind](tmp_path), blocks=100, radius=1.0, shuffle=False, **BUDGET)


def test_they_are_refused_before_a_row_is_read():
    connection, said = connected(array()), []
    connection.set_trace_callback(said.append)
    with pytest.raises(es.UsageError, match="no stable order"):
        subsample_and_aggregate(
            first, es.sql("select a, b from t", connection), blocks=100, radius=1.0, shuffle=False, **BUDGET
        )
    assert said
    assert all(text.endswith("limit 0") for text in said)


def test_blocks_in_the_order_of_a_plain_file_are_served(tmp_path):
    path = file(tmp_path, "t.csv", numbers())
    how = {"blocks": 100, "radius": 2.0, "dimension": 2, "shuffle": False, "workers": 1, **BUDGET}
    there, here = (
        subsample_and_aggregate(first, data, rng=np.random.default_rng(1), **how) for data in (path, numbers())
    )
    assert np.array_equal(there.value, here.value)


@pytest.mark.parametrize("kind", ["array", "SQLite", "reader"])
def test_subsets_are_drawn_anew_for_every_call(kind, tmp_path):
    """[F7] Whatever the source's order, which rows a subset keeps is a fresh secret."""
    open_ = {**PLACED, **UNPLACED}[kind]
    drawn = [some_rows(session_on(open_(tmp_path)), 50).read() for _ in range(2)]
    assert all(len(rows) == 50 for rows in drawn)
    assert not np.array_equal(*(np.sort(rows[:, 0]) for rows in drawn))
