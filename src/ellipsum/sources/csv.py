"""CSV files, plain or gzipped. Every line below the header is one row, whatever it contains."""

from __future__ import annotations

import csv
import gzip
import unicodedata
from collections.abc import Collection, Generator, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import DataError, UsageError
from ..kernels.blocks import Block
from ..numerics.wide_integers import Ints
from ..util.threads import map_ahead
from .csv_rows import ENDED, IMPROPER, START, byte_classes, copy_column, copy_wanted, follow, settle
from .group_labels import canonicalize_labels, join_cells
from .identities import shorten_identities
from .local import Piece, Table
from .protocol import Progress, Watch, attempt
from .selection import EVERYTHING, Selection, as_names, pick

_CHUNK_BYTES = 1 << 20  # small enough for the cache of one core
_LINE_FEED = 10
_LONGEST_LINE = 16 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NUMBER = r"^-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"  # a leading plus and blanks were removed


class _Lines(NamedTuple):
    """Some whole rows. text: every line end in it ends a row. exact: the text of the file."""

    text: bytearray
    exact: bytearray


class CsvTable(Table):
    """The numbers of some columns of a CSV file.

    The first line names the columns and is public. A first line with numbers is refused, because a file without a
    header would publish its first row [T3]. It is accepted if the caller named the columns or passed `header=True`.
    Every further line is a row, even a blank one. Quoted cells may span lines. Cells that are not decimal numbers are
    missing, and so are all cells of a line with too few or too many cells [T3]. The values do not depend on the cuts
    between chunks.
    """

    ordered = True

    def __init__(
        self,
        path: Path,
        selection: Selection = EVERYTHING,
        *,
        separator: str = ",",
        chunk_bytes: int = _CHUNK_BYTES,
        longest_line: int = _LONGEST_LINE,
    ) -> None:
        self._path = path
        self._watch = Watch(path)
        self._classes = byte_classes(separator)
        self._chunk_bytes = chunk_bytes
        self._longest_line = longest_line
        self._unreadable = f"{path} could not be read as a CSV file (damaged, cut short or not allowed)."
        line, self._body_start = attempt(self._unreadable, self._first_line)
        requested = as_names(selection.named().columns)
        typed = [] if requested is None else [str(name) for name in (*requested, *selection.beside)]
        self.available = attempt(self._unreadable, column_names, path, line, separator, typed, selection.header is True)
        chosen = pick(self.available, selection, str(path))
        if chosen.size is not None:
            raise UsageError(f"columns declares lists, but {path} is a CSV file: its cells are numbers.")
        places, self._key_place, self._by_places = chosen.places, chosen.key, chosen.by
        self.key, self.by = None if chosen.key is None else "text", ("text",) * len(chosen.by)
        self.columns = self.chosen = tuple(self.available[i] for i in places)
        self.width = len(places)
        self.nullable = (True,) * self.width
        self._wanted = np.zeros(len(self.available), np.bool_)
        self._wanted[list(places)] = True
        # The parser returns columns in the order of the file; `_order` puts them into the caller's.
        order = np.argsort(np.argsort(places))
        self._order = None if np.array_equal(order, np.arange(self.width)) else order

    def _open(self) -> tuple[BinaryIO, BinaryIO]:
        """Open the stream of text and the file beneath it."""
        raw = open(self._path, "rb")  # noqa: SIM115
        if self._path.suffix.lower() != ".gz":
            return raw, raw
        return gzip.GzipFile(fileobj=raw), raw  # type: ignore[return-value]

    def _first_line(self) -> tuple[bytes, int]:
        """Read the header without byte-order mark, and the number of bytes before the first row."""
        stream, raw = self._open()
        with raw, stream:
            line = stream.readline(self._longest_line + len(_BYTE_ORDER_MARK))
        if not line:
            raise DataError(f"{self._path} is empty: it has no header line.")
        if len(line) > self._longest_line:
            raise DataError(f"{self._path} has no header line in its first {self._longest_line} bytes.")
        return line.removeprefix(_BYTE_ORDER_MARK), len(line)

    def _chunks(self, progress: Progress | None = None) -> Generator[_Lines]:
        """Read the file below the header, cut between rows. A row beyond the limit loses its end [T3]."""
        self._watch.check()
        stream, raw = attempt(self._unreadable, self._open)
        with raw, stream:
            size = max(1, attempt(self._unreadable, self._path.stat).st_size)
            attempt(self._unreadable, stream.seek, self._body_start)
            pending, reached = b"", 0.0
            while True:
                text = bytearray(len(pending) + self._chunk_bytes)
                text[: len(pending)] = pending
                got = attempt(self._unreadable, _fill, stream, text, len(pending))
                del text[len(pending) + got :]
                if not text:
                    break
                if got == 0 and not text.endswith(b"\n"):  # the last line may lack its end
                    text += b"\n"
                cut, hidden = self._settled(text, got == 0)
                pending = bytes(memoryview(text)[cut:])
                if cut:
                    del text[cut:]
                    yield _hide(text, hidden)
                elif len(pending) > self._longest_line:
                    yield attempt(self._unreadable, self._long_row, stream, pending)
                    pending = b""
                if progress is not None:
                    reached = max(reached, min(1.0, raw.tell() / size))
                    progress(reached)

    def _settled(self, text: bytearray, complete: bool) -> tuple[int, Ints]:
        """Find the number of bytes that are whole rows, and the line ends in them that are within quotes."""
        if b'"' not in text:
            return text.rfind(b"\n") + 1, np.empty(0, np.int64)
        view = np.frombuffer(text, np.uint8)
        inner = np.empty(_count_lines(text), np.int64)
        cut, hidden = settle(view, self._classes, complete, inner)
        return int(cut), inner[:hidden]

    def _long_row(self, stream: BinaryIO, text: bytes) -> _Lines:
        """Keep the beginning of a row that exceeds the limit, and place the stream behind that row."""
        begin = stream.tell() - len(text)
        end = self._row_end(stream, text)
        stream.seek(begin + end)
        beginning = text[: min(end - 1, self._longest_line)]
        return _Lines(bytearray(beginning.replace(b"\n", b"\0") + b"\n"), bytearray(beginning + b"\n"))

    def _row_end(self, stream: BinaryIO, text: bytes) -> int:
        """Count the bytes of the row that begins the text, or of its first line if it is not quoted properly [T3]."""
        state = START
        passed = first = used = 0
        for piece in chain([text], iter(lambda: stream.read(self._chunk_bytes), b""), [b"\n"]):
            passed += used
            text_bytes = np.frombuffer(piece, np.uint8)
            used, state, crossed = map(int, follow(text_bytes, self._classes, np.uint64(0), np.uint64(state)))
            first = first or (passed + crossed if crossed else 0)
            if state == ENDED:
                return passed + used
            if state == IMPROPER:
                break
        if first:
            return first
        passed, rest = passed + used, piece[used:]
        while b"\n" not in rest:
            passed += len(rest)
            rest = stream.read(self._chunk_bytes) or b"\n"
        return passed + rest.index(b"\n") + 1

    def _block(self, text: bytearray) -> Block:
        if not self.width:
            return np.empty((_count_lines(text), 0))
        cells = _count_lines(text) * self.width
        letters, ends = np.empty(len(text), np.uint8), np.zeros(cells + 1, np.int32)
        copy_wanted(np.frombuffer(text, np.uint8), self._classes, self._wanted, self._longest_line, letters, ends)
        buffers = [_nonempty(ends), pa.py_buffer(ends), pa.py_buffer(letters)]
        numbers = cast_numbers(pa.Array.from_buffers(pa.string(), cells, buffers))
        block: NDArray[np.float64] = numbers.to_numpy(zero_copy_only=False).reshape(-1, self.width)
        return block if self._order is None else block[:, self._order]

    def _cells(self, lines: _Lines) -> pa.Array | None:
        """The identity and the group of each row as text. A cell that is empty or does not exist is null [T6]."""
        who = None if self._key_place is None else shorten_identities(self._texts(lines, self._key_place))
        return join_cells([canonicalize_labels(self._texts(lines, place), "text") for place in self._by_places], who)

    def _texts(self, lines: _Lines, place: int) -> pa.Array:
        """Read the cells of one column. A cell that is empty or does not exist is null."""
        offsets, letters = np.zeros(_count_lines(lines.text) + 1, np.int64), np.empty(len(lines.text), np.uint8)
        text, exact = np.frombuffer(lines.text, np.uint8), np.frombuffer(lines.exact, np.uint8)
        copy_column(text, exact, self._classes, place, self._longest_line, letters, offsets)
        buffers = [_nonempty(offsets), pa.py_buffer(offsets), pa.py_buffer(letters)]
        return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)

    def _piece(self, lines: _Lines) -> Piece:
        return attempt(self._unreadable, lambda: (self._cells(lines), self._block(lines.text)))

    def _count(self) -> int:
        return sum(_count_lines(lines.text) for lines in self._chunks())

    def _read(self, progress: Progress | None) -> Iterator[Piece]:
        with closing(self._chunks(progress)) as chunks, closing(map_ahead(self._piece, chunks)) as pieces:
            yield from pieces
        self._watch.check()


