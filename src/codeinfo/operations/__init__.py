"""Every capability, once: its request, its result, what runs it, and how it is described.

Shells build their commands, tools and routes from these rows and hold no logic of their own, so that the same request
gives the same JSON everywhere. To add one, write its result and its decorated request into the file of its area.
"""

from __future__ import annotations

from codeinfo.operations import answers, clients, code, documents, knowledge, search, team
from codeinfo.operations.base import Input, Operation, inputs_of

AREAS = (search, code, knowledge, documents, answers, clients, team)
OPERATIONS: dict[str, Operation] = {row.name: row for area in AREAS for row in area.OPERATIONS}

__all__ = ["OPERATIONS", "Input", "Operation", "inputs_of"]
