"""Figures of plans: expected error against the budget, and the noise of two columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..display.plots.drawing import (
    BLACK,
    bare_figure,
    check_format,
    content,
    label,
    logarithmic,
    save,
    stroke,
    styled,
    svg,
    ticks,
    titled_figure,
)
from ..display.wording import MECHANISMS, column_names, describe_guarantee
from ..errors import Floats, UsageError, named
from ..privacy.budget import Budget
from ..releases.numbers import PublicNumbers
from ..rows import Box, Normal

NAMES = {**MECHANISMS, "": "learned bounds"}
_WIDE = 10.0  # Budgets from a tenth of the plan's to ten times the plan's are shown.
_POINTS, _COSTLY_POINTS, _FEWEST_POINTS = 9, 5, 3
_MANY = 200  # columns
_STDS = 2.0
_PANEL, _HIGH = 4.4, 3.9  # Inches of a panel with its texts.
_WIDTH, _HEIGHT = 3.35, 2.6  # Inches of the panel alone.


@dataclass(frozen=True)
class ErrorCurves:
    """Errors against the budget, one line for each mechanism. point: budget and error of the plan."""

    budget: str
    error: str
    lines: dict[str, tuple[Floats, Floats]]
    point: tuple[float, float]


@dataclass(frozen=True)
class Shapes:
    """The noise of two columns: covariances by the name of the mechanism."""

    names: tuple[str, str]
    covariances: dict[str, Floats]


# Numbers ------------------------------------------------------------------------------------------------


def curves_of(plan: PublicNumbers) -> ErrorCurves | None:
    """Plan the request at budgets around that of the plan; None without an expected error."""
    error, unit = plan.budget_error
    name = next((name for name in ("epsilon", "mu", "rho") if name in plan.stated), None)
    if name is None or not error:
        return None
    lines: dict[str, list[tuple[float, float]]] = {}
    for share in np.geomspace(1 / _WIDE, _WIDE, _points(plan)).tolist():
        spend = plan.stated[name] * share
        for mechanism, value in _errors_at(plan, Budget(**{**plan.stated, name: spend})).items():
            lines.setdefault(mechanism, []).append((spend, value))
    parts = {mechanism: (np.array(points)[:, 0], np.array(points)[:, 1]) for mechanism, points in lines.items()}
    return ErrorCurves(name, unit, parts, (plan.stated[name], error))


def _points(plan: PublicNumbers) -> int:
    if plan.rows.kind not in ("normal", "learned"):
        return _POINTS
    return _COSTLY_POINTS if plan.d <= _MANY else _FEWEST_POINTS


def _errors_at(plan: PublicNumbers, budget: Budget) -> dict[str, float]:
    """The error of each mechanism that a budget allows."""
    errors: dict[str, float] = {}
    for noise in ("gaussian", "knorm") if plan.rows.kind != "unknown" else (plan.request.noise,):
        other = _attempt(plan, budget=budget, noise=noise)
        error = None if other is None else other.budget_error[0]
        if other is None or not error:
            continue
        own = other.considered.get(other.mechanism, 1.0)
        errors |= {name: error * each / own for name, each in other.considered.items()} or {other.mechanism: error}
    return {name: error for name, error in errors.items() if 0 < error < math.inf}


def _attempt(plan: PublicNumbers, **changes: Any) -> PublicNumbers | None:
    """The plan of a changed request, or None if its arguments are invalid.

    `ellipsum.replan` is imported by name, since it knows plans of every kind and stands above this package.
    """
    with suppress(UsageError):
        other: PublicNumbers = import_module("ellipsum.api").replan(plan, **changes)
        return other
    return None


def shapes_of(plan: PublicNumbers, columns: Sequence[str] | None = None) -> Shapes | None:
    """The noise of two columns (default: the first two), and isotropic Gaussian noise for comparison."""
    if plan.noise_cov is None or plan.d < 2:
        return None
    names = column_names(plan.columns, plan.d)
    places = _two(names, columns)
    others: dict[str, PublicNumbers | None] = {"this plan": plan}
    if plan.stated and isinstance(plan.rows, (Box, Normal)):
        isotropic = plan.rows._with(shape="ball")
        others["isotropic Gaussian noise"] = _attempt(plan, bounds=isotropic, error_weights="equal", noise="gaussian")
    drawn = {}
    for name, other in others.items():
        covariance = None if other is None or other.noise_cov is None else other.noise_cov[np.ix_(places, places)]
        if covariance is not None and np.diag(covariance).min() > 0:
            drawn[name] = covariance
    return Shapes((names[places[0]], names[places[1]]), drawn) if "this plan" in drawn else None


def _two(names: Sequence[str], columns: Sequence[str] | None) -> list[int]:
    if columns is None:
        return [0, 1]
    if len(columns) != 2 or columns[0] == columns[1]:
        raise UsageError("columns must name two different columns for the picture of the noise.")
    for name in columns:
        if name not in names:
            raise UsageError(f"The plan has no column {named(name)}.")
    return [list(names).index(name) for name in columns]


# Drawing ------------------------------------------------------------------------------------------------


def plan_plot(
    plan: PublicNumbers, path: str | Path | None = None, columns: Sequence[str] | None = None, across: int = 3
) -> Any:
    """The figure of a plan's forecasts, written to `path` if it is given. across: panels side by side."""
    if path is not None:
        check_format(path)
    picture = _draw_parts(plan, _parts(plan, columns), across)
    if path is not None:
        save(picture, path)
    return picture


