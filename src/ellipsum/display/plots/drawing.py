"""The one style of every picture, the names and numbers in it, and how it becomes a file.

Lines differ by stroke and marker as well as by color, so that they can be told apart in black and white. The colors
are those of Okabe and Ito, which color-blind readers can distinguish. matplotlib is imported when a picture is drawn.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from textwrap import wrap
from threading import RLock
from typing import Any
from unicodedata import combining, east_asian_width

import numpy as np

from ...errors import UsageError, visible
from ...util.atomic_files import write_atomically

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
    "svg.fonttype": "none",  # Text remains text that can be searched and read aloud.
    "svg.hashsalt": "ellipsum",
    "pdf.fonttype": 42,
}
_MISSING = "Pictures need matplotlib. Install it: pip install 'ellipsum[plots]'"
_lock = RLock()  # matplotlib has one set of settings for the whole process.


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
    """Use the settings of this package for matplotlib, and restore the caller's settings afterwards."""
    check_available()
    import matplotlib

    with _lock, matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Gg]lyph", category=UserWarning)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        matplotlib.rcParams["font.sans-serif"] = _families()
        yield


def _families() -> list[str]:
    """DejaVu Sans, which comes with matplotlib, and installed fonts for other scripts."""
    from matplotlib.font_manager import fontManager

    there = {font.name for font in fontManager.ttflist}
    return ["DejaVu Sans", *(name for name in _WIDE_SCRIPTS if name in there), "sans-serif"]


def stroke(place: int) -> dict[str, Any]:
    """Color, stroke and marker of a line; all of them differ between the lines of a figure."""
    marker = {"marker": _MARKERS[place % 6], "markersize": 5.0 + place, "markerfacecolor": "none" if place else None}
    return {"color": COLORS[place % 6], "linestyle": _STROKES[place % 6], **marker}


def hatch(place: int) -> dict[str, Any]:
    """Color and hatching of a bar."""
    return {"color": COLORS[place % 6], "hatch": _HATCHES[place % 6], "edgecolor": "white", "linewidth": 0.5}


# Names and numbers --------------------------------------------------------------------------------------

_LETTER = 0.64  # Upper bound on the width of a common letter, in units of the font size.
_MOST = 26.0  # Letters of a name.
_EM = FONT_POINTS / 72  # inches


def inches(text: str) -> float:
    """Estimate the width of a text; the estimate is rather too large."""
    return sum(map(_letters, text)) * _LETTER * _EM


def _letters(character: str) -> float:
    if combining(character):
        return 0.0
    return 1.7 if east_asian_width(character) in "WF" else 1.0


def label(name: object, most: float = _MOST) -> str:
    """Shorten a name in its middle, since names of one table tend to differ at their ends.

    Dollar signs are escaped: matplotlib reads text between them as mathematics.
    """
    return plain(cut(visible(str(name)), most))


def plain(text: str) -> str:
    """Escape a text so that matplotlib draws it literally."""
    return text.replace("$", r"\$")


def cut(text: str, most: float) -> str:
    """Shorten a text in its middle to a width of `most` common letters."""
    if sum(map(_letters, text)) <= most:
        return text
    head = _within(text, 0.6 * (most - 1))
    tail = _within(text[::-1], 0.4 * (most - 1))[::-1]
    return f"{head}…{tail}"


def _within(text: str, most: float) -> str:
    width = 0.0
    for place, character in enumerate(text):
        width += _letters(character)
        if width > most:
            return text[:place]
    return text


def wrapped(texts: Sequence[str], width: float, points: float = FONT_POINTS) -> list[str]:
    """Break sentences into lines of at most `width` inches."""
    letters = max(20, int(width / (_LETTER * points / 72)))
    return [plain(line) for text in texts for line in wrap(visible(text), letters, break_long_words=True)]


def ticks(low: float, high: float, width: float, most: int = 6) -> tuple[list[float], list[str]]:
    """Round numbers between two ends, and their texts, which do not overlap on an axis of `width` inches."""
    from matplotlib.ticker import MaxNLocator

    for bins in range(most, 0, -1):
        places = np.asarray(MaxNLocator(nbins=bins, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))
        inside = [place for place in places.tolist() if low <= place <= high]
        texts = [tick(place, places[1] - places[0]) for place in inside]
        if len(inside) < 2 or sum(map(inches, texts)) + 0.12 * len(texts) <= width * len(texts) / (len(texts) + 1):
            return inside, texts
    return inside, texts


def tick(value: float, step: float) -> str:
    """Format a number with the digits that distinguish it from its neighbors."""
    if value == 0 or abs(value) < step * 1e-9:
        return "0"
    if not 1e-4 < step < 1e6 or abs(value) >= 1e7:
        digits = max(0, math.floor(math.log10(abs(value))) - math.floor(math.log10(step) + 1e-9))
        return f"{value:.{min(digits + 1, 15)}g}"
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    text = f"{value:.{places + 1}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


