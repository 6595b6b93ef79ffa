"""Audits: lower bounds on what a mechanism gives away, from its outputs alone."""

from .audit import Audit, audit
from .bits import BitsAudit, audit_bits

__all__ = ["Audit", "BitsAudit", "audit", "audit_bits"]
