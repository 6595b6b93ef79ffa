"""People with many rows: one row per person, a function of that person's rows alone, exact and out of core."""

import dataclasses
import importlib.util
import json
import math
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opening import open_table

import ellipsum as es
from ellipsum.apps import cli
from ellipsum.errors import DataError, UsageError
from ellipsum.request.people import People
from ellipsum.sources.identities import canonicalize
from ellipsum.sources.people import gather
from ellipsum.sources.selection import Selection

NAN = float("nan")
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def people_rows(data, key="id", columns=None, **how):
    """The rows of the table of people, sorted: their order carries no meaning."""
    table = gather(open_table(data, columns, key=key), People(key, **how))
    rows = np.vstack([np.empty((0, table.width)), *table.batches()])
    assert table.rows() == len(rows)
    assert same_rows(np.vstack([np.empty((0, table.width)), *table.batches()]), rows)  # a second pass
    table.close()
    return rows


def ordered(rows):
    bits = np.where(np.isnan(rows), np.inf, rows)
    return rows[np.lexsort(bits.T[::-1])] if len(rows) else rows


def same_rows(left, right):
    return np.array_equal(ordered(np.asarray(left, float)), ordered(np.asarray(right, float)), equal_nan=True)


def left_behind():
    return [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("ellipsum-people-")]


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert left_behind() == []


# --- one person's row ---------------------------------------------------------------------------


def exact(values, per_person):
    """The same statistic in exact arithmetic, rounded as [T7] says: the sum to a double, then the division."""
    present = [float(x) for x in values if np.isfinite(x)]
    if not present:
        return NAN
    total = sum((Fraction(x) for x in present), Fraction(0))
    if per_person == "sum":
        try:
            return float(total)
        except OverflowError:
            return sys.float_info.max if total > 0 else -sys.float_info.max
    exponent = max(0, total.numerator.bit_length() - total.denominator.bit_length() - 100)
    return math.ldexp(float(total / 2**exponent) / len(present), exponent)


DOUBLES = st.floats(allow_nan=True, allow_infinity=True, width=64)


@settings(max_examples=12, deadline=None)
@given(people=st.lists(st.lists(st.tuples(DOUBLES, DOUBLES), min_size=1, max_size=6), min_size=1, max_size=60))
def test_every_person_is_their_exact_mean_or_sum(people):
    ids = np.repeat(np.arange(len(people)), [len(rows) for rows in people])
    values = np.array([row for rows in people for row in rows])
    table = pa.table({"id": ids, "a": values[:, 0], "b": values[:, 1]})
    for per_person in ("mean", "sum"):
        expected = [[exact([row[j] for row in rows], per_person) for j in range(2)] for rows in people]
        cap = None if per_person == "mean" else 100
        assert same_rows(people_rows(table, per_person=per_person, max_rows=cap), np.array(expected) + 0.0)


def test_a_mean_of_the_largest_doubles_does_not_overflow():
    big = sys.float_info.max
    table = pa.table({"id": [1, 1, 1, 2, 2], "a": [big, big, big, big, -big]})
    assert same_rows(people_rows(table), [[0.0], [big]])
    assert same_rows(people_rows(table, per_person="sum", max_rows=9), [[0.0], [big]])


def test_cancelling_entries_keep_what_a_plain_sum_would_lose():
    table = pa.table({"id": [7] * 4, "a": [1e300, 1.0, -1e300, 2.0**-1074]})
    assert people_rows(table, per_person="sum", max_rows=4) == 1.0
    small = pa.table({"id": [7] * 3, "a": [1e300, 2.0**-1074, -1e300]})
    assert people_rows(small, per_person="sum", max_rows=3) == 2.0**-1074


def test_ties_go_to_the_even_neighbor():
    """The sums that lie halfway between two doubles, wherever the limbs of the exact sum are cut."""
    cases = [
        (sign * step * 2.0**place, sign * 2.0 ** (place - 53), sign * even * 2.0**place)
        for place in range(-40, 41)
        for sign in (1, -1)
        for step, even in ((1.0, 1.0), (1 + 2.0**-52, 1 + 2.0**-51))
    ]
    rows = [value for first, second, _ in cases for value in (first, second)]
    table = pa.table({"id": np.repeat(np.arange(len(cases)), 2), "a": rows})
    assert same_rows(people_rows(table, per_person="sum", max_rows=2), [[even] for _, _, even in cases])


def test_many_rows_of_one_person_are_still_exact():
    rng = np.random.default_rng(0)
    values = rng.normal(size=150_000) * 10.0 ** rng.integers(-20, 20, 150_000)
    table = pa.table({"id": np.zeros(len(values), int), "a": values})
    assert people_rows(table, per_person="sum", max_rows=10**6) == math.fsum(values)


def test_missing_entries_are_left_out_of_their_column_alone():
    table = pa.table({"id": [1, 1, 1, 2], "a": [1.0, None, 3.0, None], "b": [5.0, 6.0, NAN, np.inf]})
    assert same_rows(people_rows(table), [[2.0, 5.5], [NAN, NAN]])


