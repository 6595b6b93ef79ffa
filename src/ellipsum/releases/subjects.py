"""The facts of sums, means, descriptions and groups, for their reports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..display.origins import EXACT, NOISE, doubts, origin, rounds_of
from ..display.recipe import groups_recipe, release_recipe
from ..display.subject import Subject
from ..display.texts import (
    covers,
    groups_cover,
    missing_words,
    people_lines,
    rows_lines,
    rows_word,
)
from ..errors import named
from .description_texts import POPULATION
from .report_tables import description_tables, groups_tables, stated_table, values_table

_COUNTED = "How many rows have each column, and what lay outside its bounds, was counted with noise of its own."
_RAW = "means are pulled towards their weighted mean; intervals are those of the raw means"


def release_subject(release: Any) -> Subject:
    """A sum or a mean."""
    counts = [(line[:16].strip(), line[16:]) for line in rows_lines(release)]
    facts = [
        ("statistic", f"{release.statistic} of {many(release.value.size, 'column')}"),
        *_rows_facts(release.plan, counts),
    ]
    subject = _vector_subject(release, facts)
    return replace(subject, tables=[values_table(release)])


def description_subject(release: Any) -> Subject:
    """Count, mean and standard deviation of every column."""
    counts = [] if release.row_count is None else [("noisy count", f"{release.row_count:.6g}")]
    columns = many(release.value.size, "column")
    facts = [("statistic", f"count, mean and std of {columns}"), *_rows_facts(release.plan, counts)]
    subject = _vector_subject(release, [*facts, ("std", POPULATION.removeprefix("std is "))])
    return replace(subject, title=f"Private description of {columns}", tables=description_tables(release))


def _vector_subject(release: Any, facts: list[tuple[str, str]]) -> Subject:
    plan = release.plan
    return Subject(
        title=f"Private {release.statistic} of {many(release.value.size, 'column')}",
        privacy=release.privacy,
        stated=release.stated,
        secure=release.secure,
        people=plan.people,
        facts=facts,
        origin=origin(release),
        origin_tables=rounds_of(release),
        mechanism=[EXACT, f"{NOISE[plan.mechanism]}."],
        recipe=release_recipe(release),
        intervals=covers(release),
        warnings=[*release.warnings, *doubts(plan)],
        side_releases=[_COUNTED] if plan.riders.outside or any(plan.riders.absences) else [],
        cleaned=f"values were denoised by {release.denoised}" if release.denoised else "",
        sheet=release.sheet(),
        plan=plan,
    )


def _rows_facts(plan: Any, counts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [("rows", rows_word(plan)), *counts, *people_facts(plan.people), ("missing entries", missing_words(plan))]


def people_facts(people: Any) -> list[tuple[str, str]]:
    return [(line[2:18].strip(), line[18:]) for line in people_lines(people)]


def groups_subject(release: Any) -> Subject:
    """A sum, a mean or a description of each group."""
    plan = release.plan
    described = release.statistic == "describe"
    name = "count, mean and std" if described else release.statistic
    what = f"{many(plan.d, 'column')} in {many(len(release.keys), 'group')}"
    return Subject(
        title=f"Private {name} of {what}",
        privacy=release.privacy,
        stated=release.stated,
        secure=release.secure,
        people=plan.people,
        facts=[
            ("statistic", f"{name} of {what}"),
            *_groups_facts(plan),
            *([("std", POPULATION.removeprefix("std is "))] if described else []),
        ],
        origin=origin(release),
        origin_tables=[*rounds_of(release), stated_table(plan.rows, release.names())],
        mechanism=[EXACT, f"{NOISE[plan.mechanism]}, independent in every group."],
        recipe=groups_recipe(release),
        tables=list(groups_tables(release)),
        intervals=groups_cover(release),
        warnings=[*release.warnings, *doubts(plan)],
        side_releases=["The noisy number of rows of each group is published beside its values."],
        cleaned=_RAW if release.shrinks else "",
        sheet=release.sheet(),
        plan=plan,
    )


def _groups_facts(plan: Any) -> list[tuple[str, str]]:
    by = ", ".join(map(named, plan.grouping.by))
    listed = "listed by the caller, all published"
    least = "" if plan.grouping.keys is not None else f"{plan.threshold:.4g}"
    keys = f"not listed: published where the noisy count reaches {least}" if least else listed
    return [
        ("groups", f"by {by}; {keys}"),
        ("rows", rows_word(plan)),
        *people_facts(plan.people),
        ("missing entries", missing_words(plan.one)),
    ]


def many(count: int, what: str) -> str:
    """So many of something."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
