"""The first line of a CSV file: public where it is plainly a header, otherwise refused without being quoted. [T3]"""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Collection
from pathlib import Path

from ..errors import DataError, UsageError

Names = tuple[str, ...]
_BLANKS = " \t"
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_LIKELY_SEPARATORS = ";\t|"
_CONTROLS = ("Cc", "Zl", "Zp")
_NAMES_PLEASE = "Its first line must name the columns."


def column_names(path: Path, line: bytes, separator: str, typed: Collection[str], header: bool) -> Names:
    """The names in a first line; an error that quotes nothing of it if it may not be a header [T3].

    typed: names that the caller stated of all columns to be used; a line that holds them all is a header.
    """
    if line.startswith(_WIDE_MARKS):
        raise DataError(f"{path} is UTF-16 text. Save it as UTF-8.")
    text = _decoded(line)
    if not text:
        raise DataError(f"{path} starts with a blank line. {_NAMES_PLEASE}")
    other = [c for c in _LIKELY_SEPARATORS if c in text and separator not in text]
    if other:
        raise UsageError(f"{path} seems to separate its cells by {other[0]!r}. Write it with {separator!r} instead.")
    names = _cells(text, separator)
    if names is None:
        raise UsageError(f"A quote in the first line of {path} is never closed, or more follows it. {_NAMES_PLEASE}")
    if any(unicodedata.category(c) in _CONTROLS for name in names for c in name):
        raise UsageError(
            f"The first line of {path} holds control characters. It must name the columns, and lines must end with "
            "\\n or \\r\\n."
        )
    if not header and _partly_numeric(names) and not (typed and set(typed) <= set(names)):
        raise UsageError(
            f"The first line of {path} holds numbers, so it may be a row. {_NAMES_PLEASE} Add such a line, or, if it "
            "does, say so: header=True, --header."
        )
    return names


def _decoded(line: bytes) -> str:
    text = line.removesuffix(b"\n").removesuffix(b"\r")
    for encoding in ("utf-8", "cp1252"):
        try:
            return text.decode(encoding)
        except UnicodeDecodeError:
            continue
    return text.decode("latin-1")


def _cells(text: str, separator: str) -> Names | None:
    """The cells of one line; None if its quotes are not closed, each before a separator or the end."""
    try:
        (cells,) = csv.reader([text.replace("\r", "\0")], delimiter=separator, strict=True)  # \r is no line end here
    except csv.Error:
        return None
    return tuple(cell.strip(_BLANKS) for cell in cells)


def _partly_numeric(names: Names) -> bool:
    """Whether one of the names is a number, as in a row; 0, 1, 2, ... are what frames call columns without names."""
    counted = len(names) > 1 and names == tuple(map(str, range(len(names))))
    return not counted and any(map(_is_number, names))


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True