# --- one person, one row ------------------------------------------------------------------------


def table_of(people, rng, null_rows=()):
    """All rows of all people, shuffled."""
    ids = [name for name, rows in people.items() for _ in rows] + [None] * len(null_rows)
    rows = np.array([row for rows in people.values() for row in rows] + list(null_rows))
    order = rng.permutation(len(ids))
    return pa.table({"id": pa.array([ids[i] for i in order]), "a": rows[order, 0], "b": rows[order, 1]})


@pytest.mark.parametrize("how", [{}, {"max_rows": 3}, {"per_person": "sum", "max_rows": 3}], ids=str)
def test_a_person_more_or_less_or_other_changes_one_row(how):
    rng = np.random.default_rng(1)
    people = {f"p{i}": rng.normal(size=(rng.integers(1, 9), 2)) for i in range(300)}
    base = {tuple(row) for row in people_rows(table_of(people, rng), **how).tolist()}
    assert len(base) == 300
    for i in range(8):
        less = {name: rows for name, rows in people.items() if name != f"p{i}"}
        gone = {tuple(row) for row in people_rows(table_of(less, rng), **how).tolist()}
        assert gone < base
        assert len(base - gone) == 1
        other = people | {f"p{i}": rng.normal(size=(rng.integers(1, 9), 2)) * 100}
        changed = {tuple(row) for row in people_rows(table_of(other, rng), **how).tolist()}
        assert len(changed) == 300
        assert len(base - changed) == len(changed - base) == 1


def test_order_cuts_and_company_do_not_change_a_person(tmp_path):
    rng = np.random.default_rng(2)
    mine = rng.normal(size=(500, 2)) * 10.0 ** rng.integers(-9, 9, (500, 2))
    alone = people_rows(table_of({"me": mine}, rng), max_rows=77)
    crowd = {f"p{i}": rng.normal(size=(40, 2)) for i in range(2000)} | {"me": mine}
    table = table_of(crowd, rng)
    among = people_rows(table, max_rows=77)
    assert (among == alone).all(axis=1).sum() == 1
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=7000)
    assert same_rows(people_rows(tmp_path / "t.parquet", max_rows=77), among)


def test_a_cap_takes_rows_by_content_not_by_place_or_size():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(64, 1))
    taken = []
    for _ in range(5):
        order = rng.permutation(64)
        table = pa.table({"id": np.zeros(64, int), "a": rows[order, 0]})
        taken.append(people_rows(table, per_person="sum", max_rows=1).item())
    assert len(set(taken)) == 1
    assert taken[0] in rows
    picked = people_rows(pa.table({"id": np.repeat(np.arange(60), 64), "a": rng.normal(size=60 * 64)}), max_rows=1)
    # The least or greatest of 64 has mean -2.3 or 2.3; one that looks arbitrary has mean 0 and std 1/sqrt(60).
    assert abs(np.mean(picked)) < 6 / math.sqrt(60)
    table = pa.table({"id": [1, 1, 1, 2], "a": [5.0, 5.0, 5.0, 1.0]})
    assert same_rows(people_rows(table, per_person="sum", max_rows=2), [[10.0], [1.0]])


def test_a_row_that_names_nobody_is_left_out():
    table = pa.table({"id": [1, None, None, 1], "a": [1.0, 5.0, 7.0, 3.0]})
    assert same_rows(people_rows(table), [[2.0]])
    assert same_rows(people_rows(table, max_rows=1), [[1.0]])
    reals = pa.table({"id": [0.0, NAN, -0.0, NAN], "a": [1.0, 5.0, 3.0, 7.0]})
    assert same_rows(people_rows(reals), [[2.0]])
    for kind in (np.float16, np.float32, np.float64):  # engines may tell the two zeros apart by their bits
        zeros = canonicalize(pa.array(np.array([0.0, -0.0, NAN], kind)), "real")
        assert zeros.null_count == 1
        assert not np.signbit(zeros.drop_null().to_numpy()).any()
    nulls = pa.table({"id": pa.nulls(2), "a": [1.0, 5.0]})
    assert len(people_rows(nulls)) == 0


def in_memory_and_sorted(table, how=None):
    """The rows of the table of people in their own order: grouped in memory, and by the sort."""
    people = People("id", **(how or {}))
    assert table.row_reader() is not None
    in_memory = np.vstack(list(gather(table, people).batches()))
    table.row_reader = lambda: None
    return in_memory, np.vstack(list(gather(table, people).batches()))


def same_bits(left, right):
    return left.shape == right.shape and np.array_equal(left.view(np.int64), right.view(np.int64))


