"""People with several rows: the column that identifies them, and how the rows of a person are combined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import MOST_WHOLE, UsageError, checks_keywords, choice, whole
from ..util import json_codec

WAYS = ("mean", "sum", "rows")
COUNTS = "count"
"""Internal way: the row of a person is the number of their rows."""
ONE_ROW = ("mean", "sum")
_IDENTITY = json_codec.any_of(json_codec.text, json_codec.integer(-MOST_WHOLE, MOST_WHOLE))
_CAPPED = {"sum": "are added up", "rows": "are used"}


@checks_keywords
@dataclass(frozen=True)
class People:
    """The column that identifies people, and how the rows of a person are combined.

    per_person: "mean" and "sum" combine the rows of a person to one row; with "rows" a statistic is over single rows.
    max_rows: the largest number of rows of a person that are used ("sum" and "rows" need it).
    """

    privacy_id: str | int
    per_person: str = "mean"
    max_rows: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.privacy_id, bool) or not isinstance(self.privacy_id, (str, int, np.integer)):
            raise UsageError(f"privacy_id must be the name of a column, got {type(self.privacy_id).__name__}.")
        choice("per_person", self.per_person, (*WAYS, COUNTS))
        _check_cap("max_rows", self.per_person, self.max_rows)

    @property
    def rows_each(self) -> int | None:
        """The largest number of rows of a person in a statistic of rows; None where a person has one row."""
        return int(self.max_rows) if self.per_person == "rows" and self.max_rows is not None else None

    @property
    def identity(self) -> str | int:
        """The column by name, or by position: the first column differs from a column named "0"."""
        return self.privacy_id if isinstance(self.privacy_id, str) else int(self.privacy_id)

    def to_dict(self) -> dict[str, Any]:
        cap = {} if self.max_rows is None else {"max_rows": int(self.max_rows)}
        return {"privacy_id": self.identity, "per_person": self.per_person, **cap}

    @staticmethod
    def from_dict(saved: object) -> People:
        """Inverse of `to_dict`."""
        with json_codec.Fields(
            saved, "Invalid plan file: the people have missing, unknown or wrong fields. Create a new plan."
        ) as fields:
            return People(
                fields.take("privacy_id", _IDENTITY),
                fields.take("per_person", json_codec.word(*WAYS)),
                fields.take("max_rows", json_codec.integer(1, MOST_WHOLE), None),
            )


def _check_cap(name: str, per_person: str, max_rows: int | None) -> None:
    if max_rows is not None:
        whole(name, max_rows)
    elif per_person in _CAPPED:
        raise UsageError(f"{name} is missing. Pass the largest number of rows of a person that {_CAPPED[per_person]}.")


def parse_people(privacy_id: Any, ways: tuple[str, ...] = WAYS) -> People | None:
    """The `privacy_id` argument of a call; None where every row is its own person."""
    if privacy_id is None:
        return None
    people = privacy_id if isinstance(privacy_id, People) else People(privacy_id)
    choice("per_person", people.per_person, ways)
    return people


def people_from_dict(saved: object) -> People | None:
    """The people in a file; None if every row is its own person."""
    return None if saved == {} else People.from_dict(saved)


def unit_of(people: People | None) -> str:
    """The privacy unit of a guarantee: a row, or a person with all their rows."""
    return "row" if people is None else "person"
