"""Plans and releases in words: repr and HTML."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from ..errors import named, shown
from ..privacy.guarantee import Budget, Privacy, compose
from ..request.people import People

SHOWN = 12
_LEVEL = 0.95
HINT = "(statistic='mean' plans a mean)"
_PLAIN_UNITS = "equal: errors in plain units"
_NOTHING_ADDED = "a missing entry adds nothing"
INSECURE = "NOT SECURE: noise came from a caller's generator, for tests and teaching only"


def _curve(privacy: Any) -> str:
    """What a guarantee is made of, in few words."""
    if isinstance(privacy, Privacy):
        gaussian = [f"mu = {privacy.mu:.6g}"] if privacy.mu or not privacy.pure else []
        return ", ".join(gaussian + [f"pure epsilon = {epsilon:.6g}" for epsilon in privacy.pure])
    return f"spherical noise, sensitivity over scale {privacy.ratio:.6g} in {privacy.dimension} dimensions"


def guarantee(privacy: Any, stated: Mapping[str, float] | None = None) -> str:
    """One line a reader can act on: the stated budget if it is what was spent, then the curve."""
    relation = protected(privacy)
    slack = f", slack {privacy.slack:.3g}" if privacy.slack else ""
    words = ", ".join(f"{name} = {value:g}" for name, value in (stated or {}).items())
    curve = _curve(privacy) + slack
    if not words or words.startswith("mu"):
        return f"{curve}; {relation}"
    return f"{words} ({curve}); {relation}"


def protected(privacy: Any) -> str:
    """What a guarantee hides, and what it does not."""
    return f"{privacy.change}, n public" if privacy.neighbors == "replace" else str(privacy.change)


def people_lines(people: People | None) -> list[str]:
    """Where people were grouped: by which column, and what became of a person's rows."""
    if people is None:
        return []
    which = "their rows" if people.max_rows is None else f"at most {people.max_rows} of their rows"
    what = f"{which}, each by itself" if people.per_person == "rows" else f"the {people.per_person} of {which}"
    return [f"  a person        {what}, by {named(people.privacy_id)}"]


def number(value: float, std: float) -> str:
    """A value with the digits that its noise leaves meaningful: two of the noise std's own."""
    if not (std > 0 and abs(value) < 1e15 and 1e-12 < std < 1e15):
        return f"{value:.6g}"
    places = max(0, 1 - math.floor(math.log10(std)))
    text = f"{value:.{places}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def describe_plan(plan: Any) -> str:
    lines = [
        f"Plan: {plan.statistic} of {plan.d} columns, {rows_word(plan)}, {plan.rows.kind} rows{hint(plan)}",
        f"  guarantee       {guarantee(plan.privacy, plan.stated)}",
        *people_lines(plan.people),
        f"  missing entries {missing_words(plan)}",
        *[f"  weights         {words}" for words in _weights_words(plan)],
    ]
    if plan.clip_radius is not None:
        lines.append(f"  clip radius     {plan.clip_radius:.6g} (scaled space, E|y|^2 = 1)")
    lines += [f"  {title:<15} {words}" for title, words in _law_words(plan)]
    std = plan.noise_std
    if std is None:
        lines.append("  noise std       known once n is: give n= to forecast a mean")
    else:
        expected, clipping, noise = plan.expected_squared_error, plan.clipping_error, plan.noise_error
        lines.append(f"  noise std       {_range(std)} per coordinate")
        lines.append(f"  expected error  {np.sqrt(expected or 0):.6g} root mean square, all coordinates together")
        lines.append(f"                  (squared: noise {noise:.6g} + clipping {clipping:.6g})")
    lines += [f"  {title:<15} {words}" for title, words in _described_words(plan)]
    entries = _planned_entries(plan)
    lines += [f"  {name:<15} {about(stated, noise)}".rstrip() for name, stated, noise in entries]
    return "\n".join(lines + more(plan.d) + [f"  warning: {text}" for text in _doubts(plan)])


def _described_words(plan: Any) -> list[tuple[str, str]]:
    """Of a plan that describes columns: how far their stds and correlations are expected to be off."""
    if plan.statistic != "describe":
        return []
    errors, correlation = plan.std_errors, plan.correlation_error
    lines = [] if errors is None else [("std error", f"{_range(errors)} per column, spread evenly over its bounds")]
    if correlation is not None:
        lines.append(
            ("correlations", f"error {correlation:.3g}, of such columns; for up to 1.42 times the noise of everything")
        )
    return lines


