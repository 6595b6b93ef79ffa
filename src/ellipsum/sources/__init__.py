"""Where the rows are: one protocol for arrays, files, databases and clusters, and the registry that opens them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .local import LocalSource
from .open import open_table
from .protocol import Source
from .selection import EVERYTHING, Selection
from .tables import SourceTable

__all__ = ["EVERYTHING", "LocalSource", "Selection", "Source", "open_source"]


def open_source(data: Any, selection: Selection) -> Source:
    """The source of the rows in `data`: the columns that the selection takes, in its order.

    Engines' frames are recognized first: they speak Arrow too, and would be collected here.
    """
    remote = None if type(data) is np.ndarray else _remote(data, selection)
    return LocalSource(_opened(data, selection)) if remote is None else remote


def _remote(data: Any, selection: Selection) -> Source | None:
    from .engine_frames import engine_source  # imported for what may be a frame

    return engine_source(data, selection)


def _opened(data: Any, selection: Selection) -> SourceTable:
    """The table of local data; with arrays beside it that name groups, they are put to its rows."""
    if not selection.labels:
        return open_table(data, selection)
    from .labeled import LabeledTable

    table = open_table(data, replace(selection, by=(), labels=()))
    return LabeledTable(table, list(selection.labels), [str(name) for name in selection.by])
