"""Sources of rows: the same blocks from every kind of source, and behavior that no cell can change."""

import csv
import gzip
import io
import itertools
import struct
import threading
import time
import traceback
import warnings
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from csv_rules import NUMBER, identity_of, numbers_of, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from opening import open_table

from ellipsum.errors import DataError, EllipsumError, UsageError
from ellipsum.sources.arrow_files import _BATCH_CELLS, _PAGE_BUFFER
from ellipsum.sources.csv import CsvTable
from ellipsum.sources.local import block_rows
from ellipsum.sources.selection import Selection
from ellipsum.util.threads import QUEUED

SENTINEL = "Xq7secret"
NAN = float("nan")


def read(data, columns=None):
    """All rows of a source as one float64 array, after checking what every table promises."""
    table = open_table(data, columns)
    blocks = list(table.batches())
    for block in blocks:
        assert block.ndim == 2
        assert block.shape[1] == table.width
        assert block.dtype in (np.float32, np.float64)
    rows = np.vstack([np.empty((0, table.width)), *blocks]).astype(np.float64)
    assert table.rows() == len(rows)
    if table.columns is not None:
        assert len(table.columns) == table.width
    return rows


def same_bits(left, right):
    """Equal shape and, entry for entry, the same double; every NaN is the same missing entry."""
    left, right = np.asarray(left, np.float64), np.asarray(right, np.float64)
    both_missing = np.isnan(left) & np.isnan(right)
    return left.shape == right.shape and bool(((left.view(np.int64) == right.view(np.int64)) | both_missing).all())


def assert_silent(caught):
    """No word of any cell in an error, its causes, contexts or printed traceback."""
    error, seen = caught.value, 0
    assert isinstance(error, EllipsumError)
    assert SENTINEL not in "".join(traceback.format_exception(error, chain=True))
    while error is not None:
        assert SENTINEL not in str(error)
        assert SENTINEL not in repr(error.args)
        assert isinstance(error, EllipsumError)  # a foreign error in the chain could quote cells elsewhere
        error = error.__cause__ or error.__context__
        seen += 1
    assert seen >= 1


def write(path, text):
    data = text.encode() if isinstance(text, str) else text
    Path(path).write_bytes(gzip.compress(data) if str(path).endswith(".gz") else data)
    return path


# --- arrays -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", "g", ">f8", ">i4"])
def test_numeric_arrays_of_every_type(dtype):
    values = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    assert same_bits(read(values), [[0, 1, 1], [1, 0, 1]])


def test_whole_float_arrays_are_one_block_without_a_copy():
    for dtype in (np.float32, np.float64):
        base = np.arange(600_000, dtype=dtype).reshape(-1, 6)
        for array in (base, np.asfortranarray(base), base[::-3, ::2]):
            (block,) = open_table(array).batches()
            assert np.shares_memory(block, array)
            assert np.array_equal(block, array)


def test_a_read_only_array_is_read_and_left_alone():
    array = np.arange(12, dtype=np.int32).reshape(4, 3)
    array.flags.writeable = False
    assert same_bits(read(array, columns=[2, 0]), array[:, [2, 0]].astype(float))


def test_converted_arrays_come_in_bounded_blocks():
    blocks = list(open_table(np.ones((200_000, 10), np.int8)).batches())
    assert len(blocks) > 1
    assert max(block.nbytes for block in blocks) < 8e6


def test_masked_entries_are_missing():
    array = np.ma.masked_array([[1.0, 2.0], [3.0, 4.0]], mask=[[False, True], [False, False]])
    assert same_bits(read(array), [[1.0, NAN], [3.0, 4.0]])


def test_a_long_double_beyond_the_doubles_does_not_warn():
    huge = np.full((2, 1), 10, np.longdouble) ** 4000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isinf(read(huge)).all()


@pytest.mark.parametrize("dtype", ["U9", "O", "c16", "M8[s]", "m8[s]", "S9"])
def test_other_arrays_are_refused_without_a_value(dtype):
    array = np.zeros((2, 2), dtype)
    if dtype in ("U9", "O", "S9"):
        array[:] = SENTINEL
    with pytest.raises(UsageError, match="real numbers") as caught:
        open_table(array)
    assert_silent(caught)
    assert "\n" not in str(caught.value)


