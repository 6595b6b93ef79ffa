"""Messages of the library with arguments as they are typed in a shell."""

from __future__ import annotations

import re
from typing import Any

from ...suggestions import unknown_option

_ARGUMENTS = (
    "bounds|bins|by|categories|center|columns|covariance|d|delta|epsilon|error|error_weights|expected|keys|magnitude|"
    "max_per_person|max_rows|method|metric|missing|n|neighbors|noise|per_person|privacy_id|q|quantiles|radius|request_id"
)


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
