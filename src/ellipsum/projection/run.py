"""Project every row to k private numbers that keep distances: docs/proofs/projections.md.

Rows become integers and are multiplied by the public matrix where they are read, here or on an engine's workers. Noise
is added here, to results that have arrived.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..errors import UsageError, choice, columns_of, floats
from ..ledger.charging import PROJECTION
from ..noise import Stream, add_noise, shift_for
from ..numerics.wide_integers import Ints
from ..privacy.budget import Budget
from ..privacy.guarantee import NEIGHBORS
from ..request.documentation import public
from ..request.people import ONE_ROW, People, parse_people, unit_of
from ..rows import Normal, Rows, parse_bounds
from ..session import Outline, Progress, Session, read_options
from ..sources import Selection, Source
from ..sources.open import is_frame
from ..sources.paths import check_apart
from ..sources.protocol import report_steps
from ..util.atomic_files import check_writable
from .forecast import ProjectionForecast, ProjectionOptions, ProjectionWarning, adversary_of, needed_noise
from .matrix import as_seed, draw_matrix, integers_of, spectral_norm_upper, unit
from .parquet import OwnOrder, ProjectionWriter
from .release import Projection

if TYPE_CHECKING:
    from ..ledger import DatasetAccount

_BLOCK_CELLS = 655_360


@public
def project(
    data: Any,
    k: int | None,
    bounds: Rows | Mapping[str, Any],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    adversary: str | None = None,
    calibration: str = "exact",
    metric: str = "original",
    neighbors: str = "replace",
    columns: list[str] | tuple[str, ...] | None = None,
    privacy_id: str | int | People | None = None,
    output: str | Path | None = None,
    matrix_seed: bytes | str | None = None,
    matrix: ArrayLike | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
    approve: Callable[[ProjectionForecast], None] | None = None,
    ledger: DatasetAccount | None = None,
    request_id: str | None = None,
) -> Projection:
    """Release every row as k private numbers that keep squared distances: V P + G.

    V are the clipped rows, P is a public random matrix and G is Gaussian noise. For arrays, tables in memory and files,
    row i of the result is row i of the data. Rows of people, queries and data frames have no stable order, and come in
    an order that does not depend on the data.

    Parameters
    ----------
    k : int or None
        Numbers per row. None takes the k with the smallest expected error.
    bounds : Ball, Box, Normal or dict
        How far a row can lie from the center. Rows beyond are clipped.
    adversary : {"oblivious", "adaptive"}, optional
        "oblivious" is the guarantee over the draw of the matrix, which happens here, after the data exists. "adaptive"
        holds for every matrix, with noise in proportion to its norm, about 1 + sqrt(d/k). By default the one that is
        expected to need less noise. A given matrix requires "adaptive", since the data may depend on it.
    calibration : {"exact", "tail", "composition"}, default "exact"
        The last two are published closed forms, for comparison. They add more noise.
    metric : {"original", "scaled"}, default "original"
        Distances in the units of the data, or of each column's half-width or standard deviation.
    neighbors : {"replace"}, default "replace"
        Only "replace" is supported: the result has one row for each row of data.
    output : str or Path, optional
        The Parquet file that the result is written to in bounded memory. Data frames of an engine need it.
    matrix_seed : bytes or str, optional
        The seed of an earlier projection, to use its matrix again.
    matrix : array of shape (d, k), optional
        A public matrix, which must not come from private data.
    approve : callable, optional
        Called with the forecast before any value is read. An exception that it raises ends the call.
    request_id : None
        Not supported, since a projection is too large to be stored in a ledger.

    Returns
    -------
    Projection
        The projected rows, with estimates of distances, norms and inner products.

    Warns
    -----
    ProjectionWarning
        If distances would be useless, or k exceeds the number of columns.

    Notes
    -----
    Privacy proof: [J1], [J2], or [J6] for "adaptive", for one replaced row, or person; [J9] where rows have no stable
    order.

    References
    ----------
    Tu 2013; Kenthapadi, Korolova, Mironov & Mishra 2013.

    Examples
    --------
    >>> import numpy as np
    >>> import ellipsum as es
    >>> rows = np.eye(1000)[np.arange(20) % 2]
    >>> sketch = es.project(rows, 50, es.Ball(1.0), epsilon=500, delta=1e-6)
    >>> sketch.value.shape
    (20, 50)
    >>> near, far = sketch.squared_distances([(0, 2), (0, 1)]).value
    """
    if choice("neighbors", neighbors, NEIGHBORS) != "replace":
        raise UsageError("A projection has one row for each row of data, so n is public. Use neighbors='replace'.")
    if matrix_seed is not None and matrix is not None:
        raise UsageError("Pass matrix_seed= or matrix=, not both.")
    is_reused = matrix_seed is not None or matrix is not None  # Then the data may depend on the matrix.
    if is_reused and adversary == "oblivious":
        raise UsageError("A given matrix needs adversary='adaptive'. Leave matrix_seed= and matrix= out otherwise.")
    spend, rows = Budget.of(epsilon, delta, budget).as_typed(), parse_bounds(bounds)
    options = ProjectionOptions(rows, spend, "adaptive" if is_reused else adversary, calibration, metric)
    k = None if k is None else columns_of("k", k)
    path = None if output is None else Path(output)
    check_writable(path)
    check_apart(path, data)
    people = parse_people(privacy_id, ONE_ROW)
    if path is None and is_frame(data):
        raise UsageError("Missing argument output: the rows may not fit in memory. Pass the path of a Parquet file.")
    if request_id is not None:
        raise UsageError("A projection is too large to be stored. Leave request_id out, and keep its file.")
    if approve is not None and not callable(approve):
        raise UsageError(f"approve must be a function of one forecast, got {type(approve).__name__}.")
    reading = read_options(rng, None, progress, ledger)
    with Session.open(data, Selection(columns, names=rows.columns), people, reading) as session:
        source, n = session.source, _count_for(rows, session.source)
        region = options.region(source.width, n)
        if k is None or approve is not None:
            forecast = options.best_forecast(region, n, None) if k is None else options.forecast(region, n, k)
            if approve is not None:
                approve(forecast)
            k = forecast.k
        guarantee = options.guarantee(region, k, unit_of(people))
        seed, integers = _matrix_for(session, region.width, k, matrix_seed, matrix)
        units = needed_noise(region, guarantee, lambda: spectral_norm_upper(integers))
        if units == 0:
            raise UsageError("matrix must not be zero.")
        projection = Projection(
            region=region,
            k=k,
            privacy=guarantee,
            noise_units=units,
            adversary=adversary_of(guarantee),
            calibration=calibration,
            secure=session.secure,
            matrix_seed=None if seed is None else seed.hex(),
            n=0,
            columns=source.columns,
            path=path,
            ordered=source.ordered,
            people=people,
            _matrix_integers=integers if seed is None else None,
        )
        _warn(projection)
        facts = {name: value for name, value in projection.to_dict().items() if not name.startswith("matrix")}
        stream = session.spend(projection.privacy, PROJECTION, Outline(dict(spend.stated), facts))
        return session.record_release(_run(projection, session, integers, stream))


def _run(projection: Projection, session: Session, integers: Ints, stream: Stream) -> Projection:
    """Rows -> integers -> exact product -> correctly rounded noise -> numbers, block by block [J2]."""
    from .products import Products  # It compiles when imported.

    region, k, shift = projection.region, projection.k, shift_for(projection.noise_units)
    factor = math.ldexp(region.radius * unit(k), shift - region.row_map.grid_bits)
    products = Products(region.row_map, integers)
    most = max(64, _BLOCK_CELLS // max(session.source.width, k))
    n = 0
    with ExitStack() as stack:
        writer = stack.enter_context(ProjectionWriter(projection.path, k))
        # Rows without a stable order [T9] are released in an order of their own [J9].
        sink = writer if projection.ordered else stack.enter_context(OwnOrder(writer))
        with report_steps(session.progress, public=True) as report:
            for sums in session.source.each(products, most, report):
                noisy = add_noise(sums, projection.noise_units, shift, stream, start=n * k)  # Draw row * k + column.
                sink.write(noisy.to_float() * factor)
                n += len(sums.high)
            if n == 0:
                raise UsageError("The data has no rows, so there is nothing to project.")
        # An interrupt is noticed with the last step, before the file appears.
        done = replace(projection, n=n)
        return replace(done, _values=sink.finish(done.to_json()))


def _count_for(bounds: Rows, source: Source) -> int | None:
    """The number of rows, if the clip radius depends on it."""
    if not isinstance(bounds, Normal) or bounds.clip_probability is not None:
        return None
    if not source.reopenable:
        raise UsageError("A one-shot iterator cannot be counted first. Pass Normal(..., clip_probability=).")
    return source.count()


def _matrix_for(
    session: Session, width: int, k: int, seed: bytes | str | None, matrix: ArrayLike | None
) -> tuple[bytes | None, Ints]:
    if matrix is not None:
        entries = floats("matrix", matrix)
        if entries.shape != (width, k):
            raise UsageError(f"matrix must have shape ({width}, {k}), got {entries.shape}.")
        return None, integers_of(entries)
    chosen = session.seed() if seed is None else as_seed(seed)
    return chosen, draw_matrix(chosen, width, k)


def _warn(projection: Projection) -> None:
    """Warn of public numbers, before any budget is spent."""
    if projection.k > projection.d:
        text = f"k = {projection.k} exceeds the {projection.d} columns: the projection makes data and noise larger."
        warnings.warn(text, ProjectionWarning, stacklevel=4)
    warning = projection.forecast().warning
    if warning is not None:
        warnings.warn(warning, ProjectionWarning, stacklevel=4)
