"""Pieces of SQL text that every database shares."""

from __future__ import annotations

from ..errors import UsageError


def not_one_query() -> UsageError:
    """The error of a text that is anything but one SELECT."""
    return UsageError("sql must be one SELECT statement, and nothing else. Run other statements by themselves.")


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
