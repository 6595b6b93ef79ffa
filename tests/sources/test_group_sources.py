"""Groups from every source: the same bits, keys of every type, people in several groups."""

import sqlite3
from collections import defaultdict
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import ellipsum as es
from ellipsum.request.groups import listed
from ellipsum.request.people import People
from ellipsum.row_maps.maps import ClampedMap
from ellipsum.sources import group_by_person, open_source
from ellipsum.sources.selection import Selection

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
ROWS = es.Box({"a": (0, 1), "b": (-5, 5)})
TEXTS = ["Oslo", "Tromsø", 'a "b", c', "line\nend", "日本", "x  y", "1"]


def frame(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.random(n)
    a[rng.random(n) < 0.05] = np.nan
    columns = {"a": a, "b": rng.normal(0, 2, n), "who": rng.integers(0, 700, n), "year": rng.integers(2020, 2023, n)}
    return pa.table({**columns, "city": rng.choice(TEXTS, n)})


def sqlite(table, path):
    connection = sqlite3.connect(path)
    connection.execute("create table t (a real, b real, who integer, year integer, city text)")
    rows = zip(*[table[name].to_pylist() for name in ("a", "b", "who", "year", "city")], strict=True)
    connection.executemany(
        "insert into t values (?, ?, ?, ?, ?)", [[None if v != v else v for v in row] for row in rows]
    )
    connection.commit()
    connection.close()
    return es.sql("select * from t", f"sqlite:////{str(path).lstrip('/')}")


def sources(table, folder):
    table.to_pandas().to_csv(folder / "t.csv", index=False)
    pq.write_table(table, folder / "t.parquet", row_group_size=700)
    pa.feather.write_feather(table, folder / "t.feather")
    pq.write_to_dataset(table, folder / "lake", partition_cols=["year"])
    return {
        "arrow": table,
        "pandas": table.to_pandas(),
        "polars": pl.from_arrow(table),
        "lazy": pl.from_arrow(table).lazy(),
        "batches": table.to_batches(900),
        "stream": lambda: table.to_reader(500),
        "csv": folder / "t.csv",
        "parquet": folder / "t.parquet",
        "feather": folder / "t.feather",
        "several": [folder / "t.parquet", folder / "none.parquet"],
        "data set": ds.dataset(folder / "t.parquet"),
        "lake": folder / "lake",
        "duckdb": es.sql(f"select * from '{folder / 't.parquet'}'", "duckdb://"),
        "sqlite": sqlite(table, folder / "t.db"),
        "records": table.to_pylist(),
        "columns": {name: table[name].to_pylist() for name in table.column_names},
        "arrays": {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names},
    }


def test_every_source_gives_the_same_bits(tmp_path):
    table = frame()
    pq.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    wanted = None
    for name, data in sources(table, tmp_path).items():
        words = {"by": ["city", "year"], "columns": ["a", "b"], "neighbors": "add_remove", "noise": "gaussian"}
        given = data() if callable(data) else data
        release = es.sum(given, ROWS, rng=np.random.default_rng(0), **words, **BUDGET)
        keys = [[city, str(year)] for city, year in release.keys.tolist()]
        found = keys, release.value.tolist(), release.counts.tolist()
        wanted = wanted or found
        assert found == wanted, name
    assert len(wanted[0]) == 21


def test_people_in_groups_are_the_same_everywhere(tmp_path):
    table = frame()
    pq.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    wanted = {}
    for name, data in sources(table, tmp_path).items():
        kind = {"csv": "text", "records": "plain", "columns": "plain", "sqlite": "text"}.get(name, "typed")
        words = {
            "by": es.Groups("city", max_per_person=2),
            "columns": ["a", "b"],
            "privacy_id": "who",
            "noise": "gaussian",
        }
        given = data() if callable(data) else data
        release = es.sum(given, ROWS, rng=np.random.default_rng(0), **words, **BUDGET)
        found = release.keys.tolist(), release.value.tolist(), release.counts.tolist()
        assert found == wanted.setdefault(kind, found), name  # which groups are kept goes by the identities' bytes
    assert all(len(found[0]) == len(TEXTS) for found in wanted.values())


def test_keys_beside_an_array():
    table = frame()
    data = np.column_stack([table["a"].to_numpy(), table["b"].to_numpy()])
    words = {"noise": "gaussian", "error_weights": "equal", **BUDGET}
    wanted = es.sum(table, ROWS, by=es.Groups("city", TEXTS), columns=["a", "b"], rng=np.random.default_rng(0), **words)
    cities = table["city"]
    for by in (
        np.array(cities.to_pylist()),
        np.array(cities.to_pylist(), object),
        cities,
        pd.Series(cities.to_pylist()),
    ):
        found = es.sum(data, es.Box([0, -5], [1, 5]), by=es.Groups(by, TEXTS), rng=np.random.default_rng(0), **words)
        assert (found.value == wanted.value).all()
        assert found.by == ("key",)
    several = [pl.Series("town", cities.to_pylist()), table["year"].to_numpy()]
    pairs = es.sum(data, es.Box([0, -5], [1, 5]), by=several, neighbors="add_remove", **BUDGET)
    assert pairs.by == ("town", "key2")
    with_year = np.column_stack([data, table["year"].to_numpy()])
    by_place = es.mean(with_year, es.Box([0, -5], [1, 5]), by=2, **BUDGET)
    assert by_place.keys[:, 0].tolist() == [2020.0, 2021.0, 2022.0]


@pytest.mark.parametrize("kind", [object, "string", "string[python]", "string[pyarrow]", "category"])
def test_strings_of_pandas_name_groups_and_people_whatever_their_type(kind):
    """The default is object in pandas 2, and str in pandas 3."""
    names = pd.Series(["x", "y", None] * 100).astype(kind)
    data = pd.DataFrame({"a": np.arange(300.0), "k": names})
    how = {"neighbors": "add_remove", "rng": np.random.default_rng(0), **BUDGET}
    release = es.sum(data[["a"]], es.Box({"a": (0, 300)}), by=names, **how)
    assert release.keys.tolist() == [["x"], ["y"]]
    within = es.sum(data, es.Box({"a": (0, 300)}), by="k", **(how | {"rng": np.random.default_rng(0)}))
    assert (within.value == release.value).all()
    assert es.sum({"a": data["a"], "k": names}, es.Box({"a": (0, 300)}), by="k", **how).keys.tolist() == [["x"], ["y"]]
    assert es.mean(data, es.Box({"a": (0, 300)}), privacy_id="k", **BUDGET).plan.n == 2


def test_objects_of_pandas_go_by_their_texts():
    frame = pd.DataFrame({"a": np.full(300, 0.5), "k": pd.Series(["x", 7, None] * 100, dtype=object)})
    release = es.sum(frame, es.Box({"a": (0, 1)}), by="k", neighbors="add_remove", **BUDGET)
    assert release.keys.tolist() == [["7"], ["x"]]


def test_a_plan_runs_on_other_arrays():
    data, codes = np.ones((600, 1)), np.repeat([3, 4], 300)
    made = es.mean(data, es.Box(0, 2), by=codes, **BUDGET).plan
    assert made.grouping.labels == ()  # a plan holds nothing of the data
    again = es.GroupPlan.from_json(made.to_json()).release(data, by=codes)
    assert again.keys.tolist() == [[3], [4]]
    with pytest.raises(es.UsageError):
        made.release(data)
    with pytest.raises(es.UsageError, match="made for 600 rows"):
        made.release(data[:500], by=codes[:500])


KINDS = {
    "text": (pa.array(["b", "a", None] * 100), ["a", "b"]),
    "categories": (pa.array(["b", "a", None] * 100).dictionary_encode(), ["a", "b"]),
    "int8": (pa.array([5, -3, None] * 100, pa.int8()), [-3, 5]),
    "uint64": (pa.array([5, 2**64 - 1, None] * 100, pa.uint64()), [5, 2**64 - 1]),
    "bool": (pa.array([True, False, None] * 100), [False, True]),
    "real": (pa.array([0.0, -0.0, 1.5, np.nan] * 75), [0.0, 1.5]),
    "date": (pa.array([date(2026, 1, 2), date(1925, 3, 1), None] * 100), [date(1925, 3, 1), date(2026, 1, 2)]),
    "time": (pa.array([datetime(2026, 1, 2, 3, 4, 5, 6), None] * 150), [datetime(2026, 1, 2, 3, 4, 5, 6)]),
    "zoned": (
        pa.array([datetime(2026, 1, 2, tzinfo=UTC), None] * 150, pa.timestamp("ms", "UTC")),
        [datetime(2026, 1, 2, tzinfo=UTC)],
    ),
    "decimal": (pa.array([Decimal("1.50"), Decimal("2.25"), None] * 100), ["1.50", "2.25"]),
}


@pytest.mark.parametrize("name", KINDS)
def test_keys_of_every_type(name):
    cells, wanted = KINDS[name]
    data = pa.table({"a": np.full(300, 0.5), "k": cells})
    rows, words = es.Box({"a": (0, 1)}), {"neighbors": "add_remove", **BUDGET}
    release = es.sum(data, rows, by="k", **words)
    assert [key for (key,) in release.keys.tolist()] == wanted
    assert es.from_json(release.to_json()) == release
    given = es.sum(data, rows, by=es.Groups("k", [*wanted[::-1], None]), **words)  # a missing cell, if it is listed
    assert [key for (key,) in given.keys.tolist()] == [*wanted, None]
    assert es.from_json(given.to_json()) == given
    assert given.counts.sum() == pytest.approx(300, abs=60)
    assert given.counts.min() > 50
    assert es.GroupPlan.from_json(given.plan.to_json()) == given.plan
    table = given.to_arrow()
    assert table.column("k").null_count == 1


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([0, 10**7, -(10**7), 3_000_000] * 75, pa.int32()).cast(pa.date32()),
        pa.array([0, 2**62, -(2**62), None] * 75).cast(pa.timestamp("s")),
        pa.array([0, 2**62, -(2**62), None] * 75).cast(pa.timestamp("us", "Europe/Oslo")),
        pa.array([0.0, np.inf, -np.inf, np.nan] * 75),
    ],
)
def test_what_cannot_be_shown_names_no_group(cells):
    data = pa.table({"a": np.full(300, 0.5), "k": cells})
    release = es.sum(data, es.Box({"a": (0, 1)}), by="k", neighbors="add_remove", **BUDGET)
    assert len(release.keys) == 1
    assert es.from_json(release.to_json()) == release


