"""How to make a release again: the call in Python and the command, from what its plan keeps.

Data is called `data`, or data.csv: where it lies is nobody's business. Passwords in addresses are masked.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np

from ..rows import Unknown
from .document import Recipe

_MOST = 40
"""Columns that are spelled out."""
_USUAL = {
    "shape": "optimal",
    "clip": "optimal",
    "weights": None,
    "noise": "auto",
    "missing": None,
    "neighbors": "replace",
    "method": "auto",
    "check": True,
    "max_groups": 1,
}
_PASSWORD = re.compile(r"(://[^/@:]*:).*(@)", re.DOTALL)
_SETTING = re.compile(r"(password=)[^&]*", re.IGNORECASE)
_MASK = "***"
_LOCAL = re.compile(r"(?:duckdb|sqlite):///")
_TEXTS = ("--sql", "--columns", "--key", "--dataset", "--analyst", "--by", "--privacy-id")
"""Options whose words are no files."""


def masked(word: str) -> str:
    """A word without the password that an address in it may have; all of it is masked where one is left."""
    from ..sources.sql import has_password

    shown = _SETTING.sub(rf"\1{_MASK}", _PASSWORD.sub(rf"\1{_MASK}\2", word))
    value = shown.partition("=")[2] if shown.startswith("--") else shown
    left = has_password(value.replace(f":{_MASK}@", "@").replace(f"password={_MASK}", ""))
    return _MASK if left else shown


def shell(words: Sequence[str]) -> str:
    """A command as it is typed, its words quoted; files are called by their names alone, wherever they lie."""
    before = ["", *words[:-1]]
    return shlex.join(_named(masked(word), option) for word, option in zip(words, before, strict=True))


def _named(word: str, before: str) -> str:
    """A path without its folders; other words stay as they are."""
    if word.startswith("--") and "=" in word:
        option, _, value = word.partition("=")
        return f"{option}={_named(value, option)}"
    if _LOCAL.match(word):
        return f"{word.partition('://')[0]}:///{PurePath(word).name}"
    if before in _TEXTS or "://" in word or "=" in word or (before == "--keys" and not word.endswith(".csv")):
        return word
    return PurePath(word).name or word


# In Python ----------------------------------------------------------------------------------------------


def call(name: str, first: Sequence[str], words: Mapping[str, Any]) -> str:
    """A call with a line for each word, as Python has it."""
    lines = [*first, *(f"{word}={literal(value)}" for word, value in words.items())]
    return f"es.{name}(\n" + "".join(f"    {line},\n" for line in lines) + ")"


def literal(value: Any) -> str:
    """A number, a word or a list of them; long ones are left to the reader, as ..."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)) and len(value) > _MOST:
        return "..."
    return repr(value)


def script(lines: Sequence[str]) -> str:
    return "\n".join(["import ellipsum as es", "", *lines])


def rows_code(rows: Any) -> str:
    """What is known about the rows, as it is stated; None where nobody kept the magnitude that was."""
    if rows is None:
        return "es.Unknown(magnitude)  # a bound on the size of every entry"
    if rows.kind == "unknown":
        return f"es.Unknown({literal(rows.magnitude)})"
    if rows.kind == "ball":
        return f"es.Ball({rows.radius!r}, center={_even(rows.center)})"
    if rows.kind == "box":
        return _pairs("Box", rows.columns, *rows.bounds())
    if rows.kind == "normal" and rows.cov is None:
        errors = "" if np.all(np.asarray(rows.center_error) == 0.1) else f", center_error={_even(rows.center_error)}"
        return _pairs("Normal", rows.columns, np.asarray(rows.center), np.asarray(rows.std), errors)
    if rows.kind == "normal":
        return "es.Normal(center, cov=cov)  # as the plan has them"
    return 'es.load("rows.json").rows  # what es.learn wrote'


def _even(value: Any) -> str:
    """One number where all are the same."""
    numbers = np.unique(np.asarray(value, float))
    return repr(float(numbers[0])) if numbers.size == 1 else literal(np.asarray(value, float))


def _pairs(kind: str, columns: Sequence[str] | None, first: Any, second: Any, more: str = "") -> str:
    """Names with two numbers each; without names, the numbers."""
    first, second = np.broadcast_arrays(np.atleast_1d(first), np.atleast_1d(second))
    if columns is None or more:
        named = "" if columns is None else f", columns={literal(columns)}"
        beside = "std=" if kind == "Normal" else ""
        return f"es.{kind}({_even(first)}, {beside}{_even(second)}{more}{named})"
    if len(columns) > _MOST:
        return f"es.{kind}(...)  # {len(columns)} columns: the table above has them"
    inside = "".join(
        f"    {name!r}: ({one!r}, {other!r}),\n"
        for name, one, other in zip(columns, first.tolist(), second.tolist(), strict=True)
    )
    return f"es.{kind}({{\n{inside}}})"


# Recipes ------------------------------------------------------------------------------------------------


def recipe(name: str, rows: Any, stated: Mapping[str, float], words: Mapping[str, Any]) -> Recipe:
    """Of sum, mean, describe and learn: the budget, and whatever is not as usual."""
    spoken = _said(words)
    if set(stated) == {"epsilon", "delta"}:
        budget: list[str] = [f"epsilon={stated['epsilon']!r}", f"delta={stated['delta']!r}"]
    else:
        budget = [f"budget=es.Budget({', '.join(f'{word}={value!r}' for word, value in stated.items())})"]
    lines = [f"rows = {rows_code(rows)}", f"release = {call(name, ['data', 'rows', *budget], spoken)}"]
    return Recipe(script(lines), _command(name, rows, stated, spoken))


