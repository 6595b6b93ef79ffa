"""Releases of quantiles: noisy distribution functions, with quantiles, shares, intervals and bands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..display.checklist import BEFOREHAND
from ..display.document import Background, Document, TextTable, make_table
from ..display.wording import (
    LEVEL,
    QUANTILE_MECHANISMS,
    SHOWN,
    describe_guarantee,
    describe_missing,
    describe_size,
    format_interval,
    format_number,
    insecure_facts,
    many,
    people_facts,
)
from ..errors import Floats, UsageError, floats, listing, open_unit, shown, vector
from ..request.groups import Value
from ..request.quantiles import Quantiles
from ..util import json_codec
from . import documents
from .base import DOCTORED, StatisticRelease, is_of_population
from .clipping_bias import list_columns
from .distribution_estimates import (
    Decoder,
    QuantileNumbers,
    band_of,
    decoder,
    increasing_shares,
    interval_of,
    multiple_of,
    quantile_of,
    share_at,
)
from .group_release import check_keys, keys_to_dict, table_of_numbers, take_table

if TYPE_CHECKING:
    import pandas

    from .pictures import DistributionCurve

_POINTS_ONLY = (
    "method='exponential' releases points only. Use method='cdf' for intervals, bands and the distribution function."
)
_COVERAGE = "covers privacy noise, ties and the width of bins; excludes sampling error and values outside the bounds"
_FREE = "further quantiles and shares, by .quantile(q) and .cdf(x), cost nothing"
_EXACT = "Values are counted in bins that were fixed beforehand, exactly, and noise is rounded correctly, once."


@dataclass(frozen=True, repr=False)
class QuantileRelease(StatisticRelease):
    """Published quantiles of every column; with `by`, of every group.

    All numbers are computed from the noisy sums and public numbers, so further quantiles have no privacy cost.
    """

    plan: QuantileNumbers
    noisy: Floats
    """(groups, width): the noisy sums of every column's matrix, or the positions of chosen bins. One row without by."""
    secure: bool
    keys: NDArray[np.object_] | None = None
    """(groups, columns of by), or None without by."""
    kinds: tuple[str, ...] = ()
    """The types of the columns of the keys."""

    @property
    def q(self) -> Floats:
        """The requested probabilities."""
        return np.array(self.plan.quantiles.q)

    @property
    def noise_std(self) -> Floats:
        """(columns, quantiles): the largest root mean square error of a quantile's rank, in rows."""
        errors: Floats = self.plan.rank_error
        return errors

    # Estimates -------------------------------------------------------------------

    @cached_property
    def value(self) -> Floats:
        """(columns, quantiles); with by, (groups, columns, quantiles)."""
        if self.plan.mechanism != "exponential":
            return self.quantile(self.plan.quantiles.q)
        places = self.noisy.astype(np.int64).reshape(len(self.noisy), self.plan.d, self.q.size)
        middles = [
            edges[1:] if self.plan.quantiles.are_values(edges) else edges[:-1] / 2 + edges[1:] / 2
            for edges in self.plan.edges
        ]
        return self._shaped(np.stack([middle[places[:, j]] for j, middle in enumerate(middles)], axis=1))

    def quantile(self, q: float | Sequence[float]) -> Floats:
        """Quantiles at any probabilities, at no privacy cost: (columns, quantiles) or (groups, columns, quantiles)."""
        probabilities = np.array(Quantiles.of(q).q)
        return self._each(lambda j, g: quantile_of(*self._distribution(j, g), probabilities, self._are_values[j]))

    def cdf(self, x: ArrayLike) -> Floats:
        """The share of values at most x for any numbers x, at no privacy cost: (columns, numbers), or (groups, ...)."""
        numbers = vector("x", np.atleast_1d(floats("x", x)))
        return self._each(lambda j, g: share_at(*self._distribution(j, g), numbers, self._are_values[j]))

    def confidence_interval(
        self, level: float = LEVEL, q: float | Sequence[float] | None = None, *, target: str = "data"
    ) -> Floats:
        """(columns, quantiles, 2) bounds, each covering its quantile at `level`; with by, (groups, ...).

        They cover the privacy noise, ties and the width of bins. Quantiles are those of values clamped to the bounds
        [Q13]. q: probabilities; default: the requested ones. target: "data" is the quantile of the rows at hand,
        "population" that of a population of which the rows are a random sample [Q17].
        """
        multiple = self._multiple(open_unit("level", level))
        probabilities = self.plan.quantiles.q if q is None else Quantiles.of(q).q
        is_population = is_of_population(target, self.plan.people)

        def bounds(j: int, g: int) -> Floats:
            edges, counts, noise = self.plan.edges[j], self._counts[j][g], self._noise(j)
            return np.array([
                interval_of(edges, counts, noise, p, multiple, self._are_values[j], is_population)
                for p in probabilities
            ])  # fmt: skip

        return self._each(bounds)

    def band(self, level: float = LEVEL) -> list[Floats] | list[list[Floats]]:
        """Confidence bands for the whole distribution function of each column at `level`: (edges, 3) arrays.

        Each row has a number x, and the least and the greatest share of values at most x [Q14]. With by, there is
        such a list for each group.
        """
        level = open_unit("level", level)

        def band(j: int, g: int) -> Floats:
            inner = self.plan.edges[j][1:-1]
            multiple = self._multiple(1 - (1 - level) / inner.size)
            return np.column_stack([inner, band_of(self._counts[j][g], self._noise(j), multiple)])

        bands = [[band(j, g) for j in range(self.plan.d)] for g in range(len(self.noisy))]
        return bands[0] if self.keys is None else bands

    @cached_property
    def counts(self) -> Floats:
        """(columns,) noisy numbers of non-missing values; with by, (groups, columns)."""
        return self._each(lambda j, g: self._counts[j][g][-1])

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why values or intervals may be inaccurate, according to the noisy counts."""
        if self.plan.mechanism == "exponential":
            return ()
        stds = np.array([self.plan.noise_std * np.sqrt(self._decoder(j).variances[-1]) for j in range(self.plan.d)])
        few = self.counts < 4 * stds
        if not few.any():
            return ()
        columns = np.asarray(few.reshape(-1, self.plan.d).any(axis=0))
        noun, where = (
            "Column" if np.count_nonzero(columns) == 1 else "Columns",
            "" if self.keys is None else " of groups",
        )
        return (
            f"{noun} {list_columns(self.plan, columns)}{where}: hardly more values than the noise of their count, so "
            "intervals are wide. Check whether the values are numbers.",
        )

    @cached_property
    def _are_values(self) -> list[bool]:
        return [self.plan.quantiles.are_values(edges) for edges in self.plan.edges]

    def _decoder(self, j: int) -> Decoder:
        return decoder(self.plan.form, self.plan.sizes[j])

    def _noise(self, j: int) -> Decoder:
        """The decoder, with variances for the noise of this release."""
        one, square = self._decoder(j), self.plan.noise_std**2
        return one._replace(variances=one.variances * square, covariances=one.covariances * square)

    @cached_property
    def _counts(self) -> list[Floats]:
        """The cumulative counts of every group, (groups, bins) for each column [Q12]."""
        if self.plan.mechanism == "exponential":
            raise UsageError(_POINTS_ONLY)
        decoders = [self._decoder(j) for j in range(self.plan.d)]
        ends = np.cumsum([one.weights.shape[1] for one in decoders])
        parts = np.split(self.noisy, ends[:-1], axis=1)
        return [part @ one.weights.T for part, one in zip(parts, decoders, strict=True)]

    def _distribution(self, j: int, g: int) -> tuple[Floats, Floats]:
        """(edges, shares of values at most each edge)."""
        return self.plan.edges[j], increasing_shares(self._counts[j][g])

    def _multiple(self, level: float) -> float:
        return multiple_of(level, self.plan.mechanism == "laplace")

    def _each(self, find: Callable[[int, int], Floats]) -> Floats:
        """Compute a number or an array for every group and column."""
        self._counts  # noqa: B018 (raises an error for the exponential mechanism)
        results = [[find(j, g) for j in range(self.plan.d)] for g in range(len(self.noisy))]
        return self._shaped(np.array(results) if results else np.empty((0, self.plan.d)))

    def _shaped(self, values: Floats) -> Floats:
        return values[0] if self.keys is None else values

    # Showing --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        estimates = {"q": self.q.tolist(), "value": self.value.tolist(), "rank_error": self.noise_std.tolist()}
        fields = self._fields_with(estimates)
        if self.plan.mechanism != "exponential":
            fields["interval"] = {"level": LEVEL, "bounds": self.confidence_interval(LEVEL).tolist()}
        return fields if self.keys is None else {**fields, **keys_to_dict(self.keys, self.kinds)}

    @classmethod
    def own_fields(cls, fields: json_codec.Fields, plan: QuantileNumbers) -> dict[str, Any]:
        if plan.grouping is not None:
            return take_table(fields, plan.width)
        return {"noisy": fields.take("noisy", table_of_numbers)}

    def check(self) -> None:
        """Raise an error unless the plan publishes these groups, and chosen bins exist."""
        plan, noisy = self.plan, self.noisy
        if plan.grouping is not None:
            check_keys(self.keys, self.kinds, noisy, plan.grouping, plan.width)
        elif noisy.shape != (1, plan.width):
            raise UsageError(DOCTORED)
        if plan.mechanism == "exponential":
            most = np.repeat(plan.sizes, self.q.size)
            if not ((noisy >= 0) & (noisy < most) & (noisy == np.rint(noisy))).all():
                raise UsageError(DOCTORED)
        if plan.grouping is not None and plan.grouping.keys is None and not plan.reaches(noisy).all():
            raise UsageError(DOCTORED)

    def lines(self) -> list[tuple[tuple[Value, ...], int, float, float, Floats | None]]:
        """(key, column, q, value, 95% interval) of every quantile; no interval for the exponential mechanism."""
        shape = len(self.noisy), self.plan.d, self.q.size
        values = self.value.reshape(shape)
        spans = None if self.plan.mechanism == "exponential" else self.confidence_interval(LEVEL).reshape(*shape, 2)
        keys = [()] if self.keys is None else [tuple(key) for key in self.keys]
        return [
            (keys[g], j, float(self.q[i]), float(values[g, j, i]), None if spans is None else spans[g, j, i])
            for g, j, i in np.ndindex(shape)
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """One row per column and quantile, and per group: the value and its 95% interval."""
        lines = [
            [*key, self.names()[j], q, value, *([] if span is None else span.tolist())]
            for key, j, q, value, span in self.lines()
        ]
        ends = [] if self.plan.mechanism == "exponential" else ["lower", "upper"]
        return self._frame(lines, columns=[*self.by, "column", "q", "value", *ends])

    def plot(  # type: ignore[override]
        self, path: str | Path | None = None, *, columns: Sequence[str] | None = None, level: float = LEVEL
    ) -> Any:
        """A matplotlib figure: the distribution function of each column with its band, and the requested quantiles.

        path: file to write, .svg, .png or .pdf. columns: those to show; default: the first few.
        """
        from .pictures import distributions_plot

        return distributions_plot(self._curves(columns, level), f"{level:.0%} band", path)

    def svg(self, prefix: str) -> str | None:
        """The figure of `plot` as SVG for a page, or None without matplotlib. prefix: start of its identifiers."""
        from .pictures import distributions_svg

        return distributions_svg(self._curves(None, LEVEL), f"{LEVEL:.0%} band", prefix)

    def _curves(self, columns: Sequence[str] | None, level: float) -> list[DistributionCurve]:
        """The distribution functions of a few columns, or of the first columns of each group."""
        from .pictures import MOST_CURVES, DistributionCurve

        names = self.names()
        unknown = sorted(set(columns or ()) - set(names))
        if unknown:
            raise UsageError(f"The release has no column {listing(unknown)}. Columns: {listing(names)}.")
        bands: Any = [self.band(level)] if self.keys is None else self.band(level)
        titles = [""] if self.keys is None else [", ".join(map(str, key)) + ": " for key in self.keys]
        values = self.value[None] if self.keys is None else self.value
        picked = [names.index(name) for name in columns] if columns else range(len(names))
        is_stepped = self.plan.quantiles.bins == "integer"
        return [
            DistributionCurve(
                f"{titles[g]}{names[j]}",
                self.plan.edges[j],
                share_at(*self._distribution(j, g), self.plan.edges[j], self._are_values[j]),
                bands[g][j],
                values[g, j],
                self.q,
                is_stepped,
            )
            for g, j in list(product(range(len(bands)), picked))[:MOST_CURVES]
        ]

    def document(self, most: int | None = None) -> Document:
        """A line for each quantile of each column."""
        plan = self.plan
        groups = "" if self.keys is None else f" in {many(len(self.keys), 'group')}"
        title = f"Differentially private quantiles of {many(plan.d, 'column')}{groups} ({describe_size(plan)})"
        facts = quantile_facts(plan)
        if plan.mechanism != "exponential":
            facts += [("95% CI", _COVERAGE), ("Free", _FREE)]
        facts += insecure_facts(self.secure)
        warnings = [*([plan.warning] if plan.warning else []), *self.warnings]
        return Document(title, [self.table(most or 3 * SHOWN)], facts, warnings)

    def table(self, most: int) -> TextTable:
        """The first lines, one for each quantile of a column."""
        every, lines = self.lines(), []
        for key, j, q, value, span in every[:most]:
            width = _resolution(self.plan.edges[j], value, span)
            cells = ["(missing)" if cell is None else shown(cell) for cell in key]
            interval = "" if span is None else format_interval(span, width)
            lines.append([*cells, shown(self.names()[j]), f"{q:g}", format_number(value, width), interval])
        heads = [*map(shown, self.by), "column", "quantile", "estimate", "95% CI"]
        return make_table(heads, lines, len(every), what="lines")

    def background(self) -> Background:
        mechanism, is_drawn = self.plan.mechanism, self.plan.mechanism != "exponential"
        return replace(
            super().background(),
            origin=[f"The caller gave bounds and bins for every column. {BEFOREHAND}"],
            mechanism=[_EXACT, f"The mechanism is: {QUANTILE_MECHANISMS[mechanism]}."],
            intervals=_COVERAGE if is_drawn else "",
            picture=self.svg if is_drawn else None,
        )


def quantile_facts(plan: QuantileNumbers) -> documents.Facts:
    """Facts about all columns of a release, or of its plan."""
    sizes, groups = sorted(set(plan.sizes)), plan.grouping
    counted = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    facts = [
        ("Privacy", describe_guarantee(plan.privacy, plan.stated)),
        ("Mechanism", QUANTILE_MECHANISMS[plan.mechanism]),
        *people_facts(plan.people),
        ("Bins", f"{counted} bins in each column"),
    ]
    if groups is not None:
        facts.append(("Groups", documents.describe_groups(groups, plan.threshold if groups.keys is None else 0.0)))
    text = describe_missing(plan.request.missing or "skip", "quantiles")
    if plan.mechanism == "exponential":
        text = text.replace("counts are noisy", "not counted")
    return [*facts, ("Missing", text)]


def _resolution(edges: Floats, value: float, span: Floats | None) -> float:
    """A quarter of the interval, or of the value's bin. Smaller digits carry no information."""
    if span is not None and span[1] > span[0]:
        return float(span[1] - span[0]) / 4
    place = min(max(int(np.searchsorted(edges, value)), 1), edges.size - 1)
    return float(edges[place] - edges[place - 1]) / 4
