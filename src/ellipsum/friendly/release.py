"""Friendly averages: the mean of the rows that agree with most others, for data with no known center.

Each row is weighted by how many rows lie within `radius` of it; a noisy sum of the weights decides whether
there is a core at all and how little noise its mean needs. Proofs: docs/proofs/friendly.md, [F1] to [F8].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from ..display.document import Background, Document
from ..display.result import Shown
from ..errors import Floats, UsageError, open_unit, whole
from ..noise import Stream, add_laplace, add_noise_exact, ball_shift, public_subset, shift_for
from ..numerics.wide_integers import Wide
from ..privacy.budget import Budget
from ..privacy.guarantee import Privacy
from ..releases.postprocess import METHODS as DENOISED
from ..releases.release import (
    DOCTORED,
    WRONG,
    Published,
    Release,
    check_shown,
    read_denoise_options,
)
from ..releases.release import FORMAT as RELEASE_FORMAT
from ..request.documentation import public
from ..request.people import people_of
from ..rows import Normal
from ..session import Approve, Progress, Reading, Session, tab_of
from ..sources import Selection
from ..util import json_codec
from ..util.atomic_files import Kept, Saved
from ..util.structural_equality import Alike
from ..version import VERSION
from .core import MOST_ROWS, RADIUS_BITS, find_core
from .plan import (
    FINE_BITS,
    FriendlyGate,
    FriendlyPlan,
    checked_radius,
    friendly_plan,
    friendly_plan_from_dict,
    require_replace,
)

NO_CENTER_FORMAT = "ellipsum.no_center/1"
_USUAL_ROWS, _USUAL_CELLS = 10_000, 1 << 26
_RADII_STEP = math.sqrt(2)
_MOST_RADII = 1024


@dataclass(frozen=True, repr=False)
class FriendlyRelease(Release):
    """A published friendly mean; `agreement` is the noisy share of the weights, 1 where all rows agree."""

    plan: FriendlyPlan
    agreement: float = math.nan
    weight_lower: float = math.nan
    """The gate's lower bound on the sum of weights, which fixed the noise."""

    @cached_property
    def _published(self) -> Published:
        return Published(self.noisy, self.plan.noise_at(Fraction(self.weight_lower)))

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "agreement": self.agreement, "weight_lower": self.weight_lower}

    def document(self, most: int | None = None) -> Document:
        from .documents import friendly_document

        return friendly_document(self, most)

    def background(self) -> Background:
        from .documents import friendly_background

        return friendly_background(self, self)

    @staticmethod
    def from_json(text: str) -> FriendlyRelease:
        return friendly_release_from_dict(json_codec.parse(text))


@dataclass(frozen=True, repr=False)
class NoCenter(Alike, Kept, Saved, Shown):
    """The gate stayed shut: too few rows agree within the radius. An ordinary, publishable, falsy result."""

    plan: FriendlyPlan
    agreement: float
    """The noisy share of the weights, 1 where all rows agree."""
    secure: bool

    @property
    def privacy(self) -> Privacy:
        """What was spent: as much as for a release."""
        return self.plan.privacy

    @property
    def advice(self) -> str:
        return (
            "State a larger radius, or use more rows or a larger budget. Rows in several clusters, none of "
            "which holds well over half of them, have no center at a radius that tells them apart."
        )

    def __bool__(self) -> bool:
        return False

    def document(self, most: int | None = None) -> Document:
        from .documents import no_center_document

        return no_center_document(self, most)

    def background(self) -> Background:
        from .documents import friendly_background

        return friendly_background(self, None)

    def to_json(self) -> str:
        fields = {"agreement": self.agreement, "secure": self.secure, "plan": self.plan.to_dict()}
        return json_codec.dump(
            {"format": NO_CENTER_FORMAT, "version": VERSION, "privacy": self.privacy.to_dict(), **fields}
        )

    @staticmethod
    def from_json(text: str) -> NoCenter:
        return no_center_from_dict(json_codec.parse(text))


