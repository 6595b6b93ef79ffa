"""Project every row to k private numbers that keep distances: docs/proofs/projections.md.

Rows become integers and are multiplied by the public matrix where they are, here or on an engine's workers; noise is
added here, to results that have arrived.
"""

from __future__ import annotations

import math
import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UsageError, choice, columns_of, floats
from ..noise import Stream, add_noise, shift_for
from ..numerics.wide_integers import Ints
from ..privacy.budget import Budget
from ..privacy.guarantee import NEIGHBORS, Privacy
from ..request.documentation import public
from ..request.people import people_of, unit_of
from ..rows import Normal, Rows, parse_bounds
from ..session import (
    Approve,
    Outline,
    Progress,
    Reading,
    Session,
    tab_of,
)
from ..sources import Selection, Source
from ..sources.open import is_frame
from ..sources.paths import check_apart
from ..sources.progress import steps
from ..util.atomic_files import check_writable
from .curve import CALIBRATIONS, ProjectionPrivacy
from .forecast import (
    ADVERSARIES,
    ProjectionForecast,
    ProjectionWarning,
    adaptive_noise,
    adversary_for,
    choose_k,
    guarantee_of,
    oblivious_noise,
    projection_forecast,
)
from .matrix import Products, as_seed, draw_matrix, integers_of, spectral_norm_upper, unit
from .parquet import OwnOrder, ProjectionWriter
from .region import ProjectionRegion, region_of
from .release import Projection

_BLOCK_CELLS = 655_360


@dataclass(frozen=True)
class ProjectionRequest:
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
        parse_bounds(self.rows)
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
        """The adversary, as far as the request says."""
        return "adaptive" if self._reused else self.adversary


