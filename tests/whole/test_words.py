"""Idioms of our own that readers would have to guess: the usual words are in docs/concepts/glossary.md."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IDIOMS = re.compile(
    r"\banew\b|\bso many\b|\bwhoever\b|\bbut for\b|\bspeaks? (?:of|against)\b|\bsays? against\b|\bheld to\b"
    r"|\bone a (?:row|column|group|person)\b|\berrs\b|\blaw of (?:least|the noise|a plan)\b|\bsomebody\b"
    r"|(?<!belongs to )(?<!protects )(?<!protect )\bnobody\b|\bdrowns?\b|\bin place of\b|\bis (?:told|said)\b"
    r"|\bwords of (?:a|every|the) call\b|\bthe house\b|\brooms\b|(?-i:State) (?:wider|bounds|a|the|another|tighter)\b"
    r"|\bas usual\b|\bgives? away\b|\bwhat .{1,30} may hide\b|\brides? along\b|\bneighbour|\bcentre"
    r"|\bspherical noise\b|\bpure noise\b",
    re.IGNORECASE,
)
PAGES = [
    page
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs" / "notebooks").glob("*.ipynb")]
    if "dev" not in page.relative_to(ROOT).parts
]
ALLOWED: set[tuple[str, str]] = set()
"""Ordinary uses: file, text."""
CHECKED_PACKAGES: set[str] = {
    "rows",
    "noise",
    "privacy",
    "numerics",
    "regions",
    "display",
    "releases",
    "plans",
    "friendly",
    "projection",
    "ledger",
    "session.py",
    "formats.py",
}
"""Packages of `src/ellipsum` that have none left."""


def idioms(path):
    """Line number and text of every idiom; outputs that the library prints are left out of pages."""
    text = path.read_text()
    if path.suffix == ".md":
        text = re.sub(r"```text\n.*?```", lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL)
    return [
        (number, match[0])
        for number, line in enumerate(text.splitlines(), 1)
        for match in IDIOMS.finditer(line)
        if (path.name, match[0].lower()) not in ALLOWED
    ]


def source_idioms():
    """Package -> places."""
    folder = ROOT / "src" / "ellipsum"
    places = {}
    for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.html")]):
        package = path.relative_to(folder).parts[0]
        for number, text in idioms(path):
            places.setdefault(package, []).append(f"{path.relative_to(folder)}:{number}: {text}")
    return places


UNFINISHED = {"speed.md", "learning.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_ordinary_words(page):
    assert page.name in UNFINISHED or not idioms(page)


def test_source_uses_ordinary_words():
    places = source_idioms()
    print(dict(Counter({package: len(found) for package, found in places.items()}).most_common()))
    assert not [place for package in CHECKED_PACKAGES for place in places.get(package, [])]


if __name__ == "__main__":
    for found in source_idioms().values():
        print("\n".join(found))
