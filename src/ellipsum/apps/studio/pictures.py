"""Pictures of releases for a page: the library's own, laid out so narrow that a phone shows them at a readable size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ... import Description, DescriptionWithQuantiles, HistogramRelease, QuantileRelease, Release
from ...display.plots.drawing import content, label
from ...display.plots.strips import ROWS, Sheet, Strip, sheet_figure
from ...errors import Floats
from ...releases.base import StatisticRelease
from ...releases.documents import known_bounds
from ...releases.pictures import own_scale

_MOST_AXES, _MOST_PICTURES = 12, 4
_MARGIN = 1.5  # beside an interval, in its widths


def count_pictures(release: StatisticRelease) -> int:
    """How many pictures a page shows."""
    return len(_parts(release))


def draw(release: StatisticRelease, place: int) -> bytes:
    """One picture of a release as an SVG file: of its first rows, where there are many."""
    part, columns = _parts(release)[place]
    if isinstance(part, QuantileRelease):
        return content(part.plot(columns=columns), "svg")
    few = len(part.names()) <= _MOST_AXES
    if isinstance(part, Release) and few and own_scale(part) is not None:
        return content(sheet_figure(_zoom_limits(part)), "svg")
    sheet = part.sheet(columns=columns)
    strips = [_without_texts(strip.rows(slice(ROWS))) for strip in sheet.strips[:_MOST_PICTURES]]
    labels = sheet.labels[:ROWS]
    if columns is not None:  # the title of each strip names it, so no label repeats it
        strips = [replace(strip, title=label(columns[0])) for strip in strips]
        labels = [text.removeprefix(f"{columns[0]}, ") for text in labels]
    sheet = replace(sheet, title="", notes=(), across=1, labels=labels, strips=strips)
    return content(sheet_figure(sheet), "svg")


def _parts(release: StatisticRelease) -> list[tuple[StatisticRelease, list[str] | None]]:
    """What is drawn: of histograms and distributions one picture for each of the first columns."""
    if isinstance(release, DescriptionWithQuantiles):
        return [(release.moments, None), *_parts(release.quantile_release)]
    if isinstance(release, (HistogramRelease, QuantileRelease)):
        return [(release, [name]) for name in release.names()[:_MOST_PICTURES]]
    return [(release, None)]


def _without_texts(strip: Strip) -> Strip:
    """The table of the page has the numbers."""
    return replace(strip, texts=[""] * len(strip.texts))


def _zoom_limits(release: Release) -> Sheet:
    """Each column on an axis of its own, so narrow that its interval can be seen."""
    parts = {"": (release.value, release.confidence_interval())}
    if isinstance(release, Description):
        parts = {"mean": parts[""], "std": (release.std, release.confidence_interval(0.95, "std"))}
    least, most = known_bounds(release)
    strips = []
    for j, name in enumerate(release.names()):
        for what, (values, spans) in parts.items():
            ends = (least[j], most[j]) if what != "std" else (0.0, np.inf)
            strips.append(_axis(f"{label(name)} {what}".strip(), float(values[j]), spans[j], *ends))
    return Sheet("", (), [""], strips, across=1)


def _axis(title: str, value: float, span: Floats, least: float, most: float) -> Strip:
    low, high = float(span[0]), float(span[1])
    margin = _MARGIN * (high - low) or 1.0
    limits = max(low - margin, least), min(high + margin, most)
    return Strip(title, "", np.array([value]), np.array([low]), np.array([high]), [""], limits)
