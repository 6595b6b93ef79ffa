"""Lays out the docstrings of the reference. mkdocstrings loads this as an extension of griffe.

Examples stand directly below the summary. A statistic shows its own parameters and those that most callers need; the
others are the same everywhere and have a page of their own.
"""

from typing import Any

import griffe

from ellipsum.request.documentation import PARAMETERS

SHOWN = {"data", "bounds", "epsilon", "delta", "neighbors", "privacy_id", "by", "missing"}


class ExamplesFirst(griffe.Extension):
    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        arrange(func)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        arrange(cls)


def arrange(obj: griffe.Object) -> None:
    if obj.docstring is None or "Examples" not in obj.docstring.value:
        return
    sections: list[Any] = []
    for section in obj.docstring.parsed:
        sections.append(section)
        if section.kind is griffe.DocstringSectionKind.parameters:
            sections += keep_main_parameters(section)
    examples = [section for section in sections if section.kind is griffe.DocstringSectionKind.examples]
    others = [section for section in sections if section not in examples]
    obj.docstring.parsed[:] = [*others[:1], *examples, *others[1:]]


def keep_main_parameters(section: Any) -> list[griffe.DocstringSectionText]:
    """Take the other common parameters out of the table; returned: a sentence that names them."""
    common = {parameter.name for parameter in section.value} & set(PARAMETERS)
    moved = [parameter.name for parameter in section.value if is_common(parameter) and parameter.name not in SHOWN]
    if "ledger" not in common:
        return []
    section.value[:] = [parameter for parameter in section.value if parameter.name not in moved]
    names = ", ".join(f"`{name}`" for name in moved)
    text = f'The same in every statistic: {names}. See <a href="common-parameters.html">common parameters</a>.'
    return [griffe.DocstringSectionText(text)]


def is_common(parameter: Any) -> bool:
    """Whether a parameter has the text that all calls share."""
    shared = PARAMETERS.get(parameter.name, ("", ""))[1]
    return " ".join(parameter.description.split()) == " ".join(shared.split())