@pytest.mark.parametrize("how", [{}, {"per_person": "count"}], ids=str)
@pytest.mark.parametrize("name", [int, float, str, lambda i: "x" * 70 + str(i), lambda i: i + 2**63], ids=range(5))
def test_a_table_in_memory_gives_the_people_that_the_sort_gives(name, how):
    rng = np.random.default_rng(7)
    n, numbers = 5000, rng.integers(-300, 300, 5000)
    if name(0) == 2**63:
        numbers = numbers + 300
    cells = [None if rng.random() < 0.01 else name(int(i)) for i in numbers]
    kind = pa.uint64() if name(0) == 2**63 else None
    values = rng.normal(size=n) * 10.0 ** rng.integers(-200, 200, n)
    x = pa.array(values, mask=rng.random(n) < 0.1)
    table = pa.table({"id": pa.array(cells, kind), "x": x, "y": numbers, "z": rng.random(n, np.float32)})
    table = pa.concat_tables([table.slice(0, 700), table.slice(700)])
    frames = [table, pl.from_arrow(table)] if kind is None else [table, table.combine_chunks()]
    results = [rows for data in frames for rows in in_memory_and_sorted(open_table(data, key="id"), how)]
    assert len(results[0]) == len(set(cells) - {None})
    assert all(same_bits(rows, results[0]) for rows in results[1:])


def test_people_in_memory_may_have_more_rows_than_a_block():
    rng = np.random.default_rng(8)
    ids = np.where(rng.random(300_000) < 0.9, 7, rng.integers(0, 50, 300_000))
    table = pa.table({"id": ids, "a": rng.normal(size=len(ids)), "b": rng.random(len(ids))})
    assert same_bits(*in_memory_and_sorted(open_table(table, key="id")))
    masked = np.ma.masked_array(
        np.column_stack([ids, rng.normal(size=(len(ids), 3))]), mask=rng.random((len(ids), 4)) < 0.2
    )
    assert same_bits(*in_memory_and_sorted(open_table(masked, [3, 1], key=0)))
    for width in (5, 16, 17, 40):  # wide rows are packed in another way
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(rng.random(2000 * width)), width)
        assert same_bits(*in_memory_and_sorted(open_table(pa.table({"id": ids[:2000], "v": vectors}), key="id")))
    assert len(people_rows(pa.table({"id": ids[:0], "a": ids[:0] / 2}))) == 0


def test_rows_of_a_mapped_array_are_not_read_at_random(tmp_path):
    array = np.memmap(tmp_path / "rows", np.float64, "w+", shape=(6, 2))
    array[:] = [[1, 2], [2, 3], [1, 4], [2, 5], [3, 6], [3, 8]]
    assert open_table(array, [1], key=0).row_reader() is None
    assert same_rows(people_rows(array, key=0, columns=[1]), [[3.0], [4.0], [7.0]])


# --- identities of every type, from every source ------------------------------------------------

NAMES = ["ann", "bob", "ann", "cyd", None, "bob"]
VALUES = np.array([[1.0, 10], [2, 20], [3, 30], [4, 40], [5, 50], [6, 60]])
EXPECTED = [[2.0, 20.0], [4.0, 40.0], [4.0, 40.0]]


def sources(folder):
    table = pa.table({"id": NAMES, "x": VALUES[:, 0], "y": VALUES[:, 1]})
    pq.write_table(table, folder / "t.parquet", row_group_size=2)
    (folder / "t.csv").write_text('id,x,y\nann,1,10\n"bob",2,20\n"ann" ,3,30\ncyd,4,40\n,5,50\nbob,6,60\n')
    coded = table.set_column(0, "id", table["id"].dictionary_encode())
    return {
        "arrow": table,
        "coded": coded,
        "pandas": table.to_pandas(),
        "polars": pl.from_arrow(table),
        "parquet": folder / "t.parquet",
        "csv": folder / "t.csv",
        "list": [table.slice(0, 2), table.slice(2)],
        "reader": table.to_reader(max_chunksize=2),
        "generator": (batch for batch in table.to_batches(max_chunksize=2)),
    }


KINDS = ("arrow", "coded", "pandas", "polars", "parquet", "csv", "list", "reader", "generator")


@pytest.mark.parametrize("kind", KINDS)
def test_people_of_every_source(tmp_path, kind):
    assert same_rows(people_rows(sources(tmp_path)[kind]), EXPECTED)
    assert same_rows(people_rows(sources(tmp_path)[kind], columns=["y"]), np.array(EXPECTED)[:, [1]])


