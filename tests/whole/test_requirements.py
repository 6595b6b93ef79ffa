"""What a release is installed with: every dependency, pinned and with digests."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

HOUSE = Path(__file__).parents[2]
PINNED = re.compile(
    r"^([a-z0-9-]+)==([^ ;]+)(?: ; [^\\]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
)


def pins():
    text = (HOUSE / "requirements" / "release.txt").read_text()
    found = PINNED.findall(text)
    assert len(re.findall(r"^\S", text, re.MULTILINE)) == len(found)
    return {name: version for name, version, _ in found}


def test_every_dependency_is_pinned_with_its_digests():
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["all"]]
    pinned = pins()
    for requirement in map(Requirement, asked):
        assert requirement.specifier.contains(pinned[requirement.name]), requirement.name


def test_nothing_but_the_package_index_is_named():
    text = (HOUSE / "requirements" / "release.txt").read_text()
    assert not re.search(r"file:|https?:|--(?:index|find|extra)|@", text)
