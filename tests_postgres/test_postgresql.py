"""Queries over a real PostgreSQL server: the same bits as everywhere else, and failures that say nothing."""

import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from adbc_driver_postgresql import dbapi

import ellipsum as es
from ellipsum.errors import DataError, EllipsumError, UsageError
from ellipsum.sources.open import open_table
from ellipsum.sources.selection import Selection
from ellipsum.sources.sql import SqlTable, sql

SENTINEL = "Xq7secret"
NAN = float("nan")
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
SOURCE = str(Path(es.__file__).parents[1])


def run(address, *statements):
    with dbapi.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def rows_of(data, columns=None):
    table = open_table(data, Selection(columns))
    rows = np.vstack([np.empty((0, table.width)), *table.batches()]).astype(np.float64)
    assert table.rows() == len(rows)
    assert open_table(data, Selection(columns)).rows() == len(rows)
    return rows


def equal(left, right):
    return np.array_equal(np.asarray(left, float), np.asarray(right, float), equal_nan=True)


def assert_silent(caught):
    assert isinstance(caught.value, EllipsumError)
    assert SENTINEL not in "".join(traceback.format_exception(caught.value, chain=True))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.fixture(scope="module")
def people(address):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4000, 3))
    values[rng.random((4000, 3)) < 0.05] = NAN
    columns = {name: pa.array(values[:, j], from_pandas=True) for j, name in enumerate("abc")}
    table = pa.table({"id": rng.integers(0, 900, 4000), **columns})
    with dbapi.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("people", table, mode="replace")
    return table


def releases(data):
    terms = {"columns": ["c", "a"], **BUDGET}
    box = es.Box(-3, 3)
    return [
        es.sum(data, box, rng=np.random.default_rng(1), **terms),
        es.mean(data, box, neighbors="add_remove", rng=np.random.default_rng(2), **terms),
        es.mean(data, es.Unknown(1e4), rng=np.random.default_rng(3), **terms),
        es.mean(data, box, privacy_id="id", rng=np.random.default_rng(4), **terms),
        es.sum(
            data, box, privacy_id=es.People("id", per_person="sum", max_rows=2), rng=np.random.default_rng(5), **terms
        ),
    ]


def test_the_same_releases_to_the_last_bit(address, people):
    for got, want in zip(releases(sql("select * from people", address)), releases(people), strict=True):
        assert got.value.tobytes() == want.value.tobytes()
        assert got.columns == ("c", "a")


def test_numbers_of_every_type(address):
    text = """select 1::smallint a, 2::bigint b, 1.5::real c, 0.1::numeric d, true e, null::double precision f,
        'NaN'::float8 g, 12345678901234567890.123::numeric(30,3) h"""
    expected = [[1, 2, 1.5, 0.1, 1, NAN, NAN, 12345678901234567890.123]]
    assert equal(rows_of(sql(text, address)), expected)
    beyond = """select '1e400'::numeric a, '-1e400'::numeric b, '1e-400'::numeric c, 'NaN'::numeric d,
        'Infinity'::numeric e, '1.7976931348623157e308'::numeric f, '5e-324'::numeric g"""
    assert equal(rows_of(sql(beyond, address)), [[NAN, NAN, 0, NAN, NAN, 1.7976931348623157e308, 5e-324]])
    for column in ("'x'::text", "now()", "'{}'::jsonb", "gen_random_uuid()"):
        with pytest.raises(UsageError, match="not a number"):
            open_table(sql(f"select {column} as s", address))


def test_numerics_are_the_nearest_doubles(address):
    values = np.random.default_rng(6).integers(0, 2**63, 500).view(np.float64)
    values = values[np.isfinite(values) & (np.abs(values) > 1e-290)]
    cells = ", ".join(f"('{value!r}'::numeric)" for value in values.tolist())
    assert equal(rows_of(sql(f"select * from (values {cells}) t(a)", address))[:, 0], values)


def test_arrays_are_embeddings(address):
    text = "select * from (values (array[1, 2, 3]::real[]), (null), (array[1, null, 3]), ('{7}')) t(v)"
    rows = rows_of(sql(text, address), "v[3]")
    assert equal(rows, [[1, 2, 3], [NAN] * 3, [1, NAN, 3], [NAN] * 3])


@pytest.mark.parametrize("kind", ["bigint", "text", "numeric", "date", "uuid"])
def test_people_by_identities_of_every_type(address, kind):
    names = {
        "bigint": ("7", "8"),
        "text": ("'ann'", "'bob'"),
        "numeric": ("1.0", "2.00"),
        "date": ("'2020-01-01'", "'2020-01-02'"),
        "uuid": ("'00000000-0000-0000-0000-000000000001'", "'00000000-0000-0000-0000-000000000002'"),
    }[kind]
    again = "1.000" if kind == "numeric" else names[0]
    cells = f"({names[0]}::{kind}, 1.0), ({names[1]}::{kind}, 10.0), ({again}::{kind}, 3.0), (null, 50.0)"
    query = sql(f"select * from (values {cells}) t(id, x)", address)
    release = es.sum(query, es.Box(0, 100), privacy_id="id", rng=np.random.default_rng(0), **BUDGET)
    plain = es.sum(np.array([[2.0], [10.0]]), es.Box(0, 100), rng=np.random.default_rng(0), **BUDGET)
    assert release.value.tolist() == plain.value.tolist()


def test_parameters_columns_and_comments(address):
    query = sql('select g as "a b", g * 2 as c from generate_series(1, 9) g where g > $1; ', address, [6])
    assert equal(rows_of(query, ["c", "a b"]), [[14, 7], [16, 8], [18, 9]])
    assert equal(rows_of(sql("select 1 as a -- one", address)), [[1]])
    with pytest.raises(UsageError, match="the query has no column"):
        open_table(query, Selection(["z"]))


