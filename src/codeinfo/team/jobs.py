"""The queue of jobs, which is procrastinate's over the team's database, and the worker that does them.

A job is deferred in the transaction that makes it necessary. A worker shows that it is alive by a heartbeat; the jobs
of one that stopped are queued again by any other. A job that fails is tried again, each time later, and is then given
up and shown.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from typing import Any

import procrastinate
import psycopg
from procrastinate import exceptions, jobs
from psycopg import sql

from codeinfo.errors import CodeInfoError, StoreUnavailable
from codeinfo.operations.base import Progress
from codeinfo.operations.team import TeamFailure, TeamJobs, TeamRun
from codeinfo.team.database import CONNECTING, SCHEMA, Connection, TeamDatabase
from codeinfo.team.indexing import BATCH, FINISH, INDEX, Indexing, Tools

QUEUE = "index"  # for jobs that any worker does; the others have the recipe in the name of their queue
ATTEMPTS = 8  # with waits of 2, 4, 8 … seconds in between, about 4 minutes
MOST_LOSSES = 50  # of workers at one job, after which it is given up
DRAIN_S = 60.0  # for the job in hand, at the end of a worker
HISTORY_DAYS = 7  # of runs and failed jobs
DELIVERY_DAYS = 90
LOST_AFTER = 6  # heartbeats that are missing
_TIDY_S = 600.0
_RECONNECT_S = (0.5, 10.0)  # from, to

log = logging.getLogger(__name__)


# --- deferring -----------------------------------------------------------------------------------------------------


@cache
def _deferring() -> procrastinate.App:
    return procrastinate.App(connector=procrastinate.SyncPsycopgConnector())  # the connection is always a caller's


def defer(db: Connection, job: str, arguments: Mapping[str, Any], *, key: str = "", queue: str = QUEUE) -> None:
    """Queue a job in the caller's transaction. Of jobs with one `key` one waits and one runs at a time."""
    configured = _deferring().configure_task(
        job, queue=queue, lock=key or None, queueing_lock=key or None, connection=db, allow_unknown=True
    )
    try:
        with db.transaction():
            configured.defer(**arguments)
    except exceptions.AlreadyEnqueued:
        pass


def defer_index(db: Connection, project: int, ref: str) -> None:
    """Have a branch or tag looked at: fetched, and indexed where it changed."""
    defer(db, INDEX, {"project": project, "ref": ref}, key=f"{project} {ref}")


def _own_queue(recipe: str) -> str:
    """Batches are for workers that parse and embed in the same way: after an upgrade there may be others."""
    return f"{QUEUE}-{sha256(recipe.encode()).hexdigest()[:12]}"


# --- the worker ----------------------------------------------------------------------------------------------------


class _Retry(procrastinate.BaseRetryStrategy):
    def get_retry_decision(self, *, exception: BaseException, job: jobs.Job) -> procrastinate.RetryDecision | None:
        if isinstance(exception, exceptions.JobAborted | asyncio.CancelledError):  # by a worker that ends
            return procrastinate.RetryDecision()
        if job.attempts + 1 >= ATTEMPTS:
            return None
        return procrastinate.RetryDecision(retry_in={"seconds": 2 ** (job.attempts + 1)})


def run_worker(tools: Tools, heartbeat_s: float, *, until_idle: bool = False) -> None:
    """Do jobs until SIGTERM or SIGINT: the one in hand is finished first, or given back after DRAIN_S. With
    `until_idle` only what is queued is done."""
    asyncio.run(_Worker(tools, heartbeat_s).run(until_idle=until_idle))


