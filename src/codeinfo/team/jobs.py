"""The job queue (procrastinate over the team's database), its worker, and how a worker indexes a branch or tag: plan
what its commit changes, parse batches of new files, and change the tree in one transaction.

A job is deferred in the transaction that makes it necessary. Workers send heartbeats; the jobs of one that stopped are
queued again by any other. A failed job is retried with growing delays, then given up and reported. Every step may be
repeated by another worker: files are content-addressed, a finished batch is not repeated, and only the transaction that
ends a run is visible to others.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import procrastinate
import psycopg
from msgspec import Struct
from procrastinate import exceptions, jobs

from codeinfo.cache import batches, start_timer
from codeinfo.errors import Busy, CodeInfoError, StoreUnavailable
from codeinfo.index.line import Changes, compare, update
from codeinfo.index.pool import ParsePool
from codeinfo.model import Chunk, FileKind, IndexedFile, ParsedFile, Skip, SourceFile, Walk, iso_time
from codeinfo.operations.base import Progress, ProgressSink
from codeinfo.operations.team import TeamFailure, TeamJobs, TeamRun
from codeinfo.ports import Embedder, IndexTarget, Placed, Retention, StoredFile, group_stored
from codeinfo.sources.read import CONTENT_RULES, Files
from codeinfo.sources.walk import LACKING
from codeinfo.store.layout import COMMITS_FILE
from codeinfo.store.sqlite import UPLOADED
from codeinfo.team import store as team_store
from codeinfo.team.database import CONNECTING, SESSION, Connection, TeamDatabase
from codeinfo.team.mirror import Mirror, Mirrors

if TYPE_CHECKING:
    from codeinfo.ports import Vectors

QUEUE = "index"  # for jobs that any worker does; other queues have the recipe in their name
ATTEMPTS = 8  # with waits of 2, 4, 8 … seconds in between, about 4 minutes
MOST_LOSSES = 50  # of workers during one job, after which it is given up
DRAIN_S = 60.0  # for the current job, when a worker ends
HISTORY_DAYS = 7  # of runs and failed jobs
DELIVERY_DAYS = 90
LOST_AFTER = 6  # missing heartbeats
_TIDY_S = 600.0
_RECONNECT_S = (0.5, 10.0)  # from, to

log = logging.getLogger(__name__)


_DEFERRING = procrastinate.App(connector=procrastinate.SyncPsycopgConnector())  # the connection is always a caller's


def defer(db: Connection, job: str, arguments: Mapping[str, Any], *, key: str = "", queue: str = QUEUE) -> None:
    """Queue a job in the caller's transaction. Of jobs with the same `key`, one waits and one runs at a time."""
    configured = _DEFERRING.configure_task(
        job, queue=queue, lock=key or None, queueing_lock=key or None, connection=db, allow_unknown=True
    )
    try:
        with db.transaction():
            configured.defer(**arguments)
    except exceptions.AlreadyEnqueued:
        pass


def defer_index(db: Connection, project: int, ref: str) -> None:
    """Queue a check of a branch or tag: it is fetched, and indexed if it changed."""
    defer(db, INDEX, {"project": project, "ref": ref}, key=f"{project} {ref}")


class _Retry(procrastinate.BaseRetryStrategy):
    def get_retry_decision(self, *, exception: BaseException, job: jobs.Job) -> procrastinate.RetryDecision | None:
        if isinstance(exception, exceptions.JobAborted | asyncio.CancelledError):  # by a worker that is ending
            return procrastinate.RetryDecision()
        if job.attempts + 1 >= ATTEMPTS:
            return None
        return procrastinate.RetryDecision(retry_in={"seconds": 2 ** (job.attempts + 1)})


def run_worker(tools: Tools, heartbeat_s: float, *, until_idle: bool) -> None:
    """Do jobs until a signal, which the current one has DRAIN_S to obey; with `until_idle` only what is queued."""
    asyncio.run(_Worker(tools, heartbeat_s).run(until_idle=until_idle))


