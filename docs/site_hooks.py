"""What the site adds to the pages: labels such as [P1] lead to their statements, commands show their own help.

mkdocs calls the functions named on_... (https://www.mkdocs.org/user-guide/configuration/#hooks).
"""

import os
import re
from pathlib import Path
from typing import Any

import typer
from markdown import Extension, Markdown
from markdown.extensions.toc import slugify
from markdown.inlinepatterns import InlineProcessor, SimpleTextInlineProcessor

PROOFS = Path(__file__).parent / "proofs"
COMMANDS = "<!-- commands -->"
PLACES = {
    label: page.stem
    for page in sorted(PROOFS.glob("*.md"))
    for label in re.findall(r"^## \[([A-Z]\d+)\]", page.read_text(), re.MULTILINE)
}


class Labels(Extension):
    """Labels come before links: "[P1](b)" and "[K1][K2]" are none of Markdown's, and "p_+" is no emphasis."""

    here = ""

    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.register(_Label(r"\[([A-Z]\d+)\](?!\([^)]*\.md)", md), "label", 175)
        md.inlinePatterns.register(SimpleTextInlineProcessor("(_)"), "underscore", 70)


class _Label(InlineProcessor):
    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str | None, int | None, int | None]:
        label = m[1]
        if label not in PLACES:
            return None, None, None
        page = os.path.relpath(f"proofs/{PLACES[label]}.html", Labels.here)
        link = f'<a href="{page}#{label.lower()}">[{label}]</a>'
        return self.md.htmlStash.store(link), m.start(0), m.end(0)


def on_config(config: Any) -> Any:
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    config.markdown_extensions.append(Labels())
    return config


def slug(text: str, separator: str) -> str:
    """Statements are found under their labels, other headings under their words."""
    label = re.match(r"\[([A-Z]\d+)\]", text)
    return label[1].lower() if label else slugify(text, separator)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    Labels.here = os.path.dirname(page.url) or "."
    return markdown.replace(COMMANDS, commands()) if COMMANDS in markdown else markdown


def commands() -> str:
    """Every command with its options, as the command line itself describes them."""
    from ellipsum.apps.cli.app import app

    whole: Any = typer.main.get_command(app)
    return "\n".join(_command(f"ellipsum {name}", command) for name, command in sorted(whole.commands.items()))


def _command(name: str, command: Any) -> str:
    if hasattr(command, "commands"):
        inner = [_command(f"{name} {word}", each) for word, each in command.commands.items()]
        return f"## {name}\n\n{command.help or ''}\n\n" + "\n".join(inner)
    rows = [_option(option) for option in command.params if not getattr(option, "hidden", False)]
    table = "\n".join(["| word | meaning |", "| --- | --- |", *rows])
    level = "##" if name.count(" ") == 1 else "###"
    return f"{level} {name}\n\n{command.help or ''}\n\n{table}\n"


def _option(option: Any) -> str:
    is_option = option.param_type_name == "option"
    names = ", ".join(f"`{name}`" for name in (option.opts if is_option else [option.metavar or option.name]))
    return f"| {names} | {' '.join((option.help or '').split()).replace('|', chr(92) + '|')} |"
