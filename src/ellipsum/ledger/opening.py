"""The database that an address names."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import UsageError
from .store import Store

_ADDRESS = "a ledger is a path, sqlite:///path or postgresql://user@host/name."


def open_store(url: str | Path) -> Store:
    """The database at an address: a path, sqlite:///path, or postgresql://user@host/name."""
    if isinstance(url, Path):
        url = str(url)
    if not isinstance(url, str) or not url or not _encodable(url):
        raise UsageError(_ADDRESS)
    scheme, mark, rest = url.partition("://")
    if not mark:
        from .sqlite_store import SqliteStore

        return SqliteStore(os.path.expanduser(url))
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from .sqlite_store import SqliteStore

        return SqliteStore(rest[1:])
    if scheme in ("postgresql", "postgres"):
        from .postgresql_store import PostgresqlStore

        return PostgresqlStore(url)
    raise UsageError(_ADDRESS)


def _encodable(url: str) -> bool:
    """Whether it can name a file."""
    try:
        return b"\0" not in os.fsencode(url)
    except UnicodeEncodeError:
        return False
