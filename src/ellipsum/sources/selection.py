"""What is taken of a source: one value in place of arguments that would travel together through every reader."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..errors import UsageError

_HEADER = (
    "header must be True (the first line names the columns, although it holds numbers) or None. A file without a "
    "header line needs one: add it."
)


@dataclass(frozen=True)
class Selection:
    """Which columns of a source are taken, in which order, and which one names the person that a row belongs to.

    columns: names or places; None takes all but the key. names: what to take, where columns is None, of a source that
    has names. key: the column of identities, which is no entry of a row. header: of CSV files, True says that the first
    line names the columns although it holds numbers. by: the columns whose cells name a row's group, no entries either.
    """

    columns: Any = None
    key: str | int | None = None
    header: bool | None = None
    names: tuple[str, ...] | None = None
    by: tuple[str | int, ...] = ()
    labels: tuple[Any, ...] = ()
    """Arrays that stand for the columns of `by`, where the data itself has none."""

    def __post_init__(self) -> None:
        if self.header is not None and self.header is not True:
            raise UsageError(_HEADER)

    @property
    def beside(self) -> tuple[str | int, ...]:
        """Columns that are read but are no entries of a row: those of groups, then that of identities."""
        return self.by if self.key is None else (*self.by, self.key)

    def named(self) -> Selection:
        """The selection for a source whose columns have names."""
        return replace(self, columns=self.names, names=None) if self.columns is None and self.names else self

    def of(self, columns: Any) -> Selection:
        """The same, of these columns."""
        return replace(self, columns=columns, names=None)


EVERYTHING = Selection()
