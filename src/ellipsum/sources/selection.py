"""What is taken of a source: columns, identities and groups, chosen by names and places alone. [T1]"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from ..errors import UsageError, listing, named

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


@dataclass(frozen=True)
class CsvFiles:
    """CSV files, and how they are read."""

    paths: Any
    header: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.paths, (str, PathLike, list, tuple)):
            kind = type(self.paths).__name__
            raise UsageError(f"path must be a path, a glob, a folder or a list of paths, got {kind}.")
        Selection(header=self.header)


def csv(path: Any, header: bool | None = None) -> CsvFiles:
    """CSV files as data: a path, a glob, a folder or a list of paths.

    header: True says that the first line names the columns although it holds numbers.
    """
    return CsvFiles(path, header)


SIZED = re.compile(r"(.+)\[([1-9][0-9]*)\]", re.DOTALL)


def as_names(columns: Any) -> tuple[Any, ...] | None:
    """The `columns` argument as a tuple; one name alone is a tuple of one."""
    if columns is None:
        return None
    if isinstance(columns, (str, int, np.integer)):
        return (columns,)
    try:
        return tuple(columns)
    except TypeError:
        kind = type(columns).__name__
        raise UsageError(f"columns must be a list of column names, got {kind}.") from None


def _reject_repeats(names: Sequence[str], where: str) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise UsageError(f"columns names {listing(repeated)} more than once for {where}. Name each once.")


def _places(available: Sequence[str]) -> dict[str, list[int]]:
    """Every name with all its positions."""
    places: dict[str, list[int]] = {}
    for i, name in enumerate(available):
        places.setdefault(name, []).append(i)
    return places


def _locate(known: dict[str, list[int]], name: str, where: str, argument: str) -> int:
    places = known.get(name, [])
    if not places:
        available = [other for other, positions in known.items() for _ in positions]
        raise UsageError(f"{argument} names {named(name)}, which {where} lacks. It has {listing(available)}.")
    if len(places) > 1:
        raise UsageError(f"{where} has {len(places)} columns called {named(name)}. Rename them, or choose others.")
    return places[0]


def choose(available: Sequence[str], columns: Any, beside: Sequence[int], where: str) -> tuple[int, ...]:
    """Positions of the wanted columns, in the wanted order: `columns`, or all but those beside.

    Depends on names alone [T1]. Unknown, repeated and ambiguous names are usage errors.
    """
    known = _places(available)
    wanted = as_names(columns)
    if wanted is None:
        kept = [i for i in range(len(available)) if i not in beside]
        names = [available[i] for i in kept]
    else:
        names = [str(name) for name in wanted]
        _reject_repeats(names, where)
    if not names:
        raise UsageError(f"No column of {where} is left to use. Name at least one in columns.")
    return tuple(_locate(known, name, where, "columns") for name in names)


class Pick(NamedTuple):
    """What is taken of a source: the places of its columns, key and groups, and the length that a list must have."""

    places: tuple[int, ...]
    key: int | None
    size: int | None
    chosen: tuple[str, ...]
    by: tuple[int, ...] = ()

    @property
    def beside(self) -> tuple[int, ...]:
        """Places that are read beside the rows: of groups, then of the key."""
        return self.by if self.key is None else (*self.by, self.key)

    @property
    def all(self) -> tuple[int, ...]:
        return (*self.places, *self.beside)


def pick(available: Sequence[str], selection: Selection, where: str) -> Pick:
    """`choose`, with the key, which is no column of a row; `name[k]` declares the lists of a column to be k long."""
    key = selection.key
    wanted, size, chosen = as_names(selection.named().columns), None, None
    if wanted is not None and len(wanted) == 1 and str(wanted[0]) not in available:
        sized = SIZED.fullmatch(str(wanted[0]))
        if sized is not None and sized[1] in available:
            wanted, size, chosen = (sized[1],), int(sized[2]), (str(wanted[0]),)
    place = None if key is None else _locate(_places(available), str(key), where, "privacy_id")
    if place is not None and wanted is not None and str(key) in map(str, wanted):
        raise UsageError(f"privacy_id names {named(key)}, which is among columns. It names people: leave it out.")
    groups = _grouping(available, selection, wanted, where)
    if place in groups:
        raise UsageError(f"by and privacy_id both name {named(key)}. A person is no group: name another column.")
    places = choose(available, wanted, groups if place is None else (*groups, place), where)
    return Pick(places, place, size, chosen or tuple(available[i] for i in places), groups)


def _grouping(available: Sequence[str], selection: Selection, wanted: Any, where: str) -> tuple[int, ...]:
    """Positions of the columns that name groups."""
    names = [str(name) for name in selection.by]
    for name in names:
        if wanted is not None and name in map(str, wanted):
            raise UsageError(f"by names {named(name)}, which is among columns. It names groups: leave it out.")
    known = _places(available) if names else {}
    return tuple(_locate(known, name, where, "by") for name in names)
