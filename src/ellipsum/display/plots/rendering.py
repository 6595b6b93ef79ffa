"""How pictures become files: the bytes follow from the picture alone."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import UsageError
from ...util.atomic_files import write_atomically
from .style import styled

FORMATS = ("svg", "png", "pdf")
_DPI, _MOST_PIXELS = 130, 1 << 15
_TAG = re.compile(r"<[^>]*>")
_REFERENCE = re.compile(r'(\bid="|href="#|url\(#)')
_METADATA = re.compile(r"<metadata>.*?</metadata>\s*", re.DOTALL)
_NAMESPACE = re.compile(r' xmlns(?::\w+)?="[^"]*"')


def check_format(path: str | Path) -> str:
    """The format that the name of a picture asks for."""
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise UsageError("The name of a picture must end in .svg, .png or .pdf.")
    return suffix


def content(picture: Any, form: str) -> bytes:
    """A figure in one of the formats, the same bytes every time."""
    stamps = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
    buffer = io.BytesIO()
    with styled():
        dpi = min(_DPI, _MOST_PIXELS / max(picture.get_size_inches()))
        picture.savefig(buffer, format=form, dpi=dpi, metadata=stamps[form])
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


@cache
def picture_class() -> Any:
    """A matplotlib figure that notebooks show, whether or not they know matplotlib."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_svg_(self) -> str:
            return content(self, "svg").decode()

    return Picture


def bare_figure(width: float, height: float, layout: Any = None) -> Any:
    """A figure of a size in inches, without a window."""
    return picture_class()(figsize=(width, height), layout=layout, facecolor="white")


def figure(width: float = 9.0, height: float = 4.5, columns: int = 1) -> tuple[Any, Any]:
    """A figure with axes side by side."""
    with styled():
        picture = bare_figure(width, height, "constrained")
        axes = picture.subplots(1, columns)
        for axis in np.atleast_1d(axes):
            axis.grid(axis="y")
        return picture, axes
