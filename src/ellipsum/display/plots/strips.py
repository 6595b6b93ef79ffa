"""Figures of numbers with their intervals, one row for each, in as many panels and pages as are legible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import Floats
from .drawing import (
    BLACK,
    COLORS,
    EDGE,
    GREY,
    PALE,
    check_format,
    inches,
    plain,
    save,
    save_pages,
    styled,
    svg,
    ticks,
    titled_figure,
)

ROWS = 30
"""The largest number of rows of a panel."""
PANELS = 3
"""Panels side by side, if a row has several."""
_ON_PAPER = 2
_BESIDE = 2  # Blocks of rows side by side, if a row has one panel.
_ROW, _HEAD, _FOOT, _GAP = 0.25, 0.32, 0.55, 0.4  # Inches.
_ONE, _SEVERAL = 3.2, 2.0  # Width of a panel in inches.


@dataclass(frozen=True)
class Strip:
    """A panel: for each row a number, its interval, and both as text.

    marks: positions of vertical lines. bars: whether numbers are drawn as bars from zero.
    """

    title: str
    unit: str
    middle: Floats
    low: Floats
    high: Floats
    texts: Sequence[str]
    limits: tuple[float, float]
    marks: tuple[float, ...] = ()
    bars: bool = False

    def rows(self, part: slice) -> Strip:
        return replace(self, middle=self.middle[part], low=self.low[part], high=self.high[part], texts=self.texts[part])


@dataclass(frozen=True)
class StripBlock:
    """Rows with their labels, and the panels beside them."""

    labels: Sequence[str]
    strips: Sequence[Strip]
    labels_width: float
    texts_width: float

    @property
    def panel(self) -> float:
        return _ONE if len(self.strips) == 1 else _SEVERAL

    @property
    def width(self) -> float:
        return self.labels_width + len(self.strips) * (self.panel + self.texts_width) + _GAP * (len(self.strips) - 1)

    @property
    def height(self) -> float:
        foot = _FOOT if any(strip.unit for strip in self.strips) else _FOOT / 2
        return _HEAD + foot + _ROW * len(self.labels)


@dataclass(frozen=True)
class Sheet:
    """The contents of a figure of values."""

    title: str
    notes: Sequence[str]
    labels: Sequence[str]
    strips: Sequence[Strip]
    across: int = PANELS
    """Panels side by side."""

    @cached_property
    def pages(self) -> list[list[StripBlock]]:
        """Blocks side by side, page by page."""
        starts = range(0, len(self.labels), ROWS)
        if len(self.strips) == 1:
            blocks = [self._block(slice(start, start + ROWS), self.strips) for start in starts]
            return [blocks[place : place + _BESIDE] for place in range(0, len(blocks), _BESIDE)]
        chunks = [self.strips[place : place + self.across] for place in range(0, len(self.strips), self.across)]
        return [[self._block(slice(start, start + ROWS), chunk)] for chunk in chunks for start in starts]

    @cached_property
    def _widths(self) -> tuple[float, float]:
        """Inches of the widest label and of the widest text."""
        names = max(map(inches, self.labels), default=0.0)
        return names + 0.2, max((inches(text) for strip in self.strips for text in strip.texts), default=0.0) + 0.15

    def _block(self, part: slice, strips: Sequence[Strip]) -> StripBlock:
        return StripBlock(self.labels[part], [strip.rows(part) for strip in strips], *self._widths)


def sheet_pages(sheet: Sheet, most: int | None = None) -> list[Any]:
    """A figure for each page, or for the first pages."""
    pages = sheet.pages
    with styled():
        return [_draw_pages(sheet, [page], f" (page {i + 1} of {len(pages)})") for i, page in enumerate(pages[:most])]


def sheet_svgs(sheet: Sheet, prefix: str, most: int | None = None) -> list[str]:
    """An SVG element for each page, for a page of HTML."""
    return [svg(page, f"{prefix}{place + 1}") for place, page in enumerate(sheet_pages(sheet, most))]


def on_paper(sheet: Sheet) -> Sheet:
    """The sheet with fewer panels side by side, so that they fit on a page of a report."""
    return replace(sheet, across=_ON_PAPER)


def sheet_figure(sheet: Sheet) -> Any:
    """One figure with all pages, one below the other."""
    with styled():
        return _draw_pages(sheet, sheet.pages)


def sheet_plot(sheet: Sheet, path: str | Path | None) -> Any:
    """The figure, written to a file if `path` is given; a PDF has pages."""
    if path is not None and check_format(path) == "pdf" and len(sheet.pages) > 1:
        save_pages(sheet_pages(sheet), path)
        return sheet_figure(sheet)
    picture = sheet_figure(sheet)
    if path is not None:
        save(picture, path)
    return picture


def _draw_pages(sheet: Sheet, pages: Sequence[Sequence[StripBlock]], which: str = "") -> Any:
    wide = max((sum(block.width for block in page) + _GAP * (len(page) - 1) for page in pages), default=0.0)
    width = max(wide + 2 * EDGE, 6.0 if sheet.title else 0.0)  # Space for the title.
    tall = sum(max(block.height for block in page) for page in pages)
    title = sheet.title + (which if len(sheet.pages) > 1 else "")
    picture, texts = titled_figure(width, title, sheet.notes, 0.1 + tall + EDGE)
    top = texts + 0.1
    for page in pages:
        left = EDGE
        for block in page:
            _draw_block(picture, block, left, top)
            left += block.width + _GAP
        top += max(block.height for block in page)
    return picture


def _draw_block(picture: Any, block: StripBlock, left: float, top: float) -> None:
    width, height = picture.get_size_inches()
    tall = _ROW * len(block.labels)
    x = left + block.labels_width
    for place, strip in enumerate(block.strips):
        bottom = height - top - _HEAD - tall
        axis = picture.add_axes((x / width, bottom / height, block.panel / width, tall / height))
        _draw_strip(axis, strip, block.labels if place == 0 else None, block.panel)
        x += block.panel + block.texts_width + _GAP


def _draw_strip(axis: Any, strip: Strip, labels: Sequence[str] | None, width: float) -> None:
    rows = np.arange(len(strip.middle))
    axis.set_xlim(*strip.limits)
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.hlines(rows, *strip.limits, color=PALE, linewidth=0.7, zorder=0)
    for mark in strip.marks:
        axis.axvline(mark, color=GREY, linewidth=0.9, linestyle=":", zorder=1)
    if strip.bars:
        axis.barh(rows, strip.middle, 0.7, color=PALE, zorder=1)
    live = np.isfinite(strip.low) & np.isfinite(strip.high)
    axis.hlines(rows[live], strip.low[live], strip.high[live], color=COLORS[0], linewidth=2.2)
    for ends in (strip.low[live], strip.high[live]):
        axis.plot(ends, rows[live], linestyle="", marker="|", markersize=9, color=COLORS[0])
    axis.plot(strip.middle, rows, linestyle="", marker="o", markersize=3.8, color=BLACK, zorder=3)
    places, texts = ticks(*strip.limits, width)
    axis.set_xticks(places, texts)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    axis.set_xlabel(plain(strip.unit))
    axis.set_title(strip.title)
    _beside(axis, strip.texts, 1, "left")
    _beside(axis, labels or (), 0, "right")


def _beside(axis: Any, texts: Sequence[str], end: int, align: str) -> None:
    """Write texts beside each row, at one of its ends."""
    shift = 6 if end else -6
    for row, text in enumerate(texts):
        axis.annotate(
            text, (end, row), (shift, -0.5), ("axes fraction", "data"), "offset points", ha=align, va="center_baseline"
        )


def limits_of(low: Floats, high: Floats, *marks: float) -> tuple[float, float]:
    """The limits of an axis that shows all intervals and marks, with a margin."""
    ends = np.concatenate([low, high, np.array(marks)])
    ends = ends[np.isfinite(ends)]
    if not ends.size:
        return 0.0, 1.0
    least, most = float(ends.min()), float(ends.max())
    margin = 0.04 * (most - least) if most > least else 0.05 * max(abs(most), 1.0)
    if not math.isfinite(margin):
        return least, most
    return least - margin, most + margin
