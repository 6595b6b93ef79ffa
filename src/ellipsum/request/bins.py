"""Public bins of a histogram: edges of numbers, or listed categories, for each column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import Floats, UsageError, floats, listing, named
from ..rows import Rows
from ..util import json_codec
from .groups import CELL, PLACE, Listed, Value, listed

_WRONG = "Invalid plan file: the bins have missing, unknown or wrong fields. Create a new plan with es.plan."
_EDGE = json_codec.optional(json_codec.number)
"""None is an open end."""


@dataclass(frozen=True, init=False, repr=False)
class Bins(Rows):
    """The bins and categories in which the values of each column are counted.

    Bins({"age": [0, 18, 65, inf]}, {"city": ["Bern", "Ulm"]}). As in numpy.histogram a bin holds its lower edge and not
    its upper one; the last bin holds both. The outermost edges may be infinite. One list alone, instead of
    a dict, is for data of one column. Edges and categories must be public knowledge, never computed from the data.
    """

    kind: ClassVar[str] = "bins"
    places: tuple[str | int, ...] | None
    """Names or positions of the columns, those with edges first; None for a single list."""
    edges: tuple[Floats, ...]
    categories: tuple[Listed, ...]

    def __init__(self, bins: Any = None, categories: Any = None) -> None:
        edges, lists = _by_place("bins", bins), _by_place("categories", categories)
        both = set(edges) & set(lists)
        if both:
            raise UsageError(f"bins and categories both name {listing(sorted(map(str, both)))}. Name each column once.")
        places = (*edges, *lists)
        if not places:
            raise UsageError("bins or categories must be given: edges of bins, or a list of categories, for a column.")
        if None in places and (len(places) > 1 or lists):
            raise UsageError(
                "Name the columns: bins={'age': [0, 18, 65, 120]}, categories={'city': ['Bern', 'Ulm']}. A list alone "
                "is for the bins of a single column."
            )
        object.__setattr__(self, "places", None if None in places else places)
        texts = all(isinstance(place, str) for place in places)
        object.__setattr__(self, "columns", tuple(map(str, places)) if texts else None)
        object.__setattr__(self, "edges", tuple(_check_edges(name, edge) for name, edge in edges.items()))
        object.__setattr__(self, "categories", tuple(_check_categories(name, cells) for name, cells in lists.items()))

    @property
    def d(self) -> int:
        return len(self.edges) + len(self.categories)

    @property
    def sizes(self) -> list[int]:
        """The number of bins or categories of each column."""
        return [edges.size - 1 for edges in self.edges] + [cells.size for cells in self.categories]

    def resolve(self, d: int) -> Bins:
        self._check_length(d)
        return self

    def labels(self, j: int) -> list[Value]:
        """The names of the bins of a column: "[0, 18)", or the category itself."""
        if j >= len(self.edges):
            return list(self.categories[j - len(self.edges)].columns[0])
        edges = self.edges[j].tolist()
        ends = [")"] * (len(edges) - 2) + [")" if math.isinf(edges[-1]) else "]"]
        starts = ["(" if math.isinf(edges[0]) else "["] + ["["] * (len(edges) - 2)
        pairs = zip(starts, edges[:-1], edges[1:], ends, strict=True)
        return [f"{start}{low:.12g}, {high:.12g}{end}" for start, low, high, end in pairs]

    def to_dict(self) -> dict[str, Any]:
        names = self.places or (None,)
        edges = [[edge if math.isfinite(edge) else None for edge in part.tolist()] for part in self.edges]
        cells = [list(part.columns[0]) for part in self.categories]
        return {"kind": self.kind, "places": list(names), "edges": edges, "categories": cells}

    @staticmethod
    def from_dict(saved: object) -> Bins:
        """Inverse of `to_dict`."""
        with json_codec.Fields(saved, _WRONG) as fields:
            fields.take("kind", json_codec.word(Bins.kind))
            places = fields.take("places", json_codec.list_of(json_codec.optional(PLACE)))
            edges = fields.take("edges", json_codec.list_of(json_codec.list_of(_EDGE)))
            cells = fields.take("categories", json_codec.list_of(json_codec.list_of(CELL)))
        is_unique = len(set(places)) == len(places) and (None not in places or len(places) == 1)
        if len(places) != len(edges) + len(cells) or not is_unique:
            raise UsageError(_WRONG)
        bins = {place: _open_ends(part) for place, part in zip(places, edges, strict=False)}
        lists = dict(zip(places[len(edges) :], cells, strict=True))
        return Bins(bins.get(None, bins), lists)

    def __repr__(self) -> str:
        names = self.columns or [f"x{j + 1}" for j in range(self.d)]
        return f"Bins({', '.join(f'{named(name)}: {size}' for name, size in zip(names, self.sizes, strict=True))})"


def bins_of_columns(bins: Any, categories: Any, columns: Any) -> Bins:
    """The arguments `bins` and `categories` of a histogram; `columns` may name the column of a list alone."""
    if columns is not None:
        try:
            chosen = [columns] if isinstance(columns, (str, int)) else list(columns)
        except TypeError:
            chosen = []
        if not chosen or not all(isinstance(name, (str, int, np.integer)) for name in chosen):
            raise UsageError("columns must be a list of names or positions of columns.")
        lists = [isinstance(part, Mapping) for part in (bins, categories) if part is not None]
        if lists == [False] and len(chosen) == 1:
            bins = None if bins is None else {chosen[0]: bins}
            categories = None if categories is None else {chosen[0]: categories}
        elif any(name not in {**_by_place("bins", bins), **_by_place("categories", categories)} for name in chosen):
            raise UsageError("columns names a column without bins. Leave columns out: bins and categories name them.")
    return Bins(bins, categories)


def _by_place(word: str, given: Any) -> dict[Any, Any]:
    """The list of each column; a single list is under None."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        return {None: given}
    if not all(isinstance(place, str) or (type(place) is int and place >= 0) for place in given):
        raise UsageError(f"{word} must name columns by text, or by place: {{'age': [...]}}.")
    return dict(given)


def _check_edges(place: Any, edges: Any) -> Floats:
    numbers = floats(f"bins of {named(place)}" if place is not None else "bins", edges)
    if numbers.ndim != 1 or numbers.size < 2 or np.isnan(numbers).any() or not np.isfinite(numbers[1:-1]).all():
        raise UsageError("bins must be lists of at least two edges; only the first and the last may be infinite.")
    if not np.isfinite(numbers).any() or (np.diff(numbers) <= 0).any():
        raise UsageError("bins must be edges that increase, one of them finite. Sort them and drop repeats.")
    return numbers


def _check_categories(place: Any, cells: Any) -> Listed:
    column = listed(cells, (place,))
    if column is None:
        raise UsageError(f"categories of {named(place)} is missing. List them.")
    return column


def _open_ends(edges: Sequence[float | None]) -> list[float]:
    """Edges from a file, which has None for open ends."""
    ends = [-math.inf] + [math.nan] * (len(edges) - 2) + [math.inf]
    return [end if edge is None else edge for edge, end in zip(edges, ends, strict=False)]
