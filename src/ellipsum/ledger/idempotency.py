"""Request IDs: the same request again returns the release that was stored for it [Q3]. Names that callers choose."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..errors import BudgetRefused, UsageError, named
from .charging import ChargeRequest
from .entries import Transaction, bad_entry, canonical, digest, read_fields

_LONGEST = 200


def check_name(what: str, value: object) -> str:
    """A name of a data set, request, analyst or column that can be shown on a line."""
    if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST or not value.isprintable():
        raise UsageError(f"{what} must be a name of 1 to {_LONGEST} printable letters.")
    return value


def check_dataset(value: object) -> str:
    """A name to which a version may be added."""
    name = check_name("dataset", value)
    if "@" in name:
        raise UsageError("dataset must have no @ in its name: a version follows it, as in survey@2026.")
    return name


def find_request(transaction: Transaction, dataset: str, key: str) -> dict[str, Any] | None:
    """The fields of the charge that was made under a request ID."""
    text = "select number, body, digest from ellipsum_entries where dataset = ? and key = ?"
    rows = transaction.run(text, [dataset, key])
    return read_fields(*rows[0]) if rows else None


def load_release(transaction: Transaction, charge: Mapping[str, Any], request_digest: str) -> str:
    """The release that was stored under a request ID, free, for the same request and no other [Q3]."""
    if charge["request"] != request_digest:
        raise BudgetRefused(
            f"the key {named(charge['key'])} was used for another request. Nothing was read or spent. Use a new key."
        )
    text = (
        "select r.body, e.number, e.body, e.digest from ellipsum_results r "
        "join ellipsum_entries e on e.number = r.number where e.of = ?"
    )
    rows = transaction.run(text, [charge["number"]])
    if not rows:
        raise BudgetRefused(
            f"the key {named(charge['key'])} was charged at {charge['at']} (entry {charge['number']}), and its "
            "release never came, or is still on its way. It stays charged. Nothing more was read or spent: wait, or "
            "use a new key, which is charged again."
        )
    release, number, *entry = rows[0]
    if read_fields(number, *entry)["release"] != digest(release):
        raise bad_entry(number, "the release that is stored for it was changed")
    return str(release)


def digest_request(request: ChargeRequest, version: str) -> str:
    """The digest of everything that was requested and of the data's version; the version of ellipsum is left out."""
    content = {
        "note": request.note,
        "guarantee": request.guarantee.to_dict(),
        "stated": dict(request.stated),
        "plan": {name: value for name, value in json.loads(request.plan).items() if name != "version"},
        "columns": None if request.columns is None else list(request.columns),
        "privacy_id": request.privacy_id,
        "version": version,
    }
    return digest(canonical(content))
