"""Where a call is charged: its words ledger, dataset, key and analyst, bound together."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import EllipsumError, UsageError
from ..request.documentation import LEDGER
from .charging import Ask
from .ledger import Ledger, Reserved
from .names import checked_name

VARIABLE = LEDGER
_UNSETTLED = (
    "this release is charged, but the ledger could not be told that it came, so it shows it as never released, and its "
    "key, if it had one, does not return it. Keep the release: "
)


_made_up: ContextVar[bool] = ContextVar("made up", default=False)


@contextmanager
def uncharged() -> Iterator[None]:
    """Without the environment's ledger: releases of made-up data are charged to nobody."""
    before = _made_up.set(True)
    try:
        yield
    finally:
        _made_up.reset(before)


class LedgerWarning(UserWarning):
    """A release was charged and made, and the ledger could not be told."""


@dataclass(frozen=True)
class Tab:
    """The account that a call is charged to."""

    ledger: Ledger
    dataset: str
    key: str | None = None
    analyst: str | None = None

    @staticmethod
    def of(ledger: Any, dataset: str | None, key: str | None = None, analyst: str | None = None) -> Tab | None:
        """The words of a call; None where it has no ledger."""
        for name, value in (("dataset", dataset), ("key", key), ("analyst", analyst)):
            if value is not None:
                checked_name(name, value)
        if ledger is None:
            ledger = None if _made_up.get() else os.environ.get(VARIABLE) or None
        if ledger is None:
            given = [name for name, value in (("dataset", dataset), ("key", key), ("analyst", analyst)) if value]
            if given:
                raise UsageError(f"{' and '.join(given)} need{'s' * (len(given) == 1)} ledger, where budgets are kept.")
            return None
        if dataset is None:
            raise UsageError("dataset is missing. State the name under which the ledger keeps this data's budget.")
        book = ledger if isinstance(ledger, Ledger) else Ledger(_checked(ledger))
        return Tab(book, dataset, key, analyst)

    def reserve(self, ask: Ask) -> Reserved:
        return self.ledger.reserve(self.dataset, ask, self.key, self.analyst)

    def settle(self, reserved: Reserved, text: str) -> None:
        """Enter the release, which is paid for: where that fails it is given out all the same, with a warning."""
        try:
            self.ledger.settle(self.dataset, reserved, text, keep=self.key is not None)
        except EllipsumError as error:
            warnings.warn(LedgerWarning(f"{_UNSETTLED}{error}"), stacklevel=4)


def _checked(ledger: Any) -> str | Path:
    if not isinstance(ledger, (str, Path)):
        raise UsageError(f"ledger must be a Ledger, or the address of one, got {type(ledger).__name__}.")
    return ledger
