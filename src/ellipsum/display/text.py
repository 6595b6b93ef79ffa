"""A document as text: its tables, then what holds for all of it."""

from __future__ import annotations

from collections.abc import Sequence

from .document import Document, TextTable


def text(document: Document) -> str:
    """The document as lines of text."""
    blocks = [document.title, *map(_table_text, document.tables)]
    facts = [*document.facts, *(("Warning", words) for words in document.warnings)]
    width = max((len(title) for title, _ in facts), default=0)
    if facts:
        blocks.append("\n".join(f"  {title:<{width}}  {words}" for title, words in facts))
    return "\n\n".join(blocks)


def _table_text(table: TextTable) -> str:
    """Names on the left, numbers on the right of their columns."""
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
