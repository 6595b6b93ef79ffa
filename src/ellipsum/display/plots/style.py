"""The one style of every picture.

Lines differ by stroke and marker as well as by color, so that they can be told apart in black and white; the colors
are those of Okabe and Ito, which color-blind readers tell apart.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from ...errors import UsageError

BLACK, GREY, PALE = "#000000", "#5f5f5f", "#dddddd"
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", BLACK)
_STROKES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))
_HATCHES = ("", "///", "...", "xx", "\\\\\\", "++")
_MARKERS = ("o", "s", "^", "D", "v", "P")
FONT_POINTS = 9.0
_WIDE_SCRIPTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "Hiragino Sans", "PingFang SC",
                 "Microsoft YaHei", "Yu Gothic", "Malgun Gothic")  # fmt: skip
_SETTINGS: dict[Any, Any] = {
    "font.size": FONT_POINTS,
    "axes.titlesize": FONT_POINTS + 1,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": False,
    "legend.frameon": False,
    "legend.fontsize": FONT_POINTS - 0.5,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.0,
    "grid.color": PALE,
    "grid.linewidth": 0.7,
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched, and shown in any script
    "svg.hashsalt": "ellipsum",
    "pdf.fonttype": 42,
}
_MISSING = "Pictures need matplotlib. Install it: pip install 'ellipsum[plots]'"
_lock = RLock()  # matplotlib's settings belong to the whole process


def available() -> bool:
    """Whether matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def check_available() -> None:
    """Raise an error of one line if matplotlib is not installed."""
    if not available():
        raise UsageError(_MISSING)


@contextmanager
def styled() -> Iterator[None]:
    """Use the library's matplotlib settings, and restore the caller's afterwards."""
    check_available()
    import matplotlib

    with _lock, matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Gg]lyph", category=UserWarning)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        matplotlib.rcParams["font.sans-serif"] = _families()
        yield


def _families() -> list[str]:
    """DejaVu Sans comes with matplotlib; other scripts are drawn where the machine has a font for them."""
    from matplotlib.font_manager import fontManager

    there = {font.name for font in fontManager.ttflist}
    return ["DejaVu Sans", *(name for name in _WIDE_SCRIPTS if name in there), "sans-serif"]


def stroke(place: int) -> dict[str, Any]:
    """Color, stroke and marker of a line; no two of a picture share any of them, and none hides another."""
    marker = {"marker": _MARKERS[place % 6], "markersize": 5.0 + place, "markerfacecolor": "none" if place else None}
    return {"color": COLORS[place % 6], "linestyle": _STROKES[place % 6], **marker}


def hatch(place: int) -> dict[str, Any]:
    """Color and hatching of a bar."""
    return {"color": COLORS[place % 6], "hatch": _HATCHES[place % 6], "edgecolor": "white", "linewidth": 0.5}
