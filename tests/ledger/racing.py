"""What several processes do to one ledger at once, for the tests of both databases."""

import multiprocessing
import os
import random
import signal
import time

import ellipsum as es
from ellipsum.ledger import ChargeRequest

FORK = multiprocessing.get_context("fork")
ASK = ChargeRequest(
    "a race", es.Privacy.of_pure(es.Budget(epsilon=0.2, delta=0).pair[0]), {"epsilon": 0.2, "delta": 0.0}
)


def race(url, dataset, processes=16):
    """The number of processes that were admitted, each on a connection of its own, all at once."""
    start, admitted = FORK.Event(), FORK.Value("i", 0)
    crowd = [FORK.Process(target=_run, args=(url, dataset, start, admitted)) for _ in range(processes)]
    for one in crowd:
        one.start()
    start.set()
    for one in crowd:
        one.join(120)
        assert one.exitcode == 0
    return admitted.value


def _run(url, dataset, start, admitted):
    ledger = es.Ledger(url)
    start.wait(60)
    try:
        reserved = ledger.dataset(dataset).reserve(ASK)
        ledger.dataset(dataset).enter(reserved, "{}")
        with admitted.get_lock():
            admitted.value += 1
    except es.BudgetRefused:
        pass


def kill_at_random(url, dataset, folder, times, seed=0, longest=0.04):
    """Kill a process that releases without end, this many times; every release that it published leaves a file.

    On a slow machine it lives longer, so that it publishes something between two kills.
    """
    moments = random.Random(seed)
    begin, account = time.monotonic(), es.Ledger(url).dataset(dataset)
    reserved = account.reserve(ASK)
    (folder / str(reserved.number)).write_text("a release")
    account.enter(reserved, "a release")
    longest = max(longest, 4 * (time.monotonic() - begin))
    for _ in range(times):
        connected = FORK.Event()
        victim = FORK.Process(target=_release, args=(url, dataset, folder, connected))
        victim.start()
        assert connected.wait(60)
        time.sleep(moments.uniform(0.0, longest))
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()


def _release(url, dataset, folder, connected):
    ledger = es.Ledger(url)
    assert ledger.anchor
    connected.set()
    while True:
        reserved = ledger.dataset(dataset).reserve(ASK)
        (folder / str(reserved.number)).write_text("a release")  # as if it had been published now
        ledger.dataset(dataset).enter(reserved, "a release")
