"""The ledger for others: its entries, the events of Google's dp_accounting, and the public registry of deployments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from ..errors import choice
from ..numerics.rounding import round_down, round_up, sqrt_up
from .account_state import AccountState, read_account
from .amounts import brief, written
from .entries import Transaction, canonical, read_fields, reading_entries
from .refusal import spent_of

KINDS = ("jsonl", "dp_accounting", "registry")
_EVENTS = "dp_accounting.dp_event"
_HIDDEN = {"replace": "one of them replaced by another", "add_remove": "one of them more or less"}


def export(transaction: Transaction, kind: str) -> str:
    choice("kind", kind, KINDS)
    with reading_entries():
        return {"jsonl": _lines, "dp_accounting": _events, "registry": _registry}[kind](transaction)


def _entries(transaction: Transaction) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, body, own in transaction.each("select number, body, digest from ellipsum_entries order by number"):
        yield own, read_fields(number, body, own)


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
    return events + [_pure(epsilon) for epsilon in pure if epsilon], slack


def _pure(epsilon: float) -> dict[str, Any]:
    """The worst pure step [P8]: noise e^(-epsilon |k|) on whole numbers that differ by 1 has its losses, +-epsilon.

    dp_accounting adds it up with Gaussian steps under one relation; its randomized response it does not.
    """
    return _event("DiscreteLaplaceDpEvent", noise_parameter=epsilon, sensitivity=1)


def _event(name: str, **fields: Any) -> dict[str, Any]:
    return {"module_name": _EVENTS, "class_name": name, **fields}


# The registry of deployments ----------------------------------------------------------------------------


def _registry(transaction: Transaction) -> str:
    """One document for each data set: what the ledger knows, and the names of what it does not."""
    return "---\n".join(_deployment(read_account(transaction, name, counted=True)) for name in _names(transaction))


def _deployment(account: AccountState) -> str:
    variant, parameters, words = _parameters(account.budget)
    spent = "nothing so far" if account.caps is None else spent_of(account.caps)
    lines = [
        f"url_slug: {_quoted(_slug(account.dataset))}",
        "deployment:",
        "  basic:",
        f"    name: {_quoted(account.dataset)}",
        *_open("data_curators", "description", "intended_use", "data_product_type", "data_product_region"),
        *_open("data_product_sector", "publication_date"),
        "  dp_variant:",
        f"    variant_name: {_quoted(variant)}",
        *_open("data_domain", "unprotected_quantities"),
        "  privacy_loss:",
        f"    privacy_unit: {_quoted(account.protects.unit or 'not fixed yet')}",
        f"    privacy_unit_details: {_quoted(_unit_words(account))}",
        *_open("number_of_privacy_units"),
        "    privacy_parameters:",
        *(f"      {name}: {_number(value)}" for name, value in parameters.items()),
        f"    privacy_parameters_details: {_quoted(f'A cap on all releases together{words}; spent: {spent}.')}",
        "  deployment_model:",
        '    model_name: "Central"',
        *_open("model_name_details", "trust_assumptions", "actors"),
        f"    release_type: {_quoted('Many releases' if account.released > 1 else 'One release')}",
        f"    release_type_details: {_quoted(f'{account.released} released, {account.reserved} charged.')}",
        *_open("data_source_type", "data_source_type_details", "access_type", "access_type_details"),
        "  implementation:",
        *_open("preprocessing_and_hyperparameter_tuning"),
        f"    mechanisms: {_quoted('ellipsum: clipped sums in exact integers, noise rounded correctly.')}",
        f"    composition: {_quoted('Caps fixed beforehand and charged before data is read, on the exact curve.')}",
        *_open("post_processing", "justification", "utility", "additional_information"),
        "  administrative:",
        '    status: "Draft"',
        *_open("evidence_sources", "registry_authors", "tier"),
    ]
    return "\n".join(lines) + "\n"


def _parameters(budget: Mapping[str, Fraction]) -> tuple[str, Mapping[str, Fraction], str]:
    """The variant, its parameters, and more about them; a budget of mu is in zCDP, which the registry knows."""
    if "mu" in budget:
        words = f", Gaussian differential privacy of mu = {brief(budget['mu'], up=True)}, of which rho follows"
        return "Zero-concentrated DP", {"rho": budget["mu"] ** 2 / 2}, words
    return ("Approximate DP" if budget["delta"] else "Pure DP"), budget, ""


def _unit_words(account: AccountState) -> str:
    whose = "" if account.protects.privacy_id is None else f", by the column {account.protects.privacy_id}"
    relation = _HIDDEN.get(account.protects.neighbors or "", "the relation is not fixed yet")
    return f"Data sets are neighbors if they differ in one {account.protects.unit or 'unit'}{whose}: {relation}."


def _open(*names: str) -> list[str]:
    return [f"    # {name}: ''" for name in names]


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "data"


def _number(value: Fraction) -> str:
    """A number of YAML 1.1 too, which takes 1E-7 for a text."""
    digits, mark, power = written(value).partition("E")
    return f"{digits}.0{mark}{power}" if mark and "." not in digits else digits + mark + power


def _quoted(text: str) -> str:
    """In quotes and ASCII, with the escapes that YAML has."""
    plain = json.dumps(text, ensure_ascii=False)
    return "".join(letter if letter.isascii() else f"\\U{ord(letter):08x}" for letter in plain)
