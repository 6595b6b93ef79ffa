"""The release of one vector: noisy estimates with their noise, clipping bias, intervals and warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..display.document import Background, Document, TextTable
from ..display.wording import LEVEL, SHOWN, describe_statistic, insecure_facts
from ..errors import Floats, UsageError, open_unit
from ..util import json_codec
from . import documents
from .base import DOCTORED, WRONG, VectorRelease, import_pandas
from .clipping_bias import ClippingBias, measure_clipping_bias, no_clipping_bias
from .decode import (
    ConfidenceBox,
    ConfidenceEllipsoid,
    Counts,
    MissingCounts,
    Noise,
    confidence_region,
    count_clipped,
    noise_of,
)
from .numbers import VectorNumbers
from .postprocess import METHODS, OPTIONS, RawEstimate, denoise

if TYPE_CHECKING:
    import pandas

    from ..display.plots.strips import Sheet

_FARTHEST = 64.0  # Largest noise of a count in a valid file, in stds; more has probability below 1e-890.
_ROUNDING = 1e-6
_OF_RAW = "standard errors and intervals are those of the raw release"
_COUNTED = "Noisy counts of missing values, or of rows and values outside the bounds, are published beside the values."


@dataclass(frozen=True, repr=False)
class Release(VectorRelease):
    """Result of a differentially private computation. Safe to publish: all attributes follow from noisy sums.

    Attributes
    ----------
    value : ndarray of shape (d,)
        The estimates, one per column; a mean of clamped values lies within their bounds.
    noise_std, standard_error : ndarray of shape (d,)
        Standard deviation of the privacy noise, and root mean square error.
    counts : Counts or None
        Noisy numbers of rows of each column, and of clipped rows.
    clipping_bias : ClippingBias
        Bounds on the bias due to clipping, as far as clipped rows were counted.
    warnings : tuple of str
        Why the estimates may be inaccurate.
    privacy : Privacy
        The guarantee: what was spent.
    plan : Plan
        Every public number of the release.

    Examples
    --------
    >>> import ellipsum as es
    >>> ages = [[20.0], [35.0], [61.0]] * 500
    >>> release = es.mean(ages, {"age": (0, 120)}, epsilon=1, delta=1e-6)
    >>> release.columns
    ('age',)
    >>> low, high = release.confidence_interval(0.95)[0]
    >>> bool(low < high)
    True
    """

    plan: VectorNumbers
    denoised: str | None = None
    """The method of `denoise` that was applied."""
    denoise_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def vector_plan(self) -> VectorNumbers:
        return self.plan

    @property
    def _missing_counts(self) -> MissingCounts | None:
        return None if self.learned is None else self.learned.absent

    @cached_property
    def value(self) -> Floats:
        """The estimates, one per column; a mean of clamped values lies within their bounds."""
        value = self._possible_value(self.raw_value)
        if self.denoised is None:
            return value
        raw = RawEstimate(self.plan, value, self.raw_value, self.noise, self.counts, self.row_count)
        return denoise(raw, self.denoised, **self.denoise_options)

    @cached_property
    def noise(self) -> Noise:
        """The covariance of the noise."""
        return noise_of(self.plan, self.decoded, self._missing_counts)

    @cached_property
    def counts(self) -> Counts | None:
        """Noisy numbers of non-missing values and of clipped rows, covered by the same guarantee."""
        return count_clipped(self.plan, self.decoded.counts, self.noisy)

    @property
    def row_count(self) -> float | None:
        """The noisy number of rows; None if n is public."""
        count = self.decoded.counts.count
        return None if count is None else float(count)

    @property
    def noise_std(self) -> Floats:
        """Standard deviation of the privacy noise of each column. Excludes clipping bias."""
        return self.noise.stds

    @cached_property
    def clipping_bias(self) -> ClippingBias:
        """Bound on the clipping bias of each column, as far as clipped rows were counted."""
        if self.counts is None:
            return no_clipping_bias(self.value.size)
        return measure_clipping_bias(self.plan, self.counts)

    @property
    def warnings(self) -> tuple[str, ...]:
        before = () if self.learned is None else self.learned.warnings
        return (*before, *self.clipping_bias.warnings)

    @property
    def standard_error(self) -> Floats:
        """Root mean square error of each column: noise, counts, and clipping.

        The clipping part is the expected one for rows as described, plus what the counts show beyond that.
        """
        bias, stds = self.clipping_bias, self._widened_stds
        for part in (bias.expected, bias.std_of_unexplained, bias.unexplained):
            stds = np.hypot(stds, part)
        if self.learned is None:
            return stds
        low, high = self._with_learned_bias(np.zeros(stds.size), np.zeros(stds.size))
        return np.hypot(stds, np.maximum(-low, high) / 2)  # A bound at 95% is about two standard deviations.

    def half_widths(self, level: float = LEVEL) -> Floats:
        """Half the width of each interval before it is clipped to the possible values; one number per column."""
        bias, multiples = self.clipping_bias, self.plan.multiples(open_unit("level", level))
        half: Floats = multiples * np.hypot(self._widened_stds, bias.std_of_bound) + bias.bound
        return half

    def confidence_region(self, level: float = LEVEL) -> ConfidenceEllipsoid | ConfidenceBox:
        """Joint confidence region of all columns for the privacy noise: an ellipsoid, or a box for noise in blocks."""
        return confidence_region(self._center, self.noise, self.plan, level)

    @property
    def _center(self) -> Floats:
        return self.value if self.denoised or self.learned is not None else self.raw_value

    def denoise(self, method: str, **options: Any) -> Release:
        """Reduce the noise by shrinkage: post-processing, at no privacy cost.

        Parameters
        ----------
        method : {"james_stein", "soft_threshold", "wiener", "clamp"}
            The method: it shrinks values towards the center of the bounds, or clamps them.
        **options
            For "soft_threshold": threshold, in noise stds. For "clamp": lower, upper.

        Returns
        -------
        Release
            The release with denoised values. Its standard errors and intervals are those of the raw release.

        Raises
        ------
        UsageError
            If the method could increase the error, or this release was already denoised.
        """
        if self.denoised is not None:
            raise UsageError(f"This release was already denoised by {self.denoised!r}. Start from the raw release.")
        options = {name: value for name, value in options.items() if value is not None}
        denoised = replace(self, denoised=method, denoise_options=options)
        denoised.value  # noqa: B018 (raises an error if the method is not suitable)
        return denoised

    def to_dict(self) -> dict[str, Any]:
        options = {name: np.asarray(value, float).tolist() for name, value in self.denoise_options.items()}
        return {
            **super().to_dict(),
            "count": self.row_count,
            "denoised": self.denoised,
            "denoise_options": options,
            "counts": None if self.counts is None else self.counts.to_dict(),
        }

    @classmethod
    def own_fields(cls, fields: json_codec.Fields, plan: VectorNumbers) -> dict[str, Any]:
        return {
            "noisy": fields.take("noisy", json_codec.numbers),
            "denoised": fields.maybe("denoised", json_codec.word(*METHODS)),
            "denoise_options": fields.take("denoise_options", _read_options),
        }

    def check(self) -> None:
        """Raise an error for impossible counts: with more rows, the noise would look smaller."""
        plan, missing = self.plan, self._missing_counts
        if self.noisy.shape != plan.stds.shape:
            raise UsageError(DOCTORED)
        if self.counts is None:
            return
        rows, stds = self.counts.rows, self.counts.stds
        start = float(plan.n or 0) if self.row_count is None else self.row_count
        own = plan.absence_stds if plan.absence_stds.size else np.zeros(1)
        own = own if missing is None else missing.stds
        rounding = _ROUNDING * max(abs(start), 1.0)
        within = (start - rows >= -_FARTHEST * own - rounding) & (rows >= -_FARTHEST * stds - rounding)
        if not within.all():
            raise UsageError(DOCTORED)

    def to_pandas(self) -> pandas.DataFrame:
        """A table with one row per column and 95% intervals. A column marks releases that are not private."""
        low, high = self.confidence_interval(LEVEL).T
        errors = {"noise_std": self.noise_std, "standard_error": self.standard_error}
        table = {"value": self.value, **errors, "lower": low, "upper": high}
        return self._frame(table, index=import_pandas().Index(self.names(), name="column"))

    # Shown ----------------------------------------------------------------------------------------------

    @property
    def coverage(self) -> str:
        """What the confidence intervals account for."""
        plan, excluded = self.plan, "excludes sampling error"
        if self.counts is None or self.statistic == "count":
            return documents.NOISE_ONLY
        if self.learned is not None:
            few = f"{self.learned.unnoticed:,} or fewer outliers in a column"
            return f"covers the privacy noise and what learned bounds may cut off, except {few}; {excluded}"
        if not plan.auxiliary.counts_clipped:
            clipping = "clamping to the bounds" if plan.clamped else "clipping"
            return f"covers the privacy noise; {excluded} and bias from {clipping}, which was not counted"
        if plan.clamped:
            return f"covers the privacy noise; {excluded} and bias from clamping to the bounds"
        few = f"{self.clipping_bias.undetected_rows:,} or fewer distant rows"
        return f"covers the privacy noise and the bias from clipping, except that of {few}; {excluded}"

    def sheet(self, order: str = "given", columns: Sequence[str] | None = None) -> Sheet:
        from .pictures import vector_sheet

        part = self.value, self.confidence_interval(LEVEL), self.standard_error
        parts = {f"{self.statistic} and 95% interval": part}
        return vector_sheet(self, describe_statistic(self.plan), parts, order, columns)

    def document(self, most: int | None = None) -> Document:
        shown = most or SHOWN
        return self._document([documents.values_table(self, self._count_cells(shown), shown)])

    def _document(self, tables: Sequence[TextTable], more_facts: Sequence[tuple[str, str]] = ()) -> Document:
        """The document of a vector: the tables, and the facts about all columns."""
        plan, counts = self.plan, self.counts
        facts = documents.statistic_facts(self, documents.describe_mechanism(plan))
        if counts is not None:
            facts += [
                *documents.missing_facts(plan, self.learned),
                *documents.clamping_facts(plan, self.learned),
            ]
        facts.append(("95% CI", self.coverage))
        if self.denoised:
            facts.append(("Denoised", f"by {self.denoised}; {_OF_RAW}"))
        if self.row_count is not None and self.statistic != "count":
            facts.append(("Rows", f"{self.row_count:,.6g} (noisy count)"))
        if counts is not None and plan.auxiliary.missing == "row":
            complete = documents.format_count(float(counts.rows[0]), float(counts.stds[0]))
            facts.append(("Complete", f"{complete} rows have no missing value"))
        facts += [*more_facts, *insecure_facts(self.secure)]
        warnings = [*documents.plan_warnings(plan), *self.warnings]
        return Document(documents.release_title(plan), tables, facts, warnings)

    def _count_cells(self, most: int) -> list[str]:
        """The noisy number of rows of each of the first columns if it was counted, else an empty text."""
        counts, missing = self.counts, self._missing_counts
        by_column = counts is not None and (missing is not None or self.plan.auxiliary.missing == "column")
        units = (missing.stds if missing is not None else self.plan.auxiliary.absences) if by_column else np.empty(0)
        if counts is None or units.size != self.value.size:
            return [""] * most
        pairs = zip(units[:most].tolist(), counts.rows[:most].tolist(), counts.stds[:most].tolist(), strict=True)
        return [documents.format_count(count, std) if unit else "" for unit, count, std in pairs]

    def background(self) -> Background:
        auxiliary = self.plan.auxiliary
        counted = [_COUNTED] if auxiliary.counts_clipped or auxiliary.absences.any() else []
        cleaned = f"values were denoised by {self.denoised}" if self.denoised else ""
        return documents.vector_background(self, counted, cleaned)


def _read_options(saved: object) -> dict[str, Any]:
    """Read the options of `denoise`: numbers, or lists of numbers, by name."""
    number_or_list = json_codec.any_of(json_codec.number, json_codec.list_of(json_codec.number))
    with json_codec.Fields(saved, WRONG) as fields:
        return {name: fields.take(name, number_or_list) for name in OPTIONS if name in fields}
