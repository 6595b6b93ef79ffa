"""What every plan of a statistic can do: be run on data, through a session."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..display.result import Printed
from ..errors import AccuracyWarning, Floats, UsageError
from ..releases.release import Release
from ..request.people import People
from ..request.request import HoldsRequest
from ..session import Approve, Progress, Reading, Session, tab_of
from ..sources import Selection, Source
from ..util.atomic_files import Saved
from ..util.structural_equality import Alike


class Runnable(Printed, Alike, Saved):
    """A plan; `run` is its own."""

    columns: tuple[str, ...] | None
    people: People | None

    @staticmethod
    def read_release(text: str) -> Any:
        """A release of this kind of plan, from its JSON."""
        raise NotImplementedError

    @property
    def magnitude(self) -> float | Floats | None:
        """What no entry is said to exceed, where that is all that is known of the rows."""
        return None

    def run(self, session: Session) -> Release:
        """The release, on the rows of a session."""
        raise NotImplementedError

    def release(
        self,
        data: Any,
        rng: np.random.Generator | None = None,
        *,
        columns: list[str] | tuple[str, ...] | None = None,
        header: bool | None = None,
        threads: int | None = None,
        progress: Progress | None = None,
        approve: Approve | None = None,
        ledger: Any = None,
        dataset: str | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Release:
        """Run this plan on data, which may be what `ellipsum.sum` takes.

        ledger, dataset, key, analyst: the budget that the release is charged to, as in `ellipsum.sum`.
        """
        tab = tab_of(ledger, dataset, key, analyst)
        selection = Selection(columns, header=header, names=self.columns)
        with Session.open(data, selection, self.people, Reading(rng, threads, progress, approve, tab)) as session:
            return run_and_tell(self, session, 3)

    def plot(self, path: str | Path | None = None, *, columns: Sequence[str] | None = None) -> Any:
        """A matplotlib figure of the forecast, written to a file (.svg, .png, .pdf) where one is named.

        Expected error against the budget under each law of noise; the noise of two columns, the first ones unless
        `columns` names two, beside equal noise in all; for Normal rows, error against the radius of clipping.
        """
        from .pictures import plan_plot

        return plan_plot(self, path, columns)

    def forecast_svg(self, prefix: str) -> str | None:
        """The figure of `plot` as SVG for a page, where there is one; prefix: of its identifiers."""
        from .pictures import plan_svg

        return plan_svg(self, prefix)

    @property
    def doubt(self) -> str | None:
        """Why a budget spent on this plan may be wasted, in words; None where there is no reason."""
        raise NotImplementedError


class Requested(HoldsRequest, Runnable):
    """A plan that holds its request, and says what that says."""

    privacy: Any

    @property
    def columns(self) -> tuple[str, ...] | None:  # type: ignore[override]
        named: Any = self.request.columns  # names, since the request is sized
        columns: tuple[str, ...] | None = named
        return columns

    @property
    def people(self) -> People | None:  # type: ignore[override]
        return self.request.people

    @property
    def stated(self) -> dict[str, float]:
        """The budget in the caller's own words: epsilon and delta, mu, or rho."""
        return self.request.stated

    @property
    def neighbors(self) -> str:
        return str(self.privacy.neighbors)


def run_and_tell(plan: Runnable, session: Session, level: int) -> Release:
    """The release, with what speaks against the plan or against its own value as warnings, `level` calls further up.

    A doubtful plan warns before any value is read, unless somebody was asked to approve it.
    """
    if plan.doubt is not None and not session.proposing:
        warnings.warn(AccuracyWarning(plan.doubt), stacklevel=level)
    release: Release = session.kept(lambda: plan.run(session), plan.read_release)
    for text in release.warnings:
        warnings.warn(AccuracyWarning(text, release), stacklevel=level)
    return release


def trial(plan: Runnable, data: Any, rng: np.random.Generator | None = None) -> Release:
    """A release of made-up data, which is charged to nobody."""
    with Session.open(data, Selection(names=plan.columns), plan.people, Reading(rng)) as session:
        return plan.run(session)


def check_width(d: int, source: Source) -> None:
    """An error for data of another number of columns than a plan has."""
    if source.width != d:
        raise UsageError(f"this plan is for {d} columns, the data has {source.width}. Pick columns, or plan anew.")


def check_gaps(plan: Any, source: Source) -> None:
    """An error for data whose types allow missing entries where the plan was made for data whose types do not."""
    if plan.unserved.any() and True in source.gaps and (plan.unserved & np.array(source.gaps)).any():
        raise UsageError(
            "this plan is for columns whose types allow no missing entries, and those of this data do. "
            "Plan anew for this data."
        )


def unserved_gaps(plan: Any) -> NDArray[np.bool_]:
    """For each column, whether a plan is for data that has every entry of it."""
    if plan.riders.missing in ("row", "fill") or plan.request.missing == "center":
        return np.zeros(plan.d, bool)
    counted = plan.riders.absences > 0 if plan.riders.absences.size else np.zeros(1, bool)
    if plan.statistic != "sum" and plan.ellipsoid.axes is None:  # a column without spread is at its center in any case
        counted = counted | (plan.ellipsoid.scale == 0)
    if plan.statistic == "sum":  # an absent cell adds nothing, and is nothing, where 0 stands for it
        lower, upper = plan.rows.bounds() if plan.clamped else (plan.ellipsoid.center, plan.ellipsoid.center)
        counted = counted | ((lower <= 0) & (upper >= 0))
    else:  # the mean of a column that never varies is known, whoever lacks it
        counted = counted | (plan.ellipsoid.reach == 0)
    return np.broadcast_to(~counted, plan.d)
