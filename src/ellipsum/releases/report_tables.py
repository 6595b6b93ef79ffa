"""Published numbers as tables that fit on paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Any

from ..display.subject import Table
from ..display.texts import number, release_entries, stated_of
from ..errors import shown
from .description_texts import HEADINGS, correlation_lines, described_columns

MOST_LINES = 1000
_BESIDE, _MOST_BESIDE = 4, 12  # columns of a table of groups, and of all of them
_CORRELATED = 6
_LEVEL = 0.95
_KNOWN = {
    "box": "stated bounds",
    "ball": "stated",
    "normal": "stated center ± spread",
    "learned": "learned center ± spread",
}


def filled(caption: str, heads: Sequence[str], lines: Sequence[Sequence[str]], size: int) -> Table:
    """A table without columns that say nothing; size: how many lines there would be."""
    kept = [place for place in range(len(heads)) if any(line[place] for line in lines)]
    cut = f"... {size - len(lines)} more: the release itself has all" if size > len(lines) else ""
    return Table(caption, [heads[place] for place in kept], [[line[place] for place in kept] for line in lines], cut)


def values_table(release: Any) -> Table:
    """A sum or a mean: a line for each column."""
    rows = release.plan.rows
    lines = [
        [one.name, one.value, one.interval, one.error, one.rows, "" if rows is None else stated_of(rows, j), one.note]
        for j, one in enumerate(release_entries(release, MOST_LINES))
    ]
    known = "" if rows is None else _KNOWN[rows.kind]
    heads = ["column", release.statistic, "95% interval", "error std", "rows that have it", known, "note"]
    return filled("values", heads, lines, release.value.size)


def description_tables(release: Any) -> list[Table]:
    """Count, mean and std of each column, and correlations where they were asked for."""
    rows = release.plan.rows
    columns = described_columns(release, MOST_LINES)
    lines = [[*astuple(column), stated_of(rows, j)] for j, column in enumerate(columns)]
    tables = [filled("values", [*HEADINGS, _KNOWN[rows.kind]], lines, release.value.size)]
    matrix = correlation_lines(release, _CORRELATED)
    return [*tables, filled("correlations", matrix[0], matrix[1:], release.value.size)] if matrix else tables


def stated_table(rows: Any, names: Sequence[str]) -> Table:
    """What was stated of each column."""
    lines = [[shown(name), stated_of(rows, j)] for j, name in enumerate(names[:MOST_LINES])]
    return filled("stated of each column", ["column", _KNOWN[rows.kind]], lines, len(names))


def groups_tables(release: Any) -> Iterator[Table]:
    """What is said of groups: a line for each group, a few columns in each table."""
    names, d = release.names(), release.plan.d
    keys = [_key_cells(release, g) for g in range(min(len(release.keys), MOST_LINES))]
    told = release.parts()
    step = max(1, _BESIDE // len(told))
    for start in range(0, min(d, _MOST_BESIDE), step):
        pairs = [(j, what) for j in range(start, min(start + step, d, _MOST_BESIDE)) for what in told]
        heads = [*map(shown, release.by), "noisy count", *(f"{shown(names[j])} {what}".strip() for j, what in pairs)]
        lines = [
            [*cells, *(_with_interval(*(part[g, j] for part in told[what])) for j, what in pairs)]
            for g, cells in enumerate(keys)
        ]
        yield filled("values and 95% intervals", heads, lines, len(release.keys))
    if d > _MOST_BESIDE:
        yield Table("", [], [], f"... {d - _MOST_BESIDE} more columns: the release itself has all")


def _key_cells(release: Any, g: int) -> list[str]:
    cells = ["(missing)" if cell is None else shown(cell) for cell in release.keys[g]]
    return [*cells, number(float(release.counts[g]), release.count_std)]


def _with_interval(value: float, span: Any, error: float) -> str:
    middle, low, high = (number(float(end), float(error)) for end in (value, *span))
    return f"{middle} ({low} to {high})"
