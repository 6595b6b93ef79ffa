"""Check that a ledger is as it was written: the chain of entries, their sums, and what is stored beside them [Q2]."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from operator import le
from typing import Any

from ..errors import DataError, UsageError
from .account_state import dataset_names, read_account
from .entries import MALFORMED, ORIGIN, Entry, Store, Transaction, bad_entry, digest, format_anchor, parse_anchor

_EXACT = Context(prec=20_000, traps=[Inexact])
_ZERO = Decimal(0)
_scan: Any = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_ROLLED_BACK = (
    "The ledger does not contain this anchor: it was rolled back to an older copy, replaced, or rewritten. "
    "Releases since then are missing from it."
)
_BAD_INDEX = "The ledger's indices do not find all of its entries: the file is damaged, or was tampered with."
_ENTRIES = "select number, body, digest, dataset, what, analyst, key, of from ellipsum_entries order by number"
_RESULTS = "select r.number, r.body, e.body from ellipsum_results r left join ellipsum_entries e on e.number = r.number"
_MISSING_RESULTS = (
    "select s.number from ellipsum_entries r join ellipsum_entries s on s.of = r.number where r.key is not null "
    "and not exists (select 1 from ellipsum_results k where k.number = s.number) order by s.number limit 1"
)


def verify(store: Store, anchor: str | None) -> str:
    """The anchor at the end. An error names the first bad entry, or says that an earlier anchor is missing."""
    checkpoint = (0, ORIGIN) if anchor is None else parse_anchor(anchor)
    totals: defaultdict[str, Totals] = defaultdict(Totals)
    reached, is_found = (0, ORIGIN), checkpoint == (0, ORIGIN)
    with store.reading() as transaction:
        for number, own, fields in _chain(transaction):
            try:
                follows = totals[fields["dataset"]].take(number, fields)
            except MALFORMED:
                raise bad_entry(number, "it is no entry of a ledger") from None
            if not follows:
                raise bad_entry(number, "it does not follow from the entries before it")
            reached = number, own
            is_found = is_found or reached == checkpoint
        if not is_found:
            raise DataError(_ROLLED_BACK)
        _check_indices(transaction, totals)
        _check_plans(transaction, set().union(*(each.plans for each in totals.values())))
        _check_results(transaction)
    return format_anchor(*reached)


def _chain(transaction: Transaction) -> Iterator[tuple[int, str, Entry]]:
    """The number, digest and fields of each entry, or an error at the first that does not follow the one before."""
    expected, last = 1, ORIGIN
    for number, body, own, *columns in transaction.each(_ENTRIES):
        if number != expected:
            raise bad_entry(expected, "it is missing")
        try:
            if digest(body) != own:
                raise bad_entry(number, "it was changed after it was written")
            fields, end = _scan(body, 0)  # A million entries take seconds less than with json.loads.
            follows = fields["before"] == last and fields["number"] == number and end == len(body)
        except (*MALFORMED, StopIteration):
            raise bad_entry(number, "it is no entry of a ledger") from None
        if not follows:
            raise bad_entry(number, "it does not follow the entry before it")
        if columns != [fields.get(name) for name in ("dataset", "what", "analyst", "key", "of")]:
            raise bad_entry(number, "its columns are not those of its text")
        yield number, own, fields
        expected, last = number + 1, own


class Totals:
    """Sums of the charges of one data set. `take` says whether an entry follows from the entries before it."""

    def __init__(self) -> None:
        self._is_created = self.is_closed = False
        self.caps: list[Decimal] | None = None
        self.spent: list[Decimal] | None = None
        self.unreleased: set[int] = set()
        self.plans: set[str] = set()
        self.charges = 0

    def take(self, number: int, fields: Entry) -> bool:
        what = fields["what"]
        if what == "reserved":
            return self._add_charge(number, fields)
        if what == "released":
            is_known = fields["of"] in self.unreleased
            self.unreleased.discard(fields["of"])
            return is_known
        if self._is_created == (what == "created") or self.is_closed:
            return False
        self._is_created, self.is_closed = True, what == "closed"
        if what not in ("created", "accounting set") or fields["caps"] is None:
            return what in ("created", "accounting set", "closed")
        before, self.caps = self.caps, _decimals(fields["caps"], _EXACT.power(Decimal(fields["caps"]["mu"]), 2))
        return before in (None, self.caps)  # Caps are set once.

    def _add_charge(self, number: int, fields: Entry) -> bool:
        """Whether the spent amounts are the previous ones plus the charge, and within the caps."""
        if self.caps is None or self.is_closed:
            return False
        self.unreleased.add(number)
        self.plans.add(fields["plan"])
        self.charges += 1
        charge = _decimals(fields["charged"], fields["charged"]["squares"])
        before, self.spent = (
            self.spent or [_ZERO] * len(self.caps),
            _decimals(fields["spent"], fields["spent"]["squares"]),
        )
        if not len(charge) == len(self.spent) == len(self.caps):
            return False
        is_sum = [*map(_EXACT.add, before, charge)] == self.spent
        return is_sum and min(charge) >= 0 and all(map(le, self.spent, self.caps))


def _decimals(amounts: Mapping[str, Any], squares: str | Decimal) -> list[Decimal]:
    """The sum of squares of mu, delta and the epsilons."""
    return [Decimal(squares), Decimal(amounts["delta"]), *map(Decimal, amounts["epsilon"])]


def _check_indices(transaction: Transaction, totals: Mapping[str, Totals]) -> None:
    """Raise an error unless a charge, which reads few entries by their index, finds the same sums."""
    if set(dataset_names(transaction)) != set(totals):
        raise DataError(_BAD_INDEX)
    for dataset, expected in totals.items():
        try:
            account = read_account(transaction, dataset, counted=True)
        except UsageError:  # The index does not find the entry that created the budget.
            raise DataError(_BAD_INDEX) from None
        caps = account.caps
        spent = [] if caps is None else [caps.squares_spent, caps.slack_spent, *caps.pure_spent]
        is_same = (
            (account.reserved, account.reserved - account.released) == (expected.charges, len(expected.unreleased))
            and account.closed == expected.is_closed
            and (caps is None) == (expected.caps is None)
            and spent == [Fraction(amount) for amount in expected.spent or [_ZERO] * len(spent)]
        )
        if not is_same:
            raise DataError(_BAD_INDEX)


def _check_plans(transaction: Transaction, wanted: set[str]) -> None:
    """Raise an error unless the stored plans are those whose digests the entries hold."""
    for own, body in transaction.each("select digest, body from ellipsum_plans"):
        if not _has_digest(body, own):
            raise DataError("A plan that is stored beside the entries was changed after it was written.")
        wanted.discard(own)
    if wanted:
        raise DataError("A plan that was stored beside the entries is missing.")


def _check_results(transaction: Transaction) -> None:
    """Raise an error unless every release with a request ID is stored, and is the one that its entry names."""
    for number, body, entry in transaction.each(_RESULTS):
        if entry is None or not _has_digest(body, json.loads(entry).get("release")):
            raise bad_entry(int(number), "the release that is stored for it was changed")
    for (number,) in transaction.run(_MISSING_RESULTS):
        raise bad_entry(int(number), "the release that was stored for it is missing")


def _has_digest(body: object, own: object) -> bool:
    return isinstance(body, str) and digest(body) == own
