"""Lazy frames of polars: queries, run once, when their rows are first asked for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from .arrow import ArrowTable
from .progress import Progress
from .selection import Selection
from .tables import Batches, Piece, attempt, pick

_FAILED = "The lazy frame could not be collected. Collect it by itself to see why."


class LazyTable(Batches):
    """The chosen columns of a lazy frame, which are then held in memory."""

    reopenable = True
    ordered = False  # [T9]

    def __init__(self, data: Any, selection: Selection) -> None:
        schema = attempt(_FAILED, data.collect_schema)
        names = schema.names()
        chosen = pick(names, selection, "data")
        self._query = data.select([names[i] for i in chosen.all])
        self._selection = selection
        opened = ArrowTable(attempt(_FAILED, data.clear().collect), selection)
        self.columns, self.width, self.gaps = opened.columns, opened.width, opened.gaps
        self.available, self.chosen, self.key = opened.available, opened.chosen, opened.key
        self.by = opened.by

    @cached_property
    def _table(self) -> ArrowTable:
        return ArrowTable(attempt(_FAILED, self._query.collect), self._selection)

    def rows(self) -> int:
        return self._table.rows()

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        return self._table.pieces(progress)
