"""The ledger for other tools: its entries, events for Google's dp_accounting, and drafts for the public registry."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from ..errors import choice
from ..numerics.rounding import round_down, round_up, sqrt_up
from .account_state import AccountState, dataset_names, read_account
from .charging import describe_spent, exact_text, short_text
from .entries import Transaction, canonical, read_fields, reading_entries

KINDS = ("jsonl", "dp_accounting", "registry")
_EVENTS = "dp_accounting.dp_event"
_RELATIONS = {"replace": "it is replaced by another", "add_remove": "it is added or removed"}


def export(transaction: Transaction, kind: str) -> str:
    choice("kind", kind, KINDS)
    with reading_entries():
        return {"jsonl": _lines, "dp_accounting": _events, "registry": _registry}[kind](transaction)


def _entries(transaction: Transaction) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, body, own in transaction.each("select number, body, digest from ellipsum_entries order by number"):
        yield own, read_fields(number, body, own)


def _lines(transaction: Transaction) -> str:
    return "\n".join(canonical({**fields, "digest": own}) for own, fields in _entries(transaction))


def _events(transaction: Transaction) -> str:
    """One composed event for each data set, and the delta to add to the accountant's result."""
    events: dict[str, list[dict[str, Any]]] = {name: [] for name in dataset_names(transaction)}
    slacks = dict.fromkeys(events, Fraction(0))
    for _, fields in _entries(transaction):
        if fields["what"] == "reserved":
            charged, slack = _events_of(fields)
            events[fields["dataset"]] += charged
            slacks[fields["dataset"]] += slack
    composed = {
        name: {"event": _event("ComposedDpEvent", events=events[name]), "delta_beside": round_up(slacks[name])}
        for name in events
    }
    return json.dumps(composed, indent=2)


def _events_of(fields: Mapping[str, Any]) -> tuple[list[dict[str, Any]], Fraction]:
    """The events of a release: by its noise if that is known, otherwise by its charge. Numbers are rounded up."""
    guarantee, charged = fields["guarantee"], fields["charged"]
    if "mu" in guarantee:
        mu, pure = guarantee["mu"], guarantee.get("pure", [])
        slack = Fraction(guarantee["slack"])
    elif "ratio" in guarantee:
        mu, pure, slack = 0.0, [guarantee["ratio"]], Fraction(0)
    else:
        squares, slack = Fraction(charged["squares"]), Fraction(charged["delta"])
        mu = sqrt_up(squares) if squares else 0.0
        pure = [round_up(Fraction(epsilon)) for epsilon in charged["epsilon"]]
    events = [_event("GaussianDpEvent", noise_multiplier=round_down(1 / Fraction(mu)))] if mu else []
    return events + [_pure(epsilon) for epsilon in pure if epsilon], slack


def _pure(epsilon: float) -> dict[str, Any]:
    """The worst pure step [P8]: noise e^(-epsilon |k|) on integers that differ by 1 has the privacy losses +-epsilon.

    dp_accounting composes it with Gaussian steps under one relation, unlike its randomized response.
    """
    return _event("DiscreteLaplaceDpEvent", noise_parameter=epsilon, sensitivity=1)


def _event(name: str, **fields: Any) -> dict[str, Any]:
    return {"module_name": _EVENTS, "class_name": name, **fields}


def _registry(transaction: Transaction) -> str:
    """One document for each data set: what the ledger knows, and the names of what it does not know."""
    accounts = [read_account(transaction, name, counted=True) for name in dataset_names(transaction)]
    return "---\n".join(map(_deployment, accounts))


def _deployment(account: AccountState) -> str:
    variant, parameters, details = _parameters(account.budget)
    spent = "nothing yet" if account.caps is None else describe_spent(account.caps)
    lines = [
        f"url_slug: {_quote(_slug(account.dataset))}",
        "deployment:",
        "  basic:",
        f"    name: {_quote(account.dataset)}",
        *_open("data_curators", "description", "intended_use", "data_product_type", "data_product_region"),
        *_open("data_product_sector", "publication_date"),
        "  dp_variant:",
        f"    variant_name: {_quote(variant)}",
        *_open("data_domain", "unprotected_quantities"),
        "  privacy_loss:",
        f"    privacy_unit: {_quote(account.privacy_unit.unit or 'not set yet')}",
        f"    privacy_unit_details: {_quote(_describe_unit(account))}",
        *_open("number_of_privacy_units"),
        "    privacy_parameters:",
        *(f"      {name}: {_number(value)}" for name, value in parameters.items()),
        f"    privacy_parameters_details: {_quote(f'A limit on all releases together{details}; spent: {spent}.')}",
        "  deployment_model:",
        '    model_name: "Central"',
        *_open("model_name_details", "trust_assumptions", "actors"),
        f"    release_type: {_quote('Many releases' if account.released > 1 else 'One release')}",
        f"    release_type_details: {_quote(f'{account.released} completed, {account.reserved} charged.')}",
        *_open("data_source_type", "data_source_type_details", "access_type", "access_type_details"),
        "  implementation:",
        *_open("preprocessing_and_hyperparameter_tuning"),
        f"    mechanisms: {_quote('ellipsum: clipped sums in exact integers with correctly rounded noise.')}",
        f"    composition: {_quote('Privacy filter with limits set in advance, charged before data is read.')}",
        *_open("post_processing", "justification", "utility", "additional_information"),
        "  administrative:",
        '    status: "Draft"',
        *_open("evidence_sources", "registry_authors", "tier"),
    ]
    return "\n".join(lines) + "\n"


def _parameters(budget: Mapping[str, Fraction]) -> tuple[str, Mapping[str, Fraction], str]:
    """The variant, its parameters and details; a budget of mu is given in zCDP, which the registry knows."""
    if "mu" in budget:
        details = f", mu = {short_text(budget['mu'], up=True)} of Gaussian differential privacy, which implies rho"
        return "Zero-concentrated DP", {"rho": budget["mu"] ** 2 / 2}, details
    return ("Approximate DP" if budget["delta"] else "Pure DP"), budget, ""


def _describe_unit(account: AccountState) -> str:
    unit = account.privacy_unit
    column = "" if unit.privacy_id is None else f", identified by the column {unit.privacy_id}"
    relation = _RELATIONS.get(unit.neighbors or "", "the relation is not set yet")
    return f"Data sets are neighbors if they differ in one {unit.unit or 'unit'}{column}: {relation}."


def _open(*names: str) -> list[str]:
    return [f"    # {name}: ''" for name in names]


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "data"


def _number(value: Fraction) -> str:
    """A number that YAML 1.1 also reads as a number: it reads 1E-7 as text."""
    digits, mark, power = exact_text(value).partition("E")
    return f"{digits}.0{mark}{power}" if mark and "." not in digits else digits + mark + power


def _quote(text: str) -> str:
    """Quoted text in ASCII, with the escapes of YAML."""
    plain = json.dumps(text, ensure_ascii=False)
    return "".join(letter if letter.isascii() else f"\\U{ord(letter):08x}" for letter in plain)
