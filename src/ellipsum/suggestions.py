"""Hints for unknown names: the name that replaced an old one, or the nearest known name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

_BUDGET, _PREPARE = "budget=es.Budget(mu=) or budget=es.Budget(rho=)", "es.prepare, which shows the plan first"
_PEOPLE = "privacy_id=es.People(name, per_person=, max_rows=)"
_GROUPS = "by=es.Groups(name, keys=, max_per_person=, expected=)"
_LEDGER = "ledger=es.Ledger(address).dataset(name, analyst=)"
_NORMAL = "bounds=es.Normal(..., shape=, clip=, clip_probability=)"
_UNKNOWN = "bounds=es.Unknown(magnitude, method=)"

_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "rows": ("bounds",),
    "neighbours": ("neighbors",),
    "centre": ("center",),
    "centre_error": ("center_error",),
    "weights": ("error_weights",),
    "check": ("count_clipped",),
    "key": ("request_id",),
    "approve": (_PREPARE,),
    "header": ("data=es.csv(path, header=True)",),
    **dict.fromkeys(("random_state", "seed"), ("rng",)),
    "n_jobs": ("threads",),
    "groupby": ("by",),
    "edges": ("bins",),
    **dict.fromkeys(("mu", "rho"), (_BUDGET,)),
    **dict.fromkeys(("per_person", "max_rows"), (_PEOPLE,)),
    "max_groups": ("max_per_person", _GROUPS),
    **dict.fromkeys(("keys", "max_per_person", "expected"), (_GROUPS,)),
    **dict.fromkeys(("dataset", "analyst"), (_LEDGER,)),
    **dict.fromkeys(("shape", "clip", "clip_probability"), (_NORMAL,)),
    **dict.fromkeys(("method", "steps", "std", "clip_share"), (_UNKNOWN,)),
}
"""Replacements for arguments of earlier versions, other libraries or other objects, the best one first."""
_OPTIONS = {"check": ("no-count-clipped",), "groups": ("expected",), "approve": ("yes",)}
_VALUES = {
    ("missing", "column"): "skip",
    ("missing", "row"): "drop_row",
    ("missing", "center"): "none",
    ("noise", "norm"): "knorm",
    ("noise", "laplace"): "knorm",
    ("neighbors", "bounded"): "replace",
    ("neighbors", "unbounded"): "add_remove",
}
_ATTRIBUTES = {
    "error_std": "standard_error",
    "hidden": "clipping_bias",
    "guarantee": "privacy",
    "column_errors": "expected_error",
    "NoCentre": "NoCenter",
}


def unknown_argument(call: str, name: str, known: Sequence[str]) -> str:
    """The error message for a keyword that a call does not have."""
    for replacement in _ARGUMENTS.get(name, ()):
        if replacement in known or not replacement.isidentifier():
            return f"{call} has no argument {name!r}. Use {replacement}."
    near = nearest(name, known)
    advice = f"Did you mean {near}?" if near else f"It takes {', '.join(known)}."
    return f"{call} has no argument {name!r}. {advice}"


def unknown_option(name: str, known: Sequence[str]) -> str:
    """The error message for an option that a command does not have; names are without dashes."""
    replacements = _OPTIONS.get(name, _ARGUMENTS.get(name.replace("-", "_"), ()))
    typed = [replacement.replace("_", "-") for replacement in replacements]
    near = next((replacement for replacement in typed if replacement in known), None) or nearest(name, known)
    return f"No such option: --{name}." + (f" Did you mean --{near}?" if near else " See --help.")


def suggest_value(argument: str, value: str, allowed: Sequence[str]) -> str:
    """A hint for a value that is not allowed; empty if no allowed value is similar."""
    replacement = _VALUES.get((argument.removeprefix("--"), value))
    near = replacement if replacement in allowed else nearest(value, allowed)
    return f" Did you mean {near!r}?" if near else ""


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The known name with the closest spelling; names with the same beginning come first."""
    starts = [other for other in known if len(name) > 2 and other.startswith(name)]
    return next(iter(starts or get_close_matches(name, known, 1)), None)


def unknown_attribute(owner: str, name: str) -> AttributeError:
    """The error for an attribute that was renamed or does not exist."""
    replacement = _ATTRIBUTES.get(name)
    return AttributeError(f"{owner} has no attribute {name!r}." + (f" Use {replacement}." if replacement else ""))


class NamesOfToday:
    """Base of results: the error for an old attribute names the new one."""

    if not TYPE_CHECKING:  # With it, a type checker would accept every attribute.

        def __getattr__(self, name: str) -> Any:
            raise unknown_attribute(f"{type(self).__name__!r} object", name)
