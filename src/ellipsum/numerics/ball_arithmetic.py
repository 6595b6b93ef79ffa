"""Ball arithmetic (python-flint) has one working precision for the whole process: one lock guards it."""

from __future__ import annotations

import threading

FLINT = threading.RLock()
