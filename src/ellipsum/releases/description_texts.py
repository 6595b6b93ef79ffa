"""Descriptions in words: repr, HTML, and the lines of a table."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from html import escape
from typing import Any

from ..display.texts import (
    INSECURE,
    SHOWN,
    covers,
    guarantee,
    html_table,
    missing_words,
    more,
    number,
    paragraphs,
    people_lines,
    rows_word,
)
from ..errors import shown

HEADINGS = ("column", "count", "mean", "95% interval", "std", "95% interval")
POPULATION = "std is the population's (divided by the count), for entries held to their bounds"
_LEVEL = 0.95
_FEW = 5
"""Columns whose correlations fit on a line."""


@dataclass(frozen=True)
class DescribedColumn:
    """One column of a description, in words; intervals are at 95%."""

    name: str
    count: str
    mean: str
    mean_interval: str
    std: str
    std_interval: str


def described_columns(release: Any, most: int) -> list[DescribedColumn]:
    """The first columns of a description."""
    means, stds = (release.confidence_interval(_LEVEL, name) for name in ("mean", "std"))
    columns = []
    for j, name in enumerate(release.names()[:most]):
        rows, rows_std = float(release.count[j]), float(release.counts.stds[j])
        count = f"{number(rows, rows_std)} ± {rows_std:.2g}" if rows_std else f"{rows:.12g}"
        mean = _with_interval(release.value[j], means[j], release.standard_error[j])
        std = _with_interval(release.std[j], stds[j], release.std_error[j])
        columns.append(DescribedColumn(shown(name), count, *mean, *std))
    return columns


def _with_interval(value: float, span: Any, error: float) -> tuple[str, str]:
    low, high = (number(float(end), float(error)) for end in span)
    return number(float(value), float(error)), f"{low} to {high}"


def correlation_lines(release: Any, most: int) -> list[list[str]]:
    """The correlations of the first columns, names before and above them; nothing where nobody asked."""
    if release.products is None:
        return []
    names = [shown(name) for name in release.names()[:most]]
    matrix = release.correlation
    return [["correlation", *names]] + [
        [name, *(f"{matrix[i, j]:.3f}" for j in range(len(names)))] for i, name in enumerate(names)
    ]


def facts_of(release: Any) -> list[str]:
    """What holds for all columns: the rows, missing entries, what intervals and stds are for."""
    count = [] if release.row_count is None else [f"noisy count: {release.row_count:.6g}"]
    lines = [*count, *[line.strip() for line in people_lines(release.plan.people)]]
    return [*lines, f"missing entries: {missing_words(release.plan)}", covers(release), POPULATION]


def describe_description(release: Any) -> str:
    lines = [f"Release: count, mean and std of {release.value.size} columns, {rows_word(release.plan)}"]
    lines.append(f"  guarantee       {guarantee(release.privacy, release.stated)}")
    for column in described_columns(release, SHOWN):
        mean = f"mean {column.mean} (95%: {column.mean_interval})"
        std = f"std {column.std} (95%: {column.std_interval})"
        lines.append(f"  {column.name:<15} count {column.count}, {mean}, {std}")
    lines += more(release.value.size)
    lines += [f"  {' '.join(f'{cell:>15}' for cell in line)}" for line in correlation_lines(release, _FEW)]
    lines += [f"  {fact}" for fact in facts_of(release)]
    if not release.secure:
        lines.append(f"  {INSECURE}")
    return "\n".join(lines + [f"  warning: {text}" for text in release.warnings])


def description_html(release: Any) -> str:
    table = html_table(HEADINGS, [astuple(c) for c in described_columns(release, SHOWN)], release.value.size)
    lines = correlation_lines(release, SHOWN)
    table += html_table(lines[0], lines[1:], release.value.size) if lines else ""
    ends = [*facts_of(release), *[f"warning: {text}" for text in release.warnings]]
    insecure = "" if release.secure else f"<p><b>{INSECURE}</b></p>"
    terms = escape(guarantee(release.privacy, release.stated))
    top = f"<p><b>Private count, mean and std</b>: {terms}</p>"
    return f"<div>{top}{table}{paragraphs(ends)}{insecure}</div>"
