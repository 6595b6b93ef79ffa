"""Budget ledgers: charged before data is read, protected by a chain of hashes, in SQLite or PostgreSQL.

In the order to read: `ledger` has the public class, and `dataset_account` charges a release to an account, or refuses
it. `charging` decides how a guarantee is charged, and `account_state` has what is spent and left. `sqlite_store` or
`postgresql_store` stores `entries`, each with the digest of the one before. `verification` checks all of them, and
`export` writes them for other tools.
"""

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
