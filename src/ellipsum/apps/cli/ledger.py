"""`ellipsum ledger init | show | history | verify | export | close`: the budgets of data sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .app import Json, app

ledger_app = typer.Typer(
    name="ledger",
    help="Budgets of data sets that every release is charged to, before any value is read.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(ledger_app)

Address = Annotated[
    str,
    typer.Argument(metavar="LEDGER", envvar="ELLIPSUM_LEDGER", help="A file (SQLite), or postgresql://user@host/name."),
]
Dataset = Annotated[str | None, typer.Option(help="The name of the data set.")]
Anchor = Annotated[str | None, typer.Option(help="An anchor that show printed earlier: is it still held?")]
Form = Annotated[str, typer.Option("--format", help="jsonl, dp_accounting (events) or registry (YAML).")]
Last = Annotated[int, typer.Option(help="So many of the last entries.", min=1)]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")]


@ledger_app.command("init")
def init_command(
    ledger: Address,
    dataset: Dataset = None,
    epsilon: Annotated[str | None, typer.Option(help="The whole budget: epsilon, a decimal. No default.")] = None,
    delta: Annotated[str | None, typer.Option(help="The whole budget: delta. No default.")] = None,
    mu: Annotated[str | None, typer.Option(help="The whole budget on Gaussian curves, in place of epsilon.")] = None,
    cap: Annotated[
        list[str] | None,
        typer.Option(
            help="mu=M, epsilon=E (may repeat) or slack=S: caps within the budget. Default: by the first law."
        ),
    ] = None,
    neighbors: Annotated[
        str | None, typer.Option(help="replace or add-remove, for every release. Default: as the first.")
    ] = None,
    privacy_id: Annotated[
        str | None, typer.Option(help="Column that names people, for every release. Default: as the first.")
    ] = None,
    analyst_cap: Annotated[
        list[str] | None, typer.Option(help="NAME=E, repeated; *=E for everybody else together. Within the whole.")
    ] = None,
    period: Annotated[
        str | None, typer.Option(help="day=E, week=E, month=E or year=E: at most so much each, within the whole.")
    ] = None,
) -> None:
    """Open the budget of a data set; the ledger is made where there is none.

    Examples:

        ellipsum ledger init budget.db --dataset survey --epsilon 1 --delta 1e-6

        ellipsum ledger init budget.db --dataset visits --epsilon 2 --delta 1e-6 --privacy-id patient --period month=0.5
    """
    account = _ledger(ledger).init(
        _needed(dataset),
        epsilon=epsilon,
        delta=delta,
        mu=mu,
        caps=_caps(cap or []),
        neighbors=None if neighbors is None else neighbors.replace("-", "_"),
        privacy_id=privacy_id,
        analyst_caps=_once("--analyst-cap", analyst_cap or []),
        period=dict([_pair("--period", period)] if period else []),
    )
    _print(repr(account))


@ledger_app.command("show")
def show_command(ledger: Address, dataset: Dataset = None, as_json: Json = False) -> None:
    """What is spent and left of each budget, and the anchor of all entries.

    Example:

        ellipsum ledger show budget.db
    """
    from ...ledger.entries import reading_entries

    book = _ledger(ledger)
    accounts = book.accounts() if dataset is None else [book.account(dataset)]
    with reading_entries():
        if as_json:
            text = json.dumps({"accounts": [account.to_dict() for account in accounts], "anchor": book.anchor})
        else:
            text = "\n".join([*map(repr, accounts), f"anchor {book.anchor}"])
    print(text) if as_json else _print(text)


@ledger_app.command("history")
def history_command(ledger: Address, dataset: Dataset = None, last: Last = 50, as_json: Json = False) -> None:
    """The entries, the last at the end.

    Example:

        ellipsum ledger history budget.db --last 10
    """
    from ...ledger.entries import reading_entries

    entries = _ledger(ledger).history(dataset, last)
    with reading_entries():
        lines = list(map(json.dumps if as_json else _line, entries))
    for line in lines:
        print(line) if as_json else _print(line)


@ledger_app.command("verify")
def verify_command(ledger: Address, anchor: Anchor = None) -> None:
    """Check every entry and the chain of digests; names the first bad entry.

    Example:

        ellipsum ledger verify budget.db
    """
    found = _ledger(ledger).verify(anchor)
    _print(f"every entry is as it was written\nanchor {found}")


@ledger_app.command("export")
def export_command(ledger: Address, form: Form = "jsonl", output: Output = None) -> None:
    """The ledger for others: entries, events for dp_accounting, or drafts for the public registry of deployments.

    Example:

        ellipsum ledger export budget.db --format registry
    """
    from ...errors import choice
    from ...ledger.export import KINDS
    from ...util.atomic_files import check_writable, write_atomically

    choice("--format", form, KINDS)
    check_writable(output)
    text = _ledger(ledger).export(form)
    if output is None:
        print(text)
    else:
        write_atomically(output, text + "\n")


@ledger_app.command("close")
def close_command(ledger: Address, dataset: Dataset = None) -> None:
    """No more releases of this data set, whatever is left of its budget.

    Example:

        ellipsum ledger close budget.db --dataset survey
    """
    book, name = _ledger(ledger), _needed(dataset)
    book.close(name)
    _print(repr(book.account(name)))


def _ledger(address: str) -> Any:
    from ...ledger import Ledger
    from .engine import warn_of_password

    warn_of_password(address)
    return Ledger(address)


def _needed(dataset: str | None) -> str:
    from ...errors import UsageError

    if dataset is None:
        raise UsageError("--dataset is missing. State the name of the data set.")
    return dataset


def _pair(option: str, word: str) -> tuple[str, str]:
    from ...errors import UsageError

    name, separator, value = word.rpartition("=")
    if not separator or not name:
        raise UsageError(f"{option} {word!r} is not understood. Write {option} name=0.5.")
    return name, value


def _once(option: str, words: list[str]) -> dict[str, str]:
    from ...errors import UsageError

    found = dict(_pair(option, word) for word in words)
    if len(found) < len(words):
        raise UsageError(f"{option} has the same name twice. State one amount for each.")
    return found


def _caps(words: list[str]) -> dict[str, Any]:
    """Caps by name, of epsilon as many as there are."""
    alone = [word for word in words if not word.startswith("epsilon=")]
    several = [_pair("--cap", word)[1] for word in words if word not in alone]
    return _once("--cap", alone) | ({"epsilon": several} if several else {})


def _line(entry: dict[str, Any]) -> str:
    """One entry for people."""
    said = [f"{entry['number']:>7}  {entry['at'][:19]}  {entry['dataset']}  {entry['what']}"]
    said += [f"entry {entry['of']}"] if "of" in entry else []
    said += [f"{entry['note']} for {_stated(entry['stated'])}"] if "note" in entry else []
    said += [f"{name} {entry[name]}" for name in ("version", "analyst", "by", "key") if name in entry]
    return ", ".join(said)


def _stated(stated: dict[str, float]) -> str:
    order = [name for name in ("epsilon", "delta", "mu", "rho") if name in stated]
    return ", ".join(f"{name} {stated[name]:g}" for name in order) or "a guarantee"


def _print(text: str) -> None:
    from ...errors import visible

    for line in text.splitlines():
        print(visible(line))
