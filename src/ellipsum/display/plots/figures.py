"""A figure that notebooks show, whether or not they know matplotlib."""

from __future__ import annotations

from matplotlib.figure import Figure

from .rendering import content


class Picture(Figure):
    """A matplotlib figure in the house's style, known to no window system."""

    def _repr_svg_(self) -> str:
        return content(self, "svg").decode()
