"""The command line. `main` ends with one of these exit codes:

0 success, 1 declined at the question, 2 wrong usage, 3 budget refused, 4 could not read or write, and 128 + the number
of a signal: 130 interrupted (Ctrl-C), 143 terminated, 129 hung up, 131 quit, 141 the reader of the output has ended.

`options` has the options of the commands. `commands`, `tools` and `ledger` have the commands. `requests` and `parsing`
turn options into requests of the library, and `output` prints.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from contextlib import suppress
from typing import NoReturn

from ...util import interrupts

# The text for unexpected errors, since the error itself may quote a cell.
_UNFORESEEN = (
    "Unexpected error. Its details are hidden because they could contain data. Likely causes: disk full, output "
    "closed, too little memory, too many open files."
)
_READER_IS_GONE = 141  # 128 + SIGPIPE, as shells report for a program that writes to a closed pipe.
_LONGEST = 1000  # The largest number of letters of a message.
_NOTHING = "interrupted: nothing was written."
_NOT_ALL = "interrupted: not everything was written."
_NO_OUTPUT = "standard output is closed. Nothing was read."


def main() -> NoReturn:
    """Run `ellipsum`. The handlers of signals are set before anything heavy is imported."""
    try:
        interrupts.listen()
        code = run()
        interrupts.check_interrupted()  # typer replaces an interrupt by an exit code.
        interrupts.ignore()
    except KeyboardInterrupt:
        interrupts.ignore()
        _print_error_line(_NOT_ALL if interrupts.anything_written() else _NOTHING)
        code = 128 + (interrupts.signalled() or signal.SIGINT)
        exec("")  # After an interrupt inside `exec`, as in a dataclass decorator, Python would end itself with SIGINT.
    for stream in (sys.stdout, sys.stderr):
        _discard_output(stream)
    sys.exit(code)


def run() -> int:
    """Run the command in sys.argv and return its exit code. Unexpected errors have a fixed text without data."""
    try:
        if not _repair_streams():
            return _give_up(_NO_OUTPUT)
        code = _run()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _READER_IS_GONE
    except SystemExit as ending:  # typer raises it if the reader of the output has ended.
        return _READER_IS_GONE if ending.code else 0
    except Exception:
        interrupts.check_interrupted()  # An interrupt may make an import fail.
        return _give_up(_UNFORESEEN)


def _run() -> int:
    import typer

    from .commands import app

    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning
            result = app(standalone_mode=False, prog_name="ellipsum")
        return result if isinstance(result, int) else 0
    except typer.Abort:
        raise KeyboardInterrupt from None
    except typer.Exit as ending:
        return ending.exit_code
    except Exception as error:
        from ... import BudgetRefused, DataError, UsageError
        from .options import unknown_option_message

        codes = {UsageError: 2, BudgetRefused: 3, DataError: 4}
        code = next((code for kind, code in codes.items() if isinstance(error, kind)), None)
        if code is not None:
            return _fail(str(error), code)
        # An error of the parser; its class differs between releases of typer.
        if not hasattr(error, "format_message"):
            raise
        return _fail(unknown_option_message(error) or error.format_message(), 2)


def _repair_streams() -> bool:
    """Whether standard output is open. Closed streams become os.devnull, so that no other file gets their number."""
    is_open = sys.stdout is not None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # No character may end a release after its charge.
    return is_open


def _discard_output(stream: object) -> None:
    """Discard output that cannot be written. Otherwise Python would fail at exit with its own code."""
    try:
        stream.flush()  # type: ignore[attr-defined]
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # type: ignore[attr-defined]


def _give_up(text: str) -> int:
    """Print a fixed text without any import, since an import may have failed."""
    _print_error_line(f"error: {text}")
    return 4


def _fail(message: str, code: int) -> int:
    from ...errors import visible
    from .options import name_options

    if message:  # It is empty if help was shown instead.
        _print_error_line(f"error: {visible(_shorten(name_options(' '.join(message.split()))))}")
    return code


def _print_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning on its own line, without the place in the code that raised it."""
    from ...errors import visible

    _print_error_line(f"warning: {visible(_shorten(' '.join(str(message).split())))}")


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"


def _print_error_line(line: str) -> None:
    with suppress(OSError, ValueError):  # Standard error may be closed or full.
        print(line, file=sys.stderr, flush=True)
