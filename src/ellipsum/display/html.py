"""The page: one HTML file without scripts that loads nothing, every word escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ..errors import EllipsumError, UsageError, visible
from ..ledger import AccountState, Ledger
from ..util.atomic_files import write_atomically
from ..version import VERSION
from .checklist import checklist
from .guarantees import curve, in_symbols, odds
from .looks import CSS
from .recipe import shell
from .subject import Subject, Table
from .texts import INSECURE

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_CITE = f"ellipsum {VERSION}: sums and means of vectors under differential privacy. Software."
_WORKS = (
    "Balle and Wang, Improving the Gaussian mechanism for differential privacy, ICML 2018.",
    "Dong, Roth and Su, Gaussian differential privacy, Journal of the Royal Statistical Society B, 2022.",
    "NIST SP 800-226, Guidelines for evaluating differential privacy guarantees, 2025.",
)
_MOST_PAGES = 5  # of pictures
_NO_PICTURES = "Pictures need matplotlib: pip install 'ellipsum[plots]'."


def write_report(
    result: Any,
    path: str | Path,
    *,
    ledger: Any = None,
    dataset: str | None = None,
    command: Sequence[str] | None = None,
) -> None:
    """Write the report of a result to a file, atomically."""
    write_atomically(Path(path), html(result, ledger=ledger, dataset=dataset, command=command))


def html(result: Any, *, ledger: Any = None, dataset: str | None = None, command: Sequence[str] | None = None) -> str:
    """The report of a result as a page.

    ledger, dataset: where it was charged. command: the words of the command line that made it, where one did.
    """
    subject: Subject = result.subject()
    balance = _balance(ledger, dataset)
    sections = [
        _released(subject),
        _guarantee(subject),
        _origin(subject),
        _pictures(subject),
        _ledger(balance),
        _checklist(subject, balance),
        _again(subject, command),
        _cited(),
    ]
    return _page(subject.title, "".join(sections))


# Sections -----------------------------------------------------------------------------------------------


def _released(subject: Subject) -> str:
    insecure = "" if subject.secure else f'<p class="warning"><strong>{_text(INSECURE)}</strong></p>'
    warnings = "".join(f'<p class="warning">Warning: {_text(words)}</p>' for words in subject.warnings)
    tables = "".join(map(_table, subject.tables))
    ends = _paragraphs([f"{words[:1].upper()}{words[1:]}." for words in (subject.intervals, subject.cleaned) if words])
    return _section("What was released", f"{insecure}{_facts(subject.facts)}{warnings}{tables}{ends}")


def _guarantee(subject: Subject) -> str:
    said = _paragraphs(odds(subject.privacy))
    symbols = _paragraphs([f"{subject.guarantee}.", *in_symbols(subject.privacy)])
    inside = f"<h3>In words</h3>{said}<h3>In symbols</h3>{symbols}{_table(curve(subject.privacy, subject.stated))}"
    return _section("What is guaranteed", inside)


def _origin(subject: Subject) -> str:
    tables = "".join(map(_table, subject.origin_tables))
    return _section("Where bounds came from", f"{_paragraphs(subject.origin)}{tables}")


def _pictures(subject: Subject) -> str:
    from .plots.style import available

    if subject.sheet is None and subject.plan is None:
        return ""
    if not available():
        return _section("Pictures", _paragraphs([_NO_PICTURES]))
    return _section("Pictures", "".join(_figures(subject)))


def _figures(subject: Subject) -> Iterable[str]:
    from ..plans.pictures import plan_svg
    from .plots.strips import on_paper, sheet_svgs

    if subject.sheet is not None:
        sheet = on_paper(subject.sheet)
        for drawing in sheet_svgs(sheet, "values", _MOST_PAGES):
            yield _figure(drawing, f"{subject.title}: values and their intervals")
        if len(sheet.pages) > _MOST_PAGES:
            yield _paragraphs([f"The first {_MOST_PAGES} of {len(sheet.pages)} pages; the table has all values."])
    forecast = None if subject.plan is None else plan_svg(subject.plan, "forecast")
    if forecast is not None:
        yield _figure(forecast, "Forecast of the plan, made before any value was read")


def _ledger(balance: str) -> str:
    return _section("The budget of the data set", _paragraphs([balance])) if balance else ""


def _balance(ledger: Any, dataset: str | None) -> str:
    """What is spent and left of a data set's budget; who spent it is not told."""
    if ledger is None:
        return ""
    if dataset is None:
        raise UsageError("dataset is missing. State the name under which the ledger keeps this data's budget.")
    try:
        book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        return _account(book.account(dataset.partition("@")[0]))
    except EllipsumError:
        return "The ledger could not be read when this report was made."


