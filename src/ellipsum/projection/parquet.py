"""Projected rows in memory or in one Parquet file, written and read back."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from ..errors import DataError, Floats, UsageError
from ..numerics.wide_integers import Ints
from ..sources.protocol import attempt
from ..util.atomic_files import check_writable, discard, put_in_place, temporary_beside, unwritable
from ..util.interrupts import held

_KEY = b"ellipsum"
_GROUP_CELLS = 1 << 20


class ProjectionWriter:
    """Collects blocks of k numbers per row: in memory, or in a file that appears only when it is complete.

    The number of rows in a row group depends on k alone, so the layout of the file does not depend on the blocks that
    rows came in [J10].
    """

    def __init__(self, path: Path | None, k: int) -> None:
        self._path, self.k = path, k
        self._blocks: list[Floats] = []
        self._held_rows = 0
        self._group_rows = max(64, _GROUP_CELLS // k)
        self._temporary: str | None = None
        self._writer: Any = None

    def __enter__(self) -> ProjectionWriter:
        check_writable(self._path)
        return self

    def write(self, values: Floats) -> None:
        self._blocks.append(values)
        self._held_rows += len(values)
        if self._path is not None and self._held_rows >= self._group_rows:
            self._write_groups(self._path, self._held_rows - self._held_rows % self._group_rows)

    def _write_groups(self, path: Path, count: int) -> None:
        """Write the first rows that are held."""
        import pyarrow
        from pyarrow import parquet

        rows = np.concatenate(self._blocks)
        table = pyarrow.table({f"p{j + 1}": pyarrow.array(rows[:count, j]) for j in range(self.k)})
        self._blocks, self._held_rows = [rows[count:].copy()], len(rows) - count
        try:
            if self._writer is None:
                with held():
                    self._temporary = temporary_beside(path)
                # The last bits of the values are noise, so dictionaries and compression gain nothing.
                self._writer = parquet.ParquetWriter(
                    self._temporary, table.schema, compression="none", use_dictionary=False, write_statistics=False
                )
            self._writer.write_table(table, row_group_size=self._group_rows)
        except OSError as error:
            raise unwritable(path, error) from None

    def finish(self, metadata: str) -> Floats | None:
        """Close the file under its own name, or return the values held in memory."""
        if self._path is None:
            return np.concatenate(self._blocks)
        if self._held_rows:
            self._write_groups(self._path, self._held_rows)
        assert self._temporary is not None
        try:
            self._writer.add_key_value_metadata({_KEY: metadata.encode()})
            self._writer.close()
            self._writer = None
            put_in_place(self._temporary, self._path)
        except OSError as error:
            raise unwritable(self._path, error) from None
        self._temporary = None
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            with suppress(Exception):  # The first error is the one to report.
                self._writer.close()
        discard(self._temporary)


def read_metadata(path: Path) -> bytes:
    """The JSON that `ProjectionWriter.finish` put beside the values."""
    metadata = _open_file(path).metadata.metadata or {}
    if _KEY not in metadata:
        raise UsageError(f"{path} contains no projection. Use a file that Projection.save or project(output=) wrote.")
    return bytes(metadata[_KEY])


def read_shape(path: Path) -> tuple[int, int]:
    """Rows and columns of the values in a file; 0 columns if `ProjectionWriter` did not write them."""
    import pyarrow

    file = _open_file(path)
    kinds = [(field.name, field.type) for field in file.schema_arrow]
    expected = [(f"p{j + 1}", pyarrow.float64()) for j in range(len(kinds))]
    return int(file.metadata.num_rows), len(kinds) if kinds == expected else 0


def read_rows(path: Path, numbers: Ints | None) -> Floats:
    """All values of a file, or those of some rows, one row group at a time."""
    file = _open_file(path)
    sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    names = [f"p{j + 1}" for j in range(file.metadata.num_columns)]
    count = int(starts[-1]) if numbers is None else numbers.size
    out = np.empty((count, len(names)))
    for group, (start, stop) in enumerate(pairwise(starts)):
        inside = None if numbers is None else np.flatnonzero((numbers >= start) & (numbers < stop))
        if inside is not None and not inside.size:
            continue
        table = file.read_row_group(group)
        block = np.stack([table.column(name).to_numpy() for name in names], axis=1)
        if numbers is None or inside is None:
            out[start:stop] = block
        else:
            out[inside] = block[numbers[inside] - start]
    return out


def _open_file(path: Path) -> Any:
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(path)
    except Exception:
        pass
    raise DataError(f"Could not read {path} as a Parquet file.")


_FAILED = "Temporary files could not be written. Check the free space of their folder."
_CHUNK_BYTES = 1 << 25


class OwnOrder:
    """Writes noisy rows in the order of (hash of their bits, bits), which depends on the set of rows alone [J9].

    Memory is bounded: with more rows than a chunk, each chunk is sorted into an unnamed temporary file. At the end,
    ranges of hashes are merged.
    """

    def __init__(self, writer: ProjectionWriter, chunk_bytes: int = _CHUNK_BYTES) -> None:
        self._writer, self._chunk_bytes = writer, chunk_bytes
        self._held: list[Ints] = []
        self._held_bytes = 0
        self._ends = [0]
        self._file: IO[bytes] | None = None
        self._resources = ExitStack()

    def __enter__(self) -> OwnOrder:
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def write(self, values: Floats) -> None:
        marked = _add_marks(values)
        self._held.append(marked)
        self._held_bytes += marked.nbytes
        if self._held_bytes >= self._chunk_bytes:
            self._spill()

    def finish(self, metadata: str) -> Floats | None:
        """Write all rows, and finish the file."""
        if self._file is None:
            self._write_sorted(self._held)
        else:
            self._merge(self._spill())
        return self._writer.finish(metadata)

    def _spill(self) -> IO[bytes]:
        if self._file is None:
            temporary = attempt(_FAILED, lambda: tempfile.TemporaryFile())  # noqa: SIM115 (`__exit__` closes it.)
            self._file = self._resources.enter_context(temporary)
        if self._held:
            run = _sort_rows(self._held)
            attempt(_FAILED, self._file.write, run.tobytes())
            self._ends.append(self._ends[-1] + len(run))
            self._held, self._held_bytes = [], 0
        return self._file

    def _merge(self, file: IO[bytes]) -> None:
        attempt(_FAILED, file.flush)
        rows = np.memmap(file, np.int64, "r", shape=(self._ends[-1], self._writer.k + 1))
        runs = [rows[start:stop] for start, stop in pairwise(self._ends)]
        slices = -(-rows.nbytes // self._chunk_bytes)
        edges = [-(1 << 63) + (i << 64) // slices for i in range(1, slices)]
        cuts = [[0, *np.searchsorted(run[:, 0], np.array(edges, np.int64)).tolist(), len(run)] for run in runs]
        for i in range(slices):
            self._write_sorted([run[cut[i] : cut[i + 1]] for run, cut in zip(runs, cuts, strict=True)])

    def _write_sorted(self, parts: list[Ints]) -> None:
        ordered = _sort_rows(parts)
        if len(ordered):
            self._writer.write(ordered[:, 1:].view(np.float64))


def _add_marks(values: Floats) -> Ints:
    """The bits of each row, after their hash."""
    from ..sources.exact_sums import content_hashes

    bits = np.ascontiguousarray(values).view(np.int64)
    marked = np.empty((len(bits), bits.shape[1] + 1), np.int64)
    marked[:, 1:] = bits
    marked[:, 0] = content_hashes(bits)
    return marked


def _sort_rows(parts: list[Ints]) -> Ints:
    """All rows in the order of their hashes, and of their bits where hashes are equal."""
    rows = np.concatenate(parts)
    order = np.argsort(rows[:, 0], kind="stable")
    hashes = rows[order, 0]
    if (hashes[1:] == hashes[:-1]).any():
        order = np.lexsort(rows.T[::-1])
    return rows[order]
