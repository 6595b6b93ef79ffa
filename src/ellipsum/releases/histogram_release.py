"""Releases of histograms: noisy counts of bins and categories, with shares and intervals.

docs/proofs/histograms.md: [H5] shares, [H6] the population.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..display.checklist import BEFOREHAND, EXACT
from ..display.document import Background, Document, TextTable
from ..display.wording import LEVEL, MECHANISMS, format_interval, format_number, insecure_facts
from ..errors import Floats, UsageError, choice, open_unit, shown
from ..noise.law import NoiseLaw, normal_multiple
from ..request.bins import Bins
from ..request.groups import Value
from ..util import json_codec
from . import documents
from .base import DOCTORED, StatisticRelease, is_of_population
from .numbers import PublicNumbers

if TYPE_CHECKING:
    import pandas

    from ..display.plots.strips import Sheet

_SHARES = "of all rows, those without a value or outside all bins among them"
OTHER = "(other)"
"""Label of the rows that are in no bin."""
_FARTHEST = 64.0  # Standard deviations by which noise may change a count; more has probability below 1e-38.


class HistogramNumbers(PublicNumbers):
    """The public numbers of a plan that a histogram is decoded with."""

    law: NoiseLaw

    @property
    def bins(self) -> Bins:
        bins = self.request.bounds
        assert isinstance(bins, Bins)
        return bins

    @property
    def groups(self) -> int:
        """The number of groups; 1 without by."""
        return 1 if self.grouping is None else self.grouping.size or 1

    @property
    def cells(self) -> list[int]:
        """The number of counts of each column: one for each bin, and one for rows in no bin."""
        return [size + 1 for size in self.bins.sizes]

    @property
    def width(self) -> int:
        """The number of noisy counts of a group."""
        return sum(self.cells)

    @property
    def total(self) -> int | None:
        """The public total of each column's counts; None if the total is noisy too."""
        return self.n if self.public_rows and self.grouping is None else None

    @property
    def mechanism(self) -> str:
        return self.law.kind

    @property
    def count_std(self) -> float:
        """The std of the noise of each count."""
        return float(self.law.stds(1)[0])


ByColumn: TypeAlias = "Floats | dict[str, Floats]"
"""One array for a single column, else an array for each column by name."""
Line = tuple[list[Value], str, Value, list[float]]
"""A bin: its group, column and label; its count, low and high, and share, low and high."""


