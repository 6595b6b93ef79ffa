"""Rows in an order that says nothing about the data: a function of the set of noisy rows alone. [J9]"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import numpy as np

from ..errors import Floats
from ..numerics.wide_integers import Ints
from ..sources.sealing import attempt
from .parquet import ProjectionWriter

_FAILED = "Temporary files could not be written. Check that their folder has room."
_CHUNK_BYTES = 1 << 25


class OwnOrder:
    """Takes noisy rows in any order and writes them in that of (hash of their bits, bits), in bounded memory.

    More rows than a chunk are sorted chunk by chunk into a temporary file without a name, and merged in slices of
    equal ranges of hashes.
    """

    def __init__(self, writer: ProjectionWriter, chunk_bytes: int = _CHUNK_BYTES) -> None:
        self._writer, self._chunk_bytes = writer, chunk_bytes
        self._held: list[Ints] = []
        self._held_bytes = 0
        self._ends = [0]
        self._file: Any = None
        self._resources = ExitStack()

    def __enter__(self) -> OwnOrder:
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def write(self, values: Floats) -> None:
        marked = _marked(values)
        self._held.append(marked)
        self._held_bytes += marked.nbytes
        if self._held_bytes >= self._chunk_bytes:
            self._spill()

    def finish(self, metadata: str) -> Floats | None:
        """As the writer's, once all rows have come."""
        if self._file is None:
            self._hand_over(self._held)
        else:
            self._spill()
            self._merge()
        return self._writer.finish(metadata)

    def _spill(self) -> None:
        if self._file is None:
            self._file = self._resources.enter_context(attempt(_FAILED, tempfile.TemporaryFile))
        if self._held:
            run = _sorted(self._held)
            attempt(_FAILED, self._file.write, run.tobytes())
            self._ends.append(self._ends[-1] + len(run))
            self._held, self._held_bytes = [], 0

    def _merge(self) -> None:
        attempt(_FAILED, self._file.flush)
        width = self._writer.k + 1
        rows = np.memmap(self._file, np.int64, "r", shape=(self._ends[-1], width))
        runs = [rows[start:stop] for start, stop in pairwise(self._ends)]
        slices = -(-rows.nbytes // self._chunk_bytes)
        edges = [-(1 << 63) + (i << 64) // slices for i in range(1, slices)]
        cuts = [[0, *np.searchsorted(run[:, 0], np.array(edges, np.int64)).tolist(), len(run)] for run in runs]
        for i in range(slices):
            self._hand_over([run[cut[i] : cut[i + 1]] for run, cut in zip(runs, cuts, strict=True)])

    def _hand_over(self, parts: list[Ints]) -> None:
        ordered = _sorted(parts)
        if len(ordered):
            self._writer.write(ordered[:, 1:].view(np.float64))


def _marked(values: Floats) -> Ints:
    """Each row's bits behind their hash."""
    from ..sources.exact_sums import content_hashes

    bits = np.ascontiguousarray(values).view(np.int64)
    marked = np.empty((len(bits), bits.shape[1] + 1), np.int64)
    marked[:, 1:] = bits
    marked[:, 0] = content_hashes(bits)
    return marked


def _sorted(parts: list[Ints]) -> Ints:
    """All rows by hash and, where hashes are equal, by bits: only equal rows tie."""
    rows = np.concatenate(parts)
    order = np.argsort(rows[:, 0], kind="stable")
    hashes = rows[order, 0]
    if (hashes[1:] == hashes[:-1]).any():
        order = np.lexsort(rows.T[::-1])
    return rows[order]
