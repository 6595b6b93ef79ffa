"""What a form asks for, in the library's own words: the call, the command line and the Python text come from these."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ...rows import Ball, Box, Normal, Rows, Unknown
from ...sources.sql import sql

KINDS = ("bounds", "ball", "normal", "learned")
_CALLS = {"bounds": "Box", "normal": "Normal"}


@dataclass(frozen=True)
class Data:
    """Where the rows are: a path, or a database's address and a query; neither where names alone are known."""

    path: str | None = None
    database: str | None = None
    query: str | None = None
    shown_path: str | None = None
    """The name to show, where the file lies in the studio's own folder."""

    @property
    def readable(self) -> bool:
        return self.path is not None or self.database is not None

    def open(self) -> Any:
        """The data, as the library's calls take it."""
        return self.path if self.database is None else sql(self.query or "", self.database)

    @property
    def name(self) -> str:
        return self.shown_path or self.path or self.database or "table"

    def renamed(self, text: str) -> str:
        """A message in which the file goes by the name that is shown."""
        return text.replace(self.path, self.shown_path) if self.path and self.shown_path else text


@dataclass(frozen=True)
class Ask:
    """One request: a statistic of some columns, what is known about them, a budget, and where it is charged.

    pairs: (lower, upper) or (mean, std) for each column, for bounds and for roughly normal rows.
    """

    statistic: str
    kind: str
    columns: tuple[str, ...]
    pairs: tuple[tuple[float, float], ...] = ()
    radius: float | None = None
    center: float | None = None
    magnitude: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    neighbors: str = "replace"
    n: int | None = None
    privacy_id: str | None = None
    per_person: str | None = None
    max_rows: int | None = None
    by: tuple[str, ...] = ()
    keys: tuple[tuple[str, ...], ...] = ()
    """For each column of by, its public groups."""
    max_groups: int = 1
    groups: int | None = None
    missing: str | float | None = None
    noise: str = "auto"
    weights: str | None = None
    header: bool = False
    ledger: str | None = None
    dataset: str | None = None

    @staticmethod
    def from_dict(fields: Mapping[str, Any]) -> Ask:
        """Inverse of `dataclasses.asdict`, after JSON."""
        lists = {name: tuple(fields[name]) for name in ("columns", "by")}
        nested = {name: tuple(map(tuple, fields[name])) for name in ("pairs", "keys")}
        return Ask(**{**fields, **lists, **nested})

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def known(self) -> dict[str, tuple[float, float]]:
        """The stated pair of each column."""
        return dict(zip(self.columns, self.pairs, strict=True))

    def rows(self) -> Rows:
        """What is known about a row."""
        if self.kind == "bounds":
            return Box(self.known)
        if self.kind == "normal":
            return Normal(self.known)
        if self.kind == "ball":
            return Ball(self.radius or 0.0, self.center or 0.0)
        return Unknown(self.magnitude or 0.0)

    def words(self) -> dict[str, Any]:
        """The keywords of the releasing call; those that have their default are left out."""
        return _said(
            {
                "columns": None if self.kind in _CALLS else list(self.columns),
                "epsilon": self.epsilon,
                "delta": self.delta,
                "neighbors": None if self.neighbors == "replace" else self.neighbors,
                "n": None if self.neighbors == "replace" else self.n,
                **self._people(),
                **self._groups(),
                "missing": self.missing,
                "noise": None if self.noise == "auto" else self.noise,
                "weights": self.weights,
                "header": self.header or None,
                "ledger": self.ledger,
                "dataset": self.dataset,
            }
        )

    def _people(self) -> dict[str, Any]:
        return {"privacy_id": self.privacy_id, "per_person": self.per_person, "max_rows": self.max_rows}

    def _groups(self) -> dict[str, Any]:
        most = None if self.max_groups == 1 else self.max_groups
        return {"by": list(self.by) or None, "keys": self._keys(), "max_groups": most}

    def _keys(self) -> Any:
        if not self.keys:
            return None
        if len(self.by) == 1:
            return list(self.keys[0])
        return {name: list(listed) for name, listed in zip(self.by, self.keys, strict=True)}

    def plan_words(self, n: int | None) -> dict[str, Any]:
        """The keywords of `ellipsum.plan` for the same release of n rows, without its budget."""
        words = self.words()
        for name in ("header", "ledger", "dataset", "epsilon", "delta", "n"):
            words.pop(name, None)
        words |= {"statistic": self.statistic, "check": True, "columns": list(self.columns)}
        return _said({**words, "n": n, "groups": self.groups})


def _said(words: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in words.items() if value is not None}


def typed(value: Any) -> Any:
    """A number as people type it: 120 for 120.0."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    return int(value) if whole else value


# The same request, to be typed elsewhere -----------------------------------------------------------------


def python_text(ask: Ask, data: Data) -> str:
    """A program that makes this request."""
    words = [f"    {name}={typed(value)!r},\n" for name, value in ask.words().items()]
    call = f"es.{ask.statistic}(\n    {_data_text(data)},\n    {_rows_text(ask)},\n{''.join(words)})"
    return f"import ellipsum as es\n\nrelease = {call}\nprint(release)\n"


def _data_text(data: Data) -> str:
    return repr(data.name) if data.database is None else f"es.sql({data.query!r}, {data.database!r})"


def _rows_text(ask: Ask) -> str:
    if ask.kind in _CALLS:
        lines = "".join(f"        {name!r}: ({typed(a)!r}, {typed(b)!r}),\n" for name, (a, b) in ask.known.items())
        return f"es.{_CALLS[ask.kind]}({{\n{lines}    }})"
    if ask.kind == "ball":
        return f"es.Ball({typed(ask.radius)!r}, {typed(ask.center or 0.0)!r})"
    return f"es.Unknown({typed(ask.magnitude)!r})"


def command_line(ask: Ask, data: Data, accepted: bool = False) -> str:
    """The command that makes this request, as it is typed."""
    return shlex.join(command_words(ask, data, accepted))


def command_words(ask: Ask, data: Data, accepted: bool = False) -> list[str]:
    """The words of the command; accepted: although its forecast speaks against it."""
    query = [] if data.database is None else ["--sql", str(data.query)]
    words = ["ellipsum", ask.statistic, data.name, *query, *_rows_options(ask), *_options(ask)]
    return [*words, *(["--yes"] if accepted else [])]


def _rows_options(ask: Ask) -> list[str]:
    if ask.kind == "ball":
        return ["--radius", f"{typed(ask.radius)}", *(["--center", f"{typed(ask.center)}"] if ask.center else [])]
    if ask.kind == "learned":
        return ["--magnitude", f"{typed(ask.magnitude)}"]
    option = f"--{ask.kind}"
    return [word for name, (a, b) in ask.known.items() for word in (option, f"{name}={typed(a)}:{typed(b)}")]


def _options(ask: Ask) -> list[str]:
    out: list[str] = []
    for name, value in ask.words().items():
        out += _option(ask, name, value)
    return out


def _option(ask: Ask, name: str, value: Any) -> list[str]:
    option = f"--{name.replace('_', '-')}"
    if name == "header":
        return [option]
    if name == "neighbors":
        return [option, value.replace("_", "-")]
    if name == "keys":
        lists = {name: _listed(keys) for name, keys in zip(ask.by, ask.keys, strict=True)}
        return [word for name, keys in lists.items() for word in (option, f"{name}={keys}")]
    return [option, _listed(value) if isinstance(value, list) else str(typed(value))]


def _listed(values: Any) -> str:
    """a,b with the quoting of CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(values)
    return text.getvalue()
