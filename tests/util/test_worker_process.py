"""Messages to a second interpreter, and its end."""

import time

import pytest

from ellipsum.util.worker_process import WorkerProcess


@pytest.fixture
def worker():
    worker = WorkerProcess("echoing", quiet=True)
    yield worker
    worker.close()


def test_messages_of_every_size_come_back(worker):
    for message in (b"", b"a", bytes(range(256)) * 4000):
        worker.send(message)
        assert worker.receive(60) == message


def test_what_a_worker_prints_is_no_message(worker):
    worker.send(b"talk")
    assert worker.receive(60) == b"''"


def test_a_message_that_is_too_long_is_none(worker):
    worker.send(b"12345")
    assert worker.receive(60, most=4) is None


def test_a_worker_that_is_slow_or_gone_answers_nothing(worker):
    worker.send(b"a")
    assert worker.receive(60) == b"a"
    worker.send(b"sleep")
    begin = time.monotonic()
    assert worker.receive(0.2) is None
    assert time.monotonic() - begin < 5
    worker.kill()
    assert worker.receive() is None
    worker.send(b"nobody hears this")
    worker.process.wait(60)  # its pipes close a moment before it has ended
    assert not worker.alive


def test_a_worker_that_dies_is_noticed(worker):
    worker.send(b"die")
    assert worker.receive() is None
    assert worker.process.wait(10) == 3


def test_stopping_ends_a_worker_that_does_not_listen(worker):
    worker.send(b"sleep")
    worker.stop(5)
    assert not worker.alive


def test_waiting_ends_when_the_caller_is_gone(worker):
    """A helper that waits for a block's process notices that its own caller ended."""
    caller = WorkerProcess("echoing", quiet=True)
    caller.send(b"a")
    assert caller.receive(60) == b"a"
    worker.send(b"sleep")
    caller.kill()
    assert worker.receive(60, caller=caller) is None
    caller.close()


def test_a_module_that_cannot_be_loaded_answers_nothing():
    worker = WorkerProcess("no_such_module", quiet=True)
    worker.send(b"a")
    assert worker.receive(60) is None
    worker.close()
