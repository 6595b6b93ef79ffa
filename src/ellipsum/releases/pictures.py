"""Figures of releases: values, descriptions, groups, histograms, quantiles and learned bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..display.plots.drawing import BLACK, COLORS, available, check_format, figure, label, save, styled, svg
from ..display.plots.strips import PANELS, Sheet, Strip, limits_of
from ..display.wording import INSECURE, describe_guarantee, describe_statistic, format_number, many
from ..errors import Floats, UsageError, choice, named
from ..privacy.guarantee import PrivacyGuarantee
from ..request.groups import Value
from ..request.request import SUMS
from .base import StatisticRelease, VectorRelease
from .documents import NOISE_ONLY, known_bounds

ORDERS = ("given", "value")
MOST_ROWS, MOST_GROUPS, MOST_PANELS, MOST_CURVES = 1000, 500, 12, 4
_APART = 20.0  # Columns whose sizes differ by a larger factor get scales of their own.
_BOUNDS = "position between lower (0) and upper (1) bound"
_LEARNED = "position between learned lower (0) and upper (1) bound"
_SPREADS = "standard deviations from its center"
Places = NDArray[np.int64]


Parts = Mapping[str, tuple[Floats, Floats, Floats]]
"""Values, intervals and standard errors, by title."""


def vector_sheet(
    release: VectorRelease, title: str, parts: Parts, order: str = "given", columns: Sequence[str] | None = None
) -> Sheet:
    """Values of each column with 95% intervals; several statistics stand side by side."""
    chosen = _choose_columns(release.names(), columns, release.value, order)
    strips = [_strip(release, name, part, chosen) for name, part in parts.items()]
    notes = [f"95% CI {release.coverage}", *_notes(release), *_note_left_out(chosen.size, release.value.size, columns)]
    return Sheet(f"Private {title}", notes, _labels(release.names(), chosen), strips)


def groups_sheet(
    release: VectorRelease, keys: Sequence[Sequence[Value]], parts: Parts, order: str, columns: Sequence[str] | None
) -> Sheet:
    """One panel per column and statistic, one row per group."""
    panels = {what or release.statistic: part for what, part in parts.items() if what != "count"}
    picked = _choose_columns(release.names(), columns, np.zeros(release.plan.d), "given")[: MOST_PANELS // len(panels)]
    first = release.value[:, picked[0]] if len(keys) else np.zeros(0)
    groups = _order_columns(first, order)[: MOST_GROUPS // -(-picked.size * len(panels) // PANELS)]
    names, strips = release.names(), []
    for j in picked.tolist():
        for what, (values, spans, errors) in panels.items():
            value, low, high = values[groups, j], spans[groups, j, 0], spans[groups, j, 1]
            texts = _texts(value, low, high, errors[groups, j])
            strips.append(Strip(label(names[j]), what, value, low, high, texts, limits_of(low, high)))
    title = f"Private {' and '.join(panels)} of {many(release.plan.d, 'column')} in {many(len(keys), 'group')}"
    notes = [f"95% CI {release.coverage}", *_notes(release)]
    notes += _note_left_out(groups.size, len(keys), None, "groups") if groups.size else ["no group was published"]
    notes += _note_left_out(picked.size, release.plan.d, columns)
    return Sheet(title, notes, [_key(keys[g]) for g in groups], strips)


def histogram_sheet(
    release: StatisticRelease,
    lines: Sequence[tuple[Sequence[Value], str, Value, Sequence[float]]],
    error: float,
    order: str = "given",
    columns: Sequence[str] | None = None,
) -> Sheet:
    """A bar with a 95% interval for each bin. lines: those of the release. error: standard error of each count."""
    shown_columns = [line for line in lines if not columns or line[1] in columns]
    _choose_columns(release.names(), columns, np.zeros(release.plan.d), "given")  # Raises for an unknown column.
    value, low, high = np.array([numbers[:3] for *_, numbers in shown_columns]).T
    places = _order_columns(value, order)[:MOST_ROWS]
    value, low, high = value[places], low[places], high[places]
    texts = _texts(value, low, high, np.full(value.size, error))
    unit = "rows" if release.plan.people is None or release.plan.people.rows_each is not None else "people"
    strip = Strip("count and 95% interval", unit, value, low, high, texts, limits_of(low, high, 0.0), bars=True)
    several = release.plan.d > 1
    labels = [
        _key([*key, *([name] if several else []), bin_]) for key, name, bin_, _ in (shown_columns[i] for i in places)
    ]
    notes = [f"95% CI {NOISE_ONLY}", *_notes(release)]
    notes += _note_left_out(places.size, len(shown_columns), None, "bins")
    return Sheet(f"Private {describe_statistic(release.plan)}", notes, labels, [strip])


def bounds_sheet(
    low: Floats, high: Floats, names: Sequence[str], notes: Sequence[str], order: str, columns: Sequence[str] | None
) -> Sheet:
    """Learned bounds: the interval of each column."""
    chosen = _choose_columns(names, columns, (low + high) / 2, order)
    low, high, size = low[chosen], high[chosen], low.size
    texts = [f"{start:.4g} to {stop:.4g}" for start, stop in zip(low.tolist(), high.tolist(), strict=True)]
    unit, axis_unit = np.ones(low.size), "the data's units"
    if not _alike(high - low):
        unit, axis_unit = np.where(high > low, high - low, 1.0), "widths from zero"
    ends = low / unit, high / unit
    strip = Strip("learned bounds", axis_unit, (ends[0] + ends[1]) / 2, *ends, texts, limits_of(*ends))
    title = f"Learned bounds of {many(size, 'column')}"
    return Sheet(title, [*notes, *_note_left_out(chosen.size, size, columns)], _labels(names, chosen), [strip])


@dataclass(frozen=True)
class DistributionCurve:
    """A noisy distribution function, its band (edges, lowest and highest share), and its quantiles."""

    title: str
    x: Floats
    shares: Floats
    band: Floats
    values: Floats
    q: Floats
    is_stepped: bool


def distributions_plot(curves: Sequence[DistributionCurve], band: str, path: str | Path | None) -> Any:
    """A figure with a panel for each curve, written to `path` if it is given. band: label of the bands."""
    if path is not None:
        check_format(path)
    with styled():
        panels = max(len(curves), 1)
        picture, axes = figure(4.4 * panels, 3.6, panels)
        for axis, curve in zip(np.atleast_1d(axes), curves, strict=False):
            x, low, high = curve.band.T
            axis.fill_between(x, low, high, step="post", color=COLORS[0], alpha=0.25, linewidth=0, label=band)
            style = "steps-post" if curve.is_stepped else "default"
            axis.plot(curve.x, curve.shares, color=COLORS[0], drawstyle=style)
            axis.scatter(curve.values, curve.q, color=BLACK, zorder=3, label="quantiles")
            axis.set_title(label(curve.title))
            axis.set_xlabel("value")
            axis.locator_params(axis="x", nbins=6)  # Long numbers stand side by side.
            axis.set_ylim(0, 1)
        np.atleast_1d(axes)[0].set_ylabel("share of values at most this")
        np.atleast_1d(axes)[0].legend()
    if path is not None:
        save(picture, path)
    return picture


def distributions_svg(curves: Sequence[DistributionCurve], band: str, prefix: str) -> str | None:
    """The figure as SVG for a page, or None without matplotlib."""
    return svg(distributions_plot(curves, band, None), prefix) if available() else None


def _strip(release: VectorRelease, title: str, part: tuple[Floats, Floats, Floats], chosen: Places) -> Strip:
    """One panel: values in the data's units if all columns fit on one axis, else on public scales of their own."""
    value, spans, errors = (numbers[chosen] for numbers in part)
    ends = value, spans[:, 0], spans[:, 1]
    texts = _texts(*ends, errors)
    scale = own_scale(release, title == "std")
    if scale is None:
        return Strip(title, "the data's units", *ends, texts, limits_of(*ends[1:]))
    start, unit, axis_unit, marks = scale
    start, unit = start[chosen], np.where(unit[chosen] > 0, unit[chosen], 1.0)
    middle, low, high = ((end - start) / unit for end in ends)
    return Strip(title, axis_unit, middle, low, high, texts, limits_of(low, high, *marks), marks)