def test_times_are_told_apart_as_finely_as_python_does():
    whole = pa.array([1_000_000_001, 1_000_000_999, 1_000_001_000] * 100)
    data = pa.table({"a": np.full(300, 0.5), "k": whole.cast(pa.timestamp("ns"))})
    release = es.sum(data, es.Box({"a": (0, 1)}), by="k", neighbors="add_remove", **BUDGET)
    assert [key.microsecond for (key,) in release.keys.tolist()] == [0, 1]
    assert release.counts == pytest.approx([200, 100], abs=60)


def test_types_that_name_no_group_are_refused():
    for cells in (pa.array([[1], [2]]), pa.array([b"a", b"b"]), pa.array([1, 2], pa.duration("s"))):
        with pytest.raises(es.UsageError, match="Use a column of text"):
            es.sum(pa.table({"a": [1.0, 2.0], "k": cells}), es.Box({"a": (0, 1)}), by="k", **BUDGET)


@pytest.mark.parametrize(
    ("cells", "keys"),
    [
        (pa.array([1, 2]), ["a"]),
        (pa.array([1, 2]), [1.5]),
        (pa.array([1, 2]), [True]),
        (pa.array([1, 2]), [2**70]),
        (pa.array([True, False]), ["yes"]),
        (pa.array([date(2026, 1, 1)] * 2), ["first of May"]),
        (pa.array(["a", "b"]), ["x" * 2000]),
        (pa.array(["1", "2"]), [1, "1"]),
        (pa.array([1, 2]), [1, "1"]),
        (pa.array([1.0, 2.0]), [1.0, "nan"]),
        (pa.array([1.0, 2.0]), ["inf"]),
        (pa.array([date(2026, 1, 1)] * 2), ["0001-01-01"]),
        (pa.array([datetime(2026, 1, 1)] * 2), ["2026-01-01", "2026-01-01 00:00:00"]),
    ],
)
def test_keys_that_a_column_cannot_hold_are_refused(cells, keys, tmp_path):
    data = pa.table({"a": [1.0, 2.0], "k": cells})
    book = es.Ledger(str(tmp_path / "ledger.db"))
    book.init("people", epsilon=1.0, delta=1e-6)
    words = {"ledger": book.dataset("people"), **BUDGET}
    with pytest.raises(es.UsageError, match="keys"):
        es.sum(data, es.Box({"a": (0, 1)}), by=es.Groups("k", keys=keys), **words)
    assert len(es.sum(data, es.Box({"a": (0, 1)}), **words).value) == 1  # nothing was charged


