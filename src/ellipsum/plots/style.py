"""The one style of every picture, and how pictures become files.

Lines differ by stroke and marker as well as by colour, so that they can be told apart in black and white; the colours
are those of Okabe and Ito, which colour-blind readers tell apart. The bytes of a file follow from the picture alone.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from ..errors import UsageError
from ..files import write_atomically

FORMATS = ("svg", "png", "pdf")
BLACK, GREY, PALE = "#000000", "#5f5f5f", "#dddddd"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", BLACK)
_STROKES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))
_HATCHES = ("", "///", "...", "xx", "\\\\\\", "++")
_MARKERS = ("o", "s", "^", "D", "v", "P")
FONT_POINTS = 9.0
_DPI = 130
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
_TAG = re.compile(r"<[^>]*>")
_REFERENCE = re.compile(r'(\bid="|href="#|url\(#)')
_METADATA = re.compile(r"<metadata>.*?</metadata>\s*", re.DOTALL)
_NAMESPACE = re.compile(r' xmlns(?::\w+)?="[^"]*"')
_MISSING = "pictures need matplotlib. Install it: pip install 'ellipsum[plots]'"
_lock = RLock()  # matplotlib's settings belong to the whole process


def available() -> bool:
    """Whether matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def check_available() -> None:
    """An error, in one line, where matplotlib is not installed."""
    if not available():
        raise UsageError(_MISSING)


def check_format(path: str | Path) -> str:
    """The format that the name of a picture asks for."""
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise UsageError("the name of a picture must end in .svg, .png or .pdf.")
    return suffix


@contextmanager
def styled() -> Iterator[None]:
    """Settings of this house, whatever the caller's are; theirs come back."""
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
    """Colour, stroke and marker of a line; no two of a picture share any of them, and none hides another."""
    marker = {"marker": _MARKERS[place % 6], "markersize": 5.0 + place, "markerfacecolor": "none" if place else None}
    return {"color": COLOURS[place % 6], "linestyle": _STROKES[place % 6], **marker}


def hatch(place: int) -> dict[str, Any]:
    """Colour and hatching of a bar."""
    return {"color": COLOURS[place % 6], "hatch": _HATCHES[place % 6], "edgecolor": "white", "linewidth": 0.5}


def bare_figure(width: float, height: float, layout: Any = None) -> Any:
    """A figure of so many inches, known to no window system."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout=layout, facecolor="white")


def figure(width: float = 9.0, height: float = 4.5, columns: int = 1) -> tuple[Any, Any]:
    """A figure with axes side by side."""
    with styled():
        picture = bare_figure(width, height, "constrained")
        axes = picture.subplots(1, columns)
        for axis in np.atleast_1d(axes):
            axis.grid(axis="y")
        return picture, axes


def content(picture: Any, form: str) -> bytes:
    """A figure in one of the formats, the same bytes every time."""
    stamps = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
    buffer = io.BytesIO()
    with styled():
        picture.savefig(buffer, format=form, dpi=_DPI, metadata=stamps[form])
    return buffer.getvalue()


def svg(picture: Any, prefix: str = "picture") -> str:
    """A figure as an SVG element to put into a page; prefix: what its names begin with, which a page has once."""
    text = content(picture, "svg").decode()
    element = _METADATA.sub("", text[text.index("<svg") :].strip())
    return _TAG.sub(lambda tag: _NAMESPACE.sub("", _REFERENCE.sub(rf"\g<1>{prefix}-", tag[0])), element)


def save(picture: Any, path: str | Path) -> Path:
    """Write a figure, in the format that the name says."""
    write_atomically(Path(path), content(picture, check_format(path)))
    return Path(path)


def save_pages(pages: Sequence[Any], path: str | Path) -> Path:
    """Write figures as the pages of one PDF file."""
    from matplotlib.backends.backend_pdf import PdfPages

    buffer = io.BytesIO()
    with styled(), PdfPages(buffer, metadata={"CreationDate": None}) as book:
        for page in pages:
            book.savefig(page)
    write_atomically(Path(path), buffer.getvalue())
    return Path(path)
