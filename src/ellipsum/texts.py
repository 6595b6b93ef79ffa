"""Plans and releases in words: repr and HTML."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from .errors import named, shown
from .people import People
from .privacy import Privacy

_SHOWN = 12
INSECURE = "NOT SECURE: noise came from a caller's generator, for tests and teaching only"


def guarantee(privacy: Privacy, stated: Mapping[str, float] | None = None) -> str:
    """One line a reader can act on: the stated budget if it is what was spent, then the curve."""
    relation = f"{privacy.change}, n public" if privacy.neighbours == "replace" else privacy.change
    slack = f", slack {privacy.slack:.3g}" if privacy.slack else ""
    words = ", ".join(f"{name} = {value:g}" for name, value in (stated or {}).items())
    curve = f"mu = {privacy.mu:.6g}{slack}"
    if not words or words.startswith("mu"):
        return f"{curve}; {relation}"
    return f"{words} ({curve}); {relation}"


def people_lines(people: People | None) -> list[str]:
    """Where people were grouped: by which column, and what became of a person's rows."""
    if people is None:
        return []
    which = "their rows" if people.max_rows is None else f"at most {people.max_rows} of their rows"
    return [f"  a person        the {people.per_person} of {which}, by {named(people.privacy_id)}"]


def number(value: float, std: float) -> str:
    """A value with the digits that its noise leaves meaningful: two of the noise std's own."""
    if not (std > 0 and abs(value) < 1e15 and 1e-12 < std < 1e15):
        return f"{value:.6g}"
    places = 1 - math.floor(math.log10(std))
    return f"{value:.{places}f}" if places > 0 else f"{value:.0f}"


def describe_plan(plan: Any) -> str:
    lines = [
        f"Plan: {plan.statistic} of {plan.d} columns, {_rows_word(plan)}, {plan.rows.kind} rows",
        f"  guarantee       {guarantee(plan.privacy, plan.stated)}",
        *people_lines(plan.people),
    ]
    if plan.clip_radius is not None:
        lines.append(f"  clip radius     {plan.clip_radius:.6g} (scaled space, E|y|^2 = 1)")
    std = plan.noise_std
    if std is None:
        lines.append("  noise std       known once n is: give n= to forecast a mean")
        return "\n".join(lines)
    expected, clipping, noise = plan.expected_squared_error, plan.clipping_error, plan.noise_error
    lines.append(f"  noise std       {_range(std)} per coordinate")
    lines.append(f"  expected error  {np.sqrt(expected or 0):.6g} root mean square, all coordinates together")
    lines.append(f"                  (squared: noise {noise:.6g} + clipping {clipping:.6g})")
    return "\n".join(lines)


def describe_release(release: Any) -> str:
    lines = [f"Release: {release.statistic} of {release.value.size} columns, {_rows_word(release.plan)}"]
    if release.count is not None:
        lines.append(f"  noisy count     {release.count:.6g}")
    lines.append(f"  guarantee       {guarantee(release.privacy, release.stated)}")
    lines += people_lines(release.plan.people)
    lines += [f"  {name:<15} {number(value, std)}  (noise std {std:.3g})" for name, value, std in _entries(release)]
    if release.value.size > _SHOWN:
        lines.append(f"  ... {release.value.size - _SHOWN} more")
    if release.denoised:
        lines.append(f"  denoised by {release.denoised}: noise std is that of the raw release")
    if not release.secure:
        lines.append(f"  {INSECURE}")
    return "\n".join(lines)


def release_html(release: Any) -> str:
    body = "".join(
        f"<tr><td>{escape(name)}</td><td>{number(value, std)}</td><td>{std:.3g}</td></tr>"
        for name, value, std in _entries(release)
    )
    more = release.value.size - _SHOWN
    rest = f"<p>... {more} more columns</p>" if more > 0 else ""
    count = "" if release.count is None else f"<p>noisy count {release.count:.6g}</p>"
    insecure = "" if release.secure else f"<p><b>{INSECURE}</b></p>"
    terms = escape(guarantee(release.privacy, release.stated))
    return (
        f"<div><p><b>Private {release.statistic}</b>: {terms}</p>{count}"
        "<table><thead><tr><th>column</th><th>value</th><th>noise std</th></tr></thead>"
        f"<tbody>{body}</tbody></table>{rest}{insecure}</div>"
    )


def _entries(release: Any) -> list[tuple[str, float, float]]:
    stds = release.noise_std
    return [(shown(n), float(v), float(s)) for n, v, s in zip(release.names(), release.value, stds, strict=True)][
        :_SHOWN
    ]


def _range(values: np.ndarray) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


def _rows_word(plan: Any) -> str:
    if plan.neighbours == "replace":
        return f"n = {plan.n}" + ("" if plan.people is None else " people")
    return "n private" + (f", guessed {plan.n}" if plan.n is not None else "")