NEW_YORK = "America/New_York"
MOMENTS = {
    "an hour that comes twice": pa.array([1_699_162_200, 1_699_165_800]).view(pa.timestamp("s", NEW_YORK)),
    "before zones had whole minutes": pa.array([-4_600_000_000, 0]).view(pa.timestamp("s", NEW_YORK)),
    "milliseconds": pa.array([5, 1000]).view(pa.timestamp("ms")),
    "nanoseconds": pa.array([5000, 10**9]).view(pa.timestamp("ns", "UTC")),
    "days in milliseconds": pa.array([5, 7, 86_400_003]).view(pa.date64()),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_times_can_be_listed_and_come_back_from_files(name):
    cells = pa.concat_arrays([MOMENTS[name]] * 300)
    data = pa.table({"a": np.ones(len(cells)), "k": cells})
    words = {"neighbors": "add_remove", **BUDGET}
    found = es.sum(data, es.Box({"a": (0, 1)}), by="k", **words)
    assert len(found.keys) == 2
    groups = es.Groups("k", [key for (key,) in found.keys])
    listed_too = es.sum(data, es.Box({"a": (0, 1)}), by=groups, **words)
    assert listed_too.counts == pytest.approx(found.counts, abs=60)
    for release in (found, listed_too):
        assert es.from_json(release.to_json()) == release


def test_keys_of_numpy_and_pandas_are_times_too():
    days = np.array(["2026-01-01", "NaT"] * 300, "datetime64[ns]")
    words = {"neighbors": "add_remove", **BUDGET}
    for keys in (days[:2], list(days[:2]), [pd.Timestamp(days[0]), pd.NaT]):
        release = es.sum(np.ones((600, 1)), es.Box(0, 1), by=es.Groups(days, keys), **words)
        assert release.keys.tolist() == [[datetime(2026, 1, 1)], [None]]
        assert release.counts == pytest.approx([300, 300], abs=60)


HALF = "\ud800"  # half a pair of surrogates, which UTF-8 has no bytes for


@pytest.mark.parametrize("pack", [np.array, lambda cells: np.array(cells, object), list, pd.Series])
def test_letters_that_are_no_characters_raise_nothing(pack):
    for last in ("a", HALF):
        cells = ["a"] * 399 + [last]
        column = pd.Series(cells, dtype=pd.StringDtype("python")) if pack is pd.Series else pack(cells)
        columns = {"b": np.ones(400), "k": column, "who": column}
        data = pd.DataFrame(columns) if pack is pd.Series else columns
        words = {"columns": ["b"], "neighbors": "add_remove", **BUDGET}
        assert es.sum(data, es.Box(0, 1), by="k", **words).keys.tolist() == [["a"]]
        es.sum(data, es.Box(0, 1), privacy_id="who", **words)
        beside = np.array(cells) if pack is list else column
        assert es.sum(np.ones((400, 1)), es.Box(0, 1), by=beside, neighbors="add_remove", **BUDGET).keys.tolist() == [
            ["a"]
        ]
    listing = es.sum(data, es.Box(0, 1), by=es.Groups("k", keys=[HALF]), **words)
    assert es.from_json(listing.to_json()) == listing


def test_long_and_broken_texts():
    cells = pa.array([b"x" * 1024, b"y" * 1025, b"\xff\xfe", b"\\xff\\xfe"] * 200, pa.binary()).cast(pa.large_binary())
    texts = pa.LargeStringArray.from_buffers(800, cells.buffers()[1], cells.buffers()[2])
    release = es.sum(
        pa.table({"a": np.ones(800), "k": texts}), es.Box({"a": (0, 1)}), by="k", neighbors="add_remove", **BUDGET
    )
    assert [key for (key,) in release.keys.tolist()] == ["\\xff\\xfe", "x" * 1024]  # the longer one names no group


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"by": "nope"}, r"no column 'nope' \(from by\)"),
        ({"by": "a", "columns": ["a"]}, "among columns"),
        ({"by": "who", "privacy_id": "who"}, "must be different columns"),
        ({"by": np.arange(3)}, "one entry for each row"),
        ({"by": [["x"], ["y"]]}, "by must name"),
    ],
)
def test_columns_that_cannot_be(words, message):
    with pytest.raises(es.UsageError, match=message):
        es.sum(frame(10), es.Box(0, 1), **{"columns": ["b"], **words}, **BUDGET)


