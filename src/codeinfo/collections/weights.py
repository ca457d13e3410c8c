"""The ranking's numbers for prose. What a file is called and where it lies says less there than in code."""

from __future__ import annotations

from dataclasses import replace

from codeinfo.rank.weights import DEFAULT

DOCUMENTS = replace(DEFAULT, secondary=1.0, vendored=1.0, depth=0.0)
