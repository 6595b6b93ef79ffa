"""The rules of [T3] once more, as regular expressions over whole texts: what the CSV reader is compared with."""

import re

NAN = float("nan")
_PROPER_CELL = r'(?:"(?:[^"]|"")*+"(?=,|\r?\n)|(?!")[^",\n]*+)'
PROPER_ROW = re.compile(rf"{_PROPER_CELL}(?:,{_PROPER_CELL})*+\r?\n")
_CELL = re.compile(r'(?:"(?P<quoted>(?:[^"]|"")*+)"(?P<tail>[^,]*)|(?P<plain>(?!")[^,]*))(?P<end>,|\Z)')
NUMBER = re.compile(r"[ \t]*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[ \t]*", re.ASCII)


def rows_of(text):
    """The text of each row: a properly quoted one over as many lines as it takes, else one line."""
    if text and not text.endswith("\n"):
        text += "\n"
    position, rows = 0, []
    while position < len(text):
        proper = PROPER_ROW.match(text, position)
        end = proper.end() if proper else text.index("\n", position) + 1
        rows.append(text[position:end])
        position = end
    return rows


def cells_of(row):
    """(content, what stands behind its quotes, where it ends) of each cell; None in place of one that stays open."""
    text, position, cells = re.sub(r"\r?\n\Z", "", row), 0, []
    while True:
        match = _CELL.match(text, position)
        if match is None:
            return [*cells, None]
        content = match["plain"] if match["plain"] is not None else match["quoted"].replace('""', '"')
        cells.append((content, match["tail"] or "", match.end() if match["end"] else len(row)))
        if not match["end"]:
            return cells
        position = match.end()


def numbers_of(row, width, longest=10**9):
    """The entries of a row, NaN where they are missing."""
    cells = cells_of(row)
    if None in cells or len(cells) != width or len(row) > longest:
        return [NAN] * width
    return [float(text) if NUMBER.fullmatch(text) and not tail else NAN for text, tail, _ in cells]


def identity_of(row, place, longest=10**9):
    """Whose a row is; None where that cell is empty or not there."""
    cells = cells_of(row)
    if place >= len(cells) or cells[place] is None or cells[place][2] > longest:
        return None
    content, tail, _ = cells[place]
    return (content + tail).strip(" \t") or None