_STEPS = {1: (1, 1.5, 2, 3, 5, 7), 2: (1, 2, 5), 3: (1, 3)}
"""Numbers of a decade that have ticks, by the number of decades; for more decades, powers of ten."""
_MOST_POWERS = 7  # Powers of ten with a tick.


def logarithmic(axis: Any, side: str, low: float, high: float) -> None:
    """Make one side of the axes logarithmic, between two ends."""
    across = side == "x"
    (axis.set_xscale if across else axis.set_yscale)("log")
    (axis.set_xlim if across else axis.set_ylim)(low, high)
    places = log_ticks(low, high)
    put = axis.set_xticks if across else axis.set_yticks
    put(places, [tick(place, place) for place in places])
    put([], minor=True)


def log_ticks(low: float, high: float) -> list[float]:
    """Numbers with one or two digits between two ends."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = _STEPS.get(math.ceil(math.log10(high / low)), (1,))
    every = max(1, math.ceil((last - first) / _MOST_POWERS))
    places = [step * 10.0**power for power in range(first, last + 1, every) for step in steps]
    return [place for place in places if low <= place <= high]


# Files --------------------------------------------------------------------------------------------------

EDGE = 0.25
"""Inches between the texts of a figure and its edge."""
_LINE = 0.18  # Inches from a line of text to the next.
FORMATS = ("svg", "png", "pdf")
_DPI, _MOST_PIXELS = 130, 1 << 15
_TAG = re.compile(r"<[^>]*>")
_REFERENCE = re.compile(r'(\bid="|href="#|url\(#)')
_METADATA = re.compile(r"<metadata>.*?</metadata>\s*", re.DOTALL)
_NAMESPACE = re.compile(r' xmlns(?::\w+)?="[^"]*"')


def check_format(path: str | Path) -> str:
    """The format of a figure, by the suffix of its file name."""
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise UsageError("The name of a picture must end in .svg, .png or .pdf.")
    return suffix


def content(picture: Any, form: str) -> bytes:
    """A figure in one of the formats; the same figure always gives the same bytes."""
    stamps = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
    buffer = io.BytesIO()
    with styled():
        dpi = min(_DPI, _MOST_PIXELS / max(picture.get_size_inches()))
        picture.savefig(buffer, format=form, dpi=dpi, metadata=stamps[form])
    return buffer.getvalue()


def svg(picture: Any, prefix: str = "picture") -> str:
    """A figure as an SVG element for a page. prefix: start of its identifiers, unique in the page."""
    text = content(picture, "svg").decode()
    element = _METADATA.sub("", text[text.index("<svg") :].strip())
    return _TAG.sub(lambda tag: _NAMESPACE.sub("", _REFERENCE.sub(rf"\g<1>{prefix}-", tag[0])), element)


def save(picture: Any, path: str | Path) -> Path:
    """Write a figure in the format of the file name."""
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


@cache
def picture_class() -> Any:
    """The class of matplotlib figures that every notebook can show."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_svg_(self) -> str:
            return content(self, "svg").decode()

    return Picture


def bare_figure(width: float, height: float, layout: Any = None) -> Any:
    """A figure of a size in inches, without a window."""
    return picture_class()(figsize=(width, height), layout=layout, facecolor="white")


def titled_figure(width: float, title: str, notes: Sequence[str], below: float) -> tuple[Any, float]:
    """A figure with its title and notes at the top, and the height of these texts; all sizes are in inches.

    below: the height of the space below the texts.
    """
    heads = wrapped([title], width - 2 * EDGE, FONT_POINTS + 2)
    lines = wrapped(notes, width - 2 * EDGE)
    top = EDGE + (_LINE + 0.05) * len(heads) + _LINE * len(lines)
    height, down = top + below, EDGE
    picture = bare_figure(width, height)
    for place, line in enumerate((*heads, *lines)):
        is_head = place < len(heads)
        style = {"fontsize": FONT_POINTS + 2, "weight": "bold"} if is_head else {"fontsize": FONT_POINTS, "color": GREY}
        picture.text(EDGE / width, 1 - down / height, line, va="top", **style)
        down += _LINE + (0.05 if is_head else 0.0)
    return picture, top


def figure(width: float = 9.0, height: float = 4.5, columns: int = 1) -> tuple[Any, Any]:
    """A figure with axes side by side."""
    with styled():
        picture = bare_figure(width, height, "constrained")
        axes = picture.subplots(1, columns)
        for axis in np.atleast_1d(axes):
            axis.grid(axis="y")
        return picture, axes
