"""How to make a release again: a request as a call in Python and as a command.

The data is called `data`, or data.csv, unless a `DataPlace` is given: a report does not show where the rows are.
Passwords in addresses are masked.
"""

from __future__ import annotations

import csv
import io
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import PurePath

import numpy as np

from ..privacy.budget import Budget
from ..request.bins import Bins
from ..request.groups import Groups, Value
from ..request.people import People
from ..request.quantiles import Quantiles
from ..request.request import Request
from ..rows import Ball, Box, Normal, Rows, Unknown
from .document import Recipe

_MOST = 40
"""The largest number of columns that are written out."""
_INFINITY = "float('inf')"
_PASSWORD = re.compile(r"(://[^/@:]*:).*(@)", re.DOTALL)
_SETTING = re.compile(r"(password=)[^&]*", re.IGNORECASE)
_MASK = "***"
_LOCAL = re.compile(r"(?:duckdb|sqlite):///")
_TEXTS = ("--sql", "--columns", "--request-id", "--dataset", "--analyst", "--by", "--privacy-id")
"""Options whose values are not files."""


@dataclass(frozen=True)
class DataPlace:
    """The data and the account in a recipe."""

    python: str = "data"
    """The data as a Python expression."""
    command: tuple[str, ...] = ("data.csv",)
    """The data as arguments of the command line."""
    ledger: str | None = None
    dataset: str | None = None


@dataclass(frozen=True)
class Argument:
    """One argument in Python and on the command line. option: None if there is no such option."""

    name: str
    code: str
    option: tuple[str, ...] | None = ()


def request_recipe(request: Request, place: DataPlace | None = None) -> Recipe:
    """Write a request as a Python program and, if options for all arguments exist, as a command."""
    place, bounds, arguments = place or DataPlace(), request.bounds, _budget_arguments(request.budget)
    lines, first, typed = [], [place.python], []
    if isinstance(bounds, Bins):
        arguments = [*_bins_arguments(bounds), *arguments]
    elif request.statistic != "count":
        bounds_argument = _bounds_argument(bounds)
        lines, first, typed = [f"bounds = {bounds_argument.code}"], [place.python, "bounds"], [bounds_argument]
        if bounds.columns is None and request.columns:
            arguments.append(_names_argument("columns", request.columns))
    arguments += [*_own_arguments(request), *_shared_arguments(request)]
    if place.ledger is not None:
        account = f"es.Ledger({place.ledger!r}).dataset({place.dataset!r})"
        arguments.append(Argument("ledger", account, ("--ledger", place.ledger, "--dataset", str(place.dataset))))
    lines.append(f"release = {call(request.statistic, first, {each.name: each.code for each in arguments})}")
    return Recipe(script(lines), _command(request.statistic, place, [*typed, *arguments]))


def learning_recipe(stated: Mapping[str, float], neighbors: str, method: str, people: People | None) -> Recipe:
    """The recipe of learned bounds. They do not store the magnitude."""
    own = "" if method == "auto" else f", method={method!r}"
    bounds = f"es.Unknown(magnitude{own})  # a bound on the size of every value"
    arguments = [*_budget_arguments(Budget(**stated)), *_neighbors_arguments(neighbors), *people_arguments(people)]
    learn = call("learn", ["data", "bounds"], {argument.name: argument.code for argument in arguments})
    return Recipe(script([f"bounds = {bounds}", f"release = {learn}"]))


def call(name: str, first: Sequence[str], named: Mapping[str, str]) -> str:
    """Write a call with a line for each argument. named: the code of each keyword."""
    lines = [*first, *(f"{word}={code}" for word, code in named.items())]
    return f"es.{name}(\n" + "".join(f"    {line},\n" for line in lines) + ")"


def script(lines: Sequence[str]) -> str:
    """Write statements as a program."""
    return "\n".join(["import ellipsum as es", "", *lines])


# Arguments ----------------------------------------------------------------------------------------------


def _shared_arguments(request: Request) -> list[Argument]:
    """The arguments that all statistics share, where they are not the default."""
    entries = [*_neighbors_arguments(request.neighbors), *people_arguments(request.people)]
    entries += [] if request.groups is None else [_groups_argument(request.groups)]
    if request.n is not None and request.neighbors == "add_remove":
        entries.append(Argument("n", repr(request.n), ("--n", str(request.n))))
    if request.noise != "auto":
        entries.append(Argument("noise", repr(request.noise), ("--noise", request.noise)))
    if request.statistic in ("count", "histogram"):
        return entries
    for name in ("missing", "error_weights"):
        value = getattr(request, name)
        if value is not None:
            entries.append(Argument(name, _literal(value), (_option(name), _spell_list(value))))
    if request.count_clipped is False and request.groups is None and request.statistic != "quantiles":
        entries.append(Argument("count_clipped", "False", ("--no-count-clipped",)))
    return entries


