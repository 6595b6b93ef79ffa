"""A projection: n rows of k private numbers, what may be estimated from them, and how they are kept.

The release is V P + G: V the clipped rows, P a public matrix of N(0, 1/k) entries drawn for this release,
G Gaussian noise. It is a row-level release: n rows of k numbers, one row of which may have been replaced.

Estimates [J8]: with noise std s, y = v P + g and P of N(0, 1/k) entries, every coordinate of y_i - y_j is
N(0, ‖v_i - v_j‖^2/k + 2 s^2), independent of the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..display.checklist import BEFOREHAND
from ..display.document import Background, Document, Recipe
from ..display.recipe import call, script
from ..display.result import Shown
from ..display.wording import describe_guarantee, format_up, insecure_facts, many, people_facts
from ..errors import MOST_COLUMNS, Floats, UsageError, choice, names, open_unit
from ..numerics.wide_integers import Ints
from ..privacy.guarantee import Privacy
from ..request.people import People, people_from_dict, unit_of
from ..request.request import COUNT
from ..util import json_codec
from ..util.structural_equality import contents
from ..version import VERSION
from .curve import CALIBRATIONS, ProjectionPrivacy
from .forecast import ADVERSARIES, ProjectionForecast, adaptive_noise, noise_std_of, oblivious_noise
from .matrix import as_seed, draw_matrix, matrix_excess, spectral_norm_upper, unit
from .parquet import ProjectionWriter, read_metadata, read_rows, read_shape
from .region import ProjectionRegion


@dataclass(frozen=True)
class Estimates:
    """Estimates with standard errors, for the *clipped* rows, over the draw of matrix and noise together.

    Squares (distances, norms) are a scaled chi-square with k degrees of freedom less a constant, so their
    intervals are exact; those of inner products are normal approximations, good from k = 30 or so.
    """

    value: Floats
    standard_error: Floats
    raw: Floats | None = None
    """Squares: the squared length before the noise's share is taken off."""
    k: int = 0

    def confidence_interval(self, level: float = 0.95) -> Floats:
        """(pairs, 2) bounds, each covering its own true value at `level`; squares are held at 0 or above."""
        from scipy.special import chdtri, ndtri

        tail = (1 - open_unit("level", level)) / 2
        if self.raw is None:
            half = float(ndtri(1 - tail)) * self.standard_error
            return np.stack([self.value - half, self.value + half], axis=1)
        offset = self.raw - self.value
        ends = [self.k * self.raw / float(chdtri(self.k, p)) - offset for p in (tail, 1 - tail)]
        return np.maximum(np.stack(ends, axis=1), 0.0)


def check_pairs(pairs: Any, n: int) -> Ints:
    """(m, 2) row numbers from 0 to n - 1."""
    array = _array("pairs", pairs)
    if array.ndim == 1 and array.size == 2:
        array = array[None, :]
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise UsageError("pairs must be a list of (row, row) numbers, shape (m, 2).")
    return check_rows(array, n, "pairs")


def _array(name: str, value: Any) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except ValueError:  # ragged
        raise UsageError(f"{name} must be whole numbers.") from None


def check_rows(rows: Any, n: int, name: str = "rows") -> Ints:
    """Row numbers from 0 to n - 1."""
    array = _array(name, rows)
    if array.dtype.kind not in "iu":
        raise UsageError(f"{name} must be whole numbers.")
    if array.size and not (0 <= int(array.min()) and int(array.max()) < n):
        raise UsageError(f"{name} must be row numbers from 0 to {n - 1}. Count rows from zero.")
    return array.astype(np.int64)


def squares(lengths: Floats, k: int, noise_variance: float) -> Estimates:
    """‖v‖^2 from ‖y‖^2, y = v P + noise of the given variance a coordinate.

    y is N(0, (‖v‖^2/k + variance) I_k), so ‖y‖^2 - k variance is unbiased with variance 2k (...)^2, and
    2‖y‖^4/(k + 2) is an unbiased estimate of that [J8].
    """
    return Estimates(lengths - k * noise_variance, lengths * math.sqrt(2 / (k + 2)), lengths, k)


