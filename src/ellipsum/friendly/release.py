"""Friendly averages: the mean of the rows that agree with most others, for data with no known centre.

Each row is weighted by how many rows lie within `radius` of it; a noisy sum of the weights decides whether
there is a core at all and how little noise its mean needs. Proofs: docs/proofs/friendly.md, [F1] to [F8].
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from .. import codec
from ..engines import EngineTable
from ..errors import Floats, UsageError, choice, open_unit, whole
from ..integers import Ints
from ..noise import Stream, add_laplace, add_noise_exact, public_seed, public_subset, shift_for
from ..privacy import Budget, Privacy
from ..release import Release
from ..rows import Normal
from ..run import plan_of_people, reading
from ..tables import Progress, Table
from ..people import people_of
from ..version import VERSION
from .core import MOST_ROWS, RADIUS_BITS, find_core
from .plan import FriendlyPlan, checked_radius, friendly_plan

RELEASE_FORMAT, NO_CENTRE_FORMAT = "ellipsum.release/1", "ellipsum.no_centre/1"
_USUAL_ROWS, _USUAL_CELLS = 10_000, 1 << 26
_RADII_STEP = math.sqrt(2)
_MOST_RADII = 1024


@dataclass(frozen=True, repr=False)
class FriendlyRelease(Release):
    """A published friendly mean; `agreement` is the noisy share of the weights, 1 where all rows agree."""

    agreement: float = math.nan
    weight_lower: float = math.nan
    """The gate's lower bound on the sum of weights, which fixed the noise."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": RELEASE_FORMAT,
            "version": VERSION,
            "statistic": self.statistic,
            "columns": list(self.names()),
            "value": self.value.tolist(),
            "noise_std": self.noise_std.tolist(),
            "privacy": self.privacy.to_dict(),
            "secure": self.secure,
            "denoised": self.denoised,
            "agreement": self.agreement,
            "weight_lower": self.weight_lower,
            "noise": {"scaled_std": self.noise.std},
            "plan": self.plan.to_dict(),  # type: ignore[attr-defined]
        }

    @staticmethod
    def from_json(text: str) -> FriendlyRelease:
        from .files import friendly_release_from_dict

        return friendly_release_from_dict(codec.parse(text))

    def __repr__(self) -> str:
        return f"{super().__repr__()}\n  agreement       {self.agreement:.4g} (noisy; 1 where all rows agree)"


@dataclass(frozen=True, repr=False)
class NoCentre:
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
            "which holds well over half of them, have no centre at a radius that tells them apart."
        )

    def __bool__(self) -> bool:
        return False

    def to_json(self) -> str:
        fields = {"agreement": self.agreement, "secure": self.secure, "plan": self.plan.to_dict()}
        return codec.dump({"format": NO_CENTRE_FORMAT, "version": VERSION, "privacy": self.privacy.to_dict(), **fields})

    @staticmethod
    def from_json(text: str) -> NoCentre:
        from .files import no_centre_from_dict

        return no_centre_from_dict(codec.parse(text))

    def __repr__(self) -> str:
        from ..texts import INSECURE, guarantee, people_lines

        plan = self.plan
        lines = [
            f"NoCentre: too few of {plan.n} {plan.source} agree within radius {plan.radius:.6g}",
            f"  guarantee       {guarantee(self.privacy, plan.stated)}",
            *people_lines(plan.options),
            f"  agreement       {self.agreement:.4g} (noisy; 1 where all agree)",
            f"  {self.advice}",
        ]
        return "\n".join(lines if self.secure else [*lines, f"  {INSECURE}"])


def friendly_mean(
    data: Any,
    radius: float | tuple[float, float] | Normal,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    gate: str = "gaussian",
    neighbours: str = "replace",
    columns: list[str] | tuple[str, ...] | None = None,
    privacy_id: str | int | None = None,
    per_person: str | None = None,
    max_rows_per_person: int | None = None,
    max_rows: int | None = None,
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    header: bool | None = None,
    **options: Any,
) -> FriendlyRelease | NoCentre:
    """Publish the mean of the rows' friendly core, wherever it lies.

    radius: how far apart two typical rows are at most; or (low, high), and a power of sqrt 2 between them is
    found privately; or Normal(0, std=...) with the rows' spread (its centre is not used).
    privacy_id: the column that says whose a row is. Each person's rows become one, their mean, or with
    per_person="sum" the sum of at most max_rows_per_person of them; radius and max_rows then speak of people.
    max_rows: above this many rows a random subset is used, drawn independently of the data (10 000 unless
    stated, fewer where rows are very long). Further keywords are those of `friendly_plan`.

    Guarantee: `privacy` of the result, for one replaced row [F5], or person [T9]; rows may hold anything at all.
    Edge cases: rows that are not finite, or lie beyond 2^53 radii, weigh nothing and still count.

    References: Tsfadia, Cohen, Kaplan, Mansour & Stemmer 2022 (FriendlyCore), with the repairs of [F9].
    """
    require_replace(neighbours)
    people = people_of(privacy_id, per_person, max_rows_per_person, cap="max_rows_per_person")
    with reading(data, columns, None, people, progress, header) as (table, tell):
        rows, found = some_rows(table, max_rows, rng)
    what = "rows" if people is None else "people"
    plan = friendly_plan(
        len(rows),
        table.width,
        planned_radius(radius, table.width),
        epsilon=epsilon,
        delta=delta,
        budget=budget,
        gate=gate,
        source=what if found == len(rows) else f"{what} (a random subset of {found})",
        columns=table.columns,
        **options,
    )
    return run_friendly(plan_of_people(plan, people), rows, Stream.open(rng), threads, tell)


