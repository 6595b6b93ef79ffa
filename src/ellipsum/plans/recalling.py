"""Calls whose words were said before: their requests need not be checked, nor their terms be put together, anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, TypeAlias

from ..privacy.budget import Budget
from ..request.request import Request
from ..rows import Ball, Box, Normal
from ..session import Session
from ..util.structural_equality import PLAIN, contents
from .noise_selection import MOST_REMEMBERED, Asked, plan_asked
from .plan import Plan

_STATED = (Box, Ball, Normal)
_WORDS = (
    *("epsilon", "delta", "neighbors", "n", "privacy_id", "per_person", "max_rows"),
    *("by", "keys", "max_groups", "shape", "clip", "clip_probability", "weights", "noise", "missing", "check"),
    *("covariance", "method", "steps", "std", "clip_share"),
)
"""Every word that a request is made of, but for its rows and a Budget."""
_MOST_CALLS, _MOST_SIZES = 64, 8
_Size: TypeAlias = tuple[int | None, int, tuple[str, ...] | None, tuple[bool, ...]]


class Recalled:
    """A request with the terms of its plans so far, by the size of the data."""

    def __init__(self, request: Request, kept: bool) -> None:
        self.request = request
        self._asked: dict[_Size, Asked] | None = {} if kept else None

    def plan_for(self, session: Session) -> Plan | None:
        """The plan for the rows of a session; None for requests that are not kept."""
        if self._asked is None or session.source.width > MOST_REMEMBERED:
            return None
        size = size_of(self.request, session)
        asked = self._asked.get(size)
        if asked is None:
            asked = Asked(self.request.terms(*size))
            _keep(self._asked, size, asked, _MOST_SIZES)
        return plan_asked(asked)


def size_of(request: Request, session: Session) -> _Size:
    """What a plan asks of data: rows, columns, their names, and which of them can have gaps."""
    source = session.source
    return session.public_count(request.neighbors, request.n), source.width, source.columns, source.gaps


_CALLS: dict[Any, Recalled] = {}


def recalled(statistic: str, words: Mapping[str, Any], make: Callable[[str, Mapping[str, Any]], Request]) -> Recalled:
    """The request behind the words of a call, made by `make`.

    It is kept where its words are numbers and names alone, and its rows neither learned nor in groups. Words are the
    same where their types are, too: 1 is not True.
    """
    rows, budget = words["rows"], words["budget"]
    said = [words.get(name) for name in _WORDS]
    kinds = tuple(map(type, said))
    narrow = type(rows) in _STATED and (rows.d or 0) <= MOST_REMEMBERED
    stated = narrow and (budget is None or type(budget) is Budget) and words["by"] is None
    if not stated or not PLAIN.issuperset(kinds):
        return Recalled(make(statistic, words), kept=False)
    key = statistic, contents(rows), contents(budget), kinds, *said
    found = _CALLS.get(key)
    if found is None:
        mine = {**words, "rows": deepcopy(rows)}  # the arrays in the caller's are the caller's
        found = Recalled(make(statistic, mine), kept=True)
        _keep(_CALLS, key, found, _MOST_CALLS)
    return found


def _keep(kept: dict[Any, Any], key: Any, value: Any, most: int) -> None:
    if len(kept) >= most:
        kept.clear()
    kept[key] = value
