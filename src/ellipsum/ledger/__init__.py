"""Budgets that survive everything: charged before data is read, chained, kept in SQLite or PostgreSQL."""

from .account_state import AccountState
from .charging import ChargeRequest
from .dataset_account import DatasetAccount, LedgerCharge, LedgerWarning
from .ledger import Ledger, account_for_call

__all__ = [
    "AccountState",
    "ChargeRequest",
    "DatasetAccount",
    "Ledger",
    "LedgerCharge",
    "LedgerWarning",
    "account_for_call",
]