def _own_arguments(request: Request) -> list[Argument]:
    """The arguments that only one statistic has."""
    entries = [Argument("covariance", "True", ("--covariance",))] if request.covariance else []
    quantiles = request.quantiles
    if request.statistic == "describe" and quantiles is None:
        return [*entries, Argument("quantiles", "None", ("--quantiles", "none"))]
    if quantiles is None:
        return entries
    if request.statistic == "describe":
        is_usual = quantiles.q == Quantiles().q
        own = Argument("quantiles", repr(list(quantiles.q)), ("--quantiles", _spell_list(quantiles.q)))
        return entries if is_usual else [*entries, own]
    if quantiles.q != Quantiles().q:
        entries.append(Argument("q", repr(list(quantiles.q)), ("--q", _spell_list(quantiles.q))))
    if quantiles.method != "cdf":
        entries.append(Argument("method", repr(quantiles.method), ("--method", quantiles.method)))
    return [*entries, *_quantile_bins(quantiles)]


def _quantile_bins(quantiles: Quantiles) -> list[Argument]:
    bins = quantiles.bins
    if bins is None:
        return []
    several = isinstance(bins, tuple) and isinstance(bins[0], tuple)
    return [Argument("bins", _literal(bins), None if several else ("--bins", _spell_list(bins)))]


def _budget_arguments(budget: Budget | None) -> list[Argument]:
    """Epsilon and delta, or a budget in other units, for which the command line has no option."""
    stated = {} if budget is None else dict(budget.stated)
    if set(stated) - {"epsilon", "delta"}:
        inside = ", ".join(f"{name}={value!r}" for name, value in stated.items())
        return [Argument("budget", f"es.Budget({inside})", None)]
    return [Argument(name, _number(value), (_option(name), _number(value))) for name, value in stated.items()]


def _neighbors_arguments(neighbors: str) -> list[Argument]:
    is_usual = neighbors == "replace"
    return [] if is_usual else [Argument("neighbors", repr(neighbors), ("--neighbors", neighbors.replace("_", "-")))]


def people_arguments(people: People | None) -> list[Argument]:
    if people is None:
        return []
    code, option = repr(people.identity), ["--privacy-id", str(people.identity)]
    own = "" if people.per_person == "mean" else f", per_person={people.per_person!r}"
    own += "" if people.max_rows is None else f", max_rows={people.max_rows}"
    option += [] if people.per_person == "mean" else ["--per-person", people.per_person]
    option += [] if people.max_rows is None else ["--max-rows", str(people.max_rows)]
    named = isinstance(people.identity, str)
    return [Argument("privacy_id", f"es.People({code}{own})" if own else code, tuple(option) if named else None)]


def _groups_argument(groups: Groups) -> Argument:
    """The grouping columns and listed groups. Only lists of texts can be written as an option."""
    by, lists = groups.by, _key_lists(groups)
    code = repr(by[0] if len(by) == 1 else list(by))
    option: tuple[str, ...] | None = ("--by", _cells(map(str, by))) if _are_texts(by) else None
    own = ""
    if groups.keys is not None:
        cells = list(zip(*groups.keys.columns, strict=True))
        spelled = [cell[0] for cell in cells] if len(by) == 1 else cells
        own += f", keys={spelled!r}" if lists is None or len(by) == 1 else f", keys={lists!r}"
        typed = lists is not None and all(_are_texts(cells) for cells in lists.values())
        arguments = [word for name, cells in (lists or {}).items() for word in ("--keys", f"{name}={_cells(cells)}")]
        option = (*option, *arguments) if option is not None and typed else None
    if groups.max_per_person != 1:
        own += f", max_per_person={groups.max_per_person}"
        option = None if option is None else (*option, "--max-per-person", str(groups.max_per_person))
    return Argument("by", f"es.Groups({code}{own})" if own else code, option)


def _key_lists(groups: Groups) -> dict[str, list[Value]] | None:
    """A list of keys for each column, if the groups are all combinations of these lists."""
    if groups.keys is None:
        return None
    lists = {str(name): list(dict.fromkeys(cells)) for name, cells in zip(groups.by, groups.keys.columns, strict=True)}
    every = list(product(*lists.values()))
    return lists if every == list(zip(*groups.keys.columns, strict=True)) else None