def test_array_shapes_and_columns_that_are_refused():
    with pytest.raises(UsageError, match=r"reshape\(-1, 1\)"):
        open_table(np.ones(3))
    with pytest.raises(UsageError, match="two-dimensional"):
        open_table(np.ones((2, 2, 2)))
    with pytest.raises(UsageError, match="no column"):
        open_table(np.ones((2, 0)))
    with pytest.raises(UsageError, match="no column names"):
        open_table(np.ones((2, 2)), columns=["a"])
    with pytest.raises(UsageError, match="from 0 to 1"):
        open_table(np.ones((2, 2)), columns=[2])
    with pytest.raises(UsageError, match="more than once"):
        open_table(np.ones((2, 2)), columns=[1, 1])
    with pytest.raises(UsageError, match="empty list"):
        open_table([])
    with pytest.raises(UsageError, match=r"numpy\.asarray"):
        open_table([1.0, 2.0])
    with pytest.raises(UsageError, match="got int"):
        open_table(3)


def test_no_rows_is_fine():
    assert read(np.empty((0, 3))).shape == (0, 3)
    assert list(open_table(np.empty((0, 3))).batches()) == []


# --- frames and Arrow ---------------------------------------------------------------------------

NUMBERS = {
    "whole": [1, None, 2**53 + 1],
    "real": [0.1, float("inf"), None],
    "flag": [True, None, False],
    "short": [1.5, None, -2.0],
}
EXPECTED = np.array([[1, 0.1, 1, 1.5], [NAN, np.inf, NAN, NAN], [2.0**53, NAN, 0, -2.0]])


def arrow_numbers():
    types = {"whole": pa.int64(), "real": pa.float64(), "flag": pa.bool_(), "short": pa.float32()}
    return pa.table({name: pa.array(NUMBERS[name], types[name]) for name in NUMBERS})


KINDS = (
    "pyarrow table",
    "record batch",
    "chunked",
    "pandas",
    "polars",
    "duckdb",
    "reader",
    "list of batches",
    "list of frames",
    "generator of batches",
)


