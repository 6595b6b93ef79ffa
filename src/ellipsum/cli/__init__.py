"""The command line. `main` maps every ending to its exit code:

0 success, 2 wrong usage, 3 budget refused, 4 could not read or write, 130 interrupted, 143 terminated.
"""

from __future__ import annotations

import signal
import sys
from typing import Any, NoReturn

_MOMENT = 0.01  # seconds
_signalled = 0


def main() -> NoReturn:
    """Entry point of `ellipsum`; nothing heavy is imported before the interrupt handler stands."""
    try:
        code = _run()
        check_interrupted()  # typer makes an exit code of its own of an interrupt
    except KeyboardInterrupt:
        print("interrupted: nothing was written.", file=sys.stderr)
        code = 128 + (_signalled or signal.SIGINT)
    sys.exit(code)


def _run() -> int:
    for ending in ("SIGINT", "SIGTERM", "SIGALRM"):  # files of rows are removed on the way out
        if hasattr(signal, ending):
            signal.signal(getattr(signal, ending), _interrupt)
    sys.unraisablehook = _swallowed
    import typer

    from ..errors import BudgetRefused, DataError, UsageError
    from .commands import app

    try:
        result = app(standalone_mode=False)
        return result if isinstance(result, int) else 0
    except typer.Abort:
        raise KeyboardInterrupt from None
    except typer.Exit as ending:
        return ending.exit_code
    except UsageError as error:
        return _fail(str(error), 2)
    except BudgetRefused as error:
        return _fail(str(error), 3)
    except DataError as error:
        return _fail(str(error), 4)
    except BrokenPipeError:
        return 0
    except Exception as error:
        # The parser's own complaints; their class has moved between releases of typer.
        if not hasattr(error, "format_message"):
            raise
        return _fail(error.format_message(), 2)


def _interrupt(number: int, _: object) -> None:
    global _signalled
    _signalled = _signalled or number
    raise KeyboardInterrupt


def _swallowed(event: Any) -> None:
    """An error where Python can raise none: an interrupt comes again in a moment, others may quote cells."""
    if issubclass(event.exc_type, KeyboardInterrupt) and hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, _MOMENT)


def check_interrupted() -> None:
    """Raise again where a library swallowed the interrupt: called with every batch, and before anything is written."""
    if _signalled:
        raise KeyboardInterrupt


def _fail(message: str, code: int) -> int:
    if message:  # empty where help was shown instead
        print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return code
