"""Project every row to k private numbers that keep distances: docs/proofs/projections.md.

Rows become integers and are multiplied by the public matrix where they are, here or on an engine's workers; noise is
added here, to results that have arrived.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..engines import EngineTable, is_frame
from ..errors import UsageError, choice, columns_of, floats
from ..files import check_writable
from ..integers import Ints, Wide
from ..noise import Stream, add_noise, public_seed, shift_for
from ..privacy import NEIGHBOURS, Budget, Privacy
from ..rows import Normal, Rows
from ..run import reading
from ..tables import Progress, Table
from ..tables.ahead import map_ahead
from ..tables.files import check_apart
from ..people import People, people_of
from ..tables.progress import steps
from .curve import CALIBRATIONS, ProjectionPrivacy
from .files import ProjectionWriter
from .matrix import as_seed, draw_matrix, integers_of, spectral_norm_upper, unit
from .order import OwnOrder
from .outlook import (
    ADVERSARIES,
    ProjectionWarning,
    adaptive_noise,
    adversary_for,
    guarantee_of,
    oblivious_noise,
)
from .products import Products
from .region import Region, region_of
from .release import Projection

_BLOCK_CELLS = 655_360


@dataclass(frozen=True)
class Terms:
    """What a projection shall be, checked before any data is read; fields as the arguments of `project`.

    k may be None until it is chosen.
    """

    k: int | None
    rows: Rows
    budget: Budget
    adversary: str | None = None
    calibration: str = "exact"
    metric: str = "original"
    clip_probability: float | None = None
    output: Path | None = None
    matrix_seed: bytes | str | None = None
    matrix: Any = None

    def __post_init__(self) -> None:
        if self.k is not None:
            columns_of("k", self.k)
        choice("calibration", self.calibration, CALIBRATIONS)
        if not isinstance(self.rows, Rows):
            raise UsageError(f"rows must be one of Ball, Box, Normal, got {type(self.rows).__name__}.")
        if self.matrix_seed is not None and self.matrix is not None:
            raise UsageError("give matrix_seed= or matrix=, not both.")
        if self.adversary is not None:
            choice("adversary", self.adversary, ADVERSARIES)
        if self._reused and self.adversary == "oblivious":
            raise UsageError(
                "adversary='oblivious' needs a matrix drawn for this release. "
                "Leave out matrix_seed= and matrix=, or use adversary='adaptive'."
            )
        check_writable(self.output)

    @property
    def _reused(self) -> bool:
        """Whether the matrix may have been known when the data was chosen."""
        return self.matrix_seed is not None or self.matrix is not None

    @property
    def against(self) -> str | None:
        """The adversary, as far as the terms say."""
        return "adaptive" if self._reused else self.adversary


def project(
    data: Any,
    k: int,
    rows: Rows,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    adversary: str | None = None,
    calibration: str = "exact",
    metric: str = "original",
    clip_probability: float | None = None,
    neighbours: str = "replace",
    columns: list[str] | tuple[str, ...] | None = None,
    privacy_id: str | int | None = None,
    per_person: str | None = None,
    max_rows: int | None = None,
    output: str | Path | None = None,
    matrix_seed: bytes | str | None = None,
    matrix: Any = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
    header: bool | None = None,
) -> Projection:
    """Publish every row as k noisy numbers that keep squared distances: V P + G.

    data, columns, privacy_id, per_person, max_rows and header are as in `ellipsum.sum`; rows (Ball, Box or Normal) says
    how far a row can lie from the centre, and rows beyond are clipped. With output=, values are streamed to that
    Parquet file in bounded memory; an engine's frame needs it. Row i of the result is the data's row i for arrays,
    tables in memory and plain files; people, queries, data sets and frames have no places, and come in an order of
    their own.

    adversary="oblivious" is the guarantee over the draw of the matrix: it holds because the matrix is drawn here,
    after the data exists. adversary="adaptive" holds for every matrix, with noise in proportion to its norm, about
    1 + sqrt(d/k). By default the one that is expected to need less noise: oblivious unless d or k is small. An
    earlier matrix (matrix_seed= or matrix=) forces "adaptive", since the data may by then depend on it; matrix=
    must not itself come from private data.

    Guarantee: `Projection.privacy`, one row replaced, n public [J1][J2], or [J6] with adversary="adaptive"; one
    person replaced with privacy_id, one row in whatever order [J9] where the source has no places [T9].

    References: Tu 2013; Kenthapadi, Korolova, Mironov & Mishra 2013.
    """
    if choice("neighbours", neighbours, NEIGHBOURS) != "replace":
        raise UsageError(
            "A projection publishes one row for each row of data, so n is public. Use neighbours='replace'."
        )
    spend = Budget.of(epsilon=epsilon, delta=delta, budget=budget)
    target = None if output is None else Path(output)
    terms = Terms(
        columns_of("k", k),
        rows,
        spend,
        adversary,
        calibration,
        metric,
        clip_probability,
        target,
        matrix_seed=matrix_seed,
        matrix=matrix,
    )
    check_apart(target, data)
    people = people_of(privacy_id, per_person, max_rows)
    if target is None and is_frame(data):
        raise UsageError("output is missing. The rows of a frame may not fit here: name a Parquet file for them.")
    with reading(data, columns, rows.columns, people, progress, header) as (table, tell):
        return project_table(table, terms, people, rng, tell)


def project_table(
    table: Table,
    terms: Terms,
    people: People | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> Projection:
    """`project` on a table, whose rows are people where `people` says so."""
    k, spend = columns_of("k", terms.k), terms.budget
    count = _count_for(terms.rows, table, terms.clip_probability)
    region = region_of(terms.rows, table.width, terms.metric, count, terms.clip_probability)
    against = adversary_for(region, k, spend, terms.against, terms.calibration)
    guarantee = guarantee_of(spend, region.width, k, against, terms.calibration)
    seed, integers = _matrix_for(region.width, k, terms.matrix_seed, terms.matrix, rng)
    made = Projection(
        region=region,
        k=k,
        privacy=guarantee if people is None else guarantee.for_people(),
        noise_units=_noise_for(region, guarantee, integers),
        adversary=against,
        calibration=terms.calibration,
        secure=rng is None,
        matrix_seed=None if seed is None else seed.hex(),
        n=0,
        columns=table.columns,
        path=terms.output,
        ordered=table.ordered,
        options={} if people is None else people.to_dict(),
        _given=integers if seed is None else None,
    )
    _warn(made)
    with ProjectionWriter(terms.output, k) as writer, _sink(writer, made) as sink:
        return _run(made, table, integers, Stream.open(rng), sink, progress)


def _sink(writer: ProjectionWriter, made: Projection) -> AbstractContextManager[ProjectionWriter | OwnOrder]:
    """Where rows have no places [T9] they are published in an order of their own [J9]."""
    return nullcontext(writer) if made.ordered else OwnOrder(writer)


def _run(
    made: Projection,
    table: Table,
    integers: Ints,
    stream: Stream,
    sink: ProjectionWriter | OwnOrder,
    progress: Progress | None,
) -> Projection:
    """Rows -> integers -> exact product -> correctly rounded noise -> numbers, block by block [J2]."""
    region, k, shift = made.region, made.k, shift_for(made.noise_units)
    factor = math.ldexp(region.radius * unit(k), shift - region.row_map.grid_bits)
    n = 0
    with steps(progress, public=True) as tell:  # an interrupt is heard at its end, before the file appears
        for sums in _sums(table, Products(region.row_map, integers), tell):
            noisy = add_noise(sums, made.noise_units, shift, stream, start=n * k)  # draw row * k + column
            sink.write(noisy.to_float() * factor)
            n += len(sums.high)
        if n == 0:
            raise UsageError("the data has no rows, so there is nothing to project.")
    done = replace(made, n=n)
    return replace(done, _values=sink.finish(done.to_json()))


def _sums(table: Table, products: Products, progress: Progress | None) -> Iterator[Wide]:
    """The exact integers of all rows, block by block, made ahead in threads or by an engine's workers."""
    step = max(64, _BLOCK_CELLS // max(table.width, products.k))
    if isinstance(table, EngineTable):
        return map(products.unpack, table.each(products.packed, step, progress))
    return map_ahead(products, _slices(table, step, progress))


def _slices(table: Table, step: int, progress: Progress | None) -> Iterator[Any]:
    for block in table.batches(progress):
        for start in range(0, len(block), step):
            yield block[start : start + step]


def _count_for(rows: Rows, table: Table, clip_probability: float | None) -> int | None:
    """n, where the clip radius needs it."""
    if not isinstance(rows, Normal) or clip_probability is not None:
        return None
    if not table.reopenable:
        raise UsageError("This source serves a single pass. State clip_probability= for Normal rows.")
    return table.rows()


def _matrix_for(
    width: int, k: int, seed: Any, matrix: Any, rng: np.random.Generator | None
) -> tuple[bytes | None, Ints]:
    if matrix is not None:
        found = floats("matrix", matrix)
        if found.shape != (width, k):
            raise UsageError(f"matrix must have shape ({width}, {k}), got {found.shape}.")
        return None, integers_of(found)
    chosen = public_seed(rng) if seed is None else as_seed(seed)
    return chosen, draw_matrix(chosen, width, k)


def _noise_for(region: Region, guarantee: ProjectionPrivacy | Privacy, integers: Ints) -> float:
    if isinstance(guarantee, ProjectionPrivacy):
        return oblivious_noise(region, guarantee)
    units = adaptive_noise(region, guarantee, spectral_norm_upper(integers))
    if units == 0:
        raise UsageError("matrix must not be zero.")
    return units


def _warn(made: Projection) -> None:
    """Public advice, before anything is spent."""
    if made.k > made.d:
        text = f"k = {made.k} is more than the {made.d} columns: the projection grows the data and its noise."
        warnings.warn(text, ProjectionWarning, stacklevel=4)
    forecast = made.forecast()
    if forecast.useless:
        warnings.warn(forecast.verdict, ProjectionWarning, stacklevel=4)