def sources():
    table = arrow_numbers()
    pandas = table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}.get)
    pandas.index = ["x", "y", 7]  # an index that Arrow would append as a column, or fail on
    con = duckdb.connect()
    con.register("numbers", table)
    return {
        "pyarrow table": table,
        "record batch": table.to_batches()[0],
        "chunked": pa.concat_tables([table.slice(0, 1), table.slice(1)]),
        "pandas": pandas,
        "polars": pl.from_arrow(table),
        "duckdb": con.sql("select * from numbers"),
        "reader": table.to_reader(),
        "list of batches": [table.slice(0, 2), table.slice(2).to_batches()[0]],
        "list of frames": [pandas.iloc[:2], pl.from_arrow(table.slice(2))],
        "generator of batches": (b for b in table.to_batches(max_chunksize=1)),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_frame_gives_the_same_bits(kind):
    assert same_bits(read(sources()[kind]), EXPECTED)
    assert same_bits(read(sources()[kind], columns=["flag", "whole"]), EXPECTED[:, [2, 0]])
    assert open_table(sources()[kind]).columns == tuple(NUMBERS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_pass_is_the_same_or_refused(kind):
    table = open_table(sources()[kind])
    first = list(table.batches())
    assert table.reopenable == (kind not in ("reader", "generator of batches"))
    if table.reopenable:
        assert same_bits(np.vstack(list(table.batches())), np.vstack(first))
    else:
        with pytest.raises(UsageError, match="only once"):
            table.batches()
        assert table.rows() == 3


@pytest.mark.parametrize("source", [lambda: arrow_numbers().to_reader(), lambda: (np.ones((2, 2)) for _ in range(2))])
def test_a_one_shot_source_does_not_count_rows_before_its_pass(source):
    with pytest.raises(UsageError, match="only after it was read"):
        open_table(source()).rows()


def test_decimals_halves_dictionaries_and_nulls_are_numbers():
    table = pa.table(
        {
            "decimal": pa.array([Decimal("1.25"), None], pa.decimal128(20, 2)),
            "wide": pa.array([Decimal("-7"), Decimal("0.5")], pa.decimal256(50, 1)),
            "half": pa.array(np.array([1.5, 2.5], np.float16)),
            "coded": pa.array([4.0, None]).dictionary_encode(),
            "nothing": pa.nulls(2),
        }
    )
    expected = [[1.25, -7, 1.5, 4, NAN], [NAN, 0.5, 2.5, NAN, NAN]]
    assert same_bits(read(table), expected)
    assert same_bits(read(table.slice(1)), expected[1:])


def test_single_precision_stays_single():
    (block,) = open_table(pa.table({"a": pa.array([0.1], pa.float32()), "b": pa.array([1], pa.float32())})).batches()
    assert block.dtype == np.float32


def test_embeddings_are_rows(tmp_path):
    values = pa.array([[1, 2, 3], None, [4, None, 6], [7, 8, 9]], pa.list_(pa.float32(), 3))
    table = pa.table({"id": ["a", "b", "c", "d"], "vector": values})
    expected = [[1, 2, 3], [NAN] * 3, [4, NAN, 6], [7, 8, 9]]
    assert same_bits(read(table, columns="vector"), expected)
    assert same_bits(read(table.slice(1, 2), columns="vector"), expected[1:3])
    assert open_table(table, ["vector"]).columns == ("vector[0]", "vector[1]", "vector[2]")
    feather.write_feather(table, tmp_path / "e.feather")
    pq.write_table(table, tmp_path / "e.parquet")
    assert same_bits(read(tmp_path / "e.feather", columns=["vector"]), expected)
    assert same_bits(read([tmp_path / "e.parquet"], columns=["vector"]), expected)


def text_table():
    nested = [{"x": SENTINEL, "y": [1]}, {"x": SENTINEL, "y": [2]}]
    return pa.table({"a": [1.0, 2.0], "name": [SENTINEL, SENTINEL], "nested": nested, "b": [3, 4]})


def text_sources(folder):
    table = text_table()
    pq.write_table(table, folder / "t.parquet")
    feather.write_feather(table, folder / "t.feather")
    with pa.OSFile(str(folder / "t.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    con = duckdb.connect()
    con.register("t", table)
    return [
        table,
        folder / "t.parquet",
        folder / "t.feather",
        folder / "t.arrow",
        con.sql("select * from t"),
        pl.from_arrow(table),
        table.to_pandas(),
    ]


@pytest.mark.parametrize("index", range(7))
def test_text_and_nested_columns_matter_only_when_chosen(tmp_path, index):
    source = text_sources(tmp_path)[index]
    assert same_bits(read(source, columns=["b", "a"]), [[3, 1], [4, 2]])
    for columns in (None, ["a", "name"], ["nested"]):
        with pytest.raises(UsageError, match=r"is of type .*, not a number") as caught:
            open_table(source, columns)
        assert_silent(caught)
        named = {"name", "nested"} & set(columns or ["name", "nested"])
        assert any(f"Column {name!r}" in str(caught.value) for name in named)


def test_a_column_of_python_objects_is_refused_whatever_it_holds():
    for cells in ([1.0, 2.0], [1.0, SENTINEL]):
        frame = pd.DataFrame({"a": [1.0, 2.0], "o": pd.Series(cells, dtype=object)})
        assert same_bits(read(frame, columns=["a"]), [[1.0], [2.0]])
        with pytest.raises(UsageError, match="'o' of data is of type object") as caught:
            open_table(frame)
        assert_silent(caught)


def test_a_bare_column_is_refused_with_advice():
    for column in (pa.chunked_array([[1.0]]), pa.array([1.0]), [pd.Series([1.0])], [pl.Series([1.0])]):
        with pytest.raises(UsageError, match="single column"):
            open_table(column)


def test_a_failing_query_does_not_speak():
    relation = duckdb.connect().sql(f"select cast(x as double) as x from (values ('1'), ('{SENTINEL}')) t(x)")
    table = open_table(relation)
    for call in (lambda: list(table.batches()), table.rows):
        with pytest.raises(DataError) as caught:
            call()
        assert_silent(caught)


def test_integer_labels_are_names():
    frame = pd.DataFrame(np.arange(6.0).reshape(2, 3))
    assert open_table(frame).columns == ("0", "1", "2")
    assert same_bits(read(frame, columns=[2, "0"]), [[2, 0], [5, 3]])


# --- choice of columns --------------------------------------------------------------------------


def column_sources(folder):
    table = pa.table({"a": [1.0], "b": [2.0], "c": [3.0]})
    pq.write_table(table, folder / "c.parquet")
    feather.write_feather(table, folder / "c.feather")
    write(folder / "c.csv", "a,b,c\n1,2,3\n")
    return [
        table,
        folder / "c.parquet",
        folder / "c.feather",
        folder / "c.csv",
        table.to_pandas(),
        pl.from_arrow(table),
    ]


@pytest.mark.parametrize("index", range(6))
def test_columns_are_chosen_and_ordered_by_name(tmp_path, index):
    source = column_sources(tmp_path)[index]
    for names, values in ((["c", "a"], [3, 1]), (["b", "c", "a"], [2, 3, 1]), (["c", "a", "b"], [3, 1, 2])):
        assert same_bits(read(source, columns=names), [values])
    assert same_bits(read(source, columns="b"), [[2]])
    assert open_table(source, ["c", "a"]).columns == ("c", "a")
    with pytest.raises(UsageError, match=r"'z'.* Columns: 'a', 'b', 'c'\."):
        open_table(source, ["a", "z"])
    with pytest.raises(UsageError, match="more than once"):
        open_table(source, ["a", "b", "a"])
    with pytest.raises(UsageError, match="No column"):
        open_table(source, [])
    with pytest.raises(UsageError, match="got float"):
        open_table(source, 1.5)


def test_an_ambiguous_name_is_refused_only_when_chosen():
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0]), pa.array([3.0])], ["a", "b", "a"])
    assert same_bits(read(table, columns=["b"]), [[2]])
    with pytest.raises(UsageError, match="2 columns called 'a'"):
        open_table(table)


