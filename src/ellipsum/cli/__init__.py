"""The command line. `main` maps every ending to its exit code:

0 success, 2 wrong usage, 3 budget refused, 4 could not read or write, 130 interrupted.
"""

from __future__ import annotations

import sys
from typing import NoReturn

INTERRUPTED = 130
_signalled = False


def main() -> NoReturn:
    """Entry point of `ellipsum`; nothing heavy is imported before the interrupt handler stands."""
    try:
        code = _run()
    except KeyboardInterrupt:
        print("interrupted: nothing was written.", file=sys.stderr)
        code = INTERRUPTED
    sys.exit(code)


def _run() -> int:
    import signal

    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, _interrupt)
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


def _interrupt(*_: object) -> None:
    global _signalled
    _signalled = True
    raise KeyboardInterrupt


def check_interrupted() -> None:
    """Raise again where a library swallowed the interrupt: called with every batch, and before anything is written."""
    if _signalled:
        raise KeyboardInterrupt


def _fail(message: str, code: int) -> int:
    if message:  # empty where help was shown instead
        print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return code