class _Worker:
    def __init__(self, tools: Tools, heartbeat_s: float) -> None:
        self._tools = tools
        self._heartbeat_s = heartbeat_s
        self._lost_after_s = LOST_AFTER * heartbeat_s
        # Batches need workers that parse and embed in the same way: after an upgrade there may be others.
        self._queue = f"{QUEUE}-{hashlib.sha256(tools.recipe.encode()).hexdigest()[:12]}"
        self._indexing = Indexing(tools, partial(defer, queue=self._queue))
        self._stopping = False

    async def run(self, *, until_idle: bool) -> None:
        await asyncio.to_thread(self._tools.database.open)
        loop, wait = asyncio.get_running_loop(), _RECONNECT_S[0]
        while not self._stopping:
            working = asyncio.ensure_future(self._work(until_idle=until_idle))
            if threading.current_thread() is threading.main_thread():
                for number in (signal.SIGTERM, signal.SIGINT):
                    loop.add_signal_handler(number, self._stop, working)
            try:
                await working
                wait = _RECONNECT_S[0]
                if until_idle:
                    return
            except asyncio.CancelledError:
                return
            except (exceptions.ConnectorException, psycopg.Error, StoreUnavailable, TimeoutError) as error:
                log.warning("the team store cannot be reached, trying again in %g s: %s", wait, error)
            if not self._stopping:
                await asyncio.sleep(wait)
                wait = min(2 * wait, _RECONNECT_S[1])

    def _stop(self, working: asyncio.Future[None]) -> None:
        self._stopping = True
        working.cancel()
        start_timer(DRAIN_S + 20, os._exit, 0)  # its job is then taken over

    async def _work(self, *, until_idle: bool) -> None:
        url = self._tools.database.url
        connector = procrastinate.PsycopgConnector(
            conninfo=url, kwargs=CONNECTING, min_size=1, max_size=4, timeout=10, configure=_configure
        )
        app = self._app(connector)
        async with app.open_async():
            rescue = asyncio.create_task(self._look_after_jobs())
            try:
                await app.run_worker_async(
                    queues=[QUEUE, self._queue],
                    concurrency=1,
                    wait=not until_idle,
                    fetch_job_polling_interval=min(5.0, self._lost_after_s),
                    shutdown_graceful_timeout=DRAIN_S,
                    delete_jobs="successful",
                    install_signal_handlers=False,
                    update_heartbeat_interval=self._heartbeat_s,
                    stalled_worker_timeout=self._lost_after_s,
                )
            finally:
                rescue.cancel()

    def _app(self, connector: procrastinate.PsycopgConnector) -> procrastinate.App:
        app = procrastinate.App(connector=connector)

        def add(name: str, perform: Callable[..., str]) -> None:
            @app.task(name=name, retry=_Retry(), pass_context=True)
            def job(context: procrastinate.JobContext, /, **arguments: Any) -> None:
                try:
                    if context.job.queueing_lock:
                        with self._tools.database.transaction() as db:
                            db.execute(_RELEASE, (context.job.id,))
                    stopping = {"progress": partial(_stop_if_asked, context)} if name == BATCH else {}
                    log.info("%s", perform(**arguments, **stopping))
                except exceptions.JobAborted:  # by a worker that is ending: the job is queued again
                    raise
                except Exception as error:
                    text = str(error) if isinstance(error, CodeInfoError) else f"{type(error).__name__}: {error}"
                    log.warning("%s %s: %s", name, arguments, text)
                    note_problem(self._tools.database, context.job.id, text)
                    if context.job.attempts + 1 >= ATTEMPTS:
                        with self._tools.database.transaction() as db:
                            db.execute(_GIVE_UP, (text[:1000], context.job.id))
                    raise

        add(INDEX, self._indexing.plan)
        add(BATCH, self._indexing.index_batch)
        add(FINISH, self._indexing.finish)
        return app

    async def _look_after_jobs(self) -> None:
        """Requeue the jobs of lost workers, and remove old history now and then."""
        tidied = -_TIDY_S
        while True:
            try:
                await asyncio.to_thread(rescue_jobs, self._tools.database, self._lost_after_s)
                now = asyncio.get_running_loop().time()
                if now - tidied > _TIDY_S:
                    tidied = now
                    await asyncio.to_thread(forget_history, self._tools.database, self._tools.audit_days)
                    await asyncio.to_thread(self._drop_mirrors)
            except CodeInfoError as error:
                log.warning("%s", error)
            except Exception:  # the jobs of lost workers depend on this loop
                log.exception("jobs of lost workers could not be recovered")
            await asyncio.sleep(self._lost_after_s / 3)

    def _drop_mirrors(self) -> None:
        query = "SELECT identity FROM projects WHERE clone_url <> ''"
        self._tools.mirrors.keep_only(identity for (identity,) in self._tools.database.rows(query))