# --- lists and iterables ------------------------------------------------------------------------


def test_batches_of_other_columns_are_refused():
    with pytest.raises(UsageError, match="Batch 1 has 3 columns"):
        open_table([np.ones((2, 2)), np.ones((2, 3))])
    with pytest.raises(UsageError, match="other column names"):
        open_table([pa.table({"a": [1.0]}), pa.table({"b": [1.0]})])
    table = open_table(np.ones((2, width)) for width in (2, 3))
    with pytest.raises(UsageError, match="A later batch has 3 columns"):
        list(table.batches())
    with pytest.raises(UsageError, match="two-dimensional array or an Arrow table"):
        open_table(x for x in ("a.csv", "b.csv"))
    with pytest.raises(DataError, match="empty"):
        open_table(iter([]))


def test_an_iterable_that_starts_anew_serves_many_passes():
    class Batches:
        def __iter__(self):
            return (np.full((2, 1), float(i)) for i in range(3))

    table = open_table(Batches())
    assert table.reopenable
    assert table.rows() == 6
    for _ in range(2):
        assert same_bits(np.vstack(list(table.batches())), [[0], [0], [1], [1], [2], [2]])


def test_an_error_in_the_callers_iterator_does_not_speak():
    def broken():
        yield np.ones((1, 1))
        raise ValueError(SENTINEL)

    with pytest.raises(DataError, match="error of its own") as caught:
        list(open_table(broken()).batches())
    assert_silent(caught)


# --- CSV ----------------------------------------------------------------------------------------

TRICKY = (
    'a,b,"c, ""d"""\r\n'
    " 1.5 ,1e3,+2\r\n"  # blanks, exponents, plus
    f"{SENTINEL},,-.5\r\n"  # text, empty
    '"3","4\r\n5","6,7"\r\n'  # quoted number, quoted line end, quoted separator
    "\r\n"  # blank: one row
    "1,2\r\n"  # too few
    f"1,2,3,{SENTINEL}\r\n"  # too many
    'NaN,inf,"  8  "\r\n'
    '5" nail,1_000,0x10\r\n'  # a quote within a cell is a letter; no Python numbers
    '"9"1,"""1""",1e\r\n'
    "1.,.,1e400"  # no line end
)
TRICKY_ROWS = [
    [1.5, 1000, 2],
    [NAN, NAN, -0.5],
    [3, NAN, NAN],
    [NAN] * 3,
    [NAN] * 3,
    [NAN] * 3,
    [NAN, NAN, 8],
    [NAN] * 3,
    [NAN] * 3,
    [1, NAN, np.inf],
]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "T.CSV"])
def test_every_line_of_a_csv_is_a_row(tmp_path, name, end, mark):
    path = write(tmp_path / name, mark + TRICKY.encode().replace(b"\r\n", end))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same_bits(read(path), TRICKY_ROWS)
        assert same_bits(read(path, columns=['c, "d"', "a"]), np.array(TRICKY_ROWS)[:, [2, 0]])
    assert open_table(path).columns == ("a", "b", 'c, "d"')
    assert open_table(path).rows() == 10


