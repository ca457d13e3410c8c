"""Measuring search. For the command line only: it reads and writes files that its user names."""

from __future__ import annotations

from codeinfo.evals.report import evaluate
from codeinfo.evals.requests import EvalRequest
from codeinfo.shells.operations import Operation

OPERATIONS = (
    Operation(
        name="eval",
        request=EvalRequest,
        handler=evaluate,
        summary="Measure search on questions with known answers, or on a repository's own history.",
        help="Exit code 3 when a gate is not reached. docs/evaluation.md says what the figures mean.",
        read_only=False,
        group="local",
        renderer="codeinfo.shells.render_eval:render",
        exit_code=lambda report: 0 if report.passed else 3,
    ),
)