def _stop_if_asked(context: procrastinate.JobContext, progress: Progress) -> None:
    if context.should_abort():
        raise exceptions.JobAborted


async def _configure(db: psycopg.AsyncConnection[Any]) -> None:
    await db.execute(SESSION)
    await db.commit()


_NOTE = """INSERT INTO job_problems(job, problem) VALUES (%s, %s)
           ON CONFLICT (job) DO UPDATE SET problem = excluded.problem, at = now()"""


def note_problem(database: TeamDatabase, job: int | None, problem: str) -> None:
    """Shown by `team jobs`. If the database is the problem, the log has it."""
    with suppress(StoreUnavailable), database.transaction() as db:
        db.execute(_NOTE, (job, problem[:1000]))


def rescue_jobs(database: TeamDatabase, lost_after_s: float) -> int:
    """Requeue the jobs of lost workers; a job that has lost too many workers is given up."""
    lost = """SELECT j.id, j.attempts FROM procrastinate_jobs j
              LEFT JOIN procrastinate_workers w ON w.id = j.worker_id
              WHERE j.status = 'doing' AND (w.id IS NULL OR w.last_heartbeat < now() - %s * interval '1 second')
              FOR UPDATE OF j SKIP LOCKED"""
    # A worker sets the time of a retry by its own clock, which may be ahead of the database's.
    too_late = """UPDATE procrastinate_jobs SET scheduled_at = now()
                  WHERE status = 'todo' AND scheduled_at > now() + %s * interval '1 second'"""
    with database.transaction() as db:
        db.execute(too_late, (2**ATTEMPTS,))
        lost_jobs = db.execute(lost, (lost_after_s,)).fetchall()
        for job, attempts in lost_jobs:
            if attempts >= MOST_LOSSES:
                db.execute("SELECT procrastinate_finish_job_v1(%s, 'failed', false)", (job,))
                problem = f"{attempts} workers died while running it"
                db.execute(_NOTE, (job, problem))
                db.execute(_GIVE_UP, (problem, job))
            else:
                db.execute(_RELEASE, (job,))
                db.execute("SELECT procrastinate_retry_job_v2(%s, now(), NULL, NULL, NULL)", (job,))
        if lost_jobs:  # procrastinate does not announce a requeued job
            db.execute("""SELECT pg_notify('procrastinate_any_queue_v1', '{"type": "job_inserted", "job_id": 0}')""")
    return len(lost_jobs)


# For a job that has begun: the next one with its key may already be waiting, and a retry must not collide with it.
_RELEASE = "UPDATE procrastinate_jobs SET queueing_lock = NULL WHERE id = %s"

# The run that a job is of; the next push starts another one.
_GIVE_UP = """UPDATE index_runs r SET state = 'failed', problem = %s, finished_at = now() FROM procrastinate_jobs j
              WHERE j.id = %s AND r.state = 'active' AND (r.id = (j.args->>'run')::bigint
              OR r.id = (SELECT run FROM index_batches b WHERE b.id = (j.args->>'batch')::bigint))"""


