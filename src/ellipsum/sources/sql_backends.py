"""The databases that queries run on: DuckDB, PostgreSQL and SQLite."""

from __future__ import annotations

import itertools
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

import numpy as np

from ..errors import UsageError
from ..util.interrupts import while_listening


def not_one_query() -> UsageError:
    """The error of a text that is anything but one SELECT."""
    return UsageError("sql must be one SELECT statement, and nothing else. Run other statements by themselves.")


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


_HUGE = re.compile(r"\b(U?HUGEINT|BIGNUM)\b")


def value(name: str, kind: Any) -> str:
    """What to select for a column of values, by its type.

    A huge integer, by itself or in a list, may not fit the Arrow type that DuckDB gives it: the nearest double does.
    """
    nearest, huge = _HUGE.subn("DOUBLE", str(kind))
    return f"try_cast({quoted(name)} as {nearest})" if huge and "(" not in nearest else quoted(name)


def identity(name: str, kind: Any) -> str:
    """What to select for identities: text where Arrow has no exact type (it drops the zone of a time of day) [T6]."""
    exact = not _HUGE.fullmatch(str(kind)) and str(kind) != "TIME WITH TIME ZONE"
    return quoted(name) if exact else f"{quoted(name)}::varchar"


def connected(what: str, database: str, **settings: Any) -> Any:
    """A DuckDB connection of our own; `what` needs it."""
    try:
        import duckdb
    except ImportError:
        raise UsageError(f"{what} needs DuckDB. Install it with: pip install 'ellipsum[sql]'") from None
    connection = duckdb.connect(database, **settings)
    connection.execute("set enable_progress_bar = false")  # it would write to standard output
    return connection


class DuckdbBackend:
    """A DuckDB file, read in one transaction, or the caller's connection."""

    def __init__(self, text: str, database: Any, parameters: Sequence[Any]) -> None:
        self._text, self._parameters = text, list(parameters)
        self._own = isinstance(database, str)
        self._connection = database
        if isinstance(database, str):
            path = database.removeprefix("duckdb://").removeprefix("/")
            memory = path in ("", ":memory:")
            self._connection = connected("This query", ":memory:" if memory else path, read_only=not memory)
            self._connection.begin()
        self._kinds: dict[str, Any] = {}

    def _relation(self, selection: str) -> Any:
        query = f"select {selection} from ({self._text}\n) as query"
        return self._connection.sql(query, params=self._parameters or None)

    def _check_text(self) -> None:
        """The text must be one SELECT by itself: DuckDB would run whatever else stands in it."""
        statements = self._connection.extract_statements(self._text)
        if [statement.type.name for statement in statements] != ["SELECT"]:
            raise not_one_query()

    def schema(self, beside: Sequence[str]) -> Any:
        self._check_text()
        relation = self._relation("*")
        self._kinds = dict(zip(relation.columns, relation.types, strict=True))
        wanted = [f"{self._selected(name, name in beside)} as {quoted(name)}" for name in self._kinds]
        return self._relation(", ".join(wanted)).limit(0).to_arrow_table().schema

    def count(self) -> int:
        rows = while_listening(lambda: self._relation("count(*)").fetchall(), self._connection.interrupt)
        return int(rows[0][0])

    def _selected(self, name: str, beside: bool) -> str:
        return (identity if beside else value)(name, self._kinds[name])

    def batches(self, names: Sequence[str], beside: Sequence[str], rows: int) -> Iterator[Any]:
        wanted = [self._selected(name, False) for name in names] + [self._selected(name, True) for name in beside]
        selection = ", ".join(f"{text} as c{i}" for i, text in enumerate(wanted))

        def start() -> tuple[Any, Any]:
            reader = self._relation(selection).to_arrow_reader(rows)
            return next(reader, None), reader

        first, rest = while_listening(start, self._connection.interrupt)
        return iter(()) if first is None else itertools.chain([first], rest)

    def close(self) -> None:
        if self._own:
            self._connection.close()


_BATCH_BYTES = 8 << 20
_TYPE_NAME = b"ADBC:postgresql:typname"


