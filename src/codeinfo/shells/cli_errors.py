"""Errors on a terminal: what happened and what to do, the exit code with it; a traceback only when asked for."""

from __future__ import annotations

import sys
from typing import TextIO

import click

from codeinfo.config import colour_refused
from codeinfo.errors import CodeInfoError, UsageError, environment_error


def is_unicode(stream: TextIO) -> bool:
    """Whether every character can be written to a stream; one in memory takes them all."""
    return (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "").replace("_", "") == "utf8"


def tell(error: Exception, *, as_json: bool, debug: bool) -> int:
    """Write an error to stderr; the exit code is returned."""
    if debug:
        import traceback

        traceback.print_exception(error)
    known = _known(error)
    if as_json:
        from codeinfo.jsonable import dumps

        told = {"error": {"code": known.code, "message": known.what, "next": known.next_step}}
        print(dumps(told, ascii_only=not is_unicode(sys.stderr)), file=sys.stderr)
    else:
        from codeinfo.shells.paper import clean

        plain = False if colour_refused() else None
        click.secho("error: ", fg="red", bold=True, nl=False, err=True, color=plain)
        click.echo(clean(known.what), err=True)
        if known.next_step:
            click.echo(f"  {clean(known.next_step)}", err=True)
    return known.exit_code


def _known(error: Exception) -> CodeInfoError:
    """The error as one of ours."""
    if known := environment_error(error):
        return known
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:  # how bytes that are no text are kept
        return UsageError("an argument is not UTF-8 text", next_step="Write it in UTF-8.")
    what = f"{type(error).__name__}: {error}"
    return CodeInfoError(what, next_step="This is a fault of CodeInfo; --debug shows where.")
