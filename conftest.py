"""What the tests of every folder share."""

import signal

import pytest


@pytest.fixture(autouse=True, scope="session")
def usual_signals():
    """As in a terminal, however the run was started: nohup and background jobs ignore some signals."""
    usual = dict.fromkeys(("SIGHUP", "SIGQUIT", "SIGTERM"), signal.SIG_DFL)
    before = {}
    for name, handler in {"SIGINT": signal.default_int_handler, **usual}.items():
        number = getattr(signal, name, None)
        if number is not None:
            before[number] = signal.signal(number, handler)
    yield
    for number, handler in before.items():
        signal.signal(number, signal.SIG_DFL if handler is None else handler)