def _are_texts(values: Sequence[object]) -> bool:
    return all(isinstance(value, str) and value for value in values)


def _names_argument(name: str, names: Sequence[str | int]) -> Argument:
    typed = (_option(name), _cells(map(str, names))) if _are_texts(names) else None
    return Argument(name, _literal(list(names)), typed)


# Bounds -------------------------------------------------------------------------------------------------


def _bounds_argument(bounds: Rows) -> Argument:
    """The bounds of the values."""
    if isinstance(bounds, Box):
        code, option = _pairs("Box", bounds, bounds.lower, bounds.upper)
        return _with_options(code, option, {"shape": (bounds.shape, "optimal")})
    if isinstance(bounds, Ball):
        code = f"es.Ball({_number(bounds.radius)}, center={_even(bounds.center)})"
        center = np.unique(np.asarray(bounds.center, float))
        typed = _spell_list(center if center.size == 1 else np.asarray(bounds.center, float))
        return Argument("bounds", code, ("--radius", _number(bounds.radius), "--center", typed))
    if isinstance(bounds, Normal):
        return _normal_argument(bounds)
    if isinstance(bounds, Unknown):
        return _unknown_argument(bounds)
    return Argument("bounds", 'es.load("bounds.json").bounds  # what es.learn wrote', ("--bounds", "bounds.json"))


def _bins_arguments(bins: Bins) -> list[Argument]:
    """Edges and categories, by column or for a single column."""
    if bins.places is None:
        return [Argument("bins", _literal(bins.edges[0]), None)]
    names, size = bins.places, len(bins.edges)
    edges = {name: part.tolist() for name, part in zip(names, bins.edges, strict=False)}
    lists = {name: list(part.columns[0]) for name, part in zip(names[size:], bins.categories, strict=True)}
    entries = []
    for word, parts in (("bins", edges), ("categories", lists)):
        code = ", ".join(f"{name!r}: {_literal(values)}" for name, values in parts.items())
        typed = _are_texts(list(parts)) and all(map(_are_texts, parts.values() if word == "categories" else ()))
        texts = {name: _cells(map(_spell_list, values)) for name, values in parts.items()}
        option = tuple(text for name, cells in texts.items() for text in (_option(word), f"{name}={cells}"))
        entries += [Argument(word, f"{{{code}}}", option if typed else None)] if parts else []
    return entries


def _normal_argument(bounds: Normal) -> Argument:
    options = {
        "shape": (bounds.shape, "optimal"),
        "clip": (bounds.clip, "optimal"),
        "clip_probability": (bounds.clip_probability, None),
    }
    if bounds.cov is not None or bounds.std is None:
        return _with_options("es.Normal(center, cov=cov)  # as the plan has them", None, options)
    code, option = _pairs("Normal", bounds, bounds.center, bounds.std)
    errors = np.unique(np.asarray(bounds.center_error, float))
    if errors.size == 1 and errors[0] == 0.1:
        return _with_options(code, option, options)
    typed = None if option is None or errors.size > 1 else (*option, "--center-error", _number(float(errors[0])))
    if bounds.columns is not None:  # The short form with names has no other arguments.
        first, second = (_literal(np.asarray(part, float)) for part in (bounds.center, bounds.std))
        code = f"es.Normal({first}, std={second}, columns={_literal(list(bounds.columns))})"
    return _with_options(f"{code[:-1]}, center_error={_even(bounds.center_error)})", typed, options)


def _unknown_argument(bounds: Unknown) -> Argument:
    options: dict[str, tuple[object, object]] = {"method": (bounds.method, "auto")}
    options |= {name: (value, None) for name, value in bounds.options.items()}
    sizes = np.atleast_1d(np.asarray(bounds.magnitude, float)).tolist()
    if bounds.columns is None or np.ndim(bounds.magnitude) == 0:
        typed = ("--magnitude", _number(sizes[0])) if np.ndim(bounds.magnitude) == 0 else None
        return _with_options(f"es.Unknown({_literal(bounds.magnitude)})", typed, options)
    named = dict(zip(bounds.columns, sizes, strict=True))
    inside = ", ".join(f"{name!r}: {_number(size)}" for name, size in named.items())
    typed_sizes = [word for name, size in named.items() for word in ("--magnitude", f"{name}={_number(size)}")]
    return _with_options(f"es.Unknown({{{inside}}})", tuple(typed_sizes), options)


