"""What plans forecast: error against the budget, the noise of two columns, the radius of clipping."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..display.plots.canvas import bare_figure
from ..display.plots.labels import label, ticks, wrapped
from ..display.plots.rendering import check_format, save, svg
from ..display.plots.scales import logarithmic
from ..display.plots.style import BLACK, FONT_POINTS, GREY, stroke, styled
from ..display.wording import describe_guarantee
from ..errors import Floats, UsageError, named
from ..privacy.budget import Budget

LAWS = {
    "gaussian": "Gaussian noise",
    "ball": "spherical noise",
    "box": "pure noise in blocks",
    "": "learned rows",
}
_WIDE = 10.0  # budgets are shown from a tenth to ten times the plan's
_POINTS, _COSTLY_POINTS, _FEWEST_POINTS = 9, 5, 3
_MANY = 200  # columns
_RADII = np.geomspace(0.4, 2.5, 25)
_STDS = 2.0
_PANEL, _HIGH = 4.4, 3.9  # inches of a panel with its words
_WIDTH, _HEIGHT = 3.35, 2.6  # inches of the panel itself


@dataclass(frozen=True)
class ErrorCurves:
    """Errors against a budget, one line for each law; point: the plan's own."""

    budget: str
    error: str
    lines: dict[str, tuple[Floats, Floats]]
    point: tuple[float, float]


@dataclass(frozen=True)
class Shapes:
    """The noise of two columns, as covariances by name."""

    names: tuple[str, str]
    covariances: dict[str, Floats]


@dataclass(frozen=True)
class Radii:
    """Errors against the radius of clipping, in its own units."""

    radii: Floats
    noise: Floats
    clipping: Floats
    point: tuple[float, float]


def error_of(plan: Any) -> tuple[float | None, str]:
    """The forecast error of a plan in the units that it weighs errors in, and what these are."""
    if plan.rows.kind == "unknown":
        return plan.relative_error, "error / spread of the rows"
    squared = plan.expected_squared_error
    if squared is None:
        return None, ""
    size = plan.size
    if plan.request.error_weights != "relative" or (plan.statistic == "sum" and size is None):
        return math.sqrt(squared), "error, all columns together"
    spread = np.asarray(plan.rows.spread(), float)
    live = spread > 0
    shares = plan.column_errors()[live] / spread[live] / (size if plan.statistic == "sum" else 1)
    what = "width" if plan.rows.kind == "box" else "spread"
    words = f"rms error / (n × {what})" if plan.statistic == "sum" else f"rms error / {what}"
    return float(np.sqrt(np.mean(shares**2))), words


# What is drawn ------------------------------------------------------------------------------------------


def curves_of(plan: Any) -> ErrorCurves | None:
    """Errors at budgets around a plan's own, planned anew for each; None where nothing can be forecast."""
    error, words = error_of(plan)
    name = next((name for name in ("epsilon", "mu", "rho") if name in plan.stated), None)
    if name is None or not error:
        return None
    lines: dict[str, list[tuple[float, float]]] = {}
    for share in np.geomspace(1 / _WIDE, _WIDE, _points(plan)).tolist():
        spend = plan.stated[name] * share
        for law, value in _errors_at(plan, {**plan.stated, name: spend}).items():
            lines.setdefault(law, []).append((spend, value))
    parts = {law: (np.array(points)[:, 0], np.array(points)[:, 1]) for law, points in lines.items()}
    return ErrorCurves(name, words, parts, (plan.stated[name], error))


def _points(plan: Any) -> int:
    if plan.rows.kind not in ("normal", "learned"):
        return _POINTS
    return _COSTLY_POINTS if plan.d <= _MANY else _FEWEST_POINTS


def _errors_at(plan: Any, stated: dict[str, float]) -> dict[str, float]:
    """Errors under each law that serves a budget."""
    errors: dict[str, float] = {}
    if plan.rows.kind == "unknown":
        made = _attempt(lambda: _replan(plan, budget=Budget(**stated)))
        return {} if made is None or not made.relative_error else {"": made.relative_error}
    for noise in ("gaussian", "norm"):
        made = _attempt(lambda noise=noise: _replan(plan, budget=Budget(**stated), noise=noise))  # type: ignore[misc]
        error = None if made is None else error_of(made)[0]
        if made is None or not error:
            continue
        own = made.considered.get(made.mechanism, 1.0)
        errors |= {law: error * other / own for law, other in made.considered.items()} or {made.mechanism: error}
    return {law: error for law, error in errors.items() if 0 < error < math.inf}


