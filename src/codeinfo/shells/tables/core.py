"""The operations every index needs: build it, search it, look after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codeinfo import requests
from codeinfo.shells.operations import Operation

if TYPE_CHECKING:
    from codeinfo.engine import Engine


def _skips(matters: bool) -> int:
    """3: done, but something was left out that the user would want to know of."""
    return 3 if matters else 0


def _doctor(engine: Engine, request: requests.DoctorRequest, progress: object) -> requests.DoctorReport:
    from codeinfo.shells.mcp_check import with_server_checked  # a search must not pay for it

    return with_server_checked(lambda: engine.doctor(request))


OPERATIONS = (
    Operation(
        name="search",
        request=requests.SearchRequest,
        handler=lambda engine, request, progress: engine.search(request, progress),
        summary="Find the code and documents that answer a query.",
        help="The first search in a folder indexes it; later ones only look at what changed.",
    ),
    Operation(
        name="similar",
        request=requests.SimilarRequest,
        handler=lambda engine, request, progress: engine.similar(request, progress),
        summary="Find code like the code at a place.",
        help="By its words and its meaning; useful before writing something that may exist already.",
    ),
    Operation(
        name="index",
        request=requests.IndexRequest,
        handler=lambda engine, request, progress: engine.index(request, progress),
        summary="Build or refresh the index of a folder.",
        help="Only what changed is done again. Interrupt it at any time: the next run goes on where it stopped.",
        exit_code=lambda response: _skips(any(s.matters for report in response.reports for s in report.skipped)),
    ),
    Operation(
        name="status",
        request=requests.StatusRequest,
        handler=lambda engine, request, progress: engine.status(request),
        summary="Show what is indexed and whether it is up to date.",
        help="",
    ),
    Operation(
        name="why",
        request=requests.WhyRequest,
        handler=lambda engine, request, progress: engine.why(request),
        summary="Say why a file is, or is not, in the index.",
        help="Names the rule that decided: an ignore file, a size limit, a default for secrets or build folders…",
    ),
    Operation(
        name="clear",
        request=requests.ClearRequest,
        handler=lambda engine, request, progress: engine.clear(request),
        summary="Delete the index of a folder.",
        help="Your files are not touched; the next search builds the index again.",
        read_only=False,
        group="admin",
        confirm="Delete the index of {paths}?",
    ),
    Operation(
        name="doctor",
        request=requests.DoctorRequest,
        handler=_doctor,
        summary="Check that everything CodeInfo needs is there and works.",
        help="",
        group="admin",
        exit_code=lambda report: _skips(any(check.state == "fail" for check in report.checks)),
    ),
)
