"""What releases show: values, descriptions, groups and learned rows, each with its intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..display.plots.labels import label
from ..display.plots.strips import PANELS, Sheet, Strip, limits_of
from ..display.wording import INSECURE, LEVEL, describe_guarantee, format_number, many
from ..errors import Floats, UsageError, choice, named
from .documents import describe_coverage, describe_groups_coverage, stated_bounds

ORDERS = ("given", "value")
MOST_ROWS, MOST_GROUPS, MOST_PANELS = 1000, 500, 12
_APART = 20.0  # columns whose sizes differ by more share no axis
_BOUNDS = "share of the way between its bounds"
_LEARNED = "share of the way between its learned bounds"
_SPREADS = "spreads from its center"
Places = NDArray[np.int64]


def release_sheet(release: Any, order: str = "given", columns: Sequence[str] | None = None) -> Sheet:
    """A sum or a mean: each column's value and 95% interval."""
    spans = release.confidence_interval(LEVEL)
    chosen = _chosen(release.names(), columns, release.value, order)
    strip = _strip(
        release, f"{release.statistic} and 95% interval", release.value, spans, release.standard_error, chosen
    )
    title = f"Private {release.statistic} of {many(release.value.size, 'column')}"
    notes = [*_notes(release), *_left_out(chosen.size, release.value.size, columns)]
    return Sheet(title, [f"95% CI {describe_coverage(release)}", *notes], _labels(release.names(), chosen), [strip])


def description_sheet(release: Any, order: str = "given", columns: Sequence[str] | None = None) -> Sheet:
    """Mean and standard deviation of each column, side by side."""
    chosen = _chosen(release.names(), columns, release.value, order)
    strips = []
    for name, errors in (("mean", release.standard_error), ("std", release.std_error)):
        spans = release.confidence_interval(LEVEL, name)
        strips.append(_strip(release, name, getattr(release, name), spans, errors, chosen, name == "std"))
    title = f"Private mean and standard deviation of {many(release.value.size, 'column')}"
    notes = [*_notes(release), *_left_out(chosen.size, release.value.size, columns)]
    return Sheet(title, [f"95% CI {describe_coverage(release)}", *notes], _labels(release.names(), chosen), strips)


