"""The operators' view of a server, on a separate address: metrics for Prometheus, liveness and readiness. Also spans
for OpenTelemetry, if installed, and logs as JSON."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from codeinfo.errors import CodeInfoError, UsageError, requires
from codeinfo.serve.dispatch import Observe, observe_nothing

Reading = tuple[str, str, Mapping[str, float]]  # a gauge: its name, its description, its values by label
Readings = Callable[[], Iterable[Reading]]
Problem = Callable[[], str]  # why the server is not ready; "" if it is

# Seconds. A search takes milliseconds, a first access to a large project seconds.
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120)
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

log = logging.getLogger(__name__)


class Metrics:
    """Counts operations. `shared_folder` is where the processes of one server count together."""

    def __init__(self, shared_folder: str = "") -> None:
        if shared_folder:  # read by the library on first import
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = shared_folder
        with requires("server"):
            import prometheus_client
            from prometheus_client import multiprocess

        self._library = prometheus_client
        self._registry = prometheus_client.CollectorRegistry()
        self._seconds = prometheus_client.Histogram(
            "codeinfo_operation_seconds",
            "How long operations took.",
            ("operation", "client"),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._errors = prometheus_client.Counter(
            "codeinfo_operation_errors",
            "Operations that failed, by error code.",
            ("operation", "client", "code"),
            registry=self._registry,
        )
        self._pulls = prometheus_client.Counter(
            "codeinfo_cache_lookups",
            "Checks whether a local copy of a tree is up to date: hit or behind.",
            ("result",),
            registry=self._registry,
        )
        self._counted = self._registry
        if shared_folder:
            self._counted = prometheus_client.CollectorRegistry()
            multiprocess.MultiProcessCollector(self._counted, shared_folder)  # type: ignore[no-untyped-call]

    @contextmanager
    def observe(self, operation: str, client: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        except BaseException as error:
            code = error.code if isinstance(error, CodeInfoError) else "INTERNAL"
            self._errors.labels(operation, client, code).inc()
            raise
        finally:
            self._seconds.labels(operation, client).observe(time.perf_counter() - started)

    def count_pull(self, behind: bool) -> None:
        self._pulls.labels("behind" if behind else "hit").inc()

    def text(self, readings: Iterable[Reading]) -> bytes:
        """The Prometheus text format: counters, and these gauges."""
        now = self._library.CollectorRegistry()
        for name, about, values in readings:
            (label, *_) = (*(key.partition("=")[0] for key in values if key), "")
            gauge = self._library.Gauge(name, about, (label,) if label else (), registry=now)
            for key, value in values.items():
                (gauge.labels(key.partition("=")[2]) if label else gauge).set(value)
        return self._library.generate_latest(self._counted) + self._library.generate_latest(now)


def memory_reading(pids: Iterable[int]) -> Reading:
    """The resident memory of processes; one that has just ended has none."""
    total = 0
    for pid in pids:
        try:
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
        except (OSError, IndexError, ValueError):
            continue
    return "codeinfo_resident_memory_bytes", "Memory of the server's processes.", {"": float(total)}


def with_spans(observe: Observe = observe_nothing) -> Observe:
    """Each operation as a span too, if OpenTelemetry is installed; setting up its SDK is up to the operator."""
    try:
        from opentelemetry import trace
    except ModuleNotFoundError:
        return observe
    tracer = trace.get_tracer("codeinfo")

    @contextmanager
    def observed(operation: str, client: str) -> Iterator[None]:
        with (
            tracer.start_as_current_span(operation, attributes={"codeinfo.client": client}),
            observe(operation, client),
        ):
            yield

    return observed


# --- the operators' address ----------------------------------------------------------------------------------------


def serve_operators(address: str, metrics: Metrics, readings: Readings, problem: Problem) -> None:
    """`/metrics`, `/health` (the process is alive) and `/ready` (send it requests), without a token: bind it to an
    address that only operators reach."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, body = self._reply()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _reply(self) -> tuple[int, str, bytes]:
            if self.path == "/metrics":
                return 200, "text/plain; version=0.0.4; charset=utf-8", metrics.text(readings())
            if self.path in ("/health", "/ready"):
                why = problem() if self.path == "/ready" else ""
                return 503 if why else 200, "application/json", probe_body(why).encode()
            return 404, "text/plain", b"/metrics, /health, /ready\n"

        def log_message(self, *_: Any) -> None:
            """Probes come every few seconds: they are not logged."""

    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        raise UsageError(f"{address!r} is not an address", next_step="Set serve.metrics_address as in 127.0.0.1:9464")
    try:
        server = ThreadingHTTPServer((host.strip("[]"), int(port)), Handler)
    except OSError as error:
        raise UsageError(
            f"{address} cannot be used: {error.strerror}", next_step="Set serve.metrics_address to another one"
        ) from error
    threading.Thread(target=server.serve_forever, name="codeinfo metrics", daemon=True).start()


def probe_body(why: str) -> str:
    return json.dumps({"status": "unavailable", "reason": why} if why else {"status": "ok"})


# --- logs ----------------------------------------------------------------------------------------------------------


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{when}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_as_json() -> None:
    """Write all log records from INFO up, and each request, to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