def forget_history(database: TeamDatabase, audit_days: int) -> None:
    """`audit_days` of 0 keep the whole audit log."""
    with database.transaction() as db:
        old = (HISTORY_DAYS,)
        db.execute(
            """UPDATE index_runs SET state = 'failed', problem = 'no worker of its release is left', finished_at = now()
               WHERE state = 'active' AND started_at < now() - %s * interval '1 day'""",
            old,
        )
        if audit_days:
            db.execute("DELETE FROM audit WHERE at < now() - %s * interval '1 day'", (audit_days,))
        db.execute("DELETE FROM deliveries WHERE at < now() - %s * interval '1 day'", (DELIVERY_DAYS,))
        # What a batch stored while its project was being removed.
        db.execute("""DELETE FROM files WHERE family IN (SELECT DISTINCT family FROM dropped_trees d WHERE NOT EXISTS (
                        SELECT 1 FROM projects p WHERE p.family = d.family))""")
        db.execute("DELETE FROM dropped_trees WHERE at < now() - %s * interval '1 day'", (DELIVERY_DAYS,))
        db.execute("DELETE FROM index_runs WHERE finished_at < now() - %s * interval '1 day'", old)
        db.execute(
            """DELETE FROM procrastinate_jobs j WHERE status IN ('failed', 'cancelled', 'aborted') AND NOT EXISTS (
               SELECT 1 FROM procrastinate_events e WHERE e.job_id = j.id AND e.at > now() - %s * interval '1 day')""",
            old,
        )


def _moment(expression: str) -> str:
    return f"""coalesce(to_char({expression} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '')"""


def queue_state(database: TeamDatabase, limit: int) -> TeamJobs:
    runs = f"""SELECT p.identity, t.name, r.revision, r.state, r.files, coalesce(b.files, 0), coalesce(b.parsed, 0),
                     {_moment("r.started_at")}, {_moment("r.finished_at")}, r.problem
              FROM index_runs r JOIN trees t ON t.id = r.tree JOIN projects p ON p.id = t.project
              LEFT JOIN (SELECT run, sum(files) FILTER (WHERE NOT divided) AS files,
                         sum(files) FILTER (WHERE done AND NOT divided) AS parsed
                         FROM index_batches GROUP BY run) b ON b.run = r.id
              ORDER BY r.state <> 'active', r.started_at DESC LIMIT %s"""
    failed = f"""SELECT j.task_name, (j.args || jsonb_strip_nulls(jsonb_build_object('project', m.identity)))::text,
                 j.attempts, {_moment("p.at")}, p.problem FROM procrastinate_jobs j
                 JOIN job_problems p ON p.job = j.id LEFT JOIN projects m ON m.id = (j.args->>'project')::bigint
                 WHERE j.status = %s ORDER BY p.at DESC LIMIT %s"""
    counts = """SELECT count(*) FILTER (WHERE status = 'todo'), count(*) FILTER (WHERE status = 'doing'),
                (SELECT count(*) FROM procrastinate_workers WHERE last_heartbeat > now() - interval '60 seconds')
                FROM procrastinate_jobs"""

    def ask(db: Connection) -> TeamJobs:
        waiting, running, workers = db.execute(counts).fetchall()[0]
        return TeamJobs(
            waiting,
            running,
            workers,
            tuple(TeamRun(*row) for row in db.execute(runs.encode(), (limit,))),
            *(tuple(TeamFailure(*row) for row in db.execute(failed.encode(), (s, limit))) for s in ("failed", "todo")),
        )

    return database.read(ask)


# --- indexing a branch or tag --------------------------------------------------------------------------------------

INDEX, BATCH, FINISH = "index_ref", "index_batch", "finish_tree"  # the jobs
BATCH_FILES = 200  # which takes a worker some seconds to parse and embed
BATCH_BYTES = 4_000_000
DEATHS = 2  # of workers during one batch, after which it is divided
DIED = "worker-died"  # the rule for a file that killed workers
_OPEN_REVISIONS = 4  # whose files stay listed in a worker
_FILE = """SELECT f.id FROM files f WHERE f.family = %(family)s AND f.recipe = %(recipe)s AND f.path = n.path
           AND f.sha256 = n.sha256
           AND (f.brought_back = n.brings_back OR NOT (f.brought_back OR f.skip = ANY(%(rules)s))) LIMIT 1"""


