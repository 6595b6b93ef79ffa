"""A process that makes releases for the studio, which may end it at any time: requests in, events out.

Each message is JSON. An error of the library has words that may be shown; of any other nothing is
told, as its text may quote a cell.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import api
from ...errors import AccuracyWarning, BudgetRefused, DataError, UsageError
from ...ledger import LedgerWarning
from ...plans.base import trial
from ...rows import Box
from ...util.interrupts import listen
from ...util.worker_process import take_pipe
from .asks import Ask, Data

Tell = Callable[..., None]
UNFORESEEN = (
    "the run could not be completed. A disk that is full, too little memory or too few file handles are likely reasons."
)


class Doubtful(Exception):
    """The plan's own forecast speaks against it, and nobody accepted that."""


def run(order: dict[str, Any], tell: Tell) -> None:
    """Make the release that was ordered, and tell how it goes."""

    def approve(plan: Any) -> None:
        if plan.doubt is not None and not order["accepted"]:
            raise Doubtful(plan.doubt)
        tell("approved")

    ask, data = Ask.from_dict(order["ask"]), Data(**order["data"])
    calls: dict[str, Any] = {"sum": api.sum, "mean": api.mean, "describe": api.describe}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("ignore", AccuracyWarning)  # the release has them
        warnings.simplefilter("always", LedgerWarning)
        made = calls[ask.statistic](
            data.open(),
            ask.rows(),
            **ask.words(),
            progress=lambda part: tell("progress", part=part),
            approve=approve,
        )
    said = [str(one.message) for one in heard if isinstance(one.message, LedgerWarning)]
    tell("released", text=made.to_json(), warnings=said)


def attempt(order: dict[str, Any], tell: Tell) -> None:
    """`run`, with every failure told in words that may be shown."""
    try:
        run(order, tell)
    except Doubtful as doubt:
        tell("failed", kind="doubt", text=str(doubt))
    except BudgetRefused as error:
        tell("failed", kind="budget", text=str(error))
    except UsageError as error:
        tell("failed", kind="usage", text=str(error))
    except DataError as error:
        tell("failed", kind="data", text=str(error))
    except Exception:
        tell("failed", kind="unforeseen", text=UNFORESEEN)


def rehearse() -> None:
    """A release of made-up rows: the first of a process waits for compiled code to be loaded."""
    trial(
        api.plan(Box({"x": (0.0, 1.0), "y": (0.0, 1.0)}), n=8, statistic="mean", epsilon=1, delta=1e-6),
        np.zeros((8, 2)),
    )


def serve() -> None:
    """Wait for orders, with everything loaded already, until the studio is gone."""
    studio = take_pipe()

    def tell(event: str, **fields: Any) -> None:
        studio.send(json.dumps({"event": event, **fields}).encode())

    listen()
    try:
        rehearse()
        while (order := studio.receive()) is not None:
            attempt(json.loads(order), tell)
    except KeyboardInterrupt:  # ended by the studio
        os._exit(1)