def _alike(sizes: Floats) -> bool:
    """Whether the sizes are similar enough for one axis."""
    live = sizes[np.isfinite(sizes) & (sizes > 0)]
    return live.size < 2 or float(live.max()) <= _APART * float(live.min())


def own_scale(release: VectorRelease, std: bool = False) -> tuple[Floats, Floats, str, tuple[float, ...]] | None:
    """The public origin and unit of each column's scale; None if all columns fit on one axis."""
    scale = _known_scale(release, std)
    return None if scale is None or _alike(scale[1]) else scale


def _known_scale(release: VectorRelease, std: bool) -> tuple[Floats, Floats, str, tuple[float, ...]] | None:
    rows = release.vector_plan.rows
    if rows is not None and rows.kind in ("normal", "learned") and release.statistic not in SUMS:
        return np.asarray(rows.middle(), float), np.asarray(rows.spread(), float), _SPREADS, (0.0,)
    if release.learned is not None and rows is not None and rows.clamps and release.statistic not in SUMS:
        low, high = rows.bounds()  # The magnitude does not show the units of the columns.
        return low, high - low, _LEARNED, (0.0, 1.0)
    low, high = known_bounds(release)
    if np.isfinite(low).all() and np.isfinite(high).all():
        if std:
            return np.zeros(low.size), (high - low) / 2, "share of the largest that its bounds allow", (0.0, 1.0)
        return low, high - low, _BOUNDS, (0.0, 1.0)
    return None


