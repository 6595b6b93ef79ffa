"""`ellipsum studio`: the library in a browser, on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from .app import app

_NEEDS = "ellipsum studio needs a few more packages. Install them with: pip install 'ellipsum[studio]'"


@app.command("studio")
def studio_command(
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="A CSV, Parquet or Feather file to begin with.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen at; 0 takes any. Default: 8642, or the next free one.", min=0)
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address, and open no browser.")] = False,
    host: Annotated[str, typer.Option(help="Address to listen at. Only this machine can reach the default.")] = (
        "127.0.0.1"
    ),
    allow_network: Annotated[
        bool, typer.Option("--allow-network", help="Let --host be an address that other machines can reach.")
    ] = False,
) -> None:
    """Choose bounds and budget, see the forecast, release and look, in a browser on this machine.

    Examples:

        ellipsum studio people.csv

        ellipsum studio --port 9000 --no-open
    """
    from ...errors import UsageError, visible

    try:
        from ..studio.serve import run
    except ImportError:
        raise UsageError(_NEEDS) from None
    if allow_network:
        typer.echo("warning: other machines can reach this studio, and the network is not encrypted.", err=True)
    run(file, host, port, allow_network, not no_open, lambda line: typer.echo(visible(line)))
