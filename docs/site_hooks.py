"""What the site adds to the pages of this folder.

Labels such as [P1] become links to their statements. Pages are generated for public names, for notebooks (executed),
for commands (their own help) and for the documents of the repository's root.

mkdocs calls the functions named on_... (https://www.mkdocs.org/user-guide/configuration/#hooks).
"""

import base64
import os
import pydoc
import re
import runpy
import tempfile
from pathlib import Path
from typing import Any

import nbformat
import typer
from markdown import Extension, Markdown
from markdown.extensions.toc import slugify
from markdown.inlinepatterns import InlineProcessor, SimpleTextInlineProcessor
from mkdocs.structure.files import File
from nbclient import NotebookClient

from ellipsum.request.documentation import PARAMETERS

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PROOFS = DOCS / "proofs"
STATEMENT = re.compile(r"^## \[([A-Z]\d+)\] ?(.*)$", re.MULTILINE)
LABEL_PAGES = {
    label: page.stem for page in sorted(PROOFS.glob("*.md")) for label, _ in STATEMENT.findall(page.read_text())
}
REFERENCE: dict[str, Any] = runpy.run_path(str(DOCS / "reference_pages.py"))
TOPICS: dict[str, list[str]] = REFERENCE["TOPICS"]
PROJECT_PAGES = {
    "contributing": "CONTRIBUTING.md",
    "architecture": "ARCHITECTURE.md",
    "security": "SECURITY.md",
    "changelog": "CHANGELOG.md",
}
LONG_SIGNATURE = 160  # characters: longer signatures are folded


class Labels(Extension):
    """Labels come before links: "[P1](b)" and "[K1][K2]" are none of Markdown's, and "p_+" is no emphasis."""

    page_folder = ""

    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.register(_Label(r"\[([A-Z]\d+)\](?!\([^)]*\.md)", md), "label", 175)
        md.inlinePatterns.register(SimpleTextInlineProcessor("(_)"), "underscore", 70)


class _Label(InlineProcessor):
    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str | None, int | None, int | None]:
        label = m[1]
        if label not in LABEL_PAGES:
            return None, None, None
        page = os.path.relpath(f"proofs/{LABEL_PAGES[label]}.html", Labels.page_folder)
        link = f'<a href="{page}#{label.lower()}">[{label}]</a>'
        return self.md.htmlStash.store(link), m.start(0), m.end(0)


def on_config(config: Any) -> Any:
    config.mdx_configs.setdefault("toc", {})["slugify"] = make_anchor
    config.markdown_extensions.append(Labels())
    reference = next(section["Reference"] for section in config.nav if "Reference" in section)
    for topic, names in TOPICS.items():
        reference.append({topic: [{name.rpartition(".")[2]: f"reference/{name}.md"} for name in names]})
    return config


def make_anchor(text: str, separator: str) -> str:
    """The label of a statement; for other headings their words."""
    label = re.match(r"\[([A-Z]\d+)\]", text)
    return label[1].lower() if label else slugify(text, separator)


def on_files(files: Any, config: Any) -> Any:
    for names in TOPICS.values():
        for name in names:
            files.append(File.generated(config, f"reference/{name}.md", content=reference_page(name)))
    files.append(File.generated(config, "reference/common-parameters.md", content=common_parameters()))
    for name, source in PROJECT_PAGES.items():
        files.append(File.generated(config, f"project/{name}.md", content=project_page(ROOT / source)))
    for notebook in sorted((DOCS / "notebooks").glob("*.ipynb")):
        text, pictures = notebook_page(notebook)
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=text))
        for name, content in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def reference_page(name: str) -> str:
    """The page of a public name; of a class only the members that users need."""
    members = [member for member in REFERENCE["MEMBERS"] if hasattr(pydoc.locate(f"ellipsum.{name}"), member)]
    return (
        f"::: ellipsum.{name}\n    options: {{ inherited_members: {str(bool(members)).lower()}, members: {members} }}\n"
    )


def common_parameters() -> str:
    """The page of the parameters that statistics share."""
    rows = [f"| `{name}` | {kind} | {text} |" for name, (kind, text) in PARAMETERS.items()]
    table = "\n".join(["| parameter | type | meaning |", "| --- | --- | --- |", *rows])
    return f"# Common parameters\n\nWhat the parameters of `es.sum`, `es.mean` and the other calls mean.\n\n{table}\n"


def project_page(path: Path) -> str:
    """A document of the repository's root, with links as they are on the site."""
    text = path.read_text()
    for name, source in PROJECT_PAGES.items():
        text = text.replace(f"]({source}", f"]({name}.md")
    text = re.sub(r"\]\(docs/", "](../", text)
    # Files that are not on the site are named without a link.
    return re.sub(r"\[([^\]]+)\]\((?!https?:|\.\./|#|[a-z]+\.md)[^)]+\)", r"\1", text)


