"""Turn the fields of a form into a request, or into an error for each wrong field."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from starlette.datastructures import UploadFile

from ... import Ball, Box, Budget, Groups, Normal, People, Unknown, UsageError
from ...request.bins import Bins
from ...request.people import WAYS
from ...request.quantiles import Quantiles
from ...request.request import ONES, Request
from ...rows import Rows
from ...sources.paths import Field

Value = TypeVar("Value")
_NUMBER = "Write a number, such as 0.5 or 200000."
_WHOLE = "Write a whole number of at least 1."
_NO_COLUMN = "This table has no such column."
_DEFAULTS = {
    **{"statistic": "mean", "kind": "bounds", "neighbors": "replace", "noise": "auto", "per_person": "mean"},
    **dict.fromkeys(("weights", "missing"), ""),
}
"""The defaults of fields with options."""
_ENDS = {"bounds": ("the lower bound", "the upper bound"), "normal": ("the mean", "the standard deviation")}
_KINDS = ("bounds", "normal", "ball", "learned")
_KINDS_OF = {"describe": ("bounds",), "quantiles": ("bounds", "learned")}
"""The kinds of bounds that a statistic accepts, if not all."""
_BEGINS = {
    "no budget reaches": "error",
    "for unknown bounds, error": "error",
    "this statistic has no target error": "epsilon",
    "describe": "kind",
    "error_weights": "weights",
    "max_per_person": "max_groups",
    "expected": "groups",
    "this ledger": "dataset",
    "a ledger": "ledger",
    "bins": "bins",
}
"""Beginnings of messages of the library, and their fields, where the field is not the first word."""
_FIELDS = frozenset([
    "epsilon", "delta", "error", "radius", "center", "magnitude", "noise", "missing", "max_rows", "per_person",
    "privacy_id", "keys", "by", "groups", "n", "dataset", "ledger", "statistic", "neighbors",
])  # fmt: skip


@dataclass
class Filled:
    """A filled form: texts by name, the ticked columns, and perhaps a file."""

    values: Mapping[str, str] = field(default_factory=dict)
    used: frozenset[int] = frozenset()
    """The positions of the ticked columns."""
    file: UploadFile | None = None

    def __getitem__(self, name: str) -> str:
        return self.values.get(name, _DEFAULTS.get(name, "")).strip()


def about(error: Exception) -> tuple[str, str]:
    """The field that causes an error of the library ("" if unknown), and the text of the error."""
    text = sentence(str(error))
    lowered = text.lower()
    named = next((name for start, name in _BEGINS.items() if lowered.startswith(start)), lowered.partition(" ")[0])
    return named if named in _FIELDS or named in _BEGINS.values() else "", text


def sentence(text: str) -> str:
    """A message with a capital letter; messages of the library may begin with the name of an argument."""
    return text[:1].upper() + text[1:]


class Reader:
    """Reads one form; `errors` has an error for each wrong field."""

    def __init__(self, filled: Filled, schema: Sequence[Field]) -> None:
        self.filled = filled
        self.errors: dict[str, str] = {}
        self._schema = schema

    def request(self, needs_budget: bool = True) -> Request | None:
        """The request, or None if a field is wrong. A request without a budget is for a forecast only."""
        chosen = {name: self.filled[name] for name in _DEFAULTS}
        statistic = chosen["statistic"]
        budget = self._budget(needs_budget)
        bounds = self._bounds(statistic, chosen["kind"])
        names = bounds.columns if isinstance(bounds, Bins) else tuple(self._schema[i].name for i in self._columns())
        n, people, groups = self._whole("n"), self._people(chosen["per_person"]), self._groups()
        missing = (
            self._required_number("fill", "Type the number.")
            if chosen["missing"] == "fill"
            else chosen["missing"] or None
        )
        self._check_apart(names or (), people, groups)
        if chosen["per_person"] not in WAYS:
            self.errors["per_person"] = "Choose one of the options."
        if self.errors:
            return None
        assert bounds is not None
        return self._make_or_note_error(
            lambda: Request(
                statistic,
                bounds,
                budget,
                neighbors=chosen["neighbors"],
                n=n if chosen["neighbors"] == "add_remove" else None,
                columns=None if statistic in ("count", "histogram") else names,
                people=people,
                groups=groups,
                missing=missing,
                noise=chosen["noise"],
                error_weights=chosen["weights"] or None,
                quantiles=Quantiles() if statistic in ("quantiles", "describe") else None,
                d=bounds.d if isinstance(bounds, Bins) else len(names or ()) or 1,
            )
        )

    def account(self) -> tuple[str | None, str | None]:
        """The ledger's address, and the name of the data set in it."""
        ledger, dataset = self.filled["ledger"] or None, self.filled["dataset"] or None
        if ledger and not dataset:
            self.errors["dataset"] = "Type the name under which the ledger keeps this data's budget."
        if dataset and not ledger:
            self.errors["ledger"] = "Type the ledger's file, or leave the data set out."
        return ledger, dataset

    def number(self, name: str) -> float | None:
        """A finite number, or None if the field is empty or wrong."""
        return self._parse_field(name, _finite, _NUMBER)

    def guess(self) -> int | None:
        """The caller's guess of the number of rows or people."""
        return self._whole("n")

    # Bounds of the values --------------------------------------------------------------------------

    def _bounds(self, statistic: str, kind: str) -> Rows | None:
        if statistic == "count":
            return ONES
        if statistic == "histogram":
            return self._bins()
        if kind not in _KINDS_OF.get(statistic, _KINDS):
            self.errors["kind"] = "This statistic needs bounds for each column."
            return None
        places = self._columns()
        if kind == "ball":
            radius, center = self._positive("radius", "Type the radius."), self.number("center")
            return self._make_or_note_error(lambda: Ball(radius, center or 0.0)) if radius else None
        if kind == "learned":
            magnitude = self._positive("magnitude", "Type a magnitude that no value exceeds.")
            return self._make_or_note_error(lambda: Unknown(magnitude)) if magnitude else None
        pairs = {self._schema[place].name: self._pair(place, kind) for place in places}
        if self.errors:
            return None
        return self._make_or_note_error(lambda: Box(pairs) if kind == "bounds" else Normal(pairs))

    def _bins(self) -> Bins | None:
        """Equal bins between the bounds of each column, or its listed categories."""
        edges: dict[str, list[float]] = {}
        lists: dict[str, list[str]] = {}
        number = self._whole("bins") or 10
        for place in self._columns(numeric=False):
            name, listed = self._schema[place].name, self.filled[f"c-{place}"]
            if listed:
                lists[name] = [cell.strip() for cell in cells(listed)]
            elif not self._schema[place].numeric:
                self.errors[f"c-{place}"] = "List the categories, with commas between them."
            else:
                ends = np.linspace(*self._pair(place, "bounds"), number + 1)
                edges[name] = [float(f"{end:.12g}") for end in ends]  # Write 4.8, not 4.800000000000001.
        return None if self.errors else self._make_or_note_error(lambda: Bins(edges, lists))

    def _columns(self, numeric: bool = True) -> list[int]:
        """The positions of the ticked columns; a count has none."""
        if self.filled["statistic"] == "count":
            return []
        places = [place for place in sorted(self.filled.used) if 0 <= place < len(self._schema)]
        names = [self._schema[place].name for place in places]
        if not places:
            self.errors["columns"] = "Tick at least one column, or paste bounds."
        elif len(set(names)) < len(names):
            self.errors["columns"] = "Two of these columns have the same name. Rename one in the file, or untick it."
        elif numeric and not all(self._schema[place].numeric for place in places):
            self.errors["columns"] = "A column without numbers has no sum or mean. Untick it."
        return places

    def _pair(self, place: int, kind: str) -> tuple[float, float]:
        names = f"a-{place}", f"b-{place}"
        ends = [self._required_number(name, f"Type {what}.") for name, what in zip(names, _ENDS[kind], strict=True)]
        low, high = (0.0 if end is None else end for end in ends)
        if kind == "bounds" and None not in ends and low > high:
            self.errors[names[1]] = "The upper bound is below the lower one."
        if kind == "normal" and high < 0:
            self.errors[names[1]] = "A standard deviation is 0 or more."
        return low, high

    # People, groups, budget ---------------------------------------------------------------------------------

    def _people(self, per_person: str) -> People | None:
        column = self.filled["privacy_id"]
        if not column:
            return None
        most = self._whole("max_rows")
        if column not in self._available():
            self.errors["privacy_id"] = _NO_COLUMN
        if "max_rows" in self.errors:
            return None
        return self._make_or_note_error(lambda: People(column, per_person, most))

    def _groups(self) -> Groups | None:
        if not self.filled["by"]:
            return None
        by = [part.strip() for part in cells(self.filled["by"])]
        if not set(by) <= self._available():
            self.errors["by"] = f"{_NO_COLUMN} Write names with commas between them."
        keys, expected = self._keys(by), self._whole("groups")
        most = (self._whole("max_groups") or 1) if self.filled["privacy_id"] else 1
        return (
            None
            if {"by", "keys"} & set(self.errors)
            else self._make_or_note_error(lambda: Groups(by, keys, most, expected))
        )

    def _keys(self, by: Sequence[str]) -> list[str] | dict[str, list[str]] | None:
        """Public groups: one per line, or a line name=a,b,c for each of several columns."""
        lines = [line.strip() for line in self.filled["keys"].splitlines() if line.strip()]
        if not lines or len(by) == 1:
            return lines or None
        lists = {line.partition("=")[0].strip(): cells(line.partition("=")[2]) for line in lines}
        if set(lists) != set(by) or len(lines) != len(by) or not all(lists.values()):
            self.errors["keys"] = "Write one line for each grouping column: name=a,b,c."
            return None
        return {name: [cell.strip() for cell in lists[name]] for name in by}

    def _budget(self, needed: bool) -> Budget | None:
        """Epsilon and delta; None if one is missing."""
        parts = {name: self.number(name) for name in ("epsilon", "delta")}
        for name, value in parts.items():
            if needed and value is None:
                self.errors.setdefault(name, f"Type {name}: it has no default.")
        if None in parts.values():
            return None
        return self._make_or_note_error(lambda: Budget(**parts))

    def _check_apart(self, names: Sequence[str], people: People | None, groups: Groups | None) -> None:
        """Refuse columns that identify people or groups and are ticked as values."""
        apart = {"privacy_id": set() if people is None else {people.privacy_id}}
        apart["by"] = set() if groups is None else set(groups.by)
        for name, columns in apart.items():
            if columns & set(names):
                self.errors.setdefault(name, "This column is also ticked as a value. Untick it there.")

    # One field each -----------------------------------------------------------------------------------------

    def _make_or_note_error(self, make: Callable[[], Value]) -> Value | None:
        """Make an object of the library, or note its error under a field."""
        try:
            return make()
        except UsageError as error:
            name, text = about(error)
            self.errors[name or "columns"] = text
            return None

    def _parse_field(self, name: str, parse: Callable[[str], Value], advice: str) -> Value | None:
        text = self.filled[name]
        if not text:
            return None
        try:
            return parse(text)
        except ValueError:
            self.errors[name] = advice
            return None

    def _whole(self, name: str) -> int | None:
        return self._parse_field(name, _parse_count, _WHOLE)

    def _required_number(self, name: str, advice: str) -> float | None:
        if not self.filled[name]:
            self.errors[name] = advice
        return self.number(name)

    def _positive(self, name: str, advice: str) -> float | None:
        value = self._required_number(name, advice)
        if value is not None and value <= 0:
            self.errors[name] = "Write a number above 0."
        return value

    def _available(self) -> set[str]:
        return {column.name for column in self._schema}


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or "_" in text:
        raise ValueError
    return number


def _parse_count(text: str) -> int:
    number = int(text)
    if number < 1 or "_" in text:
        raise ValueError
    return number


def cells(text: str) -> list[str]:
    """Split a,b with the quoting of CSV; a text without such cells is one cell."""
    try:
        return next(csv.reader([text]), [])
    except csv.Error:
        return [text]
