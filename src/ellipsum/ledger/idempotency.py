"""Keys: the same request again returns the release that was stored for it [Q3]."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..errors import BudgetRefused, named
from .chain import bad, canonical, digest, fields_of
from .charging import Ask
from .store import Transaction


def under_key(transaction: Transaction, dataset: str, key: str) -> dict[str, Any] | None:
    text = "select number, body, digest from ellipsum_entries where dataset = ? and key = ?"
    rows = transaction.run(text, [dataset, key])
    return fields_of(*rows[0]) if rows else None


def stored_release(transaction: Transaction, earlier: Mapping[str, Any], request: str) -> str:
    """The release that was stored under a key, free, for the same request and no other [Q3]."""
    if earlier["request"] != request:
        raise BudgetRefused(
            f"the key {named(earlier['key'])} was used for another request. Nothing was read or spent. Use a new key."
        )
    text = (
        "select r.body, e.number, e.body, e.digest from ellipsum_results r "
        "join ellipsum_entries e on e.number = r.number where e.of = ?"
    )
    rows = transaction.run(text, [earlier["number"]])
    if not rows:
        raise BudgetRefused(
            f"the key {named(earlier['key'])} was charged at {earlier['at']} (entry {earlier['number']}), and its "
            "release never came, or is still on its way. It stays charged. Nothing more was read or spent: wait, or "
            "use a new key, which is charged anew."
        )
    release, number, *entry = rows[0]
    if fields_of(number, *entry)["release"] != digest(release):
        raise bad(number, "the release that is stored for it was changed")
    return str(release)


def request_of(ask: Ask, version: str) -> str:
    """The digest of everything that was asked, and of which version of the data; that of ellipsum does not matter."""
    asked = {
        "note": ask.note,
        "guarantee": ask.guarantee.to_dict(),
        "stated": dict(ask.stated),
        "plan": {name: value for name, value in json.loads(ask.plan).items() if name != "version"},
        "columns": None if ask.columns is None else list(ask.columns),
        "privacy_id": ask.privacy_id,
        "version": version,
    }
    return digest(canonical(asked))