def test_keys_beside_rows_without_places():
    query = es.sql("select 1.0 as a", "duckdb://")
    with pytest.raises(es.UsageError, match="no public order"):
        es.sum(query, es.Box(0, 1), by=np.arange(1), neighbors="add_remove", **BUDGET)


# People -------------------------------------------------------------------------------------------------


MAP = ClampedMap([0.5, 0.0], [2.0**30, 2.0**27], [1 << 29, 1 << 29], ([0, -5], [1, 5]), grid_bits=30)


def kept(table, most, keys=None, per_person="mean", max_rows=None):
    """{(group, person-wise sums)}: what grouping made of a table, by the number of people in each group."""
    selection = Selection(["a", "b"], "who", by=("city", "year"))
    people = People("who", per_person, max_rows)
    source = group_by_person(open_source(table, selection), people, most, keys)
    try:
        sums = source.total_by(MAP, keys)
        groups = zip(*[cells.to_pylist() for cells in sums.labels], strict=True)
        return source.count(), dict(
            zip(groups, zip(sums.rows.tolist(), sums.sums.to_float().tolist(), strict=True), strict=True)
        )
    finally:
        source.close()


def by_hand(table, most):
    """People and groups, and for people who have no more groups than count, their means."""
    rows = defaultdict(lambda: defaultdict(list))
    for row in table.to_pylist():
        rows[row["who"]][(row["city"].encode(), row["year"])].append((row["a"], row["b"]))
    return rows