@public
def friendly_mean(
    data: Any,
    radius: float | tuple[float, float] | Normal,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    gate: FriendlyGate | None = None,
    noise: str = "auto",
    neighbors: str = "replace",
    columns: list[str] | tuple[str, ...] | None = None,
    privacy_id: str | int | None = None,
    per_person: str | None = None,
    max_rows_per_person: int | None = None,
    max_rows: int | None = None,
    header: bool | None = None,
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    approve: Approve | None = None,
    ledger: Any = None,
    dataset: str | None = None,
    key: str | None = None,
    analyst: str | None = None,
) -> FriendlyRelease | NoCenter:
    """Publish the mean of the rows' friendly core, wherever it lies.

    radius: how far apart two typical rows are at most; or (low, high), and a power of sqrt 2 between them is
        found privately; or Normal(0, std=...) with the rows' spread (its center is not used).
    privacy_id: the column that names the person a row belongs to. Each person's rows become one, their mean, or with
        per_person="sum" the sum of at most max_rows_per_person of them; radius and max_rows then speak of people.
    gate: `FriendlyGate(...)`: the law of the noise that decides whether there is a core, its share of the budget.
    noise: "auto" takes the law of less noise for this budget and so many columns; "norm" has a Laplace gate and
        spherical noise, pure but for the gate's failure [F12]; "gaussian" has Gaussian noise and the gate asked for.
    max_rows: above this many rows a random subset is used, drawn independently of the data (10 000 unless
        stated, fewer where rows are very long).

    Guarantee: `privacy` of the result, for one replaced row [F5], or person [T9]; rows may hold anything at all.
    Edge cases: rows that are not finite, or lie beyond 2^53 radii, weigh nothing and still count.

    References: Tsfadia, Cohen, Kaplan, Mansour & Stemmer 2022 (FriendlyCore), with the repairs of [F9].
    """
    require_replace(neighbors)
    people = people_of(privacy_id, per_person, max_rows_per_person, cap="max_rows_per_person")
    reading = Reading(rng, threads, progress, approve, tab_of(ledger, dataset, key, analyst))
    with Session.open(data, Selection(columns, header=header), people, reading) as session:
        some = some_rows(session, max_rows)
        what = "rows" if people is None else "people"
        plan = friendly_plan(
            some.n,
            session.source.width,
            planned_radius(radius, session.source.width),
            Budget.of(epsilon, delta, budget).as_typed(),
            gate,
            noise=noise,
            source=what if some.total == some.n else f"{what} (a random subset of {some.total})",
            columns=session.source.columns,
            people=people,
        )
        session.propose(plan)

        def run() -> FriendlyRelease | NoCenter:
            stream = session.spend(plan.privacy, "a friendly mean", plan)
            rows = some.read()
            check_count(plan.n, len(rows))
            return run_friendly(plan, rows, stream, threads, session.progress)

        return session.kept(run, read_friendly)


def run_friendly(
    plan: FriendlyPlan,
    rows: Floats,
    stream: Stream,
    threads: int | None = None,
    progress: Progress | None = None,
) -> FriendlyRelease | NoCenter:
    """Run a plan on vectors in memory: search (if planned), filter, gate, mean, noise.

    Guarantee: `plan.privacy`, for one replaced vector [F5], [F8].
    """
    if rows.shape != (plan.n, plan.d):
        raise UsageError(f"this plan is for {plan.n} vectors of length {plan.d}, got shape {rows.shape}.")
    if plan.radius is None:
        plan = replace(plan, radius=_search(plan, rows, stream, threads))
    assert plan.radius is not None
    core = find_core(rows, plan.radius, threads, progress)
    value, lowest = _noisy(core.weight, plan.gate_units, plan.gate, stream)
    lower = plan.weight_lower(lowest)
    agreement = float(value / (plan.n * (plan.n - 1)))
    # [F5] A weight of 0 passes only within the slack, and has no mean to show.
    if lower < plan.least_weight or core.weight == 0:
        return NoCenter(plan, agreement, stream.secure)
    mean = np.ldexp(_noisy_mean(plan, core.mean(), lower, stream), -RADIUS_BITS) * plan.radius
    return FriendlyRelease(plan, mean, stream.secure, agreement=agreement, weight_lower=float(lower))


