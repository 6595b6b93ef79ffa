"""A projection: n rows of k private numbers, estimates from them, and how it is saved.

Estimates [J8]: with noise std s, y = v P + g and P of N(0, 1/k) entries, every number of y_i - y_j is
N(0, ‖v_i - v_j‖^2/k + 2 s^2), independent of the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
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
from .forecast import ADVERSARIES, ProjectionForecast, ProjectionRegion, adaptive_noise, noise_std_of, oblivious_noise
from .matrix import as_seed, draw_matrix, matrix_excess, spectral_norm_upper, unit
from .parquet import ProjectionWriter, read_metadata, read_rows, read_shape


@dataclass(frozen=True)
class Estimates:
    """Estimates with standard errors, for the clipped rows, over the draw of matrix and noise together.

    Squares (distances, norms) are a scaled chi-square with k degrees of freedom less a constant, so their intervals are
    exact. Those of inner products are normal approximations, good from about k = 30.
    """

    value: Floats
    standard_error: Floats
    raw: Floats | None = None
    """The squared lengths before the expected noise is subtracted."""
    k: int = 0

    def confidence_interval(self, level: float = 0.95) -> Floats:
        """(pairs, 2) bounds, each covering its own true value at `level`; squares are at least 0."""
        from scipy.special import chdtri, ndtri

        tail = (1 - open_unit("level", level)) / 2
        if self.raw is None:
            half = float(ndtri(1 - tail)) * self.standard_error
            return np.stack([self.value - half, self.value + half], axis=1)
        offset = self.raw - self.value
        ends = [self.k * self.raw / float(chdtri(self.k, p)) - offset for p in (tail, 1 - tail)]
        return np.maximum(np.stack(ends, axis=1), 0.0)


def _check_rows(rows: object, n: int, name: str = "rows") -> Ints:
    """Row numbers from 0 to n - 1, of any shape."""
    try:
        array = np.asarray(rows)
    except ValueError:  # Lists of different lengths.
        array = np.empty(0)
    if array.dtype.kind not in "iu" or (array.size and not (0 <= int(array.min()) and int(array.max()) < n)):
        raise UsageError(f"{name} must be row numbers, integers from 0 to {n - 1}.")
    return array.astype(np.int64)


def _estimate_squares(lengths: Floats, k: int, noise_variance: float) -> Estimates:
    """‖v‖^2 from ‖y‖^2, y = v P + noise of the given variance in each number.

    y is N(0, (‖v‖^2/k + variance) I_k), so ‖y‖^2 - k variance is unbiased with variance 2k (...)^2, and
    2‖y‖^4/(k + 2) is an unbiased estimate of that [J8].
    """
    return Estimates(lengths - k * noise_variance, lengths * math.sqrt(2 / (k + 2)), lengths, k)


FORMAT = "ellipsum.projection/1"
_WRONG = "Invalid projection file: a field is missing, unknown or wrong."
_MODIFIED = (
    "Integrity check failed: the noise, guarantee or size of this projection does not match. The file was modified."
)
_INTEGERS = json_codec.table(json_codec.integer(-(1 << 40), 1 << 40), np.int64)
_MECHANISM = "Every row is clipped, multiplied by a public random matrix, and gets Gaussian noise of its own."
_NEAR = 1e-6  # Rounding may change the norm of a matrix by this much.


@dataclass(frozen=True, eq=False, repr=False)
class Projection(Shown):
    """A released projection: n rows of k private numbers, with estimates of distances, norms and inner products.

    All of it may be published. The numbers are those of the clipped rows about the region's center, in the units of
    its metric. `project` makes it, and `load` reads it from a file.

    Parameters
    ----------
    region : ProjectionRegion
        The center, metric and clip radius of the rows.
    k : int
        Numbers per row.
    privacy : ProjectionPrivacy or Privacy
        The privacy guarantee.
    noise_units : float
        Noise standard deviation in units of the integer grid, as proved against the guarantee.
    adversary, calibration, columns, people
        As in `project`.
    secure : bool
        Whether the noise was secret. False for releases with ``rng=``, for testing only.
    matrix_seed : str or None
        The matrix follows from it; None where the caller passed a matrix.
    n : int
        The number of rows, or people.
    path : Path or None
        The Parquet file that holds the values, or None where they are in memory.
    ordered : bool
        Whether row i is the data's row i; otherwise rows come in the order of [J9].

    Notes
    -----
    Privacy proof: [J2], [J6], [J9]. Estimates are unbiased for rows that do not depend on the matrix [J8].

    Examples
    --------
    >>> import numpy as np
    >>> import ellipsum as es
    >>> sketch = es.project(np.zeros((10, 500)), 20, es.Ball(1.0), epsilon=500, delta=1e-6)
    >>> sketch.squared_distances([(0, 1), (2, 3)]).confidence_interval(0.95).shape
    (2, 2)
    """

    region: ProjectionRegion
    k: int
    privacy: ProjectionPrivacy | Privacy
    noise_units: float
    adversary: str
    calibration: str
    secure: bool
    matrix_seed: str | None
    n: int
    columns: tuple[str, ...] | None = None
    path: Path | None = None
    ordered: bool = True
    people: People | None = None
    _values: Floats | None = field(default=None)
    _matrix_integers: Ints | None = field(default=None)

    @property
    def value(self) -> Floats:
        """(n, k) projected rows; read from the file if there is one."""
        if self._values is not None:
            return self._values
        assert self.path is not None
        return read_rows(self.path, None)

    @property
    def d(self) -> int:
        return int(self.region.center.size)

    @cached_property
    def matrix(self) -> Floats:
        """The public matrix: one row for each column of the data (or axis of the metric), k columns."""
        return np.asarray(self._integers() * unit(self.k), np.float64)

    def _integers(self) -> Ints:
        if self._matrix_integers is not None:
            return self._matrix_integers
        assert self.matrix_seed is not None
        return draw_matrix(as_seed(self.matrix_seed), self.region.width, self.k)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise in every number, in the units of the metric."""
        return noise_std_of(self.region, self.k, self.noise_units)

    def rows(self, numbers: object) -> Floats:
        """Projected rows by their numbers (from zero), in this order."""
        selected = _check_rows(numbers, self.n)
        if self._values is not None:
            return self._values[selected]
        assert self.path is not None
        return read_rows(self.path, selected)

    def squared_distances(self, pairs: object) -> Estimates:
        """Squared distances of pairs of rows, shape (m, 2) or one pair; exactly 0 for a row and itself [J8]."""
        first, second, same = self._ends(pairs)
        lengths = np.sum((first - second) ** 2, axis=1)
        estimates = _estimate_squares(lengths, self.k, 2 * self.noise_std**2)
        return replace(estimates, value=np.where(same, 0.0, estimates.value), raw=np.where(same, 0.0, lengths))

    def inner_products(self, pairs: object, about: str = "center") -> Estimates:
        """Inner products of pairs of rows, as offsets from the center, or with about="origin" from the origin [J8].

        With a, b the variances of their numbers and c the covariance, Var <y_i, y_j> = k (a b + c^2). The standard
        error takes the unbiased estimate of it from ‖y_i‖^2 ‖y_j‖^2 and <y_i, y_j>^2.
        """
        first, second, same = self._ends(pairs)
        shift, k = self._shift(about), self.k
        first, second = first + shift, second + shift
        raw = np.sum(first * second, axis=1)
        lengths = np.sum(first**2, axis=1) * np.sum(second**2, axis=1)
        # For k = 1 there is no unbiased estimate: this one is too large by the squared inner product.
        variance = lengths if k == 1 else (k * lengths + (k - 2) * raw**2) / ((k + 2) * (k - 1))
        variance = np.where(same, 2 * raw**2 / (k + 2), variance)
        return Estimates(raw - np.where(same, k * self.noise_std**2, 0.0), np.sqrt(variance))

    def squared_norms(self, rows: object = None, about: str = "center") -> Estimates:
        """Squared lengths of rows (by default all), about the center or the origin [J8]."""
        vectors = self.value if rows is None else np.atleast_2d(self.rows(rows))
        return _estimate_squares(np.sum((vectors + self._shift(about)) ** 2, axis=1), self.k, self.noise_std**2)

    def _ends(self, pairs: object) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        selected = np.atleast_2d(_check_rows(pairs, self.n, "pairs"))
        if selected.ndim != 2 or selected.shape[1] != 2:
            raise UsageError("pairs must be a list of (row, row) numbers, shape (m, 2).")
        numbers, where = np.unique(selected, return_inverse=True)
        vectors, places = self.rows(numbers), where.reshape(selected.shape)
        return vectors[places[:, 0]], vectors[places[:, 1]], selected[:, 0] == selected[:, 1]

    def _shift(self, about: str) -> Floats | float:
        """The projection of the center, or 0."""
        choice("about", about, ("center", "origin"))
        return self.region.measured_center() @ self.matrix if about == "origin" else 0.0

    def forecast(self) -> ProjectionForecast:
        """The expected errors of this projection."""
        return ProjectionForecast(
            self.n, self.d, self.k, self.region.radius, self.noise_std, self.adversary, self.calibration
        )

    def plot(self, path: str | Path | None = None) -> Any:  # type: ignore[override]
        """A matplotlib figure of the standard error of squared distances, written to a file if a path is given."""
        what = "rows" if self.people is None else "people"
        return self.forecast().plot(f"Distances of {self.n} {what}, {self.k} numbers each", path)

    @property
    def _stated(self) -> dict[str, float]:
        """The requested budget, epsilon rounded up, where the guarantee has a curve of its own."""
        if isinstance(self.privacy, Privacy):
            return {}
        delta = self.privacy.stated_delta
        return {"epsilon": float(format_up(self.privacy.epsilon(delta))), "delta": delta}

    def background(self) -> Background:
        options = {"adversary": repr(self.adversary), "calibration": repr(self.calibration)}
        made = call("project", ["data", str(self.k), "rows", "epsilon=...", "delta=..."], options)
        return Background(
            privacy=self.privacy,
            stated=self._stated,
            secure=self.secure,
            people=self.people,
            origin=[f"The caller chose the region of the rows. {BEFOREHAND}"],
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
        """Read a projection that `save` or project(..., output=) wrote; values stay in the file until needed."""
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
            *([] if self.ordered else [("Order", "does not depend on the order of the data")]),
            ("Noise", f"standard deviation {self.noise_std:.6g} in every number, {self.region.metric} metric"),
            ("Verdict", self.forecast().verdict),
        ]
        title = f"Private projection of {what} of {many(self.d, 'column')} to {many(self.k, 'number')}"
        return Document(title, [], [*facts, *insecure_facts(self.secure)])