def squared_distances(first: Floats, second: Floats, noise_std: float, same: Any) -> Estimates:
    """‖v_i - v_j‖^2; exactly 0 where i = j."""
    k = first.shape[1]
    lengths = np.sum((first - second) ** 2, axis=1)
    estimates = squares(lengths, k, 2 * noise_std**2)
    return Estimates(np.where(same, 0.0, estimates.value), estimates.standard_error, np.where(same, 0.0, lengths), k)


def inner_products(first: Floats, second: Floats, noise_std: float, same: Any) -> Estimates:
    """<v_i, v_j>, less k s^2 where i = j.

    With a, b the coordinates' variances and c their covariance, Var <y_i, y_j> = k (a b + c^2); the standard
    error takes the unbiased estimate of it from ‖y_i‖^2 ‖y_j‖^2 and <y_i, y_j>^2 [J8].
    """
    k = first.shape[1]
    raw = np.sum(first * second, axis=1)
    lengths = np.sum(first**2, axis=1) * np.sum(second**2, axis=1)
    if k == 1:
        variance = lengths  # no unbiased estimate exists; this one is too large by the squared inner product
    else:
        variance = (k * lengths + (k - 2) * raw**2) / ((k + 2) * (k - 1))
    variance = np.where(same, 2 * raw**2 / (k + 2), variance)
    return Estimates(raw - np.where(same, k * noise_std**2, 0.0), np.sqrt(variance))


FORMAT = "ellipsum.projection/1"
_WRONG = "the projection has missing, unknown or wrong fields."
_DOCTORED = "this projection's noise, guarantee or size is not what it says. It was changed after it was made."
_INTEGERS = json_codec.table(json_codec.integer(-(1 << 40), 1 << 40), np.int64)
_MECHANISM = "Every row is clipped, multiplied by a public random matrix and given Gaussian noise of its own."
_NEAR = 1e-6  # what rounding may change in the norm of a matrix


