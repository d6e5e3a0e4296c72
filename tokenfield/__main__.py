"""`python -m tokenfield`."""

from .cli import main

main()
