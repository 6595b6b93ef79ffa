"""The documents of sums, means, descriptions and groups, and what their reports say beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..display.checklist import BEFOREHAND, EXACT, describe_origin, tabulate_bounds, tabulate_rounds
from ..display.document import Background, Document, TextTable, make_table
from ..display.recipe import groups_recipe, release_recipe
from ..display.wording import (
    LEVEL,
    MECHANISMS,
    SHOWN,
    STATISTICS,
    describe_guarantee,
    describe_missing,
    describe_size,
    format_error,
    format_interval,
    format_number,
    insecure_facts,
    many,
    people_facts,
)
from ..errors import Floats, named, shown
from ..rows import Rows

POPULATION = "of the population (divided by the count), after clamping to the bounds"
_SCREEN_GROUPS = 25
_BESIDE, _MOST_BESIDE = 6, 12  # columns of a table of groups, and of all its tables
_CORRELATED = 6
_SHRUNK = "means are shrunk towards their weighted mean; the intervals are those of the raw means"
_COUNTED = "How many rows have each column, and what lay outside its bounds, was counted with noise of its own."


# Sums and means -----------------------------------------------------------------------------------------


def release_document(release: Any, most: int | None = None) -> Document:
    """A sum or a mean: a line for each column."""
    columns = many(release.value.size, "column")
    title = f"Differentially private {release.statistic} of {columns} ({describe_size(release.plan)})"
    facts = [*_release_facts(release), *_count_facts(release, release.row_count), *insecure_facts(release.secure)]
    warnings = [*plan_warnings(release.plan), *release.warnings]
    return Document(title, [_values_table(release, most or SHOWN)], facts, warnings)


def _values_table(release: Any, most: int) -> TextTable:
    errors, spans = release.standard_error, release.confidence_interval(LEVEL)
    rows, notes = _count_rows(release), note_bounds(release)
    lines = []
    for j, name in enumerate(release.names()[:most]):
        error = float(errors[j])
        value = "not found" if math.isnan(release.value[j]) else format_number(float(release.value[j]), error)
        lines.append([shown(name), value, format_error(error), format_interval(spans[j], error), rows[j], notes[j]])
    unit = "non-missing" if release.plan.people is None else "people"
    heads = ["column", "estimate", "std. error", "95% CI", unit, ""]
    return make_table(heads, lines, release.value.size)


def _release_facts(release: Any) -> list[tuple[str, str]]:
    """What holds for all columns of a vector."""
    plan = release.plan
    facts = [("Privacy", describe_guarantee(release.privacy, release.stated))]
    facts += [("Mechanism", MECHANISMS[plan.mechanism]), *people_facts(plan.people)]
    if plan.riders is not None:
        facts.append(("Missing", missing_rule(plan, release.learned)))
    facts.append(("95% CI", describe_coverage(release)))
    if release.denoised:
        facts.append(("Denoised", f"by {release.denoised}; standard errors and intervals are those of the raw release"))
    return facts


def _count_facts(release: Any, count: float | None) -> list[tuple[str, str]]:
    """The noisy numbers of rows that all columns share; count: of all rows, where n is private."""
    riders, counts = release.plan.riders, release.counts
    facts = [] if count is None else [("Rows", f"{count:,.6g} (noisy count)")]
    if riders is not None and riders.missing == "row" and counts is not None:
        rows, std = float(counts.rows[0]), float(counts.stds[0])
        facts.append(("Complete", f"{format_number(rows, std)} ± {std:.2g} rows have no missing value"))
    return facts


def plan_warnings(plan: Any) -> list[str]:
    """Why the budget may have been wasted, as the plan said beforehand; the last round of learning says nothing."""
    return [plan.doubt] if plan.stated and plan.doubt else []


def _count_rows(release: Any) -> list[str]:
    """How many rows have each column, where it was counted; else nothing."""
    riders, counts, rows = release.plan.riders, release.counts, release.plan.rows
    if counts is None or riders is None or rows is None:
        return [""] * release.value.size
    absent = None if release.learned is None else release.learned.absent
    units = (riders.absences if absent is None else absent.stds).tolist()
    if len(units) != release.value.size or (absent is None and riders.missing != "column"):
        return [""] * release.value.size
    pairs = zip(units, counts.rows.tolist(), counts.stds.tolist(), strict=True)
    return [f"{format_number(count, std)} ± {std:.2g}" if unit else "" for unit, count, std in pairs]


def note_bounds(release: Any) -> list[str]:
    """Where a value lies at or beyond a bound that was stated for its column."""
    low, high = stated_bounds(release)
    live = low < high
    above, below = live & (release.value >= high), live & (release.value <= low)
    return [str(words) for words in np.where(above, "at upper bound", np.where(below, "at lower bound", ""))]


def stated_bounds(release: Any) -> tuple[Floats, Floats]:
    """What the statistic lies between if the rows are as stated; infinities where nothing says so."""
    rows = release.plan.rows
    if release.learned is not None:
        high = 0.99 * np.broadcast_to(
            release.learned.magnitude, release.value.shape
        )  # a value so near was clamped to it
        low = -high
    elif rows is not None and rows.kind == "box":
        low, high = rows.bounds()
    else:
        return np.full(release.value.size, -np.inf), np.full(release.value.size, np.inf)
    if release.statistic != "sum":
        return low, high
    counts = release.counts
    times = np.maximum(counts.rows, 1.0) if counts is not None else float(release.plan.n or np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        return low * times, high * times


def missing_rule(plan: Any, learned: Any = None) -> str:
    """What a plan does about missing values; learned: what happened before, where bounds were learned."""
    riders, asked = plan.riders, plan.request.missing
    if learned is not None and learned.absent is not None:
        return describe_missing("column", plan.statistic)
    if asked == "center" if isinstance(asked, str) else asked is not None:
        return describe_missing(asked, plan.statistic)
    if riders.missing == "row":
        return describe_missing("row", plan.statistic)
    about_zero = plan.statistic == "sum" and not plan.clamped and not plan.ellipsoid.center.any()
    if riders.missing == "center" and not about_zero:
        return "none, by the types of the columns"
    return describe_missing("column", plan.statistic) if riders.absences.any() else "missing values add nothing"


def describe_coverage(release: Any) -> str:
    """What the confidence intervals of a release cover."""
    riders, rows, excluded = release.plan.riders, release.plan.rows, "sampling error"
    if riders is None or rows is None:
        return f"covers the privacy noise; excludes {excluded}"
    if release.learned is not None:
        few = f"{release.learned.unnoticed:,} or fewer outliers in a column"
        return f"covers the privacy noise and what learned bounds may cut off, except {few}; excludes {excluded}"
    if not riders.outside.size:
        return f"covers the privacy noise; excludes {excluded} and bias from clipping, which was not counted"
    if release.plan.clamped:
        return f"covers the privacy noise; excludes {excluded} and bias from clamping to the bounds"
    few = f"{release.clipping_bias.undetected_rows:,} or fewer distant rows"
    return f"covers the privacy noise and the bias from clipping, except that of {few}; excludes {excluded}"


# Descriptions -------------------------------------------------------------------------------------------


def description_document(release: Any, most: int | None = None) -> Document:
    """Count, mean and standard deviation of every column."""
    what = STATISTICS["describe"]
    title = f"Differentially private {what} of {many(release.value.size, 'column')} ({describe_size(release.plan)})"
    facts = [*_release_facts(release), *_count_facts(release, release.row_count), ("Std", POPULATION)]
    warnings = [*plan_warnings(release.plan), *release.warnings]
    tables = list(_description_tables(release, most or SHOWN))
    return Document(title, tables, [*facts, *insecure_facts(release.secure)], warnings)


def _description_tables(release: Any, most: int) -> Iterator[TextTable]:
    counts = release.counts
    assert counts is not None
    means, stds = (release.confidence_interval(LEVEL, name) for name in ("mean", "std"))
    lines = []
    for j, name in enumerate(release.names()[:most]):
        rows, rows_std = float(release.count[j]), float(counts.stds[j])
        count = f"{format_number(rows, rows_std)} ± {rows_std:.2g}" if rows_std else f"{rows:,.12g}"
        mean, std = release.standard_error[j], release.std_error[j]
        lines.append([
            shown(name), count,
            format_number(float(release.value[j]), float(mean)), format_interval(means[j], mean),
            format_number(float(release.std[j]), float(std)), format_interval(stds[j], std),
        ])  # fmt: skip
    yield make_table(["column", "count", "mean", "95% CI", "std", "95% CI"], lines, release.value.size)
    if release.products is not None:
        names = [shown(name) for name in release.names()[:_CORRELATED]]
        matrix = release.correlation
        cells = [[name, *(f"{matrix[i, j]:.3f}" for j in range(len(names)))] for i, name in enumerate(names)]
        yield make_table(["correlation", *names], cells, release.value.size)


# Groups -------------------------------------------------------------------------------------------------


def groups_document(release: Any, most: int | None = None) -> Document:
    """A statistic of each group: a line for each group, a few columns in each table."""
    plan, size = release.plan, many(len(release.keys), "group")
    title = f"Differentially private {STATISTICS[release.statistic]} of {many(plan.d, 'column')} in {size}"
    tables = list(_groups_tables(release, most or _SCREEN_GROUPS, _BESIDE if most is None else _MOST_BESIDE))
    facts = [
        ("Privacy", describe_guarantee(release.privacy, release.stated)),
        ("Mechanism", f"{MECHANISMS[plan.one.mechanism]}, independent noise in every group"),
        ("Groups", describe_groups(plan)),
        *people_facts(plan.people),
        ("Missing", missing_rule(plan.one, release.learned)),
        ("95% CI", describe_groups_coverage(release)),
    ]
    if release.statistic == "describe":
        facts.append(("Std", POPULATION))
    if release.shrinks:
        facts.append(("Shrunk", _SHRUNK))
    warnings = [*plan_warnings(plan), *release.warnings]
    return Document(title, tables, [*facts, *insecure_facts(release.secure)], warnings)


def describe_groups(plan: Any) -> str:
    """Which column groups, and which groups are published."""
    by, keys = ", ".join(map(named, plan.grouping.by)), plan.grouping.keys
    if keys is not None:
        return f"by {by}; {keys.size:,} listed, all published"
    return f"by {by}; not listed: published where the noisy count is at least {plan.threshold:.4g}"


def describe_groups_coverage(release: Any) -> str:
    """What the intervals of groups cover."""
    if release.learned is not None:
        return "covers the privacy noise and what learned bounds may cut off; excludes sampling error"
    return "covers the privacy noise; excludes sampling error and bias from clipping, which was not counted"


def _groups_tables(release: Any, most: int, beside: int) -> Iterator[TextTable]:
    names, d = release.names(), release.plan.d
    parts = {what: part for what, part in release.parts().items() if what != "count"}
    keys = [_key_cells(release, g) for g in range(min(len(release.keys), most))]
    step, last = max(1, _BESIDE // len(parts)), max(1, beside // len(parts))
    for start in range(0, min(d, last), step):
        pairs = [(j, what) for j in range(start, min(start + step, d, last)) for what in parts]
        heads = [*map(shown, release.by), "rows" if release.plan.people is None else "people"]
        heads += [f"{shown(names[j])} {what}".strip() + " [95% CI]" for j, what in pairs]
        lines = [
            [*cells, *(_value_cell(*(part[g, j] for part in parts[what])) for j, what in pairs)]
            for g, cells in enumerate(keys)
        ]
        rest = [f"... {len(release.keys) - most:,} more groups"] if len(release.keys) > most else []
        rest += [f"... {d - last:,} more columns"] if start + step >= last and d > last else []
        yield TextTable(heads, lines, "; ".join(rest), names=len(release.by))


def _key_cells(release: Any, g: int) -> list[str]:
    cells = ["(missing)" if cell is None else shown(cell) for cell in release.keys[g]]
    return [*cells, format_number(float(release.counts[g]), release.count_std)]


def _value_cell(value: float, span: Floats, error: float) -> str:
    return f"{format_number(float(value), float(error))} {format_interval(span, error)}"


# Reports ------------------------------------------------------------------------------------------------


def release_background(release: Any) -> Background:
    """What the report of a sum, a mean or a description says beside it."""
    plan = release.plan
    return Background(
        privacy=release.privacy,
        stated=release.stated,
        secure=release.secure,
        people=plan.people,
        origin=_origin(release, plan.rows),
        origin_tables=[*_rounds(release), *([] if plan.rows is None else tabulate_bounds(plan.rows, release.names()))],
        mechanism=[EXACT, f"The mechanism is {MECHANISMS[plan.mechanism]}."],
        recipe=release_recipe(release),
        intervals=describe_coverage(release),
        side_releases=[_COUNTED] if plan.riders and (plan.riders.outside.size or plan.riders.absences.any()) else [],
        post_processing=f"values were denoised by {release.denoised}" if release.denoised else "",
        sheet=release.sheet(),
        forecast=plan.forecast_svg,
    )


def groups_background(release: Any) -> Background:
    """What the report of groups says beside them."""
    plan = release.plan
    return Background(
        privacy=release.privacy,
        stated=release.stated,
        secure=release.secure,
        people=plan.people,
        origin=_origin(release, plan.one.rows),
        origin_tables=[*_rounds(release), *tabulate_bounds(plan.one.rows, release.names())],
        mechanism=[EXACT, f"The mechanism is {MECHANISMS[plan.one.mechanism]}, with independent noise in every group."],
        recipe=groups_recipe(release),
        intervals=describe_groups_coverage(release),
        side_releases=["The noisy number of rows of each group is published beside its values."],
        post_processing=_SHRUNK if release.shrinks else "",
        sheet=release.sheet(),
        forecast=plan.forecast_svg,
    )


def _origin(release: Any, rows: Rows | None) -> list[str]:
    """Where bounds came from: stated, or learned within the same guarantee."""
    if release.learned is None:
        return [] if rows is None else [describe_origin(rows)]
    return [
        f"All that was stated is that no value exceeds {np.max(release.learned.magnitude):g} in size. {BEFOREHAND} "
        "Where values are clamped was learned privately, in steps that are part of the guarantee."
    ]


def _rounds(release: Any) -> list[TextTable]:
    """The rounds before a release, where there were any."""
    if release.learned is None:
        return []
    return [tabulate_rounds([(step.name, step.privacy) for step in release.learned.steps])]