def test_tabs_separate_the_cells_of_a_tsv(tmp_path):
    assert same_bits(read(write(tmp_path / "t.tsv", "a\tb\n1\t 2\n1,5\t\n")), [[1, 2], [NAN, NAN]])


def test_a_blank_line_of_a_single_column_is_a_missing_cell(tmp_path):
    assert same_bits(read(write(tmp_path / "t.csv", 'a\n1\n\n"2"\n\n')), [[1], [NAN], [2], [NAN]])


@pytest.mark.parametrize("text", ["a,b\n", "a,b", "a,b\r\n", "\ufeffa,b\n"])
def test_a_header_alone_is_a_table_of_no_rows(tmp_path, text):
    table = open_table(write(tmp_path / "t.csv", text))
    assert table.columns == ("a", "b")
    assert table.rows() == 0
    assert list(table.batches()) == []


PIECES = st.lists(
    st.sampled_from(
        [
            "0",
            "1",
            "27",
            ".",
            "e",
            "E",
            "+",
            "-",
            '"',
            '""',
            ",",
            ",",
            ",",
            "\n",
            "\n",
            "\r",
            "\r\n",
            " ",
            "\t",
            "x",
            "nan",
        ]
    ),
    max_size=40,
).map("".join)


@settings(max_examples=300, deadline=None)
@given(body=PIECES, chunk=st.integers(1, 200), longest=st.integers(4, 60), packed=st.booleans())
def test_csv_agrees_with_the_written_rules_wherever_the_file_is_cut(tmp_path_factory, body, chunk, longest, packed):
    path = tmp_path_factory.mktemp("csv") / ("t.csv.gz" if packed else "t.csv")
    write(path, "a,b\n" + body)
    expected = np.array([numbers_of(row, 2, longest) for row in rows_of(body)]).reshape(-1, 2)
    table = CsvTable(path, chunk_bytes=chunk, longest_line=longest)
    assert table.rows() == len(expected)
    rows = np.vstack([np.empty((0, 2)), *table.batches()])
    assert same_bits(rows, expected)
    for place, name in enumerate("ab"):
        pieces = list(CsvTable(path, Selection(key=name), chunk_bytes=chunk, longest_line=longest).pieces())
        found = [key for keys, _ in pieces for key in keys.to_pylist()]
        assert found == [who and who.encode() for who in (identity_of(row, place, longest) for row in rows_of(body))]


@pytest.mark.parametrize("quote", ["", '"'])
def test_every_short_cell_is_a_number_or_missing(tmp_path, quote):
    cells = ["".join(letters) for size in range(6) for letters in itertools.product("07.eE+- x", repeat=size)]
    text = "".join(f"{quote}{cell}{quote},1\n" for cell in cells)
    expected = [float(cell) if NUMBER.fullmatch(cell) else NAN for cell in cells]
    rows = read(write(tmp_path / "t.csv", "a,b\n" + text))
    assert same_bits(rows[:, 0], expected)
    assert 1000 < np.isfinite(rows[:, 0]).sum() < len(cells) - 1000


def test_csv_reads_what_the_standard_writer_writes(tmp_path):
    rng = np.random.default_rng(5)
    values = rng.integers(0, 2**64, (400, 3), dtype=np.uint64).view(np.float64)
    values[~np.isfinite(values)] = 0.1
    texts = ["plain", 'quo"te', "com,ma", "line\nend", "cr\rlf\r\n", ""]
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(["t", "x", "y", "u", "z"])
    for i, (x, y, z) in enumerate(values.tolist()):
        writer.writerow([texts[i % 6], repr(x), repr(y), texts[(i + 1) % 6], repr(z)])
    path = write(tmp_path / "t.csv", out.getvalue())
    assert same_bits(read(path, columns=["x", "y", "z"]), values)
    assert np.isnan(read(path, columns=["t", "u"])).all()