def run_friendly(
    plan: FriendlyPlan,
    rows: Floats,
    stream: Stream,
    threads: int | None = None,
    progress: Progress | None = None,
) -> FriendlyRelease | NoCentre:
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
        return NoCentre(plan, agreement, stream.secure)
    std = plan.mean_units(lower)
    shift = shift_for(std)
    noisy = add_noise_exact(core.mean(), std, shift, stream, stream.next).to_float()
    mean = np.ldexp(noisy, shift - RADIUS_BITS) * plan.radius
    noise = plan.noise_at(lower)
    return FriendlyRelease(mean, plan, noise, stream.secure, agreement=agreement, weight_lower=float(lower))  # type: ignore[arg-type]


def friendly_center(
    rows: Floats,
    radius: float | tuple[float, float] | Normal,
    *,
    mu: float,
    slack: float,
    stream: Stream,
    threads: int | None = None,
    **options: Any,
) -> FriendlyRelease | NoCentre:
    """A coarse centre of rows in memory, as one round of a longer schedule that pays (mu, slack) for it.

    Guarantee: Privacy(mu, slack, "replace") [F5]; noise is taken from the next positions of the stream.
    """
    candidates = planned_radius(radius, rows.shape[1])
    plan = friendly_plan(len(rows), rows.shape[1], candidates, budget=Budget(mu=mu), slack=slack, **options)
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
        value, _ = _noisy(core.weight, scale, "gaussian", stream)
        if value >= Fraction(plan.target) * plan.n * (plan.n - 1):
            high = middle
        else:
            low = middle + 1
    return plan.radii[low]


def radius_for(rows: Normal, d: int | None = None, outside: float = 0.02) -> float:
    """The radius within which two independent rows of a normal law lie, but for a share `outside` of pairs.

    The difference of two rows of N(c, Sigma) is N(0, 2 Sigma): its squared length is a weighted chi-square.
    """
    from ..chisquare import WeightedChiSquare

    share = open_unit("outside", outside)
    if rows.cov is None:
        stds = np.broadcast_to(np.asarray(rows.std, float), (whole("d", rows.d if d is None else d),))
    else:
        stds = rows.axes[0]
    largest = float(stds.max())
    law = WeightedChiSquare(2 * (stds / largest) ** 2)
    return largest * math.sqrt(float(law.isf(share)))


def require_replace(neighbours: str) -> None:
    choice("neighbours", neighbours, ("replace", "add_remove"))
    if neighbours != "replace":
        raise UsageError(
            "friendly averages are private for neighbours='replace' only: every weight depends on n. "
            "For a private n use es.mean with neighbours='add_remove'."
        )


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


def some_rows(table: Table, max_rows: int | None, rng: np.random.Generator | None) -> tuple[Floats, int]:
    """All rows, or a random subset of public size, in no order that matters; and how many there are. [F7]"""
    usual = min(_USUAL_ROWS, max(1000, _USUAL_CELLS // table.width))
    most = usual if max_rows is None else whole("max_rows", max_rows)
    if most > MOST_ROWS:
        raise UsageError(f"max_rows must be at most {MOST_ROWS}, got {max_rows}: the work grows with its square.")
    if isinstance(table, EngineTable):  # the engine draws the subset, and the order of all rows too [S6], [T9]
        return table.sample(most, public_seed(rng)), table.rows()
    if not table.reopenable:  # its rows are known only after its single pass
        every = read_rows(table)
        chosen = choose_rows(len(every), most, rng)
        return (every if chosen is None else every[chosen]), len(every)
    n = table.rows()
    return read_rows(table, choose_rows(n, most, rng)), n


def choose_rows(n: int, most: int, rng: np.random.Generator | None) -> Ints | None:
    """Places of a uniform subset whose seed is fresh and never published [F7], [T9]; None for all rows."""
    seed = public_seed(rng)
    return None if n <= most else public_subset(seed, n, most)


def read_rows(table: Table, chosen: Ints | None = None) -> Floats:
    """The chosen rows (increasing indices) as one float64 array."""
    parts, begin = [np.empty((0, table.width))], 0
    for block in table.batches():
        if chosen is None:
            parts.append(np.array(block, np.float64))
        else:
            here = chosen[np.searchsorted(chosen, begin) : np.searchsorted(chosen, begin + len(block))]
            parts.append(np.asarray(block[here - begin], np.float64))
        begin += len(block)
    return np.concatenate(parts)