def _said(words: Mapping[str, Any]) -> dict[str, Any]:
    """Words that are not what they are by themselves."""
    said = {word: value for word, value in words.items() if value is not None}
    return {word: value for word, value in said.items() if not _is_usual(word, value)}


def _is_usual(word: str, value: Any) -> bool:
    usual = _USUAL.get(word, _USUAL)
    return type(value) is type(usual) and bool(value == usual)


def _command(name: str, rows: Any, stated: Mapping[str, float], words: Mapping[str, Any]) -> str:
    """The command, where everything can be said on one."""
    known = None if rows is None else _rows_options(rows)
    if known is None or set(stated) != {"epsilon", "delta"}:
        return ""
    options = [f"--{part}" for part in ("epsilon", "delta")]
    spent = [text for option, value in zip(options, stated.values(), strict=True) for text in (option, f"{value!r}")]
    said = [text for word, value in words.items() for text in _option(word, value)]
    return shlex.join(["ellipsum", name, "data.csv", *known, *spent, *said])


def _rows_options(rows: Any) -> list[str] | None:
    if rows.kind == "unknown" and np.ndim(rows.magnitude) == 0:
        return ["--magnitude", f"{rows.magnitude!r}"]
    if rows.kind == "ball":
        center = np.unique(np.asarray(rows.center, float))
        every = center if center.size == 1 else np.asarray(rows.center, float)
        return ["--radius", f"{rows.radius!r}", "--center", ",".join(map(repr, every.tolist()))]
    if rows.kind == "learned":
        return ["--rows", "rows.json"]
    if rows.kind == "box" and rows.columns is not None and len(rows.columns) <= _MOST:
        return _named_pairs("--bounds", rows.columns, *rows.bounds())
    simple = rows.kind == "normal" and rows.cov is None and np.unique(rows.center_error).size == 1
    if simple and rows.columns is not None and len(rows.columns) <= _MOST:
        error = ["--center-error", _even(rows.center_error)] if _even(rows.center_error) != "0.1" else []
        return _named_pairs("--normal", rows.columns, np.asarray(rows.center), np.asarray(rows.std)) + error
    return None


def _named_pairs(option: str, columns: Sequence[str], first: Any, second: Any) -> list[str]:
    pairs = zip(columns, np.asarray(first, float).tolist(), np.asarray(second, float).tolist(), strict=True)
    return [word for name, one, other in pairs for word in (option, f"{name}={one!r}:{other!r}")]


def _option(word: str, value: Any) -> list[str]:
    """A word as the command line has it."""
    if word == "check":
        return ["--no-check"]
    if value is True:
        return [f"--{word}"]
    if isinstance(value, np.ndarray):
        value = value.tolist()
    text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return [f"--{word.replace('_', '-')}", text.replace("add_remove", "add-remove")]


def release_recipe(release: Any) -> Recipe:
    """Of a sum, a mean or a description."""
    plan = release.plan
    if release.learned is not None:
        words = {"neighbors": plan.neighbors, "method": release.learned.method, **people_words(plan.people)}
        return recipe(release.statistic, unknown_of(release.learned), release.stated, words)
    return recipe(release.statistic, plan.rows, release.stated, _request_words(plan.request))


def _request_words(request: Any) -> dict[str, Any]:
    """The arguments of a request, beside its bounds and its budget."""
    bounds = request.bounds
    return {
        **{name: getattr(bounds, name, None) for name in ("shape", "clip", "clip_probability")},
        "weights": request.error_weights,
        "noise": request.noise,
        "missing": request.missing,
        "check": request.count_clipped,
        "neighbors": request.neighbors,
        "n": request.n if request.neighbors == "add_remove" else None,
        **people_words(request.people),
        "covariance": True if request.covariance else None,
    }


def unknown_of(learned: Any) -> Unknown:
    """What was stated of the rows before they were learned."""
    sizes = np.unique(learned.magnitude)
    return Unknown(float(sizes[0]) if sizes.size == 1 else learned.magnitude)


def groups_recipe(release: Any) -> Recipe:
    """Of groups: listed ones are spelled out in Python alone."""
    plan, groups = release.plan, release.plan.grouping
    keys, learned, rows = groups.keys, release.learned, plan.rows
    words = {**_request_words(plan.request), "n": None, "check": None}
    if learned is not None:
        rows = unknown_of(learned)
        words |= {"noise": None, "method": learned.method, "weights": None}
    words |= {"by": list(groups.by), "max_groups": groups.max_per_person}
    if keys is not None:
        cells = list(zip(*keys.columns, strict=True))
        words["keys"] = [group[0] for group in cells] if len(keys.columns) == 1 else cells
    made = recipe(release.statistic, rows, release.stated, words)
    return made if keys is None else Recipe(made.python)


def friendly_recipe(plan: Any) -> Recipe:
    """Of a friendly mean, or of a function that was asked about blocks of rows."""
    radius = (plan.radii[0], plan.radii[-1]) if plan.radii else plan.radius
    people = people_words(plan.people)
    if "max_rows" in people:
        people["max_rows_per_person"] = people.pop("max_rows")
    noise = "gaussian" if plan.mechanism == "gaussian" else "norm"
    gate = ["gate=es.FriendlyGate(law='laplace')"] if (plan.gate, noise) == ("laplace", "gaussian") else []
    words = {**plan.stated, "noise": noise, **people}
    if plan.source.startswith("blocks"):
        made = call(
            "subsample_and_aggregate", ["function", "data", *gate], {"blocks": plan.n, "radius": radius, **words}
        )
    else:
        made = call("friendly_mean", ["data", repr(radius), *gate], words)
    return Recipe(script([f"release = {made}"]))


def people_words(people: Any) -> dict[str, Any]:
    return {} if people is None else people.to_dict()
