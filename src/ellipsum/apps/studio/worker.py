"""A process that makes releases for the studio, which may end it at any time: orders in, events out.

Each message is JSON. The text of an error of the library may be shown; that of any other is dropped: it may quote a
cell.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable

import numpy as np

from ... import AccuracyWarning, Box, BudgetRefused, DataError, LedgerWarning, UsageError, api
from ...plans.base import simulate
from ...session import read_options
from ...util.interrupts import listen
from ...util.worker_process import take_pipe
from .orders import Order

Report = Callable[..., None]
UNFORESEEN = "The run could not be completed. Check that the disk is not full, and that there is enough memory."
_KINDS: tuple[tuple[type[Exception], str], ...] = (
    (BudgetRefused, "budget"),
    (UsageError, "usage"),
    (DataError, "data"),
)


def run(order: Order, report: Report) -> None:
    """Make the release that was ordered and report how it goes; a warning of the plan ends it unless accepted."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("ignore", AccuracyWarning)  # the release has them
        warnings.simplefilter("always", LedgerWarning)
        reading = read_options(None, None, lambda part: report("progress", part=part), order.account, None)
        with api.prepare_request(order.request, order.data.open(), reading) as prepared:
            if prepared.plan.warning is not None and not order.accepted:
                report("failed", kind="doubt", text=prepared.plan.warning)
                return
            report("approved")
            release = prepared.release()
    texts = [str(warning.message) for warning in heard if isinstance(warning.message, LedgerWarning)]
    report("released", text=release.to_json(), warnings=texts)


def attempt(order: Order, report: Report) -> None:
    """`run`, with every failure reported in a text that may be shown."""
    try:
        run(order, report)
    except Exception as error:
        kind = next((kind for one, kind in _KINDS if isinstance(error, one)), "unforeseen")
        report("failed", kind=kind, text=UNFORESEEN if kind == "unforeseen" else str(error))


def rehearse() -> None:
    """Make one release of invented rows, because the first release of a process waits for compiled code."""
    plan = api.plan("mean", Box({"x": (0.0, 1.0), "y": (0.0, 1.0)}), n=8, epsilon=1, delta=1e-6)
    simulate(plan, np.zeros((8, 2)))


def serve() -> None:
    """Wait for orders, with everything loaded already, until the studio is gone."""
    studio = take_pipe()

    def report(event: str, **fields: object) -> None:
        studio.send(json.dumps({"event": event, **fields}).encode())

    listen()
    try:
        rehearse()
        while (order := studio.receive()) is not None:
            attempt(Order.from_dict(json.loads(order)), report)
    except KeyboardInterrupt:  # ended by the studio
        os._exit(1)
