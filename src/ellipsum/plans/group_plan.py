"""The plan of one release for many groups: the plan of a single group, and what all of them together guarantee.

docs/proofs/groups.md: [G1] sensitivity, [G2] noise in blocks, [G3] groups that are not listed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from ..display.document import Document
from ..errors import Floats, UsageError
from ..noise import Stream, box_shifts, shift_for
from ..noise.block_law import BoxLaw, box_isf_upper
from ..numerics.rounding import round_down
from ..numerics.wide_integers import Ints, Wide
from ..privacy.gaussian_curve import normal_isf_upper
from ..privacy.guarantee import Privacy
from ..regions.ellipsoid import Clip
from ..releases.group_json import keys_of, order_of, release_from_dict
from ..releases.group_release import GroupDescription, GroupRelease
from ..request.groups import Groups
from ..request.request import Request, request_from_dict
from ..row_maps.maps import Body, sqrt_upper
from ..session import Approve, Progress, Reading, Session, tab_of
from ..sources import Selection, Source
from ..sources.group_labels import published
from ..sources.group_sums import GroupSums
from ..util import json_codec
from ..version import VERSION
from .base import Requested, Runnable, check_gaps, check_width, run_and_tell
from .json import FORMAT as ONE_FORMAT
from .plan import Plan, plan_from_dict

FORMAT = "ellipsum.groups/2"
_WRONG = "the plan of groups has missing, unknown or wrong fields. Create a new plan with es.plan."
_BYTES = 96
"""Of memory that each coordinate of a listed group takes on the way."""


def group_sensitivity(body: Body, count_units: int, neighbors: str, most: int) -> Fraction:
    """[G1] l2-sensitivity of the sums of all groups, for people with rows in at most so many of them."""
    alone = body.norm**2 + count_units**2
    square = max(body.diameter**2, 2 * alone) if neighbors == "replace" else alone
    return sqrt_upper(most * square)


class InGroups(Runnable):
    """A plan whose release is that of groups."""

    grouping: Groups
    groups: int | None

    def check_keys(self, source: Source) -> None:
        """An error, before the charge, for keys that the source's columns cannot hold or tell apart."""
        if len(source.by) != len(self.grouping.by):
            raise UsageError(f"this plan has groups by {len(self.grouping.by)} columns. Name as many in by.")
        if self.grouping.keys is not None:
            from ..sources.group_codes import key_table  # compiles

            key_table(source.by, self.grouping.keys)

    def release(  # type: ignore[override]
        self,
        data: Any,
        rng: np.random.Generator | None = None,
        *,
        by: Any = None,
        columns: list[str] | tuple[str, ...] | None = None,
        header: bool | None = None,
        threads: int | None = None,
        progress: Progress | None = None,
        approve: Approve | None = None,
        ledger: Any = None,
        dataset: str | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> GroupRelease:
        """Run this plan on data, which may be what `ellipsum.sum` takes.

        by: other columns of the data, or arrays, in place of those that were planned.
        ledger, dataset, key, analyst: the budget that the release is charged to, as in `ellipsum.sum`.
        """
        plan: Any = self
        groups = self.grouping
        if by is not None:
            groups = groups.named(by)
            plan = plan.with_groups(groups.without_labels())
        selection = Selection(columns, header=header, names=self.columns)
        how = Reading(rng, threads, progress, approve, tab_of(ledger, dataset, key, analyst))
        with Session.open(data, selection, plan.people, how, groups) as session:
            made: Any = run_and_tell(plan, session, 3)
            released: GroupRelease = made
            return released


@dataclass(frozen=True, repr=False)
class GroupPlan(Requested, InGroups):
    """One release for many groups, before the data.

    Guarantee: `release` on any data is `privacy` for its neighboring relation [G1][G2][G3].
    """

    request: Request
    """Its n is the number of all rows, or people: public under "replace", a guess under "add_remove"."""
    one: Plan
    """The plan of a single group by itself, whose rows come or go; its n is the size that is expected of a group."""
    privacy: Privacy
    considered: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Forecast errors under the laws that were weighed against each other, root mean square."""

    def __post_init__(self) -> None:
        # A plan may come from a file: its noise is checked against its claim every time it is made.
        self.privacy.check_unit(self.people is not None)
        self.privacy.check_stated(self.stated)
        self._check_parts()
        if isinstance(self.one.law, BoxLaw):
            self._prove_blocks()
        else:
            self._prove_gaussian()
        if self.grouping.keys is None:
            self.threshold  # noqa: B018 (an error where none can be proved)
        self.one.check_range()
        self._check_memory()

    def _check_parts(self) -> None:
        one, keys = self.one, self.grouping.keys
        valid = one.neighbors == "add_remove" and one.people is None and one.count_units >= 1
        valid &= one.mechanism in ("gaussian", "box") and not one.riders.outside.size and not one.stated
        valid &= one.riders.missing != "row" or one.riders.absences.tolist() == [0]
        valid &= not one.riders.products
        valid &= (self.privacy.slack > 0) == (keys is None)
        valid &= (one.rows, one.columns, one.statistic) == (self.rows, self.columns, self.statistic)
        valid &= self.neighbors == "add_remove" or self.n is not None
        valid &= self.people is not None or self.grouping.max_per_person == 1
        if not valid or (self.people is not None and self.people.rows_each is not None):
            raise UsageError("this plan's parts do not make one of groups. Make the plan anew.")

    def _prove_gaussian(self) -> None:
        """[G1] Noise in every coordinate of every group, of the std that one sum of all of them needs."""
        body, most = self.one.row_map.body, self.grouping.max_per_person
        needed = group_sensitivity(body, self.one.count_units, self.neighbors, most)
        if self.privacy.pure:
            raise UsageError("this plan's noise is below what its guarantee needs. Make the plan anew.")
        self.one.noise_law.prove(self.privacy, needed, np.empty(0, np.int64))

    def _prove_blocks(self) -> None:
        """[G2] A row that comes or goes spends a group's epsilon; one that is replaced, twice that."""
        own = self.one.privacy.as_pair().pure
        pure = self.privacy.pure
        times = self.grouping.max_per_person * (2 if self.neighbors == "replace" else 1)
        if len(own) != 1 or len(pure) != 1 or self.privacy.mu or Fraction(own[0]) * times > Fraction(pure[0]):
            raise UsageError("this plan's noise is below what its guarantee needs. Make the plan anew.")

    def _check_memory(self) -> None:
        """Listed groups must fit into memory, before anything is read."""
        keys = self.grouping.keys
        if keys is None or not hasattr(os, "sysconf"):
            return
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if keys.size * self.width * _BYTES > memory:
            raise UsageError(
                f"keys lists {keys.size} groups of {self.width} noisy numbers, more than this machine's memory holds. "
                "List fewer groups, or take fewer columns."
            )

    @property
    def width(self) -> int:
        """Noisy numbers of a group: values, counts of absences, and the count of rows."""
        return self.one.row_map.width + 1

    @property
    def failure(self) -> float:
        """How likely a group of one person may be published: their most groups together have the slack [G3]."""
        return round_down(Fraction(self.privacy.slack) / self.grouping.max_per_person)

    @cached_property
    def threshold(self) -> float:
        """A group that is not listed is published where its noisy count of rows reaches this [G3]."""
        units, shift = self._threshold_units()
        return math.ldexp(units, shift) / self.one.count_units

    def _threshold_units(self) -> tuple[int, int]:
        """(K, shift): the least rounded noisy count, in units of 2^shift of the grid, that is published."""
        law = self.one.noise_law
        if isinstance(law, BoxLaw):
            place = next(i for i, block in enumerate(law.blocks.blocks) if self.width - 1 in block.columns)
            size, scale = law.blocks.blocks[place].size, law.scales[place]
            shift = int(box_shifts([scale], [size])[0])
            farthest = Fraction(scale) * Fraction(box_isf_upper(self.failure, size))
        else:
            shift = shift_for(self.one.noise_units)
            farthest = Fraction(self.one.noise_units) * Fraction(normal_isf_upper(self.failure))
        # rint((S + noise) / 2^shift) >= K only where S + noise >= (K - 1/2) 2^shift
        needed = (self.one.count_units + farthest) / Fraction(2) ** shift + Fraction(1, 2)
        return math.ceil(needed), shift

    def with_groups(self, groups: Groups) -> GroupPlan:
        """The same plan for groups that other columns name."""
        return replace(self, request=replace(self.request, groups=groups))

    # What the plan of one group says ------------------------------------------------------------------

    @property
    def grouping(self) -> Groups:  # type: ignore[override]
        assert self.request.groups is not None
        return self.request.groups

    @property
    def groups(self) -> int | None:  # type: ignore[override]
        """The number of groups, listed or expected."""
        return self.grouping.size

    @property
    def size(self) -> int | None:
        """The rows, or people, that are expected in a group."""
        return self.one.n

    @property
    def mechanism(self) -> str:
        return self.one.mechanism

    @property
    def noise_std(self) -> Floats | None:
        """For a group of the expected size."""
        return self.one.noise_std

    @property
    def noise_error(self) -> float | None:
        return self.one.noise_error

    @property
    def clipping_error(self) -> float | None:
        return self.one.clipping_error

    @property
    def expected_squared_error(self) -> float | None:
        """Of a group of the expected size: E‖release - true statistic‖^2."""
        return self.one.expected_squared_error

    def column_errors(self) -> Floats:
        return self.one.column_errors()

    @property
    def std_errors(self) -> Floats | None:
        """Of a description: forecast errors of its stds, for a group of the expected size, spread evenly."""
        return self.one.std_errors

    @property
    def doubt(self) -> str | None:
        """Why a budget spent on this plan may be wasted, in words; None where there is no reason."""
        if self.grouping.keys is None and self.size is not None and self.size < self.threshold:
            return f"groups of {self.size} will hardly be published: a noisy count of {self.threshold:.4g} is needed."
        return self.one.doubt if self.size is not None else None

    # Running --------------------------------------------------------------------------------------------

    def run(self, session: Session) -> GroupRelease:  # type: ignore[override]
        """[G1] Exact sums of each group -> correctly rounded noisy integers -> the groups that may be published."""
        source = session.source
        check_width(self.d, source)
        check_gaps(self.one, source)
        self.check_keys(source)
        if self.neighbors == "replace":
            self._check_rows(source.count())
        session.propose(self)
        account = session.reserve(self.privacy, self.statistic, self)
        account.charge(account.cap, self.statistic)
        public = self.neighbors == "replace" and self.people is None
        sums = session.total_by(self.one.row_map, self.grouping.keys, public)
        return self.publish(sums, account.stream(), session.secure)

    def _check_rows(self, count: int) -> None:
        if count != self.n:
            what = "rows" if self.people is None else "people"
            raise UsageError(f"this plan is for n = {self.n} {what}, the data has {count}. Plan anew for this n.")

    def publish(self, sums: GroupSums, stream: Stream, secure: bool) -> GroupRelease:
        """[G3] Noise for every group; of those that are not listed, the ones whose noisy counts reach the threshold."""
        listed = self.grouping.keys is not None
        if not listed:  # a group occurs where a row of it was kept
            sums = sums.chosen(np.flatnonzero(sums.rows > 0))
        sums = sums.chosen(self.order(sums))
        noisy = self.noisy(sums, stream)
        if not listed:
            kept = np.flatnonzero(self.reaches(noisy))
            sums, noisy = sums.chosen(kept), noisy[kept]
        keys = keys_of(published(sums.labels, sums.kinds))
        return release_of(self, keys, sums.kinds, np.ldexp(noisy, -self.one.grid_bits), secure)

    def order(self, sums: GroupSums) -> Ints:
        """The places of groups in the order in which they are published."""
        return order_of(published(sums.labels, sums.kinds))

    def reaches(self, noisy: Floats) -> Any:
        """Whether groups that are not listed may be published, from their noisy sums [G3]."""
        units, shift = self._threshold_units()
        return noisy[..., -1] >= math.ldexp(units, shift)

    def noisy(self, sums: GroupSums, stream: Stream) -> Floats:
        """The noisy sums of groups, in units of the grid; the counts of rows come last."""
        counts = Wide.from_ints(rows * self.one.count_units for rows in sums.rows.tolist())
        high = np.concatenate([sums.sums.high, counts.high[:, None]], axis=1)
        low = np.concatenate([sums.sums.low, counts.low[:, None]], axis=1)
        return self.one.noise_law.add(Wide(high, low), [], stream)

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "request": self.request.to_dict(),
            "privacy": self.privacy.to_dict(),
            "threshold": self.threshold if self.grouping.keys is None else None,
            "one_group": self.one.to_dict(),
        }

    def to_json(self) -> str:
        return json_codec.dump(self.to_dict())

    @staticmethod
    def from_json(text: str) -> GroupPlan:
        return group_plan_from_dict(json_codec.parse(text))

    @staticmethod
    def read_release(text: str) -> GroupRelease:
        return group_release_from_dict(json_codec.parse(text))

    def document(self, most: int | None = None) -> Document:
        from .documents import group_plan_document

        return group_plan_document(self, most)