def _with_options(code: str, option: tuple[str, ...] | None, options: Mapping[str, tuple[object, object]]) -> Argument:
    """Add the options of the bounds that differ from their defaults. options: value and default by name."""
    changed = {name: value for name, (value, usual) in options.items() if value != usual}
    if not changed:
        return Argument("bounds", code, option)
    own = "".join(f", {name}={_literal(value)}" for name, value in changed.items())
    before, comment, note = code.partition("  # ")
    typed = [word for name, value in changed.items() for word in (_option(name), _spell_list(value))]
    return Argument("bounds", f"{before[:-1]}{own}){comment}{note}", None if option is None else (*option, *typed))


def _pairs(
    kind: str, bounds: Rows, first: float | np.ndarray, second: float | np.ndarray
) -> tuple[str, tuple[str, ...] | None]:
    """Write two numbers for each column, by name if columns have names."""
    if bounds.columns is None:
        beside = "std=" if kind == "Normal" else ""
        return f"es.{kind}({_even(first)}, {beside}{_even(second)})", None
    if len(bounds.columns) > _MOST:
        return f"es.{kind}(...)  # {len(bounds.columns)} columns: the table above has them", None
    ends = np.broadcast_arrays(np.atleast_1d(first), np.atleast_1d(second), np.zeros(len(bounds.columns)))[:2]
    texts = [[_number(value) for value in part.tolist()] for part in ends]
    named = list(zip(bounds.columns, *texts, strict=True))
    inside = "".join(f"    {name!r}: ({one}, {other}),\n" for name, one, other in named)
    option = "--bounds" if kind == "Box" else "--normal"
    arguments = [word for name, one, other in named for word in (option, f"{name}={one}:{other}")]
    return f"es.{kind}({{\n{inside}}})", tuple(arguments)


# Values -------------------------------------------------------------------------------------------------


def _number(value: float) -> str:
    """Write a number as people type it: 120 for 120.0."""
    value = float(value)
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _literal(value: object) -> str:
    """Write a number, a text, or a list of them in Python; a long list as three dots."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return "..." if len(value) > _MOST else f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, float) and math.isinf(value):
        return _INFINITY if value > 0 else f"-{_INFINITY}"
    return _number(value) if isinstance(value, float) else repr(value)


def _even(value: float | np.ndarray) -> str:
    """Write one number if all are the same, else a list."""
    numbers = np.unique(np.asarray(value, float))
    return _number(float(numbers[0])) if numbers.size == 1 else _literal(np.asarray(value, float))


def _spell_list(value: object) -> str:
    """Write numbers with commas between them, or one text."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return ",".join(map(_spell_list, value))
    return _number(value) if isinstance(value, float) else str(value)


def _cells(values: object) -> str:
    """Write values as a line of CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(values)  # type: ignore[arg-type]
    return text.getvalue()


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


# Commands -----------------------------------------------------------------------------------------------


def _command(name: str, place: DataPlace, arguments: Sequence[Argument]) -> str:
    """The command, or an empty text if some argument has no option."""
    options = [argument.option for argument in arguments]
    if None in options:
        return ""
    return shlex.join(["ellipsum", name, *place.command, *(word for option in options for word in option or ())])


def shell(words: Sequence[str]) -> str:
    """Write a command with its words quoted and files without their folders."""
    before = ["", *words[:-1]]
    return shlex.join(_without_folders(masked(word), option) for word, option in zip(words, before, strict=True))


def masked(word: str) -> str:
    """Mask the password of an address in an argument; mask all of it if a password may remain."""
    from ..sources.sql import has_password

    shown = _SETTING.sub(rf"\1{_MASK}", _PASSWORD.sub(rf"\1{_MASK}\2", word))
    value = shown.partition("=")[2] if shown.startswith("--") else shown
    left = has_password(value.replace(f":{_MASK}@", "@").replace(f"password={_MASK}", ""))
    return _MASK if left else shown


def _without_folders(word: str, before: str) -> str:
    """Remove the folders of a path; other words remain unchanged."""
    if word.startswith("--") and "=" in word:
        option, _, value = word.partition("=")
        return f"{option}={_without_folders(value, option)}"
    if _LOCAL.match(word):
        return f"{word.partition('://')[0]}:///{PurePath(word).name}"
    if before in _TEXTS or "://" in word or "=" in word or (before == "--keys" and not word.endswith(".csv")):
        return word
    return PurePath(word).name or word
