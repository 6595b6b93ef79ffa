"""What is public of a source before any value is read: the names of columns, and their types where a format has any.

Of a CSV file the header alone is read: whether its cells hold numbers is the data's own affair [T3].
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .arrow import is_numeric
from .identities import plain_type
from .paths import first_file, open_files
from .sealing import attempt
from .selection import Selection
from .sql import Query, query_schema

_ARROW = {".parquet": "parquet", ".pq": "parquet", ".feather": "ipc", ".arrow": "ipc", ".ipc": "ipc"}


@dataclass(frozen=True)
class Field:
    """A column: its name, and its type in the words of its format; "" where cells have types of their own."""

    name: str
    kind: str = ""
    numeric: bool = True
    """False where the type says that there are no numbers; True where nothing says so."""


def schema_of(data: Any, header: bool | None = None) -> tuple[Field, ...]:
    """The columns of a file, of a folder or glob of files (those of the first), or of a query."""
    if isinstance(data, Query):
        return _fields(query_schema(data), typed=not str(data.database).startswith("sqlite"))
    if not str(data):  # it would mean the working folder
        raise UsageError("data is an empty text. Pass the path of a file or folder.")
    path = first_file(data)
    form = _ARROW.get(path.suffix.lower())
    if form is None:
        opened = open_files([path], Selection(header=header))
        return tuple(Field(name) for name in opened.available or ())
    return attempt(f"{path} could not be read (damaged, cut short or of another format).", _stored, path, form)


def _stored(path: Path, form: str) -> tuple[Field, ...]:
    from pyarrow import dataset

    return _fields(dataset.dataset(path, format=form).schema, typed=True)


def _fields(schema: Any, typed: bool) -> tuple[Field, ...]:
    kinds = [plain_type(field.type) for field in schema]
    return tuple(
        Field(field.name, str(field.type) if typed else "", is_numeric(kind))
        for field, kind in zip(schema, kinds, strict=True)
    )
