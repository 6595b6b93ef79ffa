"""The command line. `main` maps every ending to its exit code:

0 success, 1 no to the question whether to go on, 2 wrong usage, 3 budget refused, 4 could not read or write, and 128 +
the signal's number where one ended it: 130 interrupted (Ctrl-C), 143 terminated, 129 hung up, 131 quit.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from contextlib import suppress
from typing import NoReturn

from ...util import interrupts

# Whatever was not foreseen: the error itself may quote a cell.
_UNFORESEEN = (
    "the run could not be completed. A disk or an output that is full or closed, too little memory or too few file "
    "handles are likely reasons."
)
_LONGEST = 1000  # letters of a message
_NOTHING = "interrupted: nothing was written."
_NOT_ALL = "interrupted: not everything was written."
_NO_OUTPUT = "standard output is closed. Nothing was read."


def main() -> NoReturn:
    """Entry point of `ellipsum`; nothing heavy is imported before the interrupt handlers stand."""
    try:
        interrupts.listen()
        code = _guarded()
        interrupts.check_interrupted()  # typer makes an exit code of its own of an interrupt
        interrupts.ignore()
    except KeyboardInterrupt:
        interrupts.ignore()
        _say(_NOT_ALL if interrupts.anything_written() else _NOTHING)
        code = 128 + (interrupts.signalled() or signal.SIGINT)
        exec("")  # Python would end itself with SIGINT if the interrupt came in an exec, as when a dataclass is made
    for stream in (sys.stdout, sys.stderr):
        _let_go(stream)
    sys.exit(code)


def _guarded() -> int:
    """One guard for whatever was not foreseen: a fixed text, nothing quoted."""
    try:
        if not _streams_stand():
            return _give_up(_NO_OUTPUT)
        code = _run()
        sys.stdout.flush()
        return code
    except SystemExit as ending:  # typer's own, where an output was closed
        return _give_up(_UNFORESEEN) if ending.code else 0
    except Exception:
        interrupts.check_interrupted()  # an import may fail of an interrupt
        return _give_up(_UNFORESEEN)


def _run() -> int:
    import typer

    from ...errors import AccuracyWarning, BudgetRefused, DataError, UsageError
    from .commands import app

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)  # a release's own are printed with it
            warnings.showwarning = _warned
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
    except Exception as error:
        # The parser's own complaints; their class has moved between releases of typer.
        if not hasattr(error, "format_message"):
            raise
        return _fail(error.format_message(), 2)


def _streams_stand() -> bool:
    """Whether standard output is open; streams that are closed lead nowhere, and no file may take their place."""
    is_open = sys.stdout is not None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # no character may stop a release that is paid for
    return is_open


def _let_go(stream: object) -> None:
    """What cannot be written by now goes nowhere: Python would complain at its end, with a code of its own."""
    try:
        stream.flush()  # type: ignore[attr-defined]
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # type: ignore[attr-defined]


def _give_up(text: str) -> int:
    """A fixed text; nothing is imported, as that may be what failed."""
    _say(f"error: {text}")
    return 4


def _fail(message: str, code: int) -> int:
    from ...errors import visible

    if message:  # empty where help was shown instead
        _say(f"error: {visible(_shortened(' '.join(message.split())))}")
    return code


def _warned(message: Warning | str, *_: object, **__: object) -> None:
    """A warning in a line of its own, without the place in the code that it came from."""
    from ...errors import visible

    _say(f"warning: {visible(_shortened(' '.join(str(message).split())))}")


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"


def _say(line: str) -> None:
    with suppress(OSError, ValueError):  # standard error may be closed or full
        print(line, file=sys.stderr, flush=True)
