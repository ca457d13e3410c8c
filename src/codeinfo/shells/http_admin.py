"""The page of a team's administrators: projects, queue, grants, users, tokens, what happened lately."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.routing import Route

from codeinfo.errors import CodeInfoError, UsageError
from codeinfo.operations import team as ops
from codeinfo.shells.http_visit import Visit, page

SHOWN = 50  # events, and runs of workers
Given = Mapping[str, str]

ACTIONS: dict[str, Callable[[Any, Given], Any]] = {  # by their names: the operation of the team, with a form's fields
    "disable": lambda team, given: team.disable_user(ops.TeamUserRequest(given["name"])),
    "enable": lambda team, given: team.enable_user(ops.TeamUserRequest(given["name"])),
    "grant": lambda team, given: team.add_grant(
        ops.TeamGrantAddRequest(given["project"].strip(), given["to"].strip(), given["level"])
    ),
    "ungrant": lambda team, given: team.remove_grant(ops.TeamGrantRemoveRequest(given["project"], given["to"])),
    "token": lambda team, given: team.add_token(
        ops.TeamTokenAddRequest(given["user"].strip(), given.get("name", ""), tuple(given["scopes"].split(",")))
    ),
    "revoke": lambda team, given: team.revoke_token(ops.TeamTokenRevokeRequest(int(given["token"]))),
}


def _content(visit: Visit, template: str, **more: Any) -> str:
    team, everything = visit.state.engine.team, ops.TeamListRequest()
    shown = {
        "overview": team.overview(),
        "jobs": team.jobs(ops.TeamJobsRequest(SHOWN)),
        "users": team.users(everything).users,
        "grants": team.grants(ops.TeamGrantListRequest()).grants,
        "tokens": team.tokens(ops.TeamTokenListRequest()).tokens,
        "events": team.audit(ops.TeamAuditRequest(limit=SHOWN)).events,
    }
    return visit.render(template, **{"problem": "", "made": None, **shown, **more})


def _show(visit: Visit) -> str:
    return _content(visit, "admin_content.html" if visit.is_fragment else "admin.html")


def _change(visit: Visit) -> str:
    """One action; what is wrong with it is said above the lists, which stay."""
    try:
        action = ACTIONS.get(visit.given.get("action", ""))
        if action is None:
            raise UsageError("there is no such action", next_step=f"One of: {', '.join(ACTIONS)}")
        done = action(visit.state.engine.team, visit.given)
    except (KeyError, ValueError):
        return _content(visit, "admin_content.html", problem="A field is missing, or is not a number.")
    except CodeInfoError as error:
        return _content(visit, "admin_content.html", problem=str(error))
    return _content(visit, "admin_content.html", made=done if isinstance(done, ops.NewTeamToken) else None)


def admin_routes() -> list[Route]:
    return [page("GET", "/ui/admin", _show), page("POST", "/ui/admin", _change)]