def _noisy_mean(plan: FriendlyPlan, mean: list[Fraction], lower: Fraction, stream: Stream) -> Floats:
    """The mean in grid units, with the noise that the gate's lower bound on the weights calls for [F5][F12]."""
    if not plan.pure:
        std = plan.mean_units(lower)
        shift = shift_for(std)
        return np.asarray(np.ldexp(add_noise_exact(mean, std, shift, stream, stream.next).to_float(), shift))
    fine = Wide.from_ints(round(value * (1 << FINE_BITS)) for value in mean)
    scale = plan.mean_scale(lower)
    from ..noise.vectors import add_ball_noise  # compiles

    noisy = add_ball_noise(fine, scale, stream, stream.next).to_float()
    return np.asarray(np.ldexp(noisy, ball_shift(scale, plan.d) - FINE_BITS))


def friendly_center(
    rows: Floats,
    radius: float | tuple[float, float] | Normal,
    *,
    mu: float,
    slack: float,
    stream: Stream,
    threads: int | None = None,
) -> FriendlyRelease | NoCenter:
    """A coarse center of rows in memory, as one round of a longer schedule that pays (mu, slack) for it.

    Guarantee: Privacy(mu, slack, "replace") [F5]; noise is taken from the next positions of the stream.
    """
    candidates = planned_radius(radius, rows.shape[1])
    plan = friendly_plan(len(rows), rows.shape[1], candidates, Budget(mu=mu), FriendlyGate(slack=slack))
    return run_friendly(plan, rows, stream, threads)


def _noisy(weight: int, scale: float, gate: str, stream: Stream) -> tuple[Fraction, Fraction]:
    """The noisy sum of integer weights, correctly rounded, and a lower bound on it before rounding."""
    shift = shift_for(scale)
    if gate == "laplace":
        rounded = add_laplace(weight, scale, shift, stream)
    else:
        rounded = add_noise_exact([weight], scale, shift, stream, stream.next)[0]
    unit = Fraction(2) ** shift
    return rounded * unit, (rounded - Fraction(1, 2)) * unit


def _search(plan: FriendlyPlan, rows: Floats, stream: Stream, threads: int | None) -> float:
    """The smallest radius whose noisy sum of weights reaches the target: a binary search [F8]."""
    low, high = 0, len(plan.radii) - 1
    scale = plan.search_units
    while low < high:
        middle = (low + high) // 2
        core = find_core(rows, plan.radii[middle], threads)
        value, _ = _noisy(core.weight, scale, "laplace" if plan.pure else "gaussian", stream)
        if value >= Fraction(plan.target) * plan.n * (plan.n - 1):
            high = middle
        else:
            low = middle + 1
    return plan.radii[low]


def radius_for(rows: Normal, d: int | None = None, outside: float = 0.02) -> float:
    """The radius within which two independent rows of a normal law lie, but for a share `outside` of pairs.

    The difference of two rows of N(c, Sigma) is N(0, 2 Sigma): its squared length is a weighted chi-square.
    """
    from ..numerics.weighted_chisquare import WeightedChiSquare

    share = open_unit("outside", outside)
    if rows.cov is None:
        stds = np.broadcast_to(np.asarray(rows.std, float), (whole("d", rows.d if d is None else d),))
    else:
        stds = rows.axes[0]
    largest = float(stds.max())
    law = WeightedChiSquare(2 * (stds / largest) ** 2)
    return largest * math.sqrt(float(law.isf(share)))


def planned_radius(radius: Any, d: int) -> float | tuple[float, ...]:
    """One radius, or the candidates of a search, from what a caller may state."""
    if isinstance(radius, Normal):
        rows = radius.resolve(d)
        return radius_for(rows, d)
    if not isinstance(radius, (tuple, list)):
        return checked_radius(radius)
    if len(radius) != 2:
        raise UsageError("radius must be a number, a pair (low, high) to search, or Normal rows.")
    low, high = map(checked_radius, radius)
    if low >= high:
        raise UsageError(f"radius must be a pair (low, high) with low < high, got ({low}, {high}).")
    count = math.ceil(round((math.log(high) - math.log(low)) / math.log(_RADII_STEP), 9)) + 1
    if count > _MOST_RADII:
        raise UsageError("the pair of radii spans too many orders of magnitude. State a narrower one.")
    return tuple(min(low * _RADII_STEP**k, high) for k in range(count))


