"""Which columns of a source are read: values, identities and groups, chosen by names and positions alone [T1]."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..errors import UsageError, checks_keywords, listing, named
from ..request.bins import Bins
from ..request.groups import Listed
from ..request.request import Request
from ..suggestions import nearest

Name = str | int
Columns = Iterable[Name] | Name
"""The `columns` argument: names or positions, or one of them alone."""
Paths = str | PathLike[str] | Sequence[str | PathLike[str]]
_HEADER = (
    "header must be True (the first line names the columns, although it contains numbers) or None. A file without a "
    "header line needs one: add it."
)


@dataclass(frozen=True)
class Selection:
    """The columns of a source that are read, their order, and their roles.

    columns: names or positions; None takes all columns but the key and the groups. names: the columns to read if
    `columns` is None and the source has names. key: the column of identities, which is not a value. header: True
    says that the first line of a CSV file names the columns although it contains numbers. by: the columns whose cells
    identify the group of a row; they are not values either. labels: arrays that replace the columns of `by`. coded:
    columns that are read as the positions of their cells in a list of categories; () reads rows without such columns.
    """

    columns: Columns | None = None
    key: Name | None = None
    header: bool | None = None
    names: tuple[str, ...] | None = None
    by: tuple[Name, ...] = ()
    labels: tuple[ArrayLike, ...] = ()
    coded: tuple[tuple[Name, Listed], ...] | None = None

    @staticmethod
    def of_request(request: Request, columns: Columns | None = None, header: bool | None = None) -> Selection:
        """The selection for a request; columns: the argument that the caller passed."""
        if request.statistic == "count":
            return Selection((), header=header, coded=())
        if isinstance(request.bounds, Bins):
            return _select_bins(request.bounds, columns, header)
        names = request.bounds.columns
        if request.d is not None and request.columns:  # names, once the request knows the data's columns
            names = tuple(map(str, request.columns))
        return Selection(columns, header=header, names=names)

    def __post_init__(self) -> None:
        if self.header is not None and self.header is not True:
            raise UsageError(_HEADER)

    @property
    def beside(self) -> tuple[Name, ...]:
        """Columns that are read but are not values: first those of groups, then the column of identities."""
        return self.by if self.key is None else (*self.by, self.key)

    def named(self) -> Selection:
        """The selection for a source whose columns have names."""
        return replace(self, columns=self.names, names=None) if self.columns is None and self.names else self

    def of(self, columns: Columns | None) -> Selection:
        """The same selection with other columns."""
        return replace(self, columns=columns, names=None)


EVERYTHING = Selection()


def _select_bins(bins: Bins, columns: Columns | None, header: bool | None) -> Selection:
    """Select columns of numbers as they are, and columns of categories as positions in their lists."""
    if bins.places is None or (bins.columns is not None and not bins.categories):
        return Selection(columns, header=header, names=bins.columns)
    numbers, texts = bins.places[: len(bins.edges)], bins.places[len(bins.edges) :]
    return Selection(numbers, header=header, coded=tuple(zip(texts, bins.categories, strict=True)))


@dataclass(frozen=True)
class CsvFiles:
    """CSV files, and how they are read."""

    paths: Paths
    header: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.paths, (str, PathLike, list, tuple)):
            kind = type(self.paths).__name__
            raise UsageError(f"path must be a path, a glob, a folder or a list of paths, got {kind}.")
        Selection(header=self.header)


@checks_keywords
def csv(path: Paths, header: bool | None = None) -> CsvFiles:
    """Use CSV files as data.

    Parameters
    ----------
    path : str, path or list of them
        A file, a glob, a folder, or several of these.
    header : True, optional
        Says that the first line names the columns although it contains numbers.

    Returns
    -------
    CsvFiles
        Data for every call that takes data.

    Raises
    ------
    UsageError
        If `path` is no path, or `header` is neither True nor None.

    Examples
    --------
    >>> import ellipsum as es
    >>> es.csv("people.csv", header=True)
    CsvFiles(paths='people.csv', header=True)
    """
    return CsvFiles(path, header)


SIZED = re.compile(r"(.+)\[([1-9][0-9]*)\]", re.DOTALL)


def as_names(columns: Columns | None) -> tuple[Name, ...] | None:
    """Convert the `columns` argument to a tuple. A single name becomes a tuple of one."""
    if columns is None:
        return None
    if isinstance(columns, (str, int, np.integer)):
        return (columns,)
    try:
        return tuple(columns)
    except TypeError:
        kind = type(columns).__name__
        raise UsageError(f"columns must be a list of column names, got {kind}.") from None


def _positions(available: Sequence[str]) -> dict[str, list[int]]:
    """Map every name to all its positions."""
    positions: dict[str, list[int]] = {}
    for i, name in enumerate(available):
        positions.setdefault(name, []).append(i)
    return positions


def _locate(positions: dict[str, list[int]], name: Name, where: str, argument: str) -> int:
    """Find the position of a name. It is an error unless the name occurs exactly once."""
    places = positions.get(str(name), [])
    if not places:
        available = [other for other, several in positions.items() for _ in several]
        near = nearest(str(name), available)
        advice = f" Did you mean {named(near)}?" if near else ""
        raise UsageError(
            f"{where} has no column {named(name)} (from {argument}).{advice} Columns: {listing(available)}."
        )
    if len(places) > 1:
        raise UsageError(f"{where} has {len(places)} columns called {named(name)}. Rename them, or choose others.")
    return places[0]


class Pick(NamedTuple):
    """The positions of the columns to read; size: the declared length of the lists of an embedding column."""

    places: tuple[int, ...]
    key: int | None
    size: int | None
    chosen: tuple[str, ...]
    by: tuple[int, ...] = ()

    @property
    def beside(self) -> tuple[int, ...]:
        """Positions that are read in addition to the values: groups, then identities."""
        return self.by if self.key is None else (*self.by, self.key)

    @property
    def all(self) -> tuple[int, ...]:
        return (*self.places, *self.beside)


def pick(available: Sequence[str], selection: Selection, where: str) -> Pick:
    """Find the positions of the selected columns. They depend on names alone [T1].

    Unknown, repeated and ambiguous names are usage errors. `name[k]` declares the lists of a column to be k long.
    """
    key, requested, size = selection.key, as_names(selection.named().columns), None
    chosen: tuple[str, ...] | None = None
    if requested is not None and len(requested) == 1 and str(requested[0]) not in available:
        sized = SIZED.fullmatch(str(requested[0]))
        if sized is not None and sized[1] in available:
            requested, size, chosen = (sized[1],), int(sized[2]), (str(requested[0]),)
    positions = _positions(available)
    for argument, names, role in (
        ("privacy_id", () if key is None else (key,), "people"),
        ("by", selection.by, "groups"),
    ):
        for name in names:
            if requested is not None and str(name) in map(str, requested):
                raise UsageError(
                    f"{argument} names {named(name)}, which is among columns. It names {role}: leave it out."
                )
    place = None if key is None else _locate(positions, key, where, "privacy_id")
    groups = tuple(_locate(positions, name, where, "by") for name in selection.by)
    if key is not None and place in groups:
        raise UsageError(f"by and privacy_id must be different columns, got {named(key)} for both.")
    if selection.coded is not None and requested == ():
        if not groups and place is None and available:
            groups = (0,)  # one column has to be read, so that rows can be counted
        return Pick((), place, None, (), groups)
    places = _choose(available, positions, requested, (*groups, place), where)
    return Pick(places, place, size, chosen or tuple(available[i] for i in places), groups)


def _choose(
    available: Sequence[str],
    positions: dict[str, list[int]],
    requested: tuple[Name, ...] | None,
    beside: Sequence[int | None],
    where: str,
) -> tuple[int, ...]:
    """Find the positions of the requested columns, in that order, or of all columns but those beside."""
    if requested is None:
        names = [name for i, name in enumerate(available) if i not in beside]
    else:
        names = [str(name) for name in requested]
        repeated = sorted(name for name, count in Counter(names).items() if count > 1)
        if repeated:
            raise UsageError(f"columns names {listing(repeated)} more than once for {where}. Name each once.")
    if not names:
        raise UsageError(f"No column of {where} is left to use. Name at least one in columns.")
    return tuple(_locate(positions, name, where, "columns") for name in names)