def notebook_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook, executed, as Markdown, and its pictures by file name."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=300,
            startup_timeout=300,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
        )
        client.execute()
    parts, pictures = [], {}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for output in cell.outputs:
            data = output.get("data", {})
            name = f"{path.stem}-{len(pictures) + 1}"
            if "image/svg+xml" in data:
                pictures[f"{name}.svg"] = data["image/svg+xml"].encode()
                parts.append(f"![Figure]({name}.svg)")
            elif "image/png" in data:
                pictures[f"{name}.png"] = base64.b64decode(data["image/png"])
                parts.append(f"![Figure]({name}.png)")
            elif 'class="dataframe"' in data.get("text/html", ""):
                table = re.sub(r"<style.*?</style>|\n\s*", "", data["text/html"], flags=re.DOTALL)
                parts.append(table.replace(' border="1" class="dataframe"', ""))
            else:
                text = data.get("text/plain") or output.get("text", "")
                parts.append(f"```text\n{text.rstrip()}\n```")
    parts.append(f"The notebook itself: [{path.name}]({path.name}).")
    return "\n\n".join(parts) + "\n", pictures


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    Labels.page_folder = os.path.dirname(page.url) or "."
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]
    for name, make in {
        "commands": commands,
        "names": name_tables,
        "statements": statements,
        "citation": citation,
    }.items():
        if f"<!-- {name} -->" in markdown:
            markdown = markdown.replace(f"<!-- {name} -->", make())
    return markdown


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Fold long signatures, and leave out those that only repeat a name."""

    def fold(signature: re.Match[str]) -> str:
        text = re.sub(r"<[^>]+>", "", signature[0]).strip()
        if text.isidentifier():
            return ""
        if len(text) < LONG_SIGNATURE:
            return signature[0]
        return f"<details><summary>Full signature</summary>{signature[0]}</details>"

    return re.sub(r'<div class="(?:language-python )?doc-signature highlight">.*?</div>', fold, html, flags=re.DOTALL)


def name_tables() -> str:
    """A table for each topic of the reference: name, one line."""
    parts = []
    for topic, names in TOPICS.items():
        lines = ["| name | what it is |", "| --- | --- |"]
        for name in names:
            value: Any = pydoc.locate(f"ellipsum.{name}")
            summary = " ".join((value.__doc__ or "").strip().split("\n\n")[0].split()).replace("|", "\\|")
            lines.append(f"| [`{name.rpartition('.')[2]}`]({name}.md) | {summary} |")
        parts.append(f"## {topic}\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def statements() -> str:
    """Every labeled statement: label, title, where the code and the tests cite it."""
    citations = {"src/ellipsum": _citations(ROOT / "src" / "ellipsum"), "tests": _citations(ROOT / "tests")}
    parts = []
    for page in sorted(PROOFS.glob("*.md")):
        found = STATEMENT.findall(page.read_text())
        if not found:
            continue
        heading = re.match(r"# (.*)", page.read_text())
        lines = ["| statement | code | tests |", "| --- | --- | --- |"]
        for label, title in found:
            cells = [", ".join(f"`{path}`" for path in where.get(label, [])) for where in citations.values()]
            lines.append(f"| [{label}] {title} | {' | '.join(cells)} |")
        parts.append(f"## {heading[1] if heading else page.stem}\n\n[Proofs]({page.name})\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _citations(folder: Path) -> dict[str, list[str]]:
    """Label -> files below a folder that cite it."""
    citing: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        for label in sorted(set(re.findall(r"\[([A-Z]\d+)\]", path.read_text())) & LABEL_PAGES.keys()):
            citing.setdefault(label, []).append(str(path.relative_to(folder)))
    return citing


def citation() -> str:
    return f"```yaml\n{(ROOT / 'CITATION.cff').read_text()}```\n"


def commands() -> str:
    """Every command with its options, as the command line itself describes them."""
    from ellipsum.apps.cli.commands import app

    whole: Any = typer.main.get_command(app)
    return "\n".join(_command(f"ellipsum {name}", command) for name, command in sorted(whole.commands.items()))


def _command(name: str, command: Any) -> str:
    if hasattr(command, "commands"):
        inner = [_command(f"{name} {word}", each) for word, each in command.commands.items()]
        return f"## {name}\n\n{command.help or ''}\n\n" + "\n".join(inner)
    rows, panel = [], None
    for option in command.params:
        if getattr(option, "hidden", False):
            continue
        if (shown := getattr(option, "rich_help_panel", None)) != panel:
            rows.append(f"| **{shown}** | |")
            panel = shown
        rows.append(_option(option))
    table = "\n".join(["| option | meaning |", "| --- | --- |", *rows])
    level = "##" if name.count(" ") == 1 else "###"
    return f"{level} {name}\n\n{command.help or ''}\n\n{table}\n"


def _option(option: Any) -> str:
    is_option = option.param_type_name == "option"
    names = ", ".join(f"`{name}`" for name in (option.opts if is_option else [option.metavar or option.name]))
    return f"| {names} | {' '.join((option.help or '').split()).replace('|', chr(92) + '|')} |"
