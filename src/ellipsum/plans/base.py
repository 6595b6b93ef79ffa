"""The base of all plans: it checks the data, charges the budget, runs the release, and reads plans from files."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import AccuracyWarning, UsageError, names
from ..noise import Stream
from ..numerics.wide_integers import Wide
from ..privacy.guarantee import Privacy
from ..privacy.spherical_curve import Guarantee
from ..releases.base import StatisticRelease, read_release
from ..releases.numbers import PublicNumbers
from ..request.groups import Groups
from ..request.request import Request, request_from_dict
from ..row_maps.maps import RowMap
from ..session import Progress, Reading, Session, read_options
from ..sources import Selection, Source
from ..util import json_codec
from ..util.atomic_files import Saved
from ..util.structural_equality import ValueEquality
from ..version import VERSION

if TYPE_CHECKING:
    from ..ledger import DatasetAccount
    from ..sources.group_sums import GroupSums

Released = TypeVar("Released", bound=StatisticRelease)
WRONG = "Invalid plan file: missing, unknown or wrong fields. Create a new plan with es.plan."


class StatisticPlan(PublicNumbers, ValueEquality, Saved, Generic[Released]):
    """The base of plans. Each kind defines `run`, `warning`, `own_fields`, `from_fields` and `release_class`."""

    format: ClassVar[str]
    """The format of its file."""
    read_privacy: ClassVar[json_codec.Kind[Guarantee]] = Privacy.from_dict

    def run(self, session: Session) -> Released:
        """Run the release on the rows of a session."""
        raise NotImplementedError

    def release(
        self,
        data: Any,
        rng: np.random.Generator | None = None,
        *,
        by: Any = None,
        columns: Sequence[str] | None = None,
        threads: int | None = None,
        progress: Progress | None = None,
        ledger: DatasetAccount | None = None,
        request_id: str | None = None,
    ) -> Released:
        """Run this plan on data.

        Parameters
        ----------
        data : array-like, data frame, path or query
            What `ellipsum.sum` takes.
        rng : numpy.random.Generator, optional
            For tests: such a release is not private.
        by : str, list or arrays, optional
            Grouping columns, if they are not those of the plan.
        columns, threads, progress, ledger, request_id
            As in `ellipsum.sum`.

        Returns
        -------
        Release
            The published statistic; a `GroupRelease` for groups.
        """
        plan, groups = self, self.grouping
        if by is not None:
            if groups is None:
                raise UsageError("by= needs a plan of groups. Pass by= to es.plan.")
            groups = groups.named(by)
            plan = self.with_groups(groups.without_labels())
        options = read_options(rng, threads, progress, ledger, request_id)
        selection = Selection.of_request(plan.request, columns)
        with Session.open(data, selection, plan.people, options, groups) as session:
            return run_with_warnings(plan, session, 3)

    def with_groups(self, groups: Groups) -> Self:
        """The same plan with other grouping columns."""
        changed: Any = self  # Every plan is a dataclass.
        plan: Self = replace(changed, request=replace(self.request, groups=groups))
        return plan

    # Before the charge ----------------------------------------------------------------------------------

    @property
    def unserved(self) -> NDArray[np.bool_]:
        """For each column, whether its type in the data must exclude missing values."""
        return np.zeros(self.d, bool)

    def charge(self, session: Session) -> Stream:
        """Check the data and charge the guarantee, before any value is read. Returns the stream of noise."""
        self.check_data(session)
        return session.spend(self.privacy, self.statistic, self)

    def check_data(self, session: Session) -> None:
        """Raise an error for other data than planned for. Rows are counted now unless the sum counts them."""
        self._check_source(session.source)
        counts_rows = session.counts_first or not self.public_rows or self.grouping is not None
        if self.neighbors == "replace" and counts_rows:
            self.check_rows(session.source.count())

    def sum_rows(self, session: Session, row_map: RowMap) -> tuple[Wide, GroupSums | None]:
        """The exact sums, one row for each group, and the groups; without by one row, and None."""
        if self.grouping is not None:
            sums = session.total_by(row_map, self.grouping.keys, self.public_rows and self.people is None)
            return sums.sums, sums
        partial = session.total(row_map, self.public_rows)
        if self.public_rows:
            self.check_rows(partial.rows)
        return Wide(partial.sums.high[None], partial.sums.low[None]), None

    def _check_source(self, source: Source) -> None:
        """Raise an error if columns, their types or keys of groups are not those of the plan."""
        if source.width != self.d:
            raise UsageError(
                f"The plan has {self.d} columns, but the data has {source.width}. Pass columns=, or create a new plan."
            )
        if self.unserved.any() and True in source.nullable and (self.unserved & np.array(source.nullable)).any():
            raise UsageError(
                "The plan is for columns whose types allow no missing values, but those of this data allow them. "
                "Create a plan for this data."
            )
        if self.grouping is not None:
            check_keys(self.grouping, source)

    def check_rows(self, count: int) -> None:
        """Raise an error if the public number of rows, or people, is not that of the plan."""
        if count != self.n:
            unit = "rows" if self.people is None else "people"
            raise UsageError(
                f"The plan was made for {self.n:,} {unit}, but the data has {count:,}. "
                f"Create a plan with n={count}, or use neighbors='add_remove'."
            )

    # Shown and saved ------------------------------------------------------------------------------------

    def plot(self, path: str | Path | None = None, *, columns: Sequence[str] | None = None) -> Any:
        """Draw the forecast with matplotlib.

        The figure has the expected error against the budget for each mechanism, and the noise of two columns beside
        isotropic Gaussian noise.

        Parameters
        ----------
        path : str or Path, optional
            File to write the figure to (.svg, .png or .pdf).
        columns : list of two names, optional
            The columns whose noise is drawn; default: the first two.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from .pictures import plan_plot

        return plan_plot(self, path, columns)

    def forecast_svg(self, prefix: str) -> str | None:
        """The figure of `plot` as SVG for a page, where there is one; prefix: of its identifiers."""
        from .pictures import plan_svg

        return plan_svg(self, prefix)

    def own_fields(self) -> dict[str, Any]:
        """The fields in a file that only this kind of plan has."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        shared = {"request": self.request.to_dict(), "privacy": self.privacy.to_dict()}
        return {"format": self.format, "version": VERSION, **shared, **self.own_fields()}

    def to_json(self) -> str:
        """The plan as JSON, which `ellipsum.load` reads and checks."""
        return json_codec.dump(self.to_dict())

    @classmethod
    def from_fields(cls, fields: json_codec.Fields, request: Request, privacy: Any) -> Self:
        """Make the plan of a request and a guarantee, from the fields that only this kind of plan has."""
        raise NotImplementedError

    @classmethod
    def from_dict(cls, saved: object) -> Self:
        """Inverse of `to_dict`. The constructor checks the plan."""
        with json_codec.Fields(saved, WRONG) as fields:
            fields.check_format(cls.format, f"Not a plan of format {cls.format}. It may come from another version.")
            request = fields.take("request", request_from_dict)
            return cls.from_fields(fields, request, fields.take("privacy", cls.read_privacy))

    def check_claim(self) -> None:
        """Raise an error if a plan, which may come from a file, has another guarantee than its request."""
        self.privacy.check_unit(self.people is not None)
        self.privacy.check_stated(self.stated)
        names("columns", self.columns, self.d)
        if self.neighbors != self.request.neighbors:
            raise UsageError("Invalid plan file: the plan is not that of its request. Create a new plan.")

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Inverse of `to_json`."""
        with json_codec.refused_overflow(WRONG):
            return cls.from_dict(json_codec.parse(text))

    @property
    def release_class(self) -> type[Released]:
        """The class of this plan's releases."""
        raise NotImplementedError

    @classmethod
    def read_release(cls, text: str) -> Released:
        """Read a release of this kind of plan from its JSON."""
        with json_codec.refused_overflow(WRONG):
            release: Released = read_release(json_codec.parse(text), cls.from_dict, lambda plan: plan.release_class)
        return release


def check_keys(groups: Groups, source: Source) -> None:
    """Raise an error, before the charge, for keys that the source's columns cannot contain or distinguish."""
    if len(source.by) != len(groups.by):
        raise UsageError(f"The plan groups by {len(groups.by)} columns, but by= names {len(source.by)}.")
    if groups.keys is not None:
        from ..sources.group_codes import key_table  # It compiles when imported.

        key_table(source.by, groups.keys)


def run_with_warnings(
    plan: StatisticPlan[Released], session: Session, level: int, warns_of_plan: bool = True
) -> Released:
    """Run a release, and raise its warnings and those of its plan, `level` calls further up."""
    if plan.warning is not None and warns_of_plan:
        warnings.warn(AccuracyWarning(plan.warning), stacklevel=level)
    release = session.run_or_load_stored(lambda: plan.run(session), plan.read_release)
    for text in release.warnings:
        warnings.warn(AccuracyWarning(text, release), stacklevel=level)
    return release


def simulate(plan: StatisticPlan[Released], data: Any, rng: np.random.Generator | None = None) -> Released:
    """Run a release of artificial data, without a charge."""
    with Session.open(data, Selection.of_request(plan.request), plan.people, Reading(rng)) as session:
        return plan.run(session)
