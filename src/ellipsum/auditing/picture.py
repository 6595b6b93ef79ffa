"""A picture of audited points below the curve that is claimed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..plots import COLOURS, figure, save

if TYPE_CHECKING:
    from .bounds import Audit, Claim

_POINTS = np.geomspace(1e-5, 0.3, 25)


def audited_points(audit: Audit, claim: Claim | None, path: Path) -> Path:
    """Deltas across, epsilons up: what was audited, each at the confidence, and the claimed curve."""
    picture, axis = figure()
    found = [audit.epsilon_lower(delta) for delta in _POINTS.tolist()]
    axis.plot(_POINTS, found, "o", markersize=4, color=COLOURS[1], label=f"at least, {audit.confidence:.4g} confidence")
    if claim is not None:
        epsilons = np.linspace(0, max(1.5 * max(found), 1.0), 200)
        deltas = [claim.delta(epsilon) for epsilon in epsilons.tolist()]
        axis.plot(deltas, epsilons, "-", color=COLOURS[0], label="claimed")
    axis.set_xscale("log")
    axis.set_xlim(_POINTS[0] / 2, 1)
    axis.set_xlabel("delta")
    axis.set_ylabel("epsilon")
    axis.set_title(f"Audit of {audit.runs} runs on each data set: mu >= {audit.mu_lower:.4g}")
    axis.legend(frameon=False)
    save(picture, path)
    return path
