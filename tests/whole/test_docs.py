"""Snippets of the README and the docs run, links lead somewhere, and figures are those of their commands."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import ellipsum as es
from ellipsum.apps.audit.cases import CASES, case_of
from ellipsum.apps.demo import BOUNDS, brief, make_plans

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
OUTPUTS = runpy.run_path(str(DOCS / "outputs.py"))
TOPICS = runpy.run_path(str(DOCS / "reference_pages.py"))["TOPICS"]
GENERATED = {DOCS / "reference" / f"{name}.md" for names in TOPICS.values() for name in names} | {
    DOCS / "reference" / "common-parameters.md",
    *(notebook.with_suffix(".md") for notebook in (DOCS / "notebooks").glob("*.ipynb")),
}
MOST_WORDS = 800  # of a guide, code left out
LONG_GUIDES = {"audit-results"}


@pytest.mark.filterwarnings("ignore::ellipsum.errors.AccuracyWarning")  # some pages show a release that warns
@pytest.mark.parametrize("page", OUTPUTS["pages"](), ids=lambda p: p.name)
def test_snippets_run_and_print_what_the_page_shows(page, tmp_path, monkeypatch):
    """`python docs/outputs.py` writes the outputs."""
    monkeypatch.chdir(tmp_path)
    for shown, printed in OUTPUTS["run"](page):
        assert shown is None or shown == printed


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?://)([A-Za-z.][\w./-]+)", page.read_text()):
            path = (page.parent / target).resolve()
            assert path.exists() or path in GENERATED, f"{page.name} links to {target}"


def test_the_commands_of_the_readme_run_in_an_empty_folder(tmp_path):
    (block,) = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block.count("\nellipsum ") == 7
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        ["bash", "-e", "-c", block], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "spent         epsilon = 0.4 of 1" in done.stdout
    assert isinstance(es.load(tmp_path / "release.json").value.tolist(), list)


def test_diagrams_are_what_their_scripts_draw():
    """Figures made by matplotlib are compared where the site is built."""
    folder = DOCS / "pictures"
    diagrams = runpy.run_path(str(folder / "diagrams.py"))["pictures"]()
    for name in ("two_densities", "which_method"):
        diagrams[name.replace("_", "-")] = runpy.run_path(str(folder / f"{name}.py"))["picture"]()
    for name, drawn in diagrams.items():
        assert (folder / f"{name}.svg").read_text() == drawn, name


def test_the_errors_in_the_comparison_are_those_of_the_demo():
    text, plans = (DOCS / "concepts" / "comparison.md").read_text(), make_plans(20_000)
    for j, (name, (low, high)) in enumerate(BOUNDS.items()):
        errors = " | ".join(brief(plan.expected_error[j]) for plan in plans.values())
        assert f"| {name} | {high - low:,.0f} | {errors} |" in text


def test_the_readme_and_the_comparison_have_one_table_of_other_libraries():
    tables = [
        re.findall(r"^\| (?:OpenDP|diffprivlib|ellipsum)[^|]*\|(?: \d\.\d\d \|){3}$", page.read_text(), re.MULTILINE)
        for page in (ROOT / "README.md", DOCS / "concepts" / "comparison.md")
    ]
    assert tables[0] == tables[1]
    assert len(tables[0]) == 4


def test_audit_results_are_of_the_mechanisms_and_claims_of_today():
    """`python -m benchmarks.audit` writes the page."""
    page = (DOCS / "guides" / "audit-results.md").read_text()
    table = page[page.index("## This library") : page.index("## Whole releases")]
    assert re.findall(r"^\| ([a-z-]+) \| ([^|]*) \|", table, re.MULTILINE)[2:] == [
        (name, str(case_of(name).claim)) for name in CASES
    ]


def test_the_citation_is_of_this_version():
    assert f"\nversion: {es.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## [{es.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_every_page_of_the_site_is_in_its_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text()
    for page in DOCS.rglob("*.md"):
        listed = f": {page.relative_to(DOCS)}\n" in navigation
        assert listed or page.relative_to(DOCS).parts[0] == "dev", page


def test_every_public_name_is_in_the_reference():
    listed = {name for names in TOPICS.values() for name in names}
    assert set(es.__all__) - listed == {"__version__"}


def test_lines_that_a_statistic_needed_are_in_their_files():
    """Each block of lines follows the paragraph that names its files."""
    text = (DOCS / "contributing" / "add-a-statistic.md").read_text()
    files, quoted = [], 0
    for part in re.split(r"(```\n.*?```)", text, flags=re.DOTALL):
        if not part.startswith("```"):
            files = re.findall(r"`((?:\w+/)*\w+\.py)`", part) or files
            continue
        places = [ROOT / "src" / "ellipsum" / name for name in set(files)]
        sources = "\n".join(place.read_text() for place in places if place.exists())
        for line in part.splitlines()[1:-1]:
            assert f"{line}\n" in sources, (files, line)
            quoted += 1
    assert quoted > 10


def test_files_that_contributors_are_sent_to_exist():
    new = {"rows/simplex.py", "sources/orc.py", "sources/dask.py", "privacy/radial_curve.py", "noise/radial_law.py"}
    new.add("site/")  # which `make docs` writes
    for page in ("CONTRIBUTING.md", "ARCHITECTURE.md", "docs/contributing/add-a-statistic.md"):
        for name in set(re.findall(r"`([\w/]+/(?:\w+\.py)?)`", (ROOT / page).read_text())) - new:
            assert (
                (ROOT / name).exists() or (ROOT / "src" / "ellipsum" / name).exists() or name == "ellipsum/__init__.py"
            )


def test_guides_have_pictures():
    assert not [page.stem for page in (DOCS / "guides").glob("*.md") if "![" not in page.read_text()]


@pytest.mark.parametrize("page", sorted((DOCS / "guides").glob("*.md")), ids=lambda p: p.stem)
def test_guides_are_short(page):
    if page.stem in LONG_GUIDES:
        pytest.skip("longer for now")
    prose = re.sub(r"```.*?```|^    .*?$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert len(prose.split()) <= MOST_WORDS