def groups_sheet(release: Any, order: str = "given", columns: Sequence[str] | None = None) -> Sheet:
    """One panel per column (of a description, two), one row per group; every panel of a column has the same axis."""
    told = {what or release.statistic: part for what, part in release.parts().items() if what != "count"}
    picked = _chosen(release.names(), columns, np.zeros(release.plan.d), "given")[: MOST_PANELS // len(told)]
    first = release.value[:, picked[0]] if len(release.keys) else np.zeros(0)
    groups = _ordered(first, order)[: MOST_GROUPS // -(-picked.size * len(told) // PANELS)]
    names, strips = release.names(), []
    for j in picked.tolist():
        for what, (values, spans, errors) in told.items():
            value, low, high = values[groups, j], spans[groups, j, 0], spans[groups, j, 1]
            texts = _texts(value, low, high, errors[groups, j])
            strips.append(Strip(label(names[j]), what, value, low, high, texts, limits_of(low, high)))
    title = f"Private {' and '.join(told)} of {many(release.plan.d, 'column')} in {many(len(release.keys), 'group')}"
    notes = [f"95% CI {describe_groups_coverage(release)}", *_notes(release)]
    notes += _left_out(groups.size, len(release.keys), None, "groups") if groups.size else ["no group was published"]
    notes += _left_out(picked.size, release.plan.d, columns)
    return Sheet(title, notes, [_key(release.keys[g]) for g in groups], strips)


def learned_sheet(learned: Any, order: str = "given", columns: Sequence[str] | None = None) -> Sheet:
    """Learned bounds: from the low to the high end of each column."""
    low, high = learned.ends
    names = learned.bounds.columns or tuple(f"x{j + 1}" for j in range(low.size))
    chosen = _chosen(names, columns, (low + high) / 2, order)
    low, high, size = low[chosen], high[chosen], low.size
    texts = [f"{start:.4g} to {stop:.4g}" for start, stop in zip(low.tolist(), high.tolist(), strict=True)]
    unit, words = np.ones(low.size), "the data's units"
    if not _alike(high - low):
        unit, words = np.where(high > low, high - low, 1.0), "widths from zero"
    ends = low / unit, high / unit
    strip = Strip("learned bounds", words, (ends[0] + ends[1]) / 2, *ends, texts, limits_of(*ends))
    title = f"Bounds as learned, {many(size, 'column')}"
    notes = [*_notes(learned), *_left_out(chosen.size, size, columns)]
    return Sheet(title, notes, _labels(names, chosen), [strip])


def _strip(
    release: Any, title: str, value: Floats, spans: Floats, errors: Floats, chosen: Places, std: bool = False
) -> Strip:
    """A column each, in its own unit where all may share an axis, else each on a scale of its own."""
    texts = _texts(value[chosen], spans[chosen, 0], spans[chosen, 1], errors[chosen])
    parts = value[chosen], spans[chosen, 0], spans[chosen, 1]
    scale = own_scale(release, std)
    if scale is None:
        return Strip(title, "the data's units", *parts, texts, limits_of(*parts[1:]))
    start, unit, words, marks = scale
    start, unit = start[chosen], np.where(unit[chosen] > 0, unit[chosen], 1.0)
    middle, low, high = ((part - start) / unit for part in parts)
    return Strip(title, words, middle, low, high, texts, limits_of(low, high, *marks), marks)


def _alike(sizes: Floats) -> bool:
    """Whether units are near enough in size for one axis."""
    live = sizes[np.isfinite(sizes) & (sizes > 0)]
    return live.size < 2 or float(live.max()) <= _APART * float(live.min())


def own_scale(release: Any, std: bool = False) -> tuple[Floats, Floats, str, tuple[float, ...]] | None:
    """For each column where its scale begins and its unit, both public; None where all may share an axis."""
    scale = _stated_scale(release, std)
    return None if scale is None or _alike(scale[1]) else scale


def _stated_scale(release: Any, std: bool) -> tuple[Floats, Floats, str, tuple[float, ...]] | None:
    rows = release.plan.rows
    if rows is not None and rows.kind in ("normal", "learned") and release.statistic != "sum":
        return np.asarray(rows.middle(), float), np.asarray(rows.spread(), float), _SPREADS, (0.0,)
    if release.learned is not None and rows is not None and rows.clamps and release.statistic != "sum":
        low, high = rows.bounds()  # one magnitude for all columns says nothing of their units
        return low, high - low, _LEARNED, (0.0, 1.0)
    low, high = stated_bounds(release)
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


def _chosen(names: Sequence[str], columns: Sequence[str] | None, value: Floats, order: str) -> Places:
    """The places of the columns that are shown, in their order."""
    if columns is None:
        return _ordered(value, order)[:MOST_ROWS]
    where = {name: place for place, name in enumerate(names)}
    for name in columns:
        if name not in where:
            raise UsageError(f"there is no column {named(name)} to show.")
    places = np.array([where[name] for name in columns], np.int64)
    return places[_ordered(value[places], order)][:MOST_ROWS]


def _ordered(value: Floats, order: str) -> Places:
    if choice("order", order, ORDERS) == "given":
        return np.arange(value.size)
    return np.argsort(-value, kind="stable")


def _left_out(shown: int, all: int, columns: Sequence[str] | None, what: str = "columns") -> list[str]:
    more = "; columns= picks others" if what == "columns" else ""
    return [] if columns is not None or shown == all else [f"{shown} of {all} {what} are shown{more}"]


def _labels(names: Sequence[str], chosen: Places) -> list[str]:
    return [label(names[place]) for place in chosen]


def _key(cells: Sequence[Any]) -> str:
    return label(", ".join("(missing)" if cell is None else str(cell) for cell in cells))


def _notes(result: Any) -> list[str]:
    return [describe_guarantee(result.privacy, result.stated), *([] if result.secure else [INSECURE])]
