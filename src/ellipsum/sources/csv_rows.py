"""The compiled half of the CSV reader. [T3]

One small automaton (`_quoting`) says which line ends are within the quotes of a cell; `settle` finds those, and the
caller hides them, so that every line end left ends a row. A second one (`_next`) says where cells end and which are
numbers. A cell that opens with a quote runs to the next lone quote; in any other cell a quote is an ordinary character.
The separator ends a cell, and \\n or \\r\\n a line; a lone \\r is an ordinary character. A number is
    [+-] digits [. [digits]] [e [+-] digits]   or   [+-] . digits [e [+-] digits]
with blanks around it, and with quotes around all that or none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..util.compile import compiled
from .decimals import MOST_DIGITS, digits, nearest_double

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int32]

# Classes of bytes.
_DIGIT, _SIGN, _DOT, _EXPONENT, _BLANK, _SEPARATOR, _LINE_END, _RETURN, _QUOTE, _OTHER = range(10)
_STRIDE = 16

# States of a cell that may still be a number, then of one that is none; the same again within quotes.
_NUMBER_STATES = ("lead", "sign", "whole", "dot", "fraction", "e", "e sign", "power", "trail", "bad")
_STATES = (
    "start",
    *_NUMBER_STATES,
    *(f"quoted {name}" for name in _NUMBER_STATES),
    "closed good",
    "closed bad",
    "return good",  # a \\r that \\n should follow
    "return bad",
    "ended good",
    "ended bad",
    "ended open",  # the line ended within quotes
)
_COMPLETE = ("whole", "fraction", "power", "trail")
_NUMBER_STEPS = {
    ("lead", _BLANK): "lead",
    ("lead", _SIGN): "sign",
    ("lead", _DIGIT): "whole",
    ("lead", _DOT): "dot",
    ("sign", _DIGIT): "whole",
    ("sign", _DOT): "dot",
    ("whole", _DIGIT): "whole",
    ("whole", _DOT): "fraction",
    ("whole", _EXPONENT): "e",
    ("whole", _BLANK): "trail",
    ("dot", _DIGIT): "fraction",
    ("fraction", _DIGIT): "fraction",
    ("fraction", _EXPONENT): "e",
    ("fraction", _BLANK): "trail",
    ("e", _SIGN): "e sign",
    ("e", _DIGIT): "power",
    ("e sign", _DIGIT): "power",
    ("power", _DIGIT): "power",
    ("power", _BLANK): "trail",
    ("trail", _BLANK): "trail",
}


def _next(state: str, byte_class: int) -> str:
    """The automaton of cells, one step: the state after a byte of the given class."""
    if state.startswith("quoted "):
        inner = state.removeprefix("quoted ")
        if byte_class == _LINE_END:
            return "ended open"
        if byte_class == _QUOTE:
            return "closed good" if inner in _COMPLETE else "closed bad"
        return "quoted " + _NUMBER_STEPS.get((inner, byte_class), "bad")
    good = state in (*_COMPLETE, "closed good", "return good")
    if byte_class == _LINE_END:
        return "ended good" if good else "ended bad"
    if byte_class == _SEPARATOR:
        return "ended good" if good and state != "return good" else "ended bad"
    if byte_class == _RETURN:
        return "return good" if good and state != "return good" else "return bad"
    if state.startswith("closed "):
        return "quoted bad" if byte_class == _QUOTE else "bad"
    if state == "start":
        return "quoted lead" if byte_class == _QUOTE else _next("lead", byte_class)
    return _NUMBER_STEPS.get((state, byte_class), "bad")


# States of a row that is quoted by the rules, as offsets; `_CROSSED` is `_IN_QUOTES` right behind a line end.
_QUOTING_STATES = range(0, 8 * _STRIDE, _STRIDE)
_OPENING, _PLAIN, _IN_QUOTES, _CLOSED, _RETURNED, _CROSSED, IMPROPER, ENDED = _QUOTING_STATES


def _quoting(state: int, byte_class: int) -> int:
    """The automaton of quotes, one step: what may stand where in a properly quoted row."""
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


def _table() -> NDArray[np.uint16]:
    """_next as a table; a state is stored as the offset of its row."""
    table = np.zeros(_STRIDE * len(_STATES), np.uint16)
    for number, state in enumerate(_STATES):
        for byte_class in range(_OTHER + 1):
            table[_STRIDE * number + byte_class] = _STRIDE * _STATES.index(_next(state, byte_class))
    return table


_STEP = _table()
_QUOTING = np.array([_quoting(state, min(c, _OTHER)) for state in _QUOTING_STATES for c in range(_STRIDE)], np.uint16)
# Unsigned positions spare a test for negative indices at every byte, which doubles the speed; numba turns sums of
# signed and unsigned into floats, so every constant that meets one is unsigned too.
START = _OPENING
_BEHIND_LINE, _IMPROPER = np.uint64(_CROSSED), np.uint64(IMPROPER)
_GOOD, _OPEN = (np.uint64(_STRIDE * _STATES.index(name)) for name in ("ended good", "ended open"))
_0, _1 = np.uint64(0), np.uint64(1)
_LF, _CR, _QUOTE_MARK, _SPACE, _TAB = (np.uint8(ord(c)) for c in '\n\r" \t')
_ZERO, _PLUS, _MINUS, _POINT, _E, _UPPER_E = (np.uint8(ord(c)) for c in "0+-.eE")
_FAR = np.int64(100_000)  # no power of ten as large as this leaves a number finite and above zero
_NINE, _MOST_DIGITS = np.uint8(9), np.uint64(MOST_DIGITS)


def byte_classes(separator: str) -> Bytes:
    """The class of each of the 256 bytes."""
    classes = np.full(256, _OTHER, np.uint8)
    members = {
        _DIGIT: "0123456789",
        _SIGN: "+-",
        _DOT: ".",
        _EXPONENT: "eE",
        _BLANK: " \t",
        _LINE_END: "\n",
        _RETURN: "\r",
    }
    for byte_class, letters in (members | {_QUOTE: '"', _SEPARATOR: separator}).items():
        classes[[ord(c) for c in letters]] = byte_class
    return classes


_COPIED = np.zeros(256, np.uint64)  # a leading plus and blanks are left out
_COPIED[[ord(c) for c in "0123456789-.eE"]] = 1


@compiled
def follow(text: Bytes, classes: Bytes, start: Any, state: Any) -> tuple[Any, Any, Any]:
    """Read a row on: (where reading stopped, the state there, where its first line ended if that is in quotes, else 0).

    Reading stops behind the row's end (`ENDED`), behind the byte that breaks the rules (`IMPROPER`), or with the text.
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
def settle(text: Bytes, classes: Bytes, complete: bool, inner: NDArray[np.int64]) -> tuple[Any, Any]:
    """(bytes of the rows that are complete, how many of their line ends are within quotes; `inner` says where). [T3]

    A line that opens quotes and is not continued to a properly quoted row is a row by itself. complete: the text goes
    on no further (it then ends with a line end), so that quotes which are still open stay so.
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


@compiled
def _unquoted(text: Bytes, first: Any, end: Any, out: Bytes, o: Any) -> Any:
    """Copy a cell without its quotes (rule 1 of [T3]) and the blanks around it; where the copy ends."""
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
def cells_at(
    text: Bytes, exact: Bytes, classes: Bytes, place: int, longest: int, out: Bytes, offsets: NDArray[np.int64]
) -> int:
    """Copy one cell of every line from `exact`, the text with its hidden line ends, to `out`; the number of lines.

    Nothing is copied where a line has no such cell, never closes its quotes, or has it beyond `longest` bytes.
    """
    size, limit, wanted = np.uint64(text.size), np.uint64(longest), np.uint64(place)
    lines = 0
    i = o = _0
    cell = line_start = _0
    while i < size:
        cell_start = i
        state = _0
        c = _LF
        while state < _GOOD:
            c = text[i]
            state = np.uint64(_STEP[state + classes[c]])
            i += _1
        if cell == wanted and state != _OPEN and i - line_start <= limit:
            end = i - _1
            if c == _LF and end > cell_start and text[end - _1] == _CR:
                end -= _1
            o = _unquoted(exact, cell_start, end, out, o)
        cell += _1
        if c == _LF:
            lines += 1
            offsets[lines] = np.int64(o)
            cell, line_start = _0, i
    return lines


@compiled
def _plain_number(text: Bytes, i: Any) -> tuple[Any, Any, Any, Any]:
    """(bytes of a number that starts here without quotes or blanks, w, q, negative): it is +-w 10^q.

    No bytes where there is none, or where its digits do not fit into w. The text ends with a line end.
    """
    start = i
    negative = text[i] == _MINUS
    i += np.uint64(negative | (text[i] == _PLUS))
    first = i
    if text[i] - _ZERO <= _NINE and text[i + _1] - _ZERO > _NINE:
        w = np.uint64(text[i] - _ZERO)
        i += _1
    else:
        w, i = digits(text, _0, i)
    count = i - first
    q = np.int64(0)
    if text[i] == _POINT:
        i += _1
        behind = i
        w, i = digits(text, w, i)
        q = np.int64(behind) - np.int64(i)
        count += i - behind
    if count > _MOST_DIGITS:  # zeros in front do not count
        while text[first] == _ZERO or text[first] == _POINT:
            count -= _1 if text[first] == _ZERO else _0
            first += _1
    if count > _MOST_DIGITS or count == _0:
        return _0, w, q, negative
    if text[i] == _E or text[i] == _UPPER_E:
        i += _1
        down = text[i] == _MINUS
        if down or text[i] == _PLUS:
            i += _1
        behind, power = i, np.int64(0)
        while text[i] - _ZERO <= _NINE:
            power = min(power * 10 + np.int64(text[i] - _ZERO), _FAR)
            i += _1
        if i == behind:
            return _0, w, q, negative
        q += -power if down else power
    return i - start, w, q, negative


@compiled
def parse(
    text: Bytes,
    classes: Bytes,
    wanted: NDArray[np.bool_],
    longest: int,
    values: NDArray[np.float64],
    late: Bytes,
    late_ends: Offsets,
    late_cells: NDArray[np.int64],
) -> tuple[Any, Any]:
    """The wanted numbers of every line, cell after cell; (the number of lines, of late cells). [T3]

    The text must end with a line end, and each \\n ends a line. A cell that is no number becomes NaN; so do all wanted
    cells of a line that has too few cells or too many, is longer than `longest` bytes, or leaves quotes open. Numbers
    not settled here (blanks or quotes around, many digits, close to a tie) are *late*: their texts are copied.
    """
    size, cells, limit = np.uint64(text.size), np.uint64(wanted.size), np.uint64(longest)
    lines = 0
    i = cell = line_start = _0
    o = k = m = _0
    line_o = line_k = line_m = _0
    while i < size:
        take = cell < cells and wanted[cell]
        state = _0
        c = _LF
        done = False
        if take:
            used, w, q, negative = _plain_number(text, i)
            if used > _0:
                c = text[i + used]
                if c == _CR and text[i + used + _1] == _LF:
                    c = _LF
                    used += _1
                if classes[c] == _SEPARATOR or classes[c] == _LINE_END:
                    done, values[k] = nearest_double(w, q, negative)
                    if done:
                        i += used + _1
                        state = _GOOD
        if not done:
            cell_o = o
            while state < _GOOD:
                c = text[i]
                state = np.uint64(_STEP[state + classes[c]])
                late[o] = c
                o += _COPIED[c]
                i += _1
            if take and state == _GOOD:
                late_cells[m] = k
                m += _1
                late_ends[m] = o
            else:
                o = cell_o
                if take:
                    values[k] = np.nan
        if take:
            k += _1
        cell += _1
        if c != _LF:
            continue
        if cell != cells or state == _OPEN or i - line_start > limit:
            o, k, m = line_o, line_k, line_m
            for wish in wanted:
                if wish:
                    values[k] = np.nan
                    k += _1
        lines += 1
        cell, line_start = _0, i
        line_o, line_k, line_m = o, k, m
    return lines, m