_LAWS = {
    "gaussian": "Gaussian",
    "ball": "spherical (density falls with the length of the noise)",
    "box": "pure epsilon, columns in blocks that share a radius",
}


def _law_words(plan: Any) -> list[tuple[str, str]]:
    """Which law of noise was taken, what the others would give, and what many such releases cost."""
    if plan.mechanism == "gaussian" and not plan.considered:
        return []
    others = {name: error for name, error in plan.considered.items() if name != plan.mechanism}
    own = plan.considered.get(plan.mechanism, 0.0)
    beside = [f"{name} {error / own:.3g} times the error" for name, error in others.items()] if own else []
    lines = [("noise law", _LAWS[plan.mechanism] + (f"; {', '.join(beside)}" if beside else ""))]
    if plan.mechanism != "gaussian" and plan.stated.get("delta"):
        lines.append(("", _ten_releases(plan)))
    return lines


def _ten_releases(plan: Any) -> str:
    """What composes well is not what errs least alone."""
    delta = plan.stated["delta"]
    ours = compose([plan.privacy] * 10).epsilon(delta)
    gaussian = compose([Privacy(Budget(**plan.stated).mu, 0.0, plan.neighbors)] * 10).epsilon(delta)
    return f"ten releases like this: epsilon {ours:.3g} with this law, {gaussian:.3g} with Gaussian noise"


def _doubts(plan: Any) -> list[str]:
    """Why a budget spent on a plan may be wasted; the last round of learning is no plan of anybody's."""
    return [plan.doubt] if plan.stated and plan.doubt else []


def plan_html(plan: Any) -> str:
    """A plan for a notebook: what `describe_plan` says, its columns as a table."""
    expected = plan.expected_squared_error
    facts = [
        guarantee(plan.privacy, plan.stated),
        *[line.strip() for line in people_lines(plan.people)],
        f"missing entries: {missing_words(plan)}",
        *[f"weights: {words}" for words in _weights_words(plan)],
        "" if expected is None else f"expected error {np.sqrt(expected):.6g}, root mean square, all columns together",
        *[f"{title}: {words}" for title, words in _described_words(plan)],
    ]
    head = f"Plan: {plan.statistic} of {plan.d} columns, {rows_word(plan)}, {plan.rows.kind} rows{hint(plan)}"
    table = html_table(("column", "stated", "noise std"), _planned_entries(plan), plan.d)
    doubts = paragraphs([f"warning: {text}" for text in _doubts(plan)])
    return f"<div><p><b>{escape(head)}</b></p>{paragraphs(facts)}{table}{doubts}</div>"


def hint(plan: Any) -> str:
    """Beside a sum, which is also what is planned where nobody says: how to have a mean."""
    return f" {HINT}" if plan.statistic == "sum" else ""


def about(stated: str, noise: str) -> str:
    """A column's line: what is stated of it, and its noise."""
    said = f"noise std {noise}" if noise else ""
    return f"{stated:<22} {said}" if stated else said


def missing_words(plan: Any, absent: Any = None) -> str:
    """What this plan does about missing entries; absent: those that were counted before."""
    if absent is not None:
        return missing_rule("column", plan.statistic)
    riders, asked = plan.riders, plan.options.get("missing")
    if asked == "center" if isinstance(asked, str) else asked is not None:
        return missing_rule(asked, plan.statistic)
    if riders.missing == "row":
        return missing_rule("row", plan.statistic)
    if riders.width == 0 and "check" not in plan.options:  # a plan of format 1
        return missing_rule("center", plan.statistic)
    about_zero = plan.statistic == "sum" and not plan.clamped and not plan.ellipsoid.center.any()
    if riders.missing == "center" and not about_zero:
        return "none, by the columns' types"
    return missing_rule("column", plan.statistic) if any(riders.absences) else _NOTHING_ADDED


def _release_missing(release: Any) -> str:
    return missing_words(release.plan, None if release.learned is None else release.learned.absent)


def missing_rule(asked: Any, statistic: str) -> str:
    """The word `missing` of a call, spelled out."""
    if not isinstance(asked, str):
        return f"a missing entry counts as {_short(asked)}"
    if asked == "row":
        return "rows with a missing entry are left out, their number noisy"
    if asked == "center":
        return "a missing entry counts as the center"
    return f"{_NOTHING_ADDED if statistic == 'sum' else 'each column over the rows that have it'}, counts noisy"


