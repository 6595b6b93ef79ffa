"""Plans and releases of groups in words: at most a screen of them, however many groups there are."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from ..display.texts import (
    INSECURE,
    groups_cover,
    guarantee,
    missing_words,
    number,
    people_lines,
)
from ..errors import named, shown
from .description_texts import POPULATION

_GROUPS = 25
_COLUMNS = 6
_LAWS = {
    "gaussian": "Gaussian, independent in every group",
    "box": "pure epsilon in blocks of columns, independent in every group",
}


def words_of(statistic: str) -> str:
    """What is published."""
    return "count, mean and std" if statistic == "describe" else statistic


def _by(plan: Any) -> str:
    return ", ".join(map(named, plan.grouping.by))


def _keys(plan: Any) -> str:
    keys = plan.grouping.keys
    if keys is not None:
        return f"{keys.size} listed, all published"
    unit = plan.privacy.unit
    return (
        f"not listed: published where the noisy count reaches {plan.threshold:.4g} (a group of one {unit}: with "
        f"probability at most {plan.failure:.2g})"
    )


def plan_facts(plan: Any) -> list[tuple[str, str]]:
    """What a plan of groups says, by title."""
    one = plan.one
    facts = [
        ("guarantee", guarantee(plan.privacy, plan.stated)),
        ("groups", f"by {_by(plan)}; {_keys(plan)}"),
        *[(line[2:18].strip(), line[18:]) for line in people_lines(plan.people)],
    ]
    if plan.people is not None:
        many = plan.grouping.max_per_person
        facts.append(("", "in one group of theirs" if many == 1 else f"in at most {many} groups of theirs, in each"))
    facts.append(("missing entries", missing_words(one)))
    facts.append(("noise law", _LAWS[one.mechanism] + _others(plan)))
    facts.append(("noise of counts", f"std {one.count_std:.4g}"))
    if one.noise_std is None:
        facts.append(("noise std", "known once a group's size is: give n= and groups= to forecast a mean"))
    else:
        what = f"a group of {plan.size}" if plan.size is not None else "a group"
        facts.append(("noise std", f"{_range(one.noise_std)} per column, for {what}"))
        facts.append(
            ("expected error", f"{np.sqrt(one.expected_squared_error or 0):.6g} root mean square, all columns")
        )
    if plan.std_errors is not None:
        facts.append(("error of stds", f"{_range(plan.std_errors)} per column, where columns are spread evenly"))
    return facts


def _others(plan: Any) -> str:
    own = plan.considered.get(plan.mechanism, 0.0)
    beside = [f"{name} {error / own:.3g} times the error" for name, error in plan.considered.items() if own]
    return "".join(f"; {text}" for text in beside if not text.startswith(plan.mechanism))


def _range(stds: Any) -> str:
    low, high = float(np.min(stds)), float(np.max(stds))
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def _head(plan: Any) -> str:
    return f"Plan: {words_of(plan.statistic)} of {plan.d} columns in groups, {plan.rows.kind} rows"


def describe_plan(plan: Any) -> str:
    lines = [_head(plan), *[f"  {title:<15} {words}" for title, words in plan_facts(plan)]]
    return "\n".join(lines + ([f"  warning: {plan.doubt}"] if plan.doubt else []))


def plan_html(plan: Any) -> str:
    facts = "".join(f"<p>{escape(f'{title}: {words}' if title else words)}</p>" for title, words in plan_facts(plan))
    return f"<div><p><b>{escape(_head(plan))}</b></p>{facts}</div>"


def _told(release: Any) -> tuple[str, ...]:
    """What a table says of every column; counts of single columns are left to frames and files."""
    return ("mean", "std") if release.statistic == "describe" else ("",)


def _columns(release: Any) -> int:
    """So many columns are in a table: fewer, where several numbers are said of each."""
    return min(int(release.plan.d), _COLUMNS // len(_told(release)))


def heads(release: Any) -> list[str]:
    """The titles of a release's table."""
    names = [shown(name) for name in release.names()[: _columns(release)]]
    told = [f"{name} {what}".strip() for name in names for what in _told(release)]
    return [*map(shown, release.by), "noisy count", *told]


def lines(release: Any) -> list[list[str]]:
    """The first groups of a release: key, noisy count and, for each of the first columns, value and its interval."""
    parts = release.parts()
    told = [parts[what] for what in _told(release)]
    columns = _columns(release)
    out = []
    for g in range(min(len(release.keys), _GROUPS)):
        cells = ["(missing)" if cell is None else shown(cell) for cell in release.keys[g]]
        cells.append(number(float(release.counts[g]), release.count_std))
        for j in range(columns):
            cells += [_cell(value[g, j], bounds[g, j], errors[g, j]) for value, bounds, errors in told]
        out.append(cells)
    return out


def _cell(value: float, bounds: Any, error: float) -> str:
    middle, low, high = (number(float(end), float(error)) for end in (value, *bounds))
    return f"{middle} ({low} to {high})"


def facts(release: Any) -> list[str]:
    """What a reader must know beside the table."""
    rest = []
    if len(release.keys) > _GROUPS:
        rest.append(f"... {len(release.keys) - _GROUPS} more groups: to_pandas, to_csv or save have all")
    if release.plan.d > _columns(release):
        rest.append(f"... {release.plan.d - _columns(release)} more columns")
    if release.plan.grouping.keys is None:
        rest.append(f"groups are published where their noisy count reaches {release.plan.threshold:.4g}")
    rest.append(groups_cover(release))
    if release.statistic == "describe":
        rest.append(POPULATION)
    if release.shrinks:
        rest.append("means are pulled towards their weighted mean; intervals are those of the raw means")
    rest.append(guarantee(release.privacy, release.stated))
    return rest + ([] if release.secure else [INSECURE])


def describe_release(release: Any) -> str:
    table = [heads(release), *lines(release)]
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    rows = ["  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in table]
    head = f"Release: {words_of(release.statistic)} of {release.plan.d} columns in {len(release.keys)} groups"
    words = [f"  {text}" for text in (*facts(release), *[f"warning: {text}" for text in release.warnings])]
    return "\n".join([head, *[row.rstrip() for row in rows], *words])


def release_html(release: Any) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in heads(release))
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines(release))
    words = "".join(f"<p>{escape(text)}</p>" for text in (*facts(release), *release.warnings))
    return f"<div><table><tr>{head}</tr>{body}</table>{words}</div>"
