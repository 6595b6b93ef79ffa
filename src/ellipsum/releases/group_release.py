"""Releases of many groups: keys, noisy sums and counts, and the estimates that follow from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..display.document import Background, Document, TextTable
from ..display.wording import LEVEL, describe_statistic, format_interval, format_number, insecure_facts, many
from ..errors import Floats, UsageError, shown
from ..numerics.wide_integers import Ints
from ..request.groups import CELL, Groups, spelled_date
from ..request.request import SUMS
from ..sources.group_labels import canonicalize_labels, is_known_kind, label_listed, published_type, read_dates
from ..util import json_codec
from ..util.atomic_files import write_atomically
from . import documents
from .base import DOCTORED, StatisticRelease, VectorRelease, import_pandas
from .decode import group_stds, in_doubt
from .description import STATED, Described
from .numbers import GroupNumbers, VectorNumbers
from .postprocess import shrink_means

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ..display.plots.strips import Sheet

Keys = NDArray[np.object_]
_BESIDE, _MOST_BESIDE = 6, 12  # Number of columns in a table of groups, and in all its tables.
_SHRUNK = "means are shrunk towards their weighted mean; the intervals are those of the raw means"
_COUNTED = "The noisy number of rows of each group is published beside its values."


class Tabular(StatisticRelease):
    """A release that is a table with a row for each group, bin or quantile."""

    def to_arrow(self) -> pyarrow.Table:
        """The release as an Arrow table. It has a column `secure` if the release is not private."""
        raise NotImplementedError

    def to_pandas(self) -> pandas.DataFrame:
        """The table of `to_arrow` as a pandas frame, with the guarantee in its attrs."""
        import_pandas()
        return self._with_facts(self.to_arrow().to_pandas())

    def to_polars(self) -> polars.DataFrame:
        """The table of `to_arrow` as a polars frame."""
        try:
            import polars
        except ImportError:
            raise UsageError("to_polars needs polars. Install it with: pip install polars") from None
        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def to_csv(self) -> str:
        """The table of `to_arrow` as CSV, with all digits of every number."""
        import io

        from pyarrow import csv

        sink = io.BytesIO()
        csv.write_csv(self.to_arrow(), sink)
        return sink.getvalue().decode()

    def save(self, path: str | Path) -> None:
        """Write to a file, atomically: as CSV if its name ends in .csv (which cannot be loaded again), else as JSON."""
        path = Path(path)
        write_atomically(path, self.to_csv() if path.suffix.lower() == ".csv" else self.to_json() + "\n")


@dataclass(frozen=True, repr=False)
class GroupRelease(Tabular, VectorRelease):
    """A published statistic of every group, sorted by key: one row for each.

    Attributes
    ----------
    keys : ndarray of shape (groups, columns of by)
        The groups' labels.
    value, standard_error : ndarray of shape (groups, d)
        Estimates and their root mean square errors.
    counts : ndarray of shape (groups,)
        The noisy number of rows, or people, of each group.

    Examples
    --------
    >>> import ellipsum as es
    >>> data = {"sex": ["f", "m"] * 500, "age": [30, 50] * 500}
    >>> groups = es.Groups("sex", keys=["f", "m"])
    >>> release = es.mean(data, {"age": (0, 120)}, by=groups, epsilon=1, delta=1e-6)
    >>> release.value.shape
    (2, 1)
    """

    plan: GroupNumbers
    keys: NDArray[np.object_]
    """(groups, columns of by)."""
    kinds: tuple[str, ...]
    """The types of the columns of the keys."""
    shrinks: bool = False
    """Whether means were shrunk towards their weighted mean."""

    @property
    def vector_plan(self) -> VectorNumbers:
        return self.plan.one

    @cached_property
    def value(self) -> Floats:
        """The estimates, one row per group."""
        value = self.raw_value
        return self._possible_value(shrink_means(value, self.standard_error) if self.shrinks else value)

    @property
    def counts(self) -> Floats:
        """The noisy number of rows, or people, of each group."""
        return np.asarray(self.decoded.counts.count, np.float64)

    @property
    def count_std(self) -> float:
        """Standard deviation of the noise of the counts."""
        return float(self.plan.one.count_std or 0.0)

    @cached_property
    def noise_std(self) -> Floats:
        """(groups, d) standard deviations of the privacy noise. Excludes clipping bias."""
        return group_stds(self.plan.one, self.decoded)

    @property
    def standard_error(self) -> Floats:
        """(groups, d): noise of sums and counts [U2], and the expected clipping error for rows as described."""
        clipping = self.plan.one.sum_clipping_errors
        if self.statistic not in SUMS:
            clipping = clipping / np.maximum(self.decoded.counts.rows, 1.0)
        return np.hypot(self._widened_stds, clipping) if clipping.any() else self._widened_stds

    @property
    def coverage(self) -> str:
        """What the confidence intervals account for. After `shrink` they are still those of the raw means [G7][G9]."""
        if self.learned is not None:
            return "covers the privacy noise and what learned bounds may cut off; excludes sampling error"
        if self.statistic == "count":
            return documents.NOISE_ONLY
        clipping = "clamping to the bounds" if self.plan.one.clamped else "clipping"
        return f"covers the privacy noise; excludes sampling error and bias from {clipping}, which was not counted"

    @property
    def warnings(self) -> tuple[str, ...]:
        before = () if self.learned is None else self.learned.warnings
        if self.statistic in SUMS:
            return before
        few = int(in_doubt(self.decoded.counts.rows, self.decoded.counts.stds).any(axis=1).sum())
        if not few:
            return before
        groups = "1 group has" if few == 1 else f"{few:,} groups have"
        return (
            *before,
            f"{groups} hardly more rows, or values of a column, than the noise of the counts. Their means were clamped "
            "to the bounds and carry hardly any information. Use larger groups or a larger budget.",
        )

    def shrink(self) -> GroupRelease:
        """Shrink means towards their weighted mean over all groups, at no privacy cost.

        This reduces the total squared error. The error of a single group that differs from the others may increase.
        Intervals remain those of the raw means [G7].
        """
        if self.statistic != "mean":
            raise UsageError("shrink is for means: sums of groups of different sizes have no common mean.")
        return replace(self, shrinks=True)

    def parts(self) -> dict[str, tuple[Floats, Floats, Floats]]:
        """Values (groups, d), their 95% intervals and standard errors, by the name of the statistic."""
        return {"": (self.value, self.confidence_interval(LEVEL), self.standard_error)}

    # As tables ------------------------------------------------------------------------------------------

    def to_arrow(self) -> pyarrow.Table:
        """One row for each group: its key, noisy count and, for each column, value, low and high at 95%.

        A description has the count, mean and std of each column. A column `secure` marks noise that is not secure.
        """
        import pyarrow as pa

        columns: list[tuple[str, Any]] = list(zip(self.by, key_arrays(self.keys, self.kinds), strict=True))
        if self.statistic != "count":
            columns.append(("noisy_count", pa.array(self.counts)))
        for j, name in enumerate(self.names()):
            for what, (value, bounds, _) in self.parts().items():
                title = f"{name}_{what}" if what else name
                ends = (title, value[:, j]), (f"{title}_low", bounds[:, j, 0]), (f"{title}_high", bounds[:, j, 1])
                columns += [(heading, pa.array(np.ascontiguousarray(column))) for heading, column in ends]
        if not self.secure:
            columns.append(("secure", pa.array(np.zeros(len(self.keys), np.bool_))))
        return pa.table([array for _, array in columns], names=_distinct([title for title, _ in columns]))

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "by": list(self.by),
            **keys_to_dict(self.keys, self.kinds),
            "count": self.counts.tolist(),
            "shrunk": self.shrinks,
        }

    @classmethod
    def own_fields(cls, fields: json_codec.Fields, plan: GroupNumbers) -> dict[str, Any]:
        return {**take_table(fields, plan.width), "shrinks": fields.take("shrunk", json_codec.flag)}

    def check(self) -> None:
        """Raise an error unless groups are sorted and unique, and are listed or reach the threshold [G3]."""
        plan = self.plan
        check_keys(self.keys, self.kinds, self.noisy, plan.grouping, plan.width)
        few = plan.grouping.keys is None and (self.counts < plan.threshold * (1 - 1e-12)).any()
        if few or (self.shrinks and self.statistic != "mean"):
            raise UsageError(DOCTORED)

    # Shown ----------------------------------------------------------------------------------------------

    def sheet(self, order: str = "given", columns: Sequence[str] | None = None) -> Sheet:
        from .pictures import groups_sheet

        return groups_sheet(self, list(self.keys), self.parts(), order, columns)

    def document(self, most: int | None = None) -> Document:
        """A line for each group, with a few columns in each table."""
        plan, one = self.plan, self.plan.one
        mechanism = f"{documents.describe_mechanism(one)}, independent noise in every group"
        facts = [
            *documents.statistic_facts(self, mechanism),
            ("Groups", documents.describe_groups(plan.grouping, plan.threshold if plan.grouping.keys is None else 0.0)),
            *documents.missing_facts(one, self.learned),
            *documents.clamping_facts(one, self.learned),
            ("95% CI", self.coverage),
        ]
        if self.statistic == "describe":
            facts.append(("Std", documents.POPULATION))
        if self.shrinks:
            facts.append(("Shrunk", _SHRUNK))
        title = f"Differentially private {describe_statistic(plan)} in {many(len(self.keys), 'group')}"
        tables = list(self._tables(most or documents.SCREEN_GROUPS, _BESIDE if most is None else _MOST_BESIDE))
        warnings = [*documents.plan_warnings(plan), *self.warnings]
        return Document(title, tables, [*facts, *insecure_facts(self.secure)], warnings)

    def _tables(self, most: int, beside: int) -> Iterator[TextTable]:
        names, d, groups = self.names(), self.plan.d, len(self.keys)
        parts = {what: part for what, part in self.parts().items() if what != "count"}
        counts = [] if self.statistic == "count" else ["rows" if self.plan.people is None else "people"]
        step, last = max(1, _BESIDE // len(parts)), max(1, beside // len(parts))
        for start in range(0, min(d, last), step):
            pairs = [(j, what) for j in range(start, min(start + step, d, last)) for what in parts]
            titles = [f"{shown(names[j])} {what}".strip() + " [95% CI]" for j, what in pairs]
            lines = []
            for g in range(min(groups, most)):
                cells = ["(missing)" if cell is None else shown(cell) for cell in self.keys[g]]
                cells += [format_number(float(self.counts[g]), self.count_std) for _ in counts]
                lines.append([*cells, *(_value_cell(*(part[g, j] for part in parts[what])) for j, what in pairs)])
            rest = [f"... {groups - most:,} more groups"] if groups > most else []
            rest += [f"... {d - last:,} more columns"] if start + step >= last and d > last else []
            heads = [*map(shown, self.by), *counts, *titles]
            yield TextTable(heads, lines, "; ".join(rest), names=len(self.by))

    def background(self) -> Background:
        shrunk = _SHRUNK if self.shrinks else ""
        return documents.vector_background(self, [_COUNTED], shrunk, ", with independent noise in every group")


def _value_cell(value: float, span: Floats, error: float) -> str:
    return f"{format_number(float(value), float(error))} {format_interval(span, error)}"


@dataclass(frozen=True, repr=False)
class GroupDescription(Described, GroupRelease):
    """Count, mean and standard deviation of every column in each group."""

    def parts(self) -> dict[str, tuple[Floats, Floats, Floats]]:
        bounds = {name: self.confidence_interval(LEVEL, of=name) for name in STATED}
        errors = {"count": self.decoded.counts.stds, "mean": self.standard_error, "std": self.std_error}
        return {name: (getattr(self, name), bounds[name], errors[name]) for name in STATED}


def _distinct(names: list[str]) -> list[str]:
    """Make names unique, since a column of the data may have the name of a key."""
    seen: set[str] = set()
    out = []
    for name in names:
        while name in seen:
            name += "_"
        seen.add(name)
        out.append(name)
    return out


# Keys of groups -----------------------------------------------------------------------------------------


def keys_to_dict(keys: Keys, kinds: tuple[str, ...]) -> dict[str, Any]:
    """The keys of groups and their types, as JSON."""
    cells = [[spelled_date(cell) if isinstance(cell, date) else cell for cell in key] for key in keys]
    return {"kinds": list(kinds), "keys": cells}


def take_table(fields: json_codec.Fields, width: int) -> dict[str, Any]:
    """Read the keys of groups, each a value of its type, and their noisy sums from a file."""
    kinds = fields.take("kinds", json_codec.names)
    keys = fields.take("keys", json_codec.list_of(json_codec.list_of(CELL)))
    if not all(map(is_known_kind, kinds)) or any(len(key) != len(kinds) for key in keys):
        raise UsageError(DOCTORED)
    columns = [_column([key[i] for key in keys], kind) for i, kind in enumerate(kinds)]
    noisy = fields.take("noisy", table_of_numbers)
    return {"kinds": kinds, "keys": keys_of(columns), "noisy": noisy if keys else noisy.reshape(-1, width)}


def check_keys(keys: Keys | None, kinds: tuple[str, ...], noisy: Floats, grouping: Groups, width: int) -> None:
    """Raise an error unless groups are sorted and unique, have noisy sums, and are the listed ones, if any."""
    groups = 0 if keys is None else len(keys)
    if keys is None or (len(kinds), noisy.shape) != (len(grouping.by), (groups, width)):
        raise UsageError(DOCTORED)
    arrays = key_arrays(keys, kinds)
    labels = [canonicalize_labels(array, kind) for array, kind in zip(arrays, kinds, strict=True)]
    spelled, order = _spell_keys(labels), order_of(arrays)
    if len(set(spelled)) != groups or not np.array_equal(order, np.arange(groups)):
        raise UsageError(DOCTORED)
    if grouping.keys is not None and sorted(spelled) != sorted(_spell_keys(label_listed(grouping.keys, kinds))):
        raise UsageError(DOCTORED)


def key_arrays(keys: Keys, kinds: tuple[str, ...]) -> list[Any]:
    """Convert keys to Arrow arrays, one for each column of by."""
    import pyarrow as pa

    return [pa.array(list(keys[:, i]), published_type(kind)) for i, kind in enumerate(kinds)]


def keys_of(columns: list[Any]) -> NDArray[np.object_]:
    """Convert Arrow arrays to Python values, (groups, columns)."""
    size = len(columns[0])
    keys = np.empty((size, len(columns)), object)
    for i, column in enumerate(columns):
        keys[:, i] = np.fromiter(column.to_pylist(), object, size)
    return keys


def order_of(columns: list[Any]) -> Ints:
    """The positions of groups, sorted by key; missing cells come last."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [str(i) for i in range(len(columns))]
    order = pc.sort_indices(pa.table(columns, names=names), sort_keys=[(name, "ascending") for name in names])
    places: Ints = order.to_numpy().astype(np.int64)
    return places


def _spell_keys(columns: list[Any]) -> list[tuple[str, ...]]:
    """The keys of groups as texts, which can always be sorted."""
    return list(zip(*[map(repr, cells.to_pylist()) for cells in columns], strict=True))


def _column(cells: list[Any], kind: str) -> Any:
    """Convert one column of keys from a file to its type."""
    import pyarrow as pa

    target = published_type(kind)
    try:
        return read_dates(cells, kind) if pa.types.is_temporal(target) else pa.array(cells, target)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise UsageError(DOCTORED) from None


def table_of_numbers(value: Any) -> Floats:
    """Read lists of numbers of the same length; there may be no list."""
    lines = json_codec.list_of(json_codec.list_of(json_codec.number))(value)
    if len({len(line) for line in lines}) > 1:
        raise json_codec.Wrong
    return np.array(lines, np.float64)