# From files: a loaded projection is checked against what follows from its own numbers -----------------


def load_projection(path: Path) -> Projection:
    """Inverse of `Projection.save`; values stay in the file until they are needed."""
    other = f"Not a projection of format {FORMAT}. It may come from another version of ellipsum."
    with json_codec.Fields(json_codec.parse(read_metadata(path)), _WRONG) as fields:
        fields.check_format(FORMAT, other)
        adversary = fields.take("adversary", json_codec.word(*ADVERSARIES))
        read_privacy: json_codec.Kind[ProjectionPrivacy | Privacy] = Privacy.from_dict
        if adversary == "oblivious":
            read_privacy = ProjectionPrivacy.from_dict
        projection = Projection(
            region=fields.take("region", ProjectionRegion.from_dict),
            k=fields.take("k", json_codec.integer(1, MOST_COLUMNS)),
            privacy=fields.take("privacy", read_privacy),
            noise_units=fields.take("noise_units", json_codec.number),
            adversary=adversary,
            calibration=fields.take("calibration", json_codec.word(*CALIBRATIONS)),
            secure=fields.take("secure", json_codec.flag),
            matrix_seed=fields.maybe("matrix_seed", json_codec.text),
            n=fields.take("n", COUNT),
            columns=fields.maybe("columns", json_codec.names),
            path=path,
            ordered=fields.take("ordered", json_codec.flag),
            people=fields.take("options", people_from_dict),
            _matrix_integers=fields.maybe("matrix_integers", _INTEGERS),
        )
        std = fields.take("noise_std", json_codec.number)
    names("columns", projection.columns, projection.d)
    is_whole = read_shape(path) == (projection.n, projection.k) and _has_valid_matrix(projection)
    has_unit = projection.privacy.unit == unit_of(projection.people)
    if not is_whole or not has_unit or (projection.ordered and projection.people is not None):
        raise UsageError(_MODIFIED)
    if not _has_valid_noise(projection) or not math.isclose(projection.noise_std, std, rel_tol=_NEAR):
        raise UsageError(_MODIFIED)
    return projection


def _has_valid_matrix(projection: Projection) -> bool:
    """Whether there is one matrix of the right size. A guarantee over the draw of the matrix needs a drawn matrix."""
    integers = projection._matrix_integers
    if projection.matrix_seed is not None:
        as_seed(projection.matrix_seed)
        return integers is None
    width, k = projection.region.width, projection.k
    return integers is not None and integers.shape == (width, k) and projection.adversary != "oblivious"


def _has_valid_noise(projection: Projection) -> bool:
    """Whether the noise is what the guarantee needs, and not more [J1][J2][J6]."""
    privacy, region = projection.privacy, projection.region
    if isinstance(privacy, ProjectionPrivacy):
        is_valid = privacy.k == projection.k and privacy.excess >= matrix_excess(region.width)
        needed, least = oblivious_noise(region, privacy), 1.0
    else:
        is_valid = privacy.slack == 0 and privacy.neighbors == "replace" and privacy.mu > 0
        norm = spectral_norm_upper(projection._integers())
        needed, least = adaptive_noise(region, privacy, norm) if is_valid else math.inf, 1 - _NEAR
    return is_valid and needed * least <= projection.noise_units <= needed * (1 + _NEAR)