def test_people_of_an_array():
    array = np.array([[7, 1, 10], [8, 2, 20], [7, 3, 30]])
    for dtype in (np.int64, np.uint64, np.float32, np.float64, ">i4"):
        assert same_rows(people_rows(array.astype(dtype), key=0), [[2, 20], [2, 20]])
    masked = np.ma.masked_array(array, mask=[[False] * 3, [True, False, False], [False] * 3])
    assert same_rows(people_rows(masked, key=0), [[2, 20]])


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([1, 1, 2], pa.int8()),
        ([2**63 + 1, 2**63 + 1, 2**63], pa.uint64()),
        ([2**53 + 1, 2**53 + 1, 2**53], pa.int64()),
        (["a", "a", "a "], pa.string()),
        (["é", "é", "e\u0301"], pa.large_string()),
        (["x" * 40, "x" * 40, "x" * 41], pa.string_view()),
        ([b"\xff\x00", b"\xff\x00", b"\xff"], pa.binary()),
        ([b"ab", b"ab", b"cd"], pa.binary(2)),
        ([True, True, False], pa.bool_()),
        ([1.5, 1.5, 2.5], pa.float32()),
        ([1.5, 1.5, 2.5], pa.decimal128(9, 2)),
        ([10, 10, 11], pa.date32()),
        ([10, 10, 11], pa.timestamp("us", "UTC")),
    ],
    ids=str,
)
def test_identities_of_every_type_are_told_apart_exactly(cells, kind):
    array = pa.array(cells, pa.int64()).cast(pa.int32()).cast(kind) if pa.types.is_date(kind) else None
    if array is None:
        array = pa.array([f"{c}" for c in cells]).cast(kind) if pa.types.is_decimal(kind) else pa.array(cells, kind)
    table = pa.table({"id": array, "a": [1.0, 3.0, 9.0]})
    assert same_rows(people_rows(table), [[2.0], [9.0]])


def test_text_that_is_no_text_is_an_identity_like_any_other():
    letters = pa.py_buffer(b"\xff\xfe\xff\xfea")
    broken = pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(np.array([0, 2, 4, 5], np.int32)), letters])
    assert same_rows(people_rows(pa.table({"id": broken, "a": [1.0, 3.0, 9.0]})), [[2.0], [9.0]])


def test_identities_that_cannot_be_compared_are_refused(tmp_path):
    nested = pa.table({"id": [[1], [2]], "a": [1.0, 2.0]})
    with pytest.raises(UsageError, match="Use a column of whole"):
        open_table(nested, ["a"], key="id")
    mixed = [pa.table({"id": [1], "a": [1.0]}), pa.table({"id": ["1"], "a": [1.0]})]
    with pytest.raises(UsageError, match="one person could count as two"):
        open_table(mixed, key="id")
    pq.write_table(mixed[0], tmp_path / "a.parquet")
    pq.write_table(mixed[1], tmp_path / "b.parquet")
    with pytest.raises(UsageError, match="one person could count as two"):
        open_table(tmp_path / "*.parquet", key="id")
    with pytest.raises(UsageError, match="among columns"):
        open_table(mixed[0], ["id", "a"], key="id")
    with pytest.raises(UsageError, match=r"no column 'who' \(from privacy_id\)"):
        open_table(mixed[0], key="who")


def test_csv_identities_are_cells_and_a_ragged_line_keeps_its_own(tmp_path):
    text = 'id,a\n7,1\n"7",3\n 7 ,5\n"a ""b""",1\n7,1,9\nx\n"o\np",4\n"o\np",6\n7,"2\n"7,8\n,9\n\n'
    (tmp_path / "t.csv").write_text(text)
    rows = people_rows(tmp_path / "t.csv")
    assert same_rows(rows, [[3.0], [1.0], [NAN], [5.0]])
    for chunk in (1, 3, 7):
        from ellipsum.sources.csv import CsvTable

        table = gather(CsvTable(tmp_path / "t.csv", Selection(key="id"), chunk_bytes=chunk), People("id"))
        assert same_rows(np.vstack(list(table.batches())), rows)
        table.close()


# --- releases -----------------------------------------------------------------------------------


def example(n=5000, people=800):
    rng = np.random.default_rng(4)
    return pa.table({"id": rng.integers(0, people, n), "a": rng.normal(size=n), "b": rng.normal(size=n)})


def test_a_release_of_people_is_the_release_of_their_rows():
    table = example()
    for how in ({}, {"per_person": "sum", "max_rows": 4}):
        rows = people_rows(table, **how)
        for neighbors in ("replace", "add_remove"):
            for release in (es.sum, es.mean):
                terms = {"neighbors": neighbors, **BUDGET}
                who = People("id", **how)
                got = release(table, es.Box(-9, 9), privacy_id=who, rng=np.random.default_rng(5), **terms)
                plain = release(rows, es.Box(-9, 9), rng=np.random.default_rng(5), **terms)
                assert got.value.tolist() == plain.value.tolist()
                assert got.privacy == dataclasses.replace(plain.privacy, unit="person")
                assert got.columns == ("a", "b")
                assert got.plan.n == (None if neighbors == "add_remove" else len(rows))
                assert es.from_json(got.to_json()).plan.people.privacy_id == "id"


def test_a_plan_is_for_a_number_of_people():
    table = example()
    people = len(set(table["id"].to_pylist()))
    plan = es.plan("sum", es.Box(-9, 9), n=people, d=2, privacy_id="id", **BUDGET)
    assert plan.release(table).plan.people.per_person == "mean"
    with pytest.raises(UsageError, match=f"made for {people + 1} people, but the data has {people}"):
        es.plan("sum", es.Box(-9, 9), n=people + 1, d=2, privacy_id="id", **BUDGET).release(table)


