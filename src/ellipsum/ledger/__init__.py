"""Budgets that survive everything: charged before data is read, chained, kept in SQLite or PostgreSQL."""

from .account_state import Account
from .charging import Ask
from .dataset_account import LedgerWarning, Tab
from .ledger import Ledger, Reserved

__all__ = ["Account", "Ask", "Ledger", "LedgerWarning", "Reserved", "Tab"]
