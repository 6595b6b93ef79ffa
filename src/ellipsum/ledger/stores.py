"""Where entries are stored: one protocol, and the address that selects the database."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from ..errors import UsageError
from .entries import Transaction

_ADDRESS = "A ledger is a path, sqlite:///path or postgresql://user@host/name."


class Store(Protocol):
    """A database that holds a ledger."""

    def create(self) -> None:
        """Create the tables where they are missing."""

    def writing(self) -> AbstractContextManager[Transaction]:
        """A transaction of the only writer: when it ends, all of it is on disk, or none of it."""

    def reading(self) -> AbstractContextManager[Transaction]:
        """A transaction that sees one state of the ledger."""


def open_store(url: str | Path) -> Store:
    """The database at an address: a path, sqlite:///path, or postgresql://user@host/name."""
    if isinstance(url, Path):
        url = str(url)
    if not isinstance(url, str) or not url or not _names_a_file(url):
        raise UsageError(_ADDRESS)
    scheme, mark, rest = url.partition("://")
    if not mark or (scheme == "sqlite" and rest.startswith("/") and len(rest) > 1):
        from .sqlite_store import SqliteStore

        return SqliteStore(rest[1:] if mark else os.path.expanduser(url))
    if scheme in ("postgresql", "postgres"):
        from .postgresql_store import PostgresqlStore

        return PostgresqlStore(url)
    raise UsageError(_ADDRESS)


def _names_a_file(url: str) -> bool:
    try:
        return b"\0" not in os.fsencode(url)
    except UnicodeEncodeError:
        return False
