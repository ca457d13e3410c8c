"""Who belongs to a team and what they may see, which projects its workers index: for its administrators, on a command
line that has the store."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from codeinfo.operations.base import PROJECT, Arg, EmptyRequest, Limit, Opt, Texts, registry

OPERATIONS, _operation, _change = registry(group="local", section="A team's server")

PUSH_STEPS = ("lacking", "files", "tree", "remove")  # of an upload, in their order, and of its end
HOOK_KINDS = ("github", "gitlab", "gitea", "push")  # who sends push webhooks; "push" is any other program
_PROJECT = "The project, as `github.com/owner/name`."
_TO = "A user, a group as @NAME, or everyone."


class PushReport(Struct, frozen=True):
    """`uploaded` are files that the server lacked."""

    project: str
    tree: str
    files: int = 0
    uploaded: int = 0
    notes: tuple[str, ...] = ()
    removed: bool = False


@_change("push", PushReport, "team.push")
class PushRequest(Struct, frozen=True):
    """Upload what you have in a folder to the team's server.

    It becomes a tree of the project that you alone see. What the server lacks is parsed and embedded here.
    """

    path: Annotated[str, Arg("The folder; the project you are in by default.", names=PROJECT)] = ""
    to: Annotated[str, Opt("The team's server; store.server by default.", metavar="SERVER")] = ""
    name: Annotated[str, Opt("What to call the tree; the folder's name by default.")] = ""
    project: Annotated[str, Opt("The project; that of the folder's git remote by default.")] = ""
    remove: Annotated[bool, Opt("Remove the tree from the server instead.")] = False


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


_operation("team user list", TeamUsers, "team.users", "List the users.")(EmptyRequest)


@_change("team user add", TeamUsers, "team.add_user")
class TeamUserAddRequest(Struct, frozen=True):
    """Add a user who has tokens only.

    Who signs in with the team's sign-in service is added then.
    """

    name: Annotated[str, Arg("The user's name.")]
    email: Annotated[str, Opt("The user's e-mail address.")] = ""
    admin: Annotated[bool, Opt("May manage users, grants and tokens.")] = False


class TeamUserRequest(Struct, frozen=True):
    name: Annotated[str, Arg("The user.")]


_change(
    "team user disable",
    TeamUsers,
    "team.disable_user",
    "Lock a user out immediately.",
    help="Tokens are refused, sessions and running streams end. What they did stays in the audit log.",
)(TeamUserRequest)


class RemovedTeamUser(Struct, frozen=True):
    """What was theirs; `files` were uploaded."""

    user: str
    conversations: int
    memories: int
    trees: int
    files: int


_change(
    "team user remove",
    RemovedTeamUser,
    "team.remove_user",
    "Remove a user with all that is theirs.",
    help="To lock somebody out who might come back, disable them. What they did stays in the audit log.",
    confirm="Remove {name} with their tokens, conversations, memories, pushed work trees and uploads?",
)(TeamUserRequest)


_change("team user enable", TeamUsers, "team.enable_user", "Let a user in again.")(TeamUserRequest)


class TeamGroup(Struct, frozen=True):
    name: str
    users: tuple[str, ...]


class TeamGroups(Struct, frozen=True):
    groups: tuple[TeamGroup, ...]


class TeamGroupRequest(Struct, frozen=True):
    group: Annotated[str, Arg("The group.")]
    users: Annotated[Texts, Arg("The users.")] = ()


_operation("team group list", TeamGroups, "team.groups", "List the groups and who is in them.")(EmptyRequest)


_change("team group add", TeamGroups, "team.add_members", "Create a group, or add users to it.")(TeamGroupRequest)


_change(
    "team group remove",
    TeamGroups,
    "team.remove_members",
    "Remove users from a group.",
    help="Without users, remove the group itself and its grants.",
)(TeamGroupRequest)


class TeamGrant(Struct, frozen=True):
    project: str
    to: str  # a user, @group or everyone
    level: str


class TeamGrants(Struct, frozen=True):
    grants: tuple[TeamGrant, ...]


@_operation("team grant list", TeamGrants, "team.grants")
class TeamGrantListRequest(Struct, frozen=True):
    """List who may see which project."""

    project: Annotated[str, Arg("Only of this project.")] = ""


@_change("team grant add", TeamGrants, "team.add_grant")
class TeamGrantAddRequest(Struct, frozen=True):
    """Let a user or group see a project."""

    project: Annotated[str, Arg(_PROJECT)]
    to: Annotated[str, Arg(_TO)]
    level: Annotated[str, Opt("What they may do.", choices=("read", "write"))] = "read"


@_change("team grant remove", TeamGrants, "team.remove_grant")
class TeamGrantRemoveRequest(Struct, frozen=True):
    """Take a grant back, at once."""

    project: Annotated[str, Arg(_PROJECT)]
    to: Annotated[str, Arg(_TO)]


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


@_operation("team token list", TeamTokens, "team.tokens")
class TeamTokenListRequest(Struct, frozen=True):
    """List tokens: whose, for what, until when."""

    user: Annotated[str, Arg("Only of this user.")] = ""


class NewTeamToken(Struct, frozen=True):
    """The token is shown this once and stored nowhere."""

    user: str
    token: str
    days: int


@_change("team token add", NewTeamToken, "team.add_token")
class TeamTokenAddRequest(Struct, frozen=True):
    """Make a personal access token.

    It is shown once. Programs send it as `Authorization: Bearer`.
    """

    user: Annotated[str, Arg("Whose token it is.")]
    name: Annotated[str, Opt("What it is for.")] = ""
    scopes: Annotated[Texts, Opt("read, write or admin; may be given several times, read by default.")] = ()
    days: Annotated[int, Opt("It expires after this many days.", minimum=1, maximum=366)] = 90


@_change("team token revoke", TeamTokens, "team.revoke_token")
class TeamTokenRevokeRequest(Struct, frozen=True):
    """End a token, at once."""

    token: Annotated[int, Arg("Its number, as `team token list` shows it.")]


@_change("team project add", TeamProject, "team.add_project")
class TeamProjectAddRequest(Struct, frozen=True):
    """Have workers index a repository.

    Its default branch is indexed at once, and whenever a webhook says that it was pushed to. Nobody sees the project
    until it is granted to them.
    """

    url: Annotated[str, Arg("Where workers fetch it from, as in https://host/owner/name or git@host:owner/name.")]
    follow: Annotated[Texts, Opt("Index what is pushed there too, as in 'refs/heads/release-*'.", metavar="REFS")] = ()
    fork_of: Annotated[str, Opt("The project it was forked from, with which it shares identical files.")] = ""


@_change("team project index", TeamJobs, "team.index_project")
class TeamProjectIndexRequest(Struct, frozen=True):
    """Have workers look at a repository now."""

    project: Annotated[str, Arg(_PROJECT)]
    ref: Annotated[str, Opt("Only this branch or tag, as in refs/heads/main.")] = ""


class TeamProjectRequest(Struct, frozen=True):
    project: Annotated[str, Arg(_PROJECT)]


_operation("team project hook", TeamProject, "team.project", "Show the secret of a project's push webhook.")(
    TeamProjectRequest
)


@_change("team project rotate", TeamProject, "team.rotate_hook")
class TeamHookRotateRequest(Struct, frozen=True):
    """Replace the secret of a project's push webhook.

    The one before is accepted for a while, so that no push is missed until the code host has the new one.
    """

    project: Annotated[str, Arg(_PROJECT)]
    hours: Annotated[int, Opt("The old secret is accepted for this many hours.", minimum=0, maximum=720)] = 24


_change(
    "team project remove",
    RemovedTeamProject,
    "team.remove_project",
    "Remove a project with everything that is indexed of it.",
    help="Servers drop their copies at once, workers their mirrors within minutes.",
    confirm="Remove {project}, its index, memories, grants and work trees from the team?",
)(TeamProjectRequest)


@_operation("team jobs", TeamJobs, "team.jobs")
class TeamJobsRequest(Struct, frozen=True):
    """Show what workers are doing, what waits and what failed."""

    limit: Limit = 20


class TeamEvent(Struct, frozen=True):
    """`detail` is JSON; what was looked for is in it only where `auth.audit_queries` says so."""

    at: str
    user: str
    action: str
    project: str
    detail: str


class TeamEvents(Struct, frozen=True):
    events: tuple[TeamEvent, ...]


@_operation("team audit", TeamEvents, "team.audit")
class TeamAuditRequest(Struct, frozen=True):
    """Show who signed in, looked at what, and was granted what."""

    user: Annotated[str, Opt("Only what this user did.")] = ""
    project: Annotated[str, Opt("Only about this project.")] = ""
    days: Annotated[int, Opt("Look back this many days.", short="d", minimum=1, maximum=3650)] = 7
    limit: Limit = 100
