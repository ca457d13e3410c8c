"""Who belongs to a team and what they may see, which projects its workers index: for its administrators, on a command
line that has the store."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from codeinfo.operations.base import Arg, EmptyRequest, Limit, Operation, Opt

PUSH_STEPS = ("lacking", "files", "tree")  # of an upload, in their order
HOOK_KINDS = ("github", "gitlab", "gitea", "push")  # who sends push webhooks; "push" is any other program
_PROJECT = "The project, as `github.com/owner/name`."
_TO = "A user, a group as @NAME, or everyone."


class TeamUserAddRequest(Struct, frozen=True):
    name: Annotated[str, Arg("The name to call the user by.")]
    email: Annotated[str, Opt("Where to write to.")] = ""
    admin: Annotated[bool, Opt("May manage users, grants and tokens.")] = False


class TeamUserRequest(Struct, frozen=True):
    name: Annotated[str, Arg("The user.")]


class TeamGroupRequest(Struct, frozen=True):
    group: Annotated[str, Arg("The group.")]
    users: Annotated[tuple[str, ...], Arg("The users.")] = ()


class TeamGrantAddRequest(Struct, frozen=True):
    project: Annotated[str, Arg(_PROJECT)]
    to: Annotated[str, Arg(_TO)]
    level: Annotated[str, Opt("What they may do.", choices=("read", "write"))] = "read"


class TeamGrantRemoveRequest(Struct, frozen=True):
    project: Annotated[str, Arg(_PROJECT)]
    to: Annotated[str, Arg(_TO)]


class TeamGrantListRequest(Struct, frozen=True):
    project: Annotated[str, Arg("Only of this project.")] = ""


class TeamTokenAddRequest(Struct, frozen=True):
    user: Annotated[str, Arg("Whose token it is.")]
    name: Annotated[str, Opt("What it is for.")] = ""
    scopes: Annotated[tuple[str, ...], Opt("read, write or admin; may be given several times, read by default.")] = ()
    days: Annotated[int, Opt("It ends after this many days.", minimum=1, maximum=366)] = 90


class TeamTokenListRequest(Struct, frozen=True):
    user: Annotated[str, Arg("Only of this user.")] = ""


class TeamTokenRevokeRequest(Struct, frozen=True):
    token: Annotated[int, Arg("Its number, as `team token list` shows it.")]


class TeamAuditRequest(Struct, frozen=True):
    user: Annotated[str, Opt("Only what this user did.")] = ""
    project: Annotated[str, Opt("Only about this project.")] = ""
    days: Annotated[int, Opt("Look back this many days.", short="d", minimum=1, maximum=3650)] = 7
    limit: Limit = 100


class TeamProjectAddRequest(Struct, frozen=True):
    url: Annotated[str, Arg("Where workers fetch it from, as in https://host/owner/name or git@host:owner/name.")]
    follow: Annotated[
        tuple[str, ...], Opt("Index what is pushed there too, as in 'refs/heads/release-*'.", metavar="REFS")
    ] = ()
    fork_of: Annotated[str, Opt("The project it was forked from, with which it shares what is alike.")] = ""


class TeamProjectRequest(Struct, frozen=True):
    project: Annotated[str, Arg(_PROJECT)]


class TeamHookRotateRequest(Struct, frozen=True):
    project: Annotated[str, Arg(_PROJECT)]
    hours: Annotated[int, Opt("The secret before is accepted for so long.", minimum=0, maximum=720)] = 24


class TeamProjectIndexRequest(Struct, frozen=True):
    project: Annotated[str, Arg(_PROJECT)]
    ref: Annotated[str, Opt("Only this branch or tag, as in refs/heads/main.")] = ""


class TeamJobsRequest(Struct, frozen=True):
    limit: Limit = 20


class PushRequest(Struct, frozen=True):
    path: Annotated[str, Arg("The folder; the project you are in by default.")] = ""
    to: Annotated[str, Opt("The team's server; store.server by default.", metavar="SERVER")] = ""
    name: Annotated[str, Opt("What to call the tree; the folder's name by default.")] = ""
    project: Annotated[str, Opt("The project; that of the folder's git remote by default.")] = ""


class PushReport(Struct, frozen=True):
    """`uploaded` are files that the server lacked."""

    project: str
    tree: str
    files: int
    uploaded: int
    notes: tuple[str, ...] = ()


class TeamProject(Struct, frozen=True):
    """A project as workers see it; `secret` is what its push webhook is set up with, the one before that is accepted
    until `old_secret_until`, if at all."""

    project: str
    url: str
    default_ref: str
    follow: tuple[str, ...]
    secret: str
    old_secret_until: str = ""


class RemovedTeamProject(Struct, frozen=True):
    """`files` are those that no other project had."""

    project: str
    trees: int
    files: int


class TeamRun(Struct, frozen=True):
    """A branch or tag that is or was indexed; `state` is "active", "done" or "failed"."""

    project: str
    ref: str
    revision: str
    state: str
    files: int  # that differ from what was indexed before
    to_parse: int  # of them, that nobody had parsed yet
    parsed: int
    started_at: str
    finished_at: str
    problem: str


class TeamFailure(Struct, frozen=True):
    """A job that failed; `arguments` is JSON."""

    job: str
    arguments: str
    attempts: int
    at: str
    problem: str


class TeamJobs(Struct, frozen=True):
    waiting: int
    running: int
    workers: int  # that have shown lately that they are alive
    runs: tuple[TeamRun, ...]
    failed: tuple[TeamFailure, ...]  # and given up
    retried: tuple[TeamFailure, ...]  # that wait for another try


class TeamUser(Struct, frozen=True):
    name: str
    email: str
    admin: bool
    disabled: bool
    groups: tuple[str, ...]
    tokens: int  # in force
    created_at: str


class TeamUsers(Struct, frozen=True):
    users: tuple[TeamUser, ...]


class TeamGroup(Struct, frozen=True):
    name: str
    users: tuple[str, ...]


class TeamGroups(Struct, frozen=True):
    groups: tuple[TeamGroup, ...]


class TeamGrant(Struct, frozen=True):
    project: str
    to: str  # a user, @group or everyone
    level: str


class TeamGrants(Struct, frozen=True):
    grants: tuple[TeamGrant, ...]


class TeamToken(Struct, frozen=True):
    """`state` is "valid", "expired" or "revoked"."""

    id: int
    user: str
    name: str
    scopes: tuple[str, ...]
    state: str
    expires_at: str
    used_at: str


class TeamTokens(Struct, frozen=True):
    tokens: tuple[TeamToken, ...]


class NewTeamToken(Struct, frozen=True):
    """The token is shown this once and stored nowhere."""

    user: str
    token: str
    days: int


class TeamEvent(Struct, frozen=True):
    """`detail` is JSON; what was looked for is in it only where `auth.audit_queries` says so."""

    at: str
    user: str
    action: str
    project: str
    detail: str


class TeamEvents(Struct, frozen=True):
    events: tuple[TeamEvent, ...]


def _row(
    name: str,
    request: type,
    result: type,
    method: str,
    summary: str,
    *,
    writes: bool = False,
    help: str = "",
    confirm: str = "",
) -> Operation:
    return Operation(
        f"team {name}",
        request,
        result,
        f"team.{method}",
        summary,
        help,
        read_only=not writes,
        confirm=confirm,
        group="local",
        section="A team's server",
    )


OPERATIONS = (
    Operation(
        "push",
        PushRequest,
        PushReport,
        "team.push",
        "Upload what you have in a folder to the team's server.",
        "It becomes a tree of the project that you alone see. What the server lacks is parsed and embedded here.",
        read_only=False,
        group="local",
        section="A team's server",
    ),
    _row("user list", EmptyRequest, TeamUsers, "users", "List the users."),
    _row(
        "user add", TeamUserAddRequest, TeamUsers, "add_user", "Add a user who has tokens only.", writes=True,
        help="Who signs in with the team's sign-in service is added then.",
    ),
    _row(
        "user disable", TeamUserRequest, TeamUsers, "disable_user", "Lock a user out, at once.", writes=True,
        help="Tokens are refused, sessions and running streams end. What they did stays in the audit log.",
    ),
    _row("user enable", TeamUserRequest, TeamUsers, "enable_user", "Let a user in again.", writes=True),
    _row("group list", EmptyRequest, TeamGroups, "groups", "List the groups and who is in them."),
    _row("group add", TeamGroupRequest, TeamGroups, "add_members", "Make a group, or add users to it.", writes=True),
    _row(
        "group remove", TeamGroupRequest, TeamGroups, "remove_members", "Remove users from a group.", writes=True,
        help="Without users the group itself, and what was granted to it.",
    ),
    _row("grant list", TeamGrantListRequest, TeamGrants, "grants", "List who may see which project."),
    _row("grant add", TeamGrantAddRequest, TeamGrants, "add_grant", "Let a user or group see a project.", writes=True),
    _row(
        "grant remove", TeamGrantRemoveRequest, TeamGrants, "remove_grant", "Take a grant back, at once.", writes=True
    ),
    _row("token list", TeamTokenListRequest, TeamTokens, "tokens", "List tokens: whose, for what, until when."),
    _row(
        "token add", TeamTokenAddRequest, NewTeamToken, "add_token", "Make a personal access token.", writes=True,
        help="It is shown once. Programs send it as `Authorization: Bearer`.",
    ),
    _row("token revoke", TeamTokenRevokeRequest, TeamTokens, "revoke_token", "End a token, at once.", writes=True),
    _row(
        "project add", TeamProjectAddRequest, TeamProject, "add_project",
        "Have workers index a repository.", writes=True,
        help="Its default branch is indexed at once, and whenever a webhook says that it was pushed to. Nobody sees the"
        " project until it is granted to them.",
    ),
    _row(
        "project index", TeamProjectIndexRequest, TeamJobs, "index_project", "Have workers look at a repository now.",
        writes=True,
    ),
    _row("project hook", TeamProjectRequest, TeamProject, "project", "Show the secret of a project's push webhook."),
    _row(
        "project rotate", TeamHookRotateRequest, TeamProject, "rotate_hook",
        "Replace the secret of a project's push webhook.", writes=True,
        help="The one before is accepted for a while, so that no push is missed until the code host has the new one.",
    ),
    _row(
        "project remove", TeamProjectRequest, RemovedTeamProject, "remove_project",
        "Remove a project with all that is indexed of it.", writes=True,
        confirm="Remove {project}, its index, memories, grants and work trees from the team?",
        help="Servers drop their copies at once, workers their mirrors within some minutes.",
    ),
    _row("jobs", TeamJobsRequest, TeamJobs, "jobs", "Show what workers are doing, what waits and what failed."),
    _row("audit", TeamAuditRequest, TeamEvents, "audit", "Show who signed in, looked at what, and was granted what."),
)  # fmt: skip