class Tools(Struct, frozen=True):
    database: TeamDatabase
    mirrors: Mirrors
    recipe: str
    walk: Callable[[Path, str], tuple[Files, Walk]]  # the files of a commit in a mirror
    parsers: Callable[[], ParsePool]
    embedder: Embedder | None
    commits: Callable[[Path, str, bytes], bytes]  # a commit's messages, extending an earlier history
    meta: Mapping[str, str]  # what a tree records about the model
    keep: Retention
    audit_days: int


class _Run(Struct, frozen=True):
    id: int
    tree: int
    ref: str
    revision: str
    project: int
    identity: str
    family: str
    clone_url: str
    lacking: int
    again: bool


_RUN = """SELECT r.id, t.id, t.name, r.revision, p.id, p.identity, p.family, p.clone_url, r.lacking, r.again
          FROM index_runs r JOIN trees t ON t.id = r.tree JOIN projects p ON p.id = t.project
          WHERE r.id = %s AND r.state = 'active'"""


class Indexing:
    def __init__(self, tools: Tools, defer_own: Callable[[Connection, str, Mapping[str, Any]], None]) -> None:
        """`defer_own` queues a job for workers that parse and embed like this one."""
        self._tools = tools
        self._defer_own = defer_own
        self._database = tools.database
        self._list_files = lru_cache(_OPEN_REVISIONS)(tools.walk)  # the batches of a run share them

    def plan(self, project: int, ref: str) -> str:
        """Fetch, list what a ref's commit changes in its tree, and say so. A ref of "" is all that is followed."""
        rows = self._database.rows("SELECT identity, clone_url FROM projects WHERE id = %s", (project,))
        if not rows:
            return "the project was removed"
        ((identity, clone_url),) = rows
        mirror = self._tools.mirrors.of(clone_url)
        with mirror.in_use():
            mirror.fetch()
            self._tools.mirrors.make_room()
            if not ref:
                return self._plan_all(project, mirror)
            return self._plan_ref(project, identity, mirror, ref)

    def _plan_ref(self, project: int, identity: str, mirror: Mirror, ref: str) -> str:
        commit = mirror.refs().get(ref)
        if commit is None:
            with self._database.transaction() as db:  # the branch or tag was deleted
                for (tree,) in db.execute("SELECT id FROM trees WHERE project = %s AND name = %s", (project, ref)):
                    team_store.drop_tree(db, tree)
            return f"{identity} has no {ref}"
        with self._database.transaction() as db:
            tree = team_store.create_tree(db, identity, ref, self._tools.recipe, with_project=False)
            if reason := self._reason_to_skip(db, tree, commit):
                return reason
            query = "SELECT path, size, mtime_ns FROM entries WHERE tree = %s AND file IS NOT NULL"
            sources = frozenset(SourceFile(*source) for source in db.execute(query, (tree.id,)))
        files, walked = self._list_files(mirror.folder, commit)
        changes = compare(sources, walked.files)
        found_files, lacking = _read(files, (*changes.suspects, *changes.added))
        lacking += sum(skip.rule == LACKING for skip in walked.skipped)
        with self._database.transaction() as db:
            now = team_store.create_tree(db, identity, ref, self._tools.recipe, with_project=False)
            if now.generation != tree.generation or self._reason_to_skip(db, now, commit):
                raise Busy(f"{ref} of {identity} was just changed by another worker", "It will be retried")
            new = self._begin(db, now, commit, found_files, changes.removed, lacking)
        return f"{identity} {ref} at {commit[:12]}: {len(found_files)} files changed, {new} to parse"

    def _plan_all(self, project: int, mirror: Mirror) -> str:
        """Check the default branch, what the project follows, and what is already indexed."""
        refs, default = mirror.refs(), mirror.default_ref()
        trees = "SELECT name, revision FROM trees WHERE project = %s AND recipe = %s AND complete"
        with self._database.transaction() as db:
            query = "UPDATE projects SET default_ref = %s WHERE id = %s RETURNING identity, follow"
            ((identity, follow),) = db.execute(query, (default, project)).fetchall()
            indexed = dict(db.execute(trees, (project, self._tools.recipe)).fetchall())
            indexed = {ref: revision for ref, revision in indexed.items() if ref.startswith("refs/")}
            followed = [ref for ref in refs if ref == default or is_followed(ref, follow)]
            changed = [ref for ref in dict.fromkeys((*followed, *indexed)) if refs.get(ref) != indexed.get(ref)]
            for ref in changed:
                defer_index(db, project, ref)
        return f"{identity}: branches and tags that changed: {len(changed)}"

    def _reason_to_skip(self, db: Connection, tree: team_store.TreeRow, commit: str) -> str:
        """Why there is nothing to plan; "" if there is something."""
        if tree.complete and tree.revision == commit:
            return f"{tree.identity} {tree.name} is up to date"
        query = """UPDATE index_runs SET again = again OR revision <> %s WHERE tree = %s AND state = 'active'
                   RETURNING id"""
        if db.execute(query, (commit, tree.id)).fetchall():
            return f"{tree.identity} {tree.name} is being indexed"
        return ""

    def _begin(
        self,
        db: Connection,
        tree: team_store.TreeRow,
        commit: str,
        files: Sequence[tuple[SourceFile, str, bool]],
        removed: Sequence[str],
        lacking: int,
    ) -> int:
        insert = "INSERT INTO index_runs(tree, revision, files, lacking) VALUES (%s, %s, %s, %s) RETURNING id"
        run = db.execute(insert, (tree.id, commit, len(files) + len(removed), lacking)).fetchall()[0][0]
        with db.cursor().copy("COPY index_files(run, path, size, mtime_ns, sha256, brings_back) FROM STDIN") as rows:
            for source, sha256, brings_back in files:
                rows.write_row((run, *source, sha256, brings_back))
            for path in removed:
                rows.write_row((run, path, 0, 0, None, False))
        query = f"""SELECT path, size FROM index_files n WHERE run = %(run)s AND sha256 IS NOT NULL
                    AND NOT EXISTS ({_FILE}) ORDER BY path"""
        values = {"run": run, "family": tree.family, "recipe": tree.recipe, "rules": list(CONTENT_RULES)}
        new = db.execute(query, values).fetchall()
        self._add_batches(db, run, new)
        if not new:
            self._defer_own(db, FINISH, {"run": run})
        return len(new)

    def _add_batches(self, db: Connection, run: int, files: Sequence[tuple[str, int]]) -> None:
        """Files, as path and size, to be processed in batches."""
        for batch in batches(files, itemgetter(1), BATCH_BYTES, BATCH_FILES):
            self._add_batch(db, run, [path for path, _ in batch])

    def _add_batch(self, db: Connection, run: int, paths: Sequence[str]) -> None:
        insert = "INSERT INTO index_batches(run, files) VALUES (%s, %s) RETURNING id"
        batch = db.execute(insert, (run, len(paths))).fetchall()[0][0]
        db.execute("UPDATE index_files SET batch = %s WHERE run = %s AND path = ANY(%s)", (batch, run, list(paths)))
        self._defer_own(db, BATCH, {"batch": batch})

    def index_batch(self, batch: int, progress: ProgressSink = None) -> str:
        """Parse, embed and store the files of a batch. The last batch of a run queues its finish."""
        with self._database.transaction() as db:
            begin = "UPDATE index_batches SET starts = starts + 1 WHERE id = %s AND NOT done RETURNING run, starts"
            started = db.execute(begin, (batch,)).fetchall()
            row = db.execute(_RUN, (started[0][0],)).fetchall() if started else []
            if not row:
                return "done already"
            run = _Run(*row[0])
            query = "SELECT path, size, mtime_ns, sha256 FROM index_files WHERE batch = %s ORDER BY path"
            files = [(SourceFile(*source), sha256) for *source, sha256 in db.execute(query, (batch,))]
            if started[0][1] > DEATHS:
                return self._divide(db, run, batch, files)
        try:
            self._index(run, files, progress)
        except BaseException:  # this worker survived: no file has killed it
            with self._database.transaction() as db:
                db.execute("UPDATE index_batches SET starts = starts - 1 WHERE id = %s", (batch,))
            raise
        with self._database.transaction() as db:
            self._close(db, run.id, batch)
        return f"{run.identity} {run.ref}: {len(files)} files parsed"

    def _index(self, run: _Run, files: Sequence[tuple[SourceFile, str]], progress: ProgressSink) -> None:
        mirror = self._tools.mirrors.of(run.clone_url)
        target = _Target(self._tools, run.family)
        changes = Changes(tuple(source for source, _ in files), (), (), 0)
        with mirror.in_use(), self._tools.parsers() as pool:
            mirror.ensure(run.revision)
            contents, _ = self._list_files(mirror.folder, run.revision)
            update(contents, target, changes, pool, self._tools.embedder, progress=progress)
        stored = target.find_stored([source.path for source, _ in files])
        if lost := [source.path for source, sha256 in files if (source.path, sha256) not in stored]:
            step = "It will be retried; if that does not help, remove the worker's mirror"
            raise CodeInfoError(f"{len(lost)} files of {run.identity} could not be read, {lost[0]} among them", step)

    def _close(self, db: Connection, run: int, batch: int) -> None:
        db.execute("SELECT 1 FROM index_runs WHERE id = %s FOR UPDATE", (run,))  # only one batch is last
        if db.execute("UPDATE index_batches SET done = true WHERE id = %s AND NOT done", (batch,)).rowcount:
            left = "SELECT 1 FROM index_batches WHERE run = %s AND NOT done LIMIT 1"
            if not db.execute(left, (run,)).fetchall():
                self._defer_own(db, FINISH, {"run": run})

    def _divide(self, db: Connection, run: _Run, batch: int, files: Sequence[tuple[SourceFile, str]]) -> str:
        """Workers died during this batch: halve it until the file that kills them is alone, and leave that out."""
        if len(files) == 1:
            source, sha256 = files[0]
            notes = (f"{DEATHS} workers died while indexing it",)
            nothing = ParsedFile(chunks=())
            skipped = IndexedFile(source, sha256, "", FileKind.CODE, nothing, notes=notes, skip=DIED)
            team_store.store_files(db, run.family, self._tools.recipe, [skipped])
            self._close(db, run.id, batch)
            return f"{run.identity} {source.path}: left out, {notes[0]}"
        middle = len(files) // 2
        for part in (files[:middle], files[middle:]):
            self._add_batch(db, run.id, [source.path for source, _ in part])
        db.execute("UPDATE index_batches SET divided = true WHERE id = %s", (batch,))
        self._close(db, run.id, batch)
        return f"{run.identity}: {len(files)} files divided, {DEATHS} workers died at them"

    def finish(self, run: int) -> str:
        """Change the tree as planned, in one transaction that notifies the servers."""
        tools, commits = self._tools, self._commits(run)
        with self._database.transaction() as db:
            row = db.execute(f"{_RUN} FOR UPDATE OF r, t", (run,)).fetchall()
            if not row:
                return "done already"
            plan = _Run(*row[0])
            query = f"""SELECT n.path, n.size, n.mtime_ns, n.sha256 IS NULL, ({_FILE}) FROM index_files n
                        WHERE n.run = %(run)s"""
            values = {"run": run, "family": plan.family, "recipe": tools.recipe, "rules": list(CONTENT_RULES)}
            rows = db.execute(query, values).fetchall()
            if gone := [(path, size) for path, size, _, removed, file in rows if not removed and file is None]:
                self._add_batches(db, run, gone)  # garbage-collected meanwhile
                return f"{plan.identity} {plan.ref}: {len(gone)} files are needed again"
            placed = [(SourceFile(*row[:3]), row[4]) for row in rows if row[4] is not None]
            team_store.set_entries(db, plan.tree, placed, [row[0] for row in rows if row[3]])
            meta = {**tools.meta, "lacking": str(plan.lacking), "indexed_at": iso_time(), "root": plan.identity}
            if commits:
                team_store.attach_commits(db, plan.tree, commits)
            team_store.finish_tree(db, plan.tree, meta, plan.revision)
            db.execute("DELETE FROM index_files WHERE run = %s", (run,))
            db.execute("UPDATE index_runs SET state = 'done', finished_at = now() WHERE id = %s", (run,))
            if plan.again:
                defer_index(db, plan.project, plan.ref)
        with self._database.transaction() as db:
            team_store.collect(db, plan.family, tools.recipe, tools.keep)
        return f"{plan.identity} {plan.ref} is at {plan.revision[:12]}: {len(rows)} files changed"

    def _commits(self, run: int) -> bytes:
        query = "SELECT data FROM attachments WHERE tree = %s AND name = %s"
        row = self._database.rows(_RUN, (run,))
        if not row:
            return b""
        plan = _Run(*row[0])
        before = self._database.rows(query, (plan.tree, COMMITS_FILE))
        mirror = self._tools.mirrors.of(plan.clone_url)
        with mirror.in_use():
            mirror.ensure(plan.revision)
            return self._tools.commits(mirror.folder, plan.revision, before[0][0] if before else b"")


