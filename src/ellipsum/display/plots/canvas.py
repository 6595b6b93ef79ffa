"""Empty figures in the house's style."""

from __future__ import annotations

from typing import Any

import numpy as np

from .style import styled


def bare_figure(width: float, height: float, layout: Any = None) -> Any:
    """A figure of so many inches, known to no window system."""
    from .figures import Picture

    return Picture(figsize=(width, height), layout=layout, facecolor="white")


def figure(width: float = 9.0, height: float = 4.5, columns: int = 1) -> tuple[Any, Any]:
    """A figure with axes side by side."""
    with styled():
        picture = bare_figure(width, height, "constrained")
        axes = picture.subplots(1, columns)
        for axis in np.atleast_1d(axes):
            axis.grid(axis="y")
        return picture, axes
