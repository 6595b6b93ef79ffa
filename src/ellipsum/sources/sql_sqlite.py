"""Queries over SQLite, whose cells have types of their own, whatever their column says."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .sql_text import quoted

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
