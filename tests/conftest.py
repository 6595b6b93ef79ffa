"""What every run of the tests shares."""

import os
import zlib
from collections import Counter
from itertools import compress

import commands
import hypothesis
import numpy as np
import pytest
from counting import totals

hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.load_profile("fixed")

# `make test-slow` runs one slow case in SHARE, chosen by the checksum of its name; TURN says which.
# Without these variables all slow cases run.
SHARE = int(os.environ.get("SLOW_SHARE", "1"))
TURN = int(os.environ.get("SLOW_TURN", "0"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark as slow the cases that `one_in` leaves out of `make test`, and choose this run's share of the slow cases."""
    case_numbers = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        marker = item.get_closest_marker("one_in")
        if marker is not None and case_numbers[test] % marker.args[0]:
            item.add_marker("slow")
        case_numbers[test] += 1
    is_left_out = [item.get_closest_marker("slow") is not None and not has_its_turn(item) for item in items]
    if any(is_left_out):
        config.hook.pytest_deselected(items=list(compress(items, is_left_out)))
        items[:] = [item for item, left_out in zip(items, is_left_out, strict=True) if not left_out]


def has_its_turn(item):
    """Whether this run has a slow case. The checksum of its name decides, so every case has one TURN below SHARE."""
    return zlib.crc32(item.nodeid.encode()) % SHARE == TURN % SHARE


@pytest.fixture(autouse=True)
def fixed_noise(request, monkeypatch):
    """Fix the noise of every test and its commands, so that no test fails by chance. A marker asks for real entropy."""
    if request.node.get_closest_marker("entropy") is None:
        commands.seed = zlib.crc32(request.node.nodeid.encode())
        monkeypatch.setattr(os, "urandom", np.random.default_rng(commands.seed).bytes)


def pytest_terminal_summary(terminalreporter):
    reports = [report for some in terminalreporter.stats.values() for report in some]
    for name, number in totals(reports).items():
        terminalreporter.write_line(f"{name}: {number} cases")
