"""`python -m ellipsum`: the command line."""

from .cli import main

main()