def _replan(plan: Any, **changes: Any) -> Any:
    """`ellipsum.replan`, by its name: it knows plans of every kind, so it stands above this package."""
    return import_module("ellipsum.api").replan(plan, **changes)


def _attempt(make: Callable[[], Any]) -> Any:
    """A plan, or None where its words do not go together."""
    with suppress(UsageError):
        return make()
    return None


def shapes_of(plan: Any, columns: Sequence[str] | None = None) -> Shapes | None:
    """The noise of two columns, the first unless two are named, beside equal noise in every column."""
    if plan.rows.kind == "unknown" or plan.d < 2:
        return None
    names = plan.columns or tuple(f"x{j + 1}" for j in range(plan.d))
    places = _two(names, columns)
    found = {"this plan": _covariance(plan.one, places)}
    if plan.stated and plan.rows.kind in ("box", "normal"):
        changes = {"bounds": plan.rows._with(shape="ball"), "error_weights": "equal", "noise": "gaussian"}
        ball = _attempt(lambda: _replan(plan, **changes))
        found["equal Gaussian noise"] = None if ball is None else _covariance(ball.one, places)
    drawn = {name: part for name, part in found.items() if part is not None and np.diag(part).min() > 0}
    return Shapes((names[places[0]], names[places[1]]), drawn) if "this plan" in drawn else None


def _two(names: Sequence[str], columns: Sequence[str] | None) -> list[int]:
    if columns is None:
        return [0, 1]
    if len(columns) != 2 or columns[0] == columns[1]:
        raise UsageError("columns must name two columns, whose noise is drawn.")
    for name in columns:
        if name not in names:
            raise UsageError(f"there is no column {named(name)} to show.")
    return [list(names).index(name) for name in columns]


def _covariance(plan: Any, places: list[int]) -> Floats | None:
    noise = plan.noise()
    if noise is None:
        return None
    block: Floats = noise.covariance[np.ix_(places, places)]
    return block


def radii_of(plan: Any) -> Radii | None:
    """What other radii of the same shape would cost; None where rows are not clipped by a radius of choice."""
    if plan.rows.kind != "normal" or plan.one.clip_radius is None or not plan.expected_squared_error:
        return None
    from ..regions.normal_shape import forecast_of

    one = plan.one
    noise = one.noise()
    times = 1.0 if plan.statistic == "sum" else 1.0 / one.n**2
    kept, clipping, wide = [], [], []
    for share in _RADII.tolist():
        found = forecast_of(one.rows, one.ellipsoid.scale / share, one.n, one.riders.pull)
        if found is not None:
            kept.append(one.clip_radius * share)
            clipping.append(found.clipping_error * times)
            wide.append(noise.total * share**2 + one.noise_error - noise.total)
    return Radii(
        np.array(kept), np.sqrt(wide), np.sqrt(clipping), (one.clip_radius, math.sqrt(one.expected_squared_error))
    )


# How it is drawn ----------------------------------------------------------------------------------------


def plan_plot(plan: Any, path: str | Path | None = None, columns: Sequence[str] | None = None, across: int = 3) -> Any:
    """A figure of all that a plan forecasts, written to a file where one is named; across: panels side by side."""
    if path is not None:
        check_format(path)
    picture = _drawn(plan, _parts(plan, columns), across)
    if path is not None:
        save(picture, path)
    return picture


def _parts(plan: Any, columns: Sequence[str] | None) -> list[tuple[Callable[[Any, Any], None], Any]]:
    """What can be drawn of a plan, each with how it is."""
    parts: list[tuple[Callable[[Any, Any], None], Any]] = [
        (_draw_curves, curves_of(plan)),
        (_draw_shapes, shapes_of(plan, columns)),
        (_draw_radii, radii_of(plan)),
    ]
    return [(draw, part) for draw, part in parts if part is not None]


def _drawn(plan: Any, drawn: Sequence[tuple[Callable[[Any, Any], None], Any]], across: int) -> Any:
    notes = [describe_guarantee(plan.privacy, plan.stated)]
    more = " and groups=" if hasattr(plan, "grouping") else ""
    notes += [] if drawn else [f"nothing can be forecast: state n={more} as well"]
    title = plan.document().title
    with styled():
        picture, panels = _frame(title, notes, len(drawn), across)
        for axis, (draw, part) in zip(panels, drawn, strict=True):
            draw(axis, part)
    return picture


