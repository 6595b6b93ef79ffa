"""From the fields of a form to a request, or to what is wrong with each field."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ...errors import UsageError
from ...sources.schema import Field
from .asks import KINDS, Ask

Value = TypeVar("Value")
_NUMBER = "Write a number, such as 0.5 or 200000."
_WHOLE = "Write a whole number of at least 1."
_CHOOSE = "Choose one of the options."
_NO_COLUMN = "This table has no such column."
_SAID: dict[str, tuple[str, ...]] = {
    "statistic": ("sum", "mean", "describe"),
    "kind": KINDS,
    "neighbors": ("replace", "add_remove"),
    "noise": ("auto", "gaussian", "norm"),
    "weights": ("", "relative", "equal"),
    "missing": ("", "column", "row", "center", "fill"),
    "per_person": ("mean", "sum", "rows"),
}
DEFAULTS = {
    "statistic": "mean",
    "kind": "bounds",
    "neighbors": "replace",
    "noise": "auto",
    "weights": "",
    "missing": "",
    "per_person": "mean",
}
_ENDS = {"bounds": ("the lower bound", "the upper bound"), "normal": ("the mean", "the std")}
# The field that a message of the library is about, by how it begins.
_ABOUT = (
    ("epsilon", "epsilon"),
    ("delta", "delta"),
    ("error", "error"),
    ("no budget reaches", "error"),
    ("radius", "radius"),
    ("center", "center"),
    ("magnitude", "magnitude"),
    ("describe", "kind"),
    ("noise", "noise"),
    ("missing", "missing"),
    ("weights", "weights"),
    ("max_rows", "max_rows"),
    ("max_groups", "max_groups"),
    ("per_person", "per_person"),
    ("privacy_id", "privacy_id"),
    ("keys", "keys"),
    ("by ", "by"),
    ("groups", "groups"),
    ("n ", "n"),
    ("dataset", "dataset"),
    ("this ledger", "dataset"),
    ("ledger", "ledger"),
    ("a ledger", "ledger"),
)


@dataclass
class Filled:
    """A form as somebody filled it in."""

    values: Mapping[str, str] = field(default_factory=dict)
    used: frozenset[int] = frozenset()
    """Places of the columns that are ticked."""

    def __getitem__(self, name: str) -> str:
        return self.values.get(name, DEFAULTS.get(name, "")).strip()


def about(error: Exception) -> tuple[str, str]:
    """The field that an error of the library is about ("" where it is none of them), and its words."""
    text = sentence(str(error))
    lowered = text.lower()
    return next((name for start, name in _ABOUT if lowered.startswith(start)), ""), text


def sentence(text: str) -> str:
    """A message of the library, which may begin with the name of an argument, as a sentence."""
    return text[:1].upper() + text[1:]


class Reader:
    """Reads one form; `errors` has what is wrong, by field."""

    def __init__(self, filled: Filled, schema: Sequence[Field], header: bool = False) -> None:
        self.filled = filled
        self.errors: dict[str, str] = {}
        self._schema = schema
        self._header = header

    def ask(self, budget: bool = True) -> Ask | None:
        """The request; None where something is wrong. budget: whether epsilon and delta must be there."""
        said = {name: self._choice(name) for name in _SAID}
        columns = self._columns()
        people = bool(self.filled["privacy_id"])
        by = self._names("by")
        fields: dict[str, Any] = {
            "statistic": said["statistic"],
            "kind": said["kind"],
            "columns": tuple(self._schema[place].name for place in columns),
            "pairs": tuple(self._pair(place, said["kind"]) for place in columns) if said["kind"] in _ENDS else (),
            **self._extent(said["kind"]),
            "epsilon": self._budget("epsilon", budget),
            "delta": self._budget("delta", budget),
            "neighbors": said["neighbors"],
            "n": self._whole("n"),
            "privacy_id": self._column("privacy_id"),
            "per_person": said["per_person"] if people and said["per_person"] != "mean" else None,
            "max_rows": self._whole("max_rows") if people else None,
            "by": by,
            "keys": self._keys(by),
            "max_groups": (self._whole("max_groups") or 1) if by and people else 1,
            "groups": self._whole("groups") if by else None,
            "missing": self._fill() if said["missing"] == "fill" else said["missing"] or None,
            "noise": said["noise"],
            "weights": said["weights"] or None,
            "header": self._header,
            **self._charged(),
        }
        self._check_apart(fields)
        return None if self.errors else self._built(fields)

    def _built(self, fields: dict[str, Any]) -> Ask | None:
        ask = Ask(**fields)
        try:
            ask.rows()
        except UsageError as error:
            name, text = about(error)
            self.errors[name or "columns"] = text
            return None
        return ask

    # One field each ----------------------------------------------------------------------------------------

    def _parsed(self, name: str, parse: Callable[[str], Value], advice: str) -> Value | None:
        text = self.filled[name]
        if not text:
            return None
        try:
            return parse(text)
        except ValueError:
            self.errors[name] = advice
            return None

    def number(self, name: str) -> float | None:
        """A finite number; None where the field is empty or wrong."""
        return self._parsed(name, _finite, _NUMBER)

    def _whole(self, name: str) -> int | None:
        return self._parsed(name, _counted, _WHOLE)

    def _needed(self, name: str, advice: str) -> float | None:
        found = self.number(name)
        if not self.filled[name]:
            self.errors[name] = advice
        return found

    def _choice(self, name: str) -> str:
        word = self.filled[name]
        if word not in _SAID[name]:
            self.errors[name] = _CHOOSE
        return word

    def _budget(self, name: str, needed: bool) -> float | None:
        advice = "Choose epsilon: it has no default." if name == "epsilon" else "Type delta: it has no default."
        return self._needed(name, advice) if needed else self.number(name)

    def _column(self, name: str) -> str | None:
        text = self.filled[name]
        if text and text not in self._available():
            self.errors[name] = _NO_COLUMN
        return text or None

    def _available(self) -> set[str]:
        return {column.name for column in self._schema}

    def _names(self, name: str) -> tuple[str, ...]:
        text = self.filled[name]
        if not text:
            return ()
        found = tuple(part.strip() for part in cells(text))
        if not set(found) <= self._available():
            self.errors[name] = f"{_NO_COLUMN} Write names with commas between them."
        return found

    def _columns(self) -> list[int]:
        places = [place for place in sorted(self.filled.used) if 0 <= place < len(self._schema)]
        if not places:
            self.errors["columns"] = "Tick at least one column, or paste bounds for some."
        names = [self._schema[place].name for place in places]
        if len(set(names)) < len(names):
            self.errors["columns"] = "Two of these columns have the same name. Rename one in the file, or untick it."
        if not all(self._schema[place].numeric for place in places):
            self.errors["columns"] = "A column without numbers has no sum or mean. Untick it."
        return places

    def _pair(self, place: int, kind: str) -> tuple[float, float]:
        names = f"a-{place}", f"b-{place}"
        ends = [self._needed(name, f"Type {what}.") for name, what in zip(names, _ENDS[kind], strict=True)]
        low, high = (0.0 if end is None else end for end in ends)
        if kind == "bounds" and None not in ends and low > high:
            self.errors[names[1]] = "The upper bound is below the lower one."
        if kind == "normal" and ends[1] is not None and high < 0:
            self.errors[names[1]] = "A std is 0 or more."
        return low, high

    def _extent(self, kind: str) -> dict[str, float | None]:
        if kind == "ball":
            return {"radius": self._positive("radius", "Type the radius."), "center": self.number("center")}
        if kind == "learned":
            return {"magnitude": self._positive("magnitude", "Type a magnitude that no entry exceeds.")}
        return {}

    def _positive(self, name: str, advice: str) -> float | None:
        found = self._needed(name, advice)
        if found is not None and found <= 0:
            self.errors[name] = "Write a number above 0."
        return found

    def _fill(self) -> float | None:
        return self._needed("fill", "Type the number that stands for a missing entry.")

    def _keys(self, by: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Public groups: one to a line, or for each of several columns a line name=a,b,c."""
        lines = [line.strip() for line in self.filled["keys"].splitlines() if line.strip()]
        if not lines or not by:
            return ()
        if len(by) == 1:
            return (tuple(lines),)
        lists = {line.partition("=")[0].strip(): cells(line.partition("=")[2]) for line in lines}
        if set(lists) != set(by) or len(lines) != len(by) or not all(lists.values()):
            self.errors["keys"] = "Write one line for each grouping column: name=a,b,c."
            return ()
        return tuple(tuple(cell.strip() for cell in lists[name]) for name in by)

    def _charged(self) -> dict[str, str | None]:
        ledger, dataset = self.filled["ledger"] or None, self.filled["dataset"] or None
        if ledger and not dataset:
            self.errors["dataset"] = "Type the name under which the ledger keeps this data's budget."
        if dataset and not ledger:
            self.errors["ledger"] = "Type the ledger's file, or leave the data set out."
        return {"ledger": ledger, "dataset": dataset}

    def _check_apart(self, fields: Mapping[str, Any]) -> None:
        """Columns that name people or groups are no values."""
        for name in ("privacy_id", "by"):
            named = {fields[name]} if isinstance(fields[name], str) else set(fields[name] or ())
            if named & set(fields["columns"]):
                self.errors.setdefault(name, "This column is ticked as a value too. Untick it there.")
        if fields["statistic"] == "describe" and fields["kind"] != "bounds":
            self.errors.setdefault("kind", "Count, mean and std need bounds for each column.")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or "_" in text:
        raise ValueError
    return number


def _counted(text: str) -> int:
    number = int(text)
    if number < 1 or "_" in text:
        raise ValueError
    return number


def cells(text: str) -> list[str]:
    """a,b with the quoting of CSV; a text that has no such cells is one cell."""
    try:
        return next(csv.reader([text]), [])
    except csv.Error:
        return [text]
