"""What an error adds about an unknown name: the name that replaced it, or the nearest one that exists."""

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
"""Where an argument of an earlier version, of another library or of another object is found: in order of preference."""
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
    """The error message for an option that a command does not have; options without their dashes."""
    replacements = _OPTIONS.get(name, _ARGUMENTS.get(name.replace("-", "_"), ()))
    typed = [replacement.replace("_", "-") for replacement in replacements]
    near = next((replacement for replacement in typed if replacement in known), None) or nearest(name, known)
    return f"No such option: --{name}." + (f" Did you mean --{near}?" if near else " See --help.")


def suggest_value(argument: str, value: str, allowed: Sequence[str]) -> str:
    """A sentence for a value that is not allowed, or nothing."""
    replacement = _VALUES.get((argument.removeprefix("--"), value))
    near = replacement if replacement in allowed else nearest(value, allowed)
    return f" Did you mean {near!r}?" if near else ""


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The known name that is closest in spelling; a name that begins like this one comes first."""
    starts = [other for other in known if len(name) > 2 and other.startswith(name)]
    return next(iter(starts or get_close_matches(name, known, 1)), None)


def unknown_attribute(owner: str, name: str) -> AttributeError:
    """The error for an attribute that was renamed, or that never was."""
    replacement = _ATTRIBUTES.get(name)
    return AttributeError(f"{owner} has no attribute {name!r}." + (f" Use {replacement}." if replacement else ""))


class NamesOfToday:
    """Base of results: an attribute that was renamed says its new name."""

    if not TYPE_CHECKING:  # a type checker would take every attribute for known

        def __getattr__(self, name: str) -> Any:
            raise unknown_attribute(f"{type(self).__name__!r} object", name)