def test_a_plan_of_people_groups_wherever_it_is_run_again():
    table = example()
    first = es.mean(table, es.Box(-9, 9), privacy_id=es.People("id", max_rows=3), **BUDGET)
    kept = es.Plan.from_json(first.plan.to_json())
    again = kept.release(table, rng=np.random.default_rng(5))
    assert again.plan.people == first.plan.people
    plain = es.mean(people_rows(table, max_rows=3), es.Box(-9, 9), rng=np.random.default_rng(5), **BUDGET)
    assert again.value.tolist() == plain.value.tolist()


def results_of_people(neighbors, **how):
    """Everything that speaks of a guarantee, from data whose rows belong to people, or from rows."""
    table = example(3000, 400)
    terms = {"neighbors": neighbors, "columns": ["a", "b"], **how, **BUDGET}
    release = es.mean(table, es.Box(-9, 9), **terms)
    unknown = es.mean(table, es.Unknown(1e3), **terms)
    found = [release, release.plan, es.from_json(release.to_json()), unknown, release.denoise("soft_threshold")]
    found += [es.learn(table, es.Unknown(1e3), **terms)]
    found += [es.Learned.from_json(found[-1].to_json())]
    if neighbors == "replace":
        for radius in (10.0, 1e-9):
            friendly = es.friendly_mean(table, radius, **terms)
            found += [friendly, friendly.plan, type(friendly).from_json(friendly.to_json())]
    return found


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
@pytest.mark.one_in(2)
@pytest.mark.parametrize(("neighbors", "change"), [("replace", "replace"), ("add_remove", "add or remove")])
def test_the_guarantee_says_whom_it_hides(neighbors, change):
    for how, right, wrong in (({"privacy_id": "id"}, "person", "row"), ({}, "row", "person")):
        for result in results_of_people(neighbors, **how):
            assert f"neighbors: {change} one {right}" in repr(result), type(result)
            assert f"one {wrong}" not in repr(result)
            if hasattr(result, "_repr_html_"):
                assert f"neighbors: {change} one {right}" in result._repr_html_()
                assert f"one {wrong}" not in result._repr_html_()


def test_unknown_rows_of_people():
    table = example(60_000, 6000)
    release = es.mean(table, es.Unknown(1e3), privacy_id="id", **BUDGET)
    assert np.abs(release.value).max() < 0.1 + 10 * release.noise_std.max()
    assert release.plan.n == len(set(table["id"].to_pylist()))


def in_table_order(table, **how):
    """The rows of people as a call reads them."""
    grouped = gather(open_table(table, key="id"), People("id", **how))
    rows = np.vstack(list(grouped.batches()))
    grouped.close()
    return rows


@pytest.mark.parametrize("how", [{}, {"per_person": "sum", "max_rows": 4}], ids=str)
@pytest.mark.parametrize("most", [None, 300])
def test_a_friendly_mean_of_people_is_that_of_their_rows(how, most):
    table = example(3000, 500)
    rows = in_table_order(table, **how)
    terms = {"max_rows": most, **BUDGET}
    got = es.friendly_mean(table, 12.0, privacy_id=People("id", **how), rng=np.random.default_rng(1), **terms)
    plain = es.friendly_mean(rows, 12.0, rng=np.random.default_rng(1), **terms)
    assert got.value.tolist() == plain.value.tolist()
    assert got.privacy == dataclasses.replace(plain.privacy, unit="person")
    assert got.columns == ("a", "b")
    assert got.plan.people == People("id", **how)
    subset = "" if most is None else f"a random subset of {most:,} of "
    assert got.plan.describe() == f"FriendlyCore mean of 2 columns ({subset}{len(rows):,} people)"


def test_blocks_of_people():
    table = example(9000, 1500)
    rows = in_table_order(table)
    terms = {"blocks": 150, "radius": 5.0, "dimension": 2, "workers": 1, **BUDGET}
    mean = lambda block: block.mean(axis=0)  # noqa: E731
    got = es.subsample_and_aggregate(mean, table, privacy_id="id", rng=np.random.default_rng(1), **terms)
    plain = es.subsample_and_aggregate(mean, rows, rng=np.random.default_rng(1), **terms)
    assert got.value.tolist() == plain.value.tolist()
    assert "replace one person" in repr(got)
    with pytest.raises(UsageError, match="no stable order"):
        es.subsample_and_aggregate(mean, table, privacy_id="id", shuffle=False, **terms)


def test_common_people_keep_their_order():
    """Whoever is replaced, the others stand in the same order."""
    rng = np.random.default_rng(6)
    people = {f"p{i:02}": rng.normal(size=(rng.integers(1, 4), 2)) for i in range(40)}
    base = in_table_order(table_of(people, rng))
    for gone, new in (("p00", "zz"), ("p39", "a"), ("p20", "p20")):
        others = {name: rows for name, rows in people.items() if name != gone}
        other = in_table_order(table_of(others | {new: np.full((1, 2), 7.0)}, rng))
        assert [row for row in other.tolist() if row != [7.0, 7.0]] == [
            row for i, row in enumerate(base.tolist()) if f"p{i:02}" != gone
        ]


