"""One set of rows as every kind of source, and the ways in which two neighboring sets may differ."""

import gzip
import math
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq

import ellipsum as es

N, D = 40, 3
NAMES = ("a", "b", "c")
PLACE = 7  # of the row that differs
NAN, INF = math.nan, math.inf


@dataclass(frozen=True)
class Data:
    """Rows, whose they are, and how they are laid out.

    who: an identity a row (None: nobody), or None where nobody asked
    lines: raw lines of a CSV file in place of some rows
    years: the partition of each row; cut: where blocks, row groups and files end
    """

    rows: np.ndarray
    who: tuple[Any, ...] | None = None
    lines: tuple[tuple[int, bytes], ...] = ()
    years: tuple[int, ...] = ()
    cut: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    def sizes(self) -> list[int]:
        """Rows in each block."""
        n = len(self)
        first, second = ((n // 2, n // 4), (n // 5, n // 3))[self.cut]
        return [size for size in (first, second, n - first - second) if size]

    def parts(self) -> list["Data"]:
        ends = np.cumsum(self.sizes()).tolist()
        return [self.some(range(*span)) for span in zip([0, *ends], ends, strict=False)]

    def some(self, places: Any) -> "Data":
        places = list(places)
        return replace(
            self,
            rows=self.rows[places],
            who=None if self.who is None else tuple(self.who[i] for i in places),
            years=tuple(self.years[i] for i in places),
            lines=tuple((places.index(i), line) for i, line in self.lines if i in places),
        )

    def with_row(self, row: Any, place: int = PLACE) -> "Data":
        rows = self.rows.copy()
        rows[place] = row
        return replace(self, rows=rows)

    def with_line(self, line: bytes, place: int = PLACE) -> "Data":
        return replace(self, lines=((place, line),))

    def more(self, row: Any, who: Any = None) -> "Data":
        """One row more, behind the others."""
        owners = None if self.who is None else (*self.who, who)
        return replace(self, rows=np.vstack([self.rows, row]), who=owners, years=(*self.years, self.years[0]))


def base() -> Data:
    """Multiples of 1/8 in [-1, 1]: exact in every format, whole numbers once multiplied by 8."""
    rows = np.random.default_rng(0).integers(-8, 9, (N, D)) / 8
    return Data(rows, years=tuple(2020 + i // 3 % 3 for i in range(N)))


PEOPLE = 20
HERS = [i for i in range(N) if i % PEOPLE == PLACE]  # the rows of the person who is replaced


def people(kind: str) -> Data:
    """20 people with two rows each, the last two of whose rows are nobody's."""
    names = {"text": "p{}".format, "whole": lambda j: 100 + j, "real": lambda j: 100.0 + j / 3}[kind]
    who = [names(i % PEOPLE) for i in range(N - 2)]
    return replace(base(), who=(*who, None, None))


# --- sources ------------------------------------------------------------------------------------


def arrow(data: Data, year: bool = False) -> pa.Table:
    """Missing entries and identities as nulls."""
    columns: dict[str, Any] = {} if data.who is None else {"who": pa.array(data.who)}
    columns |= {name: pa.array(data.rows[:, j], from_pandas=True) for j, name in enumerate(NAMES)}
    return pa.table(columns | ({"year": pa.array(data.years)} if year else {}))


def array(data: Data) -> np.ndarray:
    """Identities, where there are any, in the first column; a NaN is nobody."""
    if data.who is None:
        return data.rows.copy()
    return np.column_stack([[NAN if who is None else who for who in data.who], data.rows])


def _single(data: Data) -> np.ndarray:
    with np.errstate(all="ignore"):
        return array(data).astype(np.float32)


def _whole(data: Data) -> np.ndarray:
    factors = [1.0, *[8.0] * D][-array(data).shape[1] :]
    return np.rint(np.clip(array(data) * factors, -(2.0**60), 2.0**60)).astype(np.int64)


def _masked(data: Data) -> Any:
    return np.ma.masked_where(np.isnan(array(data)), array(data))


def _strided(data: Data) -> np.ndarray:
    spread = np.full((2 * len(data), 2 * array(data).shape[1]), 99.0)
    spread[::2, ::2] = array(data)
    return spread[::2, ::2]


def _refilled(data: Data) -> Any:
    """A generator that uses one buffer for every batch."""
    buffer = np.empty_like(array(data)[:4])
    for first in range(0, len(data), 4):
        part = array(data)[first : first + 4]
        buffer[: len(part)] = part
        yield buffer[: len(part)]
    buffer[:] = 5.0


def cell(value: Any) -> bytes:
    if value is None or value != value:
        return b""
    return value.encode() if isinstance(value, str) else repr(value).encode()


def csv_text(data: Data) -> bytes:
    """The rows as text; a raw line takes the place of its row."""
    raw = dict(data.lines)
    header = [b"who"] * (data.who is not None) + [name.encode() for name in NAMES]
    lines = [b",".join(header)]
    for i, row in enumerate(data.rows.tolist()):
        owner = [] if data.who is None else [cell(data.who[i])]
        lines.append(raw.get(i, b",".join([*owner, *map(cell, row)])))
    return b"\n".join(lines) + b"\n"


def _csv(folder: Path, data: Data) -> Path:
    (folder / "t.csv").write_bytes(csv_text(data))
    return folder / "t.csv"


def _gzipped(folder: Path, data: Data) -> Path:
    (folder / "t.csv.gz").write_bytes(gzip.compress(csv_text(data), mtime=0))
    return folder / "t.csv.gz"


def _csv_folder(folder: Path, data: Data) -> Path:
    (folder / "csvs").mkdir()
    for k, part in enumerate(data.parts()):
        (folder / "csvs" / f"{k}.csv").write_bytes(csv_text(part))
    return folder / "csvs"


def _parquet(group: int) -> Callable[[Path, Data], Path]:
    def write(folder: Path, data: Data) -> Path:
        pq.write_table(arrow(data), folder / "t.parquet", row_group_size=group - 2 * data.cut)
        return folder / "t.parquet"

    return write


def _feather(folder: Path, data: Data) -> Path:
    feather.write_feather(arrow(data), folder / "t.feather", chunksize=13 - 4 * data.cut)
    return folder / "t.feather"


def _glob(folder: Path, data: Data) -> str:
    for k, part in enumerate(data.parts()):
        pq.write_table(arrow(part), folder / f"part{k}.parquet")
    return str(folder / "part*.parquet")


def _paths(folder: Path, data: Data) -> list[str]:
    _glob(folder, data)
    return [str(path) for path in sorted(folder.glob("part*.parquet"))]


def _lake(folder: Path, data: Data) -> Path:
    """A folder a year; the folder that a row is in follows from the row."""
    for year in sorted(set(data.years)):
        within = folder / "lake" / f"year={year}"
        within.mkdir(parents=True)
        chosen = [i for i in range(len(data)) if data.years[i] == year]
        pq.write_table(arrow(data.some(chosen)), within / "rows.parquet")
    return folder / "lake"


def _filtered(folder: Path, data: Data) -> Any:
    """Rows between others that the filter leaves out, in blocks that do not follow the rows."""
    inside = arrow(data, year=True)
    outside = inside.set_column(inside.num_columns - 1, "year", pa.array([1900] * len(data)))
    mixed = [part for first in range(0, len(data), 9) for part in (inside.slice(first, 9), outside.slice(first, 4))]
    pq.write_table(pa.concat_tables(mixed), folder / "more.parquet", row_group_size=11 - 4 * data.cut)
    return ds.dataset(folder / "more.parquet").filter(ds.field("year") > 1900)


def _duckdb_file(folder: Path, data: Data) -> None:
    with duckdb.connect(folder / "t.db") as connection:
        connection.register("given", arrow(data))
        connection.execute("create table t as select * from given")


def _sqlite_file(folder: Path, data: Data) -> None:
    kinds = {str: "text", int: "integer", float: "real"}
    owner = [] if data.who is None else [f"who {kinds[type(data.who[0])]}"]
    owners = [[]] * len(data) if data.who is None else [[who] for who in data.who]
    columns = [*owner, *(f"{name} real" for name in NAMES)]
    with sqlite3.connect(folder / "t.sqlite") as connection:
        connection.execute(f"create table t({', '.join(columns)})")
        marks = ", ".join("?" * len(columns))
        values = [_gaps(row) for row in data.rows.tolist()]
        connection.executemany(f"insert into t values ({marks})", [o + v for o, v in zip(owners, values, strict=True)])
    connection.close()


def _relation(folder: Path, data: Data) -> Any:
    connection = duckdb.connect()
    connection.register("given", arrow(data))
    return connection.sql("select * from given")


def _duckdb(folder: Path, data: Data) -> Any:
    _duckdb_file(folder, data)
    return es.sql("select * from t", f"duckdb:///{folder}/t.db")


def _sqlite(folder: Path, data: Data) -> Any:
    _sqlite_file(folder, data)
    return es.sql("select * from t", f"sqlite:///{folder}/t.sqlite")


def _sorted_query(folder: Path, data: Data) -> Any:
    """An index decides the order of rows, and so each row's value the place of all others."""
    _sqlite_file(folder, data)
    return es.sql("select * from t order by a, b, c", f"sqlite:///{folder}/t.sqlite")


def _chunked(data: Data) -> pa.Table:
    return pa.concat_tables([arrow(part) for part in data.parts()])


def _lists(data: Data) -> pa.Table:
    """Rows as lists of three, a null in place of a missing entry."""
    rows = [_gaps(row) for row in data.rows.tolist()]
    return pa.table({"vector": pa.array(rows, pa.list_(pa.float64(), D))})


def _gaps(row: Any) -> list[Any]:
    return [None if x != x else x for x in row]


def _columns(data: Data) -> dict[str, Any]:
    owners = {} if data.who is None else {"who": list(data.who)}
    return owners | {name: _gaps(data.rows[:, j].tolist()) for j, name in enumerate(NAMES)}


def records(data: Data) -> list[Any]:
    """A missing entry is a key that is not there."""
    owners = [{}] * len(data) if data.who is None else [{"who": who} for who in data.who]
    cells = ({name: x for name, x in zip(NAMES, row, strict=True) if x == x} for row in data.rows.tolist())
    return [owner | row for owner, row in zip(owners, cells, strict=True)]


def _row_lists(data: Data) -> list[Any]:
    owners = [[]] * len(data) if data.who is None else [[who] for who in data.who]
    return [owner + _gaps(row) for owner, row in zip(owners, data.rows.tolist(), strict=True)]


def memory(make: Callable[[Data], Any]) -> Callable[[Path, Data], Any]:
    return lambda folder, data: make(data)


@dataclass(frozen=True)
class Source:
    """A kind of source.

    make: from a folder and rows; words: the same on the command line
    places: whether a row's place is its own, whatever the other rows hold; sorted: it is known to follow from them
    cells: what its cells hold; who: the kinds of identities it has; cuts: whether its blocks can end elsewhere
    """

    name: str
    make: Callable[[Path, Data], Any]
    words: tuple[str, ...] = ()
    named: bool = True
    places: bool = True
    cells: str = "double"
    who: tuple[str, ...] = ("text", "whole", "real")
    cuts: bool = False
    lines: bool = False
    sorted: bool = False


NUMBERS = {"named": False, "who": ("whole", "real")}
_ALL = (
    Source("float64", memory(array), **NUMBERS),
    Source("float32", memory(_single), cells="single", named=False, who=("whole",)),
    Source("int64", memory(_whole), cells="whole", named=False, who=()),
    Source("masked", memory(_masked), **NUMBERS),
    Source("fortran", memory(lambda data: np.asfortranarray(array(data))), **NUMBERS),
    Source("strided", memory(_strided), **NUMBERS),
    Source("swapped bytes", memory(lambda data: array(data).astype(">f8")), **NUMBERS),
    Source("list of arrays", memory(lambda data: [array(part) for part in data.parts()]), cuts=True, **NUMBERS),
    Source("generator", memory(lambda data: map(array, data.parts())), places=False, cuts=True, **NUMBERS),
    Source("refilled buffer", memory(_refilled), places=False, **NUMBERS),
    Source("pandas", memory(lambda data: arrow(data).to_pandas())),
    Source(
        "pandas list",
        memory(lambda data: [arrow(part).to_pandas() for part in data.parts()]),
        cuts=True,
        who=("text", "real"),
    ),
    Source("polars", memory(lambda data: pl.from_arrow(arrow(data)))),
    Source("lazy frame", memory(lambda data: pl.from_arrow(arrow(data)).lazy()), places=False),
    Source("dict", memory(_columns)),
    Source("records", memory(records)),
    Source("list of rows", memory(_row_lists), named=False),
    Source("arrow", memory(arrow)),
    Source("arrow chunks", memory(_chunked), cuts=True),
    Source("arrow lists", memory(_lists), named=False, who=()),
    Source("record batches", memory(lambda data: _chunked(data).to_batches()), cuts=True),
    Source("reader", memory(lambda data: _chunked(data).to_reader()), places=False, cuts=True),
    Source("data set in memory", memory(lambda data: ds.dataset(_chunked(data))), places=False, cuts=True),
    Source("filtered data set", _filtered, places=False, cuts=True),
    Source("csv", _csv, ("t.csv",), lines=True),
    Source("csv.gz", _gzipped, ("t.csv.gz",), lines=True),
    Source("csv folder", _csv_folder, ("csvs",), lines=True, cuts=True),
    Source("parquet of 7", _parquet(7), ("t.parquet",), cuts=True),
    Source("parquet of 33", _parquet(33), ("t.parquet",), cuts=True),
    Source("parquet of 1000", _parquet(1000), ("t.parquet",)),
    Source("feather", _feather, ("t.feather",), cuts=True),
    Source("glob", _glob, ("part*.parquet",), cuts=True),
    Source("paths", _paths, ("part0.parquet", "part1.parquet", "part2.parquet"), cuts=True),
    Source("lake", _lake, ("lake",), places=False),
    Source("lake data set", lambda f, d: ds.dataset(_lake(f, d), partitioning="hive"), places=False),
    Source("relation", _relation, places=False),
    Source("duckdb", _duckdb, ("duckdb:///t.db", "--sql", "select * from t"), places=False),
    Source("sqlite", _sqlite, ("sqlite:///t.sqlite", "--sql", "select * from t"), places=False),
    Source(
        "sorted query",
        _sorted_query,
        ("sqlite:///t.sqlite", "--sql", "select * from t order by a, b, c"),
        places=False,
        sorted=True,
    ),
)
SOURCES = {source.name: source for source in _ALL}


# --- changes ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """Two neighboring sets of rows.

    same: the calls that must publish the same bits for both: "all"; with a known "center"; with a known center and
        no bins ("near center"); with a missing value filled by the center ("gaps"); without row "order"; or none
    cells: the kinds of cells that can hold the values; count: additional rows on the right, only for add_remove
    """

    name: str
    left: Callable[[Data], Data]
    right: Callable[[Data], Data]
    same: str = ""
    cells: tuple[str, ...] = ("double", "single", "whole")
    count: int = 0
    needs: str = ""


def _row(*values: float) -> Callable[[Data], Data]:
    return lambda data: data.with_row(values)


def _as_it_is(data: Data) -> Data:
    return data


def _turned(data: Data) -> Data:
    return data.some(np.random.default_rng(3).permutation(len(data)).tolist())


def _without(data: Data) -> Data:
    return data.some(i for i in range(len(data)) if i != PLACE)


def _elsewhere(data: Data) -> Data:
    years = list(data.years)
    years[PLACE] = 2022 if years[PLACE] != 2022 else 2020
    return replace(data.with_row((0.5, -0.5, 0.25)), years=tuple(years))


FLOATS = ("double", "single")
DOUBLES = ("double",)
FAR = 3.0 * 2.0**10
_CHANGES = (
    Change("other values", _as_it_is, _row(-1.0, 1.0, 0.5)),
    Change("huge", _as_it_is, _row(1e300, -1e300, 1e300)),
    Change("gap", _as_it_is, _row(0.25, NAN, -0.5), cells=FLOATS),
    Change("all gaps", _as_it_is, _row(NAN, NAN, NAN), cells=FLOATS),
    Change("infinite", _as_it_is, _row(INF, -INF, 0.5), cells=FLOATS),
    Change("other partition", _as_it_is, _elsewhere, needs="lake"),
    Change("gap or infinity", _row(0.25, NAN, NAN), _row(0.25, INF, -INF), "all", FLOATS),
    Change("gaps or center", _row(NAN, NAN, NAN), _row(0.0, 0.0, 0.0), "gaps", FLOATS),
    Change("tiny", _row(0.0, 0.0, 0.0), _row(1e-300, -1e-300, 5e-324), "near center", FLOATS),
    Change("zero of either sign", _row(0.0, 0.5, 0.0), _row(-0.0, 0.5, -0.0), "all", FLOATS),
    Change("far or further", _row(FAR, FAR, FAR), _row(FAR * 2.0**40, FAR * 2.0**40, FAR * 2.0**40), "center"),
    Change("far or at the end", _row(FAR, FAR, FAR), _row(*[FAR * 2.0**1000] * 3), "center", DOUBLES),
    Change("other order", _as_it_is, _turned, "order"),
    Change("other blocks", _as_it_is, lambda data: replace(data, cut=1), "all", needs="cuts"),
    Change("one row more", _as_it_is, lambda data: data.more((1.0, -1.0, 1.0)), count=1),
    Change("one row less", _as_it_is, _without, count=-1),
    Change("one gap more", _as_it_is, lambda data: data.more((NAN, NAN, NAN)), cells=FLOATS, count=1),
)
CHANGES = {change.name: change for change in _CHANGES}


def _hers(rows: Any) -> Callable[[Data], Data]:
    """The person's rows become others."""

    def change(data: Data) -> Data:
        for place in HERS:
            data = data.with_row(rows, place)
        return data

    return change


def _called(identity: Any) -> Callable[[Data], Data]:
    """The person becomes another one, with other rows."""

    def change(data: Data) -> Data:
        assert data.who is not None
        who = tuple(identity if i in HERS else name for i, name in enumerate(data.who))
        return replace(_hers((1.0, -1.0, 0.25))(data), who=who)

    return change


def _next_to_another(data: Data) -> Data:
    assert data.who is not None
    return _called(math.nextafter(data.who[3], INF))(data)


def _lost(data: Data) -> Data:
    """One of the person's two rows loses its identity."""
    assert data.who is not None
    return replace(data, who=tuple(None if i == HERS[1] else name for i, name in enumerate(data.who)))


def _gone(data: Data) -> Data:
    return data.some(i for i in range(len(data)) if i not in HERS)


ANYBODY = ("text", "whole", "real")
NOBODY = (N - 1, N - 2)
_IDENTITIES = (
    ("other values", _as_it_is, _hers((-1.0, 1.0, 1.0)), "", 0, ANYBODY),
    ("huge", _as_it_is, _hers((1e300, -1e300, 1e300)), "", 0, ANYBODY),
    ("all gaps", _as_it_is, _hers((NAN, NAN, NAN)), "", 0, ANYBODY),
    ("gap or infinity", _hers((0.25, NAN, NAN)), _hers((0.25, INF, -INF)), "all", 0, ANYBODY),
    ("far or further", _hers((FAR,) * 3), _hers((2 * FAR,) * 3), "center", 0, ANYBODY),
    ("more rows", _as_it_is, lambda data: data.more((1.0, 1.0, 1.0), data.who[PLACE]), "", 0, ANYBODY),
    ("other person", _as_it_is, _called("somebody else"), "", 0, ("text",)),
    ("blank in front", _as_it_is, _called(" somebody"), "", 0, ("text",)),
    ("odd name", _as_it_is, _called("é\U0001f600\u202e'`;--"), "", 0, ("text",)),
    ("long name", _as_it_is, _called("p" * 300_000), "", 0, ("text",)),
    ("other number", _as_it_is, _called(-(2**62)), "", 0, ("whole",)),
    ("next number", _as_it_is, _next_to_another, "", 0, ("real",)),
    ("endless number", _as_it_is, _called(INF), "", 0, ("real",)),
    ("nobody's values", _as_it_is, lambda data: data.with_row((1.0, 1.0, 1.0), NOBODY[0]), "", 0, ANYBODY),
    ("lost identity", _as_it_is, _lost, "", 0, ANYBODY),
    ("other order", _as_it_is, _turned, "order", 0, ANYBODY),
    ("other blocks", _as_it_is, lambda data: replace(data, cut=1), "order", 0, ANYBODY),
    ("one person more", _as_it_is, lambda data: data.more((1.0, 1.0, -1.0), 9999), "", 1, ("whole",)),
    ("one person less", _as_it_is, _gone, "", -1, ANYBODY),
)
IDENTITIES = {
    name: (Change(name, left, right, same, count=count, needs="cuts" if name == "other blocks" else ""), kinds)
    for name, left, right, same, count, kinds in _IDENTITIES
}


# Lines of a CSV file, and what each must be read as (None: whatever it is, the number of rows is the same).
GAPS = (NAN, NAN, NAN)
LINES: dict[str, tuple[bytes, tuple[float, ...] | None]] = {
    "empty cells": (b",,", GAPS),
    "text": (b"x,y,z", GAPS),
    "words for numbers": (b"nan,inf,-Infinity", GAPS),
    "signs of other languages": (b"1_000,0x10,1d3", GAPS),
    "wide digits": ("１,２,٣".encode(), GAPS),
    "quoted numbers": (b'"0.5","0.25","1"', (0.5, 0.25, 1.0)),
    "quote inside": (b'a"b,0.5,1', (NAN, 0.5, 1.0)),
    "something behind a quote": (b'"1"2,0.5,1', (NAN, 0.5, 1.0)),
    "doubled quotes": (b'"a""b",0.5,1', (NAN, 0.5, 1.0)),
    "separator in quotes": (b'"1,2",0.5,1', (NAN, 0.5, 1.0)),
    "line feed in quotes": (b'"1\n2",0.5,1', (NAN, 0.5, 1.0)),
    "unclosed quote": (b'0.5,"1,0.25', GAPS),
    "quote alone": (b'"', GAPS),
    "backslash and quote": (b'\\",0.5,1', (NAN, 0.5, 1.0)),
    "long digits": (b"0.5" + b"0" * 4000 + b",0.25,1", (0.5, 0.25, 1.0)),
    "many digits": (b"." + b"7" * 3000 + b"," + b"9" * 3000 + b",1e-99999999", None),
    "no UTF-8": (b"\xff\xfe,0.5,1", (NAN, 0.5, 1.0)),
    "zero bytes": (b"\x00,0.5,1", (NAN, 0.5, 1.0)),
    "byte-order mark": (b"\xef\xbb\xbf1,0.5,1", (NAN, 0.5, 1.0)),
    "end of file mark": (b"\x1a,0.5,1", (NAN, 0.5, 1.0)),
    "lone carriage return": (b"a\rb,0.5,1", None),
    "line separator": ("a\u2028b,0.5,1".encode(), (NAN, 0.5, 1.0)),
    "form feed": (b"a\x0cb\x0b\x85,0.5,1", (NAN, 0.5, 1.0)),
    "carriage return at the end": (b"0.5,0.25,1\r", (0.5, 0.25, 1.0)),
    "blanks": (b" 0.5 ,\t0.25, 1", (0.5, 0.25, 1.0)),
    "comment": (b"#0.5,0.25,1", (NAN, 0.25, 1.0)),
    "too few": (b"0.5,1", GAPS),
    "too many": (b"0.5,1,0.25,0.5", GAPS),
    "blank line": (b"", GAPS),
    "the header again": (b"a,b,c", GAPS),
}

# Lines with an identity in front, for the second of a person's two rows; the person stays.
PERSON_LINES = {
    "quoted": b'"p7",0.5,0.25,1',
    "odd cells": b'p7,x,,y"',
    "too few": b"p7,0.5",
    "identity alone": b"p7",
    "too many": b"p7,0.5,1,1,1",
    "blank line": b"",
    "no identity": b",0.5,0.25,1",
    "no UTF-8": b"p7,\xff,0.5,1",
    "carriage return at the end": b"p7,0.5,0.25,1\r",
    "line feed in quotes": b'p7,"1\n2",0.5,1',
}
# Records and rows that have none of the wanted entries.
ODD_ROWS = {
    "none": None,
    "no keys": {},
    "other keys": {"A": 1.0, 3: 1.0},
    "texts": {"a": "1", "b": b"1", "c": ["1"]},
    "beyond the doubles": {"a": 10**400, "b": -(10**400), "c": None},
    "a number": 1.0,
    "a text": "1,1,1",
    "an empty list": [],
    "too few": [1.0, 1.0],
    "too many": [1.0] * 4,
    "lists": [[1.0], [1.0], [1.0]],
    "objects": (object(), 1j, math.nan),
}
# An identity of both rows of the person: another person, one of twenty as before.
PERSON_NAMES = {
    "no UTF-8": b"\xff\xfe\xfd",
    "zero byte": b"p\x00q",
    "quotes": b'"a""b"',
    "separator": b'"p7,p8"',
    "long": b"q" * 300_000,
    "number": b"1e5",
    "lone carriage return": b"p\rq",
}
