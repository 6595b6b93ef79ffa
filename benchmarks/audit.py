"""`python -m benchmarks.audit [name ...]` writes docs/guides/audit-results.md: claimed and audited privacy loss.

With names only those are run, and printed. Other libraries' sums are run as their own pages show, where they are
installed (`pip install opendp diffprivlib pipeline-dp`); those that are not are left out of the page.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from scipy.special import ndtri

import ellipsum as es
from benchmarks import audit_peers
from ellipsum.apps.audit.cases import CASES, Case, case_of

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "audit-results.md"
WHOLE_RUNS = {"sum-ball": 20_000, "people-mean": 20_000}
CONFIDENCE = 0.9998
"""Of each of about 45 lines: all of them hold at 99%."""
HEAD = """# Audit results

What each mechanism claims, and what runs of it prove at least, at 99.98% confidence each, so that a true claim is
contradicted anywhere on this page with a probability of at most 1%. `python -m benchmarks.audit` writes it. Each
mechanism is run on two neighboring data sets that show as much of its privacy loss as we know how to show. A small
result on a weaker pair says nothing for or against a mechanism. The method is in the [guide](audit.md), its proof
in [proofs/audit.md](../proofs/audit.md).

"claimed mu" is that of the Gaussian curve with the claimed delta at epsilon = 0, which is the whole claim for Gaussian
noise; "mu at least" is the audited lower bound. A claim with an additional delta allows a larger mu in events as rare
as that; whether it is contradicted is decided against its whole curve. "epsilon at least" is at delta = 10^-5. Runs
are for each data set.

![Privacy curve that a mechanism claims, and the curve that its runs prove at least](../pictures/audit.svg)

"""
WHOLE = "The same, from the first row to the published value in each run; people's rows are grouped once."
COLUMNS = "| mechanism | claimed | runs | claimed mu | mu at least | share | epsilon at least | contradicted |\n"


def line(name: str, mechanism: object, case: Case, runs: int, processes: int | None = None) -> str:
    begin = time.monotonic()
    found = es.audit(mechanism, case.pair, runs=runs, processes=processes, confidence=CONFIDENCE)
    claimed = 2 * float(ndtri((1 + case.claim.delta(0.0)) / 2))
    slack = getattr(case.claim, "slack", 0.0)
    share = "" if slack else f"{found.mu_lower / claimed:.3f}"
    broken = "**yes**" if found.contradicts(case.claim) else "no"
    text = (
        f"| {name} | {case.claim} | {runs:,} | {claimed:.4g} | {found.mu_lower:.4g} | {share} "
        f"| {found.epsilon_lower(1e-5):.4g} | {broken} |"
    )
    print(f"{text} {time.monotonic() - begin:.0f} s", flush=True)
    return text


def lines(names: list[str]) -> tuple[list[str], list[str]]:
    """Lines of the mechanisms with their noise in batches where it can be, and of whole releases."""
    drawn, whole = [], []
    for name in names:
        case = case_of(name)
        drawn.append(line(name, case.mechanism, case, case.runs))
        if name in WHOLE_RUNS:
            whole.append(line(name, case.whole, case, WHOLE_RUNS[name]))
    return drawn, whole


def table(rows: list[str]) -> str:
    return COLUMNS + "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |\n" + "\n".join(rows) + "\n"


def main() -> None:
    drawn, whole = lines(sys.argv[1:] or list(CASES))
    peers = [line(name, *found, processes=1) for name, found in audit_peers.found().items()] if not sys.argv[1:] else []
    if sys.argv[1:]:
        return
    text = HEAD + "## This library\n\n" + table(drawn)
    text += f"\n## Whole releases\n\n{WHOLE}\n\n" + table(whole)
    if peers:
        text += "\n## Other libraries\n\nSums as their own pages show them, on the same kind of pair.\n\n" + table(
            peers
        )
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
