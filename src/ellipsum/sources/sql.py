"""Queries: `ellipsum.sql(text, database)` is data like any other, streamed from the database at every pass."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from ..errors import UsageError, visible
from .arrow import LayoutTable
from .progress import Progress
from .protocol import Piece, block_rows
from .sealing import attempt
from .selection import EVERYTHING, Selection

_KINDS = "'duckdb:///file.db', 'sqlite:///file.db', 'postgresql://host/name', or a DuckDB or sqlite3 connection"
_UNOPENED = "The database could not be opened. Check that its address is right and that it may be read."
_FAILED = "The query failed, or the connection was lost. Nothing was published. Run the query by itself to see why."


@dataclass(frozen=True)
class Query:
    """A query and where to run it. Its rows are read anew at every pass, and never held in memory together."""

    text: str
    database: Any = field(repr=False)  # an address may hold a password
    parameters: tuple[Any, ...] = field(default=(), repr=False)


def sql(text: str, database: Any, parameters: Sequence[Any] = ()) -> Query:
    """The rows of a query, for `ellipsum.sum`, `mean`, `learn` and every other call that takes data.

    database: an address, 'duckdb:///file.db', 'sqlite:///file.db' or 'postgresql://user@host/name', or an open DuckDB
        or sqlite3 connection. Three slashes are followed by a relative path; an absolute one brings a fourth:
        'duckdb:////folder/file.db'. 'duckdb://' is a database of nothing, for queries over files.
        A password in an address is easily seen by others: PGPASSWORD, ~/.pgpass and a service file
        ('postgresql://?service=name') keep it out.
    parameters: values for the placeholders in the text (`?`; in PostgreSQL `$1`).

    The query must treat rows one by one: a join, a LIMIT or a window function may let one person's row decide about
    others' [T1]. It may be run several times; the database should not change meanwhile. One that was opened by its
    address is read in a single transaction, and a count that changed is an error before anything is published [T8].
    """
    if not isinstance(text, str) or not text.strip().rstrip(";").strip():
        raise UsageError("sql must be the text of a query, such as 'select age, income from people'.")
    _scheme(database)
    return Query(text.strip().rstrip(";").rstrip(), database, tuple(parameters))


class Backend(Protocol):
    """One database: what a query over it gives, and its rows in Arrow batches of bounded size."""

    def schema(self, beside: Sequence[str]) -> Any:
        """The Arrow schema in which `batches` deliver the query's columns, those beside the values among them."""

    def count(self) -> int: ...

    def batches(self, names: Sequence[str], beside: Sequence[str], rows: int) -> Iterator[Any]:
        """Table of the named columns in this order, then those beside; some `rows` in each."""

    def close(self) -> None: ...


def has_password(address: str) -> bool:
    """Whether an address tells the password itself, before its @ or among its settings."""
    try:
        parts = urlsplit(address)
        return parts.password is not None or "password" in parse_qs(parts.query)
    except ValueError:  # no address at all: the database will say so
        return False


def _scheme(database: Any) -> str:
    if isinstance(database, str):
        scheme = database.partition("://")[0]
        if "://" in database and scheme in ("duckdb", "sqlite", "postgresql", "postgres"):
            return "postgresql" if scheme == "postgres" else scheme
        raise UsageError(f"database must be {_KINDS}.")  # an address is not quoted: it may hold a password
    library = type(database).__module__.split(".")[0].lstrip("_")
    if library in ("duckdb", "sqlite3"):
        return "sqlite" if library == "sqlite3" else library
    raise UsageError(f"database must be {_KINDS}, got {type(database).__name__}.")


def _backend(query: Query) -> Backend:
    scheme = _scheme(query.database)
    if scheme == "duckdb":
        from .sql_backends import DuckdbBackend

        return DuckdbBackend(query.text, query.database, query.parameters)
    if scheme == "sqlite":
        from .sql_backends import SqliteBackend

        return SqliteBackend(query.text, query.database, query.parameters)
    from .sql_backends import PostgresqlBackend

    return PostgresqlBackend(query.text, query.database, query.parameters)


def _unopened(database: Any) -> str:
    """What to say of a database that cannot be opened: where its file is not there, how slashes are counted."""
    scheme, _, rest = database.partition("://") if isinstance(database, str) else ("", "", "")
    path = rest.removeprefix("/")
    if scheme not in ("duckdb", "sqlite") or path in ("", ":memory:") or os.path.exists(path):
        return _UNOPENED
    found = f" There is a file /{path}: write {scheme}:////{path}." if os.path.exists(f"/{path}") else ""
    return (
        f"The database could not be opened: there is no file {visible(path)}.{visible(found)} {scheme}:///file.db is "
        f"in the folder of this process, {scheme}:////folder/file.db, with four slashes, has an absolute path."
    )


def open_query(query: Query, selection: Selection) -> SqlTable:
    """The table of a query."""
    return SqlTable(attempt(_unopened(query.database), _backend, query), selection)


def query_schema(query: Query) -> Any:
    """The Arrow schema of a query's columns; none of its rows is read."""
    backend = attempt(_unopened(query.database), _backend, query)
    try:
        return attempt(_FAILED, backend.schema, ())
    finally:
        backend.close()


class SqlTable(LayoutTable):
    """Some columns of a query's rows; each pass runs the query."""

    ordered = False  # [T9]

    def __init__(self, backend: Backend, selection: Selection = EVERYTHING) -> None:
        self._backend = backend
        weakref.finalize(self, backend.close)
        schema = attempt(_FAILED, backend.schema, [str(name) for name in selection.beside])
        self._choose(schema, selection, "the query", _FAILED)
        self.gaps = (True,) * self.width

    def rows(self) -> int:
        if self._rows is None:
            self._rows = attempt(_FAILED, self._backend.count)
        return self._rows

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        entries = len(self._plan.names)
        names, beside = self._names[:entries], self._names[entries:]
        batches = attempt(_FAILED, self._backend.batches, names, beside, block_rows(self.width))
        yield from self._counted(self._cut(batches, range(len(self._places)), _FAILED), progress)
