"""The databases that queries run on: DuckDB, PostgreSQL and SQLite."""

from __future__ import annotations

import itertools
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote
from weakref import WeakSet

import numpy as np
import pyarrow as pa

from ..errors import UsageError
from ..util.interrupts import while_listening

if TYPE_CHECKING:
    import duckdb
    from adbc_driver_postgresql import dbapi


class Backend(Protocol):
    """One database: the schema of a query, and its rows in Arrow batches of bounded size."""

    def schema(self, beside: Sequence[str]) -> pa.Schema:
        """The schema in which `batches` delivers the columns; beside: the columns of identities and groups."""

    def count(self) -> int: ...

    def batches(self, names: Sequence[str], beside: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The named columns in this order, then those of `beside`, in batches of about `rows` rows."""

    def close(self) -> None: ...


def quote_name(name: str) -> str:
    """Put a name in SQL's quotes."""
    return '"' + name.replace('"', '""') + '"'


_HUGE = re.compile(r"\b(U?HUGEINT|BIGNUM)\b")


def select_value(name: str, kind: object) -> str:
    """The SQL text that selects a column of values, by its type.

    A huge integer, by itself or in a list, may exceed the Arrow type that DuckDB uses. The nearest double does not.
    """
    nearest, huge = _HUGE.subn("DOUBLE", str(kind))
    return f"try_cast({quote_name(name)} as {nearest})" if huge and "(" not in nearest else quote_name(name)


def select_identity(name: str, kind: object) -> str:
    """The SQL text that selects identities. Types that Arrow lacks (times of day with a zone) become text [T6]."""
    exact = not _HUGE.fullmatch(str(kind)) and str(kind) != "TIME WITH TIME ZONE"
    return quote_name(name) if exact else f"{quote_name(name)}::varchar"


def connect_duckdb(what: str, database: str, **settings: Any) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB connection; what: the feature that needs it."""
    try:
        import duckdb
    except ImportError:
        raise UsageError(f"{what} needs DuckDB. Install it with: pip install 'ellipsum[sql]'") from None
    connection = duckdb.connect(database, **settings)
    connection.execute("set enable_progress_bar = false")  # it would write to standard output
    return connection


class DuckdbBackend:
    """A DuckDB file that is read in one transaction, or the caller's connection."""

    def __init__(self, text: str, database: str | duckdb.DuckDBPyConnection, parameters: Sequence[object]) -> None:
        self._text, self._parameters = text, list(parameters)
        self._is_own = isinstance(database, str)
        if isinstance(database, str):
            path = database.removeprefix("duckdb://").removeprefix("/")
            memory = path in ("", ":memory:")
            self._connection = connect_duckdb("This query", ":memory:" if memory else path, read_only=not memory)
            self._connection.begin()
        else:
            self._connection = database
        self._kinds: dict[str, object] = {}

    def _relation(self, selection: str) -> duckdb.DuckDBPyRelation:
        query = f"select {selection} from ({self._text}\n) as query"
        return self._connection.sql(query, params=self._parameters or None)

    def _check_text(self) -> None:
        """The text must be one SELECT by itself: DuckDB would run every other statement in it."""
        statements = self._connection.extract_statements(self._text)
        if [statement.type.name for statement in statements] != ["SELECT"]:
            raise UsageError("sql must be one SELECT statement, and nothing else. Run other statements separately.")

    def schema(self, beside: Sequence[str]) -> pa.Schema:
        self._check_text()
        relation = self._relation("*")
        self._kinds = dict(zip(relation.columns, relation.types, strict=True))
        select = [f"{self._select(name, name in beside)} as {quote_name(name)}" for name in self._kinds]
        return self._relation(", ".join(select)).limit(0).to_arrow_table().schema

    def count(self) -> int:
        rows = while_listening(lambda: self._relation("count(*)").fetchall(), self._connection.interrupt)
        return int(rows[0][0])

    def _select(self, name: str, beside: bool) -> str:
        return (select_identity if beside else select_value)(name, self._kinds[name])

    def batches(self, names: Sequence[str], beside: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        select = [self._select(name, False) for name in names] + [self._select(name, True) for name in beside]

        def start() -> tuple[pa.RecordBatch | None, pa.RecordBatchReader]:
            reader = self._relation(_number_placeholders(select)).to_arrow_reader(rows)
            return next(reader, None), reader

        first, rest = while_listening(start, self._connection.interrupt)
        return iter(()) if first is None else itertools.chain([first], rest)

    def close(self) -> None:
        if self._is_own:
            self._connection.close()


def _number_placeholders(select: Sequence[str]) -> str:
    """The columns of a SELECT under the names c0, c1, ..."""
    return ", ".join(f"{text} as c{i}" for i, text in enumerate(select))


_BATCH_BYTES = 8 << 20
_TYPE_NAME = b"ADBC:postgresql:typname"


class PostgresqlBackend:
    """A PostgreSQL server by its address. It is read in one transaction that sees one state of the database."""

    def __init__(self, text: str, database: str, parameters: Sequence[object]) -> None:
        try:
            from adbc_driver_postgresql import dbapi
        except ImportError:
            raise UsageError("PostgreSQL needs a driver. Install it with: pip install 'ellipsum[postgresql]'") from None
        self._text, self._parameters = text, list(parameters)
        self._numerics: set[str] = set()
        self._cursors: WeakSet[dbapi.Cursor] = WeakSet()
        self._connection = dbapi.connect(database, autocommit=False)
        with self._connection.cursor() as cursor:
            cursor.execute("set transaction isolation level repeatable read, read only")

    @contextmanager
    def _cursor(self, selection: str) -> Iterator[dbapi.Cursor]:
        """A cursor that has run the query. It is closed afterwards, and if the query fails."""
        hint = {"adbc.postgresql.batch_size_hint_bytes": _BATCH_BYTES}
        cursor = self._connection.cursor(adbc_stmt_kwargs=hint)
        self._cursors.add(cursor)
        query = f"select {selection} from ({self._text}\n) as query"
        try:
            while_listening(lambda: cursor.execute(query, self._parameters or None), cursor.adbc_cancel)
            yield cursor
        finally:
            _close(cursor)

    def schema(self, beside: Sequence[str]) -> pa.Schema:
        query = f"select * from ({self._text}\n) as query limit 0"
        with self._connection.cursor() as cursor:
            cursor.adbc_prepare(self._text)  # by itself, the text must be one statement
            cursor.execute(query, self._parameters or None)
            fields = list(cursor.fetch_record_batch().schema)
        self._numerics = {f.name for f in fields if (f.metadata or {}).get(_TYPE_NAME) == b"numeric"}
        numeric = {name: pa.string() if name in beside else pa.float64() for name in self._numerics}
        return pa.schema([pa.field(f.name, numeric.get(f.name, f.type)) for f in fields])

    def count(self) -> int:
        with self._cursor("count(*)") as cursor:
            return int(cursor.fetchone()[0])

    def batches(self, names: Sequence[str], beside: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        select = [self._select_value(name) for name in names] + [self._select_identity(name) for name in beside]
        with self._cursor(_number_placeholders(select)) as cursor:
            reader, end = cursor.fetch_record_batch(), object()
            while (batch := while_listening(lambda: next(reader, end), cursor.adbc_cancel)) is not end:
                yield batch

    def _select_value(self, name: str) -> str:
        return _double(quote_name(name)) if name in self._numerics else quote_name(name)

    def _select_identity(self, name: str) -> str:
        """The SQL text that selects identities. Numerics become text without trailing zeros: 1.0 and 1.00 are one."""
        return f"trim_scale({quote_name(name)})::text" if name in self._numerics else quote_name(name)

    def close(self) -> None:
        for handle in (*self._cursors, self._connection):  # a connection with an open cursor refuses to close
            _close(handle)


def _close(handle: dbapi.Cursor | dbapi.Connection) -> None:
    with suppress(Exception):  # the connection may be lost
        handle.close()


def _double(name: str) -> str:
    """Convert a numeric to the nearest double. A plain cast would fail because of one value outside the range [T1]."""
    return (
        f"case when {name} = 'NaN' or abs({name}) > 1.7976931348623157e308 then null "
        f"when abs({name}) < 5e-324 then 0.0 else {name} end::double precision"
    )


_LARGEST_INTEGER = 2.0**63


class SqliteBackend:
    """A SQLite file that is read in one transaction, or the caller's connection.

    Integers and reals are numbers. NULL, text and blobs are missing values, as in a CSV file. Identities are compared
    as text, and a real by its shortest exact decimal: 7, 7.0 and '7' are one person [T6].
    """

    def __init__(self, text: str, database: str | sqlite3.Connection, parameters: Sequence[object]) -> None:
        self._text, self._parameters = text, tuple(parameters)
        self._is_own = isinstance(database, str)
        if isinstance(database, str):
            path = database.removeprefix("sqlite://").removeprefix("/")
            with open(path, "rb"):  # SQLite would create a file that does not exist
                pass
            self._connection = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, isolation_level=None)
            self._connection.execute("begin")
        else:
            self._connection = database

    def _execute(self, selection: str) -> sqlite3.Cursor:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor.execute(f"select {selection} from ({self._text}\n) as query", self._parameters)  # type: ignore

    def schema(self, beside: Sequence[str]) -> pa.Schema:
        cursor = self._connection.cursor()
        cursor.execute(f"explain {self._text}", self._parameters)  # by itself, the text must be one statement
        cursor.execute(f"select * from ({self._text}\n) as query limit 0", self._parameters)
        names = [column[0] for column in cursor.description]
        return pa.schema([(name, pa.large_string() if name in beside else pa.float64()) for name in names])

    def count(self) -> int:
        return int(self._execute("count(*)").fetchone()[0])

    def batches(self, names: Sequence[str], beside: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        select = [_number(quote_name(name)) for name in names] + [_identity(quote_name(name)) for name in beside]
        cursor = self._execute(", ".join(select))
        encoding = self._encoding()
        try:
            while fetched := cursor.fetchmany(rows):
                columns = list(zip(*fetched, strict=True))
                arrays = [pa.array(np.array(column, np.float64)) for column in columns[: len(names)]]
                arrays += [_texts(cells, encoding) for cells in columns[len(names) :]]
                yield pa.record_batch(arrays, names=[f"c{i}" for i in range(len(arrays))])
        finally:
            cursor.close()

    def _encoding(self) -> str:
        """The encoding of texts as bytes: UTF-8, UTF-16le or UTF-16be."""
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return str(cursor.execute("pragma encoding").fetchone()[0])

    def close(self) -> None:
        if self._is_own:
            self._connection.close()


def _number(name: str) -> str:
    return f"case typeof({name}) when 'integer' then cast({name} as real) when 'real' then {name} end"


def _identity(name: str) -> str:
    """Select a real unchanged, as SQLite's text of it has only 15 digits, anything else as the bytes of its text."""
    return f"case typeof({name}) when 'real' then {name} else cast(cast({name} as text) as blob) end"


def _texts(cells: Sequence[bytes | float | None], encoding: str) -> pa.Array:
    return pa.array([_text(cell, encoding) for cell in cells], pa.large_binary())


def _text(cell: bytes | float | None, encoding: str) -> bytes | None:
    if not isinstance(cell, float):
        return cell
    whole = cell.is_integer() and abs(cell) < _LARGEST_INTEGER
    return (str(int(cell)) if whole else repr(cell)).encode(encoding)


BACKENDS: dict[str, Callable[..., Backend]] = {
    "duckdb": DuckdbBackend,
    "postgresql": PostgresqlBackend,
    "sqlite": SqliteBackend,
}
"""The database of each scheme."""