def _weights_words(plan: Any) -> list[str]:
    """In which units errors are weighed; nothing where there is no choice."""
    return [weights_rule(plan.options.get("weights"))] if plan.rows.kind in ("box", "normal") else []


def weights_rule(weights: Any) -> str:
    """The word `weights` of a call, spelled out."""
    if weights is not None and not isinstance(weights, str):
        return f"as stated: {_short(weights)}"
    return "relative: each column's error in units of its own spread" if weights == "relative" else _PLAIN_UNITS


def _short(numbers: Any) -> str:
    flat = np.ravel(numbers).tolist()
    return ", ".join(f"{value:g}" for value in flat[:SHOWN]) + (", ..." if len(flat) > SHOWN else "")


def _planned_entries(plan: Any) -> list[tuple[str, str, str]]:
    """For each of the first columns: its name, what is stated of it, and the std of its noise."""
    names = plan.columns or tuple(f"x{j + 1}" for j in range(min(plan.d, SHOWN)))
    stds = plan.noise_std
    noise = [""] * len(names) if stds is None else [f"{std:.3g}" for std in stds[:SHOWN]]
    return [(shown(name), stated_of(plan.rows, j), noise[j]) for j, name in enumerate(names[:SHOWN])]


def stated_of(rows: Any, j: int) -> str:
    """What is stated of a column, in its own units."""
    if rows.clamps:
        lower, upper = rows.bounds()
        return f"{lower[j]:g} to {upper[j]:g}"
    if rows.kind in ("normal", "learned"):
        return f"{rows.center[j]:g} ± {rows.spread()[j]:.4g}"
    return f"center {rows.center[j]:g}" if rows.kind == "ball" and np.any(rows.center) else ""


@dataclass(frozen=True)
class Entry:
    """One column of a release, in words: the interval is for the data at 95%, rows how many have the column."""

    name: str
    value: str
    error: str
    interval: str
    rows: str
    note: str


def release_entries(release: Any, most: int, magnitude: Any = None) -> list[Entry]:
    """The first columns of a release; magnitude: what was stated of Unknown rows, where it is known."""
    errors, spans = release.standard_error, release.confidence_interval(_LEVEL)
    rows, notes = _counted_rows(release), _notes(release, magnitude)
    entries = []
    for j, name in enumerate(release.names()[:most]):
        error = float(errors[j])
        low, high = (number(float(end), error) for end in spans[j])
        value = "not found" if math.isnan(release.value[j]) else number(float(release.value[j]), error)
        entries.append(Entry(shown(name), value, f"{error:.3g}", f"{low} to {high}", rows[j], notes[j]))
    return entries


def _counted_rows(release: Any) -> list[str]:
    """How many rows have each column, where it was counted; else nothing."""
    riders, counts = release.plan.riders, release.counts
    if counts is None or riders is None:
        return [""] * release.value.size
    absent = None if release.learned is None else release.learned.absent
    units = riders.absences if absent is None else absent.stds.tolist()
    if len(units) != release.value.size or (absent is None and riders.missing != "column"):
        return [""] * release.value.size
    pairs = zip(units, counts.rows.tolist(), counts.stds.tolist(), strict=True)
    return [f"{number(rows, std)} ± {std:.2g}" if unit else "" for unit, rows, std in pairs]


def _notes(release: Any, magnitude: Any) -> list[str]:
    """Where a value lies at or beyond a bound that was stated for its column."""
    low, high = stated_bounds(release, magnitude)
    live = low < high
    above, below = live & (release.value >= high), live & (release.value <= low)
    words = np.where(above, "at its upper bound", np.where(below, "at its lower bound", ""))
    return [str(word) for word in words]


def stated_bounds(release: Any, magnitude: Any) -> tuple[Any, Any]:
    """What the statistic lies between if the rows are as stated; infinities where nothing says so."""
    rows = release.plan.rows
    limit = magnitude if release.learned is None else release.learned.magnitude
    if limit is not None:
        high = np.broadcast_to(np.asarray(limit, float), release.value.shape) * (1 - 2.0**-40)  # but for rounding
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


def groups_cover(release: Any) -> str:
    """What the intervals of groups are for."""
    if release.learned is not None:
        return "95% intervals cover the noise of sums and counts, and what learned bounds are estimated to cut off"
    return "95% intervals cover the noise of sums and counts; what was clipped is not in them"