def test_the_example_of_embeddings(monkeypatch, capsys):
    path = Path(__file__).parents[2] / "examples" / "embeddings.py"
    spec = importlib.util.spec_from_file_location("embeddings", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    monkeypatch.setattr("os.urandom", np.random.default_rng(7).bytes)
    (ball, stated), (unknown, _) = example.main(3000, 5000, (2.0,))
    # Nothing is clipped by the ball, so its error is that of 384 independent noises.
    assert abs(ball / stated - 1) < 6 / math.sqrt(2 * 384)
    assert unknown < 0.8 * ball
    assert "5,000 unit vectors of 384 entries, 3,000 people" in capsys.readouterr().out


def test_a_generator_of_batches_can_be_grouped_and_then_read_often():
    batches = (batch for batch in example().to_batches(max_chunksize=100))
    assert es.mean(batches, es.Unknown(1e3), privacy_id="id", **BUDGET).columns == ("a", "b")


def test_arguments_that_do_not_fit():
    for gone in ({"per_person": "mean"}, {"max_rows": 3}):
        with pytest.raises(UsageError, match=r"Use privacy_id=es\.People\(name, per_person=, max_rows=\)"):
            es.sum(example(), es.Box(-1, 1), privacy_id="id", **gone, **BUDGET)
    with pytest.raises(UsageError, match="max_rows is missing"):
        People("id", per_person="sum")
    with pytest.raises(UsageError, match="per_person must be one of"):
        People("id", "median")
    with pytest.raises(UsageError, match="max_rows must be"):
        People("id", max_rows=0)
    with pytest.raises(UsageError, match="name of a column"):
        People(1.5)
    with pytest.raises(UsageError, match="per_person must be one of 'mean', 'sum'"):
        es.friendly_mean(example(), 9.0, privacy_id=People("id", "rows", 3), **BUDGET)
    with pytest.raises(UsageError, match=r"Use privacy_id=es\.People"):
        es.friendly_mean(example(), 9.0, privacy_id="id", per_person="mean", **BUDGET)


# --- bounded, interrupted, failing --------------------------------------------------------------


def test_an_error_of_the_source_leaves_nothing(tmp_path):
    def broken():
        yield example()
        raise ValueError("Xq7secret")

    with pytest.raises(DataError, match="error of its own") as caught:
        es.mean(broken(), es.Box(-1, 1), privacy_id="id", **BUDGET)
    assert "Xq7secret" not in repr(caught.value)
    assert caught.value.__context__ is None
    assert not [t for t in threading.enumerate() if t.name == "ellipsum-sort"]


def test_a_table_that_was_closed_is_not_read():
    table = gather(open_table(example(), key="id"), People("id"))
    table.close()
    with pytest.raises(UsageError, match="closed"):
        table.batches()


def test_nothing_is_written_to_standard_output(monkeypatch, capfd):
    connect = duckdb.connect

    def talkative(*place, **how):
        connection = connect(*place, **how)
        connection.execute("set progress_bar_time = 100")  # milliseconds; turning the bar off takes less
        connection.execute("set enable_progress_bar = true")
        return connection

    monkeypatch.setattr(duckdb, "connect", talkative)
    query = es.sql("select i % 1000 as id, i / 3e6 as a from range(3000000) r(i)", "duckdb://")
    es.mean(query, es.Box(0, 1), privacy_id="id", **BUDGET)
    assert capfd.readouterr().out == ""
    talkative().execute("select count(*) from range(300000000) r(i) where hash(i) % 7 = 3").fetchall()
    assert "%" in capfd.readouterr().out  # the bar that would have been written


INTERRUPTED = """
import os, signal, sys, tempfile, threading
import numpy as np, pyarrow as pa
from ellipsum.sources.open import Selection, open_table
from ellipsum.request.people import People
from ellipsum.sources.people import gather
tempfile.tempdir = sys.argv[1]
rows = pa.record_batch({"id": np.arange(50_000), "a": np.ones(50_000)})
class Endless:
    def __iter__(self):
        for i in range(10**9):
            if i == int(sys.argv[2]):
                os.kill(os.getpid(), signal.SIGINT)
            yield rows
try:
    gather(open_table(Endless(), Selection(key="id")), People("id"))
except KeyboardInterrupt:
    print("interrupted", os.listdir(sys.argv[1]), [t.name for t in threading.enumerate() if "ellipsum" in t.name])
"""


def test_an_interrupt_leaves_no_file_and_no_thread(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(Path(es.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "temporary"), "40"],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    assert done.stdout.strip() == "interrupted [] []", done.stderr


SMALL = """
from ellipsum.sources import people
from ellipsum.apps import cli
people.MEMORY = "64MB"
cli.main()
"""


@pytest.fixture
def endless(tmp_path, monkeypatch):
    """`ellipsum mean` of endless rows, once some lie in its temporary folder."""
    folder = tmp_path / "temporary"
    query = "select i as who, i / 1e12 as a from range(1000000000000) r(i)"
    words = ("mean", "duckdb://", "--sql", query, "--privacy-id", "who", "--bounds", "a=0:1", "--epsilon", "1")
    environment = os.environ | {"PYTHONPATH": str(Path(es.__file__).parents[1]), "TMPDIR": str(folder)}
    process = subprocess.Popen(
        [sys.executable, "-c", SMALL, *words, "--delta", "1e-6"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    deadline = time.monotonic() + 100
    while not list(folder.glob("*/duckdb_temp*")):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield process
    process.kill()
    process.communicate()


def test_a_process_that_is_terminated_removes_its_rows(endless):
    endless.send_signal(signal.SIGTERM)
    out, err = endless.communicate(timeout=60)
    assert endless.returncode == 143, err
    assert out == ""
    assert err.endswith("interrupted: nothing was written.\n")
    assert left_behind() == []


def test_rows_of_a_process_that_was_killed_are_removed_by_the_next(endless):
    (folder,) = Path(tempfile.gettempdir()).iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    people_rows(example())
    assert folder.exists()  # its process lives
    endless.kill()
    endless.wait()
    assert list(folder.glob("duckdb_temp*"))
    people_rows(example())
    assert left_behind() == []


def test_what_others_put_among_temporary_files_is_left_alone(tmp_path, monkeypatch):
    home, elsewhere = Path(tempfile.gettempdir()), tmp_path / "elsewhere"
    for folder in (elsewhere, home / "ellipsum-people-new"):  # a link, and a folder that is being made
        folder.mkdir()
        (folder / "kept").write_text("")
    (elsewhere / "in-use").write_text("")
    (home / "ellipsum-people-link").symlink_to(elsewhere)
    people_rows(example())
    assert (elsewhere / "kept").exists()
    assert (home / "ellipsum-people-new" / "kept").exists()
    foreign = home / "ellipsum-people-foreign"
    foreign.mkdir()
    (foreign / "in-use").write_text("")
    with monkeypatch.context() as changed:
        changed.setattr(os, "getuid", lambda: 12345)
        people_rows(example())
    assert foreign.exists()
    people_rows(example())
    assert not foreign.exists()
    (home / "ellipsum-people-link").unlink()
    shutil.rmtree(home / "ellipsum-people-new")


MEMORY = """
import re, sys
from pathlib import Path
import numpy as np, pyarrow as pa
import ellipsum as es
from ellipsum.sources import people

people.MEMORY = "256MB"

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

class Batches:
    def __init__(self, count): self.count = count
    def __iter__(self):
        rng = np.random.default_rng(0)
        for _ in range(self.count):
            columns = {f"c{j}": np.ones(20_000) for j in range(8)}
            yield pa.record_batch({"id": rng.integers(0, 500_000, 20_000), **columns})

for count in (1, 240, 480):
    es.mean(Batches(count), es.Box(-1, 1), epsilon=1, delta=1e-6, privacy_id="id")
    print(peak())
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows():
    environment = os.environ | {"PYTHONPATH": str(Path(es.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True, timeout=600, env=environment
    )
    started, full, twice = map(float, done.stdout.split())
    # 240 batches hold 346 MB of cells, which fills the 256 MB that DuckDB may sort in; its limit leaves out results
    # and what its threads keep, for which as much again is allowed.
    assert full - started < 2 * 256
    # From there on another 346 MB of cells cost no more than the blocks under way, 4.7 MB each: three that wait, and
    # as many being read, sorted and written.
    assert twice - full < 12 * 4.7


# --- the command line ---------------------------------------------------------------------------


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """`ellipsum ...` in this process: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # the test's own handlers stay
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    lines = [f"p{i % 100},{i % 70},{i}" for i in range(1000)]
    (tmp_path / "t.csv").write_text("who,age,income\n" + "\n".join(lines) + "\n")

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["ellipsum", *words, "--epsilon", "1", "--delta", "1e-6"])
        code = cli._run()
        return code, *capsys.readouterr()

    return run


BOUNDS = ("--bounds", "age=0:100")
WHO = ("--privacy-id", "who")


def test_people_and_queries_on_the_command_line(command):
    code, out, err = command("mean", "t.csv", *WHO, *BOUNDS, "--json", "--save-plan", "plan.json")
    assert code == 0, err
    assert "replace one person" in err
    release = es.from_json(out)
    assert release.plan.n == 100
    assert release.plan.people.privacy_id == "who"
    assert "replace one person" in command("mean", "t.csv", *WHO, *BOUNDS)[1]
    code, out, err = command("sum", "t.csv", *WHO, "--per-person", "sum", "--max-rows", "2", *BOUNDS, "--json")
    assert es.from_json(out).plan.people.max_rows == 2
    query = "select who, age from 't.csv' where income < 500"
    code, out, err = command("mean", "duckdb://", "--sql", query, *WHO, *BOUNDS, "--json")
    assert es.from_json(out).plan.n == 100


def test_a_saved_plan_of_people_groups_again(command, tmp_path, monkeypatch, capsys):
    for known in (BOUNDS, ("--magnitude", "1e3", "--columns", "age")):
        code, _, err = command("mean", "t.csv", *WHO, *known, "--json", "--yes", "--save-plan", "plan.json")
        assert code == 0, err
        monkeypatch.setattr(sys, "argv", ["ellipsum", "mean", "t.csv", "--plan", "plan.json", "--json", "--yes"])
        assert cli._run() == 0
        again = es.from_json(capsys.readouterr().out)
        assert again.plan.n == 100
        assert again.plan.people.privacy_id == "who"


def test_learning_from_people_on_the_command_line(command, tmp_path):
    words = ("--magnitude", "1e3", "--columns", "age")
    code, out, err = command("learn", "t.csv", *WHO, "--max-rows", "5", *words, "--yes", "-o", "rows.json")
    assert code == 0, err
    assert "replace one person" in out
    learned = es.Learned.from_json((tmp_path / "rows.json").read_text())
    assert learned.people == People("who", "mean", 5)
    assert command("mean", "t.csv", *WHO, "--bounds", "rows.json", "--json", "--yes")[0] == 0
    code, out, err = command(
        "learn", "duckdb://", "--sql", "select age from 't.csv'", "--magnitude", "1e3", "--json", "--yes"
    )
    assert code == 0, err
    assert es.Learned.from_json(out).people is None


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("mean", "t.csv", "--max-rows", "2", *BOUNDS), 2, "--privacy-id"),
        (("sum", "t.csv", *WHO, "--per-person", "sum", *BOUNDS), 2, "--max-rows is missing"),
        (("mean", "t.csv", "--privacy-id", "nobody", *BOUNDS), 2, "nobody"),
        (("mean", "duckdb://", "--sql", "select * from nowhere", *BOUNDS), 4, "query failed"),
        (("learn", "t.csv", "--per-person", "sum", "--magnitude", "1e3"), 2, "--privacy-id"),
        (("learn", "a.csv", "b.csv", "--sql", "select 1", "--magnitude", "1e3"), 2, "one database"),
    ],
)
def test_what_the_command_line_refuses(command, words, code, said):
    got, out, err = command(*words)
    assert got == code, err
    assert out == ""
    assert said in err


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
def test_every_guarantee_of_people_is_for_a_person():
    rng = np.random.default_rng(0)
    table = pa.table({"who": np.arange(600) // 2, "a": rng.normal(size=600), "b": rng.normal(size=600)})
    how = {"epsilon": 1, "delta": 1e-6, "privacy_id": "who", "rng": np.random.default_rng(1)}
    found = [
        es.mean(table, es.Box(-4, 4), **how),
        es.sum(table, es.Unknown(10), neighbors="add_remove", n=300, **how),
        es.learn(table, es.Unknown(10), **how),
        es.friendly_mean(table, 8.0, **how),
        es.project(table, 2, es.Ball(5), **(how | {"epsilon": 50})),
    ]
    assert {result.privacy.unit for result in found} == {"person"}
    assert {step.privacy.unit for step in found[2].steps} == {"person"}
    assert es.from_json(found[0].to_json()).privacy.unit == "person"
    assert es.compose([found[0].privacy, found[2].privacy, found[4].privacy]).unit == "person"
    with pytest.raises(es.UsageError, match="do not compose"):
        es.compose([found[0].privacy, es.mean(table, es.Box(-4, 4), columns=["a"], epsilon=1, delta=1e-6).privacy])


def test_a_plan_whose_unit_and_privacy_id_disagree_is_refused():
    """Run on rows, a plan that claims people without naming them would publish a guarantee that nobody kept."""
    table = pa.table({"who": np.arange(60) // 2, "a": np.zeros(60)})
    how = {"epsilon": 1, "delta": 1e-6, "columns": ["a"]}
    rows, people = (es.mean(table, es.Box(0, 1), **how, **more).plan for more in ({}, {"privacy_id": "who"}))
    for plan in (rows, people):
        fields = json.loads(plan.to_json())
        assert es.Plan.from_json(json.dumps(fields)).privacy == plan.privacy
        fields["privacy"] = (people if plan is rows else rows).privacy.to_dict()
        with pytest.raises(es.UsageError, match="privacy_id"):
            es.Plan.from_json(json.dumps(fields))
    friendly = es.friendly_mean(np.zeros((500, 2)), 1.0, epsilon=5, delta=1e-6).plan
    with pytest.raises(es.UsageError, match="privacy_id"):
        dataclasses.replace(friendly, privacy=dataclasses.replace(friendly.privacy, unit="person"))