def _account(account: AccountState) -> str:
    from ..ledger.amounts import brief
    from ..ledger.refusal import left_of, spent_of

    budget = ", ".join(f"{name} {brief(value)}" for name, value in account.budget.items())
    words = f"The ledger allows {budget} for all releases of this data set together"
    if account.caps is None:
        return f"{words}; nothing is spent."
    many = f"{account.released} release{'s' * (account.released != 1)} made"
    return f"{words}. Spent: {spent_of(account.caps)}; left: {left_of(account.caps)}; {many}."


def _checklist(subject: Subject, balance: str) -> str:
    lines = "".join(
        f"<tr><th scope='row'>{_text(item.question)}</th><td>{_text(item.answer)}</td><td>{_text(item.open)}</td></tr>"
        for item in checklist(subject, balance)
    )
    head = "<thead><tr><th>question</th><th>this release</th><th>its publisher</th></tr></thead>"
    lead = _paragraphs(["The questions follow NIST SP 800-226, in other words."])
    return _section("Checklist", f"{lead}<table class='wide'>{head}<tbody>{lines}</tbody></table>")


def _again(subject: Subject, command: Sequence[str] | None) -> str:
    line = subject.recipe.command if command is None else shell(command)
    shown = f"<h3>On the command line</h3>{_code(line)}" if line else ""
    lead = _paragraphs(["Fresh noise is drawn each time, and the budget is spent each time."])
    return _section("How to make it again", f"{lead}{shown}<h3>In Python</h3>{_code(subject.recipe.python)}")


def _cited() -> str:
    works = "".join(f"<li>{_text(work)}</li>" for work in _WORKS)
    return _section("How to cite", f"{_paragraphs([_CITE])}<ul>{works}</ul>")


# Pieces -------------------------------------------------------------------------------------------------


def _page(title: str, body: str) -> str:
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="generator" content="ellipsum {VERSION}"><title>{_text(title)}</title><style>{CSS}</style>'
    )
    foot = f"<footer><p>Made with ellipsum {VERSION}. Everything on this page may be published.</p></footer>"
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body><main><h1>{_text(title)}</h1>{body}</main>'
        f"{foot}</body></html>\n"
    )


def _section(title: str, inside: str) -> str:
    return f"<section><h2>{_text(title)}</h2>{inside}</section>\n"


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    pairs = "".join(f"<dt>{_text(title)}</dt><dd>{_text(words)}</dd>" for title, words in facts)
    return f"<dl>{pairs}</dl>"


def _table(table: Table) -> str:
    heads = "".join(f"<th scope='col'>{_text(head)}</th>" for head in table.heads)
    lines = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in line) + "</tr>" for line in table.lines)
    caption = f"<caption>{_text(table.caption)}</caption>"
    cut = _paragraphs([table.cut] if table.cut else [])
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>{cut}"


def _figure(drawing: str, words: str) -> str:
    return f'<figure role="img" aria-label="{_text(words)}">{drawing}<figcaption>{_text(words)}.</figcaption></figure>'


def _paragraphs(texts: Sequence[str]) -> str:
    return "".join(f"<p>{_text(text)}</p>" for text in texts)


def _code(text: str) -> str:
    return "<pre><code>" + "\n".join(map(_text, text.split("\n"))) + "</code></pre>"


def _text(text: str) -> str:
    """Words that a browser shows as they are: markup escaped, control characters spelled out."""
    return escape(visible(text))
