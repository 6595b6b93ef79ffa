"""Project every row to k private numbers that keep distances: docs/proofs/projections.md.

The release is V P + G: V the clipped rows, P a public matrix of N(0, 1/k) entries drawn for this release,
G Gaussian noise. It is a row-level release: n rows of k numbers, one row of which may have been replaced.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Floats, UsageError, choice, whole
from ..integers import Ints
from ..noise import Stream, add_noise, public_seed, shift_for
from ..plans import parse_json
from ..privacy import Budget, Privacy
from ..rows import Normal, Rows
from ..tables import Progress, Table, open_table
from ..tables.ahead import map_ahead
from ..version import VERSION
from .curve import CALIBRATIONS, ProjectionPrivacy
from .estimates import (
    Estimates,
    check_pairs,
    check_rows,
    inner_products,
    squared_distances,
    squares,
)
from .files import ProjectionWriter, read_metadata, read_rows
from .matrix import ExactProduct, as_seed, draw_matrix, integers_of, spectral_norm_upper, unit
from .outlook import (
    ADVERSARIES,
    Forecast,
    ProjectionWarning,
    adaptive_noise,
    adversary_for,
    guarantee_of,
    noise_std_of,
    oblivious_noise,
)
from .region import Region, region_of

FORMAT = "ellipsum.projection/1"
_BLOCK_CELLS = 655_360


@dataclass(frozen=True, eq=False, repr=False)
class Projection:
    """n rows of k private numbers, and what may be estimated from them. Public fields only.

    The numbers are those of the clipped rows about the region's centre, in the units of its metric. Estimates
    are unbiased over the matrix and the noise for rows that do not depend on the matrix [J8].
    """

    region: Region
    k: int
    privacy: ProjectionPrivacy | Privacy
    noise_units: float
    """Noise std in units of the integer grid, as proved against the guarantee."""
    adversary: str
    calibration: str
    secure: bool
    matrix_seed: str | None
    """Hexadecimal; the whole matrix follows from it. None where a matrix was passed in."""
    n: int
    columns: tuple[str, ...] | None = None
    path: Path | None = None
    """The Parquet file that holds the values, or None where they are in memory."""
    _values: Floats | None = field(default=None)
    _given: Ints | None = field(default=None)

    @property
    def value(self) -> Floats:
        """(n, k) projected rows; read from the file where they were written to one."""
        if self._values is not None:
            return self._values
        assert self.path is not None
        return read_rows(self.path, None)

    @property
    def d(self) -> int:
        return int(self.region.center.size)

    @cached_property
    def matrix(self) -> Floats:
        """The public matrix: one row a column of the data (or axis of the metric), k columns."""
        return np.asarray(self._integers() * unit(self.k), np.float64)

    def _integers(self) -> Ints:
        if self._given is not None:
            return self._given
        assert self.matrix_seed is not None
        return draw_matrix(as_seed(self.matrix_seed), self.region.width, self.k)

    @property
    def noise_std(self) -> float:
        """Std of the noise in every number, in the units of the metric."""
        return noise_std_of(self.region, self.k, self.noise_units)

    def rows(self, numbers: Any) -> Floats:
        """Some projected rows by their numbers (from zero), in the order asked for."""
        wanted = check_rows(numbers, self.n)
        if self._values is not None:
            return self._values[wanted]
        assert self.path is not None
        return read_rows(self.path, wanted)

    def squared_distances(self, pairs: Any) -> Estimates:
        """Squared distances between pairs of rows, shape (m, 2) or one pair, unbiased [J8]."""
        first, second, same = self._ends(pairs)
        return squared_distances(first, second, self.noise_std, same)

    def inner_products(self, pairs: Any, about: str = "center") -> Estimates:
        """Inner products of pairs of rows, as offsets from the centre or (about="origin") as they stand [J8]."""
        choice("about", about, ("center", "origin"))
        first, second, same = self._ends(pairs)
        shift = self._origin() if about == "origin" else 0.0
        return inner_products(first + shift, second + shift, self.noise_std, same)

    def squared_norms(self, rows: Any = None, about: str = "center") -> Estimates:
        """Squared lengths of rows (all, unless numbers are given), about the centre or the origin [J8]."""
        choice("about", about, ("center", "origin"))
        found = self.value if rows is None else self.rows(np.atleast_1d(rows))
        shift = self._origin() if about == "origin" else 0.0
        return squares(np.sum((found + shift) ** 2, axis=1), self.k, self.noise_std**2)

    def _ends(self, pairs: Any) -> tuple[Floats, Floats, Any]:
        wanted = check_pairs(pairs, self.n)
        numbers, where = np.unique(wanted, return_inverse=True)
        found = self.rows(numbers)
        places = where.reshape(wanted.shape)
        return found[places[:, 0]], found[places[:, 1]], wanted[:, 0] == wanted[:, 1]

    def _origin(self) -> Floats:
        return self.region.measured_center() @ self.matrix

    def forecast(self) -> Forecast:
        """What this projection is good for."""
        return Forecast(self.n, self.d, self.k, self.region.radius, self.noise_std, self.adversary, self.calibration)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the values."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "n": self.n,
            "k": self.k,
            "columns": None if self.columns is None else list(self.columns),
            "region": self.region.to_dict(),
            "matrix_seed": self.matrix_seed,
            "matrix_integers": None if self._given is None else self._given.tolist(),
            "noise_std": self.noise_std,
            "noise_units": self.noise_units,
            "privacy": self.privacy.to_dict(),
            "adversary": self.adversary,
            "calibration": self.calibration,
            "secure": self.secure,
        }

    def to_json(self) -> str:
        """Everything but the values, as JSON."""
        return json.dumps(self.to_dict())

    def save(self, path: str | Path) -> None:
        """Write values and metadata to one Parquet file, atomically; `Projection.load` reads it back."""
        with ProjectionWriter(Path(path), self.k) as writer:
            writer.write(self.value)
            writer.finish(self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> Projection:
        """A projection that `save` or project(..., output=) wrote; values stay in the file until asked for."""
        return projection_from_dict(parse_json(read_metadata(Path(path))), Path(path))

    def __repr__(self) -> str:
        from ..texts import INSECURE

        where = "" if self.path is None else f", in {self.path}"
        lines = [
            f"Projection: {self.n} rows of {self.d} columns to {self.k}{where}",
            f"  guarantee       {self.privacy}, {self.adversary} adversary",
            f"  noise std       {self.noise_std:.6g} per coordinate, {self.region.metric} metric",
            f"  verdict         {self.forecast().verdict}",
        ]
        return "\n".join(lines if self.secure else [*lines, f"  {INSECURE}"])


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
    output: str | Path | None = None,
    matrix_seed: bytes | str | None = None,
    matrix: Any = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> Projection:
    """Publish every row as k noisy numbers that keep squared distances: V P + G.

    data and columns are as in `ellipsum.sum`; rows (Ball, Box or Normal) says how far a row can lie from the
    centre, and rows beyond are clipped. With output=, values are streamed to that Parquet file in bounded memory.

    adversary="oblivious" is the guarantee over the draw of the matrix: it holds because the matrix is drawn here,
    after the data exists. adversary="adaptive" holds for every matrix, with noise in proportion to its norm, about
    1 + sqrt(d/k). By default the one that is expected to need less noise: oblivious unless d or k is small. An
    earlier matrix (matrix_seed= or matrix=) forces "adaptive", since the data may by then depend on it; matrix=
    must not itself come from private data.

    Guarantee: `Projection.privacy`, one row replaced, n public [J1][J2], or [J6] with adversary="adaptive".

    References: Tu 2013; Kenthapadi, Korolova, Mironov & Mishra 2013.
    """
    k = whole("k", k)
    if neighbours != "replace":
        raise UsageError(
            "A projection publishes one row for each row of data, so n is public. Use neighbours='replace'."
        )
    choice("calibration", calibration, CALIBRATIONS)
    stated = _adversary(adversary, matrix_seed, matrix)
    spend = Budget.of(epsilon=epsilon, delta=delta, budget=budget)
    if not isinstance(rows, Rows):
        raise UsageError(f"rows must be one of Ball, Box, Normal, got {type(rows).__name__}.")
    table = open_table(data, columns=columns if columns is not None else rows.columns)
    region = region_of(rows, table.width, metric, _count_for(rows, table, clip_probability), clip_probability)
    against = adversary_for(region, k, spend, stated, calibration)
    guarantee = guarantee_of(spend, region.width, k, against, calibration)
    target = None if output is None else Path(output)
    with ProjectionWriter(target, k) as writer:
        seed, integers = _matrix_for(region.width, k, matrix_seed, matrix, rng)
        units = _noise_for(region, guarantee, integers)
        made = Projection(
            region=region,
            k=k,
            privacy=guarantee,
            noise_units=units,
            adversary=against,
            calibration=calibration,
            secure=rng is None,
            matrix_seed=None if seed is None else seed.hex(),
            n=0,
            columns=table.columns,
            path=target,
            _given=integers if seed is None else None,
        )
        _warn(made)
        return _run(made, table, integers, Stream.open(rng), writer, progress)


def _run(
    made: Projection,
    table: Table,
    integers: Ints,
    stream: Stream,
    writer: ProjectionWriter,
    progress: Progress | None,
) -> Projection:
    """Rows -> integers -> exact product -> correctly rounded noise -> numbers, block by block [J2]."""
    from .rows import integer_rows

    region, k, shift = made.region, made.k, shift_for(made.noise_units)
    product = ExactProduct(integers, region.row_map.norm_bound)
    factor = math.ldexp(region.radius * unit(k), shift - region.row_map.grid_bits)
    n = 0
    # Rows are mapped and multiplied ahead, in threads; noise follows in order, draw row * k + column.
    for sums in map_ahead(lambda block: product(integer_rows(region.row_map, block)), _slices(table, k, progress)):
        noisy = add_noise(sums, made.noise_units, shift, stream, start=n * k)
        writer.write(noisy.to_float() * factor)
        n += len(sums.high)
    if n == 0:
        raise UsageError("the data has no rows, so there is nothing to project.")
    fields = {**made.__dict__, "n": n}
    done = Projection(**{name: fields[name] for name in Projection.__dataclass_fields__})
    values = writer.finish(done.to_json())
    object.__setattr__(done, "_values", values)
    return done


def _slices(table: Table, k: int, progress: Progress | None) -> Iterator[Any]:
    step = max(64, _BLOCK_CELLS // max(table.width, k))
    for block in table.batches(progress):
        for start in range(0, len(block), step):
            yield block[start : start + step]


def _adversary(adversary: str | None, seed: Any, matrix: Any) -> str | None:
    reused = seed is not None or matrix is not None
    if seed is not None and matrix is not None:
        raise UsageError("give matrix_seed= or matrix=, not both.")
    if adversary is None:
        return "adaptive" if reused else None
    choice("adversary", adversary, ADVERSARIES)
    if reused and adversary == "oblivious":
        raise UsageError(
            "adversary='oblivious' needs a matrix drawn for this release. "
            "Leave out matrix_seed= and matrix=, or use adversary='adaptive'."
        )
    return adversary


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
        try:
            found = np.array(matrix, dtype=np.float64)
        except (TypeError, ValueError):
            raise UsageError("matrix must be a table of numbers. Check for text or ragged nesting.") from None
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
        warnings.warn(text, ProjectionWarning, stacklevel=3)
    forecast = made.forecast()
    if forecast.useless:
        warnings.warn(forecast.verdict, ProjectionWarning, stacklevel=3)


def projection_from_dict(fields: Mapping[str, Any], path: Path) -> Projection:
    """Inverse of `Projection.to_dict`, for values in a file."""
    if fields.get("format") != FORMAT:
        raise UsageError(f"not a projection of format {FORMAT}. It may come from another version of ellipsum.")
    try:
        columns, given = fields["columns"], fields["matrix_integers"]
        oblivious = fields["adversary"] == "oblivious"
        spent = (ProjectionPrivacy if oblivious else Privacy).from_dict(fields["privacy"])
        return Projection(
            region=Region.from_dict(fields["region"]),
            k=whole("k", fields["k"]),
            privacy=spent,
            noise_units=float(fields["noise_units"]),
            adversary=choice("adversary", fields["adversary"], ADVERSARIES),
            calibration=choice("calibration", fields["calibration"], CALIBRATIONS),
            secure=bool(fields["secure"]),
            matrix_seed=fields["matrix_seed"],
            n=whole("n", fields["n"]),
            columns=None if columns is None else tuple(columns),
            path=path,
            _given=None if given is None else np.array(given, np.int64),
        )
    except (KeyError, TypeError):
        raise UsageError("the projection has missing or unknown fields.") from None
