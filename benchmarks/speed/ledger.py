"""A ledger of a million entries: shown, verified and charged.

Run: python -m benchmarks.speed.ledger [--entries 1000000] [--charges 300] [--url postgresql://...]

Targets: shown in 1 s, verified in 10 s, a charge at most 5 ms (SQLite) or 20 ms (PostgreSQL); most of a charge is one
fsync of the disk, which is measured beside it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any


def timed(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def fill(ledger: Any, entries: int) -> None:
    """So many entries after a first release, like it in all but numbers, digests and sums; `verify` checks them."""
    from ellipsum.ledger.charging import exact_text
    from ellipsum.ledger.entries import canonical, digest

    ledger.dataset("survey").enter(ledger.dataset("survey").reserve(ask()), "{}")
    *_, reserved, released = ledger.history()
    charge, number, before = Fraction(reserved["charged"]["squares"]), released["number"], released.pop("digest")
    spent = charge
    del reserved["digest"]
    text = "insert into ellipsum_entries (number, dataset, what, of, body, digest) values (?, 'survey', ?, ?, ?, ?)"
    bare = "insert into ellipsum_entries (number, dataset, what, body, digest) values (?, 'survey', ?, ?, ?)"
    for start in range(0, entries, 20_000):
        with ledger._store.writing() as transaction:
            for _ in range(min(20_000, entries - start) // 2):
                number, spent = number + 1, spent + charge
                sums = {**reserved["spent"], "squares": exact_text(spent)}
                body = canonical({**reserved, "number": number, "before": before, "spent": sums})
                before = digest(body)
                transaction.run(bare, [number, "reserved", body, before])
                number += 1
                body = canonical({**released, "number": number, "before": before, "of": number - 1})
                before = digest(body)
                transaction.run(text, [number, "released", number - 1, body, before])


def ask() -> object:
    import ellipsum as es
    from ellipsum.ledger import ChargeRequest

    return ChargeRequest("mean", es.Privacy(1e-3), {"epsilon": 0.002, "delta": 1e-6}, None, '{"format": "a plan"}')


def fsync_ms(folder: Path) -> float:
    with open(folder / "probe", "wb") as file:
        times = []
        for _ in range(50):
            file.write(b"x" * 4096)
            file.flush()
            times.append(timed(lambda: os.fdatasync(file.fileno())))
    return statistics.median(times) * 1e3


def main() -> None:
    import ellipsum as es

    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--charges", type=int, default=300)
    parser.add_argument("--url", help="a PostgreSQL server, in place of an SQLite file")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        url = words.url or folder / "budget.db"
        ledger = es.Ledger(url)
        ledger.init("survey", mu=1000)
        print(f"filled with {words.entries} entries in {timed(lambda: fill(ledger, words.entries)):.0f} s")
        print(f"shown     {timed(lambda: repr(es.Ledger(url))):.2f} s")
        print(f"verified  {timed(lambda: es.Ledger(url).verify()):.2f} s")
        times = [timed(lambda: ledger.dataset("survey").reserve(ask())) for _ in range(words.charges)]
        median, late = statistics.median(times) * 1e3, sorted(times)[int(0.95 * len(times))] * 1e3
        print(f"a charge  {median:.2f} ms (95% within {late:.2f} ms); an fsync here takes {fsync_ms(folder):.2f} ms")


if __name__ == "__main__":
    main()
