"""Which data is an engine's frame, and the source that it is. Imports no engine until a frame of it comes."""

from __future__ import annotations

from typing import Any

from ..errors import UsageError
from .engine import NOT_GROUPED, EngineSource
from .selection import EVERYTHING, Selection
from .tables import as_names


def is_frame(data: Any) -> bool:
    """Whether data is an engine's frame, or the table of one. Imports no engine."""
    return isinstance(data, EngineSource) or type(data).__module__.split(".")[0] == "pyspark"


def engine_source(data: Any, selection: Selection = EVERYTHING) -> EngineSource | None:
    """The source of an engine's frame, or None where data is none. Imports no engine."""
    if selection.labels and is_frame(data):
        raise UsageError("by is an array, and the rows of a frame have no places. Name a column of the frame in by.")
    if isinstance(data, EngineSource):
        return _chosen_again(data, selection)
    if not is_frame(data):
        return None
    from .spark.frames import open_spark

    return open_spark(data, selection)


def _chosen_again(source: EngineSource, selection: Selection) -> EngineSource:
    """A source that was opened already keeps its columns; other ones cannot be chosen now."""
    key = selection.key
    if key is not None and type(source).grouped is EngineSource.grouped:
        raise UsageError(NOT_GROUPED)
    names = as_names(selection.named().columns)
    other = names is not None and tuple(map(str, names)) not in (source.chosen, source.columns)
    whose = None if source.key_place is None else source.available[source.key_place]
    groups = tuple(source.available[place] for place in source.by_places)
    if other or (key is not None and str(key) != whose) or tuple(map(str, selection.by)) != groups:
        raise UsageError("data is a table that was opened with other columns. Choose them when opening it.")
    return source