def test_long_numbers_are_rounded_correctly(tmp_path):
    rng = np.random.default_rng(6)
    texts = [
        "9007199254740993",
        "0." + "3" * 60,
        "1" + "0" * 400,
        "4.9e-324",
        "2.4703282292062327e-324",
        "1e-400",
        "-0",
    ]
    for _ in range(2000):
        digits = "".join(map(str, rng.integers(0, 10, rng.integers(17, 40))))
        texts.append(f"{digits[:5]}.{digits[5:]}e{rng.integers(-330, 300)}")
    path = write(tmp_path / "t.csv", "a\n" + "\n".join(texts) + "\n")
    assert same_bits(read(path)[:, 0], [float(text) for text in texts])


def test_a_line_beyond_the_limit_is_one_missing_row_and_is_not_held(tmp_path):
    body = "1,2\n" + "3," + "x" * 5000 + "\n" + '"' + 'y""\n' * 3000 + '",4\n' + "5,6\n"
    path = write(tmp_path / "t.csv", "a,b\n" + body)
    table = CsvTable(path, chunk_bytes=64, longest_line=1000)
    assert table.rows() == 4
    assert same_bits(np.vstack(list(table.batches())), [[1, 2], [NAN, NAN], [NAN, NAN], [5, 6]])
    assert max(len(lines.text) for lines in table._chunks()) < 1100
    short = CsvTable(path, chunk_bytes=64, longest_line=10**6)
    assert same_bits(np.vstack(list(short.batches())), [[1, 2], [3, NAN], [NAN, 4], [5, 6]])


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("34.5,70.25\n1,2\n", "holds numbers"),
        ("34\n1\n", "holds numbers"),
        ("17,23\n1,2\n", "holds numbers"),
        ("a;b\n1;2\n", "separate its cells by ';'"),
        ("\n1,2\n", "blank line"),
        ("\xff".encode("latin-1") + b"\xfea\x00", "UTF-16"),
    ],
)
def test_headers_that_are_refused(tmp_path, text, advice):
    with pytest.raises(EllipsumError, match=advice) as caught:
        open_table(write(tmp_path / "t.csv", text))
    said = str(caught.value).replace(str(tmp_path), "")  # the folder has a number of its own
    assert not any(cell in said for cell in ("34", "70.25", "17", "23"))


def test_a_first_line_of_numbers_is_never_quoted(tmp_path):
    path = write(tmp_path / "t.csv", "34.5,70.25\n1,2\n")
    with pytest.raises(UsageError, match="holds numbers"):
        open_table(path, ["age"])
    assert same_bits(read(path, columns=["70.25"]), [[2]])  # the caller typed it
    assert same_bits(read(write(tmp_path / "u.csv", "0,1\n5,6\n")), [[5, 6]])  # what pandas writes for an array


# --- files --------------------------------------------------------------------------------------


