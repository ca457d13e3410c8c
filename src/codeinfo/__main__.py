"""`python -m codeinfo`."""

from codeinfo.shells.cli import main

main()
