"""The ranking's numbers for prose, measured with benchmarks/documents.py. What a file is called and where it lies says
less there than in code, and a long document is not a better one."""

from __future__ import annotations

from dataclasses import replace

from codeinfo.rank.weights import DEFAULT

DOCUMENTS = replace(
    DEFAULT,
    b=0.75,
    name_field=1.0,
    file_bm25=1.0,
    length=0.0,
    secondary=1.0,
    vendored=1.0,
    depth=0.0,
)
