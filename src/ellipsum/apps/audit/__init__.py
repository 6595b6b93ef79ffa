"""Audits: lower bounds on the privacy loss of a mechanism, from its outputs alone."""

from .bits import BitsAudit, audit_bits
from .bounds import Audit, audit

__all__ = ["Audit", "BitsAudit", "audit", "audit_bits"]