def test_all_passes_see_one_state_of_the_database(address):
    run(
        address,
        "drop table if exists moving",
        "create table moving as select g::float8 a from generate_series(1, 10) g",
    )
    table = open_table(sql("select a from moving", address))
    assert table.rows() == 10
    run(address, "insert into moving values (99)", "delete from moving where a < 3")
    assert equal(np.vstack(list(table.batches()))[:, 0], np.arange(1, 11))
    assert equal(np.vstack(list(table.batches()))[:, 0], np.arange(1, 11))


def test_a_plan_for_another_count_publishes_nothing(address, people):
    plan = es.plan("sum", es.Box(-3, 3), n=3999, d=1, **BUDGET)
    with pytest.raises(UsageError, match="made for 3,999 rows, but the data has 4,000"):
        plan.release(sql("select a from people", address))


@pytest.mark.parametrize(
    "text",
    [
        "with x as (delete from people returning a) select a from x",
        "select a from people; drop table people",
        "select a from people; select a from people",
        "select a from people) as q; commit; drop table people; select * from (select 1.0 as a",
        "select a from people) as q, (select 1 as b",
        "drop table people",
    ],
)
def test_a_query_is_one_select_and_cannot_write(address, people, text):
    with pytest.raises(DataError, match="query failed") as caught:
        es.sum(sql(text, address), es.Box(-3, 3), **BUDGET)
    assert_silent(caught)
    assert rows_of(sql("select a from people", address)).shape == (4000, 1)


@pytest.mark.parametrize(
    "text",
    [
        f"select cast(x as float8) as x from (values ('1'), ('{SENTINEL}')) t(x)",
        f"select * from {SENTINEL}",
        f"selekt '{SENTINEL}'",
        "select 1 / (g - 200000) as x from generate_series(1, 300000) g",
    ],
)
def test_a_query_that_fails_does_not_speak(address, text):
    for neighbors in ("replace", "add_remove"):
        with pytest.raises(DataError, match="query failed") as caught:
            es.sum(sql(text, address), es.Box(0, 1), neighbors=neighbors, **BUDGET)
        assert_silent(caught)


def drop(address, mark):
    """End the server's process that runs a query with this mark."""
    run(
        address,
        "select pg_terminate_backend(pid) from pg_stat_activity "
        f"where query like '%{mark}%' and pid <> pg_backend_pid()",
    )


def test_a_connection_that_drops_midway_publishes_nothing(address):
    text = "select g::float8 as a, 'ellipsum dropped' as mark from generate_series(1, 5000000) g"
    table = open_table(sql(text, address), Selection(["a"]))
    batches = table.batches()
    next(batches)
    drop(address, "ellipsum dropped")
    with pytest.raises(DataError, match="connection was lost") as caught:
        list(batches)
    assert_silent(caught)
    with pytest.raises(DataError):
        table.rows()


@pytest.mark.parametrize("kind", ["sum", "unknown", "people"])
def test_a_release_whose_connection_drops_publishes_nothing(address, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    text = "select g::float8 as a, g / 2 as id, 'ellipsum gone' as mark from generate_series(1, 2000000) g"
    progress = []

    def terminate(fraction):
        if not progress:
            drop(address, "ellipsum gone")
        progress.append(fraction)

    rows = es.Unknown(1e9) if kind == "unknown" else es.Box(0, 5e6)
    people = {"privacy_id": "id"} if kind == "people" else {}
    pieces = SqlTable.pieces

    def watched(table, tell=None):
        table.rows()  # so that progress is known, and told, in the single pass of a grouping too
        return pieces(table, tell)

    monkeypatch.setattr(SqlTable, "pieces", watched)
    with pytest.raises(DataError, match="connection was lost") as caught:
        es.sum(sql(text, address), rows, columns=["a"], progress=terminate, **people, **BUDGET)
    assert progress
    assert progress[-1] < 1
    assert_silent(caught)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_not_there_is_an_error_without_its_address():
    with pytest.raises(DataError, match="could not be opened") as caught:
        open_table(sql("select 1 as a", f"postgresql://me:{SENTINEL}@localhost:1/none"))
    assert_silent(caught)


INTERRUPTED = """
import os, signal, sys, threading, time
import ellipsum as es
from ellipsum.sources.sql import sql
query = sql("select pg_sleep(60), 1.0 as a", sys.argv[1])
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    es.sum(query, es.Box(0, 1), columns=["a"], epsilon=1, delta=1e-6, neighbors="add_remove")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_is_heard_while_the_server_works(address):
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, address],
        capture_output=True,
        text=True,
        timeout=50,
        env=os.environ | {"PYTHONPATH": SOURCE},
    )
    assert done.stdout.strip() == "interrupted", done.stderr
    assert time.monotonic() - begin < 40


MEMORY = """
import re, sys
from pathlib import Path
import ellipsum as es
from ellipsum.sources.sql import sql

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

def release(rows):
    text = f"select g::float8 a, g::float8 b, g::float8 c, g::float8 d from generate_series(1, {rows}) g"
    es.sum(sql(text, sys.argv[1]), es.Box(0, 1), epsilon=1, delta=1e-6)

release(300_000)
small = peak()
release(4_000_000)
print(small, peak())
"""


def test_memory_is_bounded_by_the_batch(address):
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, address],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        env=os.environ | {"PYTHONPATH": SOURCE},
    )
    small, large = map(float, re.findall(r"[\d.]+", done.stdout))
    # The larger result holds 128 MB of cells; a few batches of 8 MB may be under way.
    assert large - small < 64
