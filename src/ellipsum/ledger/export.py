"""The ledger for others: its entries, the events of Google's dp_accounting, and the public registry of deployments."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from ..curves import round_down, round_up, sqrt_up
from ..errors import choice
from .amounts import written
from .chain import canonical
from .refusals import spent_of
from .state import Account, account_of
from .store import Transaction

KINDS = ("jsonl", "dp_accounting", "registry")
_EVENTS = "dp_accounting.dp_event"
_HIDDEN = {"replace": "one of them replaced by another", "add_remove": "one of them more or less"}


def export(transaction: Transaction, kind: str) -> str:
    choice("kind", kind, KINDS)
    return {"jsonl": _lines, "dp_accounting": _events, "registry": _registry}[kind](transaction)


def _entries(transaction: Transaction) -> Iterator[tuple[str, dict[str, Any]]]:
    for body, own in transaction.each("select body, digest from ellipsum_entries order by number"):
        yield own, json.loads(body)


def _names(transaction: Transaction) -> list[str]:
    rows = transaction.run("select dataset from ellipsum_entries where what = 'opened' order by dataset")
    return [name for (name,) in rows]


def _lines(transaction: Transaction) -> str:
    return "\n".join(canonical({**fields, "digest": own}) for own, fields in _entries(transaction))


# dp_accounting ------------------------------------------------------------------------------------------


def _events(transaction: Transaction) -> str:
    """For each data set one composed event, and the delta that has to be added to whatever an accountant says."""
    events: dict[str, list[dict[str, Any]]] = {name: [] for name in _names(transaction)}
    slacks = dict.fromkeys(events, Fraction(0))
    for _, fields in _entries(transaction):
        if fields["what"] == "reserved":
            found, slack = _events_of(fields)
            events[fields["dataset"]] += found
            slacks[fields["dataset"]] += slack
    composed = {
        name: {"event": _event("ComposedDpEvent", events=events[name]), "delta_beside": round_up(slacks[name])}
        for name in events
    }
    return json.dumps(composed, indent=2)


def _events_of(fields: Mapping[str, Any]) -> tuple[list[dict[str, Any]], Fraction]:
    """A release by its own law where that is known, else as it was charged; every number is on the safe side."""
    guarantee, charged = fields["guarantee"], fields["charged"]
    if "mu" in guarantee:
        mu, pure = guarantee["mu"], guarantee.get("pure", [])
        slack = Fraction(guarantee["slack"])
    elif "ratio" in guarantee:
        mu, pure, slack = 0.0, [guarantee["ratio"]], Fraction(0)
    else:
        squares, slack = Fraction(charged["squares"]), Fraction(charged["slack"])
        mu = sqrt_up(squares) if squares else 0.0
        pure = [round_up(Fraction(epsilon)) for epsilon in charged["epsilon"]]
    events = [_event("GaussianDpEvent", noise_multiplier=round_down(1 / Fraction(mu)))] if mu else []
    return events + [_response(epsilon) for epsilon in pure if epsilon], slack


def _response(epsilon: float) -> dict[str, Any]:
    """Randomised response, the worst pure step [P8]: it answers at random with probability 2/(1 + e^epsilon)."""
    return _event("RandomizedResponseDpEvent", noise_parameter=2 / (1 + math.exp(min(epsilon, 700.0))), num_buckets=2)


def _event(name: str, **fields: Any) -> dict[str, Any]:
    return {"module_name": _EVENTS, "class_name": name, **fields}


# The registry of deployments ----------------------------------------------------------------------------


def _registry(transaction: Transaction) -> str:
    """One document for each data set: what the ledger knows, and the names of what it does not."""
    return "---\n".join(_deployment(account_of(transaction, name, counted=True)) for name in _names(transaction))


def _deployment(account: Account) -> str:
    pure = account.budget.get("delta") == 0
    flavour = "Pure DP" if pure else "Approximate DP" if "delta" in account.budget else "Gaussian DP"
    unit = account.protects.unit or "not fixed yet"
    relation = _HIDDEN.get(account.protects.neighbours or "", "the relation is not fixed yet")
    spent = "nothing so far" if account.caps is None else spent_of(account.caps)
    lines = [
        "status: Draft",
        "deployment:",
        "  product:",
        f"    name: {_quoted(account.dataset)}",
        *_open("    ", "data_curators", "intended_use", "data_product_type", "data_product_region", "description"),
        *_open("    ", "publication_date", "data_product_sector"),
        "  dp_flavor:",
        f"    name: {_quoted(flavour)}",
        *_open("    ", "data_domain", "unprotected_quantities"),
        "  privacy_loss:",
        f"    privacy_unit: {_quoted(unit)}",
        f"    privacy_unit_description: {_quoted(_unit_words(account, relation))}",
        "    privacy_parameters:",
        *(f"      {name}: {written(value)}" for name, value in account.budget.items()),
        f"    privacy_parameters_description: {_quoted(f'A cap on all releases together; spent: {spent}.')}",
        "  model:",
        '    model_name: "Central"',
        *_open("    ", "actors", "data_source_type"),
        f"    release_type: {_quoted('Many releases' if account.released > 1 else 'One release')}",
        f"    release_type_description: {_quoted(f'{account.released} released, {account.reserved} charged.')}",
        "  accounting:",
        f"    composition: {_quoted('Caps fixed beforehand and charged before data is read, on the exact curve.')}",
        "  implementation:",
        f"    mechanisms: {_quoted('ellipsum: clipped sums in exact integers, noise rounded correctly.')}",
        *_open("    ", "justification"),
    ]
    return "\n".join(lines) + "\n"


def _unit_words(account: Account, relation: str) -> str:
    whose = "" if account.protects.privacy_id is None else f", by the column {account.protects.privacy_id}"
    return f"Data sets are neighbours if they differ in one {account.protects.unit or 'unit'}{whose}: {relation}."


def _open(indent: str, *names: str) -> list[str]:
    return [f"{indent}# {name}: ''" for name in names]


def _quoted(text: str) -> str:
    """A text in JSON, which YAML reads as it is."""
    return json.dumps(text, ensure_ascii=True)
