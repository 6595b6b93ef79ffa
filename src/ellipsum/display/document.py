"""The document of a result of any kind, and its text.

`html.py` prints documents in notebooks and reports. The command line and the studio have renderers of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..privacy.guarantee import PrivacyGuarantee
from ..request.people import People

if TYPE_CHECKING:
    from .plots.strips import Sheet

Facts = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class TextTable:
    """Lines of texts. The first `names` columns are aligned left. rest: a note about lines that were left out."""

    heads: Sequence[str]
    lines: Sequence[Sequence[str]]
    rest: str = ""
    title: str = ""
    names: int = 1


@dataclass(frozen=True)
class Document:
    """All texts that are shown for one result."""

    title: str
    tables: Sequence[TextTable]
    facts: Facts
    """Facts about the whole result, each with a title."""
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class Recipe:
    """How to make a result again: the call in Python and, if there is one, the command."""

    python: str
    command: str = ""


@dataclass(frozen=True)
class Background:
    """Facts that a report adds to the document of a result."""

    privacy: PrivacyGuarantee
    stated: Mapping[str, float]
    """The requested budget, if it is known."""
    secure: bool
    people: People | None
    origin: Sequence[str]
    """Sentences about the origin of the bounds."""
    mechanism: Sequence[str]
    recipe: Recipe
    origin_tables: Sequence[TextTable] = ()
    intervals: str = ""
    """The errors that confidence intervals account for."""
    side_releases: Sequence[str] = ()
    """Sentences about other numbers that the same guarantee covers."""
    post_processing: str = ""
    sheet: Sheet | None = None
    """The figure of its values, if it has one."""
    forecast: Callable[[str], str | None] | None = None
    """Returns the figure of the plan's forecast as SVG, for a prefix of its identifiers."""
    picture: Callable[[str], str | None] | None = None
    """Returns another figure of its values as SVG, for a prefix of its identifiers."""


def make_table(
    heads: Sequence[str], lines: Sequence[Sequence[str]], size: int = 0, title: str = "", what: str = "columns"
) -> TextTable:
    """A table without its empty columns. size: the number of all lines."""
    shown = [place for place in range(len(heads)) if any(line[place] for line in lines)]
    rest = f"... {size - len(lines):,} more {what}" if size > len(lines) else ""
    return TextTable(
        [heads[place] for place in shown], [[line[place] for place in shown] for line in lines], rest, title
    )


def text(document: Document) -> str:
    """The document as lines of text."""
    blocks = [document.title, *map(_table_text, document.tables)]
    facts = [*document.facts, *(("Warning", sentence) for sentence in document.warnings)]
    width = max((len(title) for title, _ in facts), default=0)
    if facts:
        blocks.append("\n".join(f"  {title:<{width}}  {sentence}" for title, sentence in facts))
    return "\n\n".join(blocks)


def _table_text(table: TextTable) -> str:
    """Align names left and numbers right."""
    lines = [table.heads, *table.lines]
    widths = [max(len(line[place]) for line in lines) for place in range(len(table.heads))]
    title = [f"  {table.title}"] if table.title else []
    rest = [f"  {table.rest}"] if table.rest else []
    return "\n".join([*title, *(_line(line, widths, table.names) for line in lines), *rest])


def _line(cells: Sequence[str], widths: Sequence[int], names: int) -> str:
    padded = [
        cell.ljust(width) if place < names else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"  {'  '.join(padded)}".rstrip()
