"""What a release is installed with: every dependency, pinned and with digests."""

import re
import runpy
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


def page(version, *names, withdrawn=None):
    return {"info": {"version": version}, "vulnerabilities": [{"id": name, "withdrawn": withdrawn} for name in names]}


def test_advisories_are_those_of_the_pinned_version():
    """Of a pin that the index does not speak of nothing is claimed."""
    module = runpy.run_path(str(HOUSE / "requirements" / "audit.py"))
    index = {
        "a/1.0": page("1.0", "CVE-1"),
        "b": page("2.0", "CVE-2"),
        "c": page("2.0", "CVE-3"),
        "d": page("3.0", "CVE-4", withdrawn="2026-01-01"),
        "e": page("1"),
        "f": {"info": {"version": "1"}},
    }
    text = "".join(f"{pin} \\\n    --hash=sha256:00\n" for pin in ("a==1.0", "b==2.0 ; python_version < '3.12'"))
    text += "c==1.9\nd==3.0\ne==1\nf==1\n"
    found = dict(line.split(": ") for _, line in module["lines"](text, index.get))
    unknown = "the index does not say"
    assert found == {"a 1.0": "CVE-1", "b 2.0": "CVE-2", "c 1.9": unknown, "f 1": unknown}
    everything = (HOUSE / "requirements" / "release.txt").read_text()
    assert {line.split()[0] for _, line in module["lines"](everything, {}.get)} == set(pins())
