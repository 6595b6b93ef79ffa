"""What a projection is good for: how far off its distances are."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from ..display.plots.canvas import figure
from ..display.plots.labels import ticks
from ..display.plots.rendering import check_format, save
from ..display.plots.style import BLACK, stroke, styled
from .forecast import ProjectionForecast


def projection_plot(forecast: ProjectionForecast, title: str, path: str | Path | None) -> Any:
    """Standard errors of squared distances, as shares of the largest that there can be."""
    if path is not None:
        check_format(path)
    picture, axis = figure(6.5, 4.2)
    largest = forecast.largest_squared_distance
    shares = np.linspace(0, 1, 21)
    errors = [forecast.distance_error(share * largest) / largest for share in shares.tolist()]
    with styled():
        axis.plot(shares, errors, **{**stroke(0), "marker": ""}, label="this projection")
        axis.axhline(1 / math.sqrt(12), color=BLACK, linestyle=":", label="nothing but the bounds")
        top = 1.1 * max(*errors, 0.3)
        axis.set_ylim(0, top)
        axis.set_yticks(*ticks(0.0, top, 3.5))
        axis.set_xticks(*ticks(0.0, 1.0, 4.0))
        axis.set_xlabel("squared distance / the largest possible")
        axis.set_ylabel("standard error / the largest possible")
        axis.set_title(title)
        axis.legend()
    if path is not None:
        save(picture, path)
    return picture