@pytest.mark.parametrize("most", [1, 2, 50])
def test_a_person_is_one_row_in_few_groups(most):
    table = frame(3000)
    people, groups = kept(table, most)
    rows = by_hand(table, most)
    assert people == len(rows)
    assert sum(count for count, _ in groups.values()) == sum(min(most, len(own)) for own in rows.values())
    if most == 50:
        for group, (count, sums) in groups.items():
            members = [np.array(own[group], float)[:, 1].mean() for own in rows.values() if group in own]
            assert count == len(members)
            b = np.clip(members, -4, 4)
            assert sums[1] == pytest.approx(np.sum(b) * 2**27, abs=count)


def test_what_is_kept_depends_on_a_persons_own_rows_alone():
    table = frame(2000)
    order = np.random.default_rng(5).permutation(2000)
    assert kept(table.take(order), 2) == kept(table, 2)
    who = np.array(table["who"].to_pylist())
    some = table.filter(pa.array(who % 2 == 0))
    others = table.filter(pa.array(who % 2 == 1))
    _, whole = kept(table, 2)
    _, first = kept(some, 2)
    _, second = kept(others, 2)
    for group, (count, _) in whole.items():
        assert count == first.get(group, (0,))[0] + second.get(group, (0,))[0]


def test_people_without_a_listed_group_are_people_all_the_same():
    table = frame(2000)
    keys = listed([("Oslo", 2020), ("nowhere", 1)], ("city", "year"))
    people, groups = kept(table, 1, keys)
    assert people == len(set(table["who"].to_pylist()))
    assert groups[(b"nowhere", 1)][0] == 0
    members = {row["who"] for row in table.to_pylist() if (row["city"], row["year"]) == ("Oslo", 2020)}
    assert groups[(b"Oslo", 2020)][0] == len(members)  # unlisted groups of theirs take no place


