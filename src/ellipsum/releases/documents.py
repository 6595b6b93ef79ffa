"""Common parts of documents and reports: tables of values, facts about plans, the origin of bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..display.checklist import BEFOREHAND, EXACT, describe_origin, tabulate_bounds, tabulate_rounds
from ..display.document import Background, TextTable, make_table
from ..display.wording import (
    LEVEL,
    MECHANISMS,
    describe_guarantee,
    describe_missing,
    describe_size,
    describe_statistic,
    format_error,
    format_interval,
    format_number,
    people_facts,
)
from ..errors import Floats, named, shown
from ..noise.block_law import BlockLaw
from ..request.groups import Groups
from ..request.request import SUMS
from .base import StatisticRelease, VectorRelease
from .learning_record import Learning
from .numbers import PublicNumbers, VectorNumbers

POPULATION = "of the population (divided by the count), after clamping to the bounds"
SCREEN_GROUPS = 25
NOISE_ONLY = "covers the privacy noise; excludes sampling error"
Facts = list[tuple[str, str]]


# Facts --------------------------------------------------------------------------------------------------


def release_title(plan: PublicNumbers) -> str:
    return f"Differentially private {describe_statistic(plan)} ({describe_size(plan)})"


def statistic_facts(release: StatisticRelease, mechanism: str) -> Facts:
    """The guarantee, the mechanism and the privacy unit."""
    return [
        ("Privacy", describe_guarantee(release.privacy, release.stated)),
        ("Mechanism", mechanism),
        *people_facts(release.plan.people, release.plan.statistic),
    ]


def describe_mechanism(plan: VectorNumbers) -> str:
    """The noise distribution; K-norm noise in blocks of one column is Laplace noise."""
    law = plan.noise_law
    return "Laplace" if isinstance(law, BlockLaw) and max(law.blocks.sizes) == 1 else MECHANISMS[law.kind]


def plan_warnings(plan: PublicNumbers) -> list[str]:
    """Why the result may carry no information; nothing for the last step of learning, which has no requested budget."""
    return [plan.warning] if plan.stated and plan.warning else []


def missing_facts(plan: VectorNumbers, learned: Learning | None = None) -> Facts:
    """The treatment of missing values; nothing for a count, which reads no values."""
    return [] if plan.statistic == "count" else [("Missing", describe_missing_values(plan, learned))]


def describe_missing_values(plan: VectorNumbers, learned: Learning | None = None) -> str:
    auxiliary, requested = plan.auxiliary, plan.request.missing
    if learned is not None and learned.absent is not None:
        return describe_missing("skip", plan.statistic)
    if requested == "none" if isinstance(requested, str) else requested is not None:
        return describe_missing(requested, plan.statistic)
    if auxiliary.missing == "row":
        return describe_missing("drop_row", plan.statistic)
    about_zero = plan.statistic in SUMS and not plan.clamped and not plan.ellipsoid.center.any()
    if auxiliary.missing == "center" and not about_zero:
        return "none, by the types of the columns"
    return describe_missing("skip", plan.statistic) if auxiliary.absences.any() else "missing values add nothing"


def clamping_facts(plan: VectorNumbers, learned: Learning | None = None) -> Facts:
    """The number of rows with clamped values that may remain undetected; nothing if learned bounds state it."""
    if not plan.clamped or plan.statistic == "count":
        return []
    test, unit = plan.clamping_test, "rows" if plan.people is None or plan.people.rows_each else "people"
    if test is None:
        return [] if learned is not None else [("Clamping", "not counted: values outside the bounds go unnoticed")]
    if plan.public_rows and plan.n is not None and test.undetected_rows > plan.n:
        return [("Clamping", f"could go unnoticed in all {plan.n:,} {unit}")]
    return [("Clamping", f"clamping in fewer than {test.undetected_rows:,} {unit} could go unnoticed")]


def describe_groups(groups: Groups, threshold: float) -> str:
    """The grouping columns, and which groups are published."""
    by = ", ".join(map(named, groups.by))
    if groups.keys is not None:
        return f"by {by}; {groups.keys.size:,} listed, all published"
    return f"by {by}; not listed: published where the noisy count is at least {threshold:.4g}"


# Tables -------------------------------------------------------------------------------------------------


def format_count(count: float, std: float) -> str:
    """A number of rows with its standard error."""
    return f"{format_number(count, std)} ± {std:.2g}" if std else f"{count:,.12g}"


def values_table(release: VectorRelease, counts: Sequence[str], most: int) -> TextTable:
    """A line for each column: estimate, standard error, interval. counts: the number of rows of the first columns."""
    errors, spans = release.standard_error, release.confidence_interval(LEVEL)
    notes = note_bounds(release, most)
    lines = []
    for j, name in enumerate(release.names(most)):
        error = float(errors[j])
        value = "not found" if math.isnan(release.value[j]) else format_number(float(release.value[j]), error)
        lines.append([shown(name), value, format_error(error), format_interval(spans[j], error), counts[j], notes[j]])
    people = release.plan.people
    unit = "non-missing" if people is None or people.rows_each is not None else "people"
    heads = ["column", "estimate", "std. error", "95% CI", unit, ""]
    return make_table(heads, lines, release.value.size)


def note_bounds(release: VectorRelease, most: int) -> list[str]:
    """Notes for values at a bound of their column, and for sums that the bounds do not allow."""
    low, high = known_bounds(release, most)
    live, value = low < high, release.value[:most]
    if release.statistic in SUMS:
        beyond = live & ((value < low) | (value > high))
        return [str(note) for note in np.where(beyond, "beyond what the bounds allow", "")]
    above, below = live & (value >= high), live & (value <= low)
    return [str(note) for note in np.where(above, "at upper bound", np.where(below, "at lower bound", ""))]


def known_bounds(release: VectorRelease, most: int | None = None) -> tuple[Floats, Floats]:
    """Lower and upper limit of the first `most` values for rows as described; infinite if nothing is known."""
    rows, value = release.vector_plan.rows, release.value[:most]
    if release.learned is not None:
        # Larger values were clamped.
        high = 0.99 * np.broadcast_to(release.learned.magnitude, release.value.shape)[:most]
        low = -high
    elif rows is not None and rows.clamps:
        low, high = (side[:most] for side in rows.bounds())
    else:
        return np.full(value.size, -np.inf), np.full(value.size, np.inf)
    if release.statistic not in SUMS:
        return low, high
    times = np.maximum(release.decoded.counts.rows[:most], 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        return low * times, high * times


# Reports ------------------------------------------------------------------------------------------------


def vector_background(
    release: VectorRelease, side_releases: Sequence[str], post_processing: str, independent: str = ""
) -> Background:
    """Facts for the report of sums and means. independent: text about the noise of groups."""
    one = release.vector_plan
    rounds = [] if release.learned is None else [(step.name, step.privacy) for step in release.learned.steps]
    return replace(
        StatisticRelease.background(release),
        origin=[describe_origin(one.rows)] if release.learned is None else [_learned_origin(release.learned)],
        origin_tables=[
            *([tabulate_rounds(rounds)] if rounds else []),
            *tabulate_bounds(one.rows, release.names()),
        ],
        mechanism=[EXACT, f"The mechanism is {describe_mechanism(one)}{independent}."],
        sheet=release.sheet(),
        forecast=release.plan.forecast_svg,
        intervals=release.coverage,
        side_releases=side_releases,
        post_processing=post_processing,
    )


def _learned_origin(learned: Learning) -> str:
    return (
        f"It was known only that no value exceeds {np.max(learned.magnitude):g} in size. {BEFOREHAND} "
        "The bounds that values are clamped to were learned privately, in steps that are part of the guarantee."
    )
