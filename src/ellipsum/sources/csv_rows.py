"""The compiled half of the CSV reader: it finds the ends of rows and cells. [T3]

A small automaton (`_quoting`) decides which line ends are within the quotes of a cell. `settle` finds them and the
caller hides them. Every other line end then ends a row. A cell that begins with a quote ends at the next single quote.
In any other cell a quote is an ordinary character. The separator ends a cell, and \\n or \\r\\n a line. A single \\r is
an ordinary character. This module does not interpret the text of a cell.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..numerics.wide_integers import Ints
from ..util.compile import compiled, inner

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int32]
_Cell = tuple[np.uint64, np.uint64, np.uint64, np.uint64, bool]

# Classes of bytes.
_OTHER, _RETURN, _QUOTE, _SEPARATOR, _LINE_END = range(5)
_STRIDE = 8

# States of a row that is quoted by the rules, as offsets; `_CROSSED` is `_IN_QUOTES` right behind a line end.
_QUOTING_STATES = range(0, 8 * _STRIDE, _STRIDE)
_OPENING, _PLAIN, _IN_QUOTES, _CLOSED, _RETURNED, _CROSSED, IMPROPER, ENDED = _QUOTING_STATES


def _quoting(state: int, byte_class: int) -> int:
    """One step of the automaton: the state after a byte of this class in a properly quoted row."""
    if state in (_IN_QUOTES, _CROSSED):
        return {_QUOTE: _CLOSED, _LINE_END: _CROSSED}.get(byte_class, _IN_QUOTES)
    if byte_class == _LINE_END:
        return ENDED
    if state == _CLOSED:
        return {_QUOTE: _IN_QUOTES, _SEPARATOR: _OPENING, _RETURN: _RETURNED}.get(byte_class, IMPROPER)
    if state == _RETURNED:
        return IMPROPER
    if byte_class == _QUOTE:
        return _IN_QUOTES if state == _OPENING else IMPROPER
    return _OPENING if byte_class == _SEPARATOR else _PLAIN


# Unsigned positions save a test for negative indices at every byte, which doubles the speed. numba turns sums of
# signed and unsigned numbers into floats, so every constant that is added to a position is unsigned too.
_QUOTING = np.array([_quoting(state, c) for state in _QUOTING_STATES for c in range(_STRIDE)], np.uint16)
START = _OPENING
_BEHIND_LINE, _IMPROPER = np.uint64(_CROSSED), np.uint64(IMPROPER)
_0, _1 = np.uint64(0), np.uint64(1)
_LF, _CR, _QUOTE_MARK, _SPACE, _TAB, _PLUS, _MINUS = (np.uint8(ord(c)) for c in '\n\r" \t+-')
_IN_NUMBERS = np.isin(np.arange(256), [ord(c) for c in "0123456789+-.eE"])


def byte_classes(separator: str) -> Bytes:
    """The class of each of the 256 bytes."""
    classes = np.full(256, _OTHER, np.uint8)
    for byte_class, letter in ((_RETURN, "\r"), (_QUOTE, '"'), (_SEPARATOR, separator), (_LINE_END, "\n")):
        classes[ord(letter)] = byte_class
    return classes


@compiled
def follow(text: Bytes, classes: Bytes, start: np.uint64, state: np.uint64) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Continue to read a row. Return the end, the state there, and the end of its first line (0 if not in quotes).

    Reading ends behind the row (`ENDED`), behind the byte that breaks the rules (`IMPROPER`), or with the text.
    """
    size = np.uint64(text.size)
    i, first = np.uint64(start), _0
    now = np.uint64(state)
    while i < size:
        now = np.uint64(_QUOTING[now + classes[text[i]]])
        i += _1
        if now >= _BEHIND_LINE:
            if now >= _IMPROPER:
                break
            if first == _0:
                first = i
    return i, now, first


@compiled
def settle(text: Bytes, classes: Bytes, complete: bool, inner: Ints) -> tuple[np.int64, int]:
    """Return the number of bytes in complete rows, and of line ends within quotes, which fill `inner`. [T3]

    A line that opens quotes but does not become a properly quoted row is a row by itself. complete: whether no text
    follows. The text then ends with a line end, and quotes that are still open are never closed.
    """
    size = np.uint64(text.size)
    count = 0
    i = _0
    while i < size:
        start = i
        i, state, first = follow(text, classes, start, np.uint64(START))
        if state == ENDED:
            if first > _0:
                for j in range(first - _1, i - _1):
                    if text[j] == _LF:
                        inner[count] = j
                        count += 1
            continue
        if first > _0 and (state == IMPROPER or complete):
            i = first
            continue
        if state == IMPROPER:
            while i < size and text[i - _1] != _LF:
                i += _1
            if text[i - _1] == _LF:
                continue
        return np.int64(start), count
    return np.int64(i), count