class _Worker:
    def __init__(self, tools: Tools, heartbeat_s: float) -> None:
        self._tools = tools
        self._heartbeat_s = heartbeat_s
        self._lost_after_s = LOST_AFTER * heartbeat_s
        self._queue = _own_queue(tools.recipe)
        self._indexing = Indexing(tools, self._defer)
        self._stopping = False

    def _defer(self, db: Connection, job: str, arguments: Mapping[str, Any], *, key: str = "") -> None:
        defer(db, job, arguments, key=key, queue=QUEUE if job == INDEX else self._queue)

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
        timer = threading.Timer(DRAIN_S + 20, os._exit, (0,))  # what it was at is then taken over
        timer.daemon = True
        timer.start()

    async def _work(self, *, until_idle: bool) -> None:
        connector = procrastinate.PsycopgConnector(
            conninfo=self._tools.database.url,
            kwargs=CONNECTING,
            min_size=1,
            max_size=4,
            timeout=10,
            configure=_configure,
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

        def add(name: str, perform: Callable[..., str], **failed: str) -> None:
            """`failed` names the argument by which a run is found that is given up with the job."""

            @app.task(name=name, retry=_Retry(), pass_context=True)
            def job(context: procrastinate.JobContext, /, **arguments: Any) -> None:
                try:
                    if name == BATCH:
                        log.info("%s", perform(**arguments, progress=_stopper(context)))
                    else:
                        log.info("%s", perform(**arguments))
                except Exception as error:
                    text = str(error) if isinstance(error, CodeInfoError) else f"{type(error).__name__}: {error}"
                    if not isinstance(error, exceptions.JobAborted):
                        log.warning("%s %s: %s", name, arguments, text)
                        note_problem(self._tools.database, context.job.id, text)
                    if context.job.attempts + 1 >= ATTEMPTS and failed:
                        self._indexing.fail(text, **{key: arguments[value] for key, value in failed.items()})
                    raise

        add(INDEX, self._indexing.plan)
        add(BATCH, self._indexing.index_batch, batch="batch")
        add(FINISH, self._indexing.finish, run="run")
        return app

    async def _look_after_jobs(self) -> None:
        """Take over what lost workers had in hand, and now and then remove what is over."""
        tidied = -_TIDY_S
        while True:
            try:
                await asyncio.to_thread(rescue_jobs, self._tools.database, self._lost_after_s)
                now = asyncio.get_running_loop().time()
                if now - tidied > _TIDY_S:
                    tidied = now
                    await asyncio.to_thread(forget_history, self._tools.database)
                    await asyncio.to_thread(self._drop_mirrors)
            except CodeInfoError as error:
                log.warning("%s", error)
            await asyncio.sleep(self._lost_after_s / 3)

    def _drop_mirrors(self) -> None:
        query = "SELECT identity FROM projects WHERE clone_url <> ''"
        known = self._tools.database.read(lambda db: [row[0] for row in db.execute(query)])
        self._tools.mirrors.keep_only(known)


def _stopper(context: procrastinate.JobContext) -> Callable[[Progress], None]:
    def look(progress: Progress) -> None:
        if context.should_abort():
            raise exceptions.JobAborted

    return look


async def _configure(db: psycopg.AsyncConnection[Any]) -> None:
    await db.execute(sql.SQL("SET search_path = {}, public").format(sql.Identifier(SCHEMA)))
    await db.commit()


_NOTE = """INSERT INTO job_problems(job, problem) VALUES (%s, %s)
           ON CONFLICT (job) DO UPDATE SET problem = excluded.problem, at = now()"""


def note_problem(database: TeamDatabase, job: int | None, problem: str) -> None:
    """For `team jobs`; where the database is the problem the log has to do."""
    with suppress(StoreUnavailable), database.transaction() as db:
        db.execute(_NOTE, (job, problem[:1000]))


def rescue_jobs(database: TeamDatabase, lost_after_s: float) -> int:
    """Queue the jobs of lost workers again; those that too many were lost at are given up."""
    lost = """SELECT j.id, j.attempts FROM procrastinate_jobs j
              LEFT JOIN procrastinate_workers w ON w.id = j.worker_id
              WHERE j.status = 'doing' AND (w.id IS NULL OR w.last_heartbeat < now() - %s * interval '1 second')
              FOR UPDATE OF j SKIP LOCKED"""
    with database.transaction() as db:
        found = db.execute(lost, (lost_after_s,)).fetchall()
        for job, attempts in found:
            if attempts >= MOST_LOSSES:
                db.execute("SELECT procrastinate_finish_job_v1(%s, 'failed', false)", (job,))
                problem = f"{attempts} workers were lost at it"
                db.execute(_NOTE, (job, problem))
                db.execute(_GIVE_UP, (problem, job))
            else:
                db.execute("SELECT procrastinate_retry_job_v2(%s, now(), NULL, NULL, NULL)", (job,))
        if found:  # nobody is told of a job that is queued again
            db.execute("""SELECT pg_notify('procrastinate_any_queue_v1', '{"type": "job_inserted", "job_id": 0}')""")
    return len(found)


_GIVE_UP = """UPDATE index_runs r SET state = 'failed', problem = %s, finished_at = now() FROM procrastinate_jobs j
              WHERE j.id = %s AND r.state = 'active' AND (r.id = (j.args->>'run')::bigint
              OR r.id = (SELECT run FROM index_batches b WHERE b.id = (j.args->>'batch')::bigint))"""


def forget_history(database: TeamDatabase) -> None:
    with database.transaction() as db:
        old = (HISTORY_DAYS,)
        db.execute(
            """UPDATE index_runs SET state = 'failed', problem = 'no worker of its release is left', finished_at = now()
               WHERE state = 'active' AND started_at < now() - %s * interval '1 day'""",
            old,
        )
        db.execute("DELETE FROM deliveries WHERE at < now() - %s * interval '1 day'", (DELIVERY_DAYS,))
        # What a batch stored while its project was removed.
        db.execute("""DELETE FROM files WHERE family IN (SELECT DISTINCT family FROM dropped_trees d WHERE NOT EXISTS (
                        SELECT 1 FROM projects p WHERE p.family = d.family))""")
        db.execute("DELETE FROM dropped_trees WHERE at < now() - %s * interval '1 day'", (DELIVERY_DAYS,))
        db.execute("DELETE FROM index_runs WHERE finished_at < now() - %s * interval '1 day'", old)
        db.execute(
            """DELETE FROM procrastinate_jobs j WHERE status IN ('failed', 'cancelled', 'aborted') AND NOT EXISTS (
               SELECT 1 FROM procrastinate_events e WHERE e.job_id = j.id AND e.at > now() - %s * interval '1 day')""",
            old,
        )


# --- what is going on ----------------------------------------------------------------------------------------------


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
    failed = f"""SELECT j.task_name, j.args::text, j.attempts, {_moment("p.at")}, p.problem FROM procrastinate_jobs j
                 JOIN job_problems p ON p.job = j.id WHERE j.status = %s ORDER BY p.at DESC LIMIT %s"""
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
