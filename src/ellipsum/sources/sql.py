"""Queries as data: `ellipsum.sql(text, database)`. Rows are streamed from the database at every pass."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa

from ..errors import UsageError, checks_keywords, visible
from .arrow import LayoutTable, library
from .local import Piece, block_rows
from .protocol import Progress, attempt
from .selection import EVERYTHING, Selection
from .sql_backends import BACKENDS, Backend

_KINDS = "'duckdb:///file.db', 'sqlite:///file.db', 'postgresql://host/name', or a DuckDB or sqlite3 connection"
_UNOPENED = "The database could not be opened. Check that its address is right and that it may be read."
_FAILED = "The query failed, or the connection was lost. Nothing was published. Run the query by itself to see why."


@dataclass(frozen=True)
class Query:
    """A query and where to run it. Its rows are read again at every pass, and are never all in memory."""

    text: str
    database: object = field(repr=False)  # an address may contain a password
    parameters: tuple[object, ...] = field(default=(), repr=False)


@checks_keywords
def sql(text: str, database: object, parameters: Sequence[object] = ()) -> Query:
    """Use the rows of a query as data.

    The query must treat rows one by one: with a join, a LIMIT or a window function one person's row may decide about
    others' [T1]. It may be run several times, so the database should not change meanwhile. A database that is opened by
    its address is read in a single transaction, and a count that changed is an error before anything is published [T8].

    Parameters
    ----------
    text : str
        One SELECT statement.
    database : str or connection
        An address, 'duckdb:///file.db', 'sqlite:///file.db' or 'postgresql://user@host/name', or an open DuckDB or
        sqlite3 connection. Three slashes precede a relative path, four an absolute one: 'duckdb:////folder/file.db'.
        'duckdb://' is an empty database, for queries over files. Others can easily see a password in an address:
        PGPASSWORD, ~/.pgpass and a service file ('postgresql://?service=name') avoid that.
    parameters : sequence, default ()
        Values for the placeholders in the text (`?`; in PostgreSQL `$1`).

    Returns
    -------
    Query
        Data for every call that takes data.

    Raises
    ------
    UsageError
        If the text is empty or the database is not one of those above.

    Examples
    --------
    >>> import ellipsum as es
    >>> es.sql("select age, income from people", "duckdb:///people.db")
    Query(text='select age, income from people')
    """
    if not isinstance(text, str) or not text.strip().rstrip(";").strip():
        raise UsageError("sql must be the text of a query, such as 'select age, income from people'.")
    _scheme(database)
    return Query(text.strip().rstrip(";").rstrip(), database, tuple(parameters))


def has_password(address: str) -> bool:
    """Whether an address contains a password, before its @ or among its settings."""
    try:
        parts = urlsplit(address)
        return parts.password is not None or "password" in parse_qs(parts.query)
    except ValueError:  # not an address, as the database will report
        return False


def _scheme(database: object) -> str:
    if isinstance(database, str):
        scheme = database.partition("://")[0]
        if "://" in database and scheme in ("duckdb", "sqlite", "postgresql", "postgres"):
            return "postgresql" if scheme == "postgres" else scheme
        raise UsageError(f"database must be {_KINDS}.")  # an address is not quoted: it may hold a password
    home = library(database)
    if home in ("duckdb", "sqlite3"):
        return "sqlite" if home == "sqlite3" else home
    raise UsageError(f"database must be {_KINDS}, got {type(database).__name__}.")


def _open_backend(query: Query) -> Backend:
    backend = BACKENDS[_scheme(query.database)]
    return attempt(_describe_unopened(query.database), backend, query.text, query.database, query.parameters)


def _describe_unopened(database: object) -> str:
    """Describe why a database cannot be opened. If its file does not exist, explain the number of slashes."""
    scheme, _, rest = database.partition("://") if isinstance(database, str) else ("", "", "")
    path = rest.removeprefix("/")
    if scheme not in ("duckdb", "sqlite") or path in ("", ":memory:") or os.path.exists(path):
        return _UNOPENED
    hint = f" There is a file /{path}: write {scheme}:////{path}." if os.path.exists(f"/{path}") else ""
    return (
        f"The database could not be opened: there is no file {visible(path)}.{visible(hint)} {scheme}:///file.db is "
        f"in the folder of this process, {scheme}:////folder/file.db, with four slashes, has an absolute path."
    )


def query_schema(query: Query) -> pa.Schema:
    """Find the Arrow schema of the columns of a query. No row is read."""
    backend = _open_backend(query)
    try:
        return attempt(_FAILED, backend.schema, ())
    finally:
        backend.close()


class SqlTable(LayoutTable):
    """Some columns of the rows of a query. The row order is not public [T9]. Each pass runs the query."""

    def __init__(self, query: Query, selection: Selection = EVERYTHING) -> None:
        self._backend = _open_backend(query)
        weakref.finalize(self, self._backend.close)
        schema = attempt(_FAILED, self._backend.schema, [str(name) for name in selection.beside])
        self._choose(schema, selection, "the query", _FAILED)
        self.nullable = (True,) * self.width

    def _count(self) -> int:
        return attempt(_FAILED, self._backend.count)

    def _read(self, progress: Progress | None) -> Iterator[Piece]:
        entries = len(self._plan.names)
        names, beside = self._names[:entries], self._names[entries:]
        batches = attempt(_FAILED, self._backend.batches, names, beside, block_rows(self.width))
        return self._cut(batches, range(len(self._places)), _FAILED)
