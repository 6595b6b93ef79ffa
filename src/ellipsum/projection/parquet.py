"""Projected rows on their way to memory or to one Parquet file, and back."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ..errors import DataError, Floats, UsageError
from ..numerics.wide_integers import Ints
from ..util.atomic_files import check_writable, discard, put_in_place, temporary_beside, unwritable
from ..util.interrupts import held

_KEY = b"ellipsum"
_GROUP_CELLS = 1 << 20


class ProjectionWriter:
    """Collects blocks of k numbers per row: in memory, or in a file that appears only when it is complete.

    The file's row groups hold a number of rows that depends on k alone, the last one what is left: its layout says
    nothing about the blocks that rows came in [J10].
    """

    def __init__(self, path: Path | None, k: int) -> None:
        self._path, self.k = path, k
        self._blocks: list[Floats] = []
        self._temporary: str | None = None
        self._writer: Any = None
        self._group_rows = max(64, _GROUP_CELLS // k)
        self._group: Floats | None = None
        self._filled = 0

    def __enter__(self) -> ProjectionWriter:
        check_writable(self._path)
        return self

    def write(self, values: Floats) -> None:
        if self._path is None:
            self._blocks.append(values)
            return
        if self._group is None:
            self._group = np.empty((self._group_rows, self.k), order="F")
        while len(values):
            part = values[: self._group_rows - self._filled]
            self._group[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            values = values[len(part) :]
            if self._filled == self._group_rows:
                self._write_group(self._path, self._group)

    def _write_group(self, path: Path, rows: Floats) -> None:
        import pyarrow

        if self._writer is None:
            self._open()
        columns = [pyarrow.array(rows[:, j]) for j in range(self.k)]
        self._filled = 0
        try:
            self._writer.write_table(pyarrow.table(columns, schema=self._schema()), row_group_size=self._group_rows)
        except OSError as error:
            raise unwritable(path, error) from None

    def finish(self, metadata: str) -> Floats | None:
        """Close the file under its own name, or return the values held in memory."""
        if self._path is None:
            return np.concatenate(self._blocks)
        if self._group is not None and self._filled:
            self._write_group(self._path, self._group[: self._filled])
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
            with suppress(Exception):  # the first error is the one to tell
                self._writer.close()
        discard(self._temporary)

    def _schema(self) -> Any:
        import pyarrow

        return pyarrow.schema([(f"p{j + 1}", pyarrow.float64()) for j in range(self.k)])

    def _open(self) -> None:
        from pyarrow import parquet

        assert self._path is not None
        try:
            with held():
                self._temporary = temporary_beside(self._path)
            # the values are noise to the last bits: neither dictionaries nor compression gain anything
            self._writer = parquet.ParquetWriter(
                self._temporary,
                self._schema(),
                compression="none",
                use_dictionary=False,
                write_statistics=False,
            )
        except OSError as error:
            raise unwritable(self._path, error) from None


def read_metadata(path: Path) -> bytes:
    """The JSON that `ProjectionWriter.finish` put beside the values."""
    metadata = _opened(path).metadata.metadata or {}
    if _KEY not in metadata:
        raise UsageError(f"{path} holds no projection. Give a file that Projection.save or project(output=) wrote.")
    return bytes(metadata[_KEY])


def read_shape(path: Path) -> tuple[int, int]:
    """Rows and columns of the values in a file; no columns where they are not what `ProjectionWriter` writes."""
    import pyarrow

    file = _opened(path)
    kinds = [(field.name, field.type) for field in file.schema_arrow]
    wanted = [(f"p{j + 1}", pyarrow.float64()) for j in range(len(kinds))]
    return int(file.metadata.num_rows), len(kinds) if kinds == wanted else 0


def read_rows(path: Path, wanted: Ints | None) -> Floats:
    """All values of a file, or those of some rows, a row group at a time."""
    file = _opened(path)
    sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    names = [f"p{j + 1}" for j in range(file.metadata.num_columns)]
    count = int(starts[-1]) if wanted is None else wanted.size
    out = np.empty((count, len(names)))
    for group, (start, stop) in enumerate(pairwise(starts)):
        inside = None if wanted is None else np.flatnonzero((wanted >= start) & (wanted < stop))
        if inside is not None and not inside.size:
            continue
        table = file.read_row_group(group)
        block = np.stack([table.column(name).to_numpy() for name in names], axis=1)
        if wanted is None or inside is None:
            out[start:stop] = block
        else:
            out[inside] = block[wanted[inside] - start]
    return out


def _opened(path: Path) -> Any:
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(path)
    except Exception:
        pass
    raise DataError(f"could not read {path} as a Parquet file.")
