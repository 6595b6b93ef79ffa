"""Every command of the command line, in the order that help shows them."""

from . import learn, ledger, project
from .app import app

__all__ = ["app", "learn", "ledger", "project"]
