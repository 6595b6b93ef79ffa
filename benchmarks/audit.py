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
"""Of each line. With about 45 lines, all bounds hold together with a confidence of 99%."""
HEAD = """# Audit results

For each mechanism, the table has the privacy loss that it claims and a lower bound that an audit measured. Each lower
bound has a confidence of 99.98%. So the probability that any true claim on this page is contradicted is at most 1%.
`python -m benchmarks.audit` writes this page. It runs each mechanism on the two neighboring data sets with the largest
privacy loss that we know. A low lower bound may only mean that the pair is weak. The [guide](audit.md) explains the
method, and [proofs/audit.md](../proofs/audit.md) has its proof.

- *claimed mu*: the mu of the Gaussian curve that has the claimed delta at epsilon = 0. For Gaussian noise this is the
  whole claim.
- *mu at least*: the audited lower bound. *share*: this bound divided by the claimed mu.
- *epsilon at least*: the lower bound of epsilon at delta = 10^-5.
- *contradicted*: whether the lower bounds exceed the whole claimed privacy curve. A claim with an additional delta
  allows a larger mu in rare events.
- *runs*: the number of runs on each data set.

![Privacy curve that a mechanism claims, and the lower bound of the audit](../pictures/audit.svg)

"""
WHOLE = "Each run makes a whole release, from the first row to the published value. Rows of people are grouped once."
PEERS = "These sums follow the documentation of each library. The pairs are of the same kind."
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
        text += f"\n## Other libraries\n\n{PEERS}\n\n" + table(peers)
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