@dataclass(frozen=True)
class SomeRows:
    """So many rows of a source, counted and not yet read."""

    n: int
    total: int
    """How many rows the source has."""
    read: Callable[[], Floats]


def some_rows(session: Session, max_rows: int | None) -> SomeRows:
    """All rows, or a random subset of public size, in no order that matters; and how many there are. [F7]"""
    usual = min(_USUAL_ROWS, max(1000, _USUAL_CELLS // session.source.width))
    most = usual if max_rows is None else whole("max_rows", max_rows)
    if most > MOST_ROWS:
        raise UsageError(f"max_rows must be at most {MOST_ROWS}, got {max_rows}: the work grows with its square.")
    return counted_rows(session, lambda seed: session.source.sample(most, seed)[0], most)


def counted_rows(session: Session, read: Callable[[bytes], Floats], most: int) -> SomeRows:
    """Rows that are read once their release is charged; of a single pass they are held, as nothing else counts them."""
    seed = session.seed()
    if not session.source.reopenable:
        every = session.source.every()
        chosen = public_subset(seed, len(every), min(most, len(every)))
        rows = every[chosen]
        return SomeRows(len(rows), len(every), lambda: rows)
    total = session.source.count()
    return SomeRows(min(most, total), total, lambda: read(seed))


def check_count(planned: int, found: int) -> None:
    """An error where rows came or went after they were counted."""
    if found != planned:
        raise UsageError(f"the data had {planned} rows when they were counted, and now has {found}.")


def read_friendly(text: str) -> FriendlyRelease | NoCenter:
    """What a friendly average gave, from its JSON."""
    none = json_codec.parse(text).get("format") == NO_CENTER_FORMAT
    return NoCenter.from_json(text) if none else FriendlyRelease.from_json(text)


# From files --------------------------------------------------------------------------------------


def friendly_release_from_dict(saved: Any) -> FriendlyRelease:
    """Inverse of `FriendlyRelease.to_dict`."""
    other = f"not a release of format {RELEASE_FORMAT}. It may come from another version of ellipsum."
    with json_codec.Fields(saved, WRONG) as fields:
        fields.check_format(RELEASE_FORMAT, other)
        plan, spent = fields.take("plan", friendly_plan_from_dict), fields.take("privacy", Privacy.from_dict)
        if plan.radius is None or spent != plan.privacy:
            raise UsageError(DOCTORED)
        lower = fields.take("weight_lower", json_codec.number)
        release = FriendlyRelease(
            plan=plan,
            noisy=fields.take("noisy", json_codec.numbers),
            secure=fields.take("secure", json_codec.flag),
            denoised=fields.maybe("denoised", json_codec.word(*DENOISED)),
            denoise_options=fields.take("denoise_options", read_denoise_options),
            agreement=fields.take("agreement", json_codec.number),
            weight_lower=lower,
        )
        if not float(plan.least_weight) <= lower <= plan.n or release.noisy.shape != (plan.d,):
            raise UsageError(DOCTORED)
        check_shown(release, fields)
    return release


def no_center_from_dict(saved: Any) -> NoCenter:
    """Inverse of `NoCenter.to_json`."""
    with json_codec.Fields(saved, "the result has missing, unknown or wrong fields.") as fields:
        fields.check_format(NO_CENTER_FORMAT, f"not a result of format {NO_CENTER_FORMAT}.")
        plan, spent = fields.take("plan", friendly_plan_from_dict), fields.take("privacy", Privacy.from_dict)
        if plan.radius is None or spent != plan.privacy:
            raise UsageError(DOCTORED)
        return NoCenter(plan, fields.take("agreement", json_codec.number), fields.take("secure", json_codec.flag))