def test_people_whose_key_is_missing_have_a_group_where_it_is_listed():
    table = frame(2000)
    cities = [None if i % 5 == 0 else city for i, city in enumerate(table["city"].to_pylist())]
    table = table.set_column(table.schema.get_field_index("city"), "city", pa.array(cities))
    people, groups = kept(table, 50, listed([(None, 2020), ("Oslo", 2021)], ("city", "year")))
    assert people == len(set(table["who"].to_pylist()))
    members = {row["who"] for row in table.to_pylist() if (row["city"], row["year"]) == (None, 2020)}
    assert groups[(None, 2020)][0] == len(members)
    words = {"privacy_id": "who", "columns": ["a", "b"], **BUDGET}
    groups = es.Groups("city", keys=["Oslo", None], max_per_person=2)
    assert es.mean(table, ROWS, by=groups, **words).keys.tolist() == [["Oslo"], [None]]


def test_groups_are_chosen_evenly():
    table = pa.table({"a": np.ones(8000), "b": np.ones(8000), "who": np.repeat(np.arange(2000), 4)})
    table = table.append_column("city", pa.array(["n", "e", "s", "w"] * 2000)).append_column(
        "year", pa.array([1] * 8000)
    )
    _, groups = kept(table, 1)
    counts = [count for count, _ in groups.values()]
    assert sum(counts) == 2000
    assert max(abs(count - 500) for count in counts) < 130  # six stds


def test_capped_sums_of_people():
    table = frame(2000)
    _, groups = kept(table, 50, per_person="sum", max_rows=1)
    _, means = kept(table, 50, per_person="mean", max_rows=1)
    assert groups == means


def test_rows_that_are_left_out_bring_no_group():
    data = pa.table({"a": [1.0] * 500 + [None] * 500, "k": ["x"] * 500 + ["y"] * 500})
    rows = es.Box({"a": (0, 2)})
    out = es.mean(data, rows, by="k", missing="drop_row", **BUDGET)
    assert out.keys.tolist() == [["x"]]
    both = es.sum(data, rows, by=es.Groups("k", keys=["x", "y"]), missing="drop_row", **BUDGET)
    assert abs(both.counts[1]) < 200
    with_columns = es.sum(data, rows, by="k", missing="skip", **BUDGET)
    assert with_columns.keys.tolist() == [["x"], ["y"]]


def test_learned_rows_serve():
    rng = np.random.default_rng(3)
    data = rng.normal([3.0, -2.0], [0.5, 2.0], (20_000, 2))
    rows = es.learn(data, es.Unknown(100.0), epsilon=2, delta=1e-6, rng=rng).bounds
    codes = rng.integers(0, 5, 20_000)
    release = es.mean(data, rows, by=codes, rng=rng, epsilon=2, delta=1e-6)
    assert release.value == pytest.approx(np.tile([3.0, -2.0], (5, 1)), abs=0.15)
    assert es.from_json(release.to_json()) == release