@inner
def _next_cell(text: Bytes, classes: Bytes, start: np.uint64) -> _Cell:
    """Find the begin and end of a cell's content, its end with and without \\r, and whether its quotes are closed.

    The cell ends at a separator or a line end. Its content is the text within its quotes or, without quotes, all text.
    """
    i = first = last = start
    closed = True
    if text[i] == _QUOTE_MARK:
        i += _1
        first = i
        while text[i] != _LF:
            if text[i] == _QUOTE_MARK:
                if text[i + _1] != _QUOTE_MARK:
                    break
                i += _1
            i += _1
        last = i
        closed = text[i] == _QUOTE_MARK
        i += np.uint64(closed)
    behind = i
    while classes[text[i]] < _SEPARATOR:
        i += _1
    end = i
    if text[i] == _LF and i > behind and text[i - _1] == _CR:
        end -= _1
    if first == start:
        last = end
    return first, last, i, end, closed


@inner
def _copy_number(text: Bytes, first: np.uint64, last: np.uint64, out: Bytes, o: np.uint64) -> np.uint64:
    """Copy a possible number without blanks around it and a leading plus. Return the end of the copy.

    Nothing is copied if there is a byte that no number contains.
    """
    while first < last and (text[first] == _SPACE or text[first] == _TAB):
        first += _1
    while first < last and (text[last - _1] == _SPACE or text[last - _1] == _TAB):
        last -= _1
    if first + _1 < last and text[first] == _PLUS and text[first + _1] != _MINUS and text[first + _1] != _PLUS:
        first += _1
    start = o
    for i in range(first, last):
        if not _IN_NUMBERS[text[i]]:
            return start
        out[o] = text[i]
        o += _1
    return o


@compiled
def copy_wanted(
    text: Bytes, classes: Bytes, wanted: NDArray[np.bool_], longest: int, out: Bytes, ends: Offsets
) -> None:
    """Copy the contents of the wanted cells of every line if they may be numbers. ends[k]: the end of copy k - 1.

    The text must end with a line end, and each \\n ends a line. The copy is empty for a cell with a byte that no number
    contains, or with text behind its quotes, and for all cells of a line that has too few or too many cells, is longer
    than `longest` bytes, or has open quotes.
    """
    size, cells, limit = np.uint64(text.size), np.uint64(wanted.size), np.uint64(longest)
    i = cell = line_start = o = k = line_o = line_k = _0
    whole = True
    while i < size:
        start = i
        first, last, i, end, closed = _next_cell(text, classes, start)
        whole = whole and closed
        if cell < cells and wanted[cell]:
            if end - last == first - start:  # nothing follows its quotes
                o = _copy_number(text, first, last, out, o)
            k += _1
            ends[k] = o
        cell += _1
        i += _1
        if text[i - _1] != _LF:
            continue
        if cell != cells or not whole or i - line_start > limit:
            k = line_k
            for is_wanted in wanted:
                if is_wanted:
                    k += _1
                    ends[k] = line_o
            o = line_o
        cell, line_start, whole = _0, i, True
        line_o, line_k = o, k


@inner
def _copy_unquoted(text: Bytes, first: np.uint64, end: np.uint64, out: Bytes, o: np.uint64) -> np.uint64:
    """Copy a cell without its quotes (rule 2 of [T3]) and the blanks around it. Return the end of the copy."""
    start = o
    inside = first < end and text[first] == _QUOTE_MARK
    i = first + _1 if inside else first
    while i < end:
        c = text[i]
        if inside and c == _QUOTE_MARK:
            if i + _1 < end and text[i + _1] == _QUOTE_MARK:
                i += _1
            else:
                inside = False
                i += _1
                continue
        if o > start or (c != _SPACE and c != _TAB):
            out[o] = c
            o += _1
        i += _1
    while o > start and (out[o - _1] == _SPACE or out[o - _1] == _TAB):
        o -= _1
    return o


@compiled
def copy_column(text: Bytes, exact: Bytes, classes: Bytes, place: int, longest: int, out: Bytes, ends: Ints) -> None:
    """Copy one cell of every line from `exact`, which is the text of the file. ends[k]: the end of copy k - 1.

    Nothing is copied if a line has no such cell, never closes its quotes, or has the cell beyond `longest` bytes.
    """
    size, limit, chosen_cell = np.uint64(text.size), np.uint64(longest), np.uint64(place)
    lines = 0
    i = o = cell = line_start = _0
    while i < size:
        start = i
        _, _, i, end, closed = _next_cell(text, classes, start)
        c = text[i]
        i += _1
        if cell == chosen_cell and closed and i - line_start <= limit:
            o = _copy_unquoted(exact, start, end, out, o)
        cell += _1
        if c == _LF:
            lines += 1
            ends[lines] = np.int64(o)
            cell, line_start = _0, i
