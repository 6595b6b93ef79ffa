"""Budgets that survive everything: charged before data is read, chained, kept in SQLite or PostgreSQL."""

from .accounts import Ask
from .book import Ledger, Reserved
from .state import Account
from .tab import LedgerWarning, Tab

__all__ = ["Account", "Ask", "Ledger", "LedgerWarning", "Reserved", "Tab"]