def _texts(value: Floats, low: Floats, high: Floats, errors: Floats) -> list[str]:
    lines = []
    for numbers in zip(value.tolist(), low.tolist(), high.tolist(), errors.tolist(), strict=True):
        middle, least, most = (format_number(end, numbers[3]) for end in numbers[:3])
        lines.append(f"{middle}  ({least} to {most})")
    return lines


def _choose_columns(names: Sequence[str], columns: Sequence[str] | None, value: Floats, order: str) -> Places:
    """The positions of the shown columns, in order."""
    if columns is None:
        return _order_columns(value, order)[:MOST_ROWS]
    where = {name: place for place, name in enumerate(names)}
    for name in columns:
        if name not in where:
            raise UsageError(f"The release has no column {named(name)}.")
    places = np.array([where[name] for name in columns], np.int64)
    return places[_order_columns(value[places], order)][:MOST_ROWS]


def _order_columns(value: Floats, order: str) -> Places:
    if choice("order", order, ORDERS) == "given":
        return np.arange(value.size)
    return np.argsort(-value, kind="stable")


def _note_left_out(shown: int, all: int, columns: Sequence[str] | None, what: str = "columns") -> list[str]:
    more = "; columns= picks others" if what == "columns" else ""
    return [] if columns is not None or shown == all else [f"{shown} of {all} {what} are shown{more}"]


def _labels(names: Sequence[str], chosen: Places) -> list[str]:
    return [label(names[place]) for place in chosen]


def _key(cells: Sequence[Value]) -> str:
    return label(", ".join("(missing)" if cell is None else str(cell) for cell in cells))


def _notes(release: StatisticRelease) -> list[str]:
    return guarantee_notes(release.privacy, release.stated, release.secure)


def guarantee_notes(privacy: PrivacyGuarantee, stated: Mapping[str, float], secure: bool) -> list[str]:
    """The notes of every figure."""
    return [describe_guarantee(privacy, stated), *([] if secure else [INSECURE])]
