"""Orders of releases, and the process that carries them out: orders in, events out, each message as JSON.

The studio may end that process at any time. The text of an error of the library may be shown; the text of any other
error is dropped, because it may quote a cell.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import numpy as np

from ... import AccuracyWarning, Box, BudgetRefused, DataError, Ledger, LedgerWarning, UsageError, api, csv, sql
from ...display.document import Recipe
from ...display.recipe import DataPlace, request_recipe
from ...ledger import DatasetAccount
from ...plans.base import simulate
from ...request.request import Request, request_from_dict
from ...session import read_options
from ...sources.sql import has_password
from ...util.interrupts import listen
from ...util.worker_process import take_pipe

Report = Callable[..., None]
UNFORESEEN = "The run could not be completed. Check that the disk is not full, and that there is enough memory."
_PASSWORD = (
    "Keep the password out of the address: set PGPASSWORD before the studio starts, or use ~/.pgpass or a service file."
)
_KINDS: tuple[tuple[type[Exception], str], ...] = (
    (BudgetRefused, "budget"),
    (UsageError, "usage"),
    (DataError, "data"),
)


def check_address(address: str) -> None:
    """Refuse an address with a password, which forms and pages would show."""
    if has_password(address):
        raise UsageError(_PASSWORD)


@dataclass(frozen=True)
class Data:
    """The place of the rows: a path, or the address of a database and a query; neither if only names are known."""

    path: str | None = None
    database: str | None = None
    query: str = ""
    shown_path: str | None = None
    """The name to show, for a file in the studio's own folder."""
    header: bool = False
    """Whether the first line of a CSV file names the columns although it holds numbers."""

    @property
    def name(self) -> str:
        return self.shown_path or self.path or self.database or "table"

    def open(self) -> object:
        """The data as an argument of the library."""
        if self.database is not None:
            return sql(self.query, self.database)
        return csv(self.path, header=True) if self.header and self.path else self.path

    def replace_path(self, text: str) -> str:
        """Replace the path of the file in a message by its shown name."""
        return text.replace(self.path, self.shown_path) if self.path and self.shown_path else text

    def typed(self) -> tuple[str, tuple[str, ...]]:
        """The data as a Python expression, and as arguments of a command."""
        if self.database is not None:
            return f"es.sql({self.query!r}, {self.database!r})", (self.database, "--sql", self.query)
        code = f"es.csv({self.name!r}, header=True)" if self.header else repr(self.name)
        return code, (self.name, "--header") if self.header else (self.name,)


@dataclass(frozen=True)
class Order:
    """The order of one release. accepted: the user wants it although the plan warns of a large error."""

    request: Request
    data: Data
    ledger: str | None = None
    dataset: str | None = None
    accepted: bool = False

    @property
    def account(self) -> DatasetAccount | None:
        """The account that the release is charged to."""
        return None if self.ledger is None else Ledger(self.ledger).dataset(str(self.dataset))

    @property
    def recipe(self) -> Recipe:
        """The order as a Python program and as a command."""
        code, arguments = self.data.typed()
        recipe = request_recipe(self.request, DataPlace(code, arguments, self.ledger, self.dataset))
        accepted = " --yes" if self.accepted and recipe.command else ""
        return Recipe(f"{recipe.python}\nprint(release)\n", recipe.command + accepted)

    def to_dict(self) -> dict[str, object]:
        own = {"ledger": self.ledger, "dataset": self.dataset, "accepted": self.accepted}
        return {"request": self.request.to_dict(), "data": asdict(self.data), **own}

    @staticmethod
    def from_dict(saved: Mapping[str, object]) -> Order:
        """Inverse of `to_dict`, after JSON."""
        data: Mapping[str, object] = saved["data"]  # type: ignore[assignment]
        own = {name: saved[name] for name in ("ledger", "dataset", "accepted")}
        return Order(request_from_dict(saved["request"]), Data(**data), **own)  # type: ignore[arg-type]


# The process that carries orders out ---------------------------------------------------------------------


def run(order: Order, report: Report) -> None:
    """Make the ordered release and report its progress. A warning of the plan ends it, unless the user accepted it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore", AccuracyWarning)  # The release holds these warnings.
        warnings.simplefilter("always", LedgerWarning)
        reading = read_options(None, None, lambda part: report("progress", part=part), order.account, None)
        with api.prepare_request(order.request, order.data.open(), reading) as prepared:
            if prepared.plan.warning is not None and not order.accepted:
                report("failed", kind="doubt", text=prepared.plan.warning)
                return
            report("approved")
            release = prepared.release()
    texts = [str(warning.message) for warning in caught if isinstance(warning.message, LedgerWarning)]
    report("released", text=release.to_json(), warnings=texts)


def attempt(order: Order, report: Report) -> None:
    """Run an order, and report every failure with a text that may be shown."""
    try:
        run(order, report)
    except Exception as error:
        kind = next((kind for one, kind in _KINDS if isinstance(error, one)), "unforeseen")
        report("failed", kind=kind, text=UNFORESEEN if kind == "unforeseen" else str(error))


def load_kernels() -> None:
    """Make one release of invented rows, because the first release of a process loads compiled code."""
    plan = api.plan("mean", Box({"x": (0.0, 1.0), "y": (0.0, 1.0)}), n=8, epsilon=1, delta=1e-6)
    simulate(plan, np.zeros((8, 2)))


def serve() -> None:
    """Load everything, then carry out orders until the studio ends."""
    studio = take_pipe()

    def report(event: str, **fields: object) -> None:
        studio.send(json.dumps({"event": event, **fields}).encode())

    listen()
    try:
        load_kernels()
        while (order := studio.receive()) is not None:
            attempt(Order.from_dict(json.loads(order)), report)
    except KeyboardInterrupt:  # The studio ended this process.
        os._exit(1)
