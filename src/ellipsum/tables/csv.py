"""CSV files, plain or gzipped: every line below the header is one row, whatever it holds."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, UsageError
from .ahead import map_ahead
from .base import Batches, Block, Piece, Watch, as_names, attempt, pick
from .csv_text import START, byte_classes, cells_at, count_line_ends, parse, scan
from .keys import bounded
from .progress import Progress

_CHUNK_BYTES = 1 << 20  # small enough for the cache of one core
_LINE_FEED = 10
_LONGEST_LINE = 16 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_LIKELY_SEPARATORS = ";\t|"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class CsvTable(Batches):
    """The numbers of some columns of a CSV file.

    The first line names the columns and is public; its cells are never numbers alone, unless the caller repeats
    them in `columns` (a file without a header would publish its first row as names).
    Every further line is a row, a blank one too; cells that are no decimal number, and all cells of a line with too
    few or too many, are missing [T3]. The values do not depend on where the file is cut into chunks.
    """

    reopenable = True

    def __init__(
        self,
        path: Path,
        columns: Any = None,
        exclude: Iterable[Any] = (),
        key: Any = None,
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
        self.available, self._body_start = self._header(separator)
        self._check_header(columns, separator)
        chosen = pick(self.available, columns, exclude, key, str(path))
        if chosen.size is not None:
            raise UsageError(f"columns declares lists, and {path} is a CSV file: its cells are numbers.")
        places, self._key_place = chosen.places, chosen.key
        self.key = None if key is None else "text"
        self.columns = self.chosen = tuple(self.available[i] for i in places)
        self.width = len(places)
        self._wanted = np.zeros(len(self.available), np.bool_)
        self._wanted[list(places)] = True
        # The parser delivers file order; `_order` puts the columns into the caller's.
        order = np.argsort(np.argsort(places))
        self._order = None if np.array_equal(order, np.arange(self.width)) else order
        self._rows: int | None = None

    def _open(self) -> tuple[BinaryIO, BinaryIO]:
        """(the stream of text, the file beneath it)."""
        raw = open(self._path, "rb")  # noqa: SIM115
        if self._path.suffix.lower() != ".gz":
            return raw, raw
        return gzip.GzipFile(fileobj=raw), raw  # type: ignore[return-value]

    def _header(self, separator: str) -> tuple[tuple[str, ...], int]:
        line, start = attempt(self._unreadable, self._first_line)
        if not line and start == 0:
            raise DataError(f"{self._path} is empty: it has not even a header line.")
        if line.startswith(_WIDE_MARKS):
            raise DataError(f"{self._path} is UTF-16 text. Save it as UTF-8.")
        names = attempt(self._unreadable, _names, line, separator)
        if not names:
            raise DataError(f"{self._path} starts with a blank line. Its first line must name the columns.")
        return names, start

    def _first_line(self) -> tuple[bytes, int]:
        """The header without byte-order mark, and the number of bytes before the first row."""
        stream, raw = self._open()
        text, skipped = b"", 0
        with raw, stream:
            while chunk := stream.read(self._chunk_bytes):
                text += chunk
                skipped = 3 if text.startswith(_BYTE_ORDER_MARK) else 0
                view = np.frombuffer(text, np.uint8)[skipped:]
                lines, end, _, _ = scan(view, self._classes, START, True)
                if lines:
                    return text[skipped : skipped + end], skipped + end
                if len(text) > self._longest_line:
                    raise DataError(f"{self._path} has no header line in its first {self._longest_line} bytes.")
        return text[skipped:], len(text)

    def _check_header(self, columns: Any, separator: str) -> None:
        names = self.available
        other = [c for c in _LIKELY_SEPARATORS if c in names[0] and c != separator]
        if len(names) == 1 and other:
            raise UsageError(
                f"{self._path} seems to separate its cells by {other[0]!r}. Write it with {separator!r} instead."
            )
        counted = len(names) > 1 and list(names) == [str(j) for j in range(len(names))]
        if all(map(_is_number, names)) and not counted:
            typed = {str(name) for name in as_names(columns) or ()}
            if not typed or not typed <= set(names):
                raise UsageError(
                    f"The first line of {self._path} holds numbers only. It must name the columns: add a header line."
                )

    def _chunks(self, progress: Progress | None = None) -> Generator[bytearray]:
        """The file below the header, cut between lines; a line beyond the limit is replaced by a blank one [T3]."""
        self._watch.check()
        stream, raw = attempt(self._unreadable, self._open)
        with raw, stream:
            size = max(1, attempt(self._unreadable, self._path.stat).st_size)
            attempt(self._unreadable, stream.read, self._body_start)
            pending = b""
            while True:
                text = bytearray(len(pending) + self._chunk_bytes)
                text[: len(pending)] = pending
                got = attempt(self._unreadable, _fill, stream, text, len(pending))
                if got == 0:
                    break
                del text[len(pending) + got :]
                cut = self._last_line_end(text)
                pending = bytes(memoryview(text)[cut:])
                if cut:
                    del text[cut:]
                    yield text
                elif len(pending) > self._longest_line:
                    pending = self._skip_line(stream, pending)
                    yield bytearray(b"\n")
                if progress is not None:
                    progress(min(1.0, raw.tell() / size))
            if pending:  # the last line may lack its end, or end within quotes
                yield bytearray(pending if pending.endswith((b"\n", b"\r")) else pending + b"\n")

    def _last_line_end(self, text: bytearray) -> int:
        """Where the last finished line of the text ends; 0 if none is."""
        if b'"' not in text:
            return max(text.rfind(b"\n"), text.rfind(b"\r", 0, len(text) - 1)) + 1
        return int(scan(np.frombuffer(text, np.uint8), self._classes, START, False)[1])

    def _skip_line(self, stream: BinaryIO, text: bytes) -> bytes:
        """Read on to the end of the line that the text begins; what was read beyond it."""
        state = START
        while True:
            lines, end, used, state = scan(np.frombuffer(text, np.uint8), self._classes, state, True)
            if lines:
                return text[end:]
            chunk = attempt(self._unreadable, stream.read, self._chunk_bytes)
            if not chunk:
                return b""
            text = text[used:] + chunk

    def _count(self, text: bytearray) -> int:
        """The number of lines that `parse` finds in a chunk."""
        view = np.frombuffer(text, np.uint8)
        if b'"' not in text:
            return int(np.count_nonzero(view == _LINE_FEED)) if b"\r" not in text else int(count_line_ends(view))
        lines, end, _, _ = scan(view, self._classes, START, False)
        return int(lines) + int(end < len(text))

    def _block(self, text: bytearray) -> Block:
        import pyarrow as pa

        cells = self._count(text) * self.width
        values, late_cells = np.empty(cells), np.empty(cells, np.int64)
        late, ends = np.empty(len(text) + 1, np.uint8), np.zeros(cells + 1, np.int32)
        view = np.frombuffer(text, np.uint8)
        _, count = parse(view, self._classes, self._wanted, self._longest_line, values, late, ends, late_cells)
        if count:
            buffers = [None, pa.py_buffer(ends), pa.py_buffer(late)]
            texts = pa.Array.from_buffers(pa.string(), count, buffers)
            values[late_cells[:count]] = texts.cast(pa.float64()).to_numpy()
        block: NDArray[np.float64] = values.reshape(-1, self.width)
        return block if self._order is None else block[:, self._order]

    def _keys(self, text: bytearray) -> Any:
        """Whose each line is: the text of a cell; nobody's where it is empty or the line ragged."""
        import pyarrow as pa

        if self._key_place is None:
            return None
        offsets, letters = np.zeros(self._count(text) + 1, np.int64), np.empty(len(text), np.uint8)
        view = np.frombuffer(text, np.uint8)
        cells_at(view, self._classes, len(self.available), self._key_place, self._longest_line, letters, offsets)
        named = np.packbits(offsets[1:] > offsets[:-1], bitorder="little")
        buffers = [pa.py_buffer(named), pa.py_buffer(offsets), pa.py_buffer(letters)]
        return bounded(pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers))

    def _piece(self, text: bytearray) -> Piece:
        return self._keys(text), self._block(text)

    def rows(self) -> int:
        """Counted in a pass over the line ends alone, or remembered from a complete pass."""
        if self._rows is None:
            self._rows = sum(self._count(text) for text in self._chunks())
        return self._rows

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        rows = 0

        def piece(text: bytearray) -> Piece:
            return attempt(self._unreadable, self._piece, text)

        with closing(self._chunks(progress)) as chunks, closing(map_ahead(piece, chunks)) as made:
            for part in made:
                rows += len(part[1])
                yield part
        self._watch.check()
        self._rows = rows


def _fill(stream: BinaryIO, text: bytearray, start: int) -> int:
    """Read into the text from `start` on; the bytes read, 0 at the end of the stream."""
    with memoryview(text) as whole, whole[start:] as room:
        return stream.readinto(room)  # type: ignore[attr-defined, no-any-return]


def _names(line: bytes, separator: str) -> tuple[str, ...]:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        text = line.decode("latin-1")
    for cells in csv.reader(io.StringIO(text, newline=""), delimiter=separator):
        return tuple(cell.strip() for cell in cells)
    return ()