def _fill(stream: BinaryIO, text: bytearray, start: int) -> int:
    """Read into the text from `start` on. Return the number of bytes read, 0 at the end of the stream."""
    with memoryview(text) as whole, whole[start:] as rest:
        return stream.readinto(rest)  # type: ignore[attr-defined, no-any-return]


def _count_lines(text: bytearray) -> int:
    """The number of line ends."""
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == _LINE_FEED))


def _nonempty(ends: NDArray[np.integer]) -> pa.Buffer:
    """Make the Arrow bitmap of the texts that are not empty."""
    return pa.py_buffer(np.packbits(ends[1:] > ends[:-1], bitorder="little"))


def cast_numbers(texts: pa.Array) -> pa.Array:
    """Convert texts of digits, signs, points and e to the nearest doubles. A text that is no number is null [T3]."""
    try:
        return texts.cast(pa.float64())  # Arrow accepts only numbers among texts of these bytes
    except pa.ArrowInvalid:
        numeric = pc.match_substring_regex(texts, _NUMBER)
        return pc.if_else(numeric, texts, pa.scalar(None, pa.string())).cast(pa.float64())


def _hide(text: bytearray, inner: Ints) -> _Lines:
    """Hide the line ends at some places from the splitter."""
    if inner.size == 0:
        return _Lines(text, text)
    hidden = bytearray(text)
    np.frombuffer(hidden, np.uint8)[inner] = 0
    return _Lines(hidden, text)


Names = tuple[str, ...]
_BLANKS = " \t"
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_LIKELY_SEPARATORS = ";\t|"
_CONTROLS = ("Cc", "Zl", "Zp")
_NAMES_PLEASE = "Its first line must name the columns."


def column_names(path: Path, line: bytes, separator: str, typed: Collection[str], header: bool) -> Names:
    """Read the names in a first line. If it may be a row, the error quotes nothing of it [T3].

    typed: the names of columns that the caller passed. A line that has them all is a header.
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
            f"The first line of {path} holds numbers, so it may be a row. {_NAMES_PLEASE} Add such a line or, if it "
            "does, use header=True or --header."
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
    """Split one line into cells. Return None unless all quotes are closed before a separator or the end."""
    try:
        (cells,) = csv.reader([text.replace("\r", "\0")], delimiter=separator, strict=True)  # \r is no line end here
    except csv.Error:
        return None
    return tuple(cell.strip(_BLANKS) for cell in cells)


def _partly_numeric(names: Names) -> bool:
    """Whether a name is a number, as in a row. Frames without column names use 0, 1, 2, ... as names."""
    counted = len(names) > 1 and names == tuple(map(str, range(len(names))))
    return not counted and any(map(_is_number, names))


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True
