"""Imports of a file, as written."""

from __future__ import annotations

from collections.abc import Sequence

from codeinfo.index.scan import Scan
from codeinfo.index.source import Source
from codeinfo.types import Import


def imports_of(found: Scan, source: Source, code: Sequence[str], language: str) -> tuple[Import, ...]:
    return ()