@public
def project(
    data: Any,
    k: int | None,
    rows: Rows,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    adversary: str | None = None,
    calibration: str = "exact",
    metric: str = "original",
    clip_probability: float | None = None,
    neighbors: str = "replace",
    columns: list[str] | tuple[str, ...] | None = None,
    privacy_id: str | int | None = None,
    per_person: str | None = None,
    max_rows: int | None = None,
    output: str | Path | None = None,
    matrix_seed: bytes | str | None = None,
    matrix: Any = None,
    header: bool | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
    approve: Approve | None = None,
    ledger: Any = None,
    dataset: str | None = None,
    key: str | None = None,
    analyst: str | None = None,
) -> Projection:
    """Publish every row as k noisy numbers that keep squared distances: V P + G.

    data, columns, privacy_id, per_person, max_rows and header are as in `ellipsum.sum`; rows (Ball, Box or Normal) says
    how far a row can lie from the center, and rows beyond are clipped. With output=, values are streamed to that
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
    if choice("neighbors", neighbors, NEIGHBORS) != "replace":
        raise UsageError(
            "A projection publishes one row for each row of data, so n is public. Use neighbors='replace'."
        )
    spend = Budget.of(epsilon=epsilon, delta=delta, budget=budget).as_typed()
    request = ProjectionRequest(
        None if k is None else columns_of("k", k),
        rows,
        spend,
        adversary,
        calibration,
        metric,
        clip_probability,
        None if output is None else Path(output),
        matrix_seed=matrix_seed,
        matrix=matrix,
    )
    check_apart(request.output, data)
    people = people_of(privacy_id, per_person, max_rows)
    if request.output is None and is_frame(data):
        raise UsageError("output is missing. The rows of a frame may not fit here: name a Parquet file for them.")
    selection = Selection(columns, header=header, names=rows.columns)
    if key is not None:
        raise UsageError("a projection is too large to be stored under a key. Leave key out, and keep its file.")
    tab = tab_of(ledger, dataset, None, analyst)
    reading = Reading(rng, progress=progress, approve=approve, tab=tab)
    with Session.open(data, selection, people, reading) as session:
        return session.settled(run_projection(session, request))


def run_projection(session: Session, request: ProjectionRequest) -> Projection:
    """`project` on the rows of a session."""
    source, people = session.source, session.people
    k, spend = request.k, request.budget
    if k is None or session.proposing:
        forecast = forecast_for(request, source)
        session.propose(forecast)
        k = forecast.k
    count = _count_for(request, source)
    region = region_of(request.rows, source.width, request.metric, count, request.clip_probability)
    against = adversary_for(region, k, spend, request.against, request.calibration)
    guarantee = guarantee_of(spend, region.width, k, against, request.calibration, unit_of(people))
    seed, integers = _matrix_for(session, region.width, k, request.matrix_seed, request.matrix)
    projection = Projection(
        region=region,
        k=k,
        privacy=guarantee,
        noise_units=_noise_for(region, guarantee, integers),
        adversary=against,
        calibration=request.calibration,
        secure=session.secure,
        matrix_seed=None if seed is None else seed.hex(),
        n=0,
        columns=source.columns,
        path=request.output,
        ordered=source.ordered,
        people=people,
        _matrix_integers=integers if seed is None else None,
    )
    _warn(projection)
    public = {name: value for name, value in projection.to_dict().items() if not name.startswith("matrix")}
    stream = session.spend(projection.privacy, "a projection", Outline(dict(spend.stated), public))
    with ProjectionWriter(request.output, k) as writer, _sink(writer, projection) as sink:
        return _run(projection, session, integers, stream, sink)


def forecast_for(request: ProjectionRequest, source: Source) -> ProjectionForecast:
    """What the projection is expected to be worth: columns and row count are public, nothing else is looked at."""
    options: dict[str, Any] = {
        "adversary": request.against,
        "metric": request.metric,
        "clip_probability": request.clip_probability,
    }
    n = _count_for(request, source)
    if request.k is None:
        return choose_k(n, source.width, request.rows, request.budget, **options)
    return projection_forecast(
        n, source.width, request.k, request.rows, request.budget, calibration=request.calibration, **options
    )


def _sink(writer: ProjectionWriter, projection: Projection) -> AbstractContextManager[ProjectionWriter | OwnOrder]:
    """Where rows have no places [T9] they are published in an order of their own [J9]."""
    return nullcontext(writer) if projection.ordered else OwnOrder(writer)


def _run(
    projection: Projection, session: Session, integers: Ints, stream: Stream, sink: ProjectionWriter | OwnOrder
) -> Projection:
    """Rows -> integers -> exact product -> correctly rounded noise -> numbers, block by block [J2]."""
    region, k, shift = projection.region, projection.k, shift_for(projection.noise_units)
    factor = math.ldexp(region.radius * unit(k), shift - region.row_map.grid_bits)
    products = Products(region.row_map, integers)
    most = max(64, _BLOCK_CELLS // max(session.source.width, k))
    n = 0
    with steps(session.progress, public=True) as tell:
        for sums in session.source.each(products, most, tell):
            noisy = add_noise(sums, projection.noise_units, shift, stream, start=n * k)  # draw row * k + column
            sink.write(noisy.to_float() * factor)
            n += len(sums.high)
        if n == 0:
            raise UsageError("the data has no rows, so there is nothing to project.")
    # an interrupt is heard with the last step, before the file appears
    done = replace(projection, n=n)
    return replace(done, _values=sink.finish(done.to_json()))


def _count_for(request: ProjectionRequest, source: Source) -> int | None:
    """n, where the clip radius needs it."""
    if request.rows.kind != Normal.kind or request.clip_probability is not None:
        return None
    if not source.reopenable:
        raise UsageError("This source serves a single pass. State clip_probability= for Normal rows.")
    return source.count()


def _matrix_for(session: Session, width: int, k: int, seed: Any, matrix: Any) -> tuple[bytes | None, Ints]:
    if matrix is not None:
        entries = floats("matrix", matrix)
        if entries.shape != (width, k):
            raise UsageError(f"matrix must have shape ({width}, {k}), got {entries.shape}.")
        return None, integers_of(entries)
    chosen = session.seed() if seed is None else as_seed(seed)
    return chosen, draw_matrix(chosen, width, k)


def _noise_for(region: ProjectionRegion, guarantee: ProjectionPrivacy | Privacy, integers: Ints) -> float:
    if isinstance(guarantee, ProjectionPrivacy):
        return oblivious_noise(region, guarantee)
    units = adaptive_noise(region, guarantee, spectral_norm_upper(integers))
    if units == 0:
        raise UsageError("matrix must not be zero.")
    return units


def _warn(projection: Projection) -> None:
    """Public advice, before anything is spent."""
    if projection.k > projection.d:
        text = (
            f"k = {projection.k} is more than the {projection.d} columns: the projection grows the data and its noise."
        )
        warnings.warn(text, ProjectionWarning, stacklevel=5)
    forecast = projection.forecast()
    if forecast.useless:
        warnings.warn(forecast.verdict, ProjectionWarning, stacklevel=5)
