"""A picture of audited points below the curve that is claimed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..plots import COLOURS, figure, save

_POINTS = np.geomspace(1e-5, 0.3, 25)


def audited_points(
    lower: Callable[[float], float], label: str, claimed: Callable[[float], float] | None, title: str, path: Path
) -> Path:
    """Deltas across, epsilons up: what was audited at each delta, and the claimed curve, delta of epsilon."""
    picture, axis = figure()
    found = [lower(delta) for delta in _POINTS.tolist()]
    axis.plot(_POINTS, found, "o", markersize=4, color=COLOURS[1], label=label)
    if claimed is not None:
        epsilons = np.linspace(0, max(1.5 * max(found), 1.0), 200)
        deltas = [claimed(epsilon) for epsilon in epsilons.tolist()]
        axis.plot(deltas, epsilons, "-", color=COLOURS[0], label="claimed")
    axis.set_xscale("log")
    axis.set_xlim(_POINTS[0] / 2, 1)
    axis.set_xlabel("delta")
    axis.set_ylabel("epsilon")
    axis.set_title(title)
    axis.legend(frameon=False)
    save(picture, path)
    return path
