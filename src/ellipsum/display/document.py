"""What is said of a result, whatever its kind: one document, which small renderers print.

`text.py` prints it as text, `html.py` for notebooks and as a report; the command line and the studio have their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..request.people import People
from .wording import Guarantee

if TYPE_CHECKING:
    from .plots.strips import Sheet

Facts = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class TextTable:
    """Lines of cells in words. The first columns are names, on the left; rest: what was left out."""

    heads: Sequence[str]
    lines: Sequence[Sequence[str]]
    rest: str = ""
    title: str = ""
    names: int = 1


@dataclass(frozen=True)
class Document:
    """Everything that is said of one result. All of it is public, or follows from what was published."""

    title: str
    tables: Sequence[TextTable]
    facts: Facts
    """What holds for the whole result, by title."""
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class Recipe:
    """How to make a result again: the call in Python and, where there is one, the command."""

    python: str
    command: str = ""


@dataclass(frozen=True)
class Background:
    """What a report says beside the document of a result."""

    privacy: Guarantee
    stated: Mapping[str, float]
    """The budget in the caller's own words, as far as it is known."""
    secure: bool
    people: People | None
    origin: Sequence[str]
    """Where bounds came from, in sentences."""
    mechanism: Sequence[str]
    recipe: Recipe
    origin_tables: Sequence[TextTable] = ()
    intervals: str = ""
    """What confidence intervals cover."""
    side_releases: Sequence[str] = ()
    """What was published beside, within the same guarantee."""
    post_processing: str = ""
    sheet: Sheet | None = None
    """The picture of its values, where it has one."""
    forecast: Callable[[str], str | None] | None = None
    """The picture of the plan's forecast as SVG, for a prefix of its identifiers."""


def make_table(
    heads: Sequence[str], lines: Sequence[Sequence[str]], size: int = 0, title: str = "", what: str = "columns"
) -> TextTable:
    """A table without columns that say nothing; size: how many lines there would be."""
    kept = [place for place in range(len(heads)) if any(line[place] for line in lines)]
    rest = f"... {size - len(lines):,} more {what}" if size > len(lines) else ""
    return TextTable([heads[place] for place in kept], [[line[place] for place in kept] for line in lines], rest, title)
