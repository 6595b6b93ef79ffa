"""How pictures become files: the bytes follow from the picture alone."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
        raise UsageError("the name of a picture must end in .svg, .png or .pdf.")
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