@dataclass(frozen=True, eq=False, repr=False)
class Projection(Shown):
    """n rows of k private numbers, and what may be estimated from them. Public fields only.

    The numbers are those of the clipped rows about the region's center, in the units of its metric. Estimates
    are unbiased over the matrix and the noise for rows that do not depend on the matrix [J8].
    """

    region: ProjectionRegion
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
    ordered: bool = True
    """Whether row i is the data's row i; where the source has no places [T9], rows come as [J9] says."""
    people: People | None = None
    """Where rows are people: by which column, and what became of a person's rows. n then counts people."""
    _values: Floats | None = field(default=None)
    _matrix_integers: Ints | None = field(default=None)

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
        """The public matrix: one row per column of the data (or axis of the metric), k columns."""
        return np.asarray(self._integers() * unit(self.k), np.float64)

    def _integers(self) -> Ints:
        if self._matrix_integers is not None:
            return self._matrix_integers
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
        """Inner products of pairs of rows, as offsets from the center or (about="origin") as they stand [J8]."""
        choice("about", about, ("center", "origin"))
        first, second, same = self._ends(pairs)
        shift = self._origin() if about == "origin" else 0.0
        return inner_products(first + shift, second + shift, self.noise_std, same)

    def squared_norms(self, rows: Any = None, about: str = "center") -> Estimates:
        """Squared lengths of rows (all, unless numbers are given), about the center or the origin [J8]."""
        choice("about", about, ("center", "origin"))
        vectors = self.value if rows is None else np.atleast_2d(self.rows(rows))
        shift = self._origin() if about == "origin" else 0.0
        return squares(np.sum((vectors + shift) ** 2, axis=1), self.k, self.noise_std**2)

    def _ends(self, pairs: Any) -> tuple[Floats, Floats, Any]:
        wanted = check_pairs(pairs, self.n)
        numbers, where = np.unique(wanted, return_inverse=True)
        vectors = self.rows(numbers)
        places = where.reshape(wanted.shape)
        return vectors[places[:, 0]], vectors[places[:, 1]], wanted[:, 0] == wanted[:, 1]

    def _origin(self) -> Floats:
        return self.region.measured_center() @ self.matrix

    def forecast(self) -> ProjectionForecast:
        """What this projection is good for."""
        return ProjectionForecast(
            self.n, self.d, self.k, self.region.radius, self.noise_std, self.adversary, self.calibration
        )

    def plot(self, path: str | Path | None = None) -> Any:  # type: ignore[override]
        """A matplotlib figure of how far off squared distances are, written to a file where one is named."""
        from .picture import projection_plot

        what = "rows" if self.people is None else "people"
        return projection_plot(self.forecast(), f"Distances of {self.n} {what}, {self.k} numbers each", path)

    @property
    def _stated(self) -> dict[str, float]:
        """Epsilon at the delta that was asked for, rounded up, where the guarantee is a curve of its own."""
        if isinstance(self.privacy, Privacy):
            return {}
        delta = self.privacy.stated_delta
        return {"epsilon": float(format_up(self.privacy.epsilon(delta))), "delta": delta}

    def background(self) -> Background:
        words = {"adversary": self.adversary, "calibration": self.calibration}
        made = call("project", ["data", str(self.k), "rows", "epsilon=...", "delta=..."], words)
        return Background(
            privacy=self.privacy,
            stated=self._stated,
            secure=self.secure,
            people=self.people,
            origin=[f"The region that holds the rows was stated by the caller. {BEFOREHAND}"],
            mechanism=[_MECHANISM],
            recipe=Recipe(script([f"projection = {made}"])),
            intervals="estimates of distances have standard errors of their own",
        )

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
            "matrix_integers": None if self._matrix_integers is None else self._matrix_integers.tolist(),
            "noise_std": self.noise_std,
            "noise_units": self.noise_units,
            "privacy": self.privacy.to_dict(),
            "adversary": self.adversary,
            "calibration": self.calibration,
            "secure": self.secure,
            "ordered": self.ordered,
            "options": {} if self.people is None else self.people.to_dict(),
        }

    def to_json(self) -> str:
        """Everything but the values, as JSON."""
        return json_codec.dump(self.to_dict())

    def save(self, path: str | Path) -> None:
        """Write values and metadata to one Parquet file, atomically; `Projection.load` reads it back."""
        with ProjectionWriter(Path(path), self.k) as writer:
            writer.write(self.value)
            writer.finish(self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> Projection:
        """A projection that `save` or project(..., output=) wrote; values stay in the file until asked for."""
        return load_projection(Path(path))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Projection) or contents(self.to_dict()) != contents(other.to_dict()):
            return self is other
        return np.array_equal(self.value, other.value)

    def __hash__(self) -> int:
        return hash(contents(self.to_dict()))

    def document(self, most: int | None = None) -> Document:
        unit = "row" if self.people is None else "person"
        what = many(self.n, "row") if self.people is None else f"{self.n:,} people"
        facts = [
            ("Privacy", f"{describe_guarantee(self.privacy, self._stated)}; {self.adversary} adversary"),
            ("Numbers", f"{self.k} for each {unit}" + ("" if self.path is None else f", in {self.path}")),
            *people_facts(self.people),
            *([] if self.ordered else [("Order", "of their own: it says nothing about the data")]),
            ("Noise", f"standard deviation {self.noise_std:.6g} in every number, {self.region.metric} metric"),
            ("Verdict", self.forecast().verdict),
        ]
        title = f"Private projection of {what} of {many(self.d, 'column')} to {many(self.k, 'number')}"
        return Document(title, [], [*facts, *insecure_facts(self.secure)])


