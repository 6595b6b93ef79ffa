"""What a report is about: the facts of one result, whatever kind it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..request.people import People
from .texts import guarantee


@dataclass(frozen=True)
class Table:
    """Lines of cells in words; `cut` says what was left out."""

    caption: str
    heads: Sequence[str]
    lines: Sequence[Sequence[str]]
    cut: str = ""


@dataclass(frozen=True)
class Recipe:
    """How to make a result again: the call in Python and, where there is one, the command."""

    python: str
    command: str = ""


@dataclass(frozen=True)
class Subject:
    """One result. Every field is public, or follows from what was published."""

    title: str
    privacy: Any
    stated: Mapping[str, float]
    """The budget in the caller's own words, as far as it is known."""
    secure: bool
    people: People | None
    facts: Sequence[tuple[str, str]]
    """What was released, by title."""
    origin: Sequence[str]
    """Where bounds came from, in sentences."""
    mechanism: Sequence[str]
    recipe: Recipe
    tables: Sequence[Table] = ()
    origin_tables: Sequence[Table] = ()
    intervals: str = ""
    """What intervals are for."""
    warnings: Sequence[str] = ()
    side_releases: Sequence[str] = ()
    """What was published beside, within the same guarantee."""
    cleaned: str = ""
    """What was done to the result after its noise."""
    sheet: Any = None
    """The picture of its values, where it has one."""
    plan: Any = None
    """The plan whose forecast is drawn, where it has one."""

    @property
    def guarantee(self) -> str:
        """The guarantee in one line."""
        return guarantee(self.privacy, self.stated)