def release_of(plan: GroupPlan, *parts: Any) -> GroupRelease:
    """The release of a plan: a description, where it describes columns."""
    kind = GroupDescription if plan.statistic == "describe" else GroupRelease
    return kind(plan, *parts)


def group_plan_from_dict(saved: Any) -> GroupPlan:
    """Inverse of `GroupPlan.to_dict`; whether the fields make a plan is checked as it is made."""
    with json_codec.Fields(saved, _WRONG) as fields:
        fields.check_format(FORMAT, f"not a plan of format {FORMAT}. It may come from another version of ellipsum.")
        fields.maybe("threshold", json_codec.number)  # worked out anew
        request = fields.take("request", request_from_dict)
        one = fields.take("one_group", _one_from_dict)
        privacy = fields.take("privacy", Privacy.from_dict)
    if request.groups is None:
        raise UsageError(_WRONG)
    return GroupPlan(request, one, privacy)


def _one_from_dict(saved: Any) -> Plan:
    """The plan of a single group, whose region must be that of its rows."""
    if not isinstance(saved, Mapping) or saved.get("format") != ONE_FORMAT:
        raise json_codec.Wrong
    one = plan_from_dict(saved)
    rows = one.rows.resolve(one.d)
    region = Clip(one.ellipsoid, one.clip_radius, one.sum_clipping_error, one.center_spread, one.riders.pull)
    noise = one.noise_base[1] ** 2 * one.noise_base[0].trace
    if rows.kind == "unknown" or not rows.fits(region, one.n, noise):
        raise json_codec.Wrong
    return one


def group_release_from_dict(saved: Any) -> GroupRelease:
    released: GroupRelease = release_from_dict(saved, group_plan_from_dict, release_of)
    return released