def test_a_parquet_file_of_many_row_groups_keeps_its_order(tmp_path):
    values = np.random.default_rng(1).normal(size=(10_000, 3))
    table = pa.table({name: values[:, j] for j, name in enumerate("abc")})
    for group in (10_000, 700):
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=group)
        assert same_bits(read(tmp_path / "t.parquet"), values)
        assert same_bits(read(str(tmp_path / "t.parquet"), columns=["c", "a"]), values[:, [2, 0]])
    pq.write_table(table.slice(0, 0), tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet").shape == (0, 3)


def test_one_table_from_every_format(tmp_path):
    table = pa.table({"a": [1.0, None, 0.1], "b": [1, 2, 3]})
    pq.write_table(table, tmp_path / "t.parquet")
    for codec in ("lz4", "zstd", "uncompressed"):
        feather.write_feather(table, tmp_path / f"{codec}.feather", compression=codec)
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    write(tmp_path / "t.csv.gz", "a,b\n1,1\n,2\n0.1,3\n")
    expected = read(table)
    names = ["t.parquet", "lz4.feather", "zstd.feather", "uncompressed.feather", "t.arrow", "t.csv.gz"]
    for name in names:
        assert same_bits(read(tmp_path / name), expected), name
        assert same_bits(read(str(tmp_path / name), columns=["b", "a"]), expected[:, ::-1]), name
    assert same_bits(read([tmp_path / name for name in names]), np.vstack([expected] * 6))


def test_globs_folders_and_lists(tmp_path):
    (tmp_path / "deep").mkdir()
    write(tmp_path / "p1.csv", "a,b\n1,2\n")
    write(tmp_path / "p2.csv", "b,a\n4,3\n")
    write(tmp_path / "deep" / "p3.csv", "a,b\n5,6\n")
    write(tmp_path / "_SUCCESS", "")
    write(tmp_path / ".hidden.csv", "z\n1\n")
    assert same_bits(read(str(tmp_path / "*.csv")), [[1, 2], [3, 4]])
    assert same_bits(read(tmp_path), [[5, 6], [1, 2], [3, 4]])
    assert same_bits(read([tmp_path / "p2.csv", str(tmp_path / "p1.csv")]), [[4, 3], [2, 1]])
    assert open_table(tmp_path).columns == ("a", "b")
    write(tmp_path / "p4.csv", "a,c\n1,2\n")
    with pytest.raises(UsageError, match=r"p4\.csv"):
        open_table(tmp_path)
    write(tmp_path / "p4.csv", "a,b,c\n7,8,9\n")
    with pytest.raises(UsageError, match=r"p4\.csv has other columns"):
        open_table(tmp_path)
    assert same_bits(read(str(tmp_path / "p*.csv"), columns=["b"]), [[2], [4], [8]])


def broken_files(folder):
    """Files that cannot be read, each holding the sentinel where it can hold anything."""
    table = pa.table({"a": [1.0] * 999, "s": [SENTINEL] * 999})
    pq.write_table(table, folder / "good.parquet")
    feather.write_feather(table, folder / "good.feather")
    whole = (folder / "good.parquet").read_bytes()
    arrow = (folder / "good.feather").read_bytes()
    packed = gzip.compress(f"a,s\n1,{SENTINEL}\n".encode() * 9999)
    (folder / "empty").mkdir()
    (folder / "folder.csv").mkdir()
    footer = struct.unpack("<I", whole[-8:-4])[0]
    return {
        "missing": folder / "missing.csv",
        "no match": folder / "missing*.csv",
        "empty folder": folder / "empty",
        "folder with a name": folder / "folder.csv",
        "empty csv": write(folder / "e.csv", b""),
        "empty gz": write(folder / "e.csv.gz", b""),
        "empty parquet": write(folder / "e.parquet", b""),
        "cut parquet": write(folder / "c.parquet", whole[:-20]),
        "holed parquet": write(
            folder / "h.parquet", b"PAR1" + b"\xff" * (len(whole) - footer - 12) + whole[-footer - 8 :]
        ),
        "text as parquet": write(folder / "t.parquet", f"a,s\n1,{SENTINEL}\n"),
        "cut feather": write(folder / "c.feather", arrow[: len(arrow) // 2]),
        "text as feather": write(folder / "t.feather", f"a,s\n1,{SENTINEL}\n"),
        "cut gzip": folder / "cut.csv.gz" if (folder / "cut.csv.gz").write_bytes(packed[:-30]) else None,
        "text as gzip": folder / "no.csv.gz" if (folder / "no.csv.gz").write_bytes(b"a,s\n1,2\n") else None,
    }


BROKEN = [
    "missing",
    "no match",
    "empty folder",
    "folder with a name",
    "empty csv",
    "empty gz",
    "empty parquet",
    "cut parquet",
    "holed parquet",
    "text as parquet",
    "cut feather",
    "text as feather",
    "cut gzip",
    "text as gzip",
]


@pytest.mark.parametrize("kind", BROKEN)
def test_a_file_that_cannot_be_read_is_a_data_error_without_its_contents(tmp_path, kind):
    path = broken_files(tmp_path)[kind]
    with pytest.raises(DataError) as caught:
        list(open_table(path, ["a"]).batches())
    assert_silent(caught)
    assert path.name in str(caught.value)


def test_an_unknown_suffix_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match=r"unknown suffix.*Parquet"):
        open_table(write(tmp_path / "t.xlsx", "a\n1\n"))


# --- data independence as a whole ---------------------------------------------------------------


def outcome(path, columns):
    """Everything but values that a caller can see of one source."""
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            table = open_table(path, columns)
            dtypes = {block.dtype for block in table.batches()}
            return table.columns, table.width, table.rows(), dtypes, len(seen)
    except EllipsumError as error:
        return type(error), str(error)


@pytest.mark.parametrize("columns", [None, ["b"], ["c", "a"], ["nope"]])
def test_no_cell_changes_what_a_csv_does(tmp_path, columns):
    lines = [
        "1,2,3",
        f"{SENTINEL},,",
        "1,2",
        "1,2,3,4",
        "",
        '"a\nb",1,""',
        "nan,inf,1e999",
        "\x00,\xff,\u2028",
        "-,+,.",
    ]
    lines += ['1,"2,3', '"', '1,2,"', '"1,"2,"3', "1,2\r3,4", "\r", f'"{SENTINEL}"x",2,"3']  # odd quotes, lone returns
    path = tmp_path / "t.csv"
    seen = []
    for line in lines:
        write(path, "a,b,c\n" + "4,5,6\n" * 3 + line + "\n" + "7,8,9\n" * 3)
        seen.append(outcome(path, columns))
    assert all(other == seen[0] for other in seen), seen
    if columns == ["nope"]:
        assert SENTINEL not in str(seen)


def test_one_line_of_a_csv_touches_its_own_row_only(tmp_path):
    others = "1.25,2,3\n" * 50
    for line in ("9,9,9", "x", "", ",,,,,", '"q\n"', '"1,\r\n2",5,6', '"', '1,"2,3', '1,2,"', "1\r2,3,4", "\r\r"):
        rows = read(write(tmp_path / "t.csv", f"a,b,c\n{others}{line}\n{others}"))
        assert len(rows) == 101
        assert same_bits(np.delete(rows, 50, axis=0), [[1.25, 2, 3]] * 100)


# --- progress and closing -----------------------------------------------------------------------


def test_progress_rises_to_one(tmp_path):
    values = np.random.default_rng(2).normal(size=(200_000, 4))
    table = pa.table({name: values[:, j] for j, name in enumerate("abcd")})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=30_000)
    pa_csv.write_csv(table, tmp_path / "t.csv")
    feather.write_feather(table, tmp_path / "t.feather")
    integers = np.ones((300_000, 5), np.int8)
    for source in (tmp_path / "t.parquet", tmp_path / "t.csv", tmp_path / "t.feather", tmp_path, table, integers):
        opened = open_table(source)
        opened.rows()
        seen = []
        for _ in opened.batches(seen.append):
            pass
        assert seen == sorted(seen)
        assert len(seen) > 1
        assert 0 < seen[0] < 1
        assert seen[-1] == pytest.approx(1.0, abs=1e-12)


def reading_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("ellipsum-read")]