class _Target(IndexTarget):
    """Where the index pipeline writes a batch: files are stored for the family, not yet in a tree."""

    def __init__(self, tools: Tools, family: str) -> None:
        self._database = tools.database
        self._key = (family, tools.recipe)

    def find_stored(self, paths: Sequence[str]) -> dict[tuple[str, str], list[StoredFile]]:
        query = """SELECT path, sha256, id, skip, brought_back FROM files
                   WHERE family = %s AND recipe = %s AND path = ANY(%s)"""
        return group_stored(self._database.rows(query, (*self._key, list(paths))))

    def vectors_by_hash(self, sha256: str) -> Vectors | None:
        query = """SELECT payload FROM files WHERE family = %s AND recipe = %s AND sha256 = %s AND chunk_count > 0
                   LIMIT 1"""
        payloads = self._database.rows(query, (*self._key, sha256))
        return team_store.decode_file(payloads[0][0]).vectors if payloads else None

    def earlier_version(self, path: str) -> tuple[Sequence[Chunk], Vectors] | None:
        query = """SELECT payload FROM files WHERE family = %s AND recipe = %s AND path = %s AND chunk_count > 0
                   AND NOT sha256 ^@ %s ORDER BY id DESC LIMIT 1"""
        for (payload,) in self._database.rows(query, (*self._key, path, UPLOADED)):
            file = team_store.decode_file(payload)
            return (file.parsed.chunks, file.vectors) if file.vectors is not None else None
        return None

    def apply(
        self, files: Iterable[IndexedFile], removed: Sequence[str], touched: Sequence[SourceFile], reused: Placed = ()
    ) -> None:
        by_path = sorted(files, key=lambda file: file.source.path)  # before a transaction begins
        if by_path:
            with self._database.transaction() as db:
                team_store.store_files(db, *self._key, by_path)


def is_followed(ref: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(ref, pattern) for pattern in patterns)


def _read(files: Files, sources: Iterable[SourceFile]) -> tuple[list[tuple[SourceFile, str, bool]], int]:
    """Each with its content hash and whether an ignore file re-includes it; and how many cannot be read."""
    read, lacking = list[tuple[SourceFile, str, bool]](), 0
    for source, loaded in files.load(sources):
        if isinstance(loaded, Skip):
            lacking += loaded.rule == LACKING
        else:
            read.append((source, loaded.sha256, files.brings_back(source.path)))
    return read, lacking