Panel = Callable[[Any], None]
"""A function that draws a panel on axes."""


def _parts(plan: PublicNumbers, columns: Sequence[str] | None) -> list[Panel]:
    curves, shapes = curves_of(plan), shapes_of(plan, columns)
    panels: list[Panel] = []
    if curves is not None:
        panels.append(partial(_draw_curves, curves=curves))
    if shapes is not None:
        panels.append(partial(_draw_shapes, shapes=shapes))
    return panels


def _draw_parts(plan: PublicNumbers, parts: Sequence[Panel], across: int) -> Any:
    notes = [describe_guarantee(plan.privacy, plan.stated)]
    more = " and the expected number of groups" if plan.grouping is not None else ""
    notes += [] if parts else [f"The expected error is not known: pass n={more}."]
    with styled():
        picture, panels = _frame(plan.document().title, notes, len(parts), across)
        for axis, draw in zip(panels, parts, strict=True):
            draw(axis)
    return picture


def plan_svg(plan: PublicNumbers, prefix: str, columns: Sequence[str] | None = None) -> str | None:
    """The figure as an SVG element for a page of HTML; None if nothing can be drawn."""
    parts = _parts(plan, columns)
    return svg(_draw_parts(plan, parts, across=2), prefix) if parts else None


def error_picture(plan: PublicNumbers) -> bytes | None:
    """The panel of error against budget, as an SVG file."""
    curves = curves_of(plan)
    if curves is None:
        return None
    with styled():
        picture = bare_figure(4.6, 3.75)
        _draw_curves(picture.add_axes((0.19, 0.33, 0.77, 0.58)), curves)
    return content(picture, "svg")


def _frame(title: str, notes: Sequence[str], panels: int, across: int) -> tuple[Any, list[Any]]:
    """A figure with texts at the top and panels side by side below."""
    width = max(min(panels, across) * _PANEL + 0.6, 6.5)
    picture, texts = titled_figure(width, title, notes, 0.35 + _HIGH * -(-panels // across))
    top, height = texts + 0.35, float(picture.get_size_inches()[1])
    axes = []
    for place in range(panels):
        left, bottom = 0.85 + place % across * _PANEL, height - top - (place // across + 1) * _HIGH + 1.15
        axes.append(picture.add_axes((left / width, bottom / height, _WIDTH / width, _HEIGHT / height)))
    return picture, axes


def _draw_curves(axis: Any, curves: ErrorCurves) -> None:
    for place, name in enumerate(name for name in NAMES if name in curves.lines):
        axis.plot(*curves.lines[name], **stroke(place), label=NAMES[name])
    axis.plot(*curves.point, linestyle="", marker="*", markersize=13, color=BLACK, label="this plan", zorder=5)
    ends = np.concatenate([part for line in curves.lines.values() for part in line[1:]] + [[curves.point[1]]])
    logarithmic(axis, "x", curves.point[0] / _WIDE / 1.2, curves.point[0] * _WIDE * 1.2)
    logarithmic(axis, "y", float(ends.min()) / 1.3, float(ends.max()) * 1.3)
    axis.grid(True)
    axis.set_title("Expected error and budget")
    axis.set_xlabel(curves.budget)
    axis.set_ylabel(curves.error)
    _legend(axis)


def _draw_shapes(axis: Any, shapes: Shapes) -> None:
    turn = np.linspace(0, 2 * np.pi, 181)
    circle = np.stack([np.cos(turn), np.sin(turn)])
    ends = np.zeros(2)
    for place, (name, covariance) in enumerate(shapes.covariances.items()):
        largest = float(np.diag(covariance).max())  # Squares of eigenvalues may exceed the range of doubles.
        values, vectors = np.linalg.eigh(covariance / largest)
        outline = _STDS * math.sqrt(largest) * (vectors * np.sqrt(np.maximum(values, 0.0))) @ circle
        axis.plot(*outline, **{**stroke(place), "marker": ""}, label=name)
        ends = np.maximum(ends, np.abs(outline).max(axis=1))
    axis.plot(0, 0, marker="+", markersize=9, color=BLACK, linestyle="")
    across, up = _draw_frame(*ends.tolist())
    axis.set_xlim(-across, across)
    axis.set_ylim(-up, up)
    axis.set_xticks(*ticks(-across, across, _WIDTH, 5))
    axis.set_yticks(*ticks(-up, up, _WIDTH, 5))
    axis.grid(True)
    axis.set_title("Noise of two columns, two stds")
    axis.set_xlabel(f"error of {label(shapes.names[0])}")
    axis.set_ylabel(f"error of {label(shapes.names[1])}")
    _legend(axis)


def _draw_frame(across: float, up: float) -> tuple[float, float]:
    """Half-widths of the axes that show these ends; a circle is drawn as a circle if the ends are similar."""
    if 0.25 < across / up < 4:
        up = max(up, across * _HEIGHT / _WIDTH)
        across = up * _WIDTH / _HEIGHT
    return 1.15 * across, 1.15 * up


def _legend(axis: Any) -> None:
    """Put the legend below the panel."""
    axis.legend(loc="upper left", bbox_to_anchor=(-0.02, -0.19), ncols=2, columnspacing=1.0, handlelength=2.6)
