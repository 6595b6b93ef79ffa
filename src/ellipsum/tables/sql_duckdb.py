"""Queries over DuckDB."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import UsageError
from ..interrupts import while_listening
from .sql_text import not_one_query, quoted

_HUGE = ("HUGEINT", "UHUGEINT", "BIGNUM")


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
        self._huge: set[str] = set()

    def _relation(self, selection: str) -> Any:
        query = f"select {selection} from ({self._text}\n) as query"
        return self._connection.sql(query, params=self._parameters or None)

    def _check_text(self) -> None:
        """The text must be one SELECT by itself: DuckDB would run whatever else stands in it."""
        found = self._connection.extract_statements(self._text)
        if [statement.type.name for statement in found] != ["SELECT"]:
            raise not_one_query()

    def schema(self, key: str | None) -> Any:
        import pyarrow as pa

        self._check_text()
        empty = self._relation("*").limit(0)
        self._huge = {name for name, kind in zip(empty.columns, empty.types, strict=True) if str(kind) in _HUGE}
        schema = empty.to_arrow_table().schema
        huge = {name: pa.string() if name == key else pa.float64() for name in self._huge}
        return pa.schema([pa.field(f.name, huge.get(f.name, f.type)) for f in schema])

    def count(self) -> int:
        found = while_listening(lambda: self._relation("count(*)").fetchall(), self._connection.interrupt)
        return int(found[0][0])

    def _selected(self, name: str) -> str:
        # A huge integer may not fit the Arrow type that DuckDB gives it: whether it does depends on the cell [T1].
        return f"try_cast({quoted(name)} as double)" if name in self._huge else quoted(name)

    def batches(self, names: Sequence[str], key: str | None, rows: int) -> Iterator[Any]:
        wanted = [self._selected(name) for name in names]
        if key is not None:
            wanted.append(f"{quoted(key)}::varchar" if key in self._huge else quoted(key))
        selection = ", ".join(f"{text} as c{i}" for i, text in enumerate(wanted))

        def start() -> tuple[Any, Any]:
            reader = self._relation(selection).to_arrow_reader(rows)
            return next(reader, None), reader

        first, rest = while_listening(start, self._connection.interrupt)
        return iter(()) if first is None else itertools.chain([first], rest)

    def close(self) -> None:
        if self._own:
            self._connection.close()
