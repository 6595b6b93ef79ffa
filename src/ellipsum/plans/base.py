"""The base of all plans: they are checked against data, charged, and run."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ..display.result import Printed
from ..errors import AccuracyWarning, Floats, UsageError, names
from ..noise import Stream
from ..privacy.guarantee import Privacy
from ..privacy.spherical_curve import Guarantee
from ..releases.base import StatisticRelease, read_release
from ..request.groups import Groups
from ..request.people import People
from ..request.request import HoldsRequest, Request, request_from_dict
from ..session import Progress, Reading, Session, read_options
from ..sources import Selection, Source
from ..util import json_codec
from ..util.atomic_files import Saved
from ..util.structural_equality import ValueEquality
from ..version import VERSION

if TYPE_CHECKING:
    from ..ledger import DatasetAccount

Released = TypeVar("Released", bound=StatisticRelease)
WRONG = "Invalid plan file: missing, unknown or wrong fields. Create a new plan with es.plan."


def of_part(part: str, name: str) -> Any:
    """A number of a part of a plan, which the plan has under the same name."""
    return property(attrgetter(f"{part}.{name}"))


class StatisticPlan(HoldsRequest, Printed, ValueEquality, Saved, Generic[Released]):
    """A plan that holds its request; `run`, `warning`, `own_fields`, `from_fields` and `release_class` are its own."""

    format: ClassVar[str]
    """Of its file."""
    read_privacy: ClassVar[json_codec.Kind[Guarantee]] = Privacy.from_dict
    request: Request
    """The request, with defaults written out for this n and these columns."""
    privacy: Guarantee
    considered: Mapping[str, float] = MappingProxyType({})
    """Expected error (root mean square) of each mechanism that was compared; empty if there was one."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        return cast("tuple[str, ...] | None", self.request.columns)  # A sized request has names.

    @property
    def people(self) -> People | None:
        return self.request.people

    @property
    def rows_each(self) -> int | None:
        """The largest number of rows of a person in a statistic of rows; None if each person is one row."""
        return None if self.people is None else self.people.rows_each

    @property
    def grouping(self) -> Groups | None:
        return self.request.groups

    @property
    def groups(self) -> int | None:
        """The number of groups: of those listed, or as expected."""
        return None if self.grouping is None else self.grouping.size

    @property
    def stated(self) -> dict[str, float]:
        """The budget as it was requested: epsilon and delta, mu, or rho."""
        return self.request.stated

    @property
    def neighbors(self) -> str:
        return str(self.privacy.neighbors)

    @property
    def mechanism(self) -> str:
        """The noise distribution."""
        raise NotImplementedError

    @property
    def noise_cov(self) -> Floats | None:
        """(d, d) covariance of the noise; None if the estimates are no vector."""
        return None

    @property
    def budget_error(self) -> tuple[float | None, str]:
        """The expected error that `plot` draws against the budget (None where it is not known), and its unit."""
        raise NotImplementedError

    @property
    def warning(self) -> str | None:
        """Why the result may carry no information, known before any budget is spent; None if there is no reason."""
        raise NotImplementedError

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
            For tests: the release is then not private.
        by : str, list or arrays, optional
            Other grouping columns than the planned ones.
        columns, threads, progress, ledger, request_id
            As in `ellipsum.sum`.

        Returns
        -------
        Release
            The published statistic, a `GroupRelease` where there are groups.
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
        """The same plan for groups that other columns name."""
        changed: Any = self  # Every plan is a dataclass.
        plan: Self = replace(changed, request=replace(self.request, groups=groups))
        return plan

    # Before the charge ----------------------------------------------------------------------------------

    @property
    def unserved(self) -> NDArray[np.bool_]:
        """For each column, whether its type in the data must rule out missing values."""
        return np.zeros(self.d, bool)

    def charge(self, session: Session, counts_rows: bool) -> Stream:
        """The noise of the release: the data is checked, and the guarantee charged, before any value is read."""
        self._check_source(session.source)
        if self.neighbors == "replace" and counts_rows:
            self.check_rows(session.source.count())
        return session.spend(self.privacy, self.statistic, self)

    def _check_source(self, source: Source) -> None:
        """An error for data that this plan was not made for: its columns, their types, and the keys of groups."""
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
        """Under "replace" n is public, and a plan is for this number of rows, or people."""
        if count != self.n:
            unit = "rows" if self.people is None else "people"
            raise UsageError(
                f"The plan was made for {self.n:,} {unit}, but the data has {count:,}. "
                f"Create a plan with n={count}, or use neighbors='add_remove'."
            )

    # Shown and saved ------------------------------------------------------------------------------------

    def plot(self, path: str | Path | None = None, *, columns: Sequence[str] | None = None) -> Any:
        """Draw the forecast with matplotlib.

        Expected error against the budget for each mechanism; the noise of two columns beside isotropic Gaussian
        noise; for Normal rows, error against the clipping radius.

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
        """What a file says of this kind of plan, beside its request and guarantee."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        shared = {"request": self.request.to_dict(), "privacy": self.privacy.to_dict()}
        return {"format": self.format, "version": VERSION, **shared, **self.own_fields()}

    def to_json(self) -> str:
        """The plan as JSON, which `ellipsum.load` reads and checks."""
        return json_codec.dump(self.to_dict())

    @classmethod
    def from_fields(cls, fields: json_codec.Fields, request: Request, privacy: Any) -> Self:
        """The plan of a request with a guarantee, from the fields that only this kind of plan has."""
        raise NotImplementedError

    @classmethod
    def from_dict(cls, saved: object) -> Self:
        """Inverse of `to_dict`; whether the fields make a plan is checked as it is made."""
        with json_codec.Fields(saved, WRONG) as fields:
            fields.check_format(cls.format, f"Not a plan of format {cls.format}. It may come from another version.")
            request = fields.take("request", request_from_dict)
            return cls.from_fields(fields, request, fields.take("privacy", cls.read_privacy))

    def check_claim(self) -> None:
        """An error where a plan, which may come from a file, claims another guarantee than its request asks for."""
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
        """A release of this kind of plan, from its JSON."""
        with json_codec.refused_overflow(WRONG):
            release: Released = read_release(json_codec.parse(text), cls.from_dict, lambda plan: plan.release_class)
        return release


def check_keys(groups: Groups, source: Source) -> None:
    """An error, before the charge, for keys that the source's columns cannot hold or tell apart."""
    if len(source.by) != len(groups.by):
        raise UsageError(f"The plan groups by {len(groups.by)} columns, but by= names {len(source.by)}.")
    if groups.keys is not None:
        from ..sources.group_codes import key_table  # compiles

        key_table(source.by, groups.keys)


def run_with_warnings(
    plan: StatisticPlan[Released], session: Session, level: int, warns_of_plan: bool = True
) -> Released:
    """The release; why the plan or its own value may be inaccurate is raised as warnings, `level` calls further up."""
    if plan.warning is not None and warns_of_plan:
        warnings.warn(AccuracyWarning(plan.warning), stacklevel=level)
    release = session.run_or_load_stored(lambda: plan.run(session), plan.read_release)
    for text in release.warnings:
        warnings.warn(AccuracyWarning(text, release), stacklevel=level)
    return release


def simulate(plan: StatisticPlan[Any], data: Any, rng: np.random.Generator | None = None) -> Any:
    """A release of made-up data, without a charge."""
    with Session.open(data, Selection.of_request(plan.request), plan.people, Reading(rng)) as session:
        return plan.run(session)
