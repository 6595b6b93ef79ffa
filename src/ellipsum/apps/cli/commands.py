"""Every command of the command line, in the order that help shows them."""

from . import audit, learn, ledger, project, studio
from .app import app

__all__ = ["app", "audit", "learn", "ledger", "project", "studio"]