def covers(release: Any) -> str:
    """What the intervals of a release are for."""
    riders, counts = release.plan.riders, release.counts
    noise = "the noise of sums and counts" if counts is not None and counts.stds.any() else "the noise"
    if riders is None:
        return f"95% intervals cover {noise}"
    if release.learned is not None:
        few = f"{release.learned.unnoticed} outliers or fewer in a column could go unnoticed"
        return f"95% intervals cover {noise}, and what learned bounds are estimated to cut off; {few}"
    if not riders.outside:
        return f"95% intervals cover {noise}; what was clipped is not in them, since it was not counted"
    if release.plan.clamped:
        return f"95% intervals cover {noise}, for entries held to their bounds"
    few = f"{release.clipping_bias.undetected_rows:.6g} rows or fewer far beyond the others"
    return f"95% intervals cover {noise}, and what clipping may hide, but for {few}"


def rows_lines(release: Any) -> list[str]:
    """The noisy numbers of rows that all columns share."""
    riders, counts = release.plan.riders, release.counts
    lines = [] if release.count is None else [f"noisy count     {release.count:.6g}"]
    if riders is not None and riders.missing == "row" and counts is not None:
        rows, std = float(counts.rows[0]), float(counts.stds[0])
        lines.append(f"complete rows   {number(rows, std)} ± {std:.2g}")
    return lines


def describe_release(release: Any) -> str:
    lines = [f"Release: {release.statistic} of {release.value.size} columns, {rows_word(release.plan)}"]
    lines += [f"  {line}" for line in rows_lines(release)]
    lines.append(f"  guarantee       {guarantee(release.privacy, release.stated)}")
    lines += people_lines(release.plan.people)
    if release.plan.riders is not None:
        lines.append(f"  missing entries {_release_missing(release)}")
    for entry in release_entries(release, SHOWN):
        rows = f", {entry.rows} rows" if entry.rows else ""
        note = f"  {entry.note}" if entry.note else ""
        lines.append(f"  {entry.name:<15} {entry.value}  (95%: {entry.interval}; error std {entry.error}{rows}){note}")
    lines += more(release.value.size)
    lines.append(f"  {covers(release)}")
    if release.denoised:
        lines.append(f"  denoised by {release.denoised}: errors and intervals are those of the raw release")
    if not release.secure:
        lines.append(f"  {INSECURE}")
    return "\n".join(lines + [f"  warning: {text}" for text in release.warnings])


def release_html(release: Any) -> str:
    entries = release_entries(release, SHOWN)
    heads = ["column", "value", "95% interval", "error std"]
    lines = [[entry.name, entry.value, entry.interval, entry.error] for entry in entries]
    for head in ("rows", "note"):
        cells = [getattr(entry, head) for entry in entries]
        if any(cells):
            heads.append(head)
            lines = [[*line, cell] for line, cell in zip(lines, cells, strict=True)]
    facts = [*rows_lines(release), *[line.strip() for line in people_lines(release.plan.people)]]
    if release.plan.riders is not None:
        facts.append(f"missing entries: {_release_missing(release)}")
    table = html_table(heads, lines, release.value.size)
    ends = [covers(release), *[f"warning: {text}" for text in release.warnings]]
    insecure = "" if release.secure else f"<p><b>{INSECURE}</b></p>"
    terms = escape(guarantee(release.privacy, release.stated))
    top = f"<p><b>Private {release.statistic}</b>: {terms}</p>{paragraphs(facts)}"
    return f"<div>{top}{table}{paragraphs(ends)}{insecure}</div>"


def html_table(heads: Sequence[str], lines: Sequence[Sequence[str]], size: int) -> str:
    head = "".join(f"<th>{escape(word)}</th>" for word in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    rest = paragraphs([f"{line.strip()} columns" for line in more(size)])
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def paragraphs(texts: Sequence[str]) -> str:
    return "".join(f"<p>{escape(text)}</p>" for text in texts if text)


def more(size: int) -> list[str]:
    return [f"  ... {size - SHOWN} more"] if size > SHOWN else []


def _range(values: np.ndarray) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


def rows_word(plan: Any) -> str:
    if plan.neighbors == "replace":
        return f"n = {plan.n}" + ("" if plan.people is None else " people")
    return "n private" + (f", guessed {plan.n}" if plan.n is not None else "")
