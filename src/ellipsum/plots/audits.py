"""Audited points below the curve that is claimed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .labels import plain
from .scales import logarithmic
from .style import check_format, figure, save, stroke, styled

_POINTS = np.geomspace(1e-5, 0.3, 25)


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
    found = [lower(delta) for delta in _POINTS.tolist()]
    if claimed is not None:
        epsilons = np.linspace(0, max(1.5 * max(found), 1.0), 200)
        deltas = [claimed(epsilon) for epsilon in epsilons.tolist()]
        axis.plot(deltas, epsilons, **{**stroke(0), "marker": ""}, label="claimed: at most")
    axis.plot(_POINTS, found, **{**stroke(1), "linestyle": ""}, label=plain(label))
    logarithmic(axis, "x", _POINTS[0] / 2, 1.0)
    axis.set_xlabel("delta")
    axis.set_ylabel("epsilon")
    axis.legend()