# From files: what a loaded projection shows is checked against what follows from its own numbers ---------


def load_projection(path: Path) -> Projection:
    """Inverse of `Projection.save`; values stay in the file until asked for."""
    projection, std = _from_dict(json_codec.parse(read_metadata(path)), path)
    _check_size(projection, path)
    _check_matrix(projection)
    _check_noise(projection)
    if not math.isclose(projection.noise_std, std, rel_tol=_NEAR):
        raise UsageError(_DOCTORED)
    return projection


def _from_dict(saved: Any, path: Path) -> tuple[Projection, float]:
    """The projection, and the noise std that it shows."""
    other = f"not a projection of format {FORMAT}. It may come from another version of ellipsum."
    with json_codec.Fields(saved, _WRONG) as fields:
        fields.check_format(FORMAT, other)
        adversary = fields.take("adversary", json_codec.word(*ADVERSARIES))
        spent: json_codec.Kind[Any] = ProjectionPrivacy.from_dict if adversary == "oblivious" else Privacy.from_dict
        projection = Projection(
            region=fields.take("region", ProjectionRegion.from_dict),
            k=fields.take("k", json_codec.integer(1, MOST_COLUMNS)),
            privacy=fields.take("privacy", spent),
            noise_units=fields.take("noise_units", json_codec.number),
            adversary=adversary,
            calibration=fields.take("calibration", json_codec.word(*CALIBRATIONS)),
            secure=fields.take("secure", json_codec.flag),
            matrix_seed=fields.maybe("matrix_seed", json_codec.text),
            n=fields.take("n", COUNT),
            columns=fields.maybe("columns", json_codec.names),
            path=path,
            ordered=fields.take("ordered", json_codec.flag, True),
            people=fields.take("options", people_from_dict, None),
            _matrix_integers=fields.maybe("matrix_integers", _INTEGERS),
        )
        return projection, fields.take("noise_std", json_codec.number)


def _check_size(projection: Projection, path: Path) -> None:
    names("columns", projection.columns, projection.d)
    if read_shape(path) != (projection.n, projection.k) or projection.privacy.unit != unit_of(projection.people):
        raise UsageError(_DOCTORED)
    if projection.ordered and projection.people is not None:
        raise UsageError("people have no order in a projection [J9]. It was changed after it was made.")


def _check_matrix(projection: Projection) -> None:
    """One matrix, of the projection's size; a guarantee over its draw needs one that was drawn."""
    if (projection.matrix_seed is None) == (projection._matrix_integers is None):
        raise UsageError(_DOCTORED)
    if projection.matrix_seed is not None:
        as_seed(projection.matrix_seed)
    elif (
        projection.adversary == "oblivious"
        or projection._matrix_integers is None
        or projection._matrix_integers.shape != (projection.region.width, projection.k)
    ):
        raise UsageError(_DOCTORED)


def _check_noise(projection: Projection) -> None:
    """The noise is what the guarantee needs, and no more [J1][J2][J6]."""
    privacy, region = projection.privacy, projection.region
    if isinstance(privacy, ProjectionPrivacy):
        valid = privacy.k == projection.k and privacy.excess >= matrix_excess(region.width)
        needed, least = oblivious_noise(region, privacy), 1.0
    else:
        valid = privacy.slack == 0 and privacy.neighbors == "replace" and privacy.mu > 0
        needed, least = _adaptive(projection) if valid else math.inf, 1 - _NEAR
    if not valid or not needed * least <= projection.noise_units <= needed * (1 + _NEAR):
        raise UsageError(_DOCTORED)


def _adaptive(projection: Projection) -> float:
    integers = projection._matrix_integers
    if integers is None:
        assert projection.matrix_seed is not None
        integers = draw_matrix(as_seed(projection.matrix_seed), projection.region.width, projection.k)
    assert isinstance(projection.privacy, Privacy)
    return adaptive_noise(projection.region, projection.privacy, spectral_norm_upper(integers))
