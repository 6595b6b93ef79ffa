"""Where the rows are: one protocol for arrays, files, databases and clusters, and the registry that opens them."""

from __future__ import annotations

from typing import Any

from ..engines import engine_source
from ..tables import open_table
from ..tables.selection import Selection
from .local import LocalSource
from .protocol import Source

__all__ = ["LocalSource", "Selection", "Source", "open_source"]


def open_source(data: Any, selection: Selection) -> Source:
    """The source of the rows in `data`: the columns that the selection takes, in its order.

    Engines' frames are recognised first: they speak Arrow too, and would be collected here.
    """
    remote = engine_source(data, selection)
    return LocalSource(open_table(data, selection)) if remote is None else remote
