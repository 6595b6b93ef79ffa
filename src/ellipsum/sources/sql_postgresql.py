"""Queries over PostgreSQL, through its ADBC driver: binary copies, in Arrow batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

from ..errors import UsageError
from ..util.interrupts import while_listening
from .sql_text import quoted

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
