"""`python -m benchmarks [name ...]`: every benchmark, or those whose name holds one of the words.

Each prints ratios against something measured in the same run. Without words all run, one after the other.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
HEAVY = ("spark", "lake")  # need an engine of their own, or a large disk: run by name only


def main() -> int:
    words = sys.argv[1:]
    names = sorted(
        f"benchmarks.{path.parent.name}.{path.stem}" for path in HERE.glob("*/*.py") if not path.stem.startswith("_")
    )
    usual = [name for name in names if name.rpartition(".")[2] not in HEAVY]
    chosen = [name for name in names if any(word in name for word in words)] if words else usual
    if not chosen:
        print(f"no benchmark matches {' '.join(words)}; there are: {', '.join(names)}")
        return 2
    failed = []
    for name in chosen:
        print(f"\n== {name} ==", flush=True)
        begin = time.monotonic()
        done = subprocess.run([sys.executable, "-m", name], cwd=HERE.parent, check=False)
        print(f"({time.monotonic() - begin:.0f} s)", flush=True)
        if done.returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