def plan_svg(plan: Any, prefix: str, columns: Sequence[str] | None = None) -> str | None:
    """The figure as an SVG element, to put into a page of HTML; None where nothing can be forecast."""
    parts = _parts(plan, columns)
    return svg(_drawn(plan, parts, across=2), prefix) if parts else None


def _frame(title: str, notes: Sequence[str], panels: int, across: int) -> tuple[Any, list[Any]]:
    """A figure with its words on top, and panels side by side below."""
    width = max(min(panels, across) * _PANEL + 0.6, 6.5)
    heads = wrapped([title], width - 0.5, FONT_POINTS + 2)
    lines = wrapped(notes, width - 0.5)
    top = 0.25 + 0.23 * len(heads) + 0.18 * len(lines) + 0.35
    height = top + _HIGH * -(-panels // across)
    picture = bare_figure(width, height)
    for place, line in enumerate((*heads, *lines)):
        head = place < len(heads)
        down = 0.25 + 0.23 * min(place, len(heads)) + 0.18 * max(0, place - len(heads))
        style = {"fontsize": FONT_POINTS + 2, "weight": "bold"} if head else {"color": GREY}
        picture.text(0.25 / width, 1 - down / height, line, va="top", **style)
    axes = []
    for place in range(panels):
        left, bottom = 0.85 + place % across * _PANEL, height - top - (place // across + 1) * _HIGH + 1.15
        axes.append(picture.add_axes((left / width, bottom / height, _WIDTH / width, _HEIGHT / height)))
    return picture, axes


def _draw_curves(axis: Any, curves: ErrorCurves) -> None:
    for place, law in enumerate(law for law in LAWS if law in curves.lines):
        axis.plot(*curves.lines[law], **stroke(place), label=LAWS[law])
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
        largest = float(np.diag(covariance).max())  # squares of eigenvalues may leave the range of doubles
        values, vectors = np.linalg.eigh(covariance / largest)
        outline = _STDS * math.sqrt(largest) * (vectors * np.sqrt(np.maximum(values, 0.0))) @ circle
        axis.plot(*outline, **{**stroke(place), "marker": ""}, label=name)
        ends = np.maximum(ends, np.abs(outline).max(axis=1))
    axis.plot(0, 0, marker="+", markersize=9, color=BLACK, linestyle="")
    across, up = _framed(*ends.tolist())
    axis.set_xlim(-across, across)
    axis.set_ylim(-up, up)
    axis.set_xticks(*ticks(-across, across, _WIDTH, 5))
    axis.set_yticks(*ticks(-up, up, _WIDTH, 5))
    axis.grid(True)
    axis.set_title("Noise of two columns, two stds")
    axis.set_xlabel(f"error of {label(shapes.names[0])}")
    axis.set_ylabel(f"error of {label(shapes.names[1])}")
    _legend(axis)


def _framed(across: float, up: float) -> tuple[float, float]:
    """Half of the sides that show so much, a circle as a circle where the two are near enough in size."""
    if 0.25 < across / up < 4:
        up = max(up, across * _HEIGHT / _WIDTH)
        across = up * _WIDTH / _HEIGHT
    return 1.15 * across, 1.15 * up


def _draw_radii(axis: Any, radii: Radii) -> None:
    total = np.hypot(radii.noise, radii.clipping)
    lines = {"noise and clipping": total, "noise": radii.noise, "clipping": radii.clipping}
    for place, (name, values) in enumerate(lines.items()):
        live = values > 0
        axis.plot(radii.radii[live], values[live], **{**stroke(place), "marker": ""}, label=name)
    axis.plot(*radii.point, linestyle="", marker="*", markersize=13, color=BLACK, label="this plan", zorder=5)
    least = float(min(total.min(), radii.point[1])) / 30
    logarithmic(axis, "x", float(radii.radii.min()), float(radii.radii.max()))
    logarithmic(axis, "y", least, float(total.max()) * 1.3)
    axis.grid(True)
    axis.set_title("Radius of clipping")
    axis.set_xlabel("clip radius (scaled space)")
    axis.set_ylabel("error, all columns together, plain units")
    _legend(axis)


def _legend(axis: Any) -> None:
    """Below the panel, where it hides nothing."""
    axis.legend(loc="upper left", bbox_to_anchor=(-0.02, -0.19), ncols=2, columnspacing=1.0, handlelength=2.6)
