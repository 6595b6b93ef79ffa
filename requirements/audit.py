"""`python requirements/audit.py`: advisories about the pinned dependencies of a release, as the package index has them.

A mirror may answer for the latest version of a package alone: a pin is looked up there if it is that version. Exit code
1: there is an advisory; 2: there is none, but some pins could not be looked up.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

INDEX = "https://pypi.org/pypi"
PINS = Path(__file__).with_name("release.txt")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_SECONDS = 60
Ask = Callable[[str], "dict[str, Any] | None"]


def from_index(page: str) -> dict[str, Any] | None:
    """What the index says under an address; None where it has no such page."""
    try:
        with urlopen(f"{INDEX}/{page}/json", timeout=_SECONDS) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except HTTPError as error:
        if error.code == 404:
            return None
        raise


def advisories(name: str, version: str, ask: Ask) -> list[str] | None:
    """The names of those that stand; None where the index does not say."""
    for page in (f"{name}/{version}", name):
        said = ask(page)
        if said is not None and said["info"]["version"] == version and said.get("vulnerabilities") is not None:
            return [found["id"] for found in said["vulnerabilities"] if not found.get("withdrawn")]
    return None


def lines(pins: str, ask: Ask) -> Iterator[tuple[int, str]]:
    """Exit code and text for each pin that has something to say."""
    for name, version in _PIN.findall(pins):
        found = advisories(name, version, ask)
        if found is None:
            yield 2, f"{name} {version}: the index does not say"
        elif found:
            yield 1, f"{name} {version}: {', '.join(found)}"


def main() -> int:
    pins = PINS.read_text()
    found = list(lines(pins, from_index))
    for _, text in found:
        print(text)
    unknown = sum(code == 2 for code, _ in found)
    print(f"{len(_PIN.findall(pins))} pins, {len(found) - unknown} with advisories, {unknown} not looked up")
    return min((code for code, _ in found), default=0)


if __name__ == "__main__":
    sys.exit(main())
