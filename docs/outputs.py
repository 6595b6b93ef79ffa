"""The printed output of snippets: `python docs/outputs.py [page ...]` writes it into every page that shows it.

A block of text that directly follows a block of Python is that block's output. Entropy is fixed, so that it is the
same in every run. A test compares what the pages show with what runs.
"""

import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
SNIPPET = re.compile(r"```python\n(?P<code>.*?)```(?:\n\n```text\n(?P<output>.*?)```)?", re.DOTALL)


def pages() -> list[Path]:
    """Every page that has Python snippets."""
    every = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in every if SNIPPET.search(page.read_text())]


def run(page: Path) -> list[tuple[str | None, str]]:
    """For each snippet, the output that the page shows (or None) and the output that it prints.

    The snippets of a page run in order, in one namespace, in the working folder.
    """
    namespace: dict[str, object] = {}
    outputs = []
    with mock.patch.object(os, "urandom", _fixed_entropy()):
        for snippet in SNIPPET.finditer(page.read_text()):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(snippet["code"], str(page), "exec"), namespace)
            outputs.append((snippet["output"], printed.getvalue()))
    return outputs


def _fixed_entropy() -> Callable[[int], bytes]:
    """Fixed bytes for the noise; a compiler's cache, which names its files by random numbers too, gets real ones."""
    fixed, real = np.random.default_rng(7).bytes, os.urandom

    def urandom(size: int) -> bytes:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        return fixed(size) if caller.startswith("ellipsum.") else real(size)

    return urandom


def write(page: Path) -> None:
    """Put the printed output into a page."""
    printed = iter(run(page))

    def replace(snippet: re.Match[str]) -> str:
        shown, text = next(printed)
        return snippet[0] if shown is None else f"```python\n{snippet['code']}```\n\n```text\n{text}```"

    page.write_text(SNIPPET.sub(replace, page.read_text()))


def main() -> None:
    """Write the outputs of the pages that are named, or of all."""
    for page in [Path(name).resolve() for name in sys.argv[1:]] or pages():
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            write(page)


if __name__ == "__main__":
    main()