class PostgresqlBackend:
    """A PostgreSQL server by its address, read in one transaction that sees one state of the database."""

    def __init__(self, text: str, database: str, parameters: Sequence[Any]) -> None:
        try:
            from adbc_driver_postgresql import dbapi
        except ImportError:
            raise UsageError("PostgreSQL needs a driver. Install it with: pip install 'ellipsum[postgresql]'") from None
        self._text, self._parameters = text, list(parameters)
        self._numerics: set[str] = set()
        self._cursors: WeakSet[Any] = WeakSet()
        self._connection: Any = dbapi.connect(database, autocommit=False)
        with self._connection.cursor() as cursor:
            cursor.execute("set transaction isolation level repeatable read, read only")

    @contextmanager
    def _cursor(self, selection: str) -> Iterator[Any]:
        """A cursor that has run the query, closed afterwards and where the query fails."""
        hint = {"adbc.postgresql.batch_size_hint_bytes": _BATCH_BYTES}
        cursor = self._connection.cursor(adbc_stmt_kwargs=hint)
        self._cursors.add(cursor)
        query = f"select {selection} from ({self._text}\n) as query"
        try:
            while_listening(lambda: cursor.execute(query, self._parameters or None), cursor.adbc_cancel)
            yield cursor
        finally:
            _close(cursor)

    def schema(self, beside: Sequence[str]) -> Any:
        import pyarrow as pa

        query = f"select * from ({self._text}\n) as query limit 0"
        with self._connection.cursor() as cursor:
            cursor.adbc_prepare(self._text)  # by itself, the text must be one statement
            cursor.execute(query, self._parameters or None)
            fields = list(cursor.fetch_record_batch().schema)
        named = {f.name: (f.metadata or {}).get(_TYPE_NAME) for f in fields}
        self._numerics = {name for name, kind in named.items() if kind == b"numeric"}
        numeric = {name: pa.string() if name in beside else pa.float64() for name in self._numerics}
        return pa.schema([pa.field(f.name, numeric.get(f.name, f.type)) for f in fields])

    def count(self) -> int:
        with self._cursor("count(*)") as cursor:
            return int(cursor.fetchone()[0])

    def batches(self, names: Sequence[str], beside: Sequence[str], rows: int) -> Iterator[Any]:
        selection = [self._selected(name) for name in names]
        selection += [self._label(name) for name in beside]
        columns = ", ".join(f"{text} as c{i}" for i, text in enumerate(selection))
        with self._cursor(columns) as cursor:
            reader, end = cursor.fetch_record_batch(), object()
            while (batch := while_listening(lambda: next(reader, end), cursor.adbc_cancel)) is not end:
                yield batch

    def _selected(self, name: str) -> str:
        return _double(quoted(name)) if name in self._numerics else quoted(name)

    def _label(self, name: str) -> str:
        """1.0 and 1.00 are one number."""
        return f"trim_scale({quoted(name)})::text" if name in self._numerics else quoted(name)

    def close(self) -> None:
        for handle in (*self._cursors, self._connection):  # a connection with an open cursor refuses to close
            _close(handle)


def _close(handle: Any) -> None:
    with suppress(Exception):  # of a connection that was lost
        handle.close()


def _double(name: str) -> str:
    """A numeric as the double nearest to it; one beyond the doubles would be an error that depends on it [T1]."""
    return (
        f"case when {name} = 'NaN' or abs({name}) > 1.7976931348623157e308 then null "
        f"when abs({name}) < 5e-324 then 0.0 else {name} end::double precision"
    )


_LARGEST_INTEGER = 2.0**63


class SqliteBackend:
    """A SQLite file, read in one transaction, or the caller's connection.

    Integers and reals are numbers; NULL, text and blobs are missing entries, as in a CSV file. Identities are
    compared as text, a real by the shortest decimal that is exactly it: 7, 7.0 and '7' are one person [T6].
    """

    def __init__(self, text: str, database: Any, parameters: Sequence[Any]) -> None:
        self._text, self._parameters = text, tuple(parameters)
        self._own = isinstance(database, str)
        self._connection = database
        if isinstance(database, str):
            path = database.removeprefix("sqlite://").removeprefix("/")
            with open(path, "rb"):  # a file that is not there would be made
                pass
            self._connection = sqlite3.connect(f"file:{_escaped(path)}?mode=ro", uri=True, isolation_level=None)
            self._connection.execute("begin")

    def _execute(self, selection: str) -> sqlite3.Cursor:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        cursor.execute(f"select {selection} from ({self._text}\n) as query", self._parameters)
        result: sqlite3.Cursor = cursor
        return result

    def schema(self, beside: Sequence[str]) -> Any:
        import pyarrow as pa

        cursor = self._connection.cursor()
        cursor.execute(f"explain {self._text}", self._parameters)  # by itself, the text must be one statement
        cursor.execute(f"select * from ({self._text}\n) as query limit 0", self._parameters)
        names = [column[0] for column in cursor.description]
        return pa.schema([(name, pa.large_string() if name in beside else pa.float64()) for name in names])

    def count(self) -> int:
        return int(self._execute("count(*)").fetchone()[0])

    def batches(self, names: Sequence[str], beside: Sequence[str], rows: int) -> Iterator[Any]:
        import pyarrow as pa

        selection = [_number(quoted(name)) for name in names] + [_identity(quoted(name)) for name in beside]
        cursor = self._execute(", ".join(selection))
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
        """In which text becomes bytes: UTF-8, UTF-16le or UTF-16be."""
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return str(cursor.execute("pragma encoding").fetchone()[0])

    def close(self) -> None:
        if self._own:
            self._connection.close()


def _number(name: str) -> str:
    return f"case typeof({name}) when 'integer' then cast({name} as real) when 'real' then {name} end"


def _identity(name: str) -> str:
    """A real as it is (SQLite writes 15 digits, too few to tell all apart), anything else as its text's bytes."""
    return f"case typeof({name}) when 'real' then {name} else cast(cast({name} as text) as blob) end"


def _texts(cells: Sequence[Any], encoding: str) -> Any:
    import pyarrow as pa

    return pa.array([_text(cell, encoding) for cell in cells], pa.large_binary())


def _text(cell: bytes | float | None, encoding: str) -> bytes | None:
    if not isinstance(cell, float):
        return cell
    whole = cell.is_integer() and abs(cell) < _LARGEST_INTEGER
    return (str(int(cell)) if whole else repr(cell)).encode(encoding)


def _escaped(path: str) -> str:
    from urllib.parse import quote

    return quote(path)
