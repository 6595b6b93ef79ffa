"""Pictures within a page: plain SVG whose colors are those of the page, light or dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from ...display.plots.labels import cut
from ...display.wording import format_number
from ...errors import shown, visible
from ...releases.group_release import GroupRelease
from ...releases.pictures import own_scale
from .forecasts import ErrorCurve

_WIDTH, _HEIGHT = 420, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 12, 12, 40
_ROW = 26
_TICKS = 16
_NAME_LETTERS = 20
_NAMES_WIDTH = 170
_PLOT_WIDTH = 520
_SHOWN = 60
_GROUPED = 4
_LEVEL = 0.95


# The curve of a forecast -----------------------------------------------------------------------------------


def curve_svg(curve: ErrorCurve, epsilon: float | None, error: float | None) -> str:
    """Forecast error against epsilon, both on logarithmic axes, with the point that is chosen."""
    points = [(e, v) for e, v in zip(curve.epsilons, curve.errors, strict=True) if v is not None and v > 0]
    if len(points) < 2:
        return ""
    values = [v for _, v in points]
    across = _Scale(curve.epsilons[0], curve.epsilons[-1], _LEFT, _WIDTH - _RIGHT)
    up = _Scale(min(values) / 1.3, max(values) * 1.3, _HEIGHT - _BOTTOM, _TOP)
    path = " ".join(f"{'L' if i else 'M'}{across.at(e):.1f} {up.at(v):.1f}" for i, (e, v) in enumerate(points))
    parts = [*_grid(across, up), f'<path class="curve" d="{path}"/>']
    if epsilon is not None and error is not None and curve.epsilons[0] <= epsilon <= curve.epsilons[-1]:
        x, y = across.at(epsilon), up.at(error)
        parts.append(f'<path class="drop" d="M{x:.1f} {_HEIGHT - _BOTTOM}V{y:.1f}H{_LEFT}"/>')
        parts.append(f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="6"/>')
    label = "Forecast error against epsilon: the error falls as epsilon grows."
    return _svg(_WIDTH, _HEIGHT, label, parts)


@dataclass(frozen=True)
class _Scale:
    """A logarithmic axis from one value to another, between two places of the picture."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        span = math.log(self.high / self.low) or 1.0
        share = min(max(math.log(value / self.low) / span, 0.0), 1.0)
        return self.begin + share * (self.end - self.begin)

    def ticks(self) -> list[float]:
        """Powers of ten; with 2 and 5 between them where these are few."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for steps in ((1,), (1, 3), (1, 2, 5)):
            found = [step * 10.0**power for power in powers for step in steps]
            found = [tick for tick in found if self.low <= tick <= self.high]
            if len(found) >= 3:
                return found[:: -(-len(found) // 6)]
        return [self.low * 1.3, self.high / 1.3]


def _number(tick: float) -> str:
    return f"{tick:,.0f}" if 1000 <= tick < 1e6 else f"{tick:.3g}"


def _grid(across: _Scale, up: _Scale) -> list[str]:
    bottom = _HEIGHT - _BOTTOM
    parts = []
    for tick in up.ticks():
        y = up.at(tick)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(tick)}</text>')
    for tick in across.ticks():
        x = across.at(tick)
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{_number(tick)}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text class="title" x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">epsilon</text>')
    parts.append(
        f'<text class="title" x="12" y="{(_TOP + bottom) / 2}" text-anchor="middle" '
        f'transform="rotate(-90 12 {(_TOP + bottom) / 2})">forecast error</text>'
    )
    return parts


# Values with their intervals --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Panel:
    """One picture of values with intervals: a line for each column, or for each group of one column."""

    title: str
    svg: str
    rest: int
    """Lines that were left out."""


@dataclass(frozen=True)
class _Line:
    name: str
    value: float
    low: float
    high: float
    begin: float
    end: float
    """The ends of what is drawn: the stated bounds, or the span of all lines."""


def panels(release: Any) -> list[Panel]:
    """The pictures of a release."""
    if isinstance(release, GroupRelease):
        spans = release.confidence_interval(_LEVEL)
        keys = [", ".join("(missing)" if cell is None else visible(str(cell)) for cell in key) for key in release.keys]
        columns = list(enumerate(release.names()))[:_GROUPED]
        return [
            _panel(shown(name), _shared(keys, release.value[:, j], spans[:, j])) for j, name in columns if len(keys)
        ]
    spans = release.confidence_interval(_LEVEL)
    names = [visible(name) for name in release.names()]
    bounds = _bounds(release)
    if bounds is None:
        return [_without_bounds(release, names, spans)]
    ends = zip(names, release.value, spans, *bounds, strict=True)
    return [_panel("each column on an axis of its own", [_line(*column) for column in ends])]


def _line(name: str, value: float, span: Any, least: float, most: float) -> _Line:
    """A line whose axis is four intervals wide, within the bounds: a narrow interval can be seen, too."""
    low, high = float(span[0]), float(span[1])
    beside = 1.5 * (high - low)
    return _Line(name, float(value), low, high, max(low - beside, float(least)), min(high + beside, float(most)))


def _without_bounds(release: Any, names: Sequence[str], spans: Any) -> Panel:
    """All columns on one axis, or each on its own where they are too different."""
    if own_scale(release) is None:
        return _panel("all columns on one axis", _shared(names, release.value, spans))
    columns = zip(names, release.value, spans, strict=True)
    return _panel("each column on an axis of its own", [_line(*column, -np.inf, np.inf) for column in columns])


def _bounds(release: Any) -> tuple[Any, Any] | None:
    """What each column lies between if the rows are as stated; None where nothing says so."""
    rows = release.plan.rows
    if rows.kind != "box" or release.learned is not None:
        return None
    low, high = rows.bounds()
    if release.statistic != "sum":
        return low, high
    times = release.plan.n if release.counts is None else np.maximum(release.counts.rows, 1.0)
    return None if times is None else (low * times, high * times)


def _shared(names: Sequence[str], values: Any, spans: Any) -> list[_Line]:
    begin, end = float(np.min(spans)), float(np.max(spans))
    return [
        _Line(name, float(value), float(span[0]), float(span[1]), begin, end)
        for name, value, span in zip(names, values, spans, strict=True)
    ]


def _panel(title: str, lines: Sequence[_Line]) -> Panel:
    drawn = lines[:_SHOWN]
    shares_axis = len({(line.begin, line.end) for line in lines}) == 1
    row = _ROW if shares_axis else _ROW + _TICKS
    height = row * len(drawn) + 8
    parts = [part for i, line in enumerate(drawn) for part in _drawn(line, 4 + row * i + _ROW / 2)]
    if shares_axis:
        parts += _ends(lines[0], height + 8)
        height += _TICKS
    else:
        parts += [part for i, line in enumerate(drawn) for part in _ends(line, 4 + row * i + _ROW + 6)]
    label = f"Values with their 95% intervals, {title}. The table has the numbers."
    return Panel(title, _svg(_PLOT_WIDTH, height, label, parts), len(lines) - len(drawn))


def _ends(line: _Line, y: float) -> list[str]:
    """The numbers at both ends of an axis."""
    places = ((_NAMES_WIDTH, "start", line.begin), (_PLOT_WIDTH - 10, "end", line.end))
    std = max(line.end - line.begin, 1e-300) / 10
    texts = [(x, anchor, format_number(end, std)) for x, anchor, end in places]
    return [f'<text class="tick" x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>' for x, anchor, text in texts]


def _drawn(line: _Line, y: float) -> list[str]:
    left, right = _NAMES_WIDTH, _PLOT_WIDTH - 10
    name = cut(line.name, _NAME_LETTERS)
    span = (line.end - line.begin) or 1.0

    def at(value: float) -> float:
        return left + min(max((value - line.begin) / span, 0.0), 1.0) * (right - left)

    low, high, middle = at(line.low), at(line.high), at(line.value)
    ends = "".join(f"M{end:.1f} {y - 6:.1f}v12" for end in (low, high))
    point = "" if math.isnan(line.value) else f'<circle class="point" cx="{middle:.1f}" cy="{y:.1f}" r="4.5"/>'
    return [
        f'<text class="name" x="{left - 12}" y="{y + 4:.1f}" text-anchor="end">{escape(name)}</text>',
        f'<path class="track" d="M{left} {y:.1f}H{right}"/>',
        f'<path class="interval" d="M{low:.1f} {y:.1f}H{high:.1f}{ends}"/>',
        point,
    ]


def _svg(width: int, height: int, label: str, parts: Sequence[str]) -> str:
    return (
        f'<svg class="picture" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )
