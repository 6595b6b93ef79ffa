"""Spark frames as sources of rows, which may be brought together by person, and by person and group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...errors import UsageError
from ...request.groups import Listed
from ...request.people import People
from ..selection import EVERYTHING, Selection
from .groups import SparkGroupedPeople
from .people import SparkPeople
from .source import SparkSource


def open_spark(data: Any, selection: Selection = EVERYTHING) -> SparkSource:
    """The source of a Spark frame (classic, Connect or pandas-on-Spark)."""
    if type(data).__name__ != "DataFrame":  # a Column answers to every attribute
        raise UsageError(f"data must be a Spark DataFrame, got a Spark {type(data).__name__}.")
    frame = data.to_spark() if type(data).__module__.startswith("pyspark.pandas") else data
    return SparkRows(frame, selection)


class SparkRows(SparkSource):
    """The rows of a frame, which may be brought together by person."""

    def grouped(self, people: People) -> SparkSource:
        """[S7] The rows of each person meet in one task, which makes one row of them."""
        assert self._key is not None
        frame = self._numbered.select(*[f"c{i}" for i in (*self.places, self.key_place)])
        return SparkPeople(frame, replace(self.layout, by=()), self._key, people)

    def grouped_by(self, people: People, most: int, listed: Listed | None) -> SparkSource:
        """[S7][G4] The rows of each person meet in one task, which makes one row of them in each group."""
        assert self._key is not None
        frame = self._numbered.select(*[f"c{i}" for i in (*self.places, *self.by_places, self.key_place)])
        return SparkGroupedPeople(frame, replace(self.layout, key=self._key), people, most, listed)
