"""The command line. `main` maps every ending to its exit code:

0 success, 1 no to the question whether to go on, 2 wrong usage, 3 budget refused, 4 could not read or write, and 128 +
the signal's number where one ended it: 130 interrupted (Ctrl-C), 143 terminated, 129 hung up, 131 quit, and 141 where
the reader of its output went away.

`options` has the options of the commands, `commands`, `tools` and `ledger` the commands, `requests` and `parsing` turn
options into requests of the library, and `output` prints.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import warnings
from contextlib import suppress
from typing import Any, NoReturn

from ...suggestions import unknown_option
from ...util import interrupts

# Whatever was not foreseen: the error itself may quote a cell.
_UNFORESEEN = (
    "Unexpected error. Its details are hidden because they could contain data. Likely causes: disk full, "
    "output closed, "
    "too little memory, too many open files."
)
_READER_IS_GONE = 141  # 128 + SIGPIPE, which a shell reports of a program that writes to a closed pipe
_LONGEST = 1000  # letters of a message
_NOTHING = "interrupted: nothing was written."
_NOT_ALL = "interrupted: not everything was written."
_NO_OUTPUT = "standard output is closed. Nothing was read."
_ARGUMENTS = (
    "bounds|bins|by|categories|center|columns|covariance|d|delta|epsilon|error|error_weights|expected|keys|magnitude|"
    "max_per_person|max_rows|method|metric|missing|n|neighbors|noise|per_person|privacy_id|q|quantiles|radius|request_id"
)


def main() -> NoReturn:
    """Entry point of `ellipsum`; nothing heavy is imported before the interrupt handlers stand."""
    try:
        interrupts.listen()
        code = run()
        interrupts.check_interrupted()  # typer turns an interrupt into an exit code of its own.
        interrupts.ignore()
    except KeyboardInterrupt:
        interrupts.ignore()
        _print_error_line(_NOT_ALL if interrupts.anything_written() else _NOTHING)
        code = 128 + (interrupts.signalled() or signal.SIGINT)
        exec("")  # Python would end itself with SIGINT if the interrupt came in an exec, as when a dataclass is made
    for stream in (sys.stdout, sys.stderr):
        _let_go(stream)
    sys.exit(code)


def run() -> int:
    """Run the command in sys.argv and return its exit code; what was not foreseen has a fixed text, nothing quoted."""
    try:
        if not _streams_stand():
            return _give_up(_NO_OUTPUT)
        code = _run()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _READER_IS_GONE
    except SystemExit as ending:  # Raised by typer when the reader of the output is gone.
        return _READER_IS_GONE if ending.code else 0
    except Exception:
        interrupts.check_interrupted()  # An interrupt may make an import fail.
        return _give_up(_UNFORESEEN)


def _run() -> int:
    import typer

    from ... import AccuracyWarning, BudgetRefused, DataError, UsageError
    from .commands import app

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)  # The warnings of a release are printed with it.
            warnings.showwarning = _print_warning
            result = app(standalone_mode=False, prog_name="ellipsum")
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
        return _fail(unknown_option_message(error) or error.format_message(), 2)


def _streams_stand() -> bool:
    """Whether standard output is open; streams that are closed lead nowhere, and no file may take their place."""
    is_open = sys.stdout is not None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # No character may stop a release that is charged already.
    return is_open


def _let_go(stream: object) -> None:
    """Discard what cannot be written: Python would otherwise fail at exit with its own code."""
    try:
        stream.flush()  # type: ignore[attr-defined]
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # type: ignore[attr-defined]


def _give_up(text: str) -> int:
    """Print a fixed text. Nothing is imported, since an import may have failed."""
    _print_error_line(f"error: {text}")
    return 4


def _fail(message: str, code: int) -> int:
    from ...errors import visible

    if message:  # Empty when help was shown instead.
        _print_error_line(f"error: {visible(_shorten(name_options(' '.join(message.split()))))}")
    return code


def _print_warning(message: Warning | str, *_: object, **__: object) -> None:
    """A warning in a line of its own, without the place in the code that it came from."""
    from ...errors import visible

    _print_error_line(f"warning: {visible(_shorten(' '.join(str(message).split())))}")


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"


def _print_error_line(line: str) -> None:
    with suppress(OSError, ValueError):  # Standard error may be closed or full.
        print(line, file=sys.stderr, flush=True)


# Messages in the words of a shell ------------------------------------------------------------------------


def name_options(message: str) -> str:
    """A text of the library with arguments as they are typed in a shell: --n auto for n='auto'."""

    def option(name: str) -> str:
        return "--columns or --bounds" if name == "columns" else f"--{name.replace('_', '-')}"

    def argument(found: re.Match[str]) -> str:
        return f"{option(found[1])} {found[3] or found[4] or ''}".strip()

    message = message.replace("count_clipped=False", "--no-count-clipped")
    message = re.sub(rf"^({_ARGUMENTS})(?= (?:must|is|has|names|needs|holds)\b)", lambda m: option(m[1]), message)
    message = re.sub(rf"\(from ({_ARGUMENTS})\)", lambda m: f"(from {option(m[1])})", message)
    return re.sub(rf"(?<![\w-])({_ARGUMENTS})=(?:(['\"])(.*?)\2|(\w+)\b)?", argument, message)


def unknown_option_message(error: Any) -> str | None:
    """The message for the parser's error about an option that a command does not have; None for other errors."""
    context, name = getattr(error, "ctx", None), getattr(error, "option_name", None)
    if context is None or not isinstance(name, str) or not name.startswith("--"):
        return None
    flags = [flag for parameter in context.command.params for flag in parameter.opts if flag.startswith("--")]
    return unknown_option(name.removeprefix("--"), [flag.removeprefix("--") for flag in flags])
