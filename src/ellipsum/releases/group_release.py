"""What may be published of many groups: their keys, noisy sums and counts, and what follows from those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..display.document import Background, Document
from ..display.result import Shown
from ..display.wording import describe_guarantee
from ..errors import Floats, UsageError, choice, open_unit
from ..privacy.guarantee import Privacy
from ..request.groups import Groups
from ..request.people import People
from ..sources.group_labels import published_type
from ..util import json_codec
from ..util.atomic_files import Kept, Saved, write_atomically
from ..util.structural_equality import Alike
from .decode import Decoded, RowCounts, decode, group_stds
from .description import STATED
from .group_json import release_to_dict
from .noise_covariance import in_doubt
from .postprocess import shrink_means
from .std_estimates import Spreads, mean_squares

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ..display.plots.strips import Sheet
    from .learning_record import Learning

LEVEL = 0.95


class PlannedGroups(Protocol):
    """What a release of groups asks of its plan."""

    @property
    def one(self) -> Any: ...
    @property
    def grouping(self) -> Groups: ...
    @property
    def privacy(self) -> Privacy: ...
    @property
    def stated(self) -> Mapping[str, float]: ...
    @property
    def statistic(self) -> str: ...
    @property
    def columns(self) -> tuple[str, ...] | None: ...
    @property
    def people(self) -> People | None: ...
    @property
    def doubt(self) -> str | None: ...
    @property
    def d(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def threshold(self) -> float: ...
    @property
    def size(self) -> int | None: ...
    def forecast_svg(self, prefix: str) -> str | None: ...
    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, repr=False)
class GroupRelease(Alike, Kept, Saved, Shown):
    """A published statistic of every group, sorted by key: one row for each.

    Every number follows from the noisy sums and from public numbers.
    """

    plan: PlannedGroups
    keys: NDArray[np.object_]
    """(groups, columns of by)."""
    kinds: tuple[str, ...]
    """How the columns of the keys are compared."""
    noisy: Floats
    """(groups, width): values, counts of absences and the count of rows, in the plan's scaled space."""
    secure: bool
    shrinks: bool = False
    """Whether means were pulled towards their weighted mean."""
    privacy_spent: Privacy | None = None
    """Set where earlier rounds (learning) spent budget too."""
    learned: Learning | None = None
    """What happened before, where the bounds were learned: steps with their cost, and what clipping may hide."""

    @cached_property
    def _decoded(self) -> Decoded:
        return decode(self.plan.one, self.noisy)

    @property
    def _rows(self) -> RowCounts:
        return self._decoded.rows

    @property
    def statistic(self) -> str:
        return self.plan.statistic

    @property
    def columns(self) -> tuple[str, ...] | None:
        return self.plan.columns

    @property
    def by(self) -> tuple[str, ...]:
        return tuple(map(str, self.plan.grouping.by))

    @property
    def privacy(self) -> Privacy:
        """Everything that was spent on this release."""
        return self.privacy_spent or self.plan.privacy

    @property
    def stated(self) -> Mapping[str, float]:
        return self.plan.stated if self.learned is None else self.learned.stated

    @cached_property
    def value(self) -> Floats:
        """(groups, d)."""
        value = self._decoded.value
        value = shrink_means(value, self.standard_error) if self.shrinks else value
        return value if self.learned is None else np.where(self.learned.found, value, np.nan)

    @property
    def counts(self) -> Floats:
        """The noisy number of rows, or people, of each group."""
        counts: Floats = self._rows.count
        return counts

    @property
    def count_std(self) -> float:
        """Std of the noise of the counts."""
        return float(self.plan.one.count_std or 0.0)

    @cached_property
    def noise_std(self) -> Floats:
        """(groups, d) stds of the noise; the error of clipping is not in it."""
        return group_stds(self.plan.one, self._decoded)

    @property
    def standard_error(self) -> Floats:
        """(groups, d): noise of sums and counts, wider where a mean divides by a count that is in doubt [U2]."""
        if self.statistic == "sum":
            return self.noise_std
        doubt = self._rows.stds / np.maximum(self._rows.rows, 1.0)
        wide: Floats = self.noise_std * np.sqrt(1 + 3 * np.minimum(doubt, 1.0) ** 2)
        return wide

    def confidence_interval(self, level: float = LEVEL) -> Floats:
        """(groups, d, 2) bounds for the statistic of each group, each covering its own number at `level`.

        They cover the noise of sums and counts, and speak of rows as they were clipped; where bounds were learned, they
        hold all that these cut off in any group [G9]. Of a release that was shrunk they are those of the raw
        means, and cover as often as before [G7].
        """
        quantiles = self.plan.one.multiples(open_unit("level", level))
        half, middle = quantiles * self.standard_error, self._decoded.value
        low, high = middle - half, middle + half
        if self.learned is not None:
            rows = np.maximum(self._rows.rows, 1.0)
            low, high = self.learned.widened(low, high, rows, self.statistic == "sum")
        return np.stack([low, high], axis=2)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the noisy counts say against the values, in words."""
        before = () if self.learned is None else self.learned.warnings
        if self.statistic == "sum":
            return before
        few = int(in_doubt(self._rows.rows, self._rows.stds).any(axis=1).sum())
        if not few:
            return before
        what = "a group has" if few == 1 else f"{few} groups have"
        return (
            *before,
            f"{what} hardly more rows than the noise of the counts: such means are held to the bounds of the rows.",
        )

    def shrink(self) -> GroupRelease:
        """Means pulled towards their weighted mean over all groups: free, and closer to the truth taken together.

        A single group that differs from the others may end up further off. Intervals stay those of the raw means [G7].
        """
        if self.statistic != "mean":
            raise UsageError("shrink is for means: sums of groups of different sizes have no common value.")
        return replace(self, shrinks=True)

    def names(self) -> tuple[str, ...]:
        """Column names, or x1, x2, ... where there are none."""
        return self.columns or tuple(f"x{j + 1}" for j in range(self.plan.d))

    def parts(self) -> dict[str, tuple[Floats, Floats, Floats]]:
        """What is said of every column: value (groups, d), its 95% interval and the std of its error."""
        return {"": (self.value, self.confidence_interval(LEVEL), self.standard_error)}

    def to_arrow(self) -> pyarrow.Table:
        """One row for each group: its key, noisy count and, for each column, value, low and high at 95%.

        Of a description these are the count, the mean and the std of each column.

        Where the noise is not secure, a column says so.
        """
        import pyarrow as pa

        parts: list[tuple[str, Any]] = list(zip(self.by, self.key_arrays(), strict=True))
        parts.append(("noisy_count", pa.array(self.counts)))
        said = self.parts()
        for j, name in enumerate(self.names()):
            for what, (value, bounds, _) in said.items():
                title = f"{name}_{what}" if what else name
                columns = (title, value[:, j]), (f"{title}_low", bounds[:, j, 0]), (f"{title}_high", bounds[:, j, 1])
                parts += [(heading, pa.array(np.ascontiguousarray(column))) for heading, column in columns]
        if not self.secure:
            parts.append(("secure", pa.array(np.zeros(len(self.keys), np.bool_))))
        return pa.table([array for _, array in parts], names=_distinct([title for title, _ in parts]))

    def key_arrays(self) -> list[Any]:
        """The keys as Arrow arrays of their own types, one for each column of by."""
        import pyarrow as pa

        return [pa.array(list(self.keys[:, i]), published_type(kind)) for i, kind in enumerate(self.kinds)]

    def to_pandas(self) -> pandas.DataFrame:
        """`to_arrow` as a pandas frame, with the guarantee in its attrs."""
        try:
            import pandas  # noqa: F401
        except ImportError:
            raise UsageError("to_pandas needs pandas. Install it with: pip install pandas") from None
        frame = self.to_arrow().to_pandas()
        frame.attrs.update(secure=self.secure, guarantee=describe_guarantee(self.privacy, self.stated), level=LEVEL)
        frame.attrs.update(warnings=list(self.warnings))
        return frame

    def to_polars(self) -> polars.DataFrame:
        """`to_arrow` as a polars frame."""
        try:
            import polars
        except ImportError:
            raise UsageError("to_polars needs polars. Install it with: pip install polars") from None
        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def to_csv(self) -> str:
        """`to_arrow` as CSV, every number with all its digits."""
        import io

        from pyarrow import csv

        sink = io.BytesIO()
        csv.write_csv(self.to_arrow(), sink)
        return sink.getvalue().decode()

    def save(self, path: str | Path) -> None:
        """Write to a file, atomically: CSV where its name ends so (which cannot be loaded again), else JSON."""
        path = Path(path)
        write_atomically(path, self.to_csv() if path.suffix.lower() == ".csv" else self.to_json() + "\n")

    def to_dict(self) -> dict[str, Any]:
        return release_to_dict(self)

    def to_json(self) -> str:
        return json_codec.dump(self.to_dict())

    def sheet(self, order: str = "given", columns: Sequence[str] | None = None) -> Sheet:
        from .pictures import groups_sheet

        return groups_sheet(self, order, columns)

    def document(self, most: int | None = None) -> Document:
        from .documents import groups_document

        return groups_document(self, most)

    def background(self) -> Background:
        from .documents import groups_background

        return groups_background(self)


@dataclass(frozen=True, repr=False)
class GroupDescription(GroupRelease):
    """Count, mean and standard deviation of every column in each group; `value` and its intervals are the means.

    Standard deviations are the population's, and are for entries held to their bounds, as the means are.
    """

    @property
    def count(self) -> Floats:
        """(groups, d): how many rows of each group have each column, noisy."""
        return self._rows.rows

    @property
    def mean(self) -> Floats:
        return self.value

    @property
    def std(self) -> Floats:
        """(groups, d) population standard deviations; 0 where noise leaves nothing."""
        return self._spreads.std

    @property
    def std_error(self) -> Floats:
        """(groups, d): root mean square error of each std, to first order."""
        return self._spreads.std_error

    @cached_property
    def _spreads(self) -> Spreads:
        one, rows, stds = self.plan.one, self._rows.rows, self._rows.stds
        return Spreads(one, self._decoded.value, mean_squares(one, rows, self.noisy), rows, stds)

    def confidence_interval(self, level: float = LEVEL, of: str = "mean") -> Floats:
        """(groups, d, 2) bounds for the "count", "mean" or "std" of each column, each covering its own at `level`."""
        kind = choice("of", of, STATED)
        if kind == "mean":
            return super().confidence_interval(level)
        if kind == "std":
            return self._spreads.bounds(open_unit("level", level))
        return self._spreads.count_bounds(open_unit("level", level), np.inf)

    def parts(self) -> dict[str, tuple[Floats, Floats, Floats]]:
        bounds = {name: self.confidence_interval(LEVEL, name) for name in STATED}
        errors = {"count": self._rows.stds, "mean": self.standard_error, "std": self.std_error}
        return {name: (getattr(self, name), bounds[name], errors[name]) for name in STATED}

    def to_dict(self) -> dict[str, Any]:
        section: dict[str, Any] = {"std_error": self.std_error.tolist()}
        for name, (value, bounds, _) in self.parts().items():
            if name != "mean":
                ends = {"low": bounds[:, :, 0].tolist(), "high": bounds[:, :, 1].tolist()}
                section |= {name: value.tolist(), f"{name}_interval": {"level": LEVEL, **ends}}
        return {**super().to_dict(), "describe": section}


def _distinct(names: list[str]) -> list[str]:
    """Names that no other column has: a column of the data may be called as a key is."""
    seen: set[str] = set()
    out = []
    for name in names:
        while name in seen:
            name += "_"
        seen.add(name)
        out.append(name)
    return out
