"""Audited points below the curve that is claimed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...display.plots.drawing import check_format, figure, logarithmic, plain, save, stroke, styled, ticks

_POINTS = np.geomspace(1e-5, 0.3, 25)
_FARTHEST = 8.0  # times as far up as points lie


def audit_plot(
    lower: Callable[[float], float],
    label: str,
    claimed: Callable[[float], float] | None,
    title: str,
    path: str | Path | None,
) -> Any:
    """Deltas across, epsilons up: what was audited at each delta, and the claimed curve, delta of epsilon."""
    if path is not None:
        check_format(path)
    picture, axis = figure(7.0, 4.5)
    with styled():
        _draw(axis, lower, label, claimed)
        axis.set_title(plain(title))
    if path is not None:
        save(picture, path)
    return picture


def _draw(axis: Any, lower: Callable[[float], float], label: str, claimed: Callable[[float], float] | None) -> None:
    lowest = [lower(delta) for delta in _POINTS.tolist()]
    if claimed is not None:
        epsilons = np.linspace(0, _reach(claimed, max(1.5 * max(lowest), 1.0)), 200)
        deltas = [claimed(epsilon) for epsilon in epsilons.tolist()]
        axis.plot(deltas, epsilons, **{**stroke(0), "marker": ""}, label="claimed: at most")
    axis.plot(_POINTS, np.array(lowest), **{**stroke(1), "linestyle": ""}, label=plain(label))
    logarithmic(axis, "x", _POINTS[0] / 2, 1.0)
    top = 1.05 * max(float(line.get_ydata().max()) for line in axis.lines)
    axis.set_ylim(-0.02 * top, top)
    axis.set_yticks(*ticks(0.0, top, 3.5))
    axis.set_xlabel("delta")
    axis.set_ylabel("epsilon")
    axis.legend()


def _reach(claimed: Callable[[float], float], least: float) -> float:
    """How far up a claimed curve is drawn: until it leaves the picture at its left side."""
    most = least
    while most < _FARTHEST * least and claimed(most) > _POINTS[0] / 2:
        most *= 1.25
    return most
