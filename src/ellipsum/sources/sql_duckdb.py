"""Queries over DuckDB."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import UsageError
from ..util.interrupts import while_listening
from .sql_text import not_one_query, quoted

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
