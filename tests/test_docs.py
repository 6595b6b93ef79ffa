"""Every Python snippet in the README and the docs runs, and every link leads somewhere."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPET = re.compile(r"```python\n(.*?)```", re.DOTALL)


def pages_with_snippets():
    return [page for page in PAGES if SNIPPET.search(page.read_text())]


@pytest.mark.parametrize("page", pages_with_snippets(), ids=lambda p: p.name)
def test_snippets_run(page, tmp_path, monkeypatch):
    """The snippets of a page run in order, in one namespace, in an empty folder, on fixed entropy."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ellipsum.noise.os.urandom", np.random.default_rng(7).bytes)
    namespace: dict[str, object] = {}
    for code in SNIPPET.findall(page.read_text()):
        exec(compile(code, str(page.name), "exec"), namespace)


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?://)([A-Za-z.][\w./-]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