def interrupted(batches):
    """A consumer that is stopped by Ctrl-C at its first block."""
    for _ in batches:
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.feather"])
def test_an_abandoned_pass_leaves_no_thread_behind(tmp_path, name):
    values = np.random.default_rng(3).normal(size=(300_000, 4))
    table = pa.table({column: values[:, j] for j, column in enumerate("abcd")})
    if name == "t.csv":
        pa_csv.write_csv(table, tmp_path / name)
    elif name == "t.parquet":
        pq.write_table(table, tmp_path / name, row_group_size=10_000)
    else:
        feather.write_feather(table, tmp_path / name)
    batches = open_table(tmp_path / name).batches()
    first = next(batches)
    assert reading_threads()
    batches.close()
    assert not reading_threads()
    assert same_bits(first, values[: len(first)])
    with pytest.raises(KeyboardInterrupt):
        interrupted(open_table(tmp_path / name).batches())
    assert not reading_threads()


def test_a_pass_holds_little_of_a_large_file(tmp_path):
    """The consumer has a batch, QUEUED wait, one is about to wait, and pyarrow has room for one; each column a page."""
    rows, columns = 2_000_000, 4
    table = pa.table({name: np.zeros(rows) + j for j, name in enumerate("abcd")})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=rows, use_dictionary=False, compression="none")
    batch = block_rows(columns, _BATCH_CELLS) * columns * 8
    held = (1 + QUEUED + 1 + 1) * batch + columns * _PAGE_BUFFER
    assert held < rows * columns * 8 / 3
    sizes, before = [], pa.total_allocated_bytes()
    for block in open_table(tmp_path / "t.parquet").batches():
        if len(sizes) < 3:
            time.sleep(0.2)  # the reader gets as far ahead as it can
        sizes.append(block.nbytes)
        assert pa.total_allocated_bytes() - before <= held
    assert sum(sizes) == rows * columns * 8
    assert max(sizes) <= batch
