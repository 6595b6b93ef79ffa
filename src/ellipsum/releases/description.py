"""Count, mean and standard deviation of every column, from one release: squares stand beside the values.

docs/proofs/squares.md: [S11] what squares cost, [D1] standard deviations and their intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..display.document import Document, TextTable, make_table
from ..display.wording import INSECURE, LEVEL, SHOWN, format_interval, format_number, many
from ..errors import Floats, UsageError, choice, open_unit, shown
from ..noise.block_law import BlockLaw
from ..noise.law import normal_multiple
from ..row_maps.maps import ClampedMap
from . import documents
from .base import StatisticRelease, VectorRelease, import_pandas, is_of_population
from .decode import in_doubt
from .release import Release

if TYPE_CHECKING:
    import pandas

    from ..display.plots.strips import Sheet

STATED = ("count", "mean", "std")
_CORRELATED = 6  # Columns in a table of correlations.


class Described(VectorRelease):
    """Counts and standard deviations beside the means of one vector, or of many groups.

    `value` and its intervals are those of the means. Standard deviations are those of the population, for values
    clamped to their bounds. They are computed in units of half a column's width, from the middle of its bounds.
    """

    @property
    def count(self) -> Floats:
        """The number of non-missing values of each column: noisy and at least 0, or n if no value can be missing."""
        return np.maximum(self.decoded.counts.rows, 0.0)  # [U10]

    @cached_property
    def squares(self) -> Floats:
        """[D1] Noisy mean squares of the columns: 1 - T / N, where T is the noisy sum of 1 - y^2 behind the counts."""
        plan = self.vector_plan
        units = plan.auxiliary.squares.astype(float)
        start = plan.ellipsoid.width + plan.auxiliary.counted
        sums = np.ldexp(self.noisy[..., start : start + units.size], plan.grid_bits)
        live = units > 0
        return np.where(live, 1 - sums / np.where(live, units, 1.0) / np.maximum(self.count, 1.0), 0.0)

    @property
    def mean(self) -> Floats:
        return self.value

    @property
    def std(self) -> Floats:
        """Population standard deviations; 0 where noise leaves nothing."""
        return self._roots * self._half

    @property
    def std_error(self) -> Floats:
        """Root mean square error of each std to first order; near 0, the root of the error of the variance."""
        spread, shift = self._variance_stds
        variance = np.clip(self._variances, 0.0, 1.0)
        return (np.sqrt(variance + np.hypot(spread, shift**2)) - np.sqrt(variance)) * self._half

    @cached_property
    def _half(self) -> Floats:
        """Half of each column's width on the grid, but no more than that of its bounds."""
        plan = self.vector_plan
        lower, upper = plan.rows.bounds()
        assert isinstance(plan.row_map, ClampedMap)
        widths: Floats = np.ldexp(plan.row_map.limits.astype(float), -plan.grid_bits) * plan.ellipsoid.unscale
        return np.minimum(widths, (upper - lower) / 2)

    @cached_property
    def _unit(self) -> Floats:
        return np.where(self._half > 0, self._half, 1.0)

    @cached_property
    def _offsets(self) -> Floats:
        """Distances of the means from the middle."""
        return np.where(self._half > 0, (self.value - self.vector_plan.ellipsoid.center) / self._unit, 0.0)

    @cached_property
    def _variances(self) -> Floats:
        """Variances; noise may make them negative."""
        return np.minimum(self.squares - self._offsets**2, 1.0)

    @property
    def _roots(self) -> Floats:
        """Population standard deviations; 0 where noise leaves nothing."""
        return np.sqrt(np.clip(self._variances, 0.0, 1.0))

    @cached_property
    def _variance_stds(self) -> tuple[Floats, Floats]:
        """[D1] The std of a variance's noise to first order, and that of the offset, whose square is the next order."""
        values, doubt = self._value_stds
        row_stds, offset = self.decoded.counts.stds, self._offsets
        lever = 1 - self.squares + 2 * offset**2
        spread = np.sqrt(self.vector_plan.square_stds**2 + (2 * offset * values) ** 2 + (lever * row_stds) ** 2)
        return spread * doubt, np.hypot(values, offset * row_stds) * doubt

    @cached_property
    def _value_stds(self) -> tuple[Floats, Floats]:
        """Stds of the noise of sums, and 1 / rows, widened where the number of rows is in doubt."""
        rows = np.maximum(self.count, 1.0)
        ellipsoid, std = self.vector_plan.noise_base
        doubt = np.sqrt(1 + 3 * np.minimum(self.decoded.counts.stds / rows, 1.0) ** 2) / rows
        return ellipsoid.reach * std / self._unit, doubt

    def _multiples(self, level: float) -> Floats:
        """Half-widths in stds, one per column: the largest of all coordinates that its estimates are made of."""
        plan, law = self.vector_plan, self.vector_plan.noise_law
        many: Floats = plan.multiples(level)
        if not isinstance(law, BlockLaw):
            return many
        start = plan.ellipsoid.width + plan.auxiliary.counted
        squares = law.multiples(plan.stds.size, level)[start : start + plan.d]
        largest: Floats = np.maximum(np.maximum(many, squares), law.sum_multiple(level))
        return largest

    def _root_bounds(self, many: Floats) -> Floats:
        """[D1] Ends of intervals of `_roots`; many: their half-widths in stds, one per column.

        Noise of the mean lowers a variance by its square and never raises it, so the lower end is further away.
        """
        spread, shift = self._variance_stds
        reach = many * spread + (many * shift) ** 2
        low, high = self._variances - reach, np.maximum(self._variances, 0.0) + reach
        few = in_doubt(self.count, self.decoded.counts.stds)
        ends = np.stack([np.where(few, 0.0, low), np.where(few, 1.0, high)], axis=-1)
        spans: Floats = np.sqrt(np.clip(ends, 0.0, 1.0))
        return spans

    def confidence_interval(self, level: float = LEVEL, of: str = "mean", *, target: str = "data") -> Floats:
        """(..., d, 2) bounds for the "count", "mean" or "std" of each column, each covering its own at `level`.

        target: "data" is the statistic of the rows at hand. "population" is the mean of a population of which the rows
        are a random sample [D3].
        """
        kind = choice("of", of, STATED)
        if is_of_population(target, self.plan.people):
            if kind != "mean":
                raise UsageError(f"target='population' is for means and quantiles, not for {kind}. Leave it out.")
            return self._population_interval(open_unit("level", level))
        if kind == "mean":
            return super().confidence_interval(level)
        many = self._multiples(open_unit("level", level))
        if kind == "std":
            return self._root_bounds(many) * self._half[:, None]
        most = float(self.vector_plan.n or 0) if self.vector_plan.public_rows else np.inf
        reach = many * self.decoded.counts.stds
        return np.clip(np.stack([self.count - reach, self.count + reach], axis=-1), 0.0, most)

    def _population_interval(self, level: float) -> Floats:
        """[D3] The release's own half-width, and the sampling error of the largest std that the noise allows."""
        largest, multiple = self.confidence_interval(level, "std")[..., 1], normal_multiple(level)
        rows = np.maximum(self.count - multiple * self.decoded.counts.stds, 1.0)
        half = np.hypot(self.half_widths(level), multiple * largest / np.sqrt(rows))
        return np.stack([np.clip(self.raw_value + end, *self._possible_range) for end in (-half, half)], axis=-1)

    def to_dict(self) -> dict[str, Any]:
        bounds = {name: self.confidence_interval(LEVEL, name).tolist() for name in ("count", "std")}
        section = {"count": self.count.tolist(), "std": self.std.tolist(), "std_error": self.std_error.tolist()}
        return {**super().to_dict(), "describe": {**section, "interval": {"level": LEVEL, **bounds}}}