@dataclass(frozen=True, repr=False)
class HistogramRelease(StatisticRelease):
    """The number of rows in each bin, or with each category, of each column.

    Results are arrays with a number for each bin: one array for a single column, else a dict of arrays by column.
    With by, arrays have a row for each group, in the order in which the groups were listed.
    """

    plan: HistogramNumbers

    @cached_property
    def _counts(self) -> list[Floats]:
        """(groups, cells) of each column; the last cell has the rows that are in no bin."""
        return np.split(self.noisy, np.cumsum(self.plan.cells)[:-1], axis=1)

    @property
    def _totals(self) -> list[Floats]:
        """(groups, 1): the total of each column's counts, public or noisy."""
        if self.plan.total is not None:
            return [np.full((1, 1), float(self.plan.total))] * len(self._counts)
        return [counts.sum(axis=1, keepdims=True) for counts in self._counts]

    def _lay_out(self, tables: Sequence[Floats]) -> ByColumn:
        """One array, or one for each column by name; without by they have no axis of groups."""
        arrays = tables if self.plan.request.groups is not None else [table[0] for table in tables]
        return arrays[0] if len(arrays) == 1 else dict(zip(self.names(), arrays, strict=True))

    @property
    def value(self) -> ByColumn:  # type: ignore[override]
        """The noisy count of each bin."""
        return self._lay_out([counts[:, :-1] for counts in self._counts])

    @property
    def other(self) -> ByColumn:
        """The noisy number of rows outside all bins, in no listed category, or without a value, for each column."""
        return self._lay_out([counts[:, -1] for counts in self._counts])

    @property
    def shares(self) -> ByColumn:
        """The share of all rows (of the group) in each bin, whether or not they have a value; within [0, 1]."""
        return self._lay_out([shares[:, :-1] for shares in self._shares])

    @property
    def _shares(self) -> list[Floats]:
        pairs = zip(self._counts, self._totals, strict=True)
        return [np.clip(counts / np.maximum(totals, 1.0), 0.0, 1.0) for counts, totals in pairs]

    @property
    def keys(self) -> list[tuple[Value, ...]]:
        """The groups, in the order in which they were listed."""
        groups = self.plan.request.groups
        return [] if groups is None or groups.keys is None else list(zip(*groups.keys.columns, strict=True))

    @property
    def noise_std(self) -> Floats:
        """The std of the noise of each count, one per column."""
        return np.full(self.plan.d, self.plan.count_std)

    @property
    def standard_error(self) -> Floats:
        return self.noise_std

    @property
    def warnings(self) -> tuple[str, ...]:
        return ()

    def confidence_interval(  # type: ignore[override]
        self, level: float = LEVEL, of: str = "count", *, target: str = "data"
    ) -> ByColumn:
        """Low and high ends, (..., 2), for the "count" or the "share" of each bin, each covering its own at `level`.

        target: "data" is the rows at hand. "population" is for shares: it covers the probability that a row
        lies in the bin where the rows are independent draws of one population.
        """
        level, count = open_unit("level", level), choice("of", of, ("count", "share")) == "count"
        if not is_of_population(target, self.plan.people):
            bounds = self._count_bounds(level) if count else self._share_bounds(level)
        elif count:
            raise UsageError("target='population' is not for counts. Pass of='share'.")
        else:
            bounds = self._population_bounds(level)
        return self._lay_out([ends[:, :-1] for ends in bounds])

    def _count_bounds(self, level: float) -> list[Floats]:
        half = self.plan.law.multiples(1, level)[0] * self.plan.count_std
        most = np.inf if self.plan.total is None else float(self.plan.total)
        return [np.clip(_ends(counts, half), 0.0, most) for counts in self._counts]

    def _share_bounds(self, level: float) -> list[Floats]:
        """[H5] Intervals of counts divided by a public n, or all shares consistent with the noise of a private n."""
        if self.plan.total is not None:
            return [bounds / self.plan.total for bounds in self._count_bounds(level)]
        multiple = max(float(self.plan.law.multiples(1, level)[0]), normal_multiple(level))
        spread = (multiple * self.plan.count_std) ** 2
        return [_fieller(counts, totals, spread) for counts, totals in zip(self._counts, self._totals, strict=True)]

    def _population_bounds(self, level: float) -> list[Floats]:
        """[H6] Exact binomial intervals at both ends of the intervals of counts; the error probabilities add up."""
        from scipy.special import betaincinv

        private = self.plan.total is None
        miss = (1 - level) / (3 if private else 2)
        half = self.plan.law.multiples(1, 1 - miss)[0] * self.plan.count_std
        intervals = []
        for counts in self._counts:
            low, high = np.moveaxis(np.maximum(_ends(counts, half), 0.0), -1, 0)
            low, high = np.ceil(low), np.floor(high)
            fewest, most = self._total_bounds(counts, 1 - miss)
            low, high = np.minimum(low, most), np.minimum(high, fewest)
            with np.errstate(invalid="ignore"):
                bottom = np.where(low > 0, betaincinv(np.maximum(low, 1), most - low + 1, miss / 2), 0.0)
                top = np.where(high < fewest, betaincinv(high + 1, np.maximum(fewest - high, 1), 1 - miss / 2), 1.0)
            intervals.append(np.stack([bottom, top], axis=-1))
        return intervals

    def _total_bounds(self, counts: Floats, level: float) -> tuple[Floats, Floats]:
        """The smallest and the largest possible total of a column's counts, as whole numbers."""
        if self.plan.total is not None:
            exact = np.full((1, 1), float(self.plan.total))
            return exact, exact
        multiple = max(float(self.plan.law.multiples(1, level)[0]), normal_multiple(level))
        half = multiple * self.plan.count_std * np.sqrt(counts.shape[1])
        ends = np.maximum(_ends(counts.sum(axis=1, keepdims=True), half), 0.0)
        return np.ceil(ends[..., 0]), np.floor(ends[..., 1])

    def consistent(self) -> ByColumn:
        """The nearest nonnegative counts that, with `other`, add up to the number of rows; they have less error.

        Intervals remain those of the noisy counts.
        """
        tables = []
        for counts, totals in zip(self._counts, self._totals, strict=True):
            fitted = [on_simplex(line, float(total)) for line, total in zip(counts, totals[:, 0], strict=True)]
            tables.append(np.stack(fitted)[:, :-1])
        return self._lay_out(tables)

    # Shown and saved -----------------------------------------------------------------------------------

    def lines(self) -> Iterator[Line]:
        """The lines of the table: every bin, and the rows in no bin."""
        parts = self._counts, self._count_bounds(LEVEL), self._shares, self._share_bounds(LEVEL), self.names()
        for j, (counts, bounds, shares, ends, name) in enumerate(zip(*parts, strict=True)):
            labels = [*self.plan.bins.labels(j), OTHER]
            for g, i in itertools.product(range(self.plan.groups), range(len(labels))):
                key = list(self.keys[g]) if self.keys else []
                yield key, name, labels[i], [counts[g, i], *bounds[g, i], shares[g, i], *ends[g, i]]

    def to_pandas(self) -> pandas.DataFrame:
        """A table with one row per bin: count and share with 95% intervals. A column marks insecure noise."""
        heads = [*self.by, "column", "bin"]
        numbers_of = ["count", "count_low", "count_high", "share", "share_low", "share_high"]
        records = [[*key, name, label, *numbers] for key, name, label, numbers in self.lines()]
        return self._with_facts(self._frame(records, columns=[*heads, *numbers_of]).set_index(heads))

    def to_dict(self) -> dict[str, Any]:
        spans = {"count": self._count_bounds(LEVEL), "share": self._share_bounds(LEVEL)}
        fields = self._fields_with(
            {
                "value": [counts[:, :-1].tolist() for counts in self._counts],
                "noise_std": self.noise_std.tolist(),
                "interval": {"level": LEVEL, **{of: [part.tolist() for part in parts] for of, parts in spans.items()}},
            }
        )
        del fields["warnings"]  # The warnings of a histogram are those of its plan.
        return fields

    @classmethod
    def own_fields(cls, fields: json_codec.Fields, plan: HistogramNumbers) -> dict[str, Any]:
        noisy = fields.take("noisy", json_codec.matrix)
        if noisy.shape != (plan.groups, plan.width):
            raise UsageError(DOCTORED)
        return {"noisy": noisy}

    def check(self) -> None:
        """Raise an error for counts that are impossible even with large noise."""
        far, plan = _FARTHEST * self.plan.count_std, self.plan
        likely = bool((self.noisy >= -far).all())
        if plan.total is not None:
            likely &= all(abs(counts.sum() - plan.total) <= far * counts.shape[1] for counts in self._counts)
        if not likely:
            raise UsageError(DOCTORED)

    def sheet(self, order: str = "given", columns: Sequence[str] | None = None) -> Sheet:
        from .pictures import histogram_sheet

        return histogram_sheet(self, list(self.lines()), self.plan.count_std, order, columns)

    def document(self, most: int | None = None) -> Document:
        """A table with one line for each bin of each column and group."""
        plan, groups = self.plan, self.plan.request.groups
        heads = [*(() if groups is None else map(shown, groups.by)), "column", "bin"]
        lines, error = [], plan.count_std
        for key, name, label, (count, low, high, share, *ends) in self.lines():
            cells = ["(missing)" if cell is None else shown(cell) for cell in (*key, name, label)]
            spans = format_interval(np.array([low, high]), error), f"[{ends[0]:.3f}, {ends[1]:.3f}]"
            lines.append([*cells, format_number(count, error), spans[0], f"{share:.3f}", spans[1]])
        shown_lines = lines[: most or documents.SCREEN_GROUPS]
        rest = f"... {len(lines) - len(shown_lines):,} more bins" if len(lines) > len(shown_lines) else ""
        heads = [*heads, "count", "95% CI", "share", "95% CI"]
        table = TextTable(heads, shown_lines, rest, names=len(heads) - 4)
        facts = [
            *documents.statistic_facts(self, MECHANISMS[plan.mechanism]),
            *([] if groups is None else [("Groups", documents.describe_groups(groups, 0.0))]),
            ("Shares", _SHARES),
            ("95% CI", documents.NOISE_ONLY),
            *insecure_facts(self.secure),
        ]
        return Document(documents.release_title(plan), [table], facts, documents.plan_warnings(plan))

    def background(self) -> Background:
        return replace(
            super().background(),
            origin=[f"The caller gave bins and categories. {BEFOREHAND}"],
            mechanism=[EXACT, f"The mechanism is {MECHANISMS[self.plan.mechanism]}."],
            intervals=documents.NOISE_ONLY,
            sheet=self.sheet(),
        )


def _ends(middle: Floats, half: float) -> Floats:
    return np.stack([middle - half, middle + half], axis=-1)


def _fieller(counts: Floats, totals: Floats, spread: float) -> Floats:
    """[H5] All p in [0, 1] with (c - p N)^2 <= spread (1 - 2 p + k p^2): c is one of the k noisy cells of N."""
    a = totals**2 - spread * counts.shape[1]
    b, c = counts * totals - spread, counts**2 - spread
    sure = a > 0
    width = np.sqrt(np.maximum(b**2 - a * c, 0.0))
    ends = np.stack([b - width, b + width], axis=-1) / np.where(sure, a, 1.0)[..., None]
    return np.clip(np.where(sure[..., None] & (totals > 0)[..., None], ends, [0.0, 1.0]), 0.0, 1.0)


def on_simplex(counts: Floats, n: float) -> Floats:
    """The nearest nonnegative counts that add up to n."""
    if n <= 0:
        return np.zeros(counts.size)
    falling = np.sort(counts)[::-1]
    level = (np.cumsum(falling) - n) / np.arange(1, counts.size + 1)
    projected: Floats = np.maximum(counts - level[np.flatnonzero(falling > level)[-1]], 0)
    return projected