@dataclass(frozen=True, repr=False)
class Description(Described, Release):
    """Count, mean and standard deviation of every column, and covariances where they were asked for."""

    @cached_property
    def products(self) -> Floats | None:
        """[D2] Noisy mean products of all pairs of columns (0, 1), (0, 2), ...; None without covariance=True."""
        plan, auxiliary = self.plan, self.plan.auxiliary
        if not auxiliary.products:
            return None
        start = plan.ellipsoid.width + auxiliary.width - auxiliary.pairs
        rows = max(float(self.count[0]), 1.0)  # Rows are complete, so every column has the same number of values.
        sums = np.ldexp(self.noisy[start : start + auxiliary.pairs], plan.grid_bits)
        means: Floats = sums / auxiliary.products / rows
        return means

    @property
    def covariance(self) -> Floats:
        """(d, d) population covariances, variances on the diagonal."""
        matrix = np.diag(self._roots**2) + _symmetric(self._covariances, self._half.size)
        return np.asarray(matrix * np.outer(self._half, self._half))

    @property
    def correlation(self) -> Floats:
        """(d, d) correlations; 0 for a column whose standard deviation is 0."""
        root = self._roots
        first, second = np.triu_indices(root.size, 1)
        scale = root[first] * root[second]
        pairs = np.where(scale > 0, self._covariances / np.where(scale > 0, scale, 1.0), 0.0)
        return _symmetric(np.clip(pairs, -1.0, 1.0), root.size) + np.eye(root.size)

    @property
    def _covariances(self) -> Floats:
        """Covariances of all pairs, in units of the half-widths."""
        if self.products is None:
            raise UsageError("This release has no covariances. Use es.describe(..., covariance=True).")
        first, second = np.triu_indices(self.value.size, 1)
        return self.products - self._offsets[first] * self._offsets[second]

    def correlation_interval(self, level: float = LEVEL) -> Floats:
        """(d, d, 2) bounds for the correlations, each covering its own at `level`; [-1, 1] where a std may be 0.

        [D2] A covariance and two stds lie within intervals of their own; the bounds are the extremes of their ratio.
        """
        covariances, d = self._covariances, self.value.size
        many = self._multiples(1 - (1 - open_unit("level", level)) / 3)
        spans, reach = self._root_bounds(many), self._covariance_reach(many)
        first, second = np.triu_indices(d, 1)
        least, most = (spans[first] * spans[second]).T
        ends = []
        for end, sign in ((covariances - reach, -1.0), (covariances + reach, 1.0)):
            scale = np.where(sign * end > 0, least, most)
            pairs = np.where(scale > 0, end / np.where(scale > 0, scale, 1.0), sign)
            ends.append(_symmetric(np.clip(pairs, -1.0, 1.0), d) + np.eye(d))
        return np.stack(ends, axis=-1)

    def _covariance_reach(self, many: Floats) -> Floats:
        """[D2] The largest effect of noise on each covariance: to first order, and the product of two means' errors."""
        assert self.products is not None
        first, second = np.triu_indices(self.value.size, 1)
        values, doubt = self._value_stds
        one, other = self._offsets[first], self._offsets[second]
        counts = (self.products - 2 * one * other) * self.decoded.counts.stds[first]
        parts = self.plan.product_std**2 + (one * values[second]) ** 2 + (other * values[first]) ** 2 + counts**2
        shift = many * self._variance_stds[1]
        reach: Floats = many[first] * np.sqrt(parts) * doubt[first] + shift[first] * shift[second]
        return reach

    def denoise(self, method: str, **options: Any) -> Release:
        raise UsageError(
            "denoise is for sums and means: the standard deviations would not match denoised means. Use es.mean."
        )

    def to_dict(self) -> dict[str, Any]:
        fields = super().to_dict()
        if self.products is not None:
            fields["describe"]["correlation"] = self.correlation.tolist()
            fields["describe"]["interval"]["correlation"] = self.correlation_interval(LEVEL).tolist()
        return fields

    def statistics(self) -> dict[str, Floats]:
        """The published statistics of every column, by name."""
        return {name: getattr(self, name) for name in STATED}

    def to_pandas(self) -> pandas.DataFrame:
        """A column for each column of the data, and a row for each statistic, laid out as by pandas' `describe`."""
        return self._with_facts(frame_of_statistics(self, self.statistics()))

    def sheet(self, order: str = "given", columns: Sequence[str] | None = None) -> Sheet:
        from .pictures import vector_sheet

        mean = self.value, self.confidence_interval(LEVEL, "mean"), self.standard_error
        std = self.std, self.confidence_interval(LEVEL, "std"), self.std_error
        title = f"mean and standard deviation of {many(self.value.size, 'column')}"
        return vector_sheet(self, title, {"mean": mean, "std": std}, order, columns)

    def document(self, most: int | None = None) -> Document:
        return self._document(list(self._tables(most or SHOWN)), [("Std", documents.POPULATION)])

    def _tables(self, most: int) -> Iterator[TextTable]:
        means, stds = (self.confidence_interval(LEVEL, name) for name in ("mean", "std"))
        lines = []
        for j, name in enumerate(self.names(most)):
            mean, std = self.standard_error[j], self.std_error[j]
            lines.append([
                shown(name), documents.format_count(float(self.count[j]), float(self.decoded.counts.stds[j])),
                format_number(float(self.value[j]), float(mean)), format_interval(means[j], mean),
                format_number(float(self.std[j]), float(std)), format_interval(stds[j], std),
            ])  # fmt: skip
        yield make_table(["column", "count", "mean", "95% CI", "std", "95% CI"], lines, self.value.size)
        if self.products is not None:
            names = [shown(name) for name in self.names(_CORRELATED)]
            matrix = self.correlation
            cells = [[name, *(f"{matrix[i, j]:.3f}" for j in range(len(names)))] for i, name in enumerate(names)]
            yield make_table(["correlation", *names], cells, self.value.size)


def _symmetric(pairs: Floats, d: int) -> Floats:
    """The matrix of all pairs of d columns, with a diagonal of zeros."""
    matrix = np.zeros((d, d))
    matrix[np.triu_indices(d, 1)] = pairs
    return matrix + matrix.T


def frame_of_statistics(release: StatisticRelease, rows: Mapping[str, Floats]) -> pandas.DataFrame:
    """A pandas frame with a row for each statistic; the name of its columns says if the noise is not secure."""
    pandas = import_pandas()
    columns = pandas.Index(release.names(), name=None if release.secure else INSECURE)
    return pandas.DataFrame(list(rows.values()), index=list(rows), columns=columns)
